//===- Emitter.cpp - Builder functions that all expansions use -----------------------===//

#include "passes/sched/expand/Emitter.h"

namespace attune::expansion {

Value Emitter::mul(Value a, int64_t b) {
  return b == 1 ? a : Value(arith::MulIOp::create(builder, loc, a, i32(b), arith::IntegerOverflowFlags::nsw));
}

void Emitter::repeat(Range range, StringRef name, function_ref<void(Value)> body, std::optional<int64_t> times) {
  if (range.end - range.begin <= 1)
    return range.begin < range.end ? body(i32(range.begin)) : void();
  auto loop = scf::ForOp::create(builder, loc, i32(range.begin), i32(range.end), i32(1));
  loop->setAttr(sched::unrollAttr,
                times ? Attribute(builder.getI64IntegerAttr(*times)) : Attribute(builder.getUnitAttr()));
  loop->setAttr(tile::nameAttr, builder.getStringAttr(name));
  if (!function.empty())
    loop->setAttr(sched::functionAttr, builder.getStringAttr(function));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void Emitter::onlyIf(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

void Emitter::either(Value condition, function_ref<void()> body, function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
  builder.setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

Value Emitter::get(Value buffer, ValueRange indices) {
  Type element = cast<TileType>(buffer.getType()).getElementType();
  return sched::GetOp::create(builder, loc, element, buffer, indices);
}

void Emitter::set(Value value, Value buffer, ValueRange indices) {
  sched::SetOp::create(builder, loc, value, buffer, indices);
}

Value Emitter::loadShared(Type type, Value shared, Value stage, Value row, Value column, Value rowStep,
                          Value columnStep) {
  return sched::LoadSharedOp::create(builder, loc, type, shared, stage, row, column, rowStep, columnStep);
}

TileType Emitter::fragmentType(std::initializer_list<std::pair<StringRef, int64_t>> axes, Type element,
                               FragmentRole role, int64_t warpCount) {
  return TileType::make(builder.getContext(), axes, element, MemorySpace::Register,
                        FragmentAttr::get(builder.getContext(), role, warpCount));
}

} // namespace attune::expansion
