//===- VerifySched.cpp - Check whole kernels at the end of sched ------------------------------------===//
//
// Checks that single ops cannot make: no op is left to expand, buffers that are alive at the same time do not overlap,
// each ring has a writer and a reader, and every access to shared memory is ordered after the accesses that it depends
// on (passes/analysis/synchronization/AccessOrder.h).
//
//===----------------------------------------------------------------------===//

#include "arch/ArchInfo.h"
#include "ir/NestedOps.h"
#include "ir/tile/Tile.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Dependences.h"
#include "passes/analysis/dataflow/Lifetimes.h"
#include "passes/analysis/synchronization/AccessOrder.h"

namespace attune {
#define GEN_PASS_DEF_VERIFYSCHED
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

/// A range of bytes of shared memory with the name of the buffer or ring that occupies it.
struct Bytes {
  StringRef name;
  int64_t begin, end;

  bool overlaps(const Bytes &other) const { return begin < other.end && other.begin < end; }
};

Diagnostic &operator<<(Diagnostic &diagnostic, const Bytes &bytes) {
  return diagnostic << bytes.name << " at bytes " << bytes.begin << " to " << bytes.end;
}

Bytes bytesOf(sched::SharedOp buffer) {
  int64_t begin = buffer.getOffset();
  return {buffer.getName(), begin, begin + buffer.getResult().getType().bytes()};
}

Bytes bytesOf(sched::RingOp ring) {
  int64_t begin = ring.getOffset();
  return {ring.getName(), begin, begin + ring.getResult().getType().bytes()};
}

LogicalResult verifyExpanded(Operation *op) {
  if (auto tiles = dyn_cast<sched::ForTilesOp>(op); tiles && !tiles.getTiles().empty())
    return op->emitOpError("carries tiles; at the end of sched they are buffers");
  bool known = isa<tile::ParamOp, tile::AxisExtentOp, tile::ElementOp, tile::SearchOp, tile::MulFiniteOp, scf::ForOp,
                   scf::IfOp, scf::YieldOp>(op) ||
               isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
               (isa<sched::SchedDialect>(op->getDialect()) &&
                !isa<sched::SlotOp, sched::CopyTileOp, sched::StoreTileOp, sched::WriteTileOp, sched::CopyWindowOp,
                     sched::NextVisibleOp, sched::VisibleOp, sched::KernelOp>(op));
  if (!known)
    return op->emitOpError(
        "is left; at the end of sched there are single instructions, loops and scalar arithmetic only");
  return success();
}

LogicalResult verifyPlaces(sched::KernelOp kernel) {
  SmallVector<sched::SharedOp> buffers;
  SmallVector<sched::RingOp> rings;
  kernel.walk([&](Operation *op) {
    if (auto buffer = dyn_cast<sched::SharedOp>(op))
      buffers.push_back(buffer);
    else if (auto ring = dyn_cast<sched::RingOp>(op))
      rings.push_back(ring);
  });
  for (auto [i, buffer] : llvm::enumerate(buffers))
    for (sched::SharedOp other : ArrayRef(buffers).take_front(i))
      if (bytesOf(buffer).overlaps(bytesOf(other)) && buffer.getOver() != other.getResult() &&
          Lifetime::of(buffer).meets(Lifetime::of(other)))
        return buffer.emitOpError() << bytesOf(buffer) << " overlaps " << bytesOf(other)
                                    << ", and both are alive at once";
  // The barriers of a ring are alive during the whole kernel, so they must not overlap any buffer.
  for (auto [i, ring] : llvm::enumerate(rings)) {
    Bytes bytes = bytesOf(ring);
    if (bytes.end > int64_t(kernel.getSharedBytes()))
      return ring.emitOpError() << bytes << " ends past shared_bytes " << kernel.getSharedBytes();
    for (sched::SharedOp buffer : buffers)
      if (bytes.overlaps(bytesOf(buffer)))
        return ring.emitOpError() << bytes << " overlaps " << bytesOf(buffer);
    for (sched::RingOp other : ArrayRef(rings).take_front(i))
      if (bytes.overlaps(bytesOf(other)))
        return ring.emitOpError() << bytes << " overlaps " << bytesOf(other);
  }
  return success();
}

/// Checks that no instruction of a whole warpgroup is in a branch whose condition is a vote of one warp: the warps of
/// the warpgroup could diverge there.
LogicalResult verifyTogether(Operation *op) {
  if (!isa<sched::MmaAsyncOp, sched::MmaFenceOp, sched::MmaCommitOp, sched::MmaWaitOp>(op))
    return success();
  for (auto branch = op->getParentOfType<scf::IfOp>(); branch; branch = branch->getParentOfType<scf::IfOp>())
    if (followsFrom(branch.getCondition(), llvm::IsaPred<sched::AnyLaneOp>))
      return op->emitOpError("is the warpgroup's, and stands in a branch on sched.any_lane, by which its warps may go "
                             "separate ways; move it in front of the branch");
  return success();
}

/// Checks that a ring has a writer and a reader. A ring that is filled only once needs no release.
LogicalResult verifySides(sched::RingOp ring) {
  bool filled = false, refilled = false, waitedFor = false, acquired = false, released = false;
  for (Operation *user : ring.getResult().getUsers()) {
    if (isa<sched::ExpectBytesOp, sched::CommitOp>(user)) {
      filled = true;
      auto work = user->getParentOfType<sched::ForWorkOp>();
      refilled |= user->getParentOfType<sched::ForTilesOp>() || user->getParentOfType<scf::ForOp>() ||
                  (work && work.getOrder() != sched::WorkOrder::Grid);
    }
    waitedFor |= isa<sched::WaitOp>(user);
    acquired |= isa<sched::AcquireOp>(user);
    released |= isa<sched::ReleaseOp>(user);
  }
  auto missing = [&](StringRef what) { return ring.emitOpError() << ring.getName() << " " << what; };
  if (!filled)
    return missing("is never filled; a role must commit or expect bytes on it");
  if (!waitedFor)
    return missing("is never read; a role must wait for it");
  if (refilled && !acquired)
    return missing("is filled in a loop without being acquired; its writer must wait until a stage is empty");
  if (acquired && !released)
    return missing("is acquired but never released; its readers must release what they have read");
  if (released && !acquired)
    return missing("is released but never acquired; its writer must wait until a stage is empty");
  return success();
}

LogicalResult verify(sched::KernelOp kernel) {
  LogicalResult result = success();
  kernel.getBody().walk([&](Operation *op) {
    if (succeeded(result))
      result = verifyExpanded(op);
    if (succeeded(result))
      result = verifyTogether(op);
    if (auto ring = dyn_cast<sched::RingOp>(op); ring && succeeded(result))
      result = verifySides(ring);
  });
  if (failed(result) || failed(verifyPlaces(kernel)))
    return failure();
  return verifyAccessOrder(kernel);
}

/// Checks the final size of shared memory, with alignment and the output's buffer, against `sramBudget` or, if
/// `sramBudget` is 0, against the architecture's limit per block. tile-verify counts the loaded tiles only.
LogicalResult verifyBudget(sched::KernelOp kernel, int64_t sramBudget) {
  const ArchInfo *info = findArch(kernel.getArch());
  const int64_t room = sramBudget ? sramBudget
                       : info     ? int64_t(info->sharedBytesPerBlock)
                                  : INT64_MAX,
                bytes = int64_t(kernel.getSharedBytes());
  if (bytes <= room)
    return success();
  return kernel.emitError() << "the schedule takes " << bytes << " bytes of shared memory, above "
                            << (sramBudget ? "the budget of " : "the limit per block of ") << room
                            << "; use smaller tiles or fewer stages";
}

struct VerifySched : attune::impl::VerifySchedBase<VerifySched> {
  using VerifySchedBase::VerifySchedBase;

  void runOnOperation() override {
    for (Operation &op : getOperation().getOps()) {
      if (isa<tile::LaunchOp>(op))
        continue;
      auto kernel = dyn_cast<sched::KernelOp>(op);
      if (!kernel) {
        op.emitOpError("is left; at the end of sched a module holds sched.kernel ops and a tile.launch only");
        return signalPassFailure();
      }
      if (failed(verify(kernel)) || failed(verifyBudget(kernel, sramBudget)))
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace
