//===- SequenceWork.cpp - Blocks for sequences of unlike lengths --------------===//

#include "passes/attn/SequenceWork.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace attune;

SequenceWork::SequenceWork(OpBuilder &builder, Location loc, BlockRows block, int64_t tileQ, StringRef heads)
    : builder(builder), loc(loc), block(block), tileQ(tileQ), heads(heads) {
  own[block.sequence] = own[block.row0] = true;
  each = evenShare();
}

Value SequenceWork::divideUp(Value a, Value b) {
  Value before = arith::SubIOp::create(builder, loc, b, number(1));
  return arith::DivSIOp::create(builder, loc, arith::AddIOp::create(builder, loc, a, before), b);
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

/// What an op reads, that of its regions among it.
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

Value SequenceWork::evenShare() {
  Value start = number(0);
  Value tiles = forSequences(extent("b", "B"), start, {"tiles_of_all"}, [&](Value sequence, ValueRange sum) {
                  Value of = arith::MulIOp::create(builder, loc, rowTilesOf(sequence), keyTilesOf(sequence));
                  return SmallVector<Value>{arith::AddIOp::create(builder, loc, sum.front(), of)};
                }).front();
  // In 64 bits, as a launch may have more tiles than 32 count.
  auto wide = [&](Value value) -> Value { return arith::ExtSIOp::create(builder, loc, builder.getI64Type(), value); };
  Value slots = wide(extent(tile::slotsAxis, "slots")),
        all = arith::MulIOp::create(builder, loc, wide(tiles), wide(extent(heads, "heads")));
  Value one = arith::ConstantIntOp::create(builder, loc, 1, 64),
        most = arith::ConstantIntOp::create(builder, loc, 1 << 30, 64);
  Value before = arith::SubIOp::create(builder, loc, slots, one);
  Value share = arith::DivSIOp::create(builder, loc, arith::AddIOp::create(builder, loc, all, before), slots);
  share = arith::MaxSIOp::create(builder, loc, arith::MinSIOp::create(builder, loc, share, most), one);
  return tile::named(arith::TruncIOp::create(builder, loc, builder.getI32Type(), share), "even_share");
}

Value SequenceWork::sharesOf(Value sequence) {
  return arith::MaxSIOp::create(builder, loc, divideUp(keyTilesOf(sequence), each), number(1));
}

Value SequenceWork::piecesOf(Value sequence) {
  return arith::MulIOp::create(builder, loc, rowTilesOf(sequence), sharesOf(sequence));
}

Value SequenceWork::firstPiece(Value sequence, Value rowTile, Value shares) {
  Value start = number(0);
  Value before = forSequences(sequence, start, {"pieces_before"}, [&](Value other, ValueRange sum) {
                   return SmallVector<Value>{arith::AddIOp::create(builder, loc, sum.front(), piecesOf(other))};
                 }).front();
  return tile::named(arith::AddIOp::create(builder, loc, before, arith::MulIOp::create(builder, loc, rowTile, shares)),
                     "first_piece");
}

SequenceWork::Place SequenceWork::find(Value piece) {
  // The last sequence that begins at the piece or in front of it: one without pieces begins where the next does.
  Value zero = number(0);
  const SmallVector<Value> found = forSequences(
      extent("b", "B"), {zero, zero, zero}, {"begin", "b", "first"}, [&](Value sequence, ValueRange carried) {
        Value begin = carried[0];
        Value begins = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, begin, piece);
        return SmallVector<Value>{arith::AddIOp::create(builder, loc, begin, piecesOf(sequence)),
                                  arith::SelectOp::create(builder, loc, begins, sequence, carried[1]),
                                  arith::SelectOp::create(builder, loc, begins, begin, carried[2])};
      });
  Place place;
  place.sequence = found[1];
  place.shares = tile::named(sharesOf(place.sequence), "shares");
  Value within = arith::SubIOp::create(builder, loc, piece, found[2]);
  Value rowTile = arith::DivSIOp::create(builder, loc, within, place.shares);
  place.share = tile::named(
      arith::SubIOp::create(builder, loc, within, arith::MulIOp::create(builder, loc, rowTile, place.shares)), "split");
  place.row0 = tile::named(
      arith::MulIOp::create(builder, loc, rowTile, number(tileQ), arith::IntegerOverflowFlags::nsw), "row0");
  return place;
}
