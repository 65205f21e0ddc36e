//===- SplitKeys.cpp - Split-KV: restrict a domain to one split; combine the splits ---===//
//
// A block of the combining kernel is one warp and computes 32 columns of one row. The rows of its tiles are splits, 16
// at a time. A first loop over splits computes the row's statistics; a second loop sums the accumulators, each times
// its weight. A statistic, one number per split, is held in a tile of eight equal columns. Reductions over splits give
// eight equal numbers, and a sum over one of the columns gives a number for each split:
//
//     part_m  split 16 x copy 8  -- max over split -->  m  copy 8
//     weight  split 16 x copy 8  -- column 0 -->        weight  split 16        part_acc  split 16 x dv 32
//
//===----------------------------------------------------------------------===//

#include "passes/attn/SplitKeys.h"
#include "ir/tile/Signature.h"
#include "passes/analysis/cost/PlanSeconds.h"
#include "passes/attn/NormaliserWriter.h"

using namespace mlir;
using namespace attune;
using tile::MemorySpace;
using tile::TileType;

static constexpr llvm::StringLiteral partPrefix = "part_";

SmallVector<tile::OperandAttr> attune::splitOperands(attn::AttentionOp op, RowAxes axes, bool byWorkItems) {
  SmallVector<StringRef> places{"b", axes.heads, tile::splitsAxis, axes.rows};
  if (byWorkItems)
    places = {tile::workItemsAxis, axes.heads, tile::tileRowsAxis};
  SmallVector<tile::OperandAttr> operands;
  auto add = [&](StringRef name, int columns) {
    OperandParam operand = {.name = (partPrefix + name).str(), .dtype = DType::F32, .role = OperandRole::Workspace};
    for (StringRef axis : places)
      operand.axes.push_back({axis.str()});
    if (columns)
      operand.axes.push_back({"dv", columns});
    operands.push_back(tile::declarationOf(op.getContext(), operand));
  };
  for (auto statistic : op.getStatistics().getAsRange<attn::RowStatisticAttr>())
    add(statistic.getName().getValue(), 0);
  add("acc", int(op.getHeadDimV()));
  return operands;
}

namespace {

/// Emits i32 arithmetic on the number of tiles in a domain, before the domain op.
class TileCounter {
public:
  TileCounter(OpBuilder builder, tile::DomainOp domain) : builder(builder), loc(domain.getLoc()) {
    this->builder.setInsertionPoint(domain);
    // Adjacent segments of the domain form one run. The begin and the end of a split cut a run at two places at most.
    // Tiles are numbered consecutively through all runs.
    for (auto [begin, end] : llvm::zip(domain.getBegins(), domain.getEnds())) {
      if (runs.empty() || runs.back().ends.back() != begin)
        runs.push_back({{begin}, {}});
      runs.back().ends.push_back(end);
    }
    for (Run &run : runs) {
      run.count = notNegative(sub(run.ends.back(), run.ends.front()));
      all = all ? add(all, run.count) : run.count;
    }
  }

  struct Run {
    SmallVector<Value, 4> ends; // begin of the first segment, then the end of each segment
    Value count;
  };
  SmallVector<Run> runs;
  Value all;

  Value number(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value sub(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value notNegative(Value a) { return arith::MaxSIOp::create(builder, loc, a, number(0)); }
  Value divideUp(Value a, Value b) { return arith::DivSIOp::create(builder, loc, sub(add(a, b), number(1)), b); }

  OpBuilder builder;
  Location loc;
};

} // namespace

SplitTiles attune::takeSplit(OpBuilder builder, tile::DomainOp domain, Value split, Value splits) {
  TileCounter tiles(builder, domain);
  const Location loc = domain.getLoc();
  OpBuilder &at = tiles.builder;
  Value each = tile::named(tiles.divideUp(tiles.all, splits), "tiles_each");
  Value first = tile::named(arith::MulIOp::create(at, loc, split, each), "split_begin"),
        last = tile::named(tiles.add(first, each), "split_end"), before;
  SmallVector<Value> begins, ends;
  for (TileCounter::Run &run : tiles.runs) {
    auto within = [&](Value of) {
      return tiles.add(run.ends.front(), before ? tiles.notNegative(tiles.sub(of, before)) : of);
    };
    Value from = within(first), to = arith::MinSIOp::create(at, loc, within(last), run.ends.back());
    begins.push_back(from);
    for (Value inner : ArrayRef(run.ends).drop_front().drop_back()) {
      inner = arith::MinSIOp::create(at, loc, arith::MaxSIOp::create(at, loc, inner, from), to);
      ends.push_back(inner);
      begins.push_back(inner);
    }
    ends.push_back(to);
    before = before ? tiles.add(before, run.count) : run.count;
  }
  domain.getBeginsMutable().assign(begins);
  domain.getEndsMutable().assign(ends);
  return {tiles.all, first};
}

namespace {

class CombineWriter : NormaliserWriter {
public:
  CombineWriter(OpBuilder builder, attn::AttentionOp op, tile::KernelOp partial, RowAxes axes,
                std::optional<BlockRows> workItems)
      : NormaliserWriter(op), partial(partial), axes(axes), workItems(workItems) {
    this->builder.restoreInsertionPoint(builder.saveInsertionPoint());
  }

