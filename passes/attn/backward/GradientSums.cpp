//===- GradientSums.cpp - The kernel that adds up the gradient of a captured tensor ---===//

#include "passes/attn/LongAccumulator.h"
#include "passes/attn/backward/GradientKernelWriter.h"

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr int64_t blockEntries = 8;

/// Writes the kernel that adds up the partial sums (a float32 per row or per key of each head) of the gradient of a
/// captured tensor. A thread block computes 8 elements along the tensor's last dimension. The elements are the columns
/// of a tile; the tile's 128 rows split the values that each element sums:
///
///     slopes[h], B 2, Sq 300: b 0 and 1 in a loop, q in rows     column 0     column 1   ...
///         b 0, q 0 .. 127                                        [b, 0, q]    [b, 1, q]
///         b 0, q 128 .. 255                                      ...
///
/// A coordinate that is an index of the tensor has one value per element: the element's position. All other coordinates
/// are summed over. The last element also sums coordinates beyond the tensor, whose index is clamped to the last. The
/// sum of each (b, h, q) or (b, h, k) is added only to the element that its clamped indices address.
class GradientSumWriter : public GradientKernelWriter {
public:
  using GradientKernelWriter::GradientKernelWriter;

  tile::KernelOp write() {
    SmallVector<int64_t> by(rank, 1);
    by.back() = blockEntries;
    begin("_grad_", gradient.declaration(), by, 2 * blockEntries);
    for (unsigned dim = 0; dim < rank; ++dim) {
      at.push_back(indexOf(dim));
      extents.push_back(extentOf(dim));
    }
    const TileType type = shape({{"row", blockRows}, {"entry", blockEntries}}, f32);
    Value total = splat("total", type, constant(0));
    for (const GradientSum &sum : gradient.sums)
      total = addSum(sum, total);
    const bool isScattered = !gradient.scattered.empty();
    if (isScattered && gradient.inAnyOrder)
      total = addWords(total);
    const TileType entries = shape({{"entry", blockEntries}}, f32);
    Value result = reduce("gradient", entries, tile::Reduction::Sum, total, "row");
    if (isScattered && !gradient.inAnyOrder) {
      Value addends = tile::LoadOp::create(builder, entries, declare(gradient.addends()), at, extents.back());
      result = map("gradient", entries, {result, tile::named(addends, "addends")},
                   [&](ValueRange x) { return add(x[0], x[1]); });
    }
    store(result, declare(gradient.declaration()), at, extents.back());
    return end();
  }

private:
  /// One coordinate (b, h, q or k), and the values of this coordinate that one element of the gradient sums over.
  struct Run {
    unsigned coordinate;
    Value count;                      ///< extent of the coordinate
    std::optional<unsigned> dim = {}; ///< tensor dimension that the coordinate indexes
    Value steps;                      ///< number of values that one element sums over
    Value before;                     ///< with `dim`: how many of the summed values are below the element's index
  };

  Value addSum(const GradientSum &sum, Value total) {
    Value view = declare(sum.declaration());
    readQueryOffset();
    const std::array<Value, 4> counts = coordinateExtents();
    SmallVector<Run> runs;
    for (unsigned coordinate : {sum.ofKeys ? 3u : 2u, 1u, 0u})
      runs.push_back(runOf(sum.add, coordinate, counts[coordinate]));
    // The row numbers of one batch fit in 32 bits. Therefore, if the batch is no index of the tensor, a loop over
    // batches surrounds the loop over rows.
    Run batches = runs.back();
    const bool loops = !batches.dim;
    if (loops)
      runs.pop_back();
    auto addRows = [&](Value b, Value total) { return addRowsOf(sum, view, runs, batches, b, total); };
    if (!loops)
      return addRows(Value(), total);
    return sumOver("batch", 1, batches.count, total, addRows);
  }

  Run runOf(attn::AddGradientOp sum, unsigned coordinate, Value count) {
    Run run{coordinate, count, {}, count, {}};
    for (auto [dim, index] : llvm::enumerate(sum.getIndices()))
      if (coordinateOf(sum, index) == coordinate && !run.dim)
        run.dim = unsigned(dim);
    if (!run.dim)
      return run;
    // An element sums over the coordinate equal to its index, and over out-of-range coordinates that are clamped to it.
    Value beyond = subtract(count, extents[*run.dim]);
    run.before = number(0);
    if (coordinate == 2 && qOffset) {
      beyond = add(beyond, qOffset);
      run.before = positive(subtract(number(0), qOffset));
    }
    run.steps = add(add(positive(beyond), run.before), number(1));
    return run;
  }

