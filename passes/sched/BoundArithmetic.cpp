//===- BoundArithmetic.cpp - Mark integer arithmetic that cannot overflow ----===//
//
// The pass computes ranges of integers from the limits of a launch (extents of axes, threads of a block) and from the
// bounds of loops. An i32 op whose exact result fits 32 bits is marked `nsw`:
//
//     %k0 = arith.muli %tile, %c64     tile in [0, 2^24)      overflow<nsw>: below 2^30
//     %y  = arith.addi %x, %seed       seed is any integer    stays as it is: the sum may wrap around
//
// The CUDA printer prints marked ops as signed `+`, `-` and `*`, and all others as calls of wrapping functions.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "ir/tile/Signature.h"
#include "passes/Passes.h"
#include "passes/analysis/mask/BlockIntegers.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

namespace attune {
#define GEN_PASS_DEF_BOUNDARITHMETIC
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using attune::mask::int32Range, attune::mask::maxExtent;
using IntegerRange = attune::mask::Range;

namespace {

constexpr int64_t mostThreads = 1024, warpLanes = 32;

IntegerRange hull(IntegerRange a, IntegerRange b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

class KernelRanges {
public:
  explicit KernelRanges(sched::KernelOp kernel) {
    kernel.walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        if (auto tile = dyn_cast<tile::TileType>(type))
          for (StringAttr axis : tile.getAxes())
            tiledAxes.insert(axis.getValue());
    });
    if (auto derived = kernel->getAttrOfType<ArrayAttr>(tile::derivedAttr))
      for (auto axis : derived.getAsRange<tile::DerivedAxisAttr>())
        tiledAxes.erase(axis.getName().getValue());
  }

  /// The range of an i32 value, as a signed number, in every launch.
  IntegerRange of(Value value) {
    if (auto known = ranges.find(value); known != ranges.end())
      return known->second;
    ranges[value] = int32Range; // ends the recursion for a value that depends on itself through a loop
    const IntegerRange range = compute(value);
    return ranges[value] = range.within(int32Range) ? range : int32Range;
  }

