//===- Events.cpp - Ops that synchronise or access shared memory -------------===//

#include "passes/analysis/synchronization/Events.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune;
using namespace attune::synchronization;

bool synchronization::isControl(Operation *op) {
  return isa<sched::RoleOp, sched::ForWorkOp, sched::ForTilesOp, scf::ForOp, scf::IfOp>(op);
}

bool synchronization::isEvent(Operation *op) { return actionOf(op) != Action::End; }

bool synchronization::synchronises(Operation *loop) {
  auto found = loop->walk([](Operation *op) {
    const Action action = actionOf(op);
    return action == Action::End || action == Action::Copy || action == Action::Read || action == Action::Write ||
                   action == Action::Multiply
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  return found.wasInterrupted();
}

Action synchronization::actionOf(Operation *op) {
  return TypeSwitch<Operation *, Action>(op)
      .Case([](sched::InitRingOp) { return Action::InitRing; })
      .Case([](sched::FenceInitOp) { return Action::FenceInit; })
      .Case([](sched::AcquireOp) { return Action::Acquire; })
      .Case([](sched::WaitOp) { return Action::Wait; })
      .Case([](sched::ExpectBytesOp) { return Action::ExpectBytes; })
      .Case([](sched::CommitOp) { return Action::Commit; })
      .Case([](sched::ReleaseOp) { return Action::Release; })
      .Case([](sched::BarrierOp) { return Action::Barrier; })
      .Case([](sched::SyncLanesOp) { return Action::SyncLanes; })
      .Case([](sched::SyncWarpsOp) { return Action::SyncWarps; })
      .Case([](sched::ArriveWarpsOp) { return Action::ArriveWarps; })
      .Case([](sched::SendOp) { return Action::Send; })
      .Case([](sched::ReceiveOp) { return Action::Receive; })
      .Case([](sched::LoadBoxOp) { return Action::LoadBox; })
      .Case([](sched::StoreBoxOp) { return Action::StoreBox; })
      .Case([](sched::AddRowsOp) { return Action::AddRows; })
      .Case([](sched::CommitBoxesOp) { return Action::CommitBoxes; })
      .Case([](sched::WaitBoxesOp) { return Action::WaitBoxes; })
      .Case([](sched::FenceAsyncOp) { return Action::FenceAsync; })
      .Case<sched::LoadMatrixOp, sched::LoadSharedOp, sched::LoadPairOp, sched::CopyToGlobalOp>(
          [](auto) { return Action::Read; })
      .Case<sched::StoreSharedOp, sched::StoreMatrixOp, sched::ScaleSharedOp>([](auto) { return Action::Write; })
      .Case([](sched::CopyAsyncOp) { return Action::Copy; })
      .Case([](sched::CommitCopiesOp) { return Action::CommitCopies; })
      .Case([](sched::WaitCopiesOp) { return Action::WaitCopies; })
      .Case([](sched::MmaAsyncOp) { return Action::Multiply; })
      .Case([](sched::MmaFenceOp) { return Action::MmaFence; })
      .Case([](sched::MmaCommitOp) { return Action::MmaCommit; })
      .Case([](sched::MmaWaitOp) { return Action::MmaWait; })
      .Default(Action::End);
}

SmallVector<EventValue, 4> synchronization::valuesOf(Operation *event) {
  using Values = SmallVector<EventValue, 4>;
  return TypeSwitch<Operation *, Values>(event)
      .Case<sched::AcquireOp, sched::WaitOp>([](auto op) { return Values{{op.getStage()}, {op.getPhase()}}; })
      .Case<sched::ExpectBytesOp, sched::CommitOp, sched::ReleaseOp, sched::ReceiveOp>(
          [](auto op) { return Values{{op.getStage()}}; })
      .Case([](sched::LoadBoxOp op) { return Values{{op.getStage()}, {op.getBatch()}, {op.getHead()}, {op.getRow()}}; })
      .Case<sched::SyncWarpsOp, sched::ArriveWarpsOp>([](auto op) { return Values{{op.getId()}}; })
      .Case([](sched::SendOp op) {
        Values values{{op.getStage()}};
        for (Value field : op.getValues())
          values.push_back({field});
        return values;
      })
      .Case([](sched::StoreBoxOp op) {
        Value column = op.getTensorColumn() ? op.getTensorColumn() : op.getColumn();
        return Values{{op.getStage()}, {op.getSharedRow()}, {op.getBatch()}, {op.getHead()}, {op.getRow()}, {column}};
      })
      .Case<sched::LoadMatrixOp, sched::LoadSharedOp, sched::StoreSharedOp, sched::StoreMatrixOp>(
          [](auto op) { return Values{{op.getStage()}, {op.getRow(), true}, {op.getRowStep(), true}}; })
      .Case<sched::LoadPairOp, sched::ScaleSharedOp, sched::CopyAsyncOp>(
          [](auto op) { return Values{{op.getStage()}, {op.getRow(), true}}; })
      .Case([](sched::AddRowsOp op) { return Values{{op.getStage()}, {op.getRow()}}; })
      .Case([](sched::CopyToGlobalOp op) { return Values{{Value()}, {op.getRow(), true}}; })
      .Case([](sched::MmaAsyncOp op) {
        Values values{{op.getStage()}};
        if (op.getAIndices().size() == 3)
          values.append({{op.getAIndices()[0]}, {op.getAIndices()[1]}});
        return values;
      })
      .Default(Values());
}

int64_t synchronization::numberOf(Operation *event) {
  return TypeSwitch<Operation *, int64_t>(event)
      .Case([](sched::ExpectBytesOp op) { return op.getBytes(); })
      .Case([](sched::ReleaseOp op) { return op.getByLanes() ? 32 : 1; })
      .Case([](sched::CommitOp op) { return op.getByWarp() ? 1 : 0; }) // 0: each active lane arrives
      .Case<sched::SyncWarpsOp, sched::ArriveWarpsOp>([](auto op) { return op.getThreads(); })
      .Case<sched::MmaWaitOp, sched::WaitBoxesOp, sched::WaitCopiesOp>([](auto op) { return op.getPending(); })
      .Case([](sched::LoadBoxOp op) {
        sched::TensorMapType map = op.getMap().getType();
        return map.getRows() * map.getColumns() * map.getElementType().getIntOrFloatBitWidth() / 8;
      })
      .Case([](sched::StoreBoxOp op) { return op.getMap().getType().getRows(); })
      .Case([](sched::AddRowsOp op) { return op.getRows(); })
      .Default([](Operation *) { return 0; });
}

Value synchronization::ringOf(Operation *event) {
  return TypeSwitch<Operation *, Value>(event)
      .Case<sched::InitRingOp, sched::AcquireOp, sched::WaitOp, sched::ExpectBytesOp, sched::CommitOp, sched::ReleaseOp,
            sched::LoadBoxOp>([](auto op) { return op.getRing(); })
      .Default(Value());
}

Value synchronization::sharedOf(Operation *event) {
  return TypeSwitch<Operation *, Value>(event)
      .Case<sched::SendOp, sched::ReceiveOp, sched::LoadBoxOp, sched::StoreBoxOp, sched::AddRowsOp, sched::LoadMatrixOp,
            sched::LoadSharedOp, sched::LoadPairOp, sched::StoreSharedOp, sched::StoreMatrixOp, sched::ScaleSharedOp,
            sched::CopyToGlobalOp, sched::CopyAsyncOp>([](auto op) { return op.getShared(); })
      .Case([](sched::MmaAsyncOp op) { return op.getB(); })
      .Default(Value());
}
