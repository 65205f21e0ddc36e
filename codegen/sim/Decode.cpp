//===- Decode.cpp - Sched IR to steps ---------------------------------------===//
//
// Which values differ between lanes is decided first (a fixed point over the kernel); then ops become steps in order.
// The arithmetic of expressions is here, one line an op.
//
//===----------------------------------------------------------------------===//

#include "codegen/sim/Decode.h"

#include "codegen/sim/Machine.h"
#include "codegen/sim/Numbers.h"
#include "ir/sched/Sched.h"
#include "ir/tile/Signature.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace attune;
using namespace attune::sim;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {

/// An operand of a step on all lanes: its own memory, or one number spread out.
template <typename T> class Spread {
public:
  Spread(Warp &warp, Slot slot) {
    if (slot.varies) {
      values = reinterpret_cast<const T *>(warp.value(slot));
      return;
    }
    std::fill_n(copy, lanes, warp.get<T>(slot, 0));
    values = copy;
  }
  Spread(const Spread &) = delete;
  T operator[](int lane) const { return values[lane]; }

private:
  const T *values;
  T copy[lanes];
};

/// out = f(in...), uniform or in all lanes: expressions have no effects, so that inactive lanes do no harm.
template <auto f, typename R, typename... A, size_t... i>
Go applyTo(Warp &warp, const Step &step, std::index_sequence<i...>) {
  if (!step.out[0].varies) {
    warp.set<R>(step.out[0], 0, f(warp.get<A>(step.in[i], 0)...));
    return Go::Next;
  }
  R *out = reinterpret_cast<R *>(warp.value(step.out[0]));
  [out](const Spread<A> &...operands) {
    for (int lane = 0; lane < lanes; ++lane)
      out[lane] = f(operands[lane]...);
  }(Spread<A>(warp, step.in[i])...);
  return Go::Next;
}
template <auto f, typename... A> Go apply(Machine &, Warp &warp, const Step &step) {
  return applyTo<f, decltype(f(A()...)), A...>(warp, step, std::index_sequence_for<A...>());
}

/// The step of a function of `arity` operands of one type.
template <auto f, typename T> Run onType(unsigned arity) {
  if constexpr (std::is_invocable_v<decltype(f), T>)
    return arity == 1 ? &apply<f, T> : nullptr;
  else if constexpr (std::is_invocable_v<decltype(f), T, T>)
    return arity == 2 ? &apply<f, T, T> : nullptr;
  else
    return arity == 3 ? &apply<f, T, T, T> : nullptr;
}
template <auto f> Run floats(Operation *op) { return onType<f, float>(op->getNumOperands()); }
/// i32 and i64.
template <auto f> Run integers(Operation *op) {
  Type type = op->getOperand(0).getType();
  return type.isInteger(32)   ? onType<f, int32_t>(op->getNumOperands())
         : type.isInteger(64) ? onType<f, int64_t>(op->getNumOperands())
                              : nullptr;
}
/// i1 too, as bool.
template <auto f> Run bits(Operation *op) {
  return op->getOperand(0).getType().isInteger(1) ? onType<f, bool>(op->getNumOperands()) : integers<f>(op);
}
/// From one type to another.
template <auto f, typename From> Run cast() { return &apply<f, From>; }

template <typename T> constexpr bool isBool = std::is_same_v<T, bool>;
template <typename T> auto natural(T x) {
  if constexpr (isBool<T>)
    return x;
  else
    return std::make_unsigned_t<T>(x);
}
/// As a signed number true is -1.
template <typename T> auto whole(T x) {
  if constexpr (isBool<T>)
    return x ? -1 : 0;
  else
    return x;
}
template <typename T> int shiftOf(T count) { return int(natural(count) % (8 * sizeof(T))); }

Run compareIntegers(arith::CmpIOp op) {
  using P = arith::CmpIPredicate;
  switch (op.getPredicate()) {
  case P::eq:
    return bits<[](auto a, decltype(a) b) { return a == b; }>(op);
  case P::ne:
    return bits<[](auto a, decltype(a) b) { return a != b; }>(op);
  case P::slt:
    return bits<[](auto a, decltype(a) b) { return whole(a) < whole(b); }>(op);
  case P::sle:
    return bits<[](auto a, decltype(a) b) { return whole(a) <= whole(b); }>(op);
  case P::sgt:
    return bits<[](auto a, decltype(a) b) { return (whole(a) > whole(b)); }>(op);
  case P::sge:
    return bits<[](auto a, decltype(a) b) { return (whole(a) >= whole(b)); }>(op);
  case P::ult:
    return bits<[](auto a, decltype(a) b) { return natural(a) < natural(b); }>(op);
  case P::ule:
    return bits<[](auto a, decltype(a) b) { return natural(a) <= natural(b); }>(op);
  case P::ugt:
    return bits<[](auto a, decltype(a) b) { return (natural(a) > natural(b)); }>(op);
  case P::uge:
    return bits<[](auto a, decltype(a) b) { return (natural(a) >= natural(b)); }>(op);
  }
  llvm_unreachable("unknown predicate");
}

Run compareFloats(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return floats<[](float, float) { return false; }>(op);
  case P::OEQ:
    return floats<[](float a, float b) { return a == b; }>(op);
  case P::OGT:
    return floats<[](float a, float b) { return (a > b); }>(op);
  case P::OGE:
    return floats<[](float a, float b) { return a >= b; }>(op);
  case P::OLT:
    return floats<[](float a, float b) { return a < b; }>(op);
  case P::OLE:
    return floats<[](float a, float b) { return a <= b; }>(op);
  case P::ONE:
    return floats<[](float a, float b) { return (a < b || a > b); }>(op);
  case P::ORD:
    return floats<[](float a, float b) { return !std::isunordered(a, b); }>(op);
  case P::UEQ:
    return floats<[](float a, float b) { return !(a < b || a > b); }>(op);
  case P::UGT:
    return floats<[](float a, float b) { return !(a <= b); }>(op);
  case P::UGE:
    return floats<[](float a, float b) { return !(a < b); }>(op);
  case P::ULT:
    return floats<[](float a, float b) { return !(a >= b); }>(op);
  case P::ULE:
    return floats<[](float a, float b) { return !(a > b); }>(op);
  case P::UNE:
    return floats<[](float a, float b) { return a != b; }>(op);
  case P::UNO:
    return floats<[](float a, float b) { return std::isunordered(a, b); }>(op);
  case P::AlwaysTrue:
    return floats<[](float, float) { return true; }>(op);
  }
  llvm_unreachable("unknown predicate");
}

template <typename To, typename From32, typename From64> Run fromInteger(Type from) {
  if (from.isInteger(1))
    return cast<[](bool x) { return To(std::is_signed_v<From32> ? -int(x) : int(x)); }, bool>();
  if (from.isInteger(32))
    return cast<[](int32_t x) { return To(From32(x)); }, int32_t>();
  return from.isInteger(64) ? cast<[](int64_t x) { return To(From64(x)); }, int64_t>() : nullptr;
}

