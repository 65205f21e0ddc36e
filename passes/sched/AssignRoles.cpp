//===- AssignRoles.cpp - How deep each ring is, and which warps fill it -------===//
//
// Writes what the text leaves open. With copy warps a kernel has two roles, one that fills rings and one that computes:
//
//     what                                     stages     by
//     ---------------------------------------  ---------  ----------------------------------------------------
//     copies before the loop                   q_stages   the first warp
//     copies in the loop                       stages     the first warp; where tiles are searched, which it does,
//                                                         too, the second all but the first of them
//     values by distance                       stages     all warps but the first; beside windows the second
//     columns, in stages beside the first copy stages     the first warp
//     windows                                  stages     the last two, where the copy engine cannot
//
// Without, all warps copy: the rings of a loop are `stages` deep.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/CopiedTiles.h"
#include "passes/analysis/CostModel.h"

namespace attune {
#define GEN_PASS_DEF_ASSIGNROLES
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using sched::RingAttr;
using sched::RoleAttr;

namespace {

class RoleAssigner {
public:
  explicit RoleAssigner(tile::KernelOp kernel) : kernel(kernel), plan(kernel.getPlan()) {
    kernel.walk([&](Operation *op) {
      if (auto load = dyn_cast<tile::LoadOp>(op); load && isCopied(load))
        (load->getParentOp() == kernel ? once : streamed).push_back(load);
      if (auto convert = dyn_cast<tile::ConvertOp>(op); convert && tile::isStaged(convert))
        (tile::isByDistance(convert.getResult().getType()) ? byDistance : columns).push_back(convert);
      if (isa<tile::WindowOp>(op))
        windows.push_back(op);
      if (auto domain = dyn_cast<tile::DomainOp>(op))
        searches |= domain.skips();
    });
  }

  void assignCopies() {
    for (Operation *load : streamed)
      setRing(load, RingAttr::get(kernel.getContext(), plan.getStages()));
  }

  LogicalResult assignRoles() {
    if (failed(nameRoles()))
      return failure();
    auto assign = [&](ArrayRef<Operation *> ops, int64_t stages, int64_t first, int64_t warps = 1) {
      for (Operation *op : ops)
        setRing(op, RingAttr::get(kernel.getContext(), stages, filling, first, warps));
    };
    const int64_t stages = plan.getStages(), warps = plan.getCopyWarps();
    assign(once, plan.getQStages(), 0);
    assign(ArrayRef(streamed).take_front(1), stages, 0);
    assign(ArrayRef(streamed).drop_front(std::min<size_t>(1, streamed.size())), stages,
           searches && byDistance.empty() ? 1 : 0);
    assign(byDistance, stages, 1, windows.empty() ? warps - 1 : 1);
    assign(columns, stages, 0);
    assign(windows, stages, 2, warps - 2);
    return success();
  }

private:
  static void setRing(Operation *op, RingAttr ring) {
    if (!sched::ringOf(op))
      op->setAttr(sched::ringAttr, ring);
  }

  /// The kernel's roles, of which the first fills rings: those of the text, or of the plan.
  LogicalResult nameRoles() {
    OpBuilder builder(kernel.getContext());
    auto roles = kernel->getAttrOfType<ArrayAttr>(sched::rolesAttr);
    if (!roles) {
      const RoleRegisters registers = roleRegisters(
          int(plan.getWarps()), int(plan.getCopyWarps()), searches, int(byDistance.size() + 2 * windows.size()),
          warpgroupTileRegisters(plan.getTileK(), tile::storedColumns(kernel)));
      auto role = [&](StringRef name, int64_t warps, int count) {
        return RoleAttr::get(builder.getContext(), builder.getStringAttr(name), warps, count);
      };
      roles = builder.getArrayAttr({role("producer", plan.getCopyWarps(), registers.producer),
                                    role("consumer", plan.getWarps(), registers.consumer)});
      kernel->setAttr(sched::rolesAttr, roles);
    }
    const int64_t wanted[] = {plan.getCopyWarps(), plan.getWarps()};
    if (roles.size() != 2)
      return kernel.emitOpError() << "has " << roles.size() << " roles, where one fills rings and one computes";
    int64_t threads = 0, registers = 0;
    for (auto [role, warps] : llvm::zip(roles.getAsRange<RoleAttr>(), wanted)) {
      if (role.getWarps() != warps)
        return kernel.emitOpError() << "role " << role.getName() << " has " << role.getWarps()
                                    << " warps, but the plan " << warps;
      threads += 32 * warps;
      registers += 32 * warps * role.getRegisters();
    }
    // Those of the launch, which roles share out among themselves: a role waits for more for ever.
    const int64_t atLaunch = 65536 / threads / 8 * 8 * threads;
    if (registers > atLaunch)
      return kernel.emitOpError() << "roles take " << registers << " registers, of which a block of " << threads
                                  << " threads has " << atLaunch << "; give a role fewer";
    filling = cast<RoleAttr>(roles[0]).getName();
    for (const auto &ops : {once, streamed, byDistance, columns, windows})
      for (Operation *op : ops)
        if (failed(checkRing(op, cast<RoleAttr>(roles[0]))))
          return failure();
    return success();
  }

  /// A ring of the text is filled by warps that there are.
  static LogicalResult checkRing(Operation *op, RoleAttr role) {
    RingAttr ring = sched::ringOf(op);
    if (!ring)
      return success();
    if (ring.getRole() != role.getName())
      return op->emitOpError() << "has a ring that "
                               << (ring.getRole() ? "role \"" + ring.getRole().getValue().str() + "\" fills"
                                                  : std::string("no role fills"))
                               << ", but copies and what follows from none of the loop's tiles come from role "
                               << role.getName();
    if (ring.getFirstWarp() + ring.getWarps() > role.getWarps())
      return op->emitOpError() << "has a ring that warp " << ring.getFirstWarp() + ring.getWarps() - 1 << " of role "
                               << role.getName() << " fills, which has " << role.getWarps();
    return success();
  }

  tile::KernelOp kernel;
  tile::PlanAttr plan;
  StringAttr filling;
  SmallVector<Operation *> once, streamed, byDistance, columns, windows;
  bool searches = false;
};

struct AssignRoles : attune::impl::AssignRolesBase<AssignRoles> {
  using AssignRolesBase::AssignRolesBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      RoleAssigner roles(kernel);
      if (!kernel.getPlan().getCopyWarps())
        roles.assignCopies();
      else if (failed(roles.assignRoles()))
        return signalPassFailure();
    }
  }
};

} // namespace
