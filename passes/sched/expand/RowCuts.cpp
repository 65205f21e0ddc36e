//===- RowCuts.cpp - Compare the column with a bound that each row has ----------===//

#include "passes/Cloning.h"
#include "passes/analysis/dataflow/Dependences.h"
#include "passes/sched/expand/MapElements.h"

namespace attune::expansion {

bool MapElements::comparesColumn(tile::MapOp op, arith::CmpIOp compare) {
  auto column = dyn_cast<BlockArgument>(compare.getLhs());
  TileType type = op.getResult().getType();
  if (!column || layoutOf(op.getResult()).getRole() != FragmentRole::C || column != op.getCoordinate(type.axis(1)) ||
      !matchPattern(op.originOf(column), m_Zero()))
    return false;
  auto atLeast = compare.getRhs().getDefiningOp<arith::MaxSIOp>();
  auto atMost = atLeast && matchPattern(atLeast.getRhs(), m_Zero()) ? atLeast.getLhs().getDefiningOp<arith::MinSIOp>()
                                                                    : arith::MinSIOp();
  APInt most;
  return atMost && matchPattern(atMost.getRhs(), m_ConstantInt(&most)) && most.getSExtValue() <= type.getShape()[1];
}

Value MapElements::columnComparison(tile::MapOp op, arith::CmpIOp compare, const IRMapping &inner, Value j, Value c) {
  Location loc = compare.getLoc();
  if (Value below = columnsBelow.lookup(compare)) {
    Value is = bitOfColumn(below, loc, j, c);
    return compare.getPredicate() == arith::CmpIPredicate::slt
               ? is
               : arith::XOrIOp::create(builder, loc, is, arith::ConstantIntOp::create(builder, loc, 1, 1));
  }
  return arith::CmpIOp::create(builder, loc, compare.getPredicate(), add(mul(j, 8), c),
                               lanePart(op, compare, inner.lookupOrDefault(compare.getRhs())));
}

Value MapElements::bitOfColumn(Value word, Location loc, Value j, Value c) {
  return sched::TestBitOp::create(builder, loc, builder.getI1Type(), word, add(mul(j, 2), c));
}

bool MapElements::isInWords(arith::CmpIOp compare) {
  return llvm::all_of(compare->getUsers(), [&](Operation *user) { return columnsOf.contains(user); });
}

Value MapElements::lanePart(tile::MapOp op, arith::CmpIOp compare, Value columns) {
  return arith::SubIOp::create(builder, compare.getLoc(), columns, laneColumns(op), arith::IntegerOverflowFlags::nsw);
}

bool MapElements::isCut(tile::MapOp op, Operation *user) {
  auto compare = dyn_cast<arith::CmpIOp>(user);
  return compare && specialized && comparesColumn(op, compare) &&
         cast<TileType>(op.getResult().getType()).getShape()[1] <= 128 &&
         (compare.getPredicate() == arith::CmpIPredicate::slt || compare.getPredicate() == arith::CmpIPredicate::sge) &&
         followsFromRow(op, compare.getRhs());
}

bool MapElements::followsFromRow(tile::MapOp op, Value value) {
  return followsOnlyFrom(value, op.getBody().front(), [&](BlockArgument argument) {
    const unsigned index = argument.getArgNumber();
    if (index < op.getInputs().size())
      return !inShared(op.getInputs()[index]) &&
             layoutOf(buffers.lookup(op.getInputs()[index])).getRole() == FragmentRole::Rows;
    return argument.getType().isInteger() &&
           isRowAxis(op.getResult(), cast<StringAttr>(op.getAxes()[index - op.getInputs().size()]));
  });
}

IRMapping MapElements::rowOf(tile::MapOp op, Value i, Value r) {
  IRMapping inner = mappingFor(op.getBody());
  for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments()))
    if (!argument.use_empty() && followsFromRow(op, argument))
      inner.map(argument, element(input, i, r, {}, {}));
  StringRef axis = op.getResult().getType().axis(0);
  if (BlockArgument row = op.getCoordinate(axis); row && row.getType().isInteger())
    inner.map(row, tile::named(add(mapping.lookup(op.originOf(row)), rowInTile(op.getResult(), i, r)), axis));
  return inner;
}

