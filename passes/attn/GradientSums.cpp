//===- GradientSums.cpp - The kernel that adds up a captured tensor's gradient ===//

#include "passes/attn/GradientKernelWriter.h"
#include "passes/attn/LongAccumulator.h"

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr int64_t blockEntries = 8;

/// Adds up sums of rows and keys. A block has 8 elements along the tensor's last dimension, the columns of a tile whose
/// 128 rows share what each of them sums:
///
///     slopes[h], B 2, Sq 300: b 0 and 1 in a loop, q in rows     column 0     column 1   ...
///         b 0, q 0 .. 127                                        [b, 0, q]    [b, 1, q]
///         b 0, q 128 .. 255                                      ...
///
/// A coordinate that is an index of the tensor is one value for an element: that of its place. All others are summed. So
/// are, at the last element, coordinates beyond the tensor, whose index is clamped. Each (b, h, q) counts for the
/// elements that its clamped indices name.
class GradientSumWriter : public GradientKernelWriter {
public:
  using GradientKernelWriter::GradientKernelWriter;

  tile::KernelOp write() {
    SmallVector<int64_t> by(rank, 1);
    by.back() = blockEntries;
    begin("_grad_", gradient.declaration(), by, 2 * blockEntries);
    for (unsigned dim = 0; dim < rank; ++dim) {
      at.push_back(blockIndex(dim));
      extents.push_back(extentOf(dim));
    }
    const TileType type = registers({{"row", blockRows}, {"entry", blockEntries}}, f32);
    Value total = tile::named(tile::SplatOp::create(builder, loc, type, constant(0)), "total");
    for (const GradientSum &sum : gradient.sums)
      total = addSum(sum, total);
    const bool isScattered = !gradient.scattered.empty();
    if (isScattered && gradient.inAnyOrder)
      total = addWords(total);
    const TileType entries = registers({{"entry", blockEntries}}, f32);
    Value result = tile::named(
        tile::ReduceOp::create(builder, loc, entries, tile::Reduction::Sum, total, "row", Value(), /*per_lane=*/false),
        "gradient");
    if (isScattered && !gradient.inAnyOrder) {
      Value addends =
          tile::LoadOp::create(builder, loc, entries, declare(gradient.addends()), at, extents.back()).getResult();
      result = createMap(builder, loc, "gradient", entries, {result, tile::named(addends, "addends")},
                         [&](ValueRange x) -> Value { return arith::AddFOp::create(builder, loc, x[0], x[1]); });
    }
    tile::StoreOp::create(builder, loc, result, declare(gradient.declaration()), at, extents.back(),
                          /*optional=*/false);
    return end();
  }

private:
  /// How one coordinate of a sum runs.
  struct Run {
    unsigned coordinate;
    Value count;                      ///< of the coordinate
    std::optional<unsigned> dim = {}; ///< the dimension of which it is the index
    Value steps;                      ///< how many values an element has of it
    Value before;                     ///< with `dim`: values less than what the index 0 stands for
  };

  Value addSum(const GradientSum &sum, Value total) {
    Value view = declare(sum.declaration());
    readQueryOffset();
    const std::array<Value, 4> counts = coordinateExtents();
    SmallVector<Run> runs;
    for (unsigned coordinate : {sum.ofKeys ? 3u : 2u, 1u, 0u})
      runs.push_back(runOf(sum.add, coordinate, counts[coordinate]));
    // Those of one batch are counted by 32 bits.
    Run batches = runs.back();
    const bool loops = !batches.dim;
    if (loops)
      runs.pop_back();
    auto addRows = [&](Value b, Value total) { return addRowsOf(sum, view, runs, batches, b, total); };
    if (!loops)
      return addRows(Value(), total);
    return loopOver("batch", 1, batches.count, total, addRows);
  }

  Run runOf(attn::AddGradientOp sum, unsigned coordinate, Value count) {
    Run run{coordinate, count, {}, count, {}};
    for (auto [dim, index] : llvm::enumerate(sum.getIndices()))
      if (coordinateOf(sum, index) == coordinate && !run.dim)
        run.dim = unsigned(dim);
    if (!run.dim)
      return run;
    // Of one element: its own, and those that are clamped to it.
    Value beyond = subtract(count, extents[*run.dim]);
    run.before = number(0);
    if (coordinate == 2 && qOffset) {
      beyond = add(beyond, qOffset);
      run.before = positive(subtract(number(0), qOffset));
    }
    run.steps = add(add(positive(beyond), run.before), number(1));
    return run;
  }

