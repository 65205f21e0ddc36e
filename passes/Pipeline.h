//===- Pipeline.h - The compiler, as a list of passes ------------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

#include "mlir/Pass/PassManager.h"
#include <string>

namespace attune {

/// What the forward pass may save for the backward pass.
struct SavingOptions {
  int64_t memoryBudget = 0;
  std::vector<std::string> save = {}, recompute = {};        ///< values, in place of the model's choice
  int64_t batch = 0, heads = 0, queries = 4096, keys = 4096; ///< sizes to weigh for
};

/// What the passes are told; 0 and "" leave the decision to them.
struct PipelineOptions {
  std::string arch = "sm_90"; ///< "cpu", "sm_80", "sm_86", "sm_89", "sm_90" or "sm_120"
  int64_t sramBudget = 0;     ///< bytes of shared memory a block, 0 for the device's limit
  PlanChoice fixed = {};      ///< the cost model decides the rest
  SavingOptions saving = {};
};

/// What the variant computes, as few ops.
void addAttnCanonical(mlir::OpPassManager &passes);
/// The gradients of the expressions of those that take any.
void addDifferentiate(mlir::OpPassManager &passes);
/// What the forward pass saves for those, and what is computed again.
void addRecompute(mlir::OpPassManager &passes, const PipelineOptions &options);
/// attn to tile: tiling, online softmax, hoisting.
void addAttnToTile(mlir::OpPassManager &passes, const PipelineOptions &options);
/// attn, canonical, to the tile kernel that writes the classes of tiles.
void addAttnToTileMap(mlir::OpPassManager &passes, int64_t tileQ, int64_t tileK);
/// tile to sched for the mma.sync family.
void addTileToSched(mlir::OpPassManager &passes, const PipelineOptions &options);

/// What is left to decide of tile text for the CPU target, which executes it.
void addTileToCpu(mlir::OpPassManager &passes);

/// What each stage's text is held to. The two functions above end with the verifier of the stage that they reach; a
/// compilation that starts from text runs that of the text's stage first.
void addAttnVerifier(mlir::OpPassManager &passes);
void addTileVerifier(mlir::OpPassManager &passes, const PipelineOptions &options);
void addSchedVerifier(mlir::OpPassManager &passes, const PipelineOptions &options);

} // namespace attune
