//===- Rematerialize.cpp - Rematerialise lane coordinates to save registers ----===//
//
// A lane's row, column and copy addresses are computed from its thread index by a few integer ops. If these values are
// kept from the start of the kernel, they occupy registers through the loop, where fragments need all registers. The
// branches of the loop (copies, masks) and the ops after the loop therefore recompute the values, from a thread index
// and a tile of work that are read again at that point.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace attune {
#define GEN_PASS_DEF_REMATERIALIZE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct Rematerialize : attune::impl::RematerializeBase<Rematerialize> {
  using RematerializeBase::RematerializeBase;

  void runOnOperation() override {
    getOperation().walk([&](sched::ForWorkOp work) {
      known = Known();
      for (auto loop : work.getBody().getOps<sched::ForTilesOp>()) {
        // Branches of a consumer's loop are excluded: all scores are alive there, and no register is free.
        if (!isa<sched::RoleOp>(work->getParentOp()))
          for (auto branch : loop.getBody().getOps<scf::IfOp>())
            renewInBranch(branch);
        if (holdsTiles(loop))
          renewAfter(loop, work);
      }
      eraseDead(work.getBody().front());
    });
  }

  /// Whether a loop holds tiles in registers, and so has no register to spare.
  static bool holdsTiles(sched::ForTilesOp loop) { return holds<sched::RegistersOp>(loop.getBody()); }

  /// Memoised results of isLaneValue(), isSameForAllWork(), followsNumber() and followsReceived(). Without memoisation
  /// these functions would visit every path of the expressions that compute a mask's bounds.
  struct Known {
    llvm::DenseMap<Value, bool> isLane, isSameForAll, followsNumber, followsReceived;
  };
  Known known;

  /// Returns the memoised answer for `value`, or memoises the result of `answer`.
  static bool once(llvm::DenseMap<Value, bool> &answers, Value value, function_ref<bool()> answer) {
    if (auto found = answers.find(value); found != answers.end())
      return found->second;
    const bool is = answer();
    answers[value] = is;
    return is;
  }

  /// Whether `value` is computed from the thread index and constants by pure scalar ops.
  bool isLaneValue(Value value) {
    return once(known.isLane, value, [&] { return computesLane(value.getDefiningOp()); });
  }

  bool computesLane(Operation *op) {
    if (!op)
      return false;
    if (isa<sched::ThreadIdOp>(op))
      return true;
    if (!isa<arith::ArithDialect>(op->getDialect()) || op->getNumOperands() == 0)
      return false;
    bool dependsOnLane = false;
    for (Value operand : op->getOperands()) {
      bool lane = isLaneValue(operand);
      if (!lane && !operand.getDefiningOp<arith::ConstantOp>())
        return false;
      dependsOnLane |= lane;
    }
    return dependsOnLane;
  }

  /// Recomputes `value` at the builder's position from a new read of the thread index, unless `renewed` has a copy.
  Value renew(Value value, OpBuilder &builder, IRMapping &renewed) {
    if (Value known = renewed.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (auto thread = dyn_cast<sched::ThreadIdOp>(op)) {
      Value read = sched::ReadThreadIdOp::create(builder, op->getLoc(), value.getType());
      if (Attribute name = op->getAttr(tile::nameAttr))
        read.getDefiningOp()->setAttr(tile::nameAttr, name);
      renewed.map(value, read);
      return read;
    }
    for (Value operand : op->getOperands())
      if (isLaneValue(operand))
        renew(operand, builder, renewed);
    return builder.clone(*op, renewed)->getResult(0);
  }

  /// Recomputes, at the start of the branch, the values that the branch uses, that are defined before the branch, and
  /// that are computed from the thread index.
  void renewInBranch(scf::IfOp branch) {
    IRMapping renewed;
    OpBuilder builder = OpBuilder::atBlockBegin(branch.thenBlock());
    SmallVector<OpOperand *> uses;
    branch.getThenRegion().walk([&](Operation *op) {
      for (OpOperand &use : op->getOpOperands())
        if (!branch.getThenRegion().isAncestor(use.get().getParentRegion()) && isLaneValue(use.get()))
          uses.push_back(&use);
    });
    for (OpOperand *use : uses)
      use->set(renew(use->get(), builder, renewed));
  }

  /// The `sched.receive` that returns `value`, directly or through `sched.uniform`; null if there is none.
  static Operation *receiver(Value value) {
    Operation *op = value.getDefiningOp();
    if (isa_and_nonnull<sched::UniformOp>(op))
      op = op->getOperand(0).getDefiningOp();
    return isa_and_nonnull<sched::ReceiveOp>(op) ? op : nullptr;
  }

  /// Whether `value`, defined before the loop, is computed from a received message by scalar arithmetic.
  bool followsReceived(Value value, Operation *loop) {
    return once(known.followsReceived, value, [&] {
      Operation *op = value.getDefiningOp();
      if (!op || !isBefore(op, loop))
        return false;
      if (receiver(value))
        return true;
      return isa<arith::ArithDialect>(op->getDialect()) &&
             llvm::any_of(op->getOperands(), [&](Value operand) { return followsReceived(operand, loop); });
    });
  }

  /// Recomputes `value`, which depends on a received message, at the builder's position from a second `sched.receive`
  /// of the message (`received`, which the first call creates).
  Value renewReceived(Value value, Operation *loop, sched::ReceiveOp &received, OpBuilder &builder,
                      IRMapping &renewed) {
    if (renewed.contains(value))
      return renewed.lookup(value);
    if (Operation *origin = receiver(value)) {
      if (!received)
        received = cast<sched::ReceiveOp>(builder.clone(*origin, renewed));
    } else {
      for (Value operand : value.getDefiningOp()->getOperands())
        if (followsReceived(operand, loop))
          renewReceived(operand, loop, received, builder, renewed);
    }
    if (!renewed.contains(value))
      builder.clone(*value.getDefiningOp(), renewed);
    return renewed.lookup(value);
  }

  /// Whether `value`, defined before the loop, is computed by scalar arithmetic from the number of the tile of work and
  /// from values that are the same for all tiles of work.
  bool followsNumber(Value value, sched::ForWorkOp work, Operation *loop) {
    return value == work.getNumber() ||
           once(known.followsNumber, value, [&] { return computesOfNumber(value.getDefiningOp(), work, loop); });
  }

  bool computesOfNumber(Operation *op, sched::ForWorkOp work, Operation *loop) {
    if (!op || !isBefore(op, loop) || !(isa<arith::ArithDialect>(op->getDialect()) || isa<sched::NonnegativeOp>(op)))
      return false;
    bool follows = false;
    for (Value operand : op->getOperands()) {
      const bool ofNumber = followsNumber(operand, work, loop);
      if (!ofNumber && !isSameForAllWork(operand, work))
        return false;
      follows |= ofNumber;
    }
    return follows;
  }

  /// Whether `value` is the same for all tiles of work: it is computed from constants and parameters alone, or is
  /// defined outside of the loop over work.
  bool isSameForAllWork(Value value, sched::ForWorkOp work) {
    return once(known.isSameForAll, value, [&] {
      Operation *op = value.getDefiningOp();
      if (!op)
        return false;
      if (!work->isProperAncestor(op) || isa<tile::ParamOp, tile::AxisExtentOp, sched::GridSizeOp>(op))
        return true;
      return isa<arith::ArithDialect>(op->getDialect()) &&
             llvm::all_of(op->getOperands(), [&](Value operand) { return isSameForAllWork(operand, work); });
    });
  }

  /// Whether `value`, such as a number of tiles, is computed inside of the loop over tiles of work, from extents and
  /// constants only.
  bool isCountOfWork(Value value, sched::ForWorkOp work) {
    Operation *op = value.getDefiningOp();
    return op && op->getNumOperands() > 0 && work->isProperAncestor(op) && isSameForAllWork(value, work);
  }

  /// Recomputes `value`, which depends on the number of the work tile, from a second read of that number. The extents
  /// of axes are read a second time, too. Without the second reads the device compiler would find the earlier result
  /// and keep it in a register over the loop.
  Value renewPlace(Value value, sched::ForWorkOp work, Operation *loop, OpBuilder &builder, IRMapping &renewed) {
    if (Value known = renewed.lookupOrNull(value))
      return known;
    const Type type = value.getType();
    if (value == work.getNumber()) {
      Value again = work.getOrder() == sched::WorkOrder::Grid
                        ? sched::ReadBlockIdOp::create(builder, loop->getLoc(), type).getResult()
                        : sched::OpaqueOp::create(builder, loop->getLoc(), type, value).getResult();
      renewed.map(value, tile::named(again, work.getOrder() == sched::WorkOrder::Grid ? "block" : "number"));
      return again;
    }
    Operation *op = value.getDefiningOp();
    if (isa<tile::AxisExtentOp>(op)) {
      Value again = sched::OpaqueOp::create(builder, loop->getLoc(), type, value);
      renewed.map(value, again);
      return again;
    }
    const bool isCount = isCountOfWork(value, work);
    for (Value operand : op->getOperands())
      if (followsNumber(operand, work, loop) || isCountOfWork(operand, work) ||
          (isCount && operand.getDefiningOp<tile::AxisExtentOp>()))
        renewPlace(operand, work, loop, builder, renewed);
    return builder.clone(*op, renewed)->getResult(0);
  }

  void renewAfter(sched::ForTilesOp loop, sched::ForWorkOp work) {
    // The answers of these two tests depend on `loop`, so the answers for an earlier loop are dropped.
    known.followsNumber.clear();
    known.followsReceived.clear();
    IRMapping renewed;
    OpBuilder builder(loop->getContext());
    builder.setInsertionPointAfter(loop);
    sched::ReceiveOp received;
    SmallVector<OpOperand *> uses;
    for (Operation *op = loop->getNextNode(); op; op = op->getNextNode())
      op->walk([&](Operation *nested) {
        for (OpOperand &use : nested->getOpOperands())
          uses.push_back(&use);
      });
    for (OpOperand *use : uses) {
      Value value = use->get();
      if (work.getNumber() && followsNumber(value, work, loop)) {
        use->set(renewPlace(value, work, loop, builder, renewed));
      } else if (followsReceived(value, loop)) {
        use->set(renewReceived(value, loop, received, builder, renewed));
      } else if (isLaneValue(value) && isBefore(value.getDefiningOp(), loop)) {
        use->set(renew(value, builder, renewed));
      }
    }
  }

  /// Erases ops whose results have no uses any more, because their readers now use recomputed values.
  static void eraseDead(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  static bool isBefore(Operation *op, Operation *loop) {
    return op->getBlock() == loop->getBlock() && op->isBeforeInBlock(loop);
  }
};

} // namespace
