//===- TileSize.h - Make a request of the cost model from a variant -------===//
//
// attn-tile-size and `attune explain` rank the same request:
//
//     PlanRequest request = planRequest(op, "sm_90");
//     Expected<std::vector<RankedPlan>> plans = rankPlans(request);
//     op->setAttr(attn::planAttr, planAttr(op.getContext(), plans->front().plan));
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"
#include "passes/analysis/cost/BackwardPlan.h"

namespace attune {

/// The sizes for which plans are ranked. By default those of the FlashAttention papers' benchmarks: 0 in `heads` means
/// 2048 / head_dim (hidden size 2048), 0 in `batch` means 16384 / queries (16384 tokens).
struct SizeHints {
  int64_t batch = 0, heads = 0, queries = 4096, keys = 4096;
};

/// Counts the instructions that the regions of `op` cost per element of S, and reads the mask's band. A value that
/// depends on the column alone is counted once for all rows that a lane holds; a value that does not depend on k is not
/// counted, because it is hoisted out of the loop.
PlanRequest planRequest(attn::AttentionOp op, llvm::StringRef arch, const SizeHints &hints = {});

/// The instructions of one op of a region per element: special functions, and others.
struct OpCost {
  double special = 0;
  double alu = 1;
};
OpCost opCost(mlir::Operation *op, bool precise);

/// Converts a plan to the attribute that holds it, and back.
attn::PlanAttr planAttr(mlir::MLIRContext *context, const Plan &plan);
Plan planOf(attn::PlanAttr attr);

/// The plans of the backward pass that attributes of `op` hold; nullopt if `op` has no plan.
std::optional<BackwardPlans> backwardPlansOf(attn::AttentionOp op);
void setBackwardPlans(attn::AttentionOp op, const BackwardPlans &plans);

} // namespace attune
