//===- Lanes.cpp - Which values may differ between the lanes of a warp ----===//

#include "codegen/sim/Lanes.h"

using namespace mlir;
using namespace attune;
using namespace attune::sim;

/// The pairs (from, to) of values that a loop or branch copies into its block arguments and results.
static SmallVector<std::pair<Value, Value>> flowOf(Operation *op) {
  SmallVector<std::pair<Value, Value>> flow;
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    for (auto [init, argument, next, result] :
         llvm::zip(loop.getInitArgs(), loop.getRegionIterArgs(), loop.getYieldedValues(), loop.getResults()))
      flow.append({{init, argument}, {next, argument}, {argument, result}});
    flow.append({{loop.getLowerBound(), loop.getInductionVar()}, {loop.getStep(), loop.getInductionVar()}});
  } else if (auto tiles = dyn_cast<sched::ForTilesOp>(op)) {
    for (auto [i, init] : llvm::enumerate(tiles.getInits())) {
      Value argument = tiles.getBody().getArgument(i);
      flow.append({{init, argument}, {tiles.getNext().getValues()[i], argument}});
      if (tiles.getKeeps())
        flow.push_back({argument, tiles.getKept()[i]});
    }
  } else if (auto branch = dyn_cast<scf::IfOp>(op); branch && branch.getNumResults()) {
    for (auto [yes, no, result] :
         llvm::zip(branch.thenYield()->getOperands(), branch.elseYield()->getOperands(), branch.getResults()))
      flow.append({{yes, result}, {no, result}});
  } else if (auto work = dyn_cast<sched::ForWorkOp>(op); work && work.getNext()) {
    for (auto [init, next, argument] : llvm::zip(work.getInits(), work.getNextCarried(), work.getCarried()))
      flow.append({{init, argument}, {next, argument}});
  }
  return flow;
}

Lanes::Lanes(sched::KernelOp kernel) {
  for (size_t before = ~size_t(0); before != set.size();) {
    before = set.size();
    kernel.walk([&](Operation *op) { visit(op); });
  }
}

void Lanes::visit(Operation *op) {
  if (isa<sched::ThreadIdOp, sched::LaneIdOp, sched::ReadThreadIdOp, sched::ElectOp, sched::GetOp, sched::LoadSharedOp,
          sched::LoadPairOp, sched::ShuffleXorOp, sched::ShuffleOp, sched::ReceiveOp, sched::ClaimWorkOp>(op))
    return add(op->getResults());
  if (isa<sched::AnyLaneOp, sched::BallotOp, sched::UniformOp>(op))
    return;
  for (auto [from, to] : flowOf(op))
    if (set.contains(from))
      set.insert(to);
  bool varies = llvm::any_of(op->getOperands(), [&](Value operand) { return set.contains(operand); });
  if (op->getNumRegions() == 0) {
    if (varies)
      add(op->getResults());
    return;
  }
  // Where lanes leave a loop in different iterations or take different branches, all results of the loop or branch may
  // differ between lanes.
  Value control = isa<scf::IfOp>(op)           ? op->getOperand(0)
                  : isa<sched::ForTilesOp>(op) ? Value(cast<sched::ForTilesOp>(op).getBound())
                                               : Value();
  auto loop = dyn_cast<scf::ForOp>(op);
  bool byLane = (control && set.contains(control)) ||
                (loop && (set.contains(loop.getUpperBound()) || set.contains(loop.getInductionVar()))) ||
                (isa<sched::ForTilesOp>(op) && set.contains(op->getRegion(0).getArgument(0)));
  if (!byLane)
    return;
  for (auto [from, to] : flowOf(op))
    set.insert(to);
}
