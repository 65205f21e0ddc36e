//===- AssignRoles.cpp - Choose the depth of each ring and the warps that fill it -------===//
//
// Completes the ring and role attributes (`sched.ring`, `sched.roles`); values that the input IR gives are kept. The
// last role of a kernel, the consumer role, computes. All other roles fill rings, or store tiles to memory. The table
// shows the defaults, which use the warps of the first role, the producer. Roles between the producer and the consumer
// get only the rings whose `sched.ring` names them in the input IR. "As first copy" means: as many stages as the first
// copy in the loop has.
//
//     tiles                            stages         filled by
//     -------------------------------  -------------  ---------------------------------------------------------------
//     copies before the loop           1              the first warp
//     copies in the loop               2              the first warp; where the first warp also searches for the tiles
//                                                     that the mask leaves visible, the second warp makes all copies
//                                                     but the first, unless the second warp computes relative-position
//                                                     values or stores tiles. Where a persistent block reads where its
//                                                     sequence begins, the second warp makes all copies, so that the
//                                                     first reads ahead
//     windows of bias tensors          as first copy  the first warp
//     relative-position values         as first copy  all warps but the first; only the second if other warps load
//                                                     vectors or store tiles
//     per-key vectors of masks         as first copy  the first warp, in the stages of the first copy; or the warps
//                                                     that `sched.ring` names, in separate stages
//     other loaded vectors             as first copy  the last two warps, or the one of them that stores no tiles
//     tiles that are added to memory   1              the consumers; the first warp after warp 0 that fills no ring
//                                                     stores the tile by TMA
//
// In a kernel without roles all warps copy.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/BlockReads.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/copies/StoredTiles.h"
#include "passes/analysis/cost/CostModel.h"

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
        (sched::isByOtherWarps(convert) ? computed : isReadAlways(convert) ? vectors : columns).push_back(convert);
      else if (convert && sched::ringOf(convert))
        exchanged.push_back(convert);
      if (isa<tile::WindowOp>(op))
        windows.push_back(op);
      if (isa<tile::StoreOp, tile::AccumulateOp>(op) && (sched::ringOf(op) || isAddedByEngine(op)))
        stored.push_back(op);
      if (auto domain = dyn_cast<tile::DomainOp>(op))
        searches |= domain.skips();
    });
  }

  void assignCopies() {
    for (Operation *load : streamed)
      if (!sched::ringOf(load))
        setRing(load, {}, 0, 1);
    for (Operation *op : stored)
      if (op->removeAttr(sched::ringAttr))
        tile::remark(kernel,
                     "the ring to " + nameOf(op) + " is not used: without roles lanes take to memory what they hold");
    for (Operation *convert : exchanged) {
      convert->removeAttr(sched::ringAttr);
      tile::remark(kernel, "the ring of " + tile::nameOf(convert->getResult(0)) +
                               " is not used: without roles all warps meet before and after its stores");
    }
  }

  LogicalResult assignRoles() {
    if (failed(nameRoles()))
      return failure();
    auto assign = [&](ArrayRef<Operation *> ops, int64_t first, int64_t warps = 1) {
      for (Operation *op : ops)
        if (sched::RingAttr ring = sched::ringOf(op); !ring || !ring.getRole())
          setRing(op, filling, first, warps);
    };
    const int64_t warps = fillers.front().getWarps();
    llvm::SmallDenseMap<Block *, Operation *> firstCopies;       // of each loop
    const llvm::SmallDenseSet<int64_t> taking = warpsOf(stored); // warps that the input IR names for stores
    assign(once, 0);
    const bool isSecondFree = computed.empty() && !taking.contains(1),
               readsAhead = !searches && columns.empty() && windows.empty() && !integersReadAhead(kernel).empty();
    for (Operation *load : streamed) { // in the order of the text
      const bool isFirst = firstCopies.insert({load->getBlock(), load}).first->second == load;
      assign(load, isSecondFree && (readsAhead || (searches && !isFirst)) ? 1 : 0);
    }
    assign(computed, 1, vectors.empty() && stored.empty() ? warps - 1 : 1);
    assign(columns, 0);
    assign(windows, 0);
    const int64_t freeWarp = warpForStores();
    // Vectors are loaded by the last two of the four producer warps, except a warp that stores tiles to memory.
    const bool sharesThird = freeWarp == 2 || taking.contains(2), sharesLast = freeWarp == 3 || taking.contains(3);
    assign(vectors, sharesThird ? 3 : 2, sharesThird || sharesLast ? 1 : warps - 2);
    for (Operation *op : stored)
      if (failed(assignStored(op, freeWarp)))
        return failure();
    return success();
  }