/// The step of an arith or math op, or null.
Run arithmetic(Operation *op) {
  Type from = op->getNumOperands() ? op->getOperand(0).getType() : Type(), to = op->getResult(0).getType();
  return llvm::TypeSwitch<Operation *, Run>(op)
      // Integers.
      .Case([](arith::AddIOp o) { return bits<[](auto a, decltype(a) b) { return add(a, b); }>(o); })
      .Case([](arith::SubIOp o) { return bits<[](auto a, decltype(a) b) { return subtract(a, b); }>(o); })
      .Case([](arith::MulIOp o) { return bits<[](auto a, decltype(a) b) { return times(a, b); }>(o); })
      .Case([](arith::DivSIOp o) { return integers<[](auto a, decltype(a) b) { return divide(a, b); }>(o); })
      .Case([](arith::RemSIOp o) { return integers<[](auto a, decltype(a) b) { return remainder(a, b); }>(o); })
      .Case([](arith::DivUIOp o) { return integers<[](auto a, decltype(a) b) { return divideUnsigned(a, b); }>(o); })
      .Case([](arith::RemUIOp o) { return integers<[](auto a, decltype(a) b) { return remainderUnsigned(a, b); }>(o); })
      .Case([](arith::FloorDivSIOp o) { return integers<[](auto a, decltype(a) b) { return divideDown(a, b); }>(o); })
      .Case([](arith::CeilDivSIOp o) { return integers<[](auto a, decltype(a) b) { return divideUp(a, b); }>(o); })
      .Case([](arith::MinSIOp o) { return integers<[](auto a, decltype(a) b) { return std::min(a, b); }>(o); })
      .Case([](arith::MaxSIOp o) { return integers<[](auto a, decltype(a) b) { return std::max(a, b); }>(o); })
      .Case([](arith::MinUIOp o) {
        return integers<[](auto a, decltype(a) b) { return natural(a) < natural(b) ? a : b; }>(o);
      })
      .Case([](arith::MaxUIOp o) {
        return integers<[](auto a, decltype(a) b) { return natural(b) < natural(a) ? a : b; }>(o);
      })
      .Case([](arith::AndIOp o) { return bits<[]<typename T>(T a, T b) { return T(a & b); }>(o); })
      .Case([](arith::OrIOp o) { return bits<[]<typename T>(T a, T b) { return T(a | b); }>(o); })
      .Case([](arith::XOrIOp o) { return bits<[]<typename T>(T a, T b) { return T(a ^ b); }>(o); })
      .Case(
          [](arith::ShLIOp o) { return integers<[]<typename T>(T a, T b) { return T(natural(a) << shiftOf(b)); }>(o); })
      .Case([](arith::ShRUIOp o) {
        return integers<[]<typename T>(T a, T b) { return T(natural(a) >> shiftOf(b)); }>(o);
      })
      .Case([](arith::ShRSIOp o) { return integers<[]<typename T>(T a, T b) { return T(a >> shiftOf(b)); }>(o); })
      .Case([](math::AbsIOp o) { return integers<[]<typename T>(T a) { return a < 0 ? subtract(T(0), a) : a; }>(o); })
      .Case([](arith::CmpIOp o) { return compareIntegers(o); })
      .Case([&](arith::SelectOp) -> Run {
        if (to.isF32())
          return &apply<[](bool c, float a, float b) { return c ? a : b; }, bool, float, float>;
        if (to.isInteger(1))
          return &apply<[](bool c, bool a, bool b) { return c ? a : b; }, bool, bool, bool>;
        if (to.isInteger(32))
          return &apply<[](bool c, int32_t a, int32_t b) { return c ? a : b; }, bool, int32_t, int32_t>;
        return to.isInteger(64) ? &apply<[](bool c, int64_t a, int64_t b) { return c ? a : b; }, bool, int64_t, int64_t>
                                : nullptr;
      })
      // Conversions.
      .Case([&](arith::ExtSIOp) {
        return to.isInteger(64) ? fromInteger<int64_t, int32_t, int64_t>(from)
                                : fromInteger<int32_t, int32_t, int64_t>(from);
      })
      .Case([&](arith::ExtUIOp) {
        return to.isInteger(64) ? fromInteger<int64_t, uint32_t, uint64_t>(from)
                                : fromInteger<int32_t, uint32_t, uint64_t>(from);
      })
      .Case([&](arith::TruncIOp) -> Run {
        if (to.isInteger(32))
          return cast<[](int64_t x) { return int32_t(x); }, int64_t>();
        return from.isInteger(64) ? cast<[](int64_t x) { return (x & 1) != 0; }, int64_t>()
                                  : cast<[](int32_t x) { return (x & 1) != 0; }, int32_t>();
      })
      .Case([&](arith::SIToFPOp) { return fromInteger<float, int32_t, int64_t>(from); })
      .Case([&](arith::UIToFPOp) { return fromInteger<float, uint32_t, uint64_t>(from); })
      .Case([&](arith::FPToSIOp) {
        return to.isInteger(64) ? cast<[](float x) { return toInteger<int64_t>(x); }, float>()
                                : cast<[](float x) { return toInteger<int32_t>(x); }, float>();
      })
      .Case([&](arith::BitcastOp) -> Run {
        if (from.isF32() && to.isInteger(32))
          return cast<[](float x) { return std::bit_cast<int32_t>(x); }, float>();
        return from.isInteger(32) && to.isF32() ? cast<[](int32_t x) { return std::bit_cast<float>(x); }, int32_t>()
                                                : nullptr;
      })
      // Floats.
      .Case([](arith::AddFOp o) { return floats<[](float a, float b) { return a + b; }>(o); })
      .Case([](arith::SubFOp o) { return floats<[](float a, float b) { return a - b; }>(o); })
      .Case([](arith::MulFOp o) { return floats<[](float a, float b) { return a * b; }>(o); })
      .Case([](arith::DivFOp o) { return floats<[](float a, float b) { return a / b; }>(o); })
      .Case([](arith::RemFOp o) { return floats<[](float a, float b) { return std::fmod(a, b); }>(o); })
      .Case([](arith::NegFOp o) { return floats<[](float a) { return -a; }>(o); })
      .Case([](arith::MaximumFOp o) {
        return floats<[](float a, float b) { return std::isunordered(a, b) ? std::nanf("") : std::fmax(a, b); }>(o);
      })
      .Case([](arith::MinimumFOp o) {
        return floats<[](float a, float b) { return std::isunordered(a, b) ? std::nanf("") : std::fmin(a, b); }>(o);
      })
      .Case([](arith::MaxNumFOp o) { return floats<[](float a, float b) { return b < a || b != b ? a : b; }>(o); })
      .Case([](arith::MinNumFOp o) { return floats<[](float a, float b) { return a < b || b != b ? a : b; }>(o); })
      .Case([](arith::CmpFOp o) { return compareFloats(o); })
      .Case([](math::FmaOp o) { return floats<[](float a, float b, float c) { return std::fma(a, b, c); }>(o); })
      .Case([](math::AbsFOp o) { return floats<[](float a) { return std::fabs(a); }>(o); })
      .Case([](math::CopySignOp o) { return floats<[](float a, float b) { return std::copysign(a, b); }>(o); })
      .Case([](math::FloorOp o) { return floats<[](float a) { return std::floor(a); }>(o); })
      .Case([](math::CeilOp o) { return floats<[](float a) { return std::ceil(a); }>(o); })
      .Case([](math::TruncOp o) { return floats<[](float a) { return std::trunc(a); }>(o); })
      .Case([](math::RoundOp o) { return floats<[](float a) { return std::round(a); }>(o); })
      .Case([](math::RoundEvenOp o) { return floats<[](float a) { return std::nearbyint(a); }>(o); })
      .Case([](math::ExpOp o) { return floats<[](float a) { return std::exp(a); }>(o); })
      .Case([](math::Exp2Op o) { return floats<[](float a) { return std::exp2(a); }>(o); })
      .Case([](math::ExpM1Op o) { return floats<[](float a) { return std::expm1(a); }>(o); })
      .Case([](math::LogOp o) { return floats<[](float a) { return std::log(a); }>(o); })
      .Case([](math::Log2Op o) { return floats<[](float a) { return std::log2(a); }>(o); })
      .Case([](math::Log10Op o) { return floats<[](float a) { return std::log10(a); }>(o); })
      .Case([](math::Log1pOp o) { return floats<[](float a) { return std::log1p(a); }>(o); })
      .Case([](math::TanhOp o) { return floats<[](float a) { return std::tanh(a); }>(o); })
      .Case([](math::SinOp o) { return floats<[](float a) { return std::sin(a); }>(o); })
      .Case([](math::CosOp o) { return floats<[](float a) { return std::cos(a); }>(o); })
      .Case([](math::TanOp o) { return floats<[](float a) { return std::tan(a); }>(o); })
      .Case([](math::PowFOp o) { return floats<[](float a, float b) { return std::pow(a, b); }>(o); })
      .Case([](math::ErfOp o) { return floats<[](float a) { return std::erf(a); }>(o); })
      .Case([](math::AtanOp o) { return floats<[](float a) { return std::atan(a); }>(o); })
      .Case([](math::Atan2Op o) { return floats<[](float a, float b) { return std::atan2(a, b); }>(o); })
      .Case([](math::SqrtOp o) { return floats<[](float a) { return std::sqrt(a); }>(o); })
      .Case([](math::RsqrtOp o) { return floats<[](float a) { return 1.0f / std::sqrt(a); }>(o); })
      // Formats.
      .Case([](sched::PackOp o) -> Run {
        if (o.getType().isBF16())
          return &apply<[](float low, float high) { return int32_t(toBf16(low) | uint32_t(toBf16(high)) << 16); },
                        float, float>;
        return o.getType().isF16()
                   ? &apply<[](float low, float high) { return int32_t(toF16(low) | uint32_t(toF16(high)) << 16); },
                            float, float>
                   : nullptr;
      })
      .Case([](tile::MulFiniteOp o) { return floats<[](float a, float b) { return multiplyTowardZero(a, b); }>(o); })
      .Case([](sched::BehindOp) -> Run { return &apply<[](float value, float) { return value; }, float, float>; })
      .Case([](sched::ColumnsBelowOp) -> Run {
        return &apply<[](int32_t bound) {
          uint32_t columns = 0;
          for (int bit = 0; bit < 32; ++bit)
            columns |= uint32_t(bit / 2 * 8 + bit % 2 < bound) << bit;
          return int32_t(columns);
        },
                      int32_t>;
      })
      .Case([](sched::TestBitOp) -> Run {
        return &apply<[](int32_t word, int32_t index) { return (uint32_t(word) >> (index & 31) & 1) != 0; }, int32_t,
                      int32_t>;
      })
      .Case([](sched::UnpackOp o) -> Run {
        if (o.getType().isBF16())
          return &apply<[](int32_t pair, int32_t high) {
            return fromBf16(uint16_t(uint32_t(pair) >> (high ? 16 : 0)));
          },
                        int32_t, int32_t>;
        return o.getType().isF16() ? &apply<[](int32_t pair, int32_t high) {
          return fromF16(uint16_t(uint32_t(pair) >> (high ? 16 : 0)));
        },
                                            int32_t, int32_t>
                                   : nullptr;
      })
      .Default([](Operation *) { return nullptr; });
}

