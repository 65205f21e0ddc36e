//===- FuseExponents.cpp - Compute the exponent of softmax as one FMA -----===//
//
// exp2((x - m) * c) takes a subtraction and a multiplication per element and is right for every finite x and m. exp2(x
// * c - m * c) takes one multiply-add whose addend is computed once per row, but the addend is rounded. There are two
// ways to use one multiply-add and to stay right for large m:
//
// Warp-level products: where a row of a warp has a large maximum, the difference is computed before the multiply-add,
// in a branch that is hardly ever taken.
//
//     far = any |m| >= 2^14 / c                      else rounding the addend changes p by at most 2^-11, less
//     x   = map(x, m) only if far: x - m             than rounding p to bf16 does
//     m   = map(m)    only if far: 0
//     p   = exp2(fma(x, c, m * -c))
//
// Warpgroup-level products: no branch. A branch would keep work that does not depend on the scores from overlapping
// with work that does; with dropout a branch cost 11%.
//
//     m starts from the least finite float
//     f     = |m| < 2^30 / c ? c : 2^k               2^k >= c, but at most 1
//     a     = -(m * f)                               a of the previous tile is carried as a_old
//     alpha = exp2(a - a_old)
//     p     = exp2(fma(x, f, a))
//
// For |m| below 2^30 / c the rounding error of a, e <= 2^6, multiplies all exponentials of the row by 2^e. The division
// by the row sum cancels this factor, since alpha is computed from the rounded addends too. For larger |m|, m * 2^k is
// exact: x = m gives p = 1, and the next smaller float32 x gives an exponent that is at least 2^5 less. A row without
// visible keys needs no guard: its addend is finite, and p = exp2(-inf) = 0.
//
// A row vector that the kernel loads, such as the LSE in a gradient: no branch either.
//
//     a     = -(m * log2(e))
//     p     = exp2(fma(x, c * log2(e), a))
//
// The loaded m was rounded to float32, which alone changes p by up to 2^-25 |m|. Rounding the addend and the factor
// triples this, to less than rounding p to bf16 does for |m| below 2^14. The difference is more exact for larger |m|
// only where x * c has no rounding error; kernels with `precise` keep it.
//
// The pass applies to bf16 kernels only. f16 has no range for the factor 2^e, and more digits than the first way
// preserves; float32 kernels are bound by their products. Kernels with ping-pong use lazy rescaling, which has its own
// multiply-add (tile-lazy-rescale).
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Constants.h"
#include "passes/analysis/score/MapPatterns.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

namespace attune {
#define GEN_PASS_DEF_FUSEEXPONENTS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

std::optional<float> attune::exponentFactor(tile::MapOp map) {
  auto exp = map.getInputs().size() == 2 ? map.getYield().getValues().front().getDefiningOp<math::Exp2Op>() : nullptr;
  auto [scaled, factor] = exp ? splitFactor(exp.getOperand()) : std::pair<Value, float>();
  auto difference = scaled ? scaled.getDefiningOp<arith::SubFOp>() : nullptr;
  const bool match =
      difference && difference.getLhs() == map.getElement(0) && difference.getRhs() == map.getElement(1) && factor > 0;
  return match ? std::optional(factor) : std::nullopt;
}

namespace {

constexpr float greatest = std::numeric_limits<float>::max();

/// The map of exponentials in a loop over keys, and `alpha`, the factor that rescales earlier exponentials when the
/// maximum changes.
struct Softmax {
  tile::MapOp exponentials, alpha;

