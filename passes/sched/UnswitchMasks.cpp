//===- UnswitchMasks.cpp - Full tiles without mask branches ------------------===//
//
// Most tiles are full: no mask applies to them. A partial tile has several masks (the diagonal, the end of the queries,
// the end of the keys), each in a branch. Every branch ends a basic block, and ptxas schedules no instruction across
// the end of a block. This pass puts the masks of a tile into one branch. Where the code before the masks may be
// duplicated, the branch starts before it (loop unswitching within the iteration): a full tile then has no branch
// between its products and the products that use its softmax.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Dependences.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace attune {
#define GEN_PASS_DEF_UNSWITCHMASKS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

using Terms = llvm::SmallSetVector<Value, 4>;

/// The conditions of which `condition` is the disjunction.
Terms termsOf(Value condition) {
  Terms terms;
  SmallVector<Value> pending = {condition};
  llvm::DenseSet<Value> met;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (!met.insert(next).second)
      continue;
    if (auto either = next.getDefiningOp<arith::OrIOp>())
      llvm::append_range(pending, either->getOperands());
    else
      terms.insert(next);
  }
  return terms;
}

bool isArithmetic(Operation *op) { return isMemoryEffectFree(op) || isa<sched::RegistersOp>(op); }

/// Whether `branch` is a mask: it changes tiles in registers and nothing else.
bool isMask(scf::IfOp branch) {
  return branch.getNumResults() == 0 && !branch.elseBlock() &&
         !holds<Operation *>(branch.getThenRegion(), [](Operation *op) {
           return !isArithmetic(op) && !isa<sched::SetOp>(op) && !hasSingleEffect<MemoryEffects::Read>(op) &&
                  !op->hasTrait<OpTrait::HasRecursiveMemoryEffects>();
         });
}

/// Whether a mask reads memory. Elements of a tile in registers do not count.
bool readsMemory(scf::IfOp mask) {
  return holds<Operation *>(mask.getThenRegion(), [](Operation *op) {
    return isa<tile::ElementOp>(op) || (hasSingleEffect<MemoryEffects::Read>(op) && !isa<sched::GetOp>(op));
  });
}

/// Whether `value` is the same in all threads of a role. `sched.uniform` alone is no proof: it is the same in a warp, and
/// all warps of a warpgroup must wait for a product together. Messages are the same for the role that receives them, and
/// so is what its loops over tiles and work carry.
bool isSameInRole(Value value) {
  return !followsFrom(value, [](Operation *op) {
    return isa<sched::ThreadIdOp, sched::LaneIdOp, sched::ShuffleOp, sched::ShuffleXorOp>(op) ||
           !(isMemoryEffectFree(op) || isa<sched::UniformOp, sched::ReceiveOp, sched::SharedOp>(op));
  });
}

struct UnswitchMasks : attune::impl::UnswitchMasksBase<UnswitchMasks> {
  void runOnOperation() override {
    SmallVector<SmallVector<scf::IfOp>> masks;
    getOperation().walk([&](sched::ForTilesOp loop) {
      if (loop->getParentOfType<sched::RoleOp>())
        collect(loop.getBody().front(), masks);
    });
    for (ArrayRef<scf::IfOp> run : masks)
      unswitch(run);
  }

  /// Collects runs of masks. The masks of a run have only arithmetic between them, come after maps of two products, and
  /// no product is in flight there. In the forward pass the masks come after one product, and often another product is
  /// in flight: one branch around them changed the time of softcap and of biases by at most 0.2%.
  static void collect(Block &block, SmallVector<SmallVector<scf::IfOp>> &masks) {
    int waits = 0;
    bool inFlight = true, follows = false;
    for (Operation &op : block) {
      auto branch = dyn_cast<scf::IfOp>(op);
      if (isa<sched::MmaCommitOp>(op)) {
        inFlight = true;
        waits = 0;
      } else if (auto wait = dyn_cast<sched::MmaWaitOp>(op)) {
        inFlight = wait.getPending() != 0;
        ++waits;
      }
      if (!branch || !isMask(branch) || inFlight || waits < 2) {
        follows &= isArithmetic(&op);
        continue;
      }
      if (!follows)
        masks.emplace_back();
      masks.back().push_back(branch);
      follows = true;
    }
  }

