//===- ConditionWords.cpp - Compute large conditions of a map in a loop -------------===//
//
// Registers cannot be indexed at run time, so that loops over a lane's elements are unrolled: the machine code has a
// map's region once for each element, and the time of NVRTC grows by the same factor. A condition of many ops, such as
// a mask of many terms, is computed in a loop that is not unrolled, and kept as one bit for each element:
//
//     #pragma unroll 1
//     for (n = 0; n < 32; ++n)                        the lane's columns, 32 to a word
//       words[i][r] |= condition(i, r, n) << n        for each row (i, r)
//     ...
//     x[i][j][2 r + c] = words[i][r] >> (2 j + c) & 1 ? x[i][j][2 r + c] : -infinity
//
// The inner loops go over rows, so that ops that depend on the column alone are computed once for all rows.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/expand/MapElements.h"

namespace attune::expansion {

/// A condition of at most this many ops is unrolled: its ops are repeated for each element.
static constexpr size_t mostUnrolled = 64;
/// At most this many conditions of one map are kept as one bit for each element, in 32-bit words, because each takes a
/// register for each row. Further conditions are unrolled.
static constexpr size_t mostWords = 4;
static constexpr int64_t wordBits = 32;

bool MapElements::hasRunTimePlace(tile::MapOp op, BlockArgument argument) {
  const unsigned index = argument.getArgNumber();
  if (index >= op.getInputs().size())
    return true;
  Value input = op.getInputs()[index];
  if (inShared(input))
    return !tile::isRelative(cast<TileType>(input.getType()));
  const FragmentRole role = layoutOf(buffers.lookup(input)).getRole();
  return role == FragmentRole::Rows || role == FragmentRole::Columns;
}

Value MapElements::columnAt(Value input, Range pairs, Value column) {
  Value found;
  for (int64_t n = 2 * pairs.begin; n < 2 * pairs.end; ++n) {
    Value each = element(input, {}, {}, i32(n / 2), i32(n % 2));
    Value is =
        found ? arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, column, i32(n)).getResult() : Value();
    found = found ? arith::SelectOp::create(builder, loc, is, each, found).getResult() : each;
  }
  return found;
}