  tile::ForBlocksOp loop() { return cast<tile::ForBlocksOp>(exponentials->getParentOp()); }
  Value scores() { return exponentials.getInputs()[0]; }
  /// The row maximum, replaced by 0 where the row has no visible key.
  Value base() { return exponentials.getInputs()[1]; }
  float factor() { return *exponentFactor(exponentials); }
};

std::optional<Softmax> matchSoftmax(tile::MapOp exponentials) {
  if (cast<TileType>(exponentials.getResult().getType()).rank() != 2 || !exponentFactor(exponentials) ||
      !exponentials.isWhole() || !isa<tile::ForBlocksOp>(exponentials->getParentOp()))
    return std::nullopt;
  Softmax softmax{exponentials, {}};
  for (Operation *user : softmax.base().getUsers())
    if (auto map = dyn_cast<tile::MapOp>(user); map && map != exponentials) {
      if (softmax.alpha || !map.isWhole() || exponentFactor(map) != softmax.factor() ||
          map.getInputs()[1] != softmax.base())
        return std::nullopt;
      softmax.alpha = map;
    }
  return softmax.alpha ? std::optional(softmax) : std::nullopt;
}

/// The index, among the loop's carried values, of the running maximum that `maximum` updates.
unsigned carriedIndex(tile::ReduceOp maximum) { return cast<BlockArgument>(maximum.getInit()).getArgNumber() - 2; }

/// Returns the running maximum m if `base` is m == -inf ? 0 : m and the loop starts m from -inf; null where `base` is
/// computed in another way.
tile::ReduceOp guardedBy(Value base) {
  auto map = base.getDefiningOp<tile::MapOp>();
  auto select = map && map.getInputs().size() == 1 && map.isWhole()
                    ? map.getYield().getValues().front().getDefiningOp<arith::SelectOp>()
                    : nullptr;
  auto none = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : nullptr;
  const float least = -std::numeric_limits<float>::infinity();
  const bool guards = none && none.getPredicate() == arith::CmpFPredicate::OEQ && none.getLhs() == map.getElement(0) &&
                      constantFloat(none.getRhs()) == least && constantFloat(select.getTrueValue()) == 0.0f &&
                      select.getFalseValue() == map.getElement(0);
  auto maximum = guards ? map.getInputs()[0].getDefiningOp<tile::ReduceOp>() : nullptr;
  auto loop = maximum ? dyn_cast<tile::ForBlocksOp>(maximum->getParentOp()) : nullptr;
  if (!loop || maximum.getKind() != tile::Reduction::Max || !llvm::is_contained(loop.getCarried(), maximum.getInit()))
    return {};
  auto start = loop.getInits()[carriedIndex(maximum)].getDefiningOp<tile::SplatOp>();
  return start && constantFloat(start.getValue()) == least ? maximum : tile::ReduceOp();
}

/// Whether a common factor of all exponentials of a row cancels in the division by the row sum. The factor does not
/// cancel where another exponential of the maximum is added to the sum after the loop, such as that of a softmax sink.
bool isStoredWithSum(tile::ReduceOp maximum) {
  auto loop = cast<tile::ForBlocksOp>(maximum->getParentOp());
  return llvm::none_of(loop.getResult(carriedIndex(maximum)).getUsers(),
                       [](Operation *reader) { return holds<math::ExpOp>(*reader) || holds<math::Exp2Op>(*reader); });
}

/// Whether a vector is computed from loads alone.
bool isLoaded(Value vector) {
  if (auto map = vector.getDefiningOp<tile::MapOp>())
    return map.isWhole() && map.getOrigins().empty() && !map.getInputs().empty() &&
           llvm::all_of(map.getInputs(), isLoaded);
  return vector.getDefiningOp<tile::LoadOp>() && cast<TileType>(vector.getType()).getElementType().isF32();
}

/// The parts of a map exp2((x * scale - m) * factor), where x depends on the elements of a tile and m is the element of
/// a row vector that is loaded.
struct LoadedExponent {
  math::Exp2Op exp;
  arith::SubFOp difference;
  Value x;      ///< in the map's body
  unsigned row; ///< index of m among the map's inputs
  float scale, factor;
};

std::optional<LoadedExponent> matchLoadedExponent(tile::MapOp map) {
  if (map.getResult().getType().rank() != 2 || !map.isWhole())
    return std::nullopt;
  for (auto exp : map.getBody().getOps<math::Exp2Op>()) {
    auto [scaled, factor] = splitFactor(exp.getOperand());
    auto difference = scaled ? scaled.getDefiningOp<arith::SubFOp>() : nullptr;
    auto row = difference ? dyn_cast<BlockArgument>(difference.getRhs()) : nullptr;
    if (!row || row.getArgNumber() >= map.getInputs().size())
      continue;
    Value vector = map.getInputs()[row.getArgNumber()];
    if (cast<TileType>(vector.getType()).rank() != 1 || !isLoaded(vector) || !difference->hasOneUse() ||
        !exp.getOperand().hasOneUse())
      continue;
    auto [x, scale] = splitFactor(difference.getLhs());
    return LoadedExponent{exp, difference, x ? x : difference.getLhs(), row.getArgNumber(), scale, factor};
  }
  return std::nullopt;
}

/// Computes the exponent as fma(x, scale * factor, addend), with the addend -(m * factor) in a map of its own.
void fuse(tile::MapOp map, LoadedExponent exponent) {
  OpBuilder builder(map);
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(builder, map.getLoc(), builder.getF32FloatAttr(value));
  };
  Value vector = map.getInputs()[exponent.row];
  Value addend = createMap(builder, map.getLoc(), "addend", vector.getType(), vector, [&](ValueRange v) -> Value {
    return arith::MulFOp::create(builder, map.getLoc(), v[0], constant(-exponent.factor));
  });
  Value element = map.addInput(addend, builder.getF32Type());
  builder.setInsertionPoint(exponent.exp);
  Operation *product = exponent.exp.getOperand().getDefiningOp();
  exponent.exp.setOperand(
      math::FmaOp::create(builder, map.getLoc(), exponent.x, constant(exponent.scale * exponent.factor), element));
  product->erase();
  exponent.difference.erase();
  if (map.getElement(exponent.row).use_empty()) {
    map.getBody().eraseArgument(exponent.row);
    map.getInputsMutable().erase(exponent.row);
  }
  map->setAttr(tile::commentAttr,
               builder.getStringAttr("exp as exp2 of one multiply-add: log2(e) is a factor of both parts"));
}

class Fuser {
public:
  explicit Fuser(Softmax softmax)
      : softmax(softmax), builder(softmax.exponentials), loc(softmax.exponentials.getLoc()), factor(softmax.factor()) {}