private:
  /// Whether `op` adds a tile to memory in each iteration of a loop, and TMA can do the addition.
  bool isAddedByEngine(Operation *op) {
    auto accumulate = dyn_cast<tile::AccumulateOp>(op);
    auto around = dyn_cast<tile::ForBlocksOp>(op->getParentOp());
    return accumulate && around && around.getWithin().empty() && isStoredInBoxes(kernel, accumulate) &&
           followFromTile(around, op->getOperands().drop_front());
  }

  static std::string nameOf(Operation *stored) {
    tile::ParamOp parameter = tile::parameterOf(stored->getOperand(1));
    return parameter ? parameter.getOwnName().str() : "memory";
  }

  /// The warps of the first role that the ring attributes of `ops` name.
  llvm::SmallDenseSet<int64_t> warpsOf(ArrayRef<Operation *> ops) const {
    llvm::SmallDenseSet<int64_t> warps;
    for (Operation *op : ops)
      if (RingAttr ring = sched::ringOf(op); ring && ring.getRole() == filling)
        for (int64_t warp = 0; warp < ring.getWarps(); ++warp)
          warps.insert(ring.getFirstWarp() + warp);
    return warps;
  }

  /// The first producer warp after warp 0 that fills no ring, and so can store tiles. Returns 0 if all warps fill rings
  /// or if there are no tiles to store. The last warp is excluded if this pass still has to assign warps to vectors.
  int64_t warpForStores() {
    llvm::SmallDenseSet<int64_t> busy;
    for (const auto &ops : {once, streamed, computed, columns, windows, vectors})
      for (int64_t warp : warpsOf(ops))
        busy.insert(warp);
    const bool areOpen =
        llvm::any_of(vectors, [](Operation *op) { return !sched::ringOf(op) || !sched::ringOf(op).getRole(); });
    for (int64_t warp = 1; warp < fillers.front().getWarps() - (areOpen ? 1 : 0); ++warp)
      if (!stored.empty() && !busy.contains(warp))
        return warp;
    return 0;
  }

  /// Assigns the store `op` to the warp that its ring attribute names, else to `freeWarp`. If `freeWarp` is 0 (no warp
  /// is free), a ring attribute is an error; without one, the consumers add the tile to memory element by element.
  LogicalResult assignStored(Operation *op, int64_t freeWarp) {
    RingAttr ring = sched::ringOf(op);
    if (ring && ring.getRole())
      return success();
    if (freeWarp) {
      setRing(op, filling, freeWarp, 1);
      return success();
    }
    if (ring)
      return op->emitOpError() << "has a ring, but all warps of role " << filling
                               << " fill others; leave one of its warps free, or leave sched.ring out";
    tile::remark(kernel, "what is added to " + nameOf(op) + " goes element by element: all warps of role " +
                             filling.str() + " fill rings");
    return success();
  }

  static void setRing(Operation *op, StringAttr role, int64_t first, int64_t warps) {
    op->setAttr(sched::ringAttr, RingAttr::get(op->getContext(), ringDepth(op), role, first, warps));
  }

  /// Whether some map reads the vector in every iteration of the loop. Maps whose condition (`only_if`) is computed in
  /// the loop read the vector for some tiles only.
  static bool isReadAlways(tile::ConvertOp staged) {
    return llvm::any_of(staged.getResult().getUsers(), [&](Operation *user) {
      auto map = dyn_cast<tile::MapOp>(user);
      return map && !map.getColumns() && (!map.getOnlyIf() || map.getOnlyIf().getParentBlock() != staged->getBlock());
    });
  }

  /// Whether the producer has to find the rows of the tiles that it loads, in a page table or before the end of a
  /// sequence. The producer then needs more registers.
  bool findsRows() {
    return llvm::any_of(streamed, [](Operation *op) {
      auto load = dyn_cast<tile::LoadOp>(op);
      return load && (load.getView().getDefiningOp<tile::PagedRowsOp>() ||
                      !load.getLimit().getDefiningOp<tile::AxisExtentOp>());
    });
  }

  /// Checks the kernel's roles, and chooses the registers of their threads if the input IR does not.
  LogicalResult nameRoles() {
    auto roles = llvm::to_vector(kernel->getAttrOfType<ArrayAttr>(sched::rolesAttr).getAsRange<RoleAttr>());
    if (roles.size() < 2)
      return kernel.emitOpError() << "has " << roles.size()
                                  << " roles; give two or more, of which the last computes and the others fill rings";
    fillers.assign(roles.begin(), roles.end() - 1);
    const RoleAttr computes = roles.back();
    for (RoleAttr fills : fillers)
      if (fills.getWarps() != 4)
        return kernel.emitOpError() << "role " << fills.getName() << ", which fills rings, has " << fills.getWarps()
                                    << " warps; give it 4, a warpgroup";
    if (computes.getWarps() != plan.getWarps())
      return kernel.emitOpError() << "role " << computes.getName() << " has " << computes.getWarps()
                                  << " warps, but the plan " << plan.getWarps();
    const int64_t rows = 16 * plan.getWarps();
    if (plan.getDvWarps() != 1 || plan.getWarps() % 4 || !llvm::is_contained(plan.getSizes(), rows))
      return kernel.emitOpError() << "with a role that fills rings, warps are whole warpgroups that share the rows of "
                                     "an axis of the plan, 16 each";
    const auto gives = [](RoleAttr role) { return role.getRegisters() != 0; };
    if (llvm::none_of(roles, gives)) {
      const RoleRegisters registers = roleRegisters(
          int(computes.getWarps()), int(sched::producerWarps(kernel)), searches || findsRows(),
          int(std::max(computed.size(), size_t(!vectors.empty()))),
          warpgroupTileRegisters(plan.getSize("k"), tile::storedColumns(kernel)), int(plan.getBlocksPerSm()));
      for (RoleAttr &role : roles)
        role = RoleAttr::get(kernel.getContext(), role.getName(), role.getWarps(),
                             role == computes ? registers.consumer : registers.producer);
      kernel->setAttr(sched::rolesAttr,
                      ArrayAttr::get(kernel.getContext(), SmallVector<Attribute>(roles.begin(), roles.end())));
    } else if (!llvm::all_of(roles, gives)) {
      return kernel.emitOpError("gives registers to some roles alone; give them to all, or to none");
    }
    // The roles divide the registers that a thread block has at launch. A role whose setmaxnreg requests more registers
    // than are left waits forever.
    int64_t threads = 0, registers = 0;
    for (RoleAttr role : roles) {
      threads += 32 * role.getWarps();
      registers += 32 * role.getWarps() * role.getRegisters();
    }
    const int64_t atLaunch = 65536 / (threads * plan.getBlocksPerSm()) / 8 * 8 * threads;
    if (registers > atLaunch)
      return kernel.emitOpError() << "roles take " << registers << " registers, of which a block of " << threads
                                  << " threads has " << atLaunch << "; give a role fewer";
    filling = fillers.front().getName();
    for (const auto &ops : {once, streamed, computed, columns, vectors, windows, stored})
      for (Operation *op : ops)
        if (failed(checkRing(op)))
          return failure();
    for (Operation *convert : exchanged)
      if (RingAttr ring = sched::ringOf(convert); ring.getRole() || ring.getStages() < 2)
        return convert->emitOpError(
            "is exchanged by the warps that compute, which alternate between two stages or more; "
            "write #sched.ring<stages 2>, or leave it out");
    return success();
  }

  /// Checks that the ring attribute of `op` names a role that fills rings, and warps that this role has.
  LogicalResult checkRing(Operation *op) const {
    if (auto load = dyn_cast<tile::LoadOp>(op); load && load.getResult().getType().rank() == 1)
      return load.emitOpError("is of single values, which TMA of a role does not bring; load the vector to "
                              "registers, and convert it");
    RingAttr ring = sched::ringOf(op);
    if (!ring || !ring.getRole())
      return success();
    const auto *role = llvm::find_if(fillers, [&](RoleAttr fills) { return fills.getName() == ring.getRole(); });
    if (role == fillers.end()) {
      InFlightDiagnostic error = op->emitOpError() << "has a ring that role " << ring.getRole();
      if (isa<tile::StoreOp, tile::AccumulateOp>(op))
        error << " empties, but tiles are taken to memory by role ";
      else
        error << " fills, but copies and what follows from none of the loop's tiles come from role ";
      llvm::interleave(fillers, [&](RoleAttr fills) { error << fills.getName(); }, [&] { error << " or "; });
      return error;
    }
    if (ring.getFirstWarp() + ring.getWarps() > role->getWarps())
      return op->emitOpError() << "has a ring that warp " << ring.getFirstWarp() + ring.getWarps() - 1 << " of role "
                               << role->getName() << " fills, which has " << role->getWarps();
    return success();
  }

  tile::KernelOp kernel;
  tile::PlanAttr plan;
  SmallVector<RoleAttr> fillers; ///< all roles but the last, which computes
  StringAttr filling;            ///< the first of `fillers`, which fills the rings for which the input IR names no role
  SmallVector<Operation *> once, streamed, computed, columns, vectors, windows, exchanged, stored;
  bool searches = false;
};

struct AssignRoles : attune::impl::AssignRolesBase<AssignRoles> {
  using AssignRolesBase::AssignRolesBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      RoleAssigner roles(kernel);
      if (!kernel->hasAttr(sched::rolesAttr))
        roles.assignCopies();
      else if (failed(roles.assignRoles()))
        return signalPassFailure();
    }
  }
};

} // namespace
