//===- Stages.h - When the ops of a loop over tiles run ----------------------===//
//
// Reads `sched.at` off the ops of a loop's body, and puts them into the order in which they run. An op without the
// attribute is of stage 0, and of the order of the next op that has one; behind the last it comes last.
//
//     LoopStages stages(loop);
//     if (failed(stages.verify())) ...         what a schedule cannot do is an error at the op
//     stages.inOrder(0)                        the ops of stage 0, what an op follows from in front of it
//     stages.inOrder()                         all
//
// A loop of more than two stages is expanded one stage at a time: in a step all ops behind stage 0 are of stage 1, which
// is what "stage" says below; the one in the text is a written stage. What a step gives, the loop over the tiles after the
// first, is a loop of one stage less, whose ops keep their order.
//
// A release is placed behind the last of the ops that read its tiles, if it would run before.
//
// A slot of a ring is no value that a register holds: where both stages read it, each has its own. It follows from the
// wait for its stage, of the ring whose release names it. Scalars, such as where a tile begins, each stage computes for
// its own tile. A message comes with a stage of a ring, between the wait for it and its release.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/BlockDependences.h"

namespace attune::pipeline {

/// An op in a pass of the loop, for the tile of its stage.
struct Step {
  mlir::Operation *op;
  int64_t stage;
};

class LoopStages {
public:
  /// Of a loop that `expanded` steps have made.
  explicit LoopStages(sched::ForTilesOp loop, int64_t expanded = 0);

  /// Whether ops work on two tiles at a time.
  bool overlapsTiles() const { return last > 0; }
  /// Whether the loop over the tiles after the first has stages.
  bool overlapsMore() const { return last > 1; }
  bool isFirstStep() const { return !expanded; }
  /// first, second, ...: the pass that the step takes out of the loop.
  llvm::StringRef passName() const;
  /// When a step runs in that loop.
  sched::AtAttr placeAfter(Step step) const;

  /// In this step: 0, or 1 of all written stages behind it.
  int64_t stageOf(mlir::Operation *op) const { return std::min<int64_t>(places.lookup(op).stage, 1); }
  /// The stage of the op of the body that gives `value`; 0 of what stands outside.
  int64_t stageOf(mlir::Value value) const;
  /// Whether an op of `stage` reads `value`.
  bool reads(int64_t stage, mlir::Value value) const { return readBy[stage].contains(value); }
  /// Whether stage 0 has to hand `value` to stage 1.
  bool crosses(mlir::Value value) const;

  /// The least written stage of an op of stage 1 that reads `value`, by way of scalars that stages repeat or not.
  int64_t writtenStageOfReader(mlir::Value value) const;

  /// An error where an op would run before what it reads: of a loop as it is written.
  mlir::LogicalResult verify();
  llvm::SmallVector<Step> inOrder(std::optional<int64_t> stage = std::nullopt);

  /// The next value of a carried one, and the stage that gives it.
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
  /// What `op` reads, and the wait for the slot that it is.
  llvm::SmallVector<mlir::Operation *> sourcesOf(mlir::Operation *op) const;
  /// What a step reads that the same pass gives: of its own stage, or by a carried value of the tile before.
  llvm::SmallVector<Step> sourcesInPass(Step step) const;

  mutable sched::ForTilesOp loop;
  BlockDependences dependences;
  llvm::DenseMap<mlir::Operation *, Place> places;
  llvm::DenseSet<mlir::Value> readBy[2];
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> waits; ///< for slots, and messages
  llvm::DenseSet<mlir::Operation *> repeated;                 ///< of stage 0 and 1: slots, scalars
  int64_t expanded, last = 0;                                 ///< last: the greatest stage of an op
};

/// The loop with stage 0 beside the others: ops of stage 1 work on the tile before. The first tile's stage 0 stands in front of a loop
/// over the others, the last tile's stage 1 behind it:
///
///     for tiles n: A(n), B(n)          if there is a tile: A(first)
///                                        for the tiles n after it: A(n), B(n - 1), by order
///                                        B(last)
///
/// Tiles of stage 0 that stage 1 reads are carried. Returns the loop over the others, which keeps the turns of ops, and
/// where it has stages itself, all that says when they run.
mlir::FailureOr<sched::ForTilesOp> expandStages(sched::ForTilesOp loop, LoopStages &stages);

/// Puts the ops of the body in order: of a loop of one stage.
void reorder(sched::ForTilesOp loop, LoopStages &stages);

/// Waits for the products of `block` that only start, each in front of the first op that needs it: one that reads its
/// result, or whose result lies where its left operand does, or a release of what it reads, which stands behind the wait
/// that is there for another reason, if there is one. A wait's pending count is the number of products that were started
/// after the one it is for.
void waitForProducts(mlir::Block &block);

/// The warps of `role` meet in front of the first op of `block` that reads what they exchange (`sched.exchange`).
void synchronizeForExchanges(sched::RoleOp role, mlir::Block &block);

/// Named barriers around the ops of `loop` that have a turn, if any has: warpgroups of `role` go through them one after
/// another. With more than two stages each pass that stands in front of a loop is a turn, too, but for the first.
void addPingPongBarriers(sched::RoleOp role, sched::ForTilesOp loop);

} // namespace attune::pipeline
