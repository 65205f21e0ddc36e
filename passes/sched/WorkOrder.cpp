//===- WorkOrder.cpp - Map the number of a tile of work to its position -------------------------===//

#include "passes/sched/WorkOrder.h"

#include "passes/analysis/mask/BlockIntegers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace attune;

using Predicate = arith::CmpIPredicate;

WorkOrder::WorkOrder(OpBuilder &builder, Location loc, ArrayAttr grid, Options options)
    : builder(builder), loc(loc), axes(llvm::to_vector(grid.getAsRange<tile::AxisAttr>())), options(options) {
  if (axes.size() < 2)
    this->options.acrossFirstAxis = false;
}

int64_t attune::rowsInHalfOfLevel2(ArrayAttr operands, ArrayAttr grid) {
  constexpr int64_t bytes = 16 << 20;
  if (grid.empty())
    return 0;
  const StringAttr tiled = cast<tile::AxisAttr>(grid[grid.size() - 1]).getName();
  int64_t row = 0;
  for (auto operand : operands.getAsRange<tile::OperandAttr>()) {
    ArrayRef<tile::AxisAttr> of = operand.getAxes();
    if (operand.isTiled() && !operand.isWritten() && of.size() > 1 && of[of.size() - 2].getName() != tiled)
      row += operand.getColumns() * operand.getElementType().getIntOrFloatBitWidth() / 8;
  }
  return row ? bytes / row : 0;
}

