//===- TileBuffers.cpp - The registers that hold tiles -----------------------===//

#include "passes/sched/expand/TileBuffers.h"

#include "llvm/Support/SaveAndRestore.h"

namespace attune::expansion {

Value TileBuffers::element(Value tile, Value i, Value r, Value j, Value c) {
  Value buffer = buffers.lookup(tile);
  switch (layoutOf(buffer).getRole()) {
  case FragmentRole::C:
    if (cast<TileType>(tile.getType()).getElementType().isInteger(1))
      return bitAt(tile, i, r, j, c);
    return get(buffer, {i, j, add(mul(r, 2), c)});
  case FragmentRole::Rows:
    return get(buffer, {i, r});
  case FragmentRole::Distances:
    return get(buffer, i);
  case FragmentRole::Lanes:
    return columnElement(tile, j, c);
  case FragmentRole::Diagonals: {
    Value along = i32(laneShape(buffer)[0] - columnsOfLane(buffer));
    Value steps = add(mul(i, 2), r);
    return get(buffer,
               {add(j, arith::SubIOp::create(builder, loc, along, steps, arith::IntegerOverflowFlags::nsw)), c});
  }
  default:
    assert(layoutOf(buffer).getRole() == FragmentRole::Columns && "operand fragments have no elements here");
    return get(buffer, {j, c});
  }
}

bool TileBuffers::isReadAfter(Value value, Operation *op) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (Operation *end = chainEnds.lookup(user))
      user = end;
    Operation *at = op; // the ancestor of `op` in the innermost IR block that contains both ops
    while (!at->getBlock()->findAncestorOpInBlock(*user))
      at = at->getParentOp();
    Operation *reader = at->getBlock()->findAncestorOpInBlock(*user);
    return reader != at && !reader->isBeforeInBlock(at);
  });
}

bool TileBuffers::diesAt(Value value, Operation *op) {
  return value.getParentBlock() == op->getBlock() && !isReadAfter(value, op);
}

Value TileBuffers::bufferFor(Operation *op, Value result, ValueRange reusable) {
  SmallVector<Value> operands(reusable);
  Value place = destination(result);
  auto *there = llvm::find_if(operands, [&](Value operand) { return place && buffers.lookupOrNull(operand) == place; });
  if (there != operands.end())
    std::rotate(operands.begin(), there, there + 1);
  for (Value operand : operands)
    if (operand.getType() == result.getType() && buffers.contains(operand) && diesAt(operand, op) &&
        (cast<TileType>(result.getType()).rank() > 1 || tile::nameOf(operand).empty() ||
         tile::nameOf(operand) == tile::nameOf(result))) {
      Value buffer = buffers.lookup(operand);
      heirs[buffer] = result;
      return buffer;
    }
  return newBuffer(result);
}

Value TileBuffers::destination(Value result) {
  Operation *op = result.getDefiningOp();
  if (!op || !result.hasOneUse())
    return {};
  OpOperand *use = &*result.getUses().begin();
  while (auto branch = dyn_cast<scf::IfOp>(use->getOwner()->getParentOp())) {
    if (use->getOwner() == branch.thenYield())
      return unlessRead(branch.elseYield().getOperand(use->getOperandNumber()), op);
    if (use->getOwner() != branch.elseYield())
      return {};
    Value left = branch.getResult(use->getOperandNumber());
    if (!left.hasOneUse())
      return {};
    use = &*left.getUses().begin();
  }
  auto loop = dyn_cast<sched::ForTilesOp>(use->getOwner()->getParentOp());
  return loop && use->getOwner() == loop.getNext() ? unlessRead(loop.getBody().getArgument(use->getOperandNumber()), op)
                                                   : Value();
}

Value TileBuffers::unlessRead(Value value, Operation *op) {
  if (value.getType() != op->getResult(0).getType() || isReadAfter(value, op))
    return {};
  Value buffer = buffers.lookupOrNull(value), heir = buffer ? heirs.lookup(buffer) : Value();
  return heir && isReadAfter(heir, op) ? Value() : buffer;
}

Value TileBuffers::newBuffer(Value result) {
  if (Value place = destination(result)) {
    heirs[place] = result;
    return place;
  }
  StringRef name = tile::nameOf(result);
  auto type = cast<TileType>(result.getType());
  if (type.rank() == 2 && type.getElementType().isInteger(1))
    type = bitWordsOf(type);
  return registers(name.empty() ? "fragment" : name, type);
}

/// A lane holds an i1 tile in 32-bit words, one bit for each of its eight elements of a 16 x 16 block. Returns how many
/// blocks that are adjacent along the columns share a word: 4, each with 8 bits; if rows are keys 2, each with 16 bits,
/// of which 8 are used.
static int64_t blocksOfWord(TileType type) { return type.axis(0) == "k" ? 2 : 4; }