  Value loopOver(StringRef axis, int64_t step, Value tiles, Value total,
                 function_ref<Value(Value origin, Value total)> body) {
    Value domain = tile::DomainOp::create(builder, loc, axis, step, number(0), tiles);
    auto loop = tile::ForBlocksOp::create(builder, loc, domain, ValueRange(), total);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&loop.getBody().front());
    tile::YieldOp::create(builder, loc, body(loop.getOrigin(), loop.getCarried()[0]));
    return loop.getResult(0);
  }

  Value addRowsOf(const GradientSum &sum, Value view, ArrayRef<Run> runs, const Run &batches, Value b, Value total) {
    Value rows = runs.front().steps;
    for (const Run &run : runs.drop_front())
      rows = multiply(rows, run.steps);
    Value tiles = arith::DivSIOp::create(builder, loc, add(rows, number(blockRows - 1)), number(blockRows));
    return loopOver("row", blockRows, tiles, total, [&](Value row0, Value carried) {
      auto map = tile::MapOp::create(builder, loc, carried.getType(), carried, {{"row", row0}, {"entry", at.back()}});
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&map.getBody().front());
      SmallVector<Value> place(at);
      place.back() = map.getCoordinate("entry");
      Value row = map.getCoordinate("row"), counts = compare(arith::CmpIPredicate::slt, row, rows);
      std::array<Value, 4> coordinates = {b, {}, {}, {}};
      for (const Run &run : runs)
        coordinates[run.coordinate] = coordinateAt(run, place, row, &run == &runs.back(), counts);
      Value element = tile::ElementOp::create(
          builder, loc, f32, view, ValueRange{coordinates[0], coordinates[1], coordinates[sum.ofKeys ? 3 : 2]},
          SmallVector<bool>(3, false));
      counts = both(counts, isOfElement(sum.add, coordinates, place));
      Value counted = arith::SelectOp::create(builder, loc, counts, element, constant(0));
      tile::YieldOp::create(builder, loc, arith::AddFOp::create(builder, loc, map.getElement(0), counted).getResult());
      return tile::named(map.getResult(), "total");
    });
  }

  /// Of each element's long accumulator, one word a row.
  Value addWords(Value total) {
    static_assert(accumulator::words <= blockRows);
    Value view = declare(gradient.addends());
    auto map = tile::MapOp::create(builder, loc, total.getType(), total, {{"row", number(0)}, {"entry", at.back()}});
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&map.getBody().front());
    Value index = map.getCoordinate("row");
    SmallVector<Value> place(at);
    place.back() = map.getCoordinate("entry");
    place.insert(place.begin(), index);
    Value word = tile::ElementOp::create(builder, loc, builder.getI64Type(), view, place,
                                         SmallVector<bool>(place.size(), false));
    Value counted =
        arith::SelectOp::create(builder, loc, compare(arith::CmpIPredicate::slt, index, number(accumulator::words)),
                                accumulator::valueOf(builder, loc, tile::named(word, "word"), index), constant(0));
    tile::YieldOp::create(builder, loc, arith::AddFOp::create(builder, loc, map.getElement(0), counted).getResult());
    return tile::named(map.getResult(), "total");
  }

  /// The coordinate in row `row`, of which what is left is for the runs behind it; adds to `counts` whether there is one.
  Value coordinateAt(const Run &run, ArrayRef<Value> place, Value &row, bool isLast, Value &counts) {
    Value step = isLast ? row : arith::RemSIOp::create(builder, loc, row, run.steps).getResult();
    if (!isLast)
      row = arith::DivSIOp::create(builder, loc, row, run.steps);
    if (!run.dim)
      return step;
    Value coordinate = add(place[*run.dim], subtract(step, run.before));
    if (run.coordinate == 2 && qOffset)
      coordinate = subtract(coordinate, qOffset);
    counts = both(counts, compare(arith::CmpIPredicate::ult, coordinate, run.count));
    return coordinate;
  }

  /// Whether the indices at these coordinates, clamped, are those of the element.
  Value isOfElement(attn::AddGradientOp of, std::array<Value, 4> coordinates, ArrayRef<Value> place) {
    if (coordinates[2] && qOffset)
      coordinates[2] = add(coordinates[2], qOffset);
    Value isOf;
    for (auto [index, element, extent] : llvm::zip(of.getIndices(), place, extents)) {
      Value own = placeOf(builder, of, index, extent, coordinates);
      isOf = both(isOf, compare(arith::CmpIPredicate::eq, own, element));
    }
    return isOf;
  }

  SmallVector<Value> at, extents; ///< the block's first element; of the tensor
};

} // namespace

tile::KernelOp attune::writeGradientKernel(attn::AttentionOp op, const CapturedGradient &gradient,
                                           tile::KernelOp like) {
  return GradientSumWriter(op, gradient, like).write();
}
