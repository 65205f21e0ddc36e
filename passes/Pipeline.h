//===- Pipeline.h - The compiler, as a list of passes ------------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

#include "mlir/Pass/PassManager.h"
#include <string>

namespace attune {

/// What the forward pass may save for the backward pass.
struct SavingOptions {
  int64_t memoryBudget = 0;
  std::vector<std::string> save = {}, recompute = {}; ///< values to save or recompute, whatever the cost model says
  int64_t batch = 0, heads = 0, queries = 4096, keys = 4096; ///< sizes for which the cost model predicts times
};

/// The options of the pipeline. 0 and "" leave a decision to the passes.
struct PipelineOptions {
  std::string arch = defaultArch; ///< a name of ArchInfo.h
  int64_t sramBudget = 0;         ///< bytes of shared memory a block, 0 for the device's limit
  PlanChoice fixed = {};          ///< fields of the plan that are fixed; the cost model chooses the others
  SavingOptions saving = {};
};

/// Canonicalises attn ops and merges common subexpressions.
void addAttnCanonical(mlir::OpPassManager &passes);
/// Adds gradient regions to each attention that has `gradients`.
void addDifferentiate(mlir::OpPassManager &passes);
/// Chooses which values the forward pass saves for the gradients; the backward pass recomputes the others.
void addRecompute(mlir::OpPassManager &passes, const PipelineOptions &options);
/// Adds gradient regions, and chooses plans and saved values, which become attributes of the attention. addAttnToTile
/// follows.
void addAttnPlan(mlir::OpPassManager &passes, const PipelineOptions &options);
/// Lowers the attn dialect to tile: tiling, online softmax, hoisting.
void addAttnToTile(mlir::OpPassManager &passes, const PipelineOptions &options);
/// Lowers canonical attn to the tile kernel that writes the class (partial or full) of each tile that the mask leaves
/// visible.
void addAttnToTileMap(mlir::OpPassManager &passes, int64_t tileQ, int64_t tileK);
/// Lowers the tile dialect to sched: layouts, roles, order of ops, then instructions; for GPUs only.
void addTileToSched(mlir::OpPassManager &passes, const PipelineOptions &options);

/// Prepares tile IR for the CPU target: block indices become arithmetic on the thread block's number.
void addTileToCpu(mlir::OpPassManager &passes);

/// Plans the kernels of a tile program that have no plan. A compilation that starts from the text of a tile program
/// runs this pass first.
void addPlans(mlir::OpPassManager &passes, const PipelineOptions &options);

/// The verifiers of the attn, tile and sched dialects. addAttnToTile and addTileToSched end with the verifier of the
/// dialect that they lower to. A compilation that starts from text first runs the verifier of the text's dialect.
void addAttnVerifier(mlir::OpPassManager &passes);
void addTileVerifier(mlir::OpPassManager &passes, const PipelineOptions &options);
void addSchedVerifier(mlir::OpPassManager &passes, const PipelineOptions &options);

} // namespace attune