/// The ops of the IR block that `op` depends on, and `op` itself. The search stops after more than `most` ops.
static llvm::DenseSet<Operation *> neededBy(Operation *op, size_t most) {
  SmallVector<Operation *> pending = {op};
  llvm::DenseSet<Operation *> met;
  while (!pending.empty() && met.size() <= most) {
    Operation *next = pending.pop_back_val();
    if (next->getBlock() != op->getBlock() || !met.insert(next).second)
      continue;
    for (Value operand : next->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        pending.push_back(producer);
  }
  return met;
}

SmallVector<Operation *> MapElements::largeConditions(tile::MapOp op) {
  Block &body = op.getBody().front();
  SmallVector<Operation *> large;
  if (layoutOf(op.getResult()).getRole() != FragmentRole::C || body.getOperations().size() <= mostUnrolled)
    return large;
  llvm::DenseSet<Value> known; // values that can be computed for a run-time element index
  for (BlockArgument argument : body.getArguments())
    if (!argument.use_empty() && hasRunTimePlace(op, argument))
      known.insert(argument);
  auto isKnown = [&](Value value) { return value.getParentBlock() != &body || known.contains(value); };
  for (Operation &nested : body.without_terminator())
    if (nested.getNumRegions() == 0 && nested.getNumResults() == 1 && isMemoryEffectFree(&nested) &&
        llvm::all_of(nested.getOperands(), isKnown))
      known.insert(nested.getResult(0));
  for (Operation &nested : body.without_terminator()) {
    if (nested.getNumResults() != 1 || !nested.getResult(0).getType().isInteger(1) || !isKnown(nested.getResult(0)))
      continue;
    // A condition that only larger conditions read is computed as a part of the larger ones, and gets no bits of its
    // own.
    const bool ends = llvm::any_of(nested.getUsers(), [&](Operation *user) {
      return user->getNumResults() != 1 || !user->getResult(0).getType().isInteger(1) || !isKnown(user->getResult(0));
    });
    if (ends && large.size() < mostWords && neededBy(&nested, mostUnrolled).size() > mostUnrolled)
      large.push_back(&nested);
  }
  return large;
}

SmallVector<Value> MapElements::wordAt(Value buffer, Value i, Value r, Value j) {
  // A condition is kept as one bit for each element. A word has the bits of 32 columns of a row. The words of the
  // lane's first 32 columns, one for each row, come first; then the words of the next 32 columns.
  const SmallVector<int64_t> shape = laneShape(buffer);
  Value word = shape[1] * 2 > wordBits ? mul(div(j, wordBits / 2), shape[0]) : Value();
  return {word ? add(i, word) : i, r};
}

Value MapElements::bitInWord(Value buffer, Value j, Value c) {
  const bool isOne = laneShape(buffer)[1] * 2 <= wordBits;
  return add(mul(isOne ? j : rem(j, wordBits / 2), 2), c);
}

void MapElements::openWords(tile::MapOp op) {
  const SmallVector<Operation *> large = largeConditions(op);
  if (large.empty())
    return;
  Block *body = &op.getBody().front();
  Value buffer = op.getResult();
  const TileType type = op.getResult().getType();
  const SmallVector<int64_t> shape = laneShape(buffer);
  const int64_t words = llvm::divideCeil(2 * shape[1], wordBits);
  const TileType rows = fragmentType({{type.axis(0), type.getShape()[0] * words}}, builder.getI32Type(),
                                     FragmentRole::Rows, layoutOf(buffer).getWarps());
  llvm::SmallDenseMap<Operation *, Value> opened;
  llvm::DenseSet<Operation *> needed;
  for (Operation *condition : large) {
    Value word = registers("holds", rows);
    fillBuffer(i32(0), word);
    opened[condition] = word;
    const llvm::DenseSet<Operation *> byThis = neededBy(condition, body->getOperations().size());
    needed.insert(byThis.begin(), byThis.end());
  }
  const Range pairs = pairsOf(op).value_or(Range{0, shape[1]});
  auto columns = scf::ForOp::create(builder, loc, i32(2 * pairs.begin), i32(2 * pairs.end), i32(1));
  columns->setAttr(tile::nameAttr, builder.getStringAttr("column"));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(columns.getBody());
    Value j = div(columns.getInductionVar(), 2), c = rem(columns.getInductionVar(), 2);
    auto isNeeded = [&](BlockArgument argument) {
      return llvm::any_of(argument.getUsers(), [&](Operation *user) { return needed.contains(user); });
    };
    llvm::SmallDenseMap<Value, Value> ofColumn;
    for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments()))
      if (isNeeded(argument) && !inShared(input) && layoutOf(buffers.lookup(input)).getRole() == FragmentRole::Columns)
        ofColumn[argument] = columnAt(input, pairs, columns.getInductionVar());
    repeat(shape[0], "i", [&](Value i) {
      repeat(2, "r", [&](Value r) {
        IRMapping inner = mappingFor(op.getBody());
        for (auto [input, argument] : llvm::zip(op.getInputs(), op.getBody().getArguments()))
          if (Value column = ofColumn.lookup(argument))
            inner.map(argument, column);
          else if (isNeeded(argument))
            inner.map(argument, inputElement(op, input, i, r, j, c));
        mapCoordinates(op, inner, i, r, j, c);
        for (Operation &nested : body->without_terminator())
          if (needed.contains(&nested))
            cloneAlone(nested, inner);
        for (Operation *condition : large) {
          Value bit = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), inner.lookup(condition->getResult(0)));
          setBit(bit, opened[condition], buffer, i, r, j, c);
        }
      });
    });
  }
  conditionWords.insert(opened.begin(), opened.end());
  markInWords(*body);
}

void MapElements::setBit(Value bit, Value words, Value buffer, Value i, Value r, Value j, Value c) {
  const SmallVector<Value> at = wordAt(buffer, i, r, j);
  Value shifted = arith::ShLIOp::create(builder, loc, bit, bitInWord(buffer, j, c));
  set(arith::OrIOp::create(builder, loc, get(words, at), shifted), words, at);
}

Value MapElements::testBit(Operation *condition, Value words, Value buffer, Value i, Value r, Value j, Value c) {
  return sched::TestBitOp::create(builder, condition->getLoc(), builder.getI1Type(),
                                  get(words, wordAt(buffer, i, r, j)), bitInWord(buffer, j, c));
}

void MapElements::markInWords(Block &body) {
  for (Operation &nested : llvm::reverse(body.without_terminator())) {
    auto isServed = [&](Operation *user) {
      Operation *own = body.findAncestorOpInBlock(*user);
      return conditionWords.contains(own) || inWords.contains(own);
    };
    if (!conditionWords.contains(&nested) && isMemoryEffectFree(&nested) && llvm::all_of(nested.getUsers(), isServed))
      inWords.insert(&nested);
  }
}

} // namespace attune::expansion