  Value sumOver(StringRef axis, int64_t step, Value tiles, Value total,
                function_ref<Value(Value origin, Value total)> body) {
    Value domain = tile::DomainOp::create(builder, axis, step, number(0), tiles);
    return loopOver(domain, total,
                    [&](tile::ForBlocksOp loop) -> Carried { return {body(loop.getOrigin(), loop.getCarried()[0])}; })
        .front();
  }

  Value addRowsOf(const GradientSum &sum, Value view, ArrayRef<Run> runs, const Run &batches, Value b, Value total) {
    Value rows = runs.front().steps;
    for (const Run &run : runs.drop_front())
      rows = multiply(rows, run.steps);
    Value tiles = divide(add(rows, number(blockRows - 1)), number(blockRows));
    return sumOver("row", blockRows, tiles, total, [&](Value row0, Value carried) {
      return map("total", carried.getType(), carried, {{"row", row0}, {"entry", at.back()}}, [&](tile::MapOp map) {
        SmallVector<Value> place(at);
        place.back() = map.getCoordinate("entry");
        Value row = map.getCoordinate("row"), counts = compare(arith::CmpIPredicate::slt, row, rows);
        std::array<Value, 4> coordinates = {b, {}, {}, {}};
        for (const Run &run : runs)
          coordinates[run.coordinate] = coordinateAt(run, place, row, &run == &runs.back(), counts);
        Value element = tile::ElementOp::create(
            builder, f32, view, ValueRange{coordinates[0], coordinates[1], coordinates[sum.ofKeys ? 3 : 2]},
            SmallVector<bool>(3, false));
        counts = both(counts, isOfElement(sum.add, coordinates, place));
        return add(map.getElement(0), select(counts, element, constant(0)));
      });
    });
  }

  /// Adds to each element of the gradient the value of its long accumulator (LongAccumulator.h), a sum over 67 words.
  /// Row w of the tile takes word w.
  Value addWords(Value total) {
    static_assert(accumulator::words <= blockRows);
    Value view = declare(gradient.addends());
    return map("total", total.getType(), total, {{"row", number(0)}, {"entry", at.back()}}, [&](tile::MapOp map) {
      Value index = map.getCoordinate("row");
      SmallVector<Value> place(at);
      place.back() = map.getCoordinate("entry");
      place.insert(place.begin(), index);
      Value word =
          tile::ElementOp::create(builder, builder.getI64Type(), view, place, SmallVector<bool>(place.size(), false));
      Value isWord = compare(arith::CmpIPredicate::slt, index, number(accumulator::words));
      Value of = accumulator::valueOf(builder, builder.getLoc(), tile::named(word, "word"), index);
      return add(map.getElement(0), select(isWord, of, constant(0)));
    });
  }

  /// Decodes the coordinate of `run` from `row`, a mixed-radix number with a digit for each coordinate that an element
  /// sums over. Divides `row` by the number of steps of `run` for the next coordinate, unless `isLast`. `counts`
  /// becomes false where the coordinate is out of range.
  Value coordinateAt(const Run &run, ArrayRef<Value> place, Value &row, bool isLast, Value &counts) {
    Value step = isLast ? row : arith::RemSIOp::create(builder, row, run.steps).getResult();
    if (!isLast)
      row = divide(row, run.steps);
    if (!run.dim)
      return step;
    Value coordinate = add(place[*run.dim], subtract(step, run.before));
    if (run.coordinate == 2 && qOffset)
      coordinate = subtract(coordinate, qOffset);
    counts = both(counts, compare(arith::CmpIPredicate::ult, coordinate, run.count));
    return coordinate;
  }

  /// Whether the clamped tensor indices at these coordinates address the element `place`.
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

  SmallVector<Value> at, extents; ///< indices of the thread block's first element; the tensor's extents
};

} // namespace

tile::KernelOp attune::writeGradientKernel(attn::AttentionOp op, const CapturedGradient &gradient,
                                           tile::KernelOp like) {
  return GradientSumWriter(op, gradient, like).write();
}
