//===- Scalars.cpp - Lowering scalar ops and the regions of maps ----------===//

#include "codegen/cpu/Lowering.h"
#include "ir/tile/Tile.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

namespace attune::cpu {

Value Lowering::lookup(Value value) {
  if (Value found = values.lookup(value))
    return found;
  if (auto param = value.getDefiningOp<ParamOp>())
    return scalarParam(param);
  if (auto extent = value.getDefiningOp<AxisExtentOp>())
    return axisExtent(extent);
  assert(false && "a value is used before it is lowered");
  return {};
}

Value Lowering::readElement(const Memory &memory, ArrayRef<Value> indices) {
  int64_t lanes = 1;
  Value uniform = constI64(0), varying;
  for (auto [index, extent, stride] : llvm::zip(indices, memory.extents, memory.strides)) {
    lanes = std::max(lanes, lanesOf(index));
    Type type = getElementTypeOrSelf(index.getType());
    Value last = arith::SubIOp::create(b, extent, constI64(1));
    if (type == i32)
      last = arith::TruncIOp::create(b, i32,
                                     arith::MinSIOp::create(b, last, constI64(std::numeric_limits<int32_t>::max())));
    Value limited = arith::MinSIOp::create(b, index, widen(last, lanesOf(index)));
    limited = arith::MaxSIOp::create(b, limited, zeroOf(index.getType()));
    if (!isa<VectorType>(index.getType())) {
      uniform = add(uniform, mul(toI64(limited), stride));
      continue;
    }
    int64_t width = lanesOf(index);
    if (type != i64)
      limited = arith::ExtSIOp::create(b, VectorType::get({width}, i64), limited);
    Value part = mul(limited, widen(stride, width));
    varying = varying ? add(varying, part) : part;
  }
  Value base = offsetElements(memory.base, memory.element, uniform);
  Value raw;
  Type loaded = memory.element.isBF16() ? Type(b.getI16Type()) : memory.element;
  if (!varying) {
    raw = loadAt(base, loaded, bytesOf(loaded));
  } else {
    Type addresses = VectorType::get({lanes}, pointer);
    Value address = LLVM::GEPOp::create(b, addresses, memory.element, base, ArrayRef<LLVM::GEPArg>{varying});
    Value all = constant(b.getBoolAttr(true), VectorType::get({lanes}, b.getI1Type()));
    raw = LLVM::masked_gather::create(b, VectorType::get({lanes}, loaded), address, all, ValueRange{},
                                      b.getI32IntegerAttr(bytesOf(loaded)));
  }
  if (memory.element.isBF16())
    return fromBF16(raw);
  if (memory.element.isF16())
    return arith::ExtFOp::create(b, vectorOf(f32, lanesOf(raw)), raw);
  if (memory.element.isInteger(8))
    return compare(arith::CmpIPredicate::ne, raw, zeroOf(raw.getType()));
  return raw;
}

Value Lowering::searchVector(const Memory &memory, Value x, bool right, int64_t tileRows) {
  const int64_t lanes = lanesOf(x);
  const bool isFloat = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  auto floats = [&](arith::CmpFPredicate predicate, Value left, Value other) -> Value {
    return arith::CmpFOp::create(b, predicate, left, other);
  };
  auto either = [&](Value left, Value other) -> Value { return arith::OrIOp::create(b, left, other); };
  // NaN comes after all numbers.
  Value isNan = isFloat ? floats(arith::CmpFPredicate::UNO, x, x) : Value();
  auto isBefore = [&](Value element) -> Value {
    if (!isFloat)
      return compare(right ? arith::CmpIPredicate::sle : arith::CmpIPredicate::slt, element, x);
    if (right)
      return either(floats(arith::CmpFPredicate::OLE, element, x), isNan);
    Value isNumber = floats(arith::CmpFPredicate::ORD, element, element);
    return either(floats(arith::CmpFPredicate::OLT, element, x), arith::AndIOp::create(b, isNan, isNumber));
  };
  // Bisection reduces an interval of fewer than 2^n elements to an empty one in n steps; n is the extent's bit length.
  Value extent = memory.extents[0];
  Value steps = arith::SubIOp::create(b, constI64(64), math::CountLeadingZerosOp::create(b, extent));
  const SmallVector<Value> whole = {widen(constI64(0), lanes), widen(extent, lanes)};
  Value low = loop(constI64(0), steps, constI64(1), whole, [&](Value, ValueRange ends) -> SmallVector<Value> {
                Value middle = arith::ShRUIOp::create(b, add(ends[0], ends[1]), widen(constI64(1), lanes));
                Value element = readElement(memory, middle);
                if (tileRows) {
                  element = arith::DivSIOp::create(b, element, arith::ConstantIntOp::create(b, tileRows, 32));
                  element = arith::AddIOp::create(b, element, arith::TruncIOp::create(b, i32, middle));
                }
                Value before = isBefore(element);
                Value isOpen = compare(arith::CmpIPredicate::slt, ends[0], ends[1]);
                Value after = add(middle, widen(constI64(1), lanes));
                Value isAfter = arith::AndIOp::create(b, isOpen, before);
                Value high = select(before, ends[1], middle);
                return {select(isAfter, after, ends[0]), select(isOpen, high, ends[1])};
              }).front();
  return arith::TruncIOp::create(b, vectorOf(i32, lanes), low);
}

void Lowering::lowerScalarOp(Operation *op) {
  if (auto param = dyn_cast<ParamOp>(op)) {
    if (!isa<ViewType>(param.getType()))
      values[param] = scalarParam(param);
    return;
  }
  if (isa<GroupRowsOp, PagedRowsOp>(op)) // rowAddress() handles these views where they are used
    return;
  if (auto extent = dyn_cast<AxisExtentOp>(op)) {
    values[extent] = axisExtent(extent);
    return;
  }
  if (auto counted = dyn_cast<scf::ForOp>(op))
    return lowerCountedLoop(counted);
  if (auto id = dyn_cast<sched::BlockIdOp>(op)) {
    values[id] = blockId;
    return;
  }
  if (auto number = dyn_cast<sched::NonnegativeOp>(op)) {
    values[number] = lookup(number.getValue());
    return;
  }
  SmallVector<Value> operands;
  int64_t lanes = 1;
  for (Value operand : op->getOperands()) {
    if (isa<ViewType>(operand.getType()))
      continue;
    operands.push_back(lookup(operand));
    lanes = std::max(lanes, lanesOf(operands.back()));
  }
  if (auto element = dyn_cast<ElementOp>(op)) {
    values[element] = readElement(memoryOf(element.getView()), operands);
    return;
  }
  if (auto search = dyn_cast<tile::SearchOp>(op)) {
    values[search] = searchVector(memoryOf(search.getView()), operands[0], search.getRight(),
                                  int64_t(search.getTiles().value_or(0)));
    return;
  }
  if (auto touches = dyn_cast<TouchesOp>(op)) {
    values[touches] = lowerTouches(touches);
    return;
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto number = dyn_cast<FloatAttr>(constant.getValue());
    if (number && !number.getType().isF32() && number.getType().getIntOrFloatBitWidth() < 32)
      values[constant] = arith::ConstantOp::create(b, b.getF32FloatAttr(float(number.getValueAsDouble())));
    else
      values[constant] = b.clone(*op)->getResult(0);
    return;
  }
  if (auto product = dyn_cast<MulFiniteOp>(op)) {
    values[product] = mulFinite(product.getLoc(), widen(operands[0], lanes), widen(operands[1], lanes));
    return;
  }
  if (!isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) || op->getNumRegions()) {
    fail(op, "no lowering");
    for (Value result : op->getResults())
      values[result] = zeroOf(result.getType());
    return;
  }
  lowerArithmetic(op, operands, lanes);
}

