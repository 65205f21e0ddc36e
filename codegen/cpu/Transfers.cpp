//===- Transfers.cpp - Lowering loads and stores of tiles -----------------===//

#include "codegen/cpu/Lowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace attune::cpu {

Value Lowering::validRows(Value limit, Value firstRow, int64_t rows) {
  Value left = arith::SubIOp::create(b, toI64(limit), toI64(firstRow));
  return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, left, constI64(rows)), constI64(0));
}

void Lowering::forSteps(int64_t begin, int64_t end, function_ref<void(Value column, int64_t lanes)> body) {
  int64_t lanes = host.lanes, whole = (end - begin) / lanes * lanes;
  if (whole > 0)
    loop(constI64(begin), constI64(begin + whole), constI64(lanes), {}, [&](Value column, ValueRange) {
      body(column, lanes);
      return SmallVector<Value>();
    });
  for (int64_t column = begin + whole; column < end;) {
    while (lanes > end - column)
      lanes /= 2;
    body(constI64(column), lanes);
    column += lanes;
  }
}

void Lowering::lowerLoad(tile::LoadOp op) {
  TileType type = op.getType();
  const Memory memory = memoryOf(op.getView());
  SmallVector<Value> indices;
  for (Value index : op.getIndices())
    indices.push_back(lookup(index));
  int64_t rows = type.getShape()[0];
  Value valid = validRows(lookup(op.getLimit()), indices.back(), rows);
  Type element = type.getElementType();
  int64_t offset = allocate(bytesOf(type));
  if (readsInPlace(op, memory)) {
    Value base = addressOf(memory, indices), rowStride = memory.strides[indices.size() - 1];
    // A tile whose rows are all below the limit is read from global memory without a copy to scratch memory. A product
    // that reads down the tile's columns additionally needs adjacent rows without a gap: rows that are far apart would
    // conflict in cache sets.
    Value whole = compare(arith::CmpIPredicate::eq, valid, constI64(rows));
    if (!runsAlongRows(op))
      whole =
          arith::AndIOp::create(b, whole, compare(arith::CmpIPredicate::eq, rowStride, constI64(type.getShape()[1])));
    auto copied =
        scf::IfOp::create(b, arith::XOrIOp::create(b, whole, arith::ConstantOp::create(b, b.getBoolAttr(true))),
                          /*withElseRegion=*/false);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(copied.thenBlock()->getTerminator());
      copyRows(op, memory, indices, valid, offset);
    }
    define(op, offset, Listed);
    Storage &tile = storage[op.getResult()];
    tile.base = LLVM::SelectOp::create(b, whole, base, offsetBytes(scratch, offset));
    tile.rowStride = select(whole, rowStride, constI64(type.getShape()[1]));
    return;
  }
  if (type.rank() == 1) {
    loop(constI64(0), valid, [&](Value i) {
      storeScratch(widenElement(loadGlobal(rowAddress(op.getView(), indices, i), memory.element, 1), memory.element),
                   offset, element, i, 1);
    });
    loop(valid, constI64(rows), [&](Value i) { storeScratch(zeroOf(valueType(element)), offset, element, i, 1); });
    define(op, offset, Listed);
    return;
  }
  copyRows(op, memory, indices, valid, offset);
  define(op, offset, Listed);
  // If all readers need the tile transposed in memory (order `Reversed`), the copy with the axes in the order of the
  // tile's type (order `Listed`) was only the source of the transpose: free that copy.
  if (needed.lookup(op) == (1u << Reversed) && !usedInAnyOrder(op)) {
    release(offset, bytesOf(type));
    storage[op.getResult()].offset[Listed] = -1;
  }
}

bool Lowering::readsInPlace(tile::LoadOp op, const Memory &memory) {
  return op.getType().rank() == 2 && op.getView().getDefiningOp<ParamOp>() && memory.unitStride &&
         memory.columns == op.getType().getShape()[1] && memory.element.isF32() && needed.lookup(op) == 0 &&
         usedInAnyOrder(op);
}

bool Lowering::runsAlongRows(tile::LoadOp op) {
  return llvm::all_of(op->getUsers(),
                      [&](Operation *user) { return !cast<MmaOp>(user).getType().hasAxis(op.getType().axis(1)); });
}

void Lowering::copyRows(tile::LoadOp op, const Memory &memory, ValueRange indices, Value valid, int64_t offset) {
  TileType type = op.getType();
  Type element = type.getElementType(), stored = storedType(element);
  int64_t rows = type.getShape()[0], columns = type.getShape()[1];
  Value columnCount = constI64(columns);
  auto zeroRow = [&](Value i, int64_t begin) {
    forSteps(begin, columns, [&](Value column, int64_t lanes) {
      storeAt(zeroOf(vectorOf(stored, lanes)), scratchAt(offset, stored, add(mul(i, columnCount), column)),
              bytesOf(stored));
    });
  };
  if (memory.unitStride && memory.columns >= 0) {
    int64_t filled = std::min(memory.columns, columns);
    loop(constI64(0), valid, [&](Value i) {
      Value row = rowAddress(op.getView(), indices, i);
      forSteps(0, filled, [&](Value column, int64_t lanes) {
        Value value = loadGlobal(offsetElements(row, memory.element, column), memory.element, lanes);
        storeAt(value, scratchAt(offset, stored, add(mul(i, columnCount), column)), bytesOf(stored));
      });
      zeroRow(i, filled);
    });
  } else {
    Value filled = arith::MinSIOp::create(b, memory.extents.back(), columnCount);
    filled = arith::MaxSIOp::create(b, filled, constI64(0));
    loop(constI64(0), valid, [&](Value i) {
      Value row = rowAddress(op.getView(), indices, i);
      loop(constI64(0), filled, [&](Value column) {
        Value address = offsetElements(row, memory.element, mul(column, memory.strides.back()));
        storeScratch(widenElement(loadGlobal(address, memory.element, 1), memory.element), offset, element,
                     add(mul(i, columnCount), column), 1);
      });
      loop(filled, columnCount, [&](Value column) {
        storeScratch(zeroOf(valueType(element)), offset, element, add(mul(i, columnCount), column), 1);
      });
    });
  }
  loop(valid, constI64(rows), [&](Value i) { zeroRow(i, 0); });
}