  /// Computes x - m in a branch that a warp takes if one of its rows has a large maximum (the first way of the file
  /// header).
  void withBranch() {
    Value x = softmax.scores(), base = softmax.base();
    Value size = map("m_size", base.getType(), base,
                     [&](ValueRange v) -> Value { return math::AbsFOp::create(builder, loc, v[0]); });
    Value far = createAny(builder, loc, "far", size, arith::CmpFPredicate::OGE, 0x1p14f / factor);
    Value difference = createMap(
        builder, loc, tile::nameOf(x), x.getType(), {x, base},
        [&](ValueRange v) -> Value { return arith::SubFOp::create(builder, loc, v[0], v[1]); }, far);
    Value rest =
        createMap(builder, loc, tile::nameOf(base), base.getType(), base, [&](ValueRange) { return constant(0); }, far);
    Value addend = map("addend", rest.getType(), rest, [&](ValueRange v) -> Value {
      return arith::MulFOp::create(builder, loc, v[0], constant(-factor));
    });
    replace(softmax.exponentials, {difference, addend},
            [&](ValueRange v) -> Value { return exponential(v[0], constant(factor), v[1]); });
  }

  /// Gives each row its own factor f, as in the second way of the file header, without a branch.
  void withRowFactor(tile::ReduceOp reduce) {
    Value maximum = reduce.getResult();
    // `alpha` and the exponentials both read the addend a = -(m * f), so the addend is inserted before the first of the
    // two.
    if (softmax.alpha->isBeforeInBlock(softmax.exponentials))
      builder.setInsertionPoint(softmax.alpha);
    const float power = std::min(1.0f, std::exp2(std::ceil(std::log2(factor))));
    Value rowFactor = map("factor", maximum.getType(), maximum, [&](ValueRange v) -> Value {
      Value isFar = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGE,
                                          math::AbsFOp::create(builder, loc, v[0]), constant(0x1p30f / factor));
      return arith::SelectOp::create(builder, loc, isFar, constant(power), constant(factor));
    });
    Value addend = map("addend", maximum.getType(), {maximum, rowFactor}, [&](ValueRange v) -> Value {
      // MulFiniteOp keeps the device compiler from fusing the product into the subtraction of `alpha`: the fused form
      // would skip the rounding there, but not in the exponentials.
      return tile::MulFiniteOp::create(builder, loc, builder.getF32Type(), arith::NegFOp::create(builder, loc, v[0]),
                                       v[1]);
    });
    Value before = carry(addend, carriedIndex(reduce)), base = softmax.base();
    builder.setInsertionPoint(softmax.alpha);
    replace(softmax.alpha, {addend, before}, [&](ValueRange v) -> Value {
      return math::Exp2Op::create(builder, loc, arith::SubFOp::create(builder, loc, v[0], v[1]));
    });
    builder.setInsertionPoint(softmax.exponentials);
    replace(softmax.exponentials, {softmax.scores(), rowFactor, addend},
            [&](ValueRange v) -> Value { return exponential(v[0], v[1], v[2]); });
    if (base.use_empty())
      base.getDefiningOp()->erase();
  }

private:
  Value constant(float value) { return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value)); }
  Value exponential(Value x, Value by, Value addend) {
    return math::Exp2Op::create(builder, loc, math::FmaOp::create(builder, loc, x, by, addend));
  }
  Value map(StringRef name, Type type, ValueRange inputs, function_ref<Value(ValueRange)> body) {
    return createMap(builder, loc, name, type, inputs, body);
  }

  void replace(tile::MapOp old, ValueRange inputs, function_ref<Value(ValueRange)> body) {
    Value fresh = map(tile::nameOf(old.getResult()), old.getResult().getType(), inputs, body);
    if (Attribute comment = old->getAttr(tile::commentAttr))
      fresh.getDefiningOp()->setAttr(tile::commentAttr, comment);
    old.getResult().replaceAllUsesWith(fresh);
    old.erase();
  }

  /// Carries `addend` from tile to tile and returns the previous tile's. Before the first tile the carried value is the
  /// addend of a row without visible keys, whose maximum is the least finite float.
  Value carry(Value addend, unsigned maximum) {
    tile::ForBlocksOp loop = softmax.loop();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(loop);
    SmallVector<Value> inits(loop.getInits());
    Value start = inits[maximum];
    inits[maximum] =
        tile::named(tile::SplatOp::create(builder, loc, addend.getType(), constant(-greatest)), tile::nameOf(start));
    inits.push_back(tile::named(tile::SplatOp::create(builder, loc, addend.getType(), constant(greatest)), "addend"));
    auto wider = tile::ForBlocksOp::create(builder, loop.getLoc(), loop.getDomain(), loop.getWithin(), inits);
    wider->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    Block &body = wider.getBody().front();
    for (auto [old, argument] : llvm::zip(loop.getBody().getArguments(), body.getArguments()))
      old.replaceAllUsesWith(argument);
    body.getOperations().splice(body.end(), loop.getBody().front().getOperations());
    wider.getYield().getValuesMutable().append(addend);
    loop.replaceAllUsesWith(wider.getResults().drop_back());
    loop.erase();
    if (start.use_empty())
      start.getDefiningOp()->erase();
    return body.getArguments().back();
  }

  Softmax softmax;
  OpBuilder builder;
  Location loc;
  float factor;
};

struct FuseExponents : attune::impl::FuseExponentsBase<FuseExponents> {
  using FuseExponentsBase::FuseExponentsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel.getDtype().isBF16() || kernel.getPrecise() || kernel->hasAttr(sched::pingPongAttr))
        continue;
      SmallVector<Softmax> all;
      SmallVector<tile::MapOp> maps;
      kernel.walk([&](tile::MapOp map) { maps.push_back(map); });
      for (tile::MapOp map : maps)
        if (std::optional<LoadedExponent> exponent = matchLoadedExponent(map))
          fuse(map, *exponent);
        else if (std::optional<Softmax> softmax = matchSoftmax(map))
          all.push_back(*softmax);
      for (Softmax softmax : all) {
        if (!sched::hasAsyncProducts(kernel))
          Fuser(softmax).withBranch();
        else if (tile::ReduceOp maximum = guardedBy(softmax.base());
                 maximum && softmax.factor() <= 3 && isStoredWithSum(maximum))
          Fuser(softmax).withRowFactor(maximum);
      }
    }
  }
};

} // namespace