//===----------------------------------------------------------------------===//
// Values by lane
//===----------------------------------------------------------------------===//

/// What flows into the arguments and results of a loop or branch: (from, to).
SmallVector<std::pair<Value, Value>> flowOf(Operation *op) {
  SmallVector<std::pair<Value, Value>> flow;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [init, argument, next, result] :
         llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs(), loop.getYieldedValues(), loop.getResults()))
      flow.append({{init, argument}, {next, argument}, {argument, result}});
    flow.append({{loop.getLowerBound(), loop.getInductionVar()}, {loop.getStep(), loop.getInductionVar()}});
  } else if (auto tiles = dyn_cast<sched::ForTilesOp>(op)) {
    for (auto [i, init] : llvm::enumerate(tiles.getInits())) {
      Value argument = tiles.getBody().getArgument(i);
      flow.append({{init, argument}, {tiles.getNext().getValues()[i], argument}});
      if (tiles.getKeeps())
        flow.push_back({argument, tiles.getKept()[i]});
    }
  } else if (auto branch = dyn_cast<scf::IfOp>(op); branch && branch.getNumResults()) {
    for (auto [yes, no, result] :
         llvm::zip(branch.thenYield()->getOperands(), branch.elseYield()->getOperands(), branch.getResults()))
      flow.append({{yes, result}, {no, result}});
  } else if (auto work = dyn_cast<sched::ForWorkOp>(op); work && work.getNext()) {
    for (auto [init, next, argument] : llvm::zip(work.getInits(), work.getNextCarried(), work.getCarried()))
      flow.append({{init, argument}, {next, argument}});
  }
  return flow;
}

