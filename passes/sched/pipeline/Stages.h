//===- Stages.h - Stage and order of the ops of a loop over tiles ------------===//
//
// Software pipelining of a loop over tiles. Reads the stage and order of the ops in the loop's body (`sched.at`) and
// puts the ops into the order in which they run. An op without the attribute is of stage 0 and has the order of the
// next op with the attribute; an op after the last op with the attribute comes last.
//
//     LoopStages stages(loop);
//     if (failed(stages.verify())) ...         a schedule that cannot work is an error at the op
//     stages.inOrder(0)                        the ops of stage 0, each after the ops that it depends on
//     stages.inOrder()                         all ops
//
// A loop of more than two stages is expanded in several steps. Each step splits off stage 0; all later stages count as
// stage 1 in that step, and "stage" below means this 0 or 1. The stage in the attribute is called the written stage.
// A step results in a loop over the tiles after the first, which has one stage less and whose ops keep their order.
//
// A release of a ring stage (`sched.release`) is placed after the last op that reads the stage, even if its `sched.at`
// names an earlier place.
//
// A slot (sched.slot) is the tile in one stage of a ring. If ops of both pipeline stages read a slot, each pipeline
// stage has a sched.slot of its own, because a slot is not carried in registers. A slot depends on the wait for its
// ring stage. The release that lists the slot among its operands shows which ring the slot belongs to. Scalars, such as
// a tile's origin, are recomputed by each pipeline stage for its own tile; quotients and remainders are carried. A
// message comes with a ring stage, and is read between the wait for that ring stage and its release.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/dataflow/BlockDependences.h"

namespace attune::pipeline {

/// An op of the loop body, run by one iteration for the tile on which ops of `stage` work in that iteration.
struct Step {
  mlir::Operation *op;
  int64_t stage;
};

class LoopStages {
public:
  /// `expanded` is the number of expansion steps, each of which splits off one pipeline stage, that led to `loop`.
  explicit LoopStages(sched::ForTilesOp loop, int64_t expanded = 0);

  /// Whether the loop has more than one stage, so that an iteration works on two tiles.
  bool overlapsTiles() const { return last > 0; }
  /// Whether the loop that results from this expansion step has more than one stage.
  bool overlapsMore() const { return last > 1; }
  bool isFirstStep() const { return !expanded; }
  /// The name ("first", "second", ...) of the iteration that this expansion step peels off the loop.
  llvm::StringRef passName() const;
  /// The stage and order of `step` in the loop that results from this expansion step.
  sched::AtAttr placeAfter(Step step) const;

  /// The stage of `op` in this expansion step: 0, or 1 for every later stage in `sched.at`.
  int64_t stageOf(mlir::Operation *op) const { return std::min<int64_t>(places.lookup(op).stage, 1); }
  /// The stage of the op that defines `value`; 0 if `value` is defined outside of the body.
  int64_t stageOf(mlir::Value value) const;
  /// Whether an op of `stage` reads `value`.
  bool reads(int64_t stage, mlir::Value value) const { return readBy[stage].contains(value); }
  /// Whether stage 0 has to pass `value` on to stage 1: stage 1 reads `value` and does not recompute it.
  bool crosses(mlir::Value value) const;

  /// The least stage, as `sched.at` has it before the first expansion step, among the ops of stage 1 that read `value`,
  /// directly or through scalars that each stage recomputes.
  int64_t writtenStageOfReader(mlir::Value value) const;

  /// Emits an error if an op would run before an op whose result it reads. Must be called before the first expansion
  /// step.
  mlir::LogicalResult verify();
  llvm::SmallVector<Step> inOrder(std::optional<int64_t> stage = std::nullopt);

  /// The next value of a carried argument, and the stage that computes that value.
  mlir::Value nextOf(mlir::BlockArgument carried) const;
  int64_t stageOfNext(mlir::BlockArgument carried) const { return stageOf(nextOf(carried)); }

private:
  struct Place {
    int64_t stage = 0, order = 0;
    bool operator<(const Place &other) const { return std::pair(stage, order) < std::pair(other.stage, other.order); }
  };
  void placeReleases();
  void repeatScalars();
  void findWaits();
  /// The ops whose results `op` reads; if `op` is a slot or receives a message, also the wait for its ring stage.
  llvm::SmallVector<mlir::Operation *> sourcesOf(mlir::Operation *op) const;
  /// The steps on which `step` depends within one iteration of the pipelined loop: ops of the same stage, and for stage
  /// 0 the ops of stage 1 that compute the carried values that `step` reads.
  llvm::SmallVector<Step> sourcesInPass(Step step) const;

  mutable sched::ForTilesOp loop;
  BlockDependences dependences;
  llvm::DenseMap<mlir::Operation *, Place> places;
  llvm::DenseSet<mlir::Value> readBy[2];
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> waits; ///< slot or message -> the wait for its ring stage
  llvm::DenseSet<mlir::Operation *> repeated;                 ///< slots and scalars that both stages compute
  int64_t expanded, last = 0;                                 ///< last: the greatest written stage of an op
};

/// Splits stage 0 off the loop, so that ops of stage 1 work on the previous tile. For A of stage 0 and B of stage 1:
///
///     for tiles n: A(n), B(n)          if there is a tile: A(first)
///                                        for the tiles n after it: A(n), B(n - 1), by order
///                                        B(last)
///
/// Register tiles of stage 0 that stage 1 reads are carried. Returns the loop over the tiles after the first. The ops
/// of the returned loop keep their ping-pong marks. If that loop still has several stages, its ops keep their order
/// too, and the number of each later stage is one less.
mlir::FailureOr<sched::ForTilesOp> expandStages(sched::ForTilesOp loop, LoopStages &stages);

/// Sorts the ops of the loop's body by the order in their `sched.at`. The loop has one pipeline stage.
void reorder(sched::ForTilesOp loop, LoopStages &stages);

/// Whether `op` computes the next value of `tile`, a tile that the loop around `op` carries: the result of `op` overwrites
/// the registers of `tile`.
bool overwrites(mlir::Operation *op, mlir::Value tile);

/// Inserts waits for the asynchronous products of `block`. A wait is placed before the first op that reads the
/// product's result or overwrites the registers of its left operand; nested loops and the block's end wait for all
/// products. A release of a tile that a product reads moves to after the wait for that product. The pending count of a
/// wait is the number of products that were started after the product that is waited for.
void waitForProducts(mlir::Block &block);

/// For each tile that the warps of `role` exchange through shared memory (`sched.exchange`), inserts a barrier of these
/// warps before the first op of `block` that reads the tile.
void synchronizeForExchanges(sched::RoleOp role, mlir::Block &block);

/// Puts named barriers around the ops of `loop` that are marked for ping-pong, so that the warpgroups of `role` run
/// these ops one after another. With more than two pipeline stages, the iterations that are peeled off the loop, except
/// the first, get named barriers too.
void addPingPongBarriers(sched::RoleOp role, sched::ForTilesOp loop);

} // namespace attune::pipeline
