//===- TileSize.h - From a variant to a request of the cost model -----------===//
//
// What attn-tile-size and `attune explain` share: both rank the same request.
//
//     PlanRequest request = planRequest(op, "sm_90");
//     Expected<std::vector<RankedPlan>> plans = rankPlans(request);
//     op->setAttr(attn::planAttr, planAttr(op.getContext(), plans->front().plan));
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"
#include "passes/analysis/cost/CostModel.h"

namespace attune {

/// Sizes to rank for. 0 heads are 2048 / head_dim, 0 batches 16384 / queries.
struct SizeHints {
  int64_t batch = 0, heads = 0, queries = 4096, keys = 4096;
};

/// Counts the instructions that `op`'s regions cost for each element of S, and reads the mask's band. A value that
/// depends on the column alone is shared by the rows of a lane; one that does not depend on k is hoisted out of
/// the loop.
PlanRequest planRequest(attn::AttentionOp op, llvm::StringRef arch, const SizeHints &hints = {});

/// Instructions of one op of a region for one element: special functions, and others.
struct OpCost {
  double special = 0;
  double alu = 1;
};
OpCost opCost(mlir::Operation *op, bool precise);

/// The attribute that says `plan`.
attn::PlanAttr planAttr(mlir::MLIRContext *context, const Plan &plan);
Plan planOf(attn::PlanAttr attr);

} // namespace attune
