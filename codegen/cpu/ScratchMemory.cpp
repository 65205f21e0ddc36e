//===- ScratchMemory.cpp - Allocation and accesses of tiles in scratch ----===//

#include "codegen/cpu/Lowering.h"

namespace attune::cpu {

int64_t Lowering::allocate(int64_t bytes) {
  bytes = llvm::alignTo(bytes, cacheLine);
  if (auto found = freeList.find(bytes); found != freeList.end() && !found->second.empty())
    return found->second.pop_back_val();
  int64_t offset = scratchEnd;
  scratchEnd += bytes;
  return offset;
}

void Lowering::release(Value value) {
  auto found = storage.find(value);
  if (found == storage.end() || !found->second.owned)
    return;
  for (int64_t offset : found->second.offset)
    if (offset >= 0)
      release(offset, bytesOf(found->second.type));
  storage.erase(found);
}

Value Lowering::scratchAt(int64_t offset, Type element, Value index) {
  return offsetElements(offsetBytes(scratch, offset), element, index);
}

Value Lowering::loadScratch(int64_t offset, Type element, Value index, int64_t lanes) {
  Type stored = storedType(element);
  Value value = loadAt(scratchAt(offset, stored, index), vectorOf(stored, lanes), bytesOf(stored) * lanes);
  if (element.isInteger(1))
    value = compare(arith::CmpIPredicate::ne, value, zeroOf(value.getType()));
  return value;
}

void Lowering::storeScratch(Value value, int64_t offset, Type element, Value index, int64_t lanes) {
  Type stored = storedType(element);
  value = widen(value, lanes);
  if (element.isInteger(1))
    value = arith::ExtUIOp::create(b, vectorOf(stored, lanes), value);
  storeAt(value, scratchAt(offset, stored, index), bytesOf(stored) * lanes);
}

void Lowering::transpose(int64_t from, int64_t to, int64_t rows, int64_t columns, Type stored) {
  int64_t block = std::min(lanesFor(rows), lanesFor(columns));
  Value rowCount = constI64(rows), columnCount = constI64(columns);
  loop(rows, block, [&](Value row) {
    loop(columns, block, [&](Value column) {
      SmallVector<Value> vectors;
      for (int64_t i = 0; i < block; ++i) {
        Value index = add(mul(add(row, constI64(i)), columnCount), column);
        vectors.push_back(loadAt(scratchAt(from, stored, index), vectorOf(stored, block), bytesOf(stored) * block));
      }
      transposeVectors(vectors);
      for (int64_t i = 0; i < block; ++i) {
        Value index = add(mul(add(column, constI64(i)), rowCount), row);
        storeAt(vectors[i], scratchAt(to, stored, index), bytesOf(stored) * block);
      }
    });
  });
}

void Lowering::copy(int64_t from, int64_t to, int64_t bytes) {
  int64_t lanes = lanesFor(bytes / 4);
  if (bytes % 4 == 0) {
    loop(bytes / 4, lanes, [&](Value i) { storeScratch(loadScratch(from, f32, i, lanes), to, f32, i, lanes); });
    return;
  }
  loop(bytes, 1, [&](Value i) { storeScratch(loadScratch(from, i8, i, 1), to, i8, i, 1); });
}

void Lowering::define(Value value, int64_t offset, Order order, bool owned) {
  auto type = cast<TileType>(value.getType());
  Storage &made = storage[value];
  made.type = type;
  made.owned = owned;
  made.offset[order] = offset;
  if (type.rank() == 2 && (needed.lookup(value) & (1u << (1 - order))))
    ensure(value, Order(1 - order));
}

int64_t Lowering::ensure(Value value, Order order) {
  Storage &tile = storage[value];
  if (tile.type.rank() == 1)
    return tile.offset[Listed];
  if (tile.has(order))
    return tile.offset[order];
  Order from = Order(1 - order);
  int64_t rows = tile.type.getShape()[from == Listed ? 0 : 1], columns = tile.type.getShape()[from == Listed ? 1 : 0];
  int64_t to = allocate(bytesOf(tile.type));
  transpose(tile.offset[from], to, rows, columns, storedType(tile.type.getElementType()));
  storage[value].offset[order] = to;
  return to;
}

int64_t Lowering::allocateResult(Value value, ArrayRef<Operation *> ops) {
  auto type = cast<TileType>(value.getType());
  Order order = orderOf(type);
  if (Value carried = target.lookup(value))
    return storage[carried].offset[order];
  for (Operation *op : ops)
    for (Value operand : op->getOperands()) {
      auto source = dyn_cast<TileType>(operand.getType());
      auto found = storage.find(operand);
      if (!source || source.rank() != type.rank() || !sameAxes(source, type) || found == storage.end() ||
          !found->second.owned || !llvm::is_contained(dyingNow, operand) || bytesOf(source) != bytesOf(type))
        continue;
      Order from = source.rank() == 1 ? Listed : orderOf(source);
      int64_t offset = found->second.offset[from];
      if (offset < 0 || !taken.insert(offset).second)
        continue;
      moved.push_back({operand, from});
      return offset;
    }
  return allocate(bytesOf(type));
}

} // namespace attune::cpu