/// Values on which lanes of a warp may differ.
class Lanes {
public:
  explicit Lanes(sched::KernelOp kernel) {
    for (size_t before = ~size_t(0); before != set.size();) {
      before = set.size();
      kernel.walk([&](Operation *op) { visit(op); });
    }
  }
  bool operator()(Value value) const { return set.contains(value); }

private:
  void visit(Operation *op) {
    if (isa<sched::ThreadIdOp, sched::ReadThreadIdOp, sched::ElectOp, sched::GetOp, sched::LoadSharedOp,
            sched::LoadPairOp, sched::ShuffleXorOp, sched::ShuffleOp, sched::ReceiveOp, sched::ClaimWorkOp>(op))
      return add(op->getResults());
    if (isa<sched::AnyLaneOp, sched::UniformOp>(op))
      return;
    if (auto search = dyn_cast<sched::NextVisibleOp>(op))
      return add(search.getCondition().getArguments()); // each lane asks for another tile
    for (auto [from, to] : flowOf(op))
      if (set.contains(from))
        set.insert(to);
    bool varies = llvm::any_of(op->getOperands(), [&](Value operand) { return set.contains(operand); });
    if (op->getNumRegions() == 0) {
      if (varies)
        add(op->getResults());
      return;
    }
    // Lanes that leave a loop at different times, or take different branches, carry different values.
    Value control = isa<scf::IfOp>(op)           ? op->getOperand(0)
                    : isa<sched::ForTilesOp>(op) ? Value(cast<sched::ForTilesOp>(op).getBound())
                                                 : Value();
    auto loop = dyn_cast<scf::ForOp>(op);
    bool byLane = (control && set.contains(control)) ||
                  (loop && (set.contains(loop.getUpperBound()) || set.contains(loop.getInductionVar()))) ||
                  (isa<sched::ForTilesOp>(op) && set.contains(op->getRegion(0).getArgument(0)));
    if (!byLane)
      return;
    for (auto [from, to] : flowOf(op))
      set.insert(to);
  }
  void add(ValueRange values) { set.insert(values.begin(), values.end()); }

  llvm::DenseSet<Value> set;
};

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

std::optional<Element> elementOf(Type type) {
  if (type.isF32())
    return Element::F32;
  if (type.isBF16())
    return Element::BF16;
  if (type.isF16())
    return Element::F16;
  if (type.isInteger(32))
    return Element::I32;
  if (type.isInteger(64))
    return Element::I64;
  if (type.isInteger(1) || type.isInteger(8))
    return Element::Bool;
  return std::nullopt;
}

/// Bytes of a value in a slot.
int64_t widthOf(Type type) { return type.isInteger(1) ? 1 : type.isInteger(32) || type.isF32() ? 4 : 8; }

class Decoder {
public:
  explicit Decoder(sched::KernelOp kernel) : kernel(kernel), signature(tile::signatureOf(kernel)), varies(kernel) {}

  Expected<std::shared_ptr<const Program>> run();

private:
  void block(Block &block);
  void op(Operation *op);
  void schedOp(Operation *op);
  void role(sched::RoleOp op);
  void work(sched::ForWorkOp op);
  void branch(scf::IfOp op);
  void search(sched::NextVisibleOp op);
  /// `counter` is among the arguments; `bound`; `next` are the arguments' values for the next turn.
  void loop(Operation *op, ValueRange inits, ValueRange arguments, Value bound, Block &body,
            llvm::function_ref<void()> advance);
  void moveAll(Operation *op, ValueRange from, ValueRange to);

  void constant(arith::ConstantOp op);
  void parameter(tile::ParamOp op);
  void shared(sched::SharedOp op);
  void registers(sched::RegistersOp op);
  void ring(sched::RingOp op);
  void tensorMap(sched::TensorMapOp op);
  void view(Value value, sim::View view);

  /// A step with operands `in` and results of `op`.
  Step &emit(Operation *op, Run run, ValueRange in = {}, ArrayRef<int> at = {}, ArrayRef<int64_t> number = {},
             bool flag = false);
  void take(Step &step, Value value) {
    if (step.inputs < step.in.size())
      step.in[step.inputs++] = slot(value);
    else
      fail(step.op, "has more operands than the simulator takes");
  }
  Slot slot(Value value);
  Slot allocate(Type type, bool varies);
  int find(Value value, const llvm::DenseMap<Value, int> &in, Operation *op, StringRef what);
  uint32_t opIndex(Operation *op);
  void fail(uint32_t op, const std::string &what);

  sched::KernelOp kernel;
  KernelSignature signature;
  Lanes varies;
  std::shared_ptr<Program> program = std::make_shared<Program>();
  llvm::DenseMap<Value, Slot> slots;
  llvm::DenseMap<Value, int> sharedAt, registersAt, ringsAt, mapsAt, viewsAt;
  llvm::DenseMap<Operation *, uint32_t> opsAt;
  std::optional<Error> error;
};

void Decoder::fail(uint32_t op, const std::string &what) {
  if (!error)
    error = Error{"'" + program->ops[op].name + "' op " + what, program->ops[op].where};
}

uint32_t Decoder::opIndex(Operation *op) {
  auto [entry, isNew] = opsAt.try_emplace(op, uint32_t(program->ops.size()));
  if (isNew) {
    sim::Op described{op->getName().getStringRef().str(), {}};
    if (auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>(); loc && loc.getLine())
      described.where = {loc.getFilename().str(), loc.getLine(), loc.getColumn()};
    program->ops.push_back(std::move(described));
  }
  return entry->second;
}

Slot Decoder::allocate(Type type, bool varies) {
  Slot slot{uint32_t(program->valueBytes), varies};
  program->valueBytes += varies ? size_t(widthOf(type)) * lanes : 8;
  return slot;
}

Slot Decoder::slot(Value value) {
  auto [entry, isNew] = slots.try_emplace(value);
  if (isNew)
    entry->second = allocate(value.getType(), varies(value));
  return entry->second;
}

Step &Decoder::emit(Operation *op, Run run, ValueRange in, ArrayRef<int> at, ArrayRef<int64_t> number, bool flag) {
  Step &step = program->steps.emplace_back();
  step.run = run;
  step.op = opIndex(op);
  step.flag = flag;
  for (Value value : in)
    take(step, value);
  if (op->getNumRegions() == 0 && op->getNumResults() <= step.out.size())
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (isa<IntegerType, FloatType, tile::ViewType>(result.getType()))
        step.out[i] = slot(result);
  llvm::copy(at, step.at.begin());
  llvm::copy(number, step.number.begin());
  return step;
}

int Decoder::find(Value value, const llvm::DenseMap<Value, int> &in, Operation *op, StringRef what) {
  auto entry = in.find(value);
  if (entry != in.end())
    return entry->second;
  fail(opIndex(op), "takes " + what.str() + " that is not one of this kernel");
  return 0;
}

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

void Decoder::constant(arith::ConstantOp op) {
  std::optional<Element> element = elementOf(op.getType());
  sim::Constant constant{slot(op.getResult()), element.value_or(Element::I32), 0};
  if (auto number = dyn_cast<FloatAttr>(op.getValue()); number && op.getType().isF32())
    constant.bits = number.getValue().bitcastToAPInt().getZExtValue();
  else if (auto number = dyn_cast<IntegerAttr>(op.getValue()); number && element)
    constant.bits = op.getType().isInteger(1) ? int64_t(number.getValue().getZExtValue()) : number.getInt();
  else
    return fail(opIndex(op), "has a type that the simulator lacks; use f32, i32, i64 or i1");
  program->constants.push_back(constant);
}

