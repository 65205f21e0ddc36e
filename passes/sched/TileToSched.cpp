//===- TileToSched.cpp - Expand tile ops into the instructions of a lane ------===//
//
// Register tiles become arrays of fragments, tile ops become loops over the fragments, and products become single
// matrix instructions (passes/sched/expand/KernelExpander.h).
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/sched/expand/KernelExpander.h"

namespace attune {
#define GEN_PASS_DEF_TILETOSCHED
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct TileToSched : attune::impl::TileToSchedBase<TileToSched> {
  using TileToSchedBase::TileToSchedBase;

  void runOnOperation() override {
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<tile::KernelOp>()))
      if (failed(expansion::KernelExpander(kernel, arch, sramBudget).run()))
        return signalPassFailure();
  }
};

} // namespace