  /// Puts `masks` into one branch, together with the ops since the products if these may be duplicated.
  static void unswitch(ArrayRef<scf::IfOp> masks) {
    scf::IfOp last = masks.back();
    OpBuilder builder(last);
    const Location loc = last.getLoc();
    Terms all;
    for (scf::IfOp mask : masks)
      all.insert_range(termsOf(mask.getCondition()));
    auto isAny = [&](scf::IfOp mask) { return termsOf(mask.getCondition()).size() == all.size(); };

    const auto *any = llvm::find_if(masks, isAny);
    Value condition = any == masks.end() ? all.front() : scf::IfOp(*any).getCondition();
    if (any == masks.end())
      for (Value term : llvm::drop_begin(all))
        condition = arith::OrIOp::create(builder, loc, condition, term);

    const std::optional<SmallVector<Operation *>> before = sinceProducts(masks, condition);
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/before.has_value());
    Operation *end = branch.thenBlock()->getTerminator();
    if (before) {
      IRMapping copies;
      builder.setInsertionPoint(branch.elseBlock()->getTerminator());
      for (Operation *op : *before) {
        builder.clone(*op, copies);
        op->moveBefore(end);
      }
    }
    for (scf::IfOp mask : masks) {
      mask->moveBefore(end);
      if (!isAny(mask))
        continue;
      if (before) {
        // The branch around this mask is kept, on a condition that the device compiler cannot prove true: without a
        // branch, ptxas schedules the mask together with dS and spills 120 to 350 bytes at D 64 and 128.
        builder.setInsertionPoint(mask);
        Value word = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), mask.getCondition());
        Value zero = arith::ConstantIntOp::create(builder, loc, builder.getI32Type(), 0);
        Value hidden = sched::OpaqueOp::create(builder, loc, word.getType(), word);
        mask.getConditionMutable().assign(
            arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, hidden, zero).getResult());
      } else {
        Block *body = mask.thenBlock();
        body->getTerminator()->erase();
        branch.thenBlock()->getOperations().splice(mask->getIterator(), body->getOperations());
        mask.erase();
      }
    }
  }

  /// Returns the ops between the issue of the last product and `masks` that both sides of the branch must execute.
  /// Returns nothing if these ops must not be duplicated: warps of a warpgroup must wait for a product together, and
  /// with dropout, or with masks that read memory (document ids), duplication is slower than a branch (D 64: 1.04 and
  /// 1.015 times the time, with 72 instead of 56 and 376 instead of 0 bytes of spills).
  static std::optional<SmallVector<Operation *>> sinceProducts(ArrayRef<scf::IfOp> masks, Value condition) {
    if (!isSameInRole(condition) || llvm::any_of(masks, readsMemory))
      return std::nullopt;

    scf::IfOp first = masks.front();
    Operation *start = first;
    while (start && !isa<sched::MmaCommitOp>(start))
      start = start->getPrevNode();
    if (!start)
      return std::nullopt;
    SmallVector<Operation *> ops;
    llvm::SmallPtrSet<Operation *, 16> moved;
    for (Operation *op = start->getNextNode(); op != first; op = op->getNextNode()) {
      const bool follows =
          llvm::any_of(op->getOperands(), [&](Value operand) { return moved.contains(operand.getDefiningOp()); });
      if (isArithmetic(op) && !follows)
        continue;
      if (holds<sched::PhiloxOp>(*op))
        return std::nullopt;
      moved.insert(op);
      ops.push_back(op);
    }
    // The branch's condition must not depend on duplicated ops, nor may their results be used after the masks.
    for (scf::IfOp mask : masks)
      if (moved.contains(mask.getCondition().getDefiningOp()))
        return std::nullopt;
    llvm::SmallPtrSet<Operation *, 4> masked(masks.begin(), masks.end());
    for (Operation *op : ops)
      for (Operation *user : op->getUsers())
        if (Operation *inBlock = first->getBlock()->findAncestorOpInBlock(*user);
            !moved.contains(inBlock) && !masked.contains(inBlock))
          return std::nullopt;
    return ops;
  }
};

} // namespace