void Decoder::view(Value value, sim::View view) {
  viewsAt[value] = int(program->views.size());
  program->views.push_back(view);
}

void Decoder::parameter(tile::ParamOp op) {
  auto type = dyn_cast<tile::ViewType>(op.getResult().getType());
  if (!type) {
    program->parameters.push_back({slot(op.getResult()), op.getName().str(), tile::findScalar(signature, op.getName()),
                                   *elementOf(op.getResult().getType())});
    return;
  }
  std::optional<Element> element = elementOf(type.getElementType());
  if (!element)
    return fail(opIndex(op), "is a view of a type that the simulator lacks");
  sim::Tensor tensor{op.getName().str(), *element, int(type.getRank()),
                     tile::findView(signature, op.getName())->offset};
  view(op.getResult(), {int(program->tensors.size()), 0});
  program->tensors.push_back(tensor);
  program->constants.push_back({slot(op.getResult()), Element::I64, 0});
}

void Decoder::shared(sched::SharedOp op) {
  auto type = op.getResult().getType();
  std::optional<Element> element = elementOf(type.getElementType());
  bool hasStages = type.axis(0) == "stage";
  ArrayRef<int64_t> shape = type.getShape().drop_front(hasStages);
  if (shape.empty() || shape.size() > 2 || !element)
    return fail(opIndex(op), "is no shared tile of one or two axes after the stage");
  sim::SharedBuffer buffer{op.getName().str(),
                           int64_t(op.getOffset()),
                           hasStages ? type.getShape()[0] : 1,
                           shape.size() == 1 ? 1 : shape[0],
                           shape.back(),
                           0,
                           *element};
  if (auto swizzle = dyn_cast_or_null<sched::SwizzleAttr>(type.getLayout()))
    buffer.panel = swizzle.getPanel();
  if (buffer.panel && buffer.rowBytes() % buffer.panel)
    return fail(opIndex(op), "has rows that are not whole panels of its swizzle");
  if (buffer.offset < 0 || buffer.offset + buffer.stages * buffer.stageBytes() > int64_t(kernel.getSharedBytes()))
    return fail(opIndex(op), "ends past shared_bytes");
  sharedAt[op.getResult()] = int(program->shared.size());
  program->shared.push_back(buffer);
}

void Decoder::registers(sched::RegistersOp op) {
  auto type = op.getResult().getType();
  std::optional<Element> element = elementOf(type.getElementType());
  auto fragment = cast<sched::FragmentAttr>(type.getLayout());
  if (!element)
    return fail(opIndex(op), "has elements that the simulator lacks");
  SmallVector<int64_t> shape = fragment.laneShape(type);
  sim::RegisterBuffer buffer{op.getName().str(),
                             {shape.begin(), shape.end()},
                             int64_t(program->registerWords / lanes),
                             *element == Element::I64 ? 2 : 1,
                             *element};
  program->registerWords += buffer.size() * buffer.words * lanes;
  registersAt[op.getResult()] = int(program->registers.size());
  emit(op, sim::registers, {}, {int(program->registers.size())});
  program->registers.push_back(std::move(buffer));
}

void Decoder::ring(sched::RingOp op) {
  sim::Ring ring{op.getName().str(),
                 int64_t(op.getOffset()),
                 op.getResult().getType().getStages(),
                 int64_t(op.getFilledBy()),
                 int64_t(op.getEmptiedBy()),
                 program->agents,
                 false};
  ring.released = llvm::any_of(op->getUsers(), [](Operation *user) { return isa<sched::ReleaseOp>(user); });
  if (ring.offset < 0 || ring.offset + 16 * ring.stages > int64_t(kernel.getSharedBytes()))
    return fail(opIndex(op), "ends past shared_bytes");
  program->agents += int(ring.stages);
  ringsAt[op.getResult()] = int(program->rings.size());
  program->rings.push_back(ring);
}