  /// The range of the exact result of `op`, before it wraps around.
  IntegerRange exact(Operation *op) {
    const IntegerRange a = of(op->getOperand(0)), b = of(op->getOperand(1));
    if (isa<arith::AddIOp>(op))
      return {a.lo + b.lo, a.hi + b.hi};
    if (isa<arith::SubIOp>(op))
      return {a.lo - b.hi, a.hi - b.lo};
    const int64_t corners[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
    return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
  }

private:
  IntegerRange compute(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return computeArgument(argument);
    return llvm::TypeSwitch<Operation *, IntegerRange>(value.getDefiningOp())
        .Case([&](arith::ConstantOp constant) {
          const int64_t number = cast<IntegerAttr>(constant.getValue()).getInt();
          return IntegerRange{number, number};
        })
        .Case([&](tile::AxisExtentOp extent) {
          // A launch rejects extents above maxExtent of axes that are cut into tiles.
          return IntegerRange{0, tiledAxes.contains(extent.getAxis()) ? maxExtent : int32Range.hi};
        })
        .Case<sched::ThreadIdOp, sched::ReadThreadIdOp>([](auto) { return IntegerRange{0, mostThreads - 1}; })
        .Case([](sched::LaneIdOp) { return IntegerRange{0, warpLanes - 1}; })
        .Case<sched::BlockIdOp, sched::GridSizeOp, sched::ReadBlockIdOp, sched::ExtentOp>(
            [](auto) { return IntegerRange{0, int32Range.hi}; })
        .Case<sched::UniformOp, sched::OpaqueOp>([&](auto same) { return of(same.getValue()); })
        .Case([&](sched::NonnegativeOp known) {
          const IntegerRange range = of(known.getValue());
          return range.lo >= 0 ? range : IntegerRange{0, int32Range.hi};
        })
        .Case<arith::AddIOp, arith::SubIOp, arith::MulIOp>([&](auto op) { return exact(op); })
        .Case<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>([&](auto op) { return quotient(op); })
        .Case<arith::RemSIOp, arith::RemUIOp>([&](auto op) {
          const IntegerRange a = of(op.getLhs()), b = of(op.getRhs());
          return a.lo >= 0 && b.lo > 0 ? IntegerRange{0, std::min(a.hi, b.hi - 1)} : int32Range;
        })
        .Case<arith::CeilDivSIOp, arith::CeilDivUIOp>([&](auto op) {
          const IntegerRange a = of(op.getLhs()), b = of(op.getRhs());
          return a.lo >= 0 && b.lo > 0 ? IntegerRange{a.lo / b.hi, (a.hi + b.lo - 1) / b.lo} : int32Range;
        })
        .Case([&](arith::MinSIOp op) {
          const IntegerRange a = of(op.getLhs()), b = of(op.getRhs());
          return IntegerRange{std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
        })
        .Case([&](arith::MaxSIOp op) {
          const IntegerRange a = of(op.getLhs()), b = of(op.getRhs());
          return IntegerRange{std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
        })
        .Case([&](arith::SelectOp op) { return hull(of(op.getTrueValue()), of(op.getFalseValue())); })
        .Default([](Operation *) { return int32Range; });
  }

  IntegerRange quotient(Operation *op) {
    const IntegerRange a = of(op->getOperand(0)), b = of(op->getOperand(1));
    if (b.lo <= 0 || (a.lo < 0 && isa<arith::DivUIOp>(op)))
      return int32Range;
    return {a.lo < 0 ? a.lo : a.lo / b.hi, a.hi < 0 ? 0 : a.hi / b.lo};
  }

  /// The range of an IR block's argument. The counter of a loop is at least its first value and below the loop's bound.
  IntegerRange computeArgument(BlockArgument argument) {
    Operation *loop = argument.getOwner()->getParentOp();
    if (auto tiles = dyn_cast<sched::ForTilesOp>(loop); tiles && argument.getArgNumber() == 0)
      return counter(tiles.getInits()[0], tiles.getBound(), countsUp(tiles));
    if (auto loopOp = dyn_cast<scf::ForOp>(loop); loopOp && argument == loopOp.getInductionVar())
      return counter(loopOp.getLowerBound(), loopOp.getUpperBound(), true);
    return int32Range;
  }

  IntegerRange counter(Value first, Value bound, bool countsUp) {
    const IntegerRange from = of(first), to = of(bound);
    return {countsUp ? from.lo : int32Range.lo, std::max(from.lo, to.hi - 1)};
  }

  /// Whether each iteration adds a nonnegative constant to the loop's counter.
  static bool countsUp(sched::ForTilesOp loop) {
    auto sum = loop.getNext().getValues()[0].getDefiningOp<arith::AddIOp>();
    auto step = sum ? sum.getRhs().getDefiningOp<arith::ConstantOp>() : arith::ConstantOp();
    return sum && sum.getLhs() == loop.getBody().getArgument(0) && step &&
           cast<IntegerAttr>(step.getValue()).getInt() >= 0;
  }

  llvm::StringSet<> tiledAxes;
  llvm::DenseMap<Value, IntegerRange> ranges;
};

struct BoundArithmetic : attune::impl::BoundArithmeticBase<BoundArithmetic> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<sched::KernelOp>()) {
      KernelRanges ranges(kernel);
      kernel.walk([&](arith::ArithIntegerOverflowFlagsInterface op) {
        if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op) || !op->getResult(0).getType().isInteger(32) ||
            op.hasNoSignedWrap() || !ranges.exact(op).within(int32Range))
          return;
        op->setAttr(op.getIntegerOverflowAttrName(),
                    arith::IntegerOverflowFlagsAttr::get(&getContext(), arith::IntegerOverflowFlags::nsw));
      });
    }
  }
};

} // namespace