Value WorkOrder::constant(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

Value WorkOrder::blockId() { return sched::BlockIdOp::create(builder, loc, builder.getI32Type()); }

Value WorkOrder::gridSize() { return sched::GridSizeOp::create(builder, loc, builder.getI32Type()); }

Value WorkOrder::count(size_t i, bool again) {
  if (axes[i].isFixed())
    return constant(llvm::divideCeil(axes[i].getSize(), axes[i].getBy()));
  Value extent = tile::AxisExtentOp::create(builder, loc, builder.getI32Type(), axes[i].getName());
  if (again)
    extent = sched::OpaqueOp::create(builder, loc, builder.getI32Type(), extent);
  if (axes[i].getBy() == 1)
    return extent;
  return tile::named(make<arith::CeilDivUIOp>(extent, constant(axes[i].getBy())),
                     (axes[i].getName().getValue() + "_tiles").str());
}

Value WorkOrder::heads() {
  if (allHeads)
    return allHeads;
  allHeads = count(0);
  for (size_t i = 1; i + 1 < axes.size(); ++i)
    allHeads = arith::MulIOp::create(builder, loc, allHeads, count(i), arith::IntegerOverflowFlags::nsw);
  return allHeads = tile::named(allHeads, "all_heads");
}

Value WorkOrder::headsTogether() {
  if (together)
    return together;
  return together =
             tile::named(options.assignment == Assignment::Claims ? headsClaimed() : headsStarted(), "heads_together");
}

Value WorkOrder::headsClaimed() {
  const int64_t rows = axes.back().getBy();
  Value all = heads(), one = constant(1);
  Value rowsAtOnce = make<arith::MulIOp>(gridSize(), constant(rows));
  Value most = tile::named(make<arith::MaxUIOp>(make<arith::DivUIOp>(rowsAtOnce, constant(384)), one), "most_heads");
  auto parts = [&](Value of, Value by) {
    return make<arith::DivUIOp>(make<arith::SubIOp>(make<arith::AddIOp>(of, by), one), by);
  };
  return parts(all, tile::named(parts(all, most), "head_groups"));
}

Value WorkOrder::headsStarted() {
  constexpr int64_t fewTiles = 8;
  const int64_t most = options.rowsTogether / axes.back().getBy();
  Value tiles = count(axes.size() - 1), together = constant(1);
  auto where = [&](Predicate predicate, int64_t bound, int64_t heads) {
    Value holds = arith::CmpIOp::create(builder, loc, predicate, tiles, constant(bound));
    together = arith::SelectOp::create(builder, loc, holds, constant(heads), together);
  };
  for (int64_t heads = 2; heads * fewTiles <= most; heads *= 2)
    where(Predicate::ule, most / heads, heads);
  where(Predicate::ult, fewTiles, 1);
  return together;
}

Value WorkOrder::total() {
  if (totalTiles)
    return totalTiles;
  if (axes.empty())
    return totalTiles = constant(1);
  totalTiles = count(axes.size() - 1);
  for (size_t i = axes.size() - 1; i-- > 0;)
    totalTiles = make<arith::MulIOp>(totalTiles, count(i));
  return totalTiles = tile::named(totalTiles, "work_tiles");
}

void WorkOrder::prepare() {
  total();
  if (inPairs())
    inOneIteration();
  if (inGroups())
    headsTogether();
}

Value WorkOrder::inOneIteration() {
  if (!oneIteration)
    oneIteration =
        tile::named(arith::CmpIOp::create(builder, loc, Predicate::ule, total(), gridSize()), "one_iteration");
  return oneIteration;
}

Value WorkOrder::first() {
  Value block = blockId();
  if (!inPairs())
    return block;
  return arith::SelectOp::create(builder, loc, inOneIteration(), block, make<arith::MulIOp>(block, constant(2)));
}

Value WorkOrder::next(Value count) {
  Value block = blockId(), blocks = gridSize();
  Value iteration = tile::named(
      arith::AddIOp::create(builder, loc, count, constant(1), arith::IntegerOverflowFlags::nsw), "iteration");
  Value single = make<arith::AddIOp>(make<arith::MulIOp>(blocks, iteration), block);
  if (!inPairs())
    return tile::named(single, "next_number");
  Value two = constant(2), pair = tile::named(make<arith::DivUIOp>(iteration, two), "pair");
  Value section = make<arith::DivUIOp>(make<arith::MulIOp>(blocks, constant(5)), constant(8));
  Value shifted = make<arith::RemUIOp>(make<arith::AddIOp>(block, make<arith::MulIOp>(section, pair)), blocks);
  Value blockOfPair = make<arith::AddIOp>(make<arith::MulIOp>(blocks, pair), tile::named(shifted, "shifted_block"));
  Value ofPair = make<arith::AddIOp>(make<arith::MulIOp>(blockOfPair, two), make<arith::RemUIOp>(iteration, two));
  return tile::named(arith::SelectOp::create(builder, loc, inOneIteration(), single, ofPair), "next_number");
}

Value WorkOrder::alongFirstAxis(Value number) {
  Value firsts = count(0), tiles = count(axes.size() - 1);
  for (size_t i = axes.size() - 1; i-- > 1;)
    tiles = make<arith::MulIOp>(tiles, count(i));
  tiles = tile::named(tiles, (axes.front().getName().getValue() + "_tiles").str());
  // A run is a pair of tiles of adjacent numbers, or one tile if a pair would span two entries of the first axis.
  Value run, place = number;
  if (inPairs()) {
    Value odd =
        arith::CmpIOp::create(builder, loc, Predicate::ne, make<arith::RemUIOp>(tiles, constant(2)), constant(0));
    run = tile::named(arith::SelectOp::create(builder, loc, odd, constant(1), constant(2)), "run");
    place = tile::named(make<arith::DivUIOp>(number, run), "run_number");
  }
  Value before = make<arith::MulIOp>(make<arith::RemUIOp>(place, firsts), tiles),
        within = make<arith::DivUIOp>(place, firsts);
  if (run)
    within = make<arith::AddIOp>(make<arith::MulIOp>(within, run), make<arith::RemUIOp>(number, run));
  return tile::named(make<arith::AddIOp>(before, within), "ordered_number");
}

std::pair<Value, Value> WorkOrder::headAndPosition(Value number) {
  if (axes.size() == 1)
    return {Value(), number};
  // If blocks claim tiles, the number of tiles per head is computed again: the claiming warp has no register for it.
  Value tiles = tilesOfHead = count(axes.size() - 1, options.assignment == Assignment::Claims);
  if (!inGroups())
    return {make<arith::DivUIOp>(number, tiles), make<arith::RemUIOp>(number, tiles)};
  // The last group of heads may have fewer heads.
  Value group = headsTogether(), ofGroup = make<arith::MulIOp>(tiles, group);
  Value first = tile::named(make<arith::MulIOp>(make<arith::DivUIOp>(number, ofGroup), group), "first_head");
  Value size = tile::named(make<arith::MinUIOp>(group, make<arith::SubIOp>(heads(), first)), "group_heads");
  Value inGroup = tile::named(make<arith::SubIOp>(number, make<arith::MulIOp>(tiles, first)), "number_in_group");
  return {make<arith::AddIOp>(first, make<arith::RemUIOp>(inGroup, size)), make<arith::DivUIOp>(inGroup, size)};
}

Value WorkOrder::tileOf(Value position) {
  const bool areLast = options.longest == sched::LongTiles::Last, inRounds = options.assignment == Assignment::Rounds;
  if (!isUneven() || (!areLast && !inRounds))
    return position;
  Value tiles = tilesOfHead ? tilesOfHead : count(axes.size() - 1);
  Value last = tile::named(make<arith::SubIOp>(tiles, constant(1)), "last_tile");
  if (!inRounds)
    return make<arith::SubIOp>(last, position);
  if (axes.size() > 1) // with one axis the position is the number itself
    tile::named(position, "position");
  Value two = constant(2), half = tile::named(make<arith::DivUIOp>(position, two), "half_position");
  Value odd = arith::CmpIOp::create(builder, loc, Predicate::ne, make<arith::RemUIOp>(position, two), constant(0));
  Value ofEnd = make<arith::SubIOp>(last, half);
  return arith::SelectOp::create(builder, loc, odd, areLast ? half : ofEnd, areLast ? ofEnd : half);
}

SmallVector<Value> WorkOrder::place(Value number) {
  if (axes.empty())
    return {};
  if (options.acrossFirstAxis)
    number = alongFirstAxis(number);
  tilesOfHead = {};
  auto [head, position] = headAndPosition(number);
  SmallVector<Value> indices(axes.size());
  indices.back() = tileOf(position);
  if (axes.size() > 2)
    tile::named(head, "head");
  for (size_t i = axes.size() - 1; i-- > 1; head = make<arith::DivUIOp>(head, count(i)))
    indices[i] = make<arith::RemUIOp>(head, count(i));
  if (head)
    indices.front() = head;
  for (auto [index, axis] : llvm::zip(indices, axes)) {
    const int64_t by = axis.getBy();
    auto signedIndex = sched::NonnegativeOp::create(builder, loc, index);
    // The index is bounded, because a launch rejects extents above maxExtent along axes that are split into tiles.
    if (axis.isFixed() || by > 1)
      signedIndex.setBelow(llvm::divideCeil(axis.isFixed() ? axis.getSize() : mask::maxExtent, by));
    index = signedIndex;
    if (by > 1) {
      tile::named(index, (axis.getName().getValue() + "_index").str());
      index = arith::MulIOp::create(builder, loc, index, constant(by), arith::IntegerOverflowFlags::nsw);
    }
    tile::named(index, (axis.getName().getValue() + (by > 1 ? "0" : "")).str());
  }
  return indices;
}