TileType TileBuffers::bitWordsOf(TileType type) {
  SmallVector<int64_t> shape(type.getShape());
  const int64_t splits = cast<FragmentAttr>(type.getLayout()).getColumnWarps();
  shape[1] = 8 * splits * llvm::divideCeil(shape[1], 16 * 4 * blocksOfWord(type) * splits);
  return TileType::get(type.getContext(), type.getAxes(), shape, IntegerType::get(type.getContext(), 32),
                       type.getSpace(), type.getLayout());
}

Value TileBuffers::bitsOf(Value tile, Value i, Value jj) {
  const int64_t blocks = blocksOfWord(cast<TileType>(tile.getType()));
  Value word = get(buffers.lookup(tile), {i, div(jj, 4 * blocks), rem(div(jj, blocks), 4)});
  return arith::ShRUIOp::create(builder, loc, word, mul(rem(jj, blocks), 32 / blocks));
}

void TileBuffers::addBits(Value bits, Value tile, Value i, Value jj) {
  const int64_t blocks = blocksOfWord(cast<TileType>(tile.getType()));
  Value buffer = buffers.lookup(tile);
  SmallVector<Value> at{i, div(jj, 4 * blocks), rem(div(jj, blocks), 4)};
  Value moved = arith::ShLIOp::create(builder, loc, bits, mul(rem(jj, blocks), 32 / blocks));
  set(arith::OrIOp::create(builder, loc, get(buffer, at), moved), buffer, at);
}

Value TileBuffers::bitAt(Value tile, Value i, Value r, Value j, Value e) {
  const bool byKeys = cast<TileType>(tile.getType()).axis(0) == "k";
  Value n = rem(j, 2);
  Value bit = byKeys ? add(mul(e, 8), add(mul(r, 2), n)) : add(mul(e, 4), add(mul(n, 2), r));
  Value shifted = arith::ShRUIOp::create(builder, loc, bitsOf(tile, i, div(j, 2)), bit);
  Value lowest = arith::AndIOp::create(builder, loc, shifted, i32(1));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, lowest, i32(0));
}

void TileBuffers::moveAll(ValueRange tiles, ArrayRef<Value> to) {
  SmallVector<Value> from(llvm::map_range(tiles, [&](Value tile) { return buffers.lookup(tile); }));
  for (size_t i = 1; i < from.size(); ++i)
    if (from[i] != to[i] && llvm::is_contained(to.take_front(i), from[i])) {
      Value kept = registers("kept", cast<TileType>(tiles[i].getType()));
      copyBuffer(from[i], kept);
      from[i] = kept;
    }
  for (auto [source, destination] : llvm::zip(from, to))
    copyBuffer(source, destination);
}

void TileBuffers::fillBuffer(Value value, Value buffer) {
  forEachPlace(buffer, [&](Value, Value, Value, Value, SmallVector<Value> at) { set(value, buffer, at); });
}

void TileBuffers::copyBuffer(Value from, Value to, std::optional<Range> within) {
  if (from == to)
    return;
  llvm::SaveAndRestore named(function, StringRef("copy_fragment"));
  if (layoutOf(to).getRole() == FragmentRole::A)
    return copyLeftOperand(from, to);
  forEachPlace(to, [&](Value, Value, Value, Value, SmallVector<Value> at) { set(get(from, at), to, at); }, {}, within);
}

void TileBuffers::copyLeftOperand(Value from, Value to) {
  Type element = cast<TileType>(to.getType()).getElementType(), word = element.isF32() ? element : builder.getI32Type();
  const SmallVector<int64_t> shape = laneShape(to);
  repeat(shape[0], "i", [&](Value i) {
    repeat(shape[1], "kk", [&](Value kk) {
      repeat(shape[2], "e", [&](Value e) {
        SmallVector<Value> at{i, kk, e};
        set(sched::GetOp::create(builder, loc, word, from, at), to, at);
      });
    });
  });
}

std::optional<Range> TileBuffers::pairsOf(tile::MapOp map) {
  if (std::optional<ArrayRef<int64_t>> columns = map.getColumns())
    return Range{columns->front(), columns->back()}.by(8);
  return std::nullopt;
}

void TileBuffers::copyOtherColumns(tile::MapOp map, Value to) {
  if (std::optional<Range> computed = pairsOf(map))
    for (Range others : {Range{0, computed->begin}, Range{computed->end, laneShape(to)[1]}})
      copyBuffer(buffers.lookup(map.getInputs().front()), to, others);
}

Value TileBuffers::columnElement(Value tile, Value j, Value c) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(cast<BlockArgument>(c).getOwner());
  StringRef name = tile::nameOf(tile);
  name.consume_front("column_");
  Value source = add(add(mul(rem(j, 4), 8), c), laneColumn);
  Value held = get(buffers.lookup(tile), div(j, 4));
  Value element = sched::ShuffleOp::create(builder, loc, held.getType(), held, source);
  return name.empty() ? element : tile::named(element, name);
}

bool TileBuffers::isSpread(Value vector) {
  return !inShared(vector) && layoutOf(buffers.lookup(vector)).getRole() == FragmentRole::Lanes;
}

} // namespace attune::expansion