  tile::KernelOp write(StringRef name) {
    const int64_t panels = llvm::divideCeil(op.getHeadDimV(), columns);
    auto plan =
        tile::PlanAttr::make(op.getContext(), {{"q", splitsAtOnce}, {"k", columns}}, /*warps=*/1, /*blocksPerSm=*/8);
    auto kernel = tile::KernelOp::create(
        builder, name, operands(),
        builder.getArrayAttr({axis("b"), axis(axes.heads), axis(axes.rows), axis("panel", panels)}), op.getDtype(),
        plan, op.getTensorsAttr(), op.getScalarsAttr(), attn::BlockPatternAttr(), op.getDropout(), /*precise=*/true,
        workItems && op.getQOffset());
    kernel->setAttr(tile::derivedAttr, partial->getAttr(tile::derivedAttr));
    builder.createBlock(&kernel.getBody());
    writeBlock();
    declareReads(kernel, partial);
    return kernel;
  }

private:
  /// Computes where the row's splits are stored, and how many splits have a tile of keys and were therefore written by
  /// the partial kernel.
  void findWorkItems() {
    const int64_t tileQ = partial.getPlan().getSize("q");
    SequenceWork work(builder, builder.getLoc(), *workItems, tileQ, axes.heads);
    Value rowTile = arith::DivUIOp::create(builder, row, number(tileQ)), row0 = multiply(rowTile, number(tileQ)),
          ofTile = work.splitsOf(b);
    firstItem = work.firstItem(b, rowTile, ofTile);
    rowOfTile = tile::named(arith::RemUIOp::create(builder, row, number(tileQ)), "row_of_tile");
    Value all = work.keyTilesOf(b, row0);
    // at least 1: the row may have no tiles of keys
    Value each = arith::MaxSIOp::create(builder, work.divideUp(all, ofTile), number(1));
    splits = tile::named(work.divideUp(all, each), "splits_written");
    // firstItem of a sequence without work items may be past the last work item; indices are clamped to lastItem.
    lastItem = subtract(axisExtent(tile::workItemsAxis, "work_items"), number(1));
  }

  /// The indices of the partial results of this block's row that the attention kernel has stored for split number
  /// `split` (a share of the keys). `split` is clamped to the number of splits that have stored results.
  SmallVector<Value> placeOf(Value split) {
    Value last = subtract(splits, number(1));
    if (!workItems)
      return {b, places[1], arith::MinSIOp::create(builder, split, last), row};
    split = arith::MinSIOp::create(builder, split, arith::MaxSIOp::create(builder, last, number(0)));
    return {arith::MinSIOp::create(builder, add(firstItem, split), lastItem), places[1], rowOfTile};
  }

  /// The operands of the combining kernel: O and LSE, the splits, and operands from whose sizes the extents of axes are
  /// read.
  ArrayAttr operands() {
    SmallVector<Attribute> declared;
    for (auto operand : partial.getOperandsAttr().getAsRange<tile::OperandAttr>())
      if (operand.getRole() == OperandRole::Out || operand.getName().getValue().starts_with(partPrefix))
        declared.push_back(operand);
    for (const OperandParam &operand : tile::forwardOperandsOf(op))
      if (operand.role == OperandRole::Out)
        declared.push_back(tile::declarationOf(op.getContext(), operand));
    return builder.getArrayAttr(declared);
  }

  Value index(StringRef axis) { return blockIndex(axis, axis); }

