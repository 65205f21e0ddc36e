//===- Blocks.cpp - Lowering loads and stores of 16 x 16 blocks -----------===//

#include "codegen/cpu/Lowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace attune::cpu {

template <typename BlocksOp>
void Lowering::forEachInBlocks(BlocksOp op, TileType type, function_ref<void(int64_t, Value, Value)> body) {
  const Memory memory = memoryOf(op.getView());
  const bool rowsAreQueries = type.axis(0) == "q";
  const int64_t columns = type.getShape()[1];
  Value base = addressOf(memory, ValueRange{lookup(op.getB()), lookup(op.getH())});
  auto blockOf = [&](Value origin) { return toI64(arith::ShRSIOp::create(b, lookup(origin), constI32(4))); };
  Value firstQuery = blockOf(op.getQ0()), firstKey = blockOf(op.getK0());
  auto there = [&](Value first, int64_t size, unsigned dim) {
    Value left = arith::MaxSIOp::create(b, arith::SubIOp::create(b, memory.extents[dim], first), constI64(0));
    return arith::MinSIOp::create(b, left, constI64(size / 16)).getResult();
  };
  loop(constI64(0), there(firstQuery, type.size("q"), 2), [&](Value queries) {
    loop(constI64(0), there(firstKey, type.size("k"), 3), [&](Value keys) {
      Value block = add(mul(add(firstQuery, queries), memory.strides[2]), mul(add(firstKey, keys), memory.strides[3]));
      loop(constI64(0), constI64(32), [&](Value lane) {
        Value row = arith::ShRUIOp::create(b, lane, constI64(2)), pair = arith::AndIOp::create(b, lane, constI64(3));
        Value byte = add(add(mul(arith::ShRUIOp::create(b, row, constI64(1)), constI64(8)), mul(pair, constI64(2))),
                         arith::AndIOp::create(b, row, constI64(1)));
        for (int64_t place = 0; place < 8; ++place) {
          Value query = add(mul(queries, constI64(16)), add(row, constI64(8 * (place & 1))));
          Value key =
              add(mul(keys, constI64(16)), add(mul(pair, constI64(2)), constI64((place >> 2) + 8 * (place >> 1 & 1))));
          Value first = rowsAreQueries ? query : key, second = rowsAreQueries ? key : query;
          Value element = add(mul(first, constI64(columns)), second);
          Value at = memory.element.isInteger(8) ? byte : add(lane, constI64(32 * place));
          body(place, element, offsetElements(base, memory.element, add(block, at)));
        }
      });
    });
  });
}

void Lowering::lowerStoreBlocks(StoreBlocksOp op) {
  TileType type = op.getTile().getType();
  const int64_t offset = ensure(op.getTile(), Listed);
  Value byte;
  forEachInBlocks(op, type, [&](int64_t place, Value element, Value address) {
    Value value = loadScratch(offset, type.getElementType(), element, 1);
    if (type.getElementType().isF32())
      return storeAt(value, address, 4);
    Value bit =
        arith::ShLIOp::create(b, arith::ExtUIOp::create(b, i8, value), arith::ConstantIntOp::create(b, place, 8));
    byte = place ? Value(arith::OrIOp::create(b, byte, bit)) : bit;
    if (place == 7)
      storeAt(byte, address, 1);
  });
}

void Lowering::lowerLoadBlocks(LoadBlocksOp op) {
  TileType type = op.getResult().getType();
  const Type element = type.getElementType();
  const int64_t offset = allocate(bytesOf(type));
  loop(constI64(0), constI64(type.numElements()),
       [&](Value i) { storeScratch(zeroOf(valueType(element)), offset, element, i, 1); });
  forEachInBlocks(op, type, [&](int64_t place, Value at, Value address) {
    if (element.isF32())
      return storeScratch(loadAt(address, element, 4), offset, element, at, 1);
    Value bits = arith::AndIOp::create(b, loadAt(address, i8, 1), arith::ConstantIntOp::create(b, 1 << place, 8));
    storeScratch(compare(arith::CmpIPredicate::ne, bits, zeroOf(i8)), offset, element, at, 1);
  });
  define(op.getResult(), offset, Listed);
}

} // namespace attune::cpu