Value Lowering::widenElement(Value value, Type element) {
  if (element.isInteger(8))
    return compare(arith::CmpIPredicate::ne, value, zeroOf(value.getType()));
  return value;
}

bool Lowering::usedInAnyOrder(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto mma = dyn_cast<MmaOp>(user);
    if (!mma)
      return false;
    TileType result = mma.getType();
    return !cast<TileType>(value.getType()).hasAxis(result.axis(innerAxis(result)));
  });
}

void Lowering::lowerStore(Operation *op, Value tileValue, Value view, ValueRange indexOperands, Value limit,
                          bool optional, bool atomic) {
  auto type = cast<TileType>(tileValue.getType());
  const Memory memory = memoryOf(view);
  if (optional) {
    Value isSet = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::ne, memory.base, LLVM::ZeroOp::create(b, pointer));
    auto guarded = scf::IfOp::create(b, isSet, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(guarded.thenBlock()->getTerminator());
    return lowerStore(op, tileValue, view, indexOperands, limit, false, atomic);
  }
  SmallVector<Value> indices;
  for (Value index : indexOperands)
    indices.push_back(lookup(index));
  Value valid = validRows(lookup(limit), indices.back(), type.getShape()[0]);
  Type element = type.getElementType();
  int64_t offset = ensure(tileValue, Listed);
  auto write = [&](Value value, Value address) {
    if (atomic)
      LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::fadd, address, value, LLVM::AtomicOrdering::monotonic);
    else if (memory.element.isInteger(8) && value.getType().isInteger(1))
      storeAt(arith::ExtUIOp::create(b, i8, value), address, 1);
    else
      storeGlobal(value, address, memory.element);
  };
  if (type.rank() == 1) {
    loop(constI64(0), valid, [&](Value i) { write(loadScratch(offset, element, i, 1), rowAddress(view, indices, i)); });
    return;
  }
  int64_t columns = type.getShape()[1];
  bool vectors = memory.unitStride && memory.columns >= 0 && !atomic;
  loop(constI64(0), valid, [&](Value i) {
    Value row = rowAddress(view, indices, i);
    Value start = mul(i, constI64(columns));
    if (vectors) {
      forSteps(0, std::min(memory.columns, columns), [&](Value column, int64_t lanes) {
        Type stored = storedType(element);
        Value value = loadAt(scratchAt(offset, stored, add(start, column)), vectorOf(stored, lanes), bytesOf(stored));
        storeGlobal(value, offsetElements(row, memory.element, column), memory.element);
      });
      return;
    }
    Value end = arith::MinSIOp::create(b, memory.extents.back(), constI64(columns));
    loop(constI64(0), end, [&](Value column) {
      write(loadScratch(offset, element, add(start, column), 1),
            offsetElements(row, memory.element, mul(column, memory.strides.back())));
    });
  });
}

void Lowering::lowerScatter(ScatterOp op) {
  TileType type = op.getTile().getType();
  const Memory memory = memoryOf(op.getView());
  const int64_t offset = ensure(op.getTile(), Listed);
  SmallVector<int64_t> indexTiles; // scratch offset of each index tile; -1 for a scalar index
  for (Value index : op.getIndices())
    indexTiles.push_back(isa<TileType>(index.getType()) ? ensure(index, Listed) : -1);
  const int64_t columns = type.getShape().back();
  // Which element of the index tile `index` is the index for element `i` of the stored tile.
  auto placeIn = [&](Value index, Value i) -> Value {
    auto indices = cast<TileType>(index.getType());
    if (indices.rank() == type.rank())
      return i;
    return indices.axis(0) == type.axis(0) ? Value(arith::DivUIOp::create(b, i, constI64(columns)))
                                           : Value(arith::RemUIOp::create(b, i, constI64(columns)));
  };
  loop(constI64(0), constI64(type.numElements()), [&](Value i) {
    Value inside = arith::ConstantOp::create(b, b.getBoolAttr(true)), place = constI64(0);
    for (auto [index, tile, extent, stride] : llvm::zip(op.getIndices(), indexTiles, memory.extents, memory.strides)) {
      Value at = toI64(tile < 0 ? lookup(index) : loadScratch(tile, i32, placeIn(index, i), 1));
      // The unsigned comparison also rejects negative indices.
      inside = arith::AndIOp::create(b, inside, compare(arith::CmpIPredicate::ult, at, extent));
      place = add(place, mul(at, stride));
    }
    auto guarded = scf::IfOp::create(b, inside, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(guarded.thenBlock()->getTerminator());
    Value value = loadScratch(offset, type.getElementType(), i, 1),
          address = offsetElements(memory.base, memory.element, place);
    if (!op.getAdd())
      storeGlobal(value, address, memory.element);
    else if (memory.element.isF32())
      LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::fadd, address, value, LLVM::AtomicOrdering::monotonic);
    else
      LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, address, toI64(value), LLVM::AtomicOrdering::monotonic);
  });
}

} // namespace attune::cpu
