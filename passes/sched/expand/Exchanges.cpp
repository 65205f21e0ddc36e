//===- Exchanges.cpp - Exchange register tiles between lanes through shared memory -------------===//
//
// A register tile that other lanes or warps need goes through shared memory: all threads synchronise, the first holder
// of each element writes the element, all threads synchronise again and read.
//
//===----------------------------------------------------------------------===//

#include "arch/ArchInfo.h"
#include "passes/sched/expand/SharedTiles.h"

namespace attune::expansion {

/// Whether `op`, or an op nested in it, accesses shared memory or waits for accesses.
static bool touchesShared(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        const bool touches =
            isa<sched::LoadMatrixOp, sched::LoadSharedOp, sched::LoadPairOp, sched::StoreSharedOp, sched::StoreMatrixOp,
                sched::ScaleSharedOp, sched::CopyAsyncOp, sched::WaitCopiesOp, sched::CopyToGlobalOp, sched::AddRowsOp,
                sched::MmaAsyncOp, sched::MmaWaitOp, sched::BarrierOp>(inner);
        return touches ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The op directly before the builder's insertion point; null at the start of the IR block.
static Operation *opBefore(OpBuilder &builder) {
  Block *block = builder.getInsertionBlock();
  if (builder.getInsertionPoint() != block->end())
    return builder.getInsertionPoint()->getPrevNode();
  return block->empty() ? nullptr : &block->back();
}

void SharedTiles::synchronizeAll() {
  if (roleWarps)
    sched::SyncWarpsOp::create(builder, loc, i32(barriers::ofRole), 32 * roleWarps);
  else
    sched::BarrierOp::create(builder, loc);
}

void SharedTiles::synchronizeWarpgroup() { sched::SyncWarpsOp::create(builder, loc, warpgroupBarrier(), 128); }

/// Whether `op` is a barrier of all threads that exchange tiles.
static bool isBarrier(Operation *op) {
  if (auto sync = dyn_cast<sched::SyncWarpsOp>(op))
    return getConstantIntValue(sync.getId()) == barriers::ofRole;
  return isa<sched::BarrierOp>(op);
}

void SharedTiles::synchronize() {
  for (Operation *before = opBefore(builder); before; before = before->getPrevNode()) {
    if (isBarrier(before))
      return;
    if (touchesShared(before))
      break;
  }
  synchronizeAll();
}

void SharedTiles::waitForReaders() {
  OpBuilder::InsertionGuard guard(builder);
  while (auto branch = dyn_cast<scf::IfOp>(builder.getInsertionBlock()->getParentOp()))
    builder.setInsertionPoint(branch);
  for (Operation *before = opBefore(builder); before; before = before->getPrevNode()) {
    if (isBarrier(before))
      return;
    const bool reads = before
                           ->walk([](Operation *inner) {
                             return isa<sched::LoadMatrixOp, sched::LoadSharedOp, sched::LoadPairOp,
                                        sched::CopyToGlobalOp, sched::AddRowsOp>(inner)
                                        ? WalkResult::interrupt()
                                        : WalkResult::advance();
                           })
                           .wasInterrupted();
    if (reads) {
      synchronizeAll();
      return;
    }
  }
}

bool SharedTiles::addsByRows(Operation *op) {
  auto accumulate = dyn_cast<tile::AccumulateOp>(op);
  const ArchInfo *info = findArch(arch);
  if (!accumulate || !info || !info->vectorReductions)
    return false;
  TileType type = accumulate.getTile().getType();
  tile::OperandAttr operand = tile::operandOf(accumulate.getView());
  return type.rank() == 2 && type.getSpace() == MemorySpace::Shared && !type.getLayout() && operand.isTiled() &&
         operand.getColumns() == type.getShape()[1];
}

bool SharedTiles::isReadAsynchronously(Value tile) {
  return llvm::any_of(tile.getUsers(),
                      [&](Operation *user) { return addsByRows(user) || (specialized && isa<tile::MmaOp>(user)); });
}

LogicalResult SharedTiles::exchange(tile::ConvertOp op) {
  TileType from = op.getTile().getType(), to = op.getResult().getType();
  const bool fromShared = inShared(op.getTile()), toShared = inShared(op.getResult());
  if (op.getRelu())
    return op.emitError("makes negative floats 0 where it packs an `a` fragment; use a maximum with 0 in a map");
  if (fromShared && toShared)
    return op.emitError("copies from shared to shared memory; use the first tile");
  if (!toShared && to.getElementType() != (fromShared ? attn::valueType(from.getElementType()) : from.getElementType()))
    return op.emitError() << "rounds to " << to.getElementType()
                          << " in registers, where only what a product reads is rounded; keep f32";
  if (to.rank() == 1 && to.getElementType().getIntOrFloatBitWidth() != 32)
    return op.emitError("rounds a vector; keep f32");
  StringRef name = tile::nameOf(op.getTile());
  Value source = fromShared ? Value() : buffers.lookup(op.getTile()), shared;
  if (!fromShared && (from.getLayout() != to.getLayout() || from.getAxes() != to.getAxes())) {
    shared = exchangeBuffer(from, to.getElementType(), ((name.empty() ? "exchanged" : name) + "_tile").str());
    if (toShared && !to.getLayout()) // a vector, or rows for TMA's bulk reduction, are contiguous
      shared.setType(cast<TileType>(shared.getType()).withLayout({}));
    synchronize();
    writeToShared(source, shared, i32(0));
    if (isReadAsynchronously(op.getResult()))
      sched::FenceAsyncOp::create(builder, loc);
    synchronizeAll();
  }
  if (toShared) {
    exchanged[op.getResult()] = shared;
    return success();
  }
  Value buffer = newBuffer(op.getResult());
  buffers.map(op.getResult(), buffer);
  if (!fromShared && !shared) {
    copyBuffer(source, buffer);
    return success();
  }
  if (shared)
    exchanged[op.getTile()] = shared;
  forEachPlace(buffer, [&](Value i, Value r, Value j, Value c, SmallVector<Value> at) {
    set(sharedElement(op.getTile(), op.getResult(), i, r, j, c), buffer, at);
  });
  exchanged.erase(op.getTile());
  return success();
}

} // namespace attune::expansion
