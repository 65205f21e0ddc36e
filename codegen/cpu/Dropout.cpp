//===- Dropout.cpp - Lowering dropout and its random numbers --------------===//

#include "codegen/cpu/Lowering.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace attune::cpu {

Value Lowering::keeps(DropoutOp op, int64_t random, int64_t innerSize, const Position &at) {
  Type i16 = b.getI16Type();
  Value index = add(mul(at.outer, constI64(innerSize)), at.inner);
  Value number = loadScratch(random, i16, index, at.lanes);
  Value threshold = arith::TruncIOp::create(b, i16, lookup(op.getThreshold()));
  return compare(arith::CmpIPredicate::uge, number, widen(threshold, at.lanes));
}

Value Lowering::drop(DropoutOp op, Value value, Value keep, const Position &at) {
  value = widen(value, at.lanes);
  return select(keep, value, op.getNegates() ? arith::NegFOp::create(b, value).getResult() : zeroOf(value.getType()));
}

int64_t Lowering::randomNumbers(DropoutOp op) {
  TileType type = op.getResult().getType();
  int64_t rows = type.size("q"), columns = type.size("k");
  Type i16 = b.getI16Type();
  int64_t offset = allocate(rows * columns * 2);
  auto v16 = VectorType::get({16}, i32);
  auto vector = [&](function_ref<int32_t(int)> element) -> Value {
    SmallVector<int32_t> lanes;
    for (int i = 0; i < 16; ++i)
      lanes.push_back(element(i));
    return arith::ConstantOp::create(b, DenseElementsAttr::get(v16, ArrayRef(lanes)));
  };
  auto low = [&](Value x) -> Value { return arith::TruncIOp::create(b, i32, x); };
  auto high = [&](Value x) -> Value { return low(arith::ShRUIOp::create(b, x, constI64(32))); };
  Value seed = lookup(op.getSeed()), counterOffset = lookup(op.getOffset());
  Value key0 = low(seed), key1 = arith::XOrIOp::create(b, high(seed), high(counterOffset));
  Value counter2 = widen(lookup(op.getHead()), 16), counter3 = widen(low(counterOffset), 16);
  auto blockBase = [&](Value origin, int32_t perBlock) {
    return mul(arith::ShRSIOp::create(b, origin, constI32(4)), constI32(perBlock));
  };
  Value q0 = blockBase(lookup(op.getQ0()), 8), k0 = blockBase(lookup(op.getK0()), 4);

  loop(rows, 16, [&](Value row) {
    Value rowBase = add(q0, arith::TruncIOp::create(b, i32, arith::ShRUIOp::create(b, row, constI64(1))));
    Value counter0 = add(widen(rowBase, 16), vector([](int lane) { return lane & 7; }));
    loop(columns, 16, [&](Value column) {
      Value columnBase = add(k0, arith::TruncIOp::create(b, i32, arith::ShRUIOp::create(b, column, constI64(2))));
      SmallVector<Value> words[2];
      for (int half = 0; half < 2; ++half) {
        Value counter1 = add(widen(columnBase, 16), vector([&](int lane) { return 2 * half + (lane >> 3); }));
        words[half] = philox({counter0, counter1, counter2, counter3}, key0, key1);
      }
      for (int k = 0; k < 16; ++k) {
        int pair = (k & 7) >> 1, word = 2 * (k & 1) + (k >> 3);
        SmallVector<int64_t> lanes;
        for (int lane = 0; lane < 16; ++lane)
          lanes.push_back((pair & 1) * 8 + (lane & 7));
        Value bits = words[pair >> 1][word];
        bits = vector::ShuffleOp::create(b, bits, bits, lanes);
        bits = arith::ShRUIOp::create(b, bits, vector([](int lane) { return lane < 8 ? 0 : 16; }));
        bits = arith::TruncIOp::create(b, VectorType::get({16}, i16), bits);
        Value index = add(mul(add(column, constI64(k)), constI64(rows)), row);
        storeAt(bits, scratchAt(offset, i16, index), 32);
      }
    });
  });
  if (type.axis(innerAxis(type)) == "q")
    return offset;
  int64_t turned = allocate(rows * columns * 2);
  transpose(offset, turned, columns, rows, i16);
  release(offset, rows * columns * 2);
  return turned;
}

} // namespace attune::cpu