void MapElements::openCuts(tile::MapOp op, Value i, Value r) {
  Block *body = &op.getBody().front();
  auto compares =
      llvm::make_filter_range(body->getOps<arith::CmpIOp>(), [&](arith::CmpIOp compare) { return isCut(op, compare); });
  if (compares.empty())
    return;
  IRMapping inner = rowOf(op, i, r);
  for (arith::CmpIOp compare : compares) {
    if (Operation *row = compare.getRhs().getDefiningOp())
      cloneWithOperands(row, body, builder, inner);
    Value below = lanePart(op, compare, inner.lookupOrDefault(compare.getRhs()));
    columnsBelow[compare] =
        tile::named(sched::ColumnsBelowOp::create(builder, compare.getLoc(), builder.getI32Type(), below), "columns");
  }
  // ColumnsBelowOp packs a comparison of the column with the row's bound into one word, with a bit for each column. A
  // condition that combines several such comparisons becomes a word, too: for example a mask that has several intervals
  // of keys for each row.
  auto wordOf = [&](Value condition) -> Value {
    Operation *by = condition.getDefiningOp();
    if (Value below = columnsBelow.lookup(by))
      return cast<arith::CmpIOp>(by).getPredicate() == arith::CmpIPredicate::slt
                 ? below
                 : arith::XOrIOp::create(builder, by->getLoc(), below, i32(-1));
    return columnsOf.lookup(by);
  };
  for (Operation &nested : *body) {
    if (!isa<arith::AndIOp, arith::OrIOp>(nested) || !nested.getResult(0).getType().isInteger(1))
      continue;
    Value x = wordOf(nested.getOperand(0)), y = x ? wordOf(nested.getOperand(1)) : Value();
    if (!y)
      continue;
    Value word = isa<arith::AndIOp>(nested) ? Value(arith::AndIOp::create(builder, nested.getLoc(), x, y))
                                            : Value(arith::OrIOp::create(builder, nested.getLoc(), x, y));
    columnsOf[&nested] = tile::named(word, "columns");
  }
}

SmallVector<Value> MapElements::interleavedAt(Value i, Value r) {
  return interleaving->operand.byRow ? SmallVector<Value>{i, r} : SmallVector<Value>{i32(0), i32(0)};
}

void MapElements::forEachInterleaved(function_ref<void(Value i, Value r)> body) {
  if (!interleaving->operand.byRow)
    return body(i32(0), i32(0));
  forEachPlace(interleaving->values, [&](Value i, Value r, Value, Value, SmallVector<Value>) { body(i, r); });
}

void MapElements::openPacing(tile::MapOp op, const InterleavedOperand &operand) {
  TileType type = op.getResult().getType();
  interleaving =
      Interleaving{operand, registers("interleaved", fragmentType({{type.axis(0), type.getShape()[0]}},
                                                                  builder.getF32Type(), FragmentRole::Rows, rowWarps))};
  forEachInterleaved([&](Value i, Value r) {
    IRMapping inner = rowOf(op, i, r);
    if (Operation *producer = operand.value.getDefiningOp())
      cloneWithOperands(producer, &op.getBody().front(), builder, inner);
    set(inner.lookupOrDefault(operand.value), interleaving->values, {i, r});
  });
}

void MapElements::interleave(Value buffer, Value jj) {
  forEachInterleaved([&](Value i, Value r) {
    Value first = get(buffer, {i, mul(jj, 2), mul(r, 2)});
    set(sched::AfterOp::create(builder, loc, builder.getF32Type(), get(interleaving->values, {i, r}), first),
        interleaving->values, {i, r});
  });
}

} // namespace attune::expansion
