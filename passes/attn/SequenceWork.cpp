//===- SequenceWork.cpp - Work items for sequences of different lengths ---===//

#include "passes/attn/SequenceWork.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace attune;

SequenceWork::SequenceWork(OpBuilder &builder, Location loc, BlockRows block, int64_t tileQ, StringRef heads)
    : builder(builder), loc(loc), block(block), tileQ(tileQ), heads(heads) {
  own[block.sequence] = own[block.row0] = true;
  each = evenPart();
}

/// ceil(a / b) for non-negative numbers, for which the unsigned sum a + (b - 1) does not wrap.
Value SequenceWork::divideUp(Value a, Value b) {
  Value before = arith::SubIOp::create(builder, loc, b, number(1));
  return arith::DivUIOp::create(builder, loc, arith::AddIOp::create(builder, loc, a, before), b);
}

SmallVector<Value> SequenceWork::forSequences(Value end, ValueRange inits, ArrayRef<StringRef> names, Sequences body) {
  Value zero = number(0), one = number(1);
  auto counted = scf::ForOp::create(builder, loc, zero, end, one, inits);
  counted->setAttr(tile::nameAttr, builder.getStringAttr("sequence"));
  counted->setAttr(tile::namesAttr, builder.getStrArrayAttr(names));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(counted.getBody());
  loop = counted;
  scf::YieldOp::create(builder, loc, body(counted.getInductionVar(), counted.getRegionIterArgs()));
  loop = nullptr;
  return llvm::to_vector_of<Value>(counted.getResults());
}

/// The operands of an op, and the values defined outside that its regions read.
static llvm::SetVector<Value> readBy(Operation *op) {
  llvm::SetVector<Value> read(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), read);
  return read;
}

Value SequenceWork::again(Value value, IRMapping &given) {
  if (Value known = given.lookupOrNull(value))
    return known;
  if (Value known = common.lookupOrNull(value))
    return known;
  Operation *definition = value.getDefiningOp();
  assert(definition && "what counts tiles follows from the block's place, operands and scalars");
  IRMapping operands;
  bool isOwn = false;
  for (Value operand : readBy(definition)) {
    operands.map(operand, again(operand, given));
    isOwn |= own.lookup(operand);
  }
  own[value] = isOwn;
  OpBuilder outside = loop ? OpBuilder(loop) : builder;
  Operation *copy = (isOwn ? builder : outside).clone(*definition, operands);
  (isOwn ? given : common).map(definition->getResults(), copy->getResults());
  return copy->getResult(cast<OpResult>(value).getResultNumber());
}

Value SequenceWork::rowTilesOf(Value sequence) {
  IRMapping given;
  given.map(block.sequence, sequence);
  return divideUp(again(block.rows, given), number(tileQ));
}

Value SequenceWork::keyTilesOf(Value sequence, Value row0) {
  IRMapping given;
  given.map(block.sequence, sequence);
  given.map(block.row0, row0);
  return again(block.keyTiles, given);
}

Value SequenceWork::keyTilesOf(Value sequence) {
  Value last = arith::MaxSIOp::create(builder, loc,
                                      arith::SubIOp::create(builder, loc, rowTilesOf(sequence), number(1)), number(0));
  return keyTilesOf(sequence, arith::MulIOp::create(builder, loc, last, number(tileQ)));
}

Value SequenceWork::evenPart() {
  // The number of tiles of all sequences is computed in 64 bits, since it may not fit in 32 bits. If it does not, no
  // sequence is split.
  auto wide = [&](Value value) -> Value { return arith::ExtSIOp::create(builder, loc, builder.getI64Type(), value); };
  Value start = arith::ConstantIntOp::create(builder, loc, 0, 64),
        most = arith::ConstantIntOp::create(builder, loc, INT32_MAX, 64);
  Value all = forSequences(extent("b", "B"), start, {"tiles_of_all"}, [&](Value sequence, ValueRange sum) {
                Value of = arith::MulIOp::create(builder, loc, wide(rowTilesOf(sequence)), wide(keyTilesOf(sequence)));
                return SmallVector<Value>{arith::AddIOp::create(builder, loc, sum.front(), of)};
              }).front();
  Value many = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, all, most);
  Value tiles = arith::TruncIOp::create(builder, loc, builder.getI32Type(), all);
  Value atOnce = arith::DivUIOp::create(builder, loc, extent(tile::slotsAxis, "slots"), extent(heads, "heads"));
  atOnce = arith::MaxSIOp::create(builder, loc, atOnce, number(1));
  Value split = arith::MaxSIOp::create(builder, loc, divideUp(tiles, atOnce), number(1));
  return tile::named(arith::SelectOp::create(builder, loc, many, number(INT32_MAX / 2), split), "even_share");
}

Value SequenceWork::splitsOf(Value sequence) {
  return arith::MaxSIOp::create(builder, loc, divideUp(keyTilesOf(sequence), each), number(1));
}

Value SequenceWork::firstItem(Value sequence, Value rowTile, Value splits) {
  Value start = number(0);
  Value before = forSequences(sequence, start, {"work_items_before"}, [&](Value other, ValueRange sum) {
                   Value workItems = arith::MulIOp::create(builder, loc, rowTilesOf(other), splitsOf(other));
                   return SmallVector<Value>{arith::AddIOp::create(builder, loc, sum.front(), workItems)};
                 }).front();
  return tile::named(arith::AddIOp::create(builder, loc, before, arith::MulIOp::create(builder, loc, rowTile, splits)),
                     "first_work_item");
}

SequenceWork::Place SequenceWork::find(Value workItem) {
  // Finds the last sequence whose first work item is at or before `workItem`. A sequence without work items begins
  // where the next one begins, and is skipped.
  Value zero = number(0), one = number(1);
  const SmallVector<Value> found =
      forSequences(extent("b", "B"), {zero, zero, zero, one}, {"begin", "b", "first", "splits"},
                   [&](Value sequence, ValueRange carried) {
                     Value begin = carried[0], splits = splitsOf(sequence);
                     Value workItems = arith::MulIOp::create(builder, loc, rowTilesOf(sequence), splits),
                           begins = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, begin, workItem);
                     SmallVector<Value> next{arith::AddIOp::create(builder, loc, begin, workItems)};
                     const Value values[] = {sequence, begin, splits};
                     for (auto [value, before] : llvm::zip(values, carried.drop_front()))
                       next.push_back(arith::SelectOp::create(builder, loc, begins, value, before));
                     return next;
                   });
  Place place;
  place.sequence = found[1];
  place.splits = found[3];
  Value within = arith::SubIOp::create(builder, loc, workItem, found[2]);
  Value rowTile = arith::DivUIOp::create(builder, loc, within, place.splits);
  place.split = tile::named(
      arith::SubIOp::create(builder, loc, within, arith::MulIOp::create(builder, loc, rowTile, place.splits)), "split");
  // A work item index may be any number past the last one, so the row tile is clamped.
  rowTile = arith::MinUIOp::create(builder, loc, rowTile, rowTilesOf(place.sequence));
  place.row0 = tile::named(
      arith::MulIOp::create(builder, loc, rowTile, number(tileQ), arith::IntegerOverflowFlags::nsw), "row0");
  return place;
}
