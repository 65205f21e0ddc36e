//===- VerifySchedule.cpp - Check the forms of IR between tile and sched -----------------===//
//
// Each row of the table is a form of the IR, the pass that establishes the form, and rules on which later passes rely:
//
//     form      after                          rules
//     --------  -----------------------------  ------------------------------------------------------------
//     layouts   tile-assign-layouts            register tiles are fragments; shared operands of products are
//                                              swizzled
//     copies    tile-pipeline-copies,          shared tiles are stages of rings: no load to shared memory
//               tile-specialize-warps          and no loop over a domain is left; one role fills a ring's
//                                              stages and a role waits for them; a ring that is
//                                              acquired is released
//     stages    tile-pipeline-stages           no op has a `sched.at`; a wait completes an asynchronous
//                                              product before any op reads it or reuses its registers; the
//                                              wait's pending count is the number of products started later
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/dataflow/BlockDependences.h"
#include "passes/sched/pipeline/Stages.h"

namespace attune {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

LogicalResult verifyLayout(Operation *op, Value value) {
  auto type = dyn_cast<TileType>(value.getType());
  if (!type || type.getSpace() != tile::MemorySpace::Register || isa_and_nonnull<sched::FragmentAttr>(type.getLayout()))
    return success();
  return op->emitOpError() << "has a register tile without a fragment layout: " << type;
}

LogicalResult verifyLayouts(Operation *op) {
  for (Value result : op->getResults())
    if (failed(verifyLayout(op, result)))
      return failure();
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Value argument : block.getArguments())
        if (failed(verifyLayout(op, argument)))
          return failure();
  if (auto mma = dyn_cast<tile::MmaOp>(op))
    for (Value operand : {mma.getLhs(), mma.getRhs()})
      if (auto type = cast<TileType>(operand.getType());
          type.getSpace() == tile::MemorySpace::Shared && !isa_and_nonnull<sched::SwizzleAttr>(type.getLayout()))
        return op->emitOpError() << "reads shared memory without a swizzle: " << type;
  return success();
}

LogicalResult verifyCopies(Operation *op) {
  if (auto load = dyn_cast<tile::LoadOp>(op); load && isCopied(load))
    return op->emitOpError("loads to shared memory, which copies into rings have taken the place of");
  if (isa<tile::ForBlocksOp, tile::DomainOp>(op))
    return op->emitOpError("goes over a domain, which indices of tiles have taken the place of");
  auto ring = dyn_cast<sched::RingOp>(op);
  if (!ring)
    return success();
  llvm::SmallDenseSet<Operation *> filling, waiting;
  bool acquires = false, releases = false;
  for (Operation *user : ring.getResult().getUsers()) {
    Operation *role = user->getParentOfType<sched::RoleOp>();
    if (isa<sched::AcquireOp, sched::CommitOp, sched::CopyTileOp, sched::CopyWindowOp>(user))
      filling.insert(role);
    else if (isa<sched::WaitOp>(user) && role) // producer warps that receive another warp's messages wait, too
      waiting.insert(role);
    acquires |= isa<sched::AcquireOp>(user);
    releases |= isa<sched::ReleaseOp>(user);
  }
  if (filling.size() != 1 || waiting.empty())
    return op->emitOpError() << "is filled by " << filling.size() << " roles and awaited by " << waiting.size()
                             << "; one fills a ring, and the same or another one waits for it";
  if (acquires != releases)
    return op->emitOpError() << "is " << (acquires ? "acquired" : "released") << ", but never "
                             << (acquires ? "released" : "acquired");
  return success();
}

/// The asynchronous products of an IR block that are in flight, in the order in which they started.
class Products {
public:
  LogicalResult verify(Block &block) {
    for (Operation &op : block) {
      if (failed(verify(&op)))
        return failure();
      if (auto product = dyn_cast<tile::MmaOp>(op); product && product->hasAttr(sched::asyncAttr))
        underWay.push_back(product);
    }
    return success();
  }

private:
  LogicalResult verify(Operation *op) {
    if (op->hasAttr(sched::atAttr))
      return op->emitOpError("says when it runs, which the order of ops says by now");
    if (auto wait = dyn_cast<sched::MmaWaitOp>(op))
      return complete(wait);
    const bool leaves = op->hasTrait<OpTrait::IsTerminator>() || isa<sched::ForTilesOp>(op);
    const llvm::SetVector<Value> read = BlockDependences::readBy(op);
    for (tile::MmaOp product : underWay) {
      const bool reads = read.contains(product.getResult());
      if (leaves || reads || pipeline::overwrites(op, product.getLhs())) {
        InFlightDiagnostic error = op->emitOpError();
        error << (leaves  ? "is reached while a product is under way"
                  : reads ? "reads a product that is under way"
                          : "gives the next value of the left operand of a product that is under way")
              << "; sched.mma_wait must stand between";
        error.attachNote(product.getLoc()) << "the product";
        return failure();
      }
    }
    return success();
  }

  LogicalResult complete(sched::MmaWaitOp wait) {
    auto last = underWay.begin();
    for (auto each = underWay.begin(); each != underWay.end(); ++each)
      if (llvm::is_contained(wait.getCompletes(), each->getResult()))
        last = std::next(each);
    const int64_t behind = underWay.end() - last;
    if (last != underWay.begin() && behind != int64_t(wait.getPending()))
      return wait.emitOpError() << "leaves " << wait.getPending() << " products under way, but " << behind
                                << " were started after the last that it completes";
    underWay.erase(underWay.begin(), last);
    return success();
  }

  SmallVector<tile::MmaOp> underWay;
};

struct VerifySchedule : attune::impl::VerifyScheduleBase<VerifySchedule> {
  using VerifyScheduleBase::VerifyScheduleBase;

  void runOnOperation() override {
    if (form != "layouts" && form != "copies" && form != "stages") {
      getOperation().emitError() << "form '" << form << "' is not one of layouts, copies, stages";
      return signalPassFailure();
    }
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      WalkResult result = kernel.walk([&](Operation *op) {
        const LogicalResult holds = form == "layouts"  ? verifyLayouts(op)
                                    : form == "copies" ? verifyCopies(op)
                                                       : success();
        return failed(holds) ? WalkResult::interrupt() : WalkResult::advance();
      });
      if (form == "stages" && !result.wasInterrupted())
        result = kernel.walk([](sched::RoleOp role) {
          return role.walk([](Block *block) {
            return failed(Products().verify(*block)) ? WalkResult::interrupt() : WalkResult::advance();
          });
        });
      if (result.wasInterrupted())
        return signalPassFailure();
    }
  }
};

} // namespace
