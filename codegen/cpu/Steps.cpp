//===- Steps.cpp - Grouping the ops of an IR block into steps -------------===//

#include "codegen/cpu/Lowering.h"

namespace attune::cpu {

/// Whether all operands of `op` that are defined in the same IR block are results of ops in `done` or `also`.
static bool isReady(Operation *op, const DenseSet<Operation *> &done, const DenseSet<Operation *> &also) {
  bool good = true;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || def->getBlock() != op->getBlock() || done.contains(def))
        continue;
      if (!also.contains(def))
        good = false;
    }
  });
  return good;
}

SmallVector<Step> Lowering::schedule(Block &block) {
  SmallVector<Step> steps;
  DenseSet<Operation *> done;
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (!isa<tile::YieldOp>(op))
      ops.push_back(&op);
  for (size_t i = 0; i < ops.size(); ++i) {
    Operation *first = ops[i];
    if (done.contains(first))
      continue;
    if (deferred.contains(first)) {
      // This map rescales the accumulator of a product, and the lowering of that product evaluates the map.
      done.insert(first);
      continue;
    }
    if (!isElementwise(first)) {
      done.insert(first);
      steps.push_back({{first}, false});
      continue;
    }
    Step group{{first}, true};
    TileType type = visitedType(first);
    DenseSet<Operation *> elements; // ops of the group whose results are read element by element: all but reductions
    auto join = [&](Operation *op) {
      if (!isa<ReduceOp>(op))
        elements.insert(op);
    };
    join(first);
    for (size_t j = i + 1; j < ops.size(); ++j) {
      Operation *op = ops[j];
      if (done.contains(op) || deferred.contains(op))
        continue;
      bool elementwise = isElementwise(op);
      if (elementwise && sameAxes(visitedType(op), type) && isReady(op, done, elements)) {
        group.ops.push_back(op);
        join(op);
        continue;
      }
      // `op` is a scalar op or an element-wise op on a one-axis tile, and does not depend on the group that is being
      // formed. Schedule `op` before the group, so that later ops that need its result can join the group.
      bool small = mlir::isPure(op) && (op->getResultTypes().empty() || !isa<TileType>(op->getResult(0).getType()) ||
                                        (elementwise && visitedType(op).rank() == 1));
      if (small && type.rank() == 2 && op->getNumResults() == 1 && isReady(op, done, {})) {
        done.insert(op);
        steps.push_back({{op}, elementwise});
      }
    }
    done.insert(group.ops.begin(), group.ops.end());
    steps.push_back(std::move(group));
  }
  return steps;
}

bool Lowering::sameAxes(TileType a, TileType b) {
  if (a.rank() != b.rank())
    return false;
  for (unsigned i = 0; i < a.rank(); ++i)
    if (!b.hasAxis(a.axis(i)) || b.size(a.axis(i)) != a.getShape()[i])
      return false;
  return true;
}

void Lowering::findDeferred(Block &block) {
  for (Operation &op : block) {
    auto mma = dyn_cast<MmaOp>(op);
    if (!mma || !mma.getAcc())
      continue;
    auto map = mma.getAcc().getDefiningOp<MapOp>();
    if (map && map->getBlock() == &block && map->hasOneUse() && orderOf(map.getType()) == orderOf(mma.getType()))
      deferred.insert(map);
  }
}