void Decoder::tensorMap(sched::TensorMapOp op) {
  auto type = op.getResult().getType();
  int view = find(op.getView(), viewsAt, op, "a view");
  if (error)
    return;
  mapsAt[op.getResult()] = int(program->maps.size());
  program->maps.push_back({program->views[view].tensor, type.getRows(), type.getColumns(), op.getSwizzle().getPanel()});
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void Decoder::block(Block &block) {
  for (Operation &each : block) {
    if (error)
      return;
    op(&each);
  }
}

void Decoder::moveAll(Operation *op, ValueRange from, ValueRange to) {
  // By way of copies where a value is still to be read: all next values are taken before the first is written.
  SmallVector<Slot> sources;
  for (auto [source, target] : llvm::zip(from, to)) {
    Slot at = slot(source);
    if (source != target && llvm::is_contained(to, source)) {
      Slot copy = allocate(source.getType(), at.varies);
      Step &step = emit(op, sim::move);
      step.in[0] = at;
      step.out[0] = copy;
      step.number[0] = widthOf(source.getType());
      at = copy;
    }
    sources.push_back(at);
  }
  for (auto [i, target] : llvm::enumerate(to)) {
    if (from[i] == target)
      continue;
    Step &step = emit(op, sim::move);
    step.in[0] = sources[i];
    step.out[0] = slot(target);
    step.number[0] = widthOf(target.getType());
  }
}

void Decoder::branch(scf::IfOp op) {
  Value condition = op.getCondition();
  bool byLane = varies(condition);
  size_t test = program->steps.size();
  emit(op, byLane ? sim::maskIf : sim::skipUnless, condition);
  block(*op.thenBlock());
  if (op.getNumResults())
    moveAll(op, op.thenYield()->getOperands(), op.getResults());
  size_t middle = program->steps.size();
  bool hasElse = op.elseBlock() && (!llvm::hasSingleElement(*op.elseBlock()) || op.getNumResults());
  if (hasElse) {
    if (byLane)
      emit(op, sim::maskElse, condition);
    else
      emit(op, sim::jump);
    program->steps[test].target = uint32_t(byLane ? middle : middle + 1);
    block(*op.elseBlock());
    if (op.getNumResults())
      moveAll(op, op.elseYield()->getOperands(), op.getResults());
    program->steps[middle].target = uint32_t(program->steps.size());
  } else {
    program->steps[test].target = uint32_t(middle);
  }
  if (byLane)
    emit(op, sim::maskEnd);
}

void Decoder::loop(Operation *op, ValueRange inits, ValueRange arguments, Value bound, Block &body,
                   llvm::function_ref<void()> advance) {
  bool byLane = varies(arguments[0]) || varies(bound);
  moveAll(op, inits, arguments);
  if (byLane)
    emit(op, sim::maskBegin);
  size_t head = program->steps.size();
  emit(op, sim::loopTest, {arguments[0], bound});
  block(body);
  if (error)
    return;
  advance();
  emit(op, sim::jump).target = uint32_t(head);
  program->steps[head].target = uint32_t(program->steps.size());
  if (byLane)
    emit(op, sim::maskEnd);
}

void Decoder::role(sched::RoleOp op) {
  int firstWarp = 0;
  if (!program->roles.empty())
    firstWarp = program->roles.back().firstWarp + program->roles.back().warps;
  size_t begin = program->steps.size();
  emit(op, sim::roleBegin, {}, {int(program->roles.size())});
  program->roles.push_back({op.getName().str(), firstWarp, int(op.getWarps())});
  block(op.getBody().front());
  emit(op, sim::roleEnd);
  program->steps[begin].target = uint32_t(program->steps.size());
}

void Decoder::work(sched::ForWorkOp op) {
  const bool persistent = op.getOrder() == sched::WorkOrder::Persistent,
             received = op.getOrder() == sched::WorkOrder::Received,
             claimed = op.getOrder() == sched::WorkOrder::Claimed;
  if (op.getOrder() == sched::WorkOrder::Split)
    return fail(opIndex(op), "in order 'split' cannot be simulated; use grid, persistent, claimed or received");
  if (program->tileQ && program->tileQ != int64_t(op.getTileQ()))
    return fail(opIndex(op), "has tiles of " + std::to_string(op.getTileQ()) + " rows, another role's have " +
                                 std::to_string(program->tileQ) + "; give all roles the same");
  program->tileQ = int64_t(op.getTileQ());
  program->persistent |= persistent || claimed;
  program->claims |= claimed;
  const Slot nowhere = allocate(IntegerType::get(op.getContext(), 32), false);
  auto take = [&](Step &step) {
    step.flag = op.getLongestFirst();
    step.number[0] = op.getAcrossBatches();
    step.out.fill(nowhere);
    for (auto [i, argument] : llvm::enumerate(op.getBody().getArguments().drop_back(op.getInits().size())))
      step.out[i] = slot(argument);
  };
  moveAll(op, op.getInits(), op.getCarried());
  size_t begin = program->steps.size();
  if (received) {
    emit(op, sim::receiveBegin).out[0] = slot(op.getCount());
    block(op.getBody().front());
    if (error)
      return;
    Value more = op.getNext().getValues().front();
    moveAll(op, op.getNextCarried(), op.getCarried());
    Step &next = emit(op, sim::receiveNext, more);
    next.out[0] = slot(op.getCount());
    next.target = uint32_t(begin + 1);
    return;
  }
  take(emit(op, claimed ? sim::claimBegin : sim::workBegin));
  block(op.getBody().front());
  if (error)
    return;
  if (claimed) {
    Value number = op.getNext().getValues().front();
    moveAll(op, op.getNextCarried(), op.getCarried());
    Step &next = emit(op, sim::claimNext, number);
    take(next);
    next.target = uint32_t(begin + 1);
    return;
  }
  if (persistent) {
    if (op.getNext())
      moveAll(op, op.getNextCarried(), op.getCarried());
    Step &next = emit(op, sim::workNext);
    take(next);
    next.target = uint32_t(begin + 1);
  }
  program->steps[begin].target = uint32_t(program->steps.size());
}

void Decoder::search(sched::NextVisibleOp op) {
  const Slot first = allocate(op.getTile().getType(), false);
  decltype(Step::out) out = {first,
                             slot(op.getTile()),
                             slot(op.getOrigin()),
                             slot(op.getVisible()),
                             slot(op.getFull()),
                             slot(op.getCondition().getArgument(0))};
  if (op.getBegins().size() > out.size() - 6)
    return fail(opIndex(op), "searches for " + std::to_string(op.getBegins().size()) + " parts; at most " +
                                 std::to_string(out.size() - 6) + " can be simulated");
  for (auto [i, begin] : llvm::enumerate(op.getBegins()))
    out[6 + i] = slot(begin);
  SmallVector<Value> in{op.getFrom(), op.getBound()};
  llvm::append_range(in, op.getSeen());
  const size_t begin = program->steps.size(), turn = begin + 1;
  emit(op, sim::searchBegin, in).out = out;
  Step &next = emit(op, sim::searchTurn, op.getBound());
  next.out = out;
  next.number[0] = int64_t(op.getBegins().size());
  block(op.getCondition().front());
  if (error)
    return;
  auto visible = cast<sched::VisibleOp>(op.getCondition().front().getTerminator());
  SmallVector<Value> answers{visible.getVisible(), visible.getFull()};
  llvm::append_range(answers, visible.getParts());
  Step &answer = emit(op, sim::searchAnswer, answers);
  answer.out = out;
  answer.target = uint32_t(turn);
  program->steps[begin].target = program->steps[turn].target = uint32_t(program->steps.size());
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void Decoder::op(Operation *op) {
  if (auto o = dyn_cast<arith::ConstantOp>(op))
    return constant(o);
  if (auto o = dyn_cast<tile::ParamOp>(op))
    return parameter(o);
  if (auto o = dyn_cast<tile::AxisExtentOp>(op)) {
    program->parameters.push_back(
        {slot(o.getResult()), o.getAxis().str(), tile::findExtent(signature, o.getAxis()), Element::I32});
    return;
  }
  if (isa<scf::YieldOp, sched::NextOp, sched::VisibleOp>(op))
    return;
  if (auto o = dyn_cast<scf::IfOp>(op))
    return branch(o);
  if (auto o = dyn_cast<scf::ForOp>(op)) {
    if (!o.getInductionVar().getType().isInteger(32))
      return fail(opIndex(op), "counts in another type than i32");
    SmallVector<Value> inits{o.getLowerBound()}, arguments{o.getInductionVar()};
    llvm::append_range(inits, o.getInitArgs());
    llvm::append_range(arguments, o.getRegionIterArgs());
    for (auto [argument, result] : llvm::zip(o.getRegionIterArgs(), o.getResults()))
      slots[result] = slot(argument);
    return loop(op, inits, arguments, o.getUpperBound(), *o.getBody(), [&] {
      moveAll(op, o.getYieldedValues(), o.getRegionIterArgs());
      Step &step = emit(op, &apply<[](int32_t i, int32_t by) { return add(i, by); }, int32_t, int32_t>,
                        {o.getInductionVar(), o.getStep()});
      step.out[0] = slot(o.getInductionVar());
    });
  }
  if (auto o = dyn_cast<sched::ForTilesOp>(op)) {
    if (!o.getTiles().empty())
      return fail(opIndex(op), "carries tiles; the simulator runs what the scheduling passes leave at their end");
    if (o.getKeeps())
      for (auto [argument, result] : llvm::zip(o.getBody().getArguments(), o.getKept()))
        slots[result] = slot(argument);
    return loop(op, o.getInits(), o.getBody().getArguments(), o.getBound(), o.getBody().front(),
                [&] { moveAll(op, o.getNext().getValues(), o.getBody().getArguments()); });
  }
  if (Run run = op->getNumResults() == 1 ? arithmetic(op) : nullptr) {
    emit(op, run, op->getOperands());
    return;
  }
  schedOp(op);
}

void Decoder::schedOp(Operation *op) {
  auto sharedOf = [&](Value value) { return find(value, sharedAt, op, "a shared tile"); };
  auto registersOf = [&](Value value) { return find(value, registersAt, op, "a register buffer"); };
  auto ringOf = [&](Value value) { return find(value, ringsAt, op, "a ring"); };
  auto mapOf = [&](Value value) { return find(value, mapsAt, op, "a tensor map"); };
  auto viewOf = [&](Value value) { return find(value, viewsAt, op, "a view"); };
  using Values = SmallVector<Value, 8>;
  auto all = [](std::initializer_list<Value> first, ValueRange rest) {
    Values values(first);
    llvm::append_range(values, rest);
    return values;
  };

  llvm::TypeSwitch<Operation *>(op)
      .Case([&](sched::RoleOp o) { role(o); })
      .Case([&](sched::ForWorkOp o) { work(o); })
      .Case([&](sched::SharedOp o) { shared(o); })
      .Case([&](sched::RegistersOp o) { registers(o); })
      .Case([&](sched::RingOp o) { ring(o); })
      .Case([&](sched::TensorMapOp o) { tensorMap(o); })
      // Values.
      .Case<sched::ThreadIdOp, sched::ReadThreadIdOp>([&](auto o) { emit(o, sim::threadId); })
      .Case([&](sched::ElectOp o) { emit(o, sim::elect); })
      .Case([&](sched::ReadWorkOp o) { emit(o, sim::readWork); })
      .Case([&](sched::MoreWorkOp o) {
        emit(o, sim::moreWork, o->getOperands(), {}, {}, cast<sched::ForWorkOp>(o->getParentOp()).getLongestFirst());
      })
      // Bounds are made before a simulation starts.
      .Case([&](sched::WaitBoundsOp) {})
      .Case([&](sched::ClaimWorkOp o) { emit(o, sim::claimWork); })
      .Case([&](sched::SendOp o) {
        emit(o, sim::sendMessage, all({o.getStage()}, o.getValues()), {sharedOf(o.getShared())});
      })
      .Case([&](sched::ReceiveOp o) {
        emit(o, sim::receiveMessage, o.getStage(), {sharedOf(o.getShared())}, {int64_t(o.getNumResults())});
      })
      .Case([&](sched::AnyLaneOp o) { emit(o, sim::anyLane, o.getCondition()); })
      .Case([&](sched::UniformOp o) { emit(o, sim::uniform, o.getValue()); })
      .Case([&](sched::ShuffleXorOp o) {
        if (o.getMask() >= uint64_t(lanes))
          return fail(opIndex(o), "reaches outside of the warp");
        emit(o, sim::shuffleXor, o.getValue(), {}, {int64_t(o.getMask())});
      })
      .Case([&](sched::ShuffleOp o) { emit(o, sim::shuffle, {o.getValue(), o.getLane()}, {}, {widthOf(o.getType())}); })
      .Case([&](sched::PhiloxOp o) { emit(o, sim::philox, o->getOperands()); })
      .Case([&](sched::SplitTf32Op o) {
        emit(o, &apply<[](float x) { return int32_t(toTf32(x)); }, float>, o.getValue());
        Step &small =
            emit(o, &apply<[](float x) { return int32_t(toTf32(x - std::bit_cast<float>(toTf32(x)))); }, float>,
                 o.getValue());
        small.out[0] = small.out[1];
      })
      .Case([&](sched::NextVisibleOp o) { search(o); })
      .Case([&](tile::TouchesOp o) {
        emit(o, sim::touches, all({o.getView()}, o.getIndices()), {viewOf(o.getView())},
             {int64_t(o.getTileRows()), int64_t(o.getTileColumns()), int64_t(o.getRows()), int64_t(o.getColumns())});
      })
      // Registers and global memory.
      .Case([&](sched::GetOp o) { emit(o, sim::getElement, o.getIndices(), {registersOf(o.getBuffer())}); })
      .Case([&](sched::SetOp o) {
        emit(o, sim::setElement, all({o.getValue()}, o.getIndices()), {registersOf(o.getBuffer())});
      })
      .Case([&](sched::SliceOp o) {
        int from = viewOf(o.getView());
        if (error)
          return;
        emit(o, sim::slice, all({o.getView()}, o.getIndices()), {from});
        view(o.getResult(), {program->views[from].tensor, program->views[from].dropped + int(o.getIndices().size())});
      })
      .Case([&](sched::ExtentOp o) { emit(o, sim::extent, {}, {viewOf(o.getView())}, {int64_t(o.getDim())}); })
      .Case([&](sched::IsMappedOp o) { emit(o, sim::isMapped, {}, {mapOf(o.getMap())}); })
      .Case([&](sched::IsNullOp o) { emit(o, sim::isNull, {}, {viewOf(o.getView())}); })
      .Case([&](tile::ElementOp o) {
        SmallVector<int64_t, 4> inRange(o.getInRange().begin(), o.getInRange().end());
        int wide = 0;
        for (auto [i, index] : llvm::enumerate(o.getIndices()))
          wide |= int(index.getType().isInteger(64)) << i;
        emit(o, sim::loadElement, all({o.getView()}, o.getIndices()), {viewOf(o.getView()), wide}, inRange);
      })
      .Case([&](sched::StoreElementOp o) {
        emit(o, sim::storeElement, all({o.getValue(), o.getView()}, o.getIndices()), {viewOf(o.getView())});
      })
      .Case([&](sched::CopyToGlobalOp o) {
        emit(o, sim::copyToGlobal, {o.getRow(), o.getColumn(), o.getView(), o.getViewRow()},
             {sharedOf(o.getShared()), viewOf(o.getView())});
      })
      // Copies and barriers.
      .Case([&](sched::CopyAsyncOp o) {
        emit(o, sim::copyAsync, {o.getView(), o.getViewRow(), o.getColumn(), o.getStage(), o.getRow(), o.getValid()},
             {sharedOf(o.getShared()), viewOf(o.getView())});
      })
      .Case([&](sched::CommitCopiesOp o) { emit(o, sim::commitCopies); })
      .Case([&](sched::WaitCopiesOp o) { emit(o, sim::waitCopies, {}, {}, {int64_t(o.getPending())}); })
      .Case([&](sched::BarrierOp o) { emit(o, sim::barrier); })
      .Case([&](sched::InitRingOp o) { emit(o, sim::initRing, {}, {ringOf(o.getRing())}); })
      .Case([&](sched::FenceInitOp o) { emit(o, sim::fenceInit); })
      .Case([&](sched::AcquireOp o) { emit(o, sim::acquire, {o.getStage(), o.getPhase()}, {ringOf(o.getRing())}); })
      .Case([&](sched::WaitOp o) { emit(o, sim::wait, {o.getStage(), o.getPhase()}, {ringOf(o.getRing())}); })
      .Case([&](sched::ExpectBytesOp o) {
        emit(o, sim::expectBytes, o.getStage(), {ringOf(o.getRing())}, {int64_t(o.getBytes())});
      })
      .Case([&](sched::CommitOp o) { emit(o, sim::commit, o.getStage(), {ringOf(o.getRing())}); })
      .Case([&](sched::ReleaseOp o) {
        emit(o, sim::release, o.getStage(), {ringOf(o.getRing())}, {o.getByLanes() ? 32 : 1});
      })
      .Case([&](sched::SyncLanesOp o) { emit(o, sim::syncLanes); })
      .Case([&](sched::SyncWarpsOp o) { emit(o, sim::syncWarps, o.getId(), {}, {int64_t(o.getThreads())}); })
      .Case([&](sched::ArriveWarpsOp o) { emit(o, sim::arriveWarps, o.getId(), {}, {int64_t(o.getThreads())}); })
      // The copy engine.
      .Case([&](sched::LoadBoxOp o) {
        Value from = o.getTensorColumn() ? o.getTensorColumn() : o.getColumn();
        emit(o, sim::loadBox, {o.getBatch(), o.getHead(), o.getRow(), from, o.getStage(), o.getColumn()},
             {mapOf(o.getMap()), sharedOf(o.getShared()), ringOf(o.getRing())});
      })
      .Case([&](sched::StoreBoxOp o) {
        emit(o, sim::storeBox, {o.getStage(), o.getSharedRow(), o.getBatch(), o.getHead(), o.getRow(), o.getColumn()},
             {mapOf(o.getMap()), sharedOf(o.getShared())});
      })
      .Case([&](sched::AddRowsOp o) {
        emit(o, sim::addRows, {o.getStage(), o.getRow(), o.getView(), o.getViewRow()},
             {sharedOf(o.getShared()), viewOf(o.getView())}, {int64_t(o.getRows())});
      })
      .Case([&](sched::CommitBoxesOp o) { emit(o, sim::commitBoxes); })
      .Case([&](sched::WaitBoxesOp o) { emit(o, sim::waitBoxes, {}, {}, {int64_t(o.getPending())}); })
      .Case([&](sched::FenceAsyncOp o) { emit(o, sim::fenceAsync); })
      // Matrices.
      .Case([&](sched::LoadMatrixOp o) {
        Values in{o.getStage(), o.getRow(), o.getColumn()};
        Step &step =
            emit(o, sim::loadMatrix, in, {sharedOf(o.getShared()), registersOf(o.getFragment())}, {}, o.getTranspose());
        Slot zero = allocate(o.getStage().getType(), false);
        for (Value by : {o.getRowStep(), o.getColumnStep()})
          step.in[step.inputs++] = by ? slot(by) : zero;
        take(step, o.getI());
        take(step, o.getJ());
      })
      .Case([&](sched::LoadSharedOp o) {
        Step &step = emit(o, sim::loadShared, {o.getStage(), o.getRow(), o.getColumn()}, {sharedOf(o.getShared())});
        Slot zero = allocate(o.getStage().getType(), false);
        for (Value by : {o.getRowStep(), o.getColumnStep()})
          step.in[step.inputs++] = by ? slot(by) : zero;
      })
      .Case([&](sched::LoadPairOp o) {
        emit(o, sim::loadPair, {o.getStage(), o.getRow(), o.getColumn()}, {sharedOf(o.getShared())});
      })
      .Case([&](sched::StoreSharedOp o) {
        emit(o, sim::storeShared, {o.getValue(), o.getStage(), o.getRow(), o.getColumn()}, {sharedOf(o.getShared())});
      })
      .Case([&](sched::ScaleSharedOp o) {
        emit(o, sim::scaleShared, {o.getStage(), o.getRow(), o.getColumn()}, {sharedOf(o.getShared())},
             {int64_t(o.getExponent())});
      })
      .Case([&](sched::StoreMatrixOp o) {
        emit(o, sim::storeMatrix,
             {o.getFirst(), o.getSecond(), o.getThird(), o.getFourth(), o.getStage(), o.getRow(), o.getColumn()},
             {sharedOf(o.getShared())});
      })
      .Case([&](sched::MmaOp o) {
        emit(o, sim::mma, {o.getI(), o.getJ(), o.getAi(), o.getAj(), o.getBi(), o.getBj()},
             {registersOf(o.getAcc()), registersOf(o.getA()), registersOf(o.getB())});
      })
      .Case([&](sched::MmaAsyncOp o) {
        bool leftShared = o.getA().getType().getSpace() == tile::MemorySpace::Shared;
        emit(o, sim::mmaAsync, all({o.getStage(), o.getRow(), o.getColumn(), o.getAccumulate()}, o.getAIndices()),
             {registersOf(o.getAcc()), leftShared ? sharedOf(o.getA()) : registersOf(o.getA()), sharedOf(o.getB())},
             {leftShared}, o.getTranspose());
      })
      .Case([&](sched::MmaFenceOp o) { emit(o, sim::mmaFence); })
      .Case([&](sched::MmaCommitOp o) { emit(o, sim::mmaCommit); })
      .Case([&](sched::MmaWaitOp o) {
        emit(o, sim::mmaWait, {}, {}, {int64_t(o.getPending())});
        for (Value tile : o.getCompletes())
          emit(o, sim::mmaComplete, {}, {registersOf(tile)});
      })
      .Default([&](Operation *) {
        fail(opIndex(op), "cannot be simulated; the simulator runs what the scheduling passes leave at their end");
      });
}

Expected<std::shared_ptr<const Program>> Decoder::run() {
  program->name = kernel.getSymName().str();
  program->warps = int(kernel.getThreads() / lanes);
  program->agents = program->warps;
  program->sharedBytes = kernel.getSharedBytes();
  for (auto [extent, axis] : llvm::zip(program->workExtents, ArrayRef<StringRef>{"b", "h", "q"}))
    extent = tile::findExtent(signature, axis);
  block(kernel.getBody().front());
  emit(kernel, sim::finishWarp);
  if (error)
    return *error;
  if (!program->tileQ)
    return Error{"the kernel has no sched.for_work; the simulator runs whole kernels"};
  program->valueBytes = (program->valueBytes + 7) / 8 * 8;
  return std::shared_ptr<const Program>(program);
}

} // namespace

Expected<std::shared_ptr<const Program>> sim::decode(sched::KernelOp kernel) { return Decoder(kernel).run(); }