void Lowering::lowerArithmetic(Operation *op, SmallVector<Value> &operands, int64_t lanes) {
  bool isSelect = isa<arith::SelectOp>(op);
  for (auto [i, operand] : llvm::enumerate(operands))
    if (!(isSelect && i == 0))
      operand = widen(operand, lanes);
  if (isa<arith::ExtFOp, arith::TruncFOp>(op) && operands[0].getType() == vectorOf(f32, lanes) &&
      valueType(op->getResult(0).getType()) == f32) {
    values[op->getResult(0)] = operands[0];
    return;
  }
  if (Value value = approximate(b, op, operands, host)) {
    values[op->getResult(0)] = value;
    return;
  }
  Type narrow = valueType(op->getResult(0).getType());
  if (isa<arith::FPToSIOp, arith::FPToUIOp>(op)) {
    Type type = vectorOf(narrow, lanes);
    StringRef name = isa<arith::FPToSIOp>(op) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    values[op->getResult(0)] = LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name), operands).getResult(0);
    return;
  }
  Operation *copy = b.clone(*op);
  copy->setOperands(operands);
  for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults())) {
    to.setType(vectorOf(valueType(from.getType()), lanes));
    values[from] = to;
  }
}

void Lowering::lowerCountedLoop(scf::ForOp counted) {
  SmallVector<Value> inits;
  for (Value init : counted.getInitArgs())
    inits.push_back(lookup(init));
  auto loop = scf::ForOp::create(b, counted.getLoc(), lookup(counted.getLowerBound()), lookup(counted.getUpperBound()),
                                 lookup(counted.getStep()), inits);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    for (auto [argument, value] : llvm::zip(counted.getBody()->getArguments(), loop.getBody()->getArguments()))
      values[argument] = value;
    for (Operation &inner : counted.getBody()->without_terminator())
      lowerScalarOp(&inner);
    SmallVector<Value> next;
    for (Value value : counted.getBody()->getTerminator()->getOperands())
      next.push_back(lookup(value));
    scf::YieldOp::create(b, counted.getLoc(), next);
  }
  for (auto [result, value] : llvm::zip(counted.getResults(), loop.getResults()))
    values[result] = value;
}

