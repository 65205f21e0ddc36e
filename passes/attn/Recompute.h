//===- Recompute.h - What the forward pass saves for the backward pass ---------===//
//
// attn-recompute and `attune explain --backward` share this interface: a list of the values that the backward pass
// needs, each with the cost and the gain of saving it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/BackwardCost.h"
#include "passes/attn/TileSize.h"

namespace attune {

/// What the caller of weighSaving asks for: the memory budget, fixed choices and sizes.
struct SavingRequest {
  std::string arch;
  int64_t memoryBudget = 0; ///< bytes for saved values other than O and LSE
  /// values that must be saved (true) or must not (false), whatever the cost model predicts
  std::vector<std::pair<std::string, bool>> chosen = {};
  SizeHints sizes = {};
};

/// Decides for each value that the backward pass needs whether to save it. `op` must be differentiated and take
/// gradients. Errors: a value in `chosen` that the backward pass does not have, or that cannot be chosen.
Expected<std::vector<SavingDecision>> weighSaving(attn::AttentionOp op, const SavingRequest &request);

/// The request to the cost model for the backward pass of `op`. Where the forward pass may save an intermediate value
/// of the score, `savedScore` is set to that value: a value of the score region, or null for the final score, which is
/// the region's result or, without a region, the scaled product.
BackwardRequest backwardRequest(attn::AttentionOp op, llvm::StringRef arch, const SizeHints &hints,
                                mlir::Value *savedScore = nullptr);

} // namespace attune
