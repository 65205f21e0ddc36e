//===- BlockLoops.cpp - Lowering loops over the tiles of a domain ---------===//

#include "codegen/cpu/Lowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace attune::cpu {

void Lowering::lowerForBlocks(ForBlocksOp op) {
  auto domain = op.getDomain().getDefiningOp<DomainOp>();
  if (!domain)
    return fail(op, "its domain is not a tile.domain");
  // Each loop-carried tile has its own scratch memory; loop-carried scalars are iter_args of the scf loops.
  SmallVector<Value> scalars;
  SmallVector<unsigned> scalarIndex;
  for (auto [i, init] : llvm::enumerate(op.getInits())) {
    auto type = dyn_cast<TileType>(init.getType());
    if (!type) {
      scalars.push_back(lookup(init));
      scalarIndex.push_back(i);
      continue;
    }
    carryTile(op, i);
  }

  SmallVector<Value> results = domain.getTimes()
                                   ? loop(constI64(0), toI64(lookup(domain.getTimes())), constI64(1), scalars,
                                          [&](Value iteration, ValueRange outer) {
                                            values[op.getIteration()] = arith::TruncIOp::create(b, i32, iteration);
                                            return lowerSegments(op, domain, outer, scalarIndex);
                                          })
                                   : lowerSegments(op, domain, scalars, scalarIndex);
  for (auto [i, index] : llvm::enumerate(scalarIndex))
    values[op.getResult(index)] = results[i];
  for (auto [result, carried] : llvm::zip(op.getResults(), op.getCarried()))
    if (auto type = dyn_cast<TileType>(result.getType())) {
      Order order = type.rank() == 1 ? Listed : orderOf(type);
      define(result, storage.find(carried)->second.offset[order], order);
    }
}

SmallVector<Value> Lowering::lowerSegments(ForBlocksOp op, DomainOp domain, ValueRange scalars,
                                           ArrayRef<unsigned> scalarIndex) {
  size_t count = domain.getBegins().size();
  auto pick = [&](Value segment, function_ref<Value(size_t)> value) {
    Value picked = value(0);
    for (size_t i = 1; i < count; ++i)
      picked = select(compare(arith::CmpIPredicate::eq, segment, constI64(i)), value(i), picked);
    return picked;
  };
  SmallVector<Value> begins, ends;
  for (auto [begin, end] : llvm::zip(domain.getBegins(), domain.getEnds())) {
    begins.push_back(toI64(lookup(begin)));
    ends.push_back(toI64(lookup(end)));
  }
  return loop(int64_t(count), 1, scalars, [&](Value counter, ValueRange outer) {
    Value segment = domain.getReverse() ? Value(arith::SubIOp::create(b, constI64(count - 1), counter)) : counter;
    Value begin = pick(segment, [&](size_t i) { return begins[i]; });
    Value end = pick(segment, [&](size_t i) { return ends[i]; });
    Value partial = pick(
        segment, [&](size_t i) -> Value { return arith::ConstantOp::create(b, b.getBoolAttr(!domain.getFull()[i])); });
    return loop(begin, end, constI64(1), outer, [&](Value n, ValueRange inner) {
      if (domain.getReverse())
        n = arith::SubIOp::create(b, arith::SubIOp::create(b, add(begin, end), constI64(1)), n);
      Value first = arith::TruncIOp::create(b, i32, mul(n, constI64(domain.getStep())));
      if (domain.getWhere().empty())
        return lowerIteration(op, first, partial, inner, scalarIndex);
      return lowerVisited(op, domain, n, first, partial, inner, scalarIndex);
    });
  });
}

void Lowering::carryTile(ForBlocksOp op, unsigned i) {
  Value init = op.getInits()[i];
  auto type = cast<TileType>(init.getType());
  Order order = type.rank() == 1 ? Listed : orderOf(type);
  int64_t from = ensure(init, order), to;
  auto found = storage.find(init);
  bool repeated = llvm::count_if(init.getUses(), [&](OpOperand &use) { return op->isAncestor(use.getOwner()); }) > 1;
  if (found->second.owned && llvm::is_contained(dyingNow, init) && !repeated && from >= 0) {
    to = std::exchange(found->second.offset[order], -1);
  } else {
    to = allocate(bytesOf(type));
    copy(from, to, bytesOf(type));
  }
  Storage carried;
  carried.type = type;
  carried.owned = false;
  carried.offset[order] = to;
  storage[op.getCarried()[i]] = carried;
}

