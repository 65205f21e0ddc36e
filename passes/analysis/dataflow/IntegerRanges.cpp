//===- IntegerRanges.cpp - Ranges of the i32 values of a kernel --------------===//

#include "passes/analysis/dataflow/IntegerRanges.h"

#include "ir/tile/Signature.h"
#include "ir/tile/Tile.h"
#include "passes/analysis/dataflow/CarriedValues.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using attune::mask::int32Range, attune::mask::maxExtent;
using IntegerRange = attune::mask::Range;

namespace attune {

constexpr int64_t mostThreads = 1024, warpLanes = 32;
/// How often a range may grow to the next threshold. If the range grows once more, the growing end is set to the least
/// or the greatest i32.
constexpr int mostGrowths = 6;

static bool isI32(Value value) { return value.getType().isInteger(32); }

IntegerRanges::IntegerRanges(sched::KernelOp kernel) {
  kernel.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tile = dyn_cast<tile::TileType>(type))
        for (StringAttr axis : tile.getAxes())
          tiledAxes.insert(axis.getValue());
    if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && isI32(constant))
      for (int64_t offset : {-1, 0, 1})
        thresholds.push_back(cast<IntegerAttr>(constant.getValue()).getInt() + offset);
    if (auto send = dyn_cast<sched::SendOp>(op))
      sends[send.getShared()].push_back(send);
  });
  if (auto derived = kernel->getAttrOfType<ArrayAttr>(tile::derivedAttr))
    for (auto axis : derived.getAsRange<tile::DerivedAxisAttr>())
      tiledAxes.erase(axis.getName().getValue());
  thresholds.append({int32Range.lo, int32Range.hi});
  llvm::sort(thresholds);
  do {
    changed = false;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) { visit(op); });
  } while (changed);
}

IntegerRange IntegerRanges::of(Value value) const {
  auto known = ranges.find(value);
  return known == ranges.end() ? int32Range : known->second.range;
}

IntegerRange IntegerRanges::exact(Operation *op) const {
  const IntegerRange a = of(op->getOperand(0)), b = of(op->getOperand(1));
  if (isa<arith::AddIOp>(op))
    return {a.lo + b.lo, a.hi + b.hi};
  if (isa<arith::SubIOp>(op))
    return {a.lo - b.hi, a.hi - b.lo};
  const int64_t corners[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4)};
}

void IntegerRanges::visit(Operation *op) {
  if (isa<sched::ForTilesOp, scf::ForOp>(op))
    return visitLoop(op);
  if (auto work = dyn_cast<sched::ForWorkOp>(op))
    return visitWork(work);
  if (auto choice = dyn_cast<scf::IfOp>(op)) {
    for (Region *region : {&choice.getThenRegion(), &choice.getElseRegion()})
      if (choice.getNumResults())
        for (auto [result, value] : llvm::zip(choice.getResults(), region->front().getTerminator()->getOperands()))
          join(result, value);
    return;
  }
  if (auto receive = dyn_cast<sched::ReceiveOp>(op)) {
    // A sender may send fewer fields than the receiver reads. The receiver then reads 0 for the remaining fields.
    for (auto send : sends[receive.getShared()])
      for (auto [i, field] : llvm::enumerate(receive.getValues()))
        if (i < send.getValues().size())
          join(field, send.getValues()[i]);
        else
          join(field, IntegerRange{0, 0});
    return;
  }
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (BlockArgument argument : block.getArguments())
        join(argument, int32Range);
  if (llvm::all_of(op->getOperands(), [&](Value operand) { return !isI32(operand) || isKnown(operand); }))
    for (Value result : op->getResults())
      if (isI32(result)) {
        const std::optional<IntegerRange> range = compute(op);
        if (range)
          join(result, range->within(int32Range) ? *range : int32Range);
      }
}

void IntegerRanges::visitLoop(Operation *op) {
  auto tiles = dyn_cast<sched::ForTilesOp>(op);
  for (auto [i, carried] : llvm::enumerate(carriedBy(op))) {
    if (!tiles || i > 0)
      for (Value from : {carried.initial, carried.next})
        join(carried.inside, from);
    if (carried.outside)
      for (Value from : {carried.initial, carried.next})
        join(carried.outside, from);
  }
  if (tiles)
    return visitCounter(tiles);
  auto loop = cast<scf::ForOp>(op);
  if (isKnown(loop.getLowerBound()) && isKnown(loop.getUpperBound())) {
    const IntegerRange from = of(loop.getLowerBound()), to = of(loop.getUpperBound());
    join(loop.getInductionVar(), IntegerRange{from.lo, std::max(from.lo, to.hi - 1)});
  }
}

/// Sets the range of the tile index of `loop`: in the loop's body the index is below the loop's bound.
void IntegerRanges::visitCounter(sched::ForTilesOp loop) {
  const Value first = loop.getInits()[0], bound = loop.getBound(), next = loop.getNext().getValues()[0];
  if (!isKnown(first) || !isKnown(bound))
    return;
  const int64_t least = isKnown(next) ? std::min(of(first).lo, of(next).lo) : of(first).lo;
  join(loop.getBody().getArgument(0), IntegerRange{least, std::max(of(first).lo, of(bound).hi - 1)});
}

