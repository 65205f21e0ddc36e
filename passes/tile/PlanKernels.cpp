//===- PlanKernels.cpp - Choose warps, roles and ring depths of a kernel without a plan -------===//
//
// The text of a program gives the sizes of its tiles. A plan adds the number of warps, whether producer warps copy for
// warpgroups whose products are asynchronous, the number of stages of the rings in loops, and the number of blocks that
// the registers of a multiprocessor suffice for. If a kernel has no plan, all combinations of these numbers are ranked
// by predicted time (KernelCost.h). Example for a kernel of 64 x 64 tiles with three copies in its loop:
//
//     sm_80      4 warps, all of which copy and compute; rings of 2 stages
//     sm_90a     4 consumer warps and 4 producer warps; rings of 3 stages
//
//===----------------------------------------------------------------------===//

#include "passes/tile/PlanKernels.h"

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/sched/ChoosePath.h"

namespace attune {
#define GEN_PASS_DEF_PLANKERNELS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr int64_t rowsOfWarp = 16, warpsOfWarpgroup = 4, mostWarps = 16, mostStages = 4, mostBlocksPerSm = 4;
/// A plan is ranked as if it were 1% slower for each stage that its rings have more or fewer than usual.
constexpr int64_t usualStagesOfProducers = 3, usualStages = 2;

/// The most rows of a product's result, or of any register tile in a kernel without products.
int64_t mostRows(tile::KernelOp kernel) {
  int64_t ofProducts = 0, ofTiles = 0;
  kernel.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tile = dyn_cast<TileType>(type); tile && tile.getSpace() == tile::MemorySpace::Register)
        (isa<tile::MmaOp>(op) ? ofProducts : ofTiles) =
            std::max(isa<tile::MmaOp>(op) ? ofProducts : ofTiles, tile.getShape()[0]);
  });
  return std::max(rowsOfWarp, ofProducts ? ofProducts : ofTiles);
}

/// The axes that the grid and the loops divide, with the sizes of their tiles.
SmallVector<std::pair<StringRef, int64_t>> dividedAxes(tile::KernelOp kernel) {
  SmallVector<std::pair<StringRef, int64_t>> sizes;
  auto add = [&](StringRef axis, int64_t size) {
    if (size > 1 && size % rowsOfWarp == 0 &&
        llvm::none_of(sizes, [&](const auto &known) { return known.first == axis; }))
      sizes.push_back({axis, size});
  };
  for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>())
    add(axis.getName(), axis.getBy());
  kernel.walk([&](tile::DomainOp domain) { add(domain.getAxis(), int64_t(domain.getStep())); });
  return sizes;
}

/// The copies in loops whose rings have no depth yet.
SmallVector<tile::LoadOp> openRings(tile::KernelOp kernel) {
  SmallVector<tile::LoadOp> open;
  kernel.walk([&](tile::LoadOp load) {
    if (isCopied(load) && !sched::ringOf(load) && isa<tile::ForBlocksOp>(load->getParentOp()))
      open.push_back(load);
  });
  return open;
}

void write(tile::KernelOp kernel, const KernelPlan &plan, ArrayRef<tile::LoadOp> rings) {
  MLIRContext *context = kernel.getContext();
  kernel.setPlanAttr(tile::PlanAttr::make(context, dividedAxes(kernel), plan.warps, plan.blocksPerSm));
  kernel->removeAttr(sched::rolesAttr);
  if (plan.producerWarps)
    kernel->setAttr(sched::rolesAttr, sched::rolesOf(context, plan.producerWarps, plan.warps));
  for (tile::LoadOp load : rings)
    if (plan.stages)
      load->setAttr(sched::ringAttr, sched::RingAttr::get(context, plan.stages));
    else
      load->removeAttr(sched::ringAttr);
}

/// The roles that the text gives to a kernel without a plan; null if it gives none.
ArrayAttr givenRoles(tile::KernelOp kernel) {
  auto roles = kernel->getAttrOfType<ArrayAttr>(sched::rolesAttr);
  return roles && !roles.empty() ? roles : ArrayAttr();
}