void Lowering::lowerBlock(Block &block) {
  findDeferred(block);
  SmallVector<Step> steps = schedule(block);
  // Find the last step that reads each tile of this IR block, after which the tile's memory is free.
  DenseMap<Operation *, size_t> position;
  for (auto [i, step] : llvm::enumerate(steps))
    for (Operation *op : step.ops)
      position[op] = i;
  auto lastUse = [&](Value value) {
    size_t last = 0;
    SmallVector<Operation *> users(value.getUsers());
    while (!users.empty()) {
      Operation *user = ancestorIn(&block, users.pop_back_val());
      if (deferred.contains(user))
        user = *user->getUsers().begin();
      last = std::max(last, isa<tile::YieldOp>(user) ? steps.size() : position.lookup(user));
    }
    return last;
  };
  std::vector<SmallVector<Value>> dying(steps.size() + 1);
  for (Operation &op : block)
    for (Value result : op.getResults())
      if (isa<TileType>(result.getType())) {
        size_t last = lastUse(result);
        if (position.contains(&op))
          last = std::max(last, position[&op]);
        dying[last].push_back(result);
      }
  for (size_t i = 0; i < steps.size(); ++i) {
    // Where this step is the last to read a loop-carried tile and computes the tile's value for the next iteration, the
    // step may write that value to the carried tile's memory.
    SmallVector<std::pair<Value, Value>> reusable;
    if (auto loop = dyn_cast<ForBlocksOp>(block.getParentOp()))
      for (auto [carried, next] : llvm::zip(loop.getCarried(), loop.getYield().getValues()))
        if (isa<TileType>(carried.getType()) && next.getDefiningOp() && position.contains(next.getDefiningOp()) &&
            position[next.getDefiningOp()] == i && lastUse(carried) <= i && next != carried)
          reusable.push_back({next, carried});
    target.clear();
    for (auto [next, carried] : reusable)
      if (!target.contains(next) && overwrites(steps[i], next, carried))
        target[next] = carried;
    dyingNow = dying[i];
    moved.clear();
    lowerStep(steps[i]);
    for (auto [value, order] : std::exchange(moved, {}))
      storage[value].offset[order] = -1;
    for (Value value : dying[i])
      release(value);
  }
}

bool Lowering::overwrites(const Step &step, Value next, Value carried) {
  auto type = cast<TileType>(carried.getType());
  if (cast<TileType>(next.getType()) != type || (needed.lookup(next) & ~(1u << orderOf(type))))
    return false;
  for (Operation *op : step.ops) {
    if (!isElementwise(op) && !isa<MmaOp>(op))
      return false;
    if (auto mma = dyn_cast<MmaOp>(op))
      if (mma.getLhs() == carried || mma.getRhs() == carried)
        return false;
    // A loop nest over two axes reads a one-axis tile again at every position along the axis that the tile lacks. Only
    // a reduction whose result is stored after the inner loop may overwrite such a tile.
    if (isElementwise(op) && visitedType(op).rank() == 2 && type.rank() == 1) {
      if (!isa<ReduceOp>(next.getDefiningOp()))
        return false;
      auto reduce = cast<ReduceOp>(next.getDefiningOp());
      TileType visited = reduce.getTile().getType();
      if (visited.axis(innerAxis(visited)) == reduce.getAxis())
        return false;
    }
  }
  if (auto mma = next.getDefiningOp<MmaOp>())
    if (MapOp map = scalingOf(mma))
      for (Value input : map.getInputs())
        if (input == carried && type.rank() != 2)
          return false;
  return true;
}

void Lowering::lowerStep(const Step &step) {
  taken.clear();
  if (step.isGroup)
    return lowerGroup(step.ops);
  Operation *op = step.ops.front();
  if (isa<DomainOp>(op))
    return;
  else if (auto load = dyn_cast<tile::LoadOp>(op))
    lowerLoad(load);
  else if (auto store = dyn_cast<tile::StoreOp>(op))
    lowerStore(store, store.getTile(), store.getView(), store.getIndices(), store.getLimit(), store.getOptional(),
               false);
  else if (auto accumulate = dyn_cast<AccumulateOp>(op))
    lowerStore(accumulate, accumulate.getTile(), accumulate.getView(), accumulate.getIndices(), accumulate.getLimit(),
               false, true);
  else if (auto scatter = dyn_cast<ScatterOp>(op))
    lowerScatter(scatter);
  else if (auto sum = dyn_cast<SumDiagonalsOp>(op))
    lowerSumDiagonals(sum);
  else if (auto load = dyn_cast<LoadBlocksOp>(op))
    lowerLoadBlocks(load);
  else if (auto store = dyn_cast<StoreBlocksOp>(op))
    lowerStoreBlocks(store);
  else if (auto mma = dyn_cast<MmaOp>(op))
    lowerMma(mma);
  else if (auto loop = dyn_cast<ForBlocksOp>(op))
    lowerForBlocks(loop);
  else if (auto any = dyn_cast<AnyOp>(op))
    lowerAny(any);
  else if (auto bits = dyn_cast<BitsOp>(op))
    lowerBits(bits);
  else
    lowerScalarOp(op);
}

} // namespace attune::cpu