SmallVector<Value> Lowering::lowerVisited(ForBlocksOp op, DomainOp domain, Value n, Value first, Value partial,
                                          ValueRange inner, ArrayRef<unsigned> scalarIndex) {
  values[domain.getWhere().getArgument(0)] = arith::TruncIOp::create(b, i32, n);
  if (domain.getWhere().getNumArguments() > 1)
    values[domain.getWhere().getArgument(1)] = lookup(op.getIteration());
  for (Operation &asked : domain.getWhere().front().without_terminator())
    lowerScalarOp(&asked);
  Value mixed =
      arith::XOrIOp::create(b, lookup(domain.getFullWhere()), arith::ConstantOp::create(b, b.getBoolAttr(true)));
  partial = arith::OrIOp::create(b, partial, mixed);
  auto visit = scf::IfOp::create(b, inner.getTypes(), lookup(domain.getVisible()), !inner.empty());
  OpBuilder::InsertionGuard guard(b);
  if (inner.empty()) {
    b.setInsertionPoint(visit.thenBlock()->getTerminator());
    lowerIteration(op, first, partial, inner, scalarIndex);
  } else {
    b.setInsertionPointToStart(visit.thenBlock());
    scf::YieldOp::create(b, lowerIteration(op, first, partial, inner, scalarIndex));
    b.setInsertionPointToStart(visit.elseBlock());
    scf::YieldOp::create(b, inner);
  }
  return llvm::to_vector(ValueRange(visit.getResults()));
}

SmallVector<Value> Lowering::lowerIteration(ForBlocksOp op, Value first, Value partial, ValueRange scalars,
                                            ArrayRef<unsigned> scalarIndex) {
  values[op.getOrigin()] = first;
  values[op.getPartial()] = partial;
  for (auto [i, index] : llvm::enumerate(scalarIndex))
    values[op.getCarried()[index]] = scalars[i];
  // A carried tile is stored in the memory order orderOf(type). Where the loop body also reads the tile in the other
  // order, make a transposed copy, which is freed at the end of the body.
  SmallVector<std::pair<Value, Order>> extra;
  for (Value carried : op.getCarried())
    if (auto type = dyn_cast<TileType>(carried.getType()); type && type.rank() == 2)
      if (Order other = Order(1 - orderOf(type)); needed.lookup(carried) & (1u << other)) {
        ensure(carried, other);
        extra.push_back({carried, other});
      }
  SmallVector<Value> saved = dyingNow;
  SmallVector<std::pair<Value, Order>> savedMoved = moved;
  DenseMap<Value, Value> savedTarget = target;
  lowerBlock(op.getBody().front());
  dyingNow = saved;
  moved = savedMoved;
  target = savedTarget;

  SmallVector<Value> next = moveCarried(op);
  for (auto [carried, order] : extra) {
    Storage &tile = storage[carried];
    release(std::exchange(tile.offset[order], -1), bytesOf(tile.type));
  }
  llvm::SmallSetVector<Value, 8> yielded(op.getYield().getValues().begin(), op.getYield().getValues().end());
  for (Value value : yielded)
    if (value.getDefiningOp() && value.getDefiningOp()->getBlock() == &op.getBody().front())
      release(value);
  return next;
}

SmallVector<Value> Lowering::moveCarried(ForBlocksOp op) {
  struct Move {
    int64_t from, to, bytes, temporary;
  };
  SmallVector<Move> moves;
  SmallVector<Value> next;
  for (auto [carried, value] : llvm::zip(op.getCarried(), op.getYield().getValues())) {
    auto type = dyn_cast<TileType>(carried.getType());
    if (!type) {
      next.push_back(lookup(value));
      continue;
    }
    Order order = type.rank() == 1 ? Listed : orderOf(type);
    int64_t from = ensure(value, order), to = storage.find(carried)->second.offset[order];
    if (from != to)
      moves.push_back({from, to, bytesOf(type), -1});
  }
  for (Move &move : moves)
    if (llvm::any_of(moves, [&](const Move &other) { return other.to == move.from; })) {
      move.temporary = allocate(move.bytes);
      copy(move.from, move.temporary, move.bytes);
    }
  for (const Move &move : moves)
    copy(move.temporary >= 0 ? move.temporary : move.from, move.to, move.bytes);
  for (const Move &move : moves)
    if (move.temporary >= 0)
      release(move.temporary, move.bytes);
  return next;
}

} // namespace attune::cpu