void IntegerRanges::visitWork(sched::ForWorkOp loop) {
  for (BlockArgument argument : loop.getBody().getArguments().drop_back(loop.getInits().size()))
    join(argument, int32Range);
  for (auto [i, argument] : llvm::enumerate(loop.getCarried())) {
    join(argument, loop.getInits()[i]);
    join(argument, loop.getNextCarried()[i]);
  }
}

void IntegerRanges::join(Value value, Value from) {
  if (isKnown(from))
    join(value, of(from));
}

void IntegerRanges::join(Value value, IntegerRange range) {
  if (!isI32(value))
    return;
  auto [place, isNew] = ranges.try_emplace(value, Known{range});
  Known &known = place->second;
  if (isNew)
    changed = true;
  if (isNew || range.within(known.range))
    return;
  changed = true;
  if (++known.growths > mostGrowths) {
    known.range = {range.lo < known.range.lo ? int32Range.lo : known.range.lo,
                   range.hi > known.range.hi ? int32Range.hi : known.range.hi};
    return;
  }
  if (range.lo < known.range.lo)
    known.range.lo = *std::prev(llvm::upper_bound(thresholds, range.lo));
  if (range.hi > known.range.hi)
    known.range.hi = *llvm::lower_bound(thresholds, range.hi);
}

std::optional<IntegerRange> IntegerRanges::compute(Operation *op) const {
  return llvm::TypeSwitch<Operation *, std::optional<IntegerRange>>(op)
      .Case([&](arith::ConstantOp constant) {
        const int64_t number = cast<IntegerAttr>(constant.getValue()).getInt();
        return IntegerRange{number, number};
      })
      .Case([&](tile::AxisExtentOp extent) {
        // For an axis that is split into tiles, a launch rejects extents above maxExtent.
        return IntegerRange{0, tiledAxes.contains(extent.getAxis()) ? maxExtent : int32Range.hi};
      })
      .Case<sched::ThreadIdOp, sched::ReadThreadIdOp>([](auto) { return IntegerRange{0, mostThreads - 1}; })
      .Case([](sched::LaneIdOp) { return IntegerRange{0, warpLanes - 1}; })
      .Case<sched::BlockIdOp, sched::GridSizeOp, sched::ReadBlockIdOp, sched::ExtentOp>(
          [](auto) { return IntegerRange{0, int32Range.hi}; })
      .Case<sched::UniformOp, sched::OpaqueOp>([&](auto same) { return of(same.getValue()); })
      .Case([&](sched::NonnegativeOp known) {
        const IntegerRange range = of(known.getValue());
        const int64_t most = known.getBelow() ? int64_t(*known.getBelow()) - 1 : int32Range.hi;
        return range.lo >= 0 ? IntegerRange{range.lo, std::min(range.hi, most)} : IntegerRange{0, most};
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
      .Case([&](arith::SelectOp op) { return selected(op); })
      .Case([&](arith::FPToSIOp op) { return truncated(op); })
      .Case([&](tile::SearchOp) { return IntegerRange{0, int32Range.hi}; })
      .Default([](Operation *) { return int32Range; });
}

IntegerRange IntegerRanges::quotient(Operation *op) const {
  const IntegerRange a = of(op->getOperand(0)), b = of(op->getOperand(1));
  if (b.lo <= 0 || (a.lo < 0 && isa<arith::DivUIOp>(op)))
    return int32Range;
  return {a.lo < 0 ? a.lo : a.lo / b.hi, a.hi < 0 ? 0 : a.hi / b.lo};
}

/// An analysis of floats that takes the ranges of integers from this analysis. `missing` is set if the float analysis
/// asks for an i32 value whose range is not known yet.
FloatRanges IntegerRanges::floats(bool &missing) const {
  return FloatRanges([this, &missing](Value integer) {
    missing |= isI32(integer) && !isKnown(integer);
    const IntegerRange range = isI32(integer) ? of(integer) : mask::int64Range;
    return dsl::Range{range.lo, range.hi};
  });
}

std::optional<IntegerRange> IntegerRanges::truncated(arith::FPToSIOp op) const {
  bool missing = false;
  const dsl::Range range = floats(missing).ofTruncated(op);
  return missing ? std::nullopt : std::optional(IntegerRange{range.low, range.high});
}

/// In `select(x == n, y, x)` the result x never equals n. If n is the first or last number of the range of x, that
/// number is left out.
std::optional<IntegerRange> IntegerRanges::selected(arith::SelectOp op) const {
  bool missing = false;
  const std::optional<bool> decided = floats(missing).holds(op.getCondition());
  if (missing)
    return std::nullopt;
  if (decided)
    return of(*decided ? op.getTrueValue() : op.getFalseValue());
  IntegerRange a = of(op.getTrueValue()), b = of(op.getFalseValue());
  auto compare = op.getCondition().getDefiningOp<arith::CmpIOp>();
  std::optional<int64_t> number = compare ? getConstantIntValue(compare.getRhs()) : std::nullopt;
  if (number && compare.getPredicate() == arith::CmpIPredicate::eq && compare.getLhs() == op.getFalseValue()) {
    if (b.isPoint() && b.lo == *number)
      return a;
    b.hi -= b.hi == *number;
    b.lo += b.lo == *number;
  }
  return hull(a, b);
}

} // namespace attune