  void writeBlock() {
    b = index("b");
    places = {b, index(axes.heads)};
    row = index(axes.rows);
    h = places[1];
    Value q = row;
    if (axes.rows != "q") {
      Value heads = param("group", i32);
      h = tile::named(add(multiply(h, heads), arith::RemUIOp::create(builder, row, heads)), "h");
      q = tile::named(arith::DivUIOp::create(builder, row, heads), "q");
    }
    floatConstant(0);
    Value panel = index("panel");
    firstColumn = tile::named(multiply(panel, number(columns)), "first_column");
    if (workItems)
      findWorkItems();
    else
      splits = axisExtent(tile::splitsAxis, "splits");
    Value ofLoop = divide(add(splits, number(splitsAtOnce - 1)), number(splitsAtOnce));
    domain = tile::DomainOp::create(builder, tile::splitsAxis, splitsAtOnce, number(0), ofLoop);
    for (const tile::OperandAttr &operand : splitOperands(op, axes, workItems.has_value()))
      views.push_back(param(operand));
    copies = shape({{"copy", 8}}, f32);
    ofSplits = shape({{"split", splitsAtOnce}, {"copy", 8}}, f32);
    weightType = shape({{"split", splitsAtOnce}}, f32);
    column = shape({{"dv", columns}}, f32);

    const SmallVector<Value> ends = rowStatistics();
    Value keepScale = op.getDropout() ? param("keep_scale", f32) : Value();
    Value inverse = inverseOf(ends, keepScale), out = output(ends, inverse);
    // Rows past the length of a sequence are not written.
    Value isOwn, columnsWritten = number(op.getHeadDimV());
    if (op.getQueryLengths()) {
      isOwn = compare(arith::CmpIPredicate::slt, q,
                      lengthOfSequence(builder, op, op.getQueryLengths(), b, axisExtent("q", "Sq"), "own_queries"));
      columnsWritten = select(isOwn, columnsWritten, number(0));
    }
    if (op.hasLse()) {
      // Only the thread block that computes the first columns of O stores LSE.
      Value writes = compare(arith::CmpIPredicate::eq, panel, number(0));
      if (isOwn)
        writes = both(writes, isOwn);
      Value isFirst = arith::ExtUIOp::create(builder, i32, writes);
      Value lse = mapByRegion("lse", copies, op.getLse(), ends);
      store(lse, param("lse", view(3, f32)), ValueRange{b, h, q}, add(q, isFirst),
            /*optional=*/true);
    }
    store(out, param("o", view(4, op.getDtype())), ValueRange{b, h, q, firstColumn}, columnsWritten);
  }

  /// The row's statistics over all splits.
  SmallVector<Value> rowStatistics() {
    const SmallVector<attn::RowStatisticAttr> all = statistics();
    SmallVector<Value> inits;
    for (attn::RowStatisticAttr statistic : all)
      inits.push_back(splat(statistic.getName().getValue(), copies, initialOf(statistic)));
    if (all.empty())
      return {};
    // A step of the loop covers a tile of 16 splits.
    return loopOver(domain, inits, [&](tile::ForBlocksOp loop) {
      ValueRange before = loop.getCarried();
      SmallVector<Value> parts = partsOf(loop.getOrigin()), next(before);
      for (auto [statistic, part, value] : llvm::zip(all, parts, next))
        if (statistic.getIsMax())
          value = reduceSplits((statistic.getName().getValue() + "_next").str(), tile::Reduction::Max, part, value);
      Value base = baseOf(next), weight = rescaled("weight", ofSplits, parts, base),
            alpha = rescaled("alpha", copies, before, base);
      for (auto [statistic, part, value] : llvm::zip(all, parts, next))
        if (!statistic.getIsMax()) {
          StringRef name = statistic.getName().getValue();
          value = reduceSplits(name, tile::Reduction::Sum, times(name, part, weight), times(name, value, alpha));
        }
      return next;
    });
  }

  /// The sum of the splits' accumulators, each times its weight.
  Value output(ValueRange ends, Value inverse) {
    Value base = baseOf(ends), start = splat("acc", column, floatConstant(0));
    const bool divides = !op.getDivisor().empty();
    Carried sum = loopOver(domain, start, [&](tile::ForBlocksOp loop) -> Carried {
      Value split = loop.getOrigin(), weight = rescaled("weight", ofSplits, partsOf(split), base);
      if (divides)
        weight = weight ? scaledBy("weight", weight, inverse) : broadcast("weight", inverse);
      Value part = accumulatorOf(split);
      if (weight)
        part = scaledBy("part_acc", part, firstOf(weight));
      return {reduce("acc", column, tile::Reduction::Sum, part, tile::splitsAxis, loop.getCarried()[0])};
    });
    return inverse && !divides ? scaledBy("out", sum.front(), inverse) : sum.front();
  }

