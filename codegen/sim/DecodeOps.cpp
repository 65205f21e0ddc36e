//===- DecodeOps.cpp - Translating ops other than control flow to steps ---===//

#include "codegen/sim/Decoder.h"

#include "codegen/sim/Apply.h"
#include "codegen/sim/Arithmetic.h"
#include "codegen/sim/Numbers.h"
#include "ir/tile/Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune;
using namespace attune::sim;

using Values = SmallVector<Value, 8>;

static Values all(std::initializer_list<Value> first, ValueRange rest) {
  Values values(first);
  llvm::append_range(values, rest);
  return values;
}

bool Decoder::declaration(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](sched::RoleOp o) { role(o); })
      .Case([&](sched::ForWorkOp o) { work(o); })
      .Case([&](sched::SharedOp o) { shared(o); })
      .Case([&](sched::RegistersOp o) { registers(o); })
      .Case([&](sched::RingOp o) { ring(o); })
      .Case([&](sched::TensorMapOp o) { tensorMap(o); })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

bool Decoder::valueOp(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case<sched::ThreadIdOp, sched::ReadThreadIdOp>([&](auto o) { emit(o, sim::threadId); })
      .Case([&](sched::ElectOp o) { emit(o, sim::elect); })
      .Case<sched::BlockIdOp, sched::ReadBlockIdOp>([&](auto o) { emit(o, sim::blockId); })
      .Case([&](sched::GridSizeOp o) { emit(o, sim::gridSize); })
      .Case<sched::OpaqueOp, sched::NonnegativeOp>(
          [&](auto o) { emit(o, sim::move, o.getValue()).number[0] = widthOf(o.getValue().getType()); })
      // Kernels are simulated one after the other, so the ops of programmatic dependent launch need no steps.
      .Case([&](sched::StartNextLaunchOp) {})
      .Case([&](sched::WaitLaunchOp) {})
      .Case([&](sched::ClaimWorkOp o) { emit(o, sim::claimWork); })
      .Case([&](sched::SendOp o) {
        emit(o, sim::sendMessage, all({o.getStage()}, o.getValues()), {sharedOf(o, o.getShared())});
      })
      .Case([&](sched::ReceiveOp o) {
        emit(o, sim::receiveMessage, o.getStage(), {sharedOf(o, o.getShared())}, {int64_t(o.getNumResults())});
      })
      .Case([&](sched::LaneIdOp o) { emit(o, sim::laneId); })
      .Case([&](sched::BallotOp o) { emit(o, sim::ballot, o.getCondition()); })
      .Case([&](sched::AnyLaneOp o) { emit(o, sim::anyLane, o.getCondition()); })
      .Case([&](sched::UniformOp o) { emit(o, sim::uniform, o.getValue()); })
      .Case([&](sched::ShuffleXorOp o) {
        if (o.getMask() >= uint64_t(lanes))
          return fail(opIndex(o), "reaches outside of the warp");
        emit(o, sim::shuffleXor, o.getValue(), {}, {int64_t(o.getMask()), widthOf(o.getType())});
      })
      .Case([&](sched::ShuffleOp o) { emit(o, sim::shuffle, {o.getValue(), o.getLane()}, {}, {widthOf(o.getType())}); })
      .Case([&](sched::PhiloxOp o) { emit(o, sim::philox, o->getOperands()); })
      .Case([&](sched::SplitTf32Op o) {
        emit(o, &apply<[](float x) { return int32_t(toTf32(x)); }, float>, o.getValue());
        Step &small =
            emit(o, &apply<[](float x) { return int32_t(toTf32(x - std::bit_cast<float>(toTf32(x)))); }, float>,
                 o.getValue());
        small.out[0] = small.out[1];
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

bool Decoder::elementOp(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](sched::GetOp o) { emit(o, sim::getElement, o.getIndices(), {registersOf(o, o.getBuffer())}); })
      .Case([&](sched::SetOp o) {
        emit(o, sim::setElement, all({o.getValue()}, o.getIndices()), {registersOf(o, o.getBuffer())});
      })
      .Case([&](sched::SliceOp o) {
        int from = viewOf(o, o.getView());
        if (error)
          return;
        emit(o, sim::slice, all({o.getView()}, o.getIndices().take_front(o.getDropped())), {from});
        sim::View result = {program->views[from].tensor, program->views[from].dropped + int(o.getDropped())};
        for (Value begin : o.getBegins())
          result.begins.push_back(slot(begin));
        view(o.getResult(), std::move(result));
      })
      .Case([&](sched::ExtentOp o) { emit(o, sim::extent, {}, {viewOf(o, o.getView())}, {int64_t(o.getDim())}); })
      .Case([&](sched::IsNullOp o) { emit(o, sim::isNull, {}, {viewOf(o, o.getView())}); })
      .Case([&](sched::InPairsOp o) { emit(o, sim::inPairs, {}, {viewOf(o, o.getView())}, {o.getEights() ? 8 : 2}); })
      .Case([&](tile::ElementOp o) {
        SmallVector<int64_t, 4> inRange(o.getInRange().begin(), o.getInRange().end());
        int wide = 0;
        for (auto [i, index] : llvm::enumerate(o.getIndices()))
          wide |= int(index.getType().isInteger(64)) << i;
        emit(o, sim::loadElement, all({o.getView()}, o.getIndices()), {viewOf(o, o.getView()), wide}, inRange);
      })
      .Case([&](tile::SearchOp o) {
        emit(o, sim::searchElements, {o.getView(), o.getX()}, {viewOf(o, o.getView())},
             {int64_t(o.getTiles().value_or(0))}, o.getRight());
      })
      .Case([&](sched::LoadElementsOp o) {
        emit(o, sim::loadElements, all({o.getView()}, o.getIndices()),
             {viewOf(o, o.getView()), int(o.getElements().size())});
      })
      .Case([&](sched::StoreElementOp o) {
        emit(o, sim::storeElement, all({o.getValue(), o.getView()}, o.getIndices()), {viewOf(o, o.getView())});
      })
      .Case([&](sched::StoreElementsOp o) {
        emit(o, sim::storeElements, Values(o->getOperands()), {viewOf(o, o.getView()), int(o.getValues().size())});
      })
      .Case([&](sched::StoreEightsOp o) {
        emit(o, sim::storeEights, Values(o->getOperands()), {viewOf(o, o.getView())});
      })
      .Case([&](sched::LoadByteOp o) {
        emit(o, sim::loadByte, all({o.getView()}, o.getIndices()), {viewOf(o, o.getView()), o.getPair() ? 2 : 1});
      })
      .Case([&](sched::StoreByteOp o) {
        emit(o, sim::storeByte, all({o.getValue(), o.getView()}, o.getIndices()), {viewOf(o, o.getView())});
      })
      .Case([&](sched::AddElementsOp o) {
        emit(o, sim::addElements, Values(o->getOperands()), {viewOf(o, o.getView()), int(o.getValues().size())});
      })
      .Case(
          [&](sched::AddIntegerOp o) { emit(o, sim::addInteger, Values(o->getOperands()), {viewOf(o, o.getView())}); })
      .Case([&](sched::CopyToGlobalOp o) {
        emit(o, sim::copyToGlobal, {o.getRow(), o.getColumn(), o.getView(), o.getViewRow()},
             {sharedOf(o, o.getShared()), viewOf(o, o.getView())});
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

bool Decoder::copyOp(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](sched::CopyAsyncOp o) {
        emit(o, sim::copyAsync, {o.getView(), o.getViewRow(), o.getColumn(), o.getStage(), o.getRow(), o.getValid()},
             {sharedOf(o, o.getShared()), viewOf(o, o.getView())}, {o.getBytes()});
      })
      .Case([&](sched::CommitCopiesOp o) { emit(o, sim::commitCopies); })
      .Case([&](sched::WaitCopiesOp o) { emit(o, sim::waitCopies, {}, {}, {int64_t(o.getPending())}); })
      .Case([&](sched::BarrierOp o) { emit(o, sim::barrier); })
      .Case([&](sched::InitRingOp o) { emit(o, sim::initRing, {}, {ringOf(o, o.getRing())}); })
      .Case([&](sched::FenceInitOp o) { emit(o, sim::fenceInit); })
      .Case([&](sched::AcquireOp o) { emit(o, sim::acquire, {o.getStage(), o.getPhase()}, {ringOf(o, o.getRing())}); })
      .Case([&](sched::WaitOp o) { emit(o, sim::wait, {o.getStage(), o.getPhase()}, {ringOf(o, o.getRing())}); })
      .Case([&](sched::ExpectBytesOp o) {
        emit(o, sim::expectBytes, o.getStage(), {ringOf(o, o.getRing())}, {int64_t(o.getBytes())});
      })
      .Case([&](sched::CommitOp o) { emit(o, sim::commit, o.getStage(), {ringOf(o, o.getRing())}, {o.getByWarp()}); })
      .Case([&](sched::ReleaseOp o) {
        emit(o, sim::release, o.getStage(), {ringOf(o, o.getRing())}, {o.getByLanes() ? 32 : 1});
      })
      .Case([&](sched::SyncLanesOp o) { emit(o, sim::syncLanes); })
      .Case([&](sched::SyncWarpsOp o) { emit(o, sim::syncWarps, o.getId(), {}, {int64_t(o.getThreads())}); })
      .Case([&](sched::ArriveWarpsOp o) { emit(o, sim::arriveWarps, o.getId(), {}, {int64_t(o.getThreads())}); })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

bool Decoder::boxOp(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](sched::LoadBoxOp o) {
        Value from = o.getTensorColumn() ? o.getTensorColumn() : o.getColumn();
        SmallVector<Value> at = {o.getBatch(), o.getHead(), o.getRow(), from, o.getStage(), o.getColumn()};
        if (o.getSharedRow())
          at.push_back(o.getSharedRow());
        if (o.getLimit())
          at.push_back(o.getLimit());
        emit(o, sim::loadBox, at, {mapOf(o, o.getMap()), sharedOf(o, o.getShared()), ringOf(o, o.getRing())},
             {bool(o.getLimit())});
      })
      .Case([&](sched::StoreBoxOp o) {
        Value to = o.getTensorColumn() ? o.getTensorColumn() : o.getColumn();
        SmallVector<Value> at = {o.getStage(), o.getSharedRow(), o.getBatch(), o.getHead(), o.getRow(),
                                 to,           o.getColumn()};
        if (o.getLimit())
          at.push_back(o.getLimit());
        emit(o, sim::storeBox, at, {mapOf(o, o.getMap()), sharedOf(o, o.getShared())}, {bool(o.getLimit())},
             o.getAdds());
      })
      .Case([&](sched::AddRowsOp o) {
        emit(o, sim::addRows, {o.getStage(), o.getRow(), o.getView(), o.getViewRow()},
             {sharedOf(o, o.getShared()), viewOf(o, o.getView())}, {int64_t(o.getRows())});
      })
      .Case([&](sched::CommitBoxesOp o) { emit(o, sim::commitBoxes); })
      .Case([&](sched::WaitBoxesOp o) { emit(o, sim::waitBoxes, {}, {}, {int64_t(o.getPending())}); })
      .Case([&](sched::FenceAsyncOp o) { emit(o, sim::fenceAsync); })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

template <typename Access> void Decoder::takeSteps(Step &step, Access op) {
  Slot zero = allocate(op.getStage().getType(), false);
  for (Value by : {op.getRowStep(), op.getColumnStep()})
    step.in[step.inputs++] = by ? slot(by) : zero;
}

bool Decoder::sharedOp(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](sched::LoadMatrixOp o) {
        Values in{o.getStage(), o.getRow(), o.getColumn()};
        Step &step = emit(o, sim::loadMatrix, in, {sharedOf(o, o.getShared()), registersOf(o, o.getFragment())}, {},
                          o.getTranspose());
        takeSteps(step, o);
        take(step, o.getI());
        take(step, o.getJ());
      })
      .Case([&](sched::LoadSharedOp o) {
        Step &step = emit(o, sim::loadShared, {o.getStage(), o.getRow(), o.getColumn()}, {sharedOf(o, o.getShared())});
        takeSteps(step, o);
      })
      .Case([&](sched::LoadPairOp o) {
        emit(o, sim::loadPair, {o.getStage(), o.getRow(), o.getColumn()}, {sharedOf(o, o.getShared())});
      })
      .Case([&](sched::StoreSharedOp o) {
        Step &step = emit(o, sim::storeShared, {o.getValue(), o.getStage(), o.getRow(), o.getColumn()},
                          {sharedOf(o, o.getShared())}, {o.getSecond() ? 2 : 1});
        takeSteps(step, o);
        if (o.getSecond())
          step.in[step.inputs++] = slot(o.getSecond());
      })
      .Case([&](sched::ScaleSharedOp o) {
        emit(o, sim::scaleShared, {o.getStage(), o.getRow(), o.getColumn()}, {sharedOf(o, o.getShared())},
             {int64_t(o.getExponent())});
      })
      .Case([&](sched::StoreMatrixOp o) {
        Step &step =
            emit(o, sim::storeMatrix,
                 {o.getFirst(), o.getSecond(), o.getThird(), o.getFourth(), o.getStage(), o.getRow(), o.getColumn()},
                 {sharedOf(o, o.getShared())}, {}, o.getTranspose());
        takeSteps(step, o);
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

bool Decoder::productOp(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](sched::MmaOp o) {
        emit(o, sim::mma, {o.getI(), o.getJ(), o.getAi(), o.getAj(), o.getBi(), o.getBj()},
             {registersOf(o, o.getAcc()), registersOf(o, o.getA()), registersOf(o, o.getB())});
      })
      .Case([&](sched::MmaAsyncOp o) {
        bool leftShared = o.getA().getType().getSpace() == tile::MemorySpace::Shared;
        emit(o, sim::mmaAsync, all({o.getStage(), o.getRow(), o.getColumn(), o.getAccumulate()}, o.getAIndices()),
             {registersOf(o, o.getAcc()), leftShared ? sharedOf(o, o.getA()) : registersOf(o, o.getA()),
              sharedOf(o, o.getB())},
             {leftShared, o.getTransposeLeft()}, o.getTranspose());
      })
      .Case([&](sched::MmaFenceOp o) { emit(o, sim::mmaFence); })
      .Case([&](sched::MmaCommitOp o) { emit(o, sim::mmaCommit); })
      .Case([&](sched::MmaWaitOp o) {
        emit(o, sim::mmaWait, {}, {}, {int64_t(o.getPending())});
        for (Value tile : o.getCompletes())
          emit(o, sim::mmaComplete, {}, {registersOf(o, tile)});
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

void Decoder::op(Operation *op) {
  if (auto o = dyn_cast<arith::ConstantOp>(op))
    return constant(o);
  if (auto o = dyn_cast<tile::ParamOp>(op))
    return parameter(o);
  if (auto o = dyn_cast<tile::AxisExtentOp>(op)) {
    program->parameters.push_back(
        {slot(o.getResult()), o.getAxis().str(), tile::findExtent(signature, o.getAxis()), Element::I32});
    return;
  }
  if (isa<scf::YieldOp, sched::NextOp>(op))
    return;
  if (auto o = dyn_cast<scf::IfOp>(op))
    return branch(o);
  if (auto o = dyn_cast<scf::ForOp>(op))
    return count(o);
  if (auto o = dyn_cast<sched::ForTilesOp>(op))
    return tiles(o);
  if (Run run = op->getNumResults() == 1 ? arithmetic(op) : nullptr) {
    emit(op, run, op->getOperands());
    return;
  }
  if (!declaration(op) && !valueOp(op) && !elementOp(op) && !copyOp(op) && !boxOp(op) && !sharedOp(op) &&
      !productOp(op))
    fail(opIndex(op), "cannot be simulated; the simulator runs what the scheduling passes leave at their end");
}
