//===- Recompute.h - What the forward pass saves for the backward pass ---------===//
//
// What attn-recompute and `attune explain --backward` share: each value that the backward pass needs, with what saving
// it takes and gives.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/BackwardCost.h"
#include "passes/attn/TileSize.h"

namespace attune {

/// What is asked for.
struct SavingRequest {
  std::string arch;
  int64_t memoryBudget = 0;                              ///< bytes of what is saved beside O and LSE
  std::vector<std::pair<std::string, bool>> chosen = {}; ///< a value and whether it is saved, in place of the model
  SizeHints sizes = {};
};

/// Of each value that the backward pass needs; of a differentiated attention that takes its gradients. Errors: a value that the backward pass does not have, or about
/// which there is no choice.
Expected<std::vector<SavingDecision>> weighSaving(attn::AttentionOp op, const SavingRequest &request);

/// The request of the cost model for the backward pass of `op`. Where something of the score is to be saved, it is
/// `savedScore`: a value of the score region, or null for what it yields or for the scaled product.
BackwardRequest backwardRequest(attn::AttentionOp op, llvm::StringRef arch, const SizeHints &hints,
                                mlir::Value *savedScore = nullptr);

} // namespace attune
