//===- LaunchArguments.cpp - Reading the packed launch parameters ---------===//

#include "codegen/cpu/Lowering.h"

#include "attune/LaunchParams.h"

#include <cstddef>

namespace attune::cpu {

Value Lowering::scalarParam(ParamOp op) {
  Value &value = scalarParams[op.getName()];
  if (!value)
    atStart([&] { value = readScalar(op.getName(), op.getType()); });
  return value;
}

Value Lowering::axisExtent(AxisExtentOp op) {
  Value &value = extents[op.getAxis()];
  if (!value)
    atStart([&] { value = field(i32, *findExtent(signature, op.getAxis())); });
  return value;
}

Value Lowering::readScalar(StringRef name, Type type) {
  const std::pair<StringRef, size_t> fields[] = {{"group", offsetof(LaunchParams, group)},
                                                 {"q_offset", offsetof(LaunchParams, qOffset)},
                                                 {"drop_threshold", offsetof(LaunchParams, dropThreshold)},
                                                 {"keep_scale", offsetof(LaunchParams, keepScale)}};
  for (auto [known, offset] : fields)
    if (name == known)
      return field(type, offset);
  if (name == "seed" || name == "offset") {
    bool seed = name == "seed";
    int64_t inlined = seed ? offsetof(LaunchParams, seed) : offsetof(LaunchParams, offset);
    int64_t indirect = seed ? offsetof(LaunchParams, seedPointer) : offsetof(LaunchParams, offsetPointer);
    Value address = field(pointer, indirect);
    Value isNull = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::eq, address, LLVM::ZeroOp::create(b, pointer));
    return loadAt(LLVM::SelectOp::create(b, isNull, offsetBytes(params, inlined), address), i64, 8);
  }
  const size_t offset = *findScalar(signature, name);
  return type.isInteger(1) ? compare(arith::CmpIPredicate::ne, field(i8, offset), zeroOf(i8)) : field(type, offset);
}

const Memory &Lowering::memoryOf(Value view) {
  ParamOp param = parameterOf(view);
  assert(param && "a view is a parameter");
  auto [found, isNew] = memories.try_emplace(param.getName().str());
  if (isNew)
    atStart([&] { found->second = readMemory(param.getName(), param.getType()); });
  return found->second;
}

/// Whether an operand has the extents of a captured tensor, because the operand is the tensor's gradient. Such an
/// operand may be empty, as the captured tensor may be.
static bool followsTensor(const OperandParam &operand) {
  return llvm::any_of(operand.axes, [](const AxisParam &axis) { return tensorDimension(axis.name).has_value(); });
}

Memory Lowering::readMemory(StringRef name, Type type) {
  Memory memory;
  memory.element = cast<ViewType>(type).getElementType();
  const Declaration declared = *findView(signature, name);
  memory.base = field(pointer, declared.offset);
  for (int64_t i = 0; i < declared.rank; ++i) {
    memory.strides.push_back(field(i64, declared.offset + 8 * (1 + i)));
    memory.extents.push_back(field(i64, declared.offset + 8 * (1 + declared.rank + i)));
  }
  if (declared.kind != Declaration::Operand || followsTensor(signature.operands[declared.index])) {
    readAsZeroIfEmpty(memory);
  } else if (const OperandParam &operand = signature.operands[declared.index]; operand.isTiled()) {
    memory.columns = operand.axes.back().size;
    memory.unitStride = true;
    memory.strides.back() = constI64(1);
    memory.extents.back() = constI64(memory.columns);
  }
  return memory;
}

void Lowering::readAsZeroIfEmpty(Memory &memory) {
  Value empty = arith::ConstantOp::create(b, b.getBoolAttr(false));
  for (Value extent : memory.extents)
    empty = arith::OrIOp::create(b, empty, compare(arith::CmpIPredicate::sle, extent, constI64(0)));
  if (emptyTensor < 0) {
    emptyTensor = std::exchange(scratchEnd, scratchEnd + cacheLine); // never freed
    storeAt(constI64(0), offsetBytes(scratch, emptyTensor), 8);
  }
  memory.base = LLVM::SelectOp::create(b, empty, offsetBytes(scratch, emptyTensor), memory.base);
  for (Value &stride : memory.strides)
    stride = select(empty, constI64(0), stride);
}

Value Lowering::rowAddress(Value view, ValueRange indices, Value i) {
  const Memory &memory = memoryOf(view);
  if (auto rows = view.getDefiningOp<PagedRowsOp>())
    return pagedRowAddress(rows, indices, i);
  auto rows = view.getDefiningOp<GroupRowsOp>();
  if (!rows)
    return offsetElements(addressOf(memory, indices), memory.element, mul(i, memory.strides[indices.size() - 1]));
  Value group = toI64(lookup(rows.getGroup())), row = add(toI64(indices.back()), i);
  SmallVector<Value> at(indices);
  const size_t head = at.size() - 2;
  at[head] = add(mul(toI64(at[head]), group), arith::RemUIOp::create(b, row, group));
  at[head + 1] = arith::DivUIOp::create(b, row, group);
  return addressOf(memory, at);
}

Value Lowering::pagedRowAddress(PagedRowsOp rows, ValueRange indices, Value i) {
  const Memory memory = memoryOf(rows.getView()), table = memoryOf(rows.getTable());
  auto clamped = [&](Value index, Value extent) -> Value {
    Value last = arith::SubIOp::create(b, extent, constI64(1));
    return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, index, last), constI64(0));
  };
  Value size = constI64(int64_t(rows.getSize())), row = add(toI64(indices.back()), i);
  const size_t place = indices.size() - 1;
  const SmallVector<Value> entry{clamped(toI64(indices.front()), table.extents[0]),
                                 clamped(arith::DivUIOp::create(b, row, size), table.extents[1])};
  Value page = toI64(loadGlobal(addressOf(table, entry), table.element, 1));
  SmallVector<Value> at(indices);
  at.front() = clamped(page, memory.extents[0]);
  at[place] = arith::RemUIOp::create(b, row, size);
  return addressOf(memory, at);
}

Value Lowering::addressOf(const Memory &memory, ValueRange indices) {
  Value offset = constI64(0);
  for (auto [index, stride] : llvm::zip(indices, memory.strides))
    offset = add(offset, mul(toI64(index), stride));
  return offsetElements(memory.base, memory.element, offset);
}

} // namespace attune::cpu