Value Lowering::lowerMapBody(MapOp map, ArrayRef<Value> elements, ArrayRef<Value> coordinates) {
  Block &body = map.getBody().front();
  for (auto [argument, value] : llvm::zip(body.getArguments(), llvm::concat<const Value>(elements, coordinates)))
    values[argument] = value;
  for (Operation &op : body.without_terminator())
    lowerScalarOp(&op);
  return lookup(map.getYield().getValues()[0]);
}

Value Lowering::lowerTouches(TouchesOp op) {
  const Memory memory = memoryOf(op.getView());
  SmallVector<Value> indices;
  for (Value index : op.getIndices())
    indices.push_back(toI64(lookup(index)));
  unsigned rank = memory.extents.size();
  auto limited = [&](Value index, unsigned dim) -> Value {
    Value last = arith::SubIOp::create(b, memory.extents[dim], constI64(1));
    return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, index, last), constI64(0));
  };
  Value base = constI64(0);
  for (unsigned dim = 0; dim + 2 < rank; ++dim)
    base = add(base, mul(limited(indices[dim], dim), memory.strides[dim]));
  auto range = [&](int64_t count, int64_t block, unsigned dim) {
    Value begin = arith::DivSIOp::create(b, indices[dim], constI64(block));
    Value last = arith::DivSIOp::create(b, add(indices[dim], constI64(count - 1)), constI64(block));
    return std::pair(limited(begin, dim), add(limited(last, dim), constI64(1)));
  };
  auto [rowBegin, rowEnd] = range(op.getTileRows(), op.getRows(), rank - 2);
  auto [columnBegin, columnEnd] = range(op.getTileColumns(), op.getColumns(), rank - 1);
  Value none = zeroOf(i8);
  SmallVector<Value> found = loop(rowBegin, rowEnd, constI64(1), none, [&](Value i, ValueRange outer) {
    return loop(columnBegin, columnEnd, constI64(1), outer, [&](Value j, ValueRange inner) -> SmallVector<Value> {
      Value offset = add(base, add(mul(i, memory.strides[rank - 2]), mul(j, memory.strides[rank - 1])));
      Value flag = loadAt(offsetElements(memory.base, i8, offset), i8, 1);
      return {arith::OrIOp::create(b, inner[0], flag)};
    });
  });
  return compare(arith::CmpIPredicate::ne, found[0], none);
}

} // namespace attune::cpu