  Value baseOf(ValueRange statistics) {
    return op.getBase().empty() ? Value() : mapByRegion("base", copies, op.getBase(), statistics);
  }

  /// The factor that rescales from the statistics `of` of a split to the row's `base`; null where the normaliser has no
  /// rescaling.
  Value rescaled(StringRef name, TileType type, ValueRange of, Value base) {
    if (op.getRescale().empty())
      return {};
    SmallVector<Value> read(of);
    if (base)
      read.push_back(base);
    return mapByRegion(name, type, op.getRescale(), read);
  }

  Value times(StringRef name, Value value, Value factor) { return factor ? scaledBy(name, value, factor) : value; }

  Value broadcast(StringRef name, Value value) {
    return map(name, ofSplits, value, [](ValueRange x) { return x[0]; });
  }

  /// Reduces eight equal columns to one number per split, by summing the first column.
  Value firstOf(Value tile) {
    Value zero = floatConstant(0);
    Value first = map("weight", ofSplits, tile, {{"copy", number(0)}}, [&](tile::MapOp map) {
      Value isFirst = compare(arith::CmpIPredicate::eq, map.getCoordinate("copy"), number(0));
      return select(isFirst, map.getElement(0), zero);
    });
    return reduce("weight_of_share", weightType, tile::Reduction::Sum, first, "copy");
  }

  Value reduceSplits(StringRef name, tile::Reduction kind, Value of, Value init) {
    return reduce(name, copies, kind, of, tile::splitsAxis, init);
  }

  /// The statistics of 16 splits, from split `split` on.
  SmallVector<Value> partsOf(Value split) {
    SmallVector<Value> parts;
    for (auto [i, statistic] : llvm::enumerate(statistics()))
      parts.push_back(statisticOf(views[i], statistic, split));
    return parts;
  }

  /// Loads, within a map, one number that the partial kernel stored for a split and this block's row; returns `none`
  /// for splits past the last. `inner` has the indices of the operand's dimensions after its rows.
  Value elementOf(Value from, Value split, ArrayRef<Value> inner, Value none) {
    Value exists = compare(arith::CmpIPredicate::slt, split, splits);
    SmallVector<Value> at = placeOf(split);
    llvm::append_range(at, inner);
    Value element = tile::ElementOp::create(builder, f32, from, at, SmallVector<bool>(at.size(), /*in range=*/true));
    return select(exists, element, none);
  }

  /// A statistic of 16 splits, in eight equal columns.
  Value statisticOf(Value from, attn::RowStatisticAttr statistic, Value split) {
    const StringRef name = statistic.getName().getValue();
    Value none = initialOf(statistic);
    Value ofSplit = map(("shares_" + name).str(), weightType, {}, {{"split", split}},
                        [&](tile::MapOp map) { return elementOf(from, map.getCoordinate("split"), {}, none); });
    return broadcast(("part_" + name).str(), ofSplit);
  }

  Value accumulatorOf(Value split) {
    Value zero = floatConstant(0);
    const TileType type = shape({{"split", splitsAtOnce}, {"dv", columns}}, f32);
    return map("part_acc", type, {}, {{"split", split}, {"dv", firstColumn}}, [&](tile::MapOp map) {
      Value at = map.getCoordinate("dv");
      if (op.getHeadDimV() % columns)
        at = arith::MinSIOp::create(builder, at, number(op.getHeadDimV() - 1));
      return elementOf(views.back(), map.getCoordinate("split"), at, zero);
    });
  }

  static constexpr int64_t columns = 32;

  tile::KernelOp partial;
  RowAxes axes;
  std::optional<BlockRows> workItems; ///< rows of a block of `partial`, if splits are work items; unset otherwise
  TileType copies, ofSplits, weightType, column;
  SmallVector<Value, 2> places; ///< sequence and head, the first indices of the splits' operands
  Value row, splits, domain, firstColumn;
  Value firstItem, lastItem, rowOfTile; ///< set where splits are work items
  SmallVector<Value> views;             ///< views of the operands that hold the splits' partial results
};

} // namespace

tile::KernelOp attune::writeCombineKernel(OpBuilder builder, attn::AttentionOp op, tile::KernelOp partial,
                                          StringRef name, RowAxes axes, std::optional<BlockRows> workItems) {
  return CombineWriter(builder, op, partial, axes, workItems).write(name);
}
