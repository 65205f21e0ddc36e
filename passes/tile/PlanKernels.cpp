//===- PlanKernels.cpp - Choose warps, roles and ring depths of a kernel without a plan -------===//
//
// The text of a program gives the sizes of its tiles. Who computes the tiles is open where the kernel has no plan: how
// many warps, whether producer warps copy for warpgroups whose products are asynchronous, and how many stages the rings
// of its loops have. Example for a kernel of 64 x 64 tiles with three copies in its loop:
//
//     sm_80      4 warps, all of which copy and compute; rings of 2 stages
//     sm_90a     4 consumer warps and 4 producer warps; rings of 3 stages
//
// Warps follow from the rows of the products' results: 16 rows each. Producer warps are planned wherever the
// architecture has them, because copies and the other products then overlap with the arithmetic; tile-choose-path
// removes them from a program that cannot have them, and says why. Rings get as many stages as fit in shared memory, up
// to a limit that hides the latency of global memory.
//
//===----------------------------------------------------------------------===//

#include "arch/ArchInfo.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/copies/LiveTiles.h"

namespace attune {
#define GEN_PASS_DEF_PLANKERNELS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr int64_t rowsOfWarp = 16, warpsOfWarpgroup = 4;
/// The most stages of a ring. Producer warps run ahead of the consumers by all stages of a ring. Without producer warps
/// each further stage is a copy in flight while all warps compute, and shared memory that another thread block lacks.
constexpr int64_t mostStagesOfProducers = 3, mostStages = 2;

class KernelPlanner {
public:
  KernelPlanner(tile::KernelOp kernel, const ArchInfo &arch, int64_t budget)
      : kernel(kernel), arch(arch), budget(budget) {}

  void plan() {
    const int64_t rows = std::max(rowsOfWarp, mostRows());
    int64_t warps = arch.isCpu() ? 1 : std::clamp<int64_t>(rows / rowsOfWarp, 1, 16);
    const bool producers = arch.hasProducers() && rows == warps * rowsOfWarp && warps % warpsOfWarpgroup == 0 &&
                           (sizeOf("q", rows) == rows || sizeOf("k", rows) == rows);
    if (!producers) // each warp may hold several tiles of 16 rows
      while (warps > 8)
        warps /= 2;
    kernel.setPlanAttr(tile::PlanAttr::get(kernel.getContext(), sizeOf("q", rows), sizeOf("k", rows), warps,
                                           /*blocks_per_sm=*/1, /*dv_warps=*/1));
    if (producers)
      kernel->setAttr(sched::rolesAttr, rolesOf(warps));
    if (arch.isCpu()) // a thread computes a block; there is nothing to choose
      return;
    chooseStages(producers ? mostStagesOfProducers : mostStages);
    tile::remark(kernel, describe(warps, producers));
  }

private:
  /// The most rows of a product's result, or of any register tile in a kernel without products.
  int64_t mostRows() {
    int64_t ofProducts = 0, ofTiles = 0;
    kernel.walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        if (auto tile = dyn_cast<TileType>(type); tile && tile.getSpace() == tile::MemorySpace::Register)
          (isa<tile::MmaOp>(op) ? ofProducts : ofTiles) =
              std::max(isa<tile::MmaOp>(op) ? ofProducts : ofTiles, tile.getShape()[0]);
    });
    return ofProducts ? ofProducts : ofTiles;
  }

  /// The size of `axis` in the kernel's tiles; `otherwise` if no tile has the axis.
  int64_t sizeOf(StringRef axis, int64_t otherwise) {
    int64_t size = 0;
    kernel.walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        if (auto tile = dyn_cast<TileType>(type); tile && tile.hasAxis(axis))
          size = std::max(size, tile.size(axis));
    });
    return size ? size : int64_t(llvm::alignTo(otherwise, rowsOfWarp));
  }

  ArrayAttr rolesOf(int64_t warps) {
    MLIRContext *context = kernel.getContext();
    auto role = [&](StringRef name, int64_t count) {
      return sched::RoleAttr::get(context, StringAttr::get(context, name), count, /*registers=*/0);
    };
    return ArrayAttr::get(context, {role("producer", warpsOfWarpgroup), role("consumer", warps)});
  }

  int64_t sharedBytes() {
    int64_t bytes = 0;
    for (Operation *op : largestLiveTiles(kernel))
      bytes += ringDepth(op) * cast<TileType>(op->getResult(0).getType()).bytes();
    return bytes;
  }

  /// Gives the rings of loops that say nothing themselves as many stages as fit, up to `most`.
  void chooseStages(int64_t most) {
    SmallVector<tile::LoadOp> open;
    kernel.walk([&](tile::LoadOp load) {
      if (isCopied(load) && !sched::ringOf(load) && isa<tile::ForBlocksOp>(load->getParentOp()))
        open.push_back(load);
    });
    if (open.empty())
      return;
    // Barriers, and tiles that the warps exchange.
    constexpr int64_t rest = 8 << 10;
    for (stages = most; stages >= 1; --stages) {
      for (tile::LoadOp load : open)
        load->setAttr(sched::ringAttr, sched::RingAttr::get(kernel.getContext(), stages));
      if (sharedBytes() + rest <= budget)
        return;
    }
    stages = 1; // tile-verify lists the tiles that do not fit
  }

  std::string describe(int64_t warps, bool producers) {
    std::string text =
        "planned: " + std::to_string(warps) + (producers ? " consumer warp" : " warp") + (warps == 1 ? "" : "s");
    if (producers)
      text += ", " + std::to_string(warpsOfWarpgroup) + " producer warps";
    if (stages)
      text += ", rings of " + std::to_string(stages) + (stages == 1 ? " stage" : " stages");
    return text;
  }

  tile::KernelOp kernel;
  const ArchInfo &arch;
  int64_t budget;
  int64_t stages = 0; ///< of the rings whose depth was open; 0 without such a ring
};

struct PlanKernels : attune::impl::PlanKernelsBase<PlanKernels> {
  using PlanKernelsBase::PlanKernelsBase;

  void runOnOperation() override {
    const ArchInfo *info = findArch(arch);
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel.getPlan().isOpen())
        continue;
      if (!info) {
        kernel.emitOpError("has no plan, and no architecture to plan it for is known; give `plan` or the architecture");
        return signalPassFailure();
      }
      KernelPlanner(kernel, *info, sramBudget ? int64_t(sramBudget) : int64_t(info->sharedBytesPerBlock)).plan();
    }
  }
};

} // namespace
