//===- GradientZeros.cpp - Clear the gradient of a captured tensor before other kernels add to it ---===//

#include "passes/attn/backward/GradientKernelWriter.h"

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr int64_t zeroEntries = 256, zeroColumns = 64;

/// Writes the kernel that clears (sets to zero) the workspace of scattered additions or, for a dense gradient, those
/// elements of the gradient that no other kernel writes.
class ZerosWriter : public GradientKernelWriter {
public:
  using GradientKernelWriter::GradientKernelWriter;

  tile::KernelOp write() { return gradient.tiles.empty() ? writeAddends() : writeMargins(); }

private:
  tile::KernelOp writeAddends() {
    SmallVector<int64_t> by(rank, 1);
    by.back() = zeroEntries;
    const tile::OperandAttr addends = gradient.addends();
    begin("_zeros_", addends, by, 16);
    SmallVector<Value> at;
    if (gradient.inAnyOrder)
      at.push_back(blockIndex(wordAxis, "word"));
    for (unsigned dim = 0; dim < rank; ++dim)
      at.push_back(indexOf(dim));
    const Type element = addends.getElementType();
    Value zero = arith::ConstantOp::create(builder, cast<TypedAttr>(builder.getZeroAttr(element)));
    Value zeros = splat("zeros", shape({{"entry", zeroEntries}}, element), zero);
    store(zeros, declare(addends), at, extentOf(rank - 1));
    return end();
  }

  /// Clears all elements that no (b, h, q, k) of the launch addresses. If the main loop writes the gradient and there
  /// is a mask, the addressed elements are cleared as well, because the main loop writes in visited tiles only.
  tile::KernelOp writeMargins() {
    attn::AddGradientOp of = gradient.tiles.front();
    SmallVector<int64_t> by(rank, 1);
    const CoordinateDims dims = dimsOfTile(of);
    by[*dims[2]] = blockRows;
    by[*dims[3]] = zeroColumns;
    begin("_zeros_", gradient.declaration(), by, zeroColumns);
    const std::array<Value, 4> counts = coordinateExtents();
    readQueryOffset();
    Value covered;
    SmallVector<Value> at(rank);
    for (unsigned coordinate : {0u, 1u})
      if (dims[coordinate]) {
        at[*dims[coordinate]] = indexOf(*dims[coordinate]);
        covered = both(covered, compare(arith::CmpIPredicate::slt, at[*dims[coordinate]], counts[coordinate]));
      }
    const bool hides = !op.getMask().empty() || op.getPatternAttr();
    Value clears = hides && isWrittenByLoop(gradient) ? isUnshared(*this, gradient, {counts[0], counts[1]},
                                                                   [&](unsigned dim) { return extentOf(dim); })
                                                      : Value();
    if (clears)
      covered = both(covered, opposite(clears));
    Value view = declare(gradient.declaration()), row0 = indexOf(*dims[2]), column0 = indexOf(*dims[3]);
    const TileType type = shape({{"row", blockRows}, {"column", zeroColumns}}, f32);
    Value zeros = splat("zeros", type, constant(0));
    if (covered) {
      // Batches and heads that no other kernel writes: clear all of the thread block's elements.
      SmallVector<Value> all = at;
      leaveOut(covered, dims, all);
      all[*dims[2]] = indicesAlong("row", blockRows, row0, "all_rows");
      all[*dims[3]] = indicesAlong("column", zeroColumns, column0, "all_columns");
      tile::ScatterOp::create(builder, zeros, view, all, /*add=*/false);
    }
    // All other batches and heads: clear only the elements whose query or key is past the end of the sequences.
    leaveOut(isNothingLeft(covered, isWhole(covered, row0, column0, counts)), dims, at);
    const std::array<Value, 2> origin{row0, column0}, ends{counts[2], counts[3]};
    at[*dims[2]] = indicesPastEnds(type, origin, ends, /*ofRows=*/true);
    at[*dims[3]] = indicesPastEnds(type, origin, ends, /*ofRows=*/false);
    tile::ScatterOp::create(builder, zeros, view, at, /*add=*/false);
    end();
    if (!clears && !qOffset)
      leaveOutWithoutMargins(dims);
    return kernel;
  }

  /// The indices of `size` elements along one axis, from `origin` on.
  Value indicesAlong(StringRef axis, int64_t size, Value origin, StringRef name) {
    return map(name, shape({{axis, size}}, i32), {}, {{axis, origin}},
               [&](tile::MapOp map) -> Value { return map.getCoordinate(axis); });
  }

  /// The row (or column, unless `ofRows`) of each element of a tile of `type` whose first element is at `origin`; -1,
  /// which stores nothing, for elements before the `ends` of the queries and keys, which other kernels write.
  Value indicesPastEnds(TileType type, const std::array<Value, 2> &origin, const std::array<Value, 2> &ends,
                        bool ofRows) {
    return map(ofRows ? "rows" : "columns", type.withElementType(i32), {}, {{"row", origin[0]}, {"column", origin[1]}},
               [&](tile::MapOp map) {
                 Value row = map.getCoordinate("row"), column = map.getCoordinate("column");
                 Value isWritten = both(compare(arith::CmpIPredicate::ult, rowOf(row), ends[0]),
                                        compare(arith::CmpIPredicate::slt, column, ends[1]));
                 return select(isWritten, number(-1), ofRows ? row : column);
               });
  }

  /// Makes the launch skip the kernel if the tensor is no larger than what other kernels write.
  void leaveOutWithoutMargins(const CoordinateDims &dims) {
    constexpr StringRef coordinates[] = {"b", "h", "q", "k"};
    SmallVector<std::pair<std::string, std::string>> bounds;
    for (unsigned coordinate = 0; coordinate < 4; ++coordinate)
      if (dims[coordinate])
        bounds.push_back({gradient.axis(*dims[coordinate]), coordinates[coordinate].str()});
    tile::skipIf(kernel, bounds);
  }

  /// Whether no element past the ends of the sequences is left to clear: the thread block has already cleared all of
  /// its elements, or other kernels write all of them.
  Value isNothingLeft(Value covered, Value isWhole) {
    if (!covered)
      return isWhole;
    return tile::named(arith::OrIOp::create(builder, opposite(covered), isWhole).getResult(), "nothing_left");
  }

  /// Whether other kernels write all elements of the gradient that this thread block would set to zero; `covered`:
  /// whether other kernels write elements of the block's batch and head at all.
  Value isWhole(Value covered, Value row, Value column, const std::array<Value, 4> &counts) {
    row = rowOf(row);
    covered = both(covered, compare(arith::CmpIPredicate::sge, row, number(0)));
    covered = both(covered, compare(arith::CmpIPredicate::sle, add(row, number(blockRows)), counts[2]));
    covered = both(covered, compare(arith::CmpIPredicate::sle, add(column, number(zeroColumns)), counts[3]));
    return tile::named(covered, "whole");
  }

  /// Sets the tensor's index for the batch or the head in `at` to -1 if `isWhole`. A scatter to `at` then stores
  /// nothing and needs no test per element.
  void leaveOut(Value isWhole, const CoordinateDims &dims, SmallVector<Value> &at) {
    for (unsigned coordinate : {0u, 1u})
      if (dims[coordinate]) {
        Value &place = at[*dims[coordinate]];
        place = select(isWhole, number(-1), place);
        return;
      }
  }
};

} // namespace

tile::KernelOp attune::writeZerosKernel(attn::AttentionOp op, const CapturedGradient &gradient, tile::KernelOp like) {
  return ZerosWriter(op, gradient, like).write();
}