/// The plans of all combinations of warps, producer warps, stages and blocks per multiprocessor. Roles that the text
/// gives determine the warps.
SmallVector<KernelPlan> combinations(tile::KernelOp kernel, const ArchInfo &arch, ArrayRef<tile::LoadOp> rings) {
  const int64_t rows = mostRows(kernel);
  SmallVector<KernelPlan> plans;
  auto add = [&](int64_t warps, int64_t producers) {
    for (int64_t stages = rings.empty() ? 0 : 1; stages <= (rings.empty() ? 0 : mostStages); ++stages)
      for (int64_t blocks = 1; blocks <= mostBlocksPerSm; ++blocks)
        if (blocks == 1 || 32 * blocks * (warps + producers) <= arch.maxThreadsPerSM)
          plans.push_back({warps, producers, stages, blocks});
  };
  auto canHaveProducers = [&](const KernelPlan &plan) {
    if (!arch.hasProducers())
      return false;
    write(kernel, plan, {});
    return whyNoProducers(kernel, /*ordersChosen=*/false).empty();
  };
  if (const ArrayAttr roles = givenRoles(kernel)) {
    const int64_t warps = cast<sched::RoleAttr>(roles.getValue().back()).getWarps();
    const int64_t producers = sched::producerWarps(kernel);
    add(warps, canHaveProducers({warps, producers}) ? producers : 0); // else tile-choose-path removes the roles
    return plans;
  }
  const int64_t warps = rows / rowsOfWarp;
  if (rows == warps * rowsOfWarp && warps <= mostWarps && warps % warpsOfWarpgroup == 0 &&
      llvm::any_of(dividedAxes(kernel), [&](const auto &axis) { return axis.second == rows; }) &&
      canHaveProducers({warps, warpsOfWarpgroup}))
    add(warps, warpsOfWarpgroup);
  for (int64_t each = std::clamp<int64_t>(warps, 1, mostWarps / 2); each >= 1 && 2 * each >= warps; each /= 2)
    add(each, 0);
  if (plans.empty())
    add(mostWarps / 2, 0);
  return plans;
}

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
      setPlan(kernel, rankPlans(kernel, *info, sramBudget).front(), *info);
    }
  }
};

} // namespace

std::string KernelPlan::text() const {
  auto count = [](int64_t number, const std::string &what) {
    return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
  };
  std::string text = count(warps, producerWarps ? "consumer warp" : "warp");
  if (producerWarps)
    text += ", " + count(producerWarps, "producer warp");
  if (stages)
    text += ", rings of " + count(stages, "stage");
  return text + (blocksPerSm > 1 ? ", " + count(blocksPerSm, "block") + " per SM" : "");
}

PlanRank attune::rankOf(const KernelPlan &plan) {
  const int64_t usual = plan.producerWarps ? usualStagesOfProducers : usualStages;
  return {plan.cost.seconds * (1 + 0.01 * double(plan.stages ? std::abs(plan.stages - usual) : 0)),
          -double(plan.producerWarps), double(plan.stages), double(plan.blocksPerSm), -double(plan.warps)};
}

std::vector<KernelPlan> attune::rankPlans(tile::KernelOp kernel, const ArchInfo &arch, int64_t budget,
                                          const Extents &extents) {
  if (arch.isCpu()) // a thread computes a block; there is nothing to choose
    return {KernelPlan()};
  // Bytes of shared memory set aside for barriers, and for tiles that the warps exchange.
  constexpr int64_t rest = 8 << 10;
  const int64_t limit = (budget ? budget : int64_t(arch.sharedBytesPerBlock)) - rest;
  const tile::PlanAttr before = kernel.getPlan();
  const Attribute roles = kernel->getAttr(sched::rolesAttr);
  const SmallVector<tile::LoadOp> rings = openRings(kernel);
  std::vector<KernelPlan> plans;
  KernelPlan smallest;
  for (KernelPlan plan : combinations(kernel, arch, rings)) {
    write(kernel, plan, rings);
    plan.cost = kernelCost(kernel, arch, extents);
    if (plan.cost.sharedMemory <= limit && plan.cost.blocksPerSm >= plan.blocksPerSm)
      plans.push_back(plan);
    if (!smallest.cost.sharedMemory || plan.cost.sharedMemory < smallest.cost.sharedMemory)
      smallest = plan;
  }
  if (plans.empty())
    plans.push_back(smallest); // tile-verify lists the tiles that do not fit
  std::ranges::sort(plans, {}, rankOf);
  write(kernel, {}, rings);
  kernel.setPlanAttr(before);
  if (roles)
    kernel->setAttr(sched::rolesAttr, roles);
  return plans;
}

void attune::setPlan(tile::KernelOp kernel, const KernelPlan &plan, const ArchInfo &arch) {
  const ArrayAttr roles = givenRoles(kernel);
  write(kernel, plan, openRings(kernel));
  if (roles)
    kernel->setAttr(sched::rolesAttr, roles);
  if (arch.isGpu())
    tile::remark(kernel, "planned: " + plan.text());
}
