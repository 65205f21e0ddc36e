//===- Products.cpp - Matrix products in register tiles -------------------===//

#include "codegen/cpu/Lowering.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace attune::cpu {

/// Size of the register tile of a product: rows, and vectors per row. The accumulators take at most `budget` vector
/// registers, so that registers remain for the operands.
static std::pair<int64_t, int64_t> registerTile(int64_t registers, int64_t rows, int64_t vectorsInRow) {
  int64_t budget = registers >= 32 ? 24 : 12;
  int64_t vectors = 1;
  for (int64_t n = 2; n <= (registers >= 32 ? 6 : 3); ++n)
    if (vectorsInRow % n == 0)
      vectors = n;
  int64_t most = std::min<int64_t>(budget / vectors, 14), tileRows = std::min(most, rows);
  // If a number between two thirds of tileRows and tileRows divides the tile's rows, take the greatest such number.
  for (int64_t n = tileRows; 3 * n >= 2 * tileRows; --n)
    if (rows % n == 0) {
      tileRows = n;
      break;
    }
  return {tileRows, vectors};
}

Lowering::Broadcast Lowering::broadcastOperand(Value rowOperand, StringRef rowName) {
  auto rowType = cast<TileType>(rowOperand.getType());
  Order rowOrder = storage.find(rowOperand)->second.any();
  int64_t rowOffset = storage.find(rowOperand)->second.offset[rowOrder];
  // A tile in scratch memory is dense: the last axis in its memory order has stride 1.
  StringRef contiguous = rowType.axis(rowOrder == Listed ? 1 : 0);
  Value apart = constI64(rowType.size(contiguous)), next = constI64(1);
  Value rowBase = offsetBytes(scratch, rowOffset);
  if (const Storage &source = storage.find(rowOperand)->second; source.base && rowOrder == Listed) {
    rowBase = source.base;
    apart = source.rowStride;
  }
  return contiguous == rowName ? Broadcast{rowBase, next, apart} : Broadcast{rowBase, apart, next};
}

int64_t Lowering::allocateProduct(MmaOp op, bool isScaled) {
  TileType result = op.getType();
  if (op.getAcc() && !isScaled)
    return target.contains(op) ? storage[target[op]].offset[orderOf(result)]
           : llvm::is_contained(dyingNow, op.getAcc()) && op.getAcc() != op.getLhs() && op.getAcc() != op.getRhs()
               ? allocateAccumulator(op)
               : allocate(bytesOf(result));
  return target.contains(op) ? storage[target[op]].offset[orderOf(result)] : allocate(bytesOf(result));
}

int64_t Lowering::allocateAccumulator(MmaOp op) {
  auto found = storage.find(op.getAcc());
  Order order = orderOf(op.getType());
  if (!found->second.owned || found->second.offset[order] < 0)
    return allocate(bytesOf(op.getType()));
  moved.push_back({op.getAcc(), order});
  return found->second.offset[order];
}

MapOp Lowering::scalingOf(MmaOp op) {
  auto map = op.getAcc() ? op.getAcc().getDefiningOp<MapOp>() : MapOp();
  return map && deferred.contains(map) ? map : MapOp();
}

Value Lowering::accumulatorAt(MmaOp op, MapOp scaling, const Position &at) {
  if (scaling)
    return widen(evaluateMap(scaling, at, [&](Value input) { return readTile(input, at); }), at.lanes);
  return op.getAcc() ? readTile(op.getAcc(), at) : zeroOf(vectorOf(f32, at.lanes));
}

void Lowering::lowerMma(MmaOp op) {
  TileType result = op.getType();
  unsigned inner = innerAxis(result);
  StringRef laneName = result.axis(inner), rowName = result.axis(1 - inner);
  Value laneOperand = op.getLhs().getType().hasAxis(laneName) ? op.getLhs() : op.getRhs();
  Value rowOperand = laneOperand == op.getLhs() ? op.getRhs() : op.getLhs();
  auto laneType = cast<TileType>(laneOperand.getType());
  StringRef depthName = laneType.axis(1 - laneType.findAxis(laneName));
  int64_t depth = laneType.size(depthName), columns = result.size(laneName), rows = result.size(rowName);

  int64_t laneOffset = ensure(laneOperand, orderWithInner(laneType, laneType.findAxis(laneName)));
  const auto [rowBase, rowStride, depthStride] = broadcastOperand(rowOperand, rowName);

  const MapOp scaling = scalingOf(op);
  const int64_t to = allocateProduct(op, scaling != nullptr);

  const int64_t lanes = lanesFor(columns);
  const auto [tileRows, vectors] = registerTile(host.registers, rows, columns / lanes);

  auto block = [&](Value row, int64_t count, Value column) {
    Position at;
    at.type = result;
    at.innerIndex = inner;
    at.lanes = lanes;
    SmallVector<Value> accumulators;
    auto outIndex = [&](int64_t r, int64_t v) {
      return add(mul(add(row, constI64(r)), constI64(columns)), add(column, constI64(v * lanes)));
    };
    for (int64_t r = 0; r < count; ++r)
      for (int64_t v = 0; v < vectors; ++v) {
        at.outer = add(row, constI64(r));
        at.inner = add(column, constI64(v * lanes));
        accumulators.push_back(accumulatorAt(op, scaling, at));
      }
    accumulators = loop(depth, 1, accumulators, [&](Value z, ValueRange carried) {
      SmallVector<Value> next, panel;
      for (int64_t v = 0; v < vectors; ++v)
        panel.push_back(
            loadScratch(laneOffset, f32, add(mul(z, constI64(columns)), add(column, constI64(v * lanes))), lanes));
      for (int64_t r = 0; r < count; ++r) {
        Value index = add(mul(add(row, constI64(r)), rowStride), mul(z, depthStride));
        Value scalar = widen(loadAt(offsetElements(rowBase, f32, index), f32, 4), lanes);
        for (int64_t v = 0; v < vectors; ++v)
          next.push_back(math::FmaOp::create(b, scalar, panel[v], carried[r * vectors + v]));
      }
      return next;
    });
    for (int64_t r = 0; r < count; ++r)
      for (int64_t v = 0; v < vectors; ++v)
        storeScratch(accumulators[r * vectors + v], to, f32, outIndex(r, v), lanes);
  };
  loop(columns, vectors * lanes, [&](Value column) {
    int64_t whole = rows / tileRows * tileRows;
    loop(whole, tileRows, [&](Value row) { block(row, tileRows, column); });
    if (whole < rows)
      block(constI64(whole), rows - whole, column);
  });
  define(op, to, orderOf(result), !target.contains(op));
}

} // namespace attune::cpu
