//===- BackwardPlan.h - Tiles of the backward pass ----------------------------===//
//
//     Expected<Plan> plan = chooseBackwardPlan(request);    // 64 x 64, 4 warps, 2 stages
//
// The kernels that a plan describes (AttnToTileBackward.cpp): one block holds a tile of keys, or of queries, and loops
// over tiles of the other axis. Of the four matrices two stay in shared memory and two have rings of `stages` tiles:
//
//     loop over queries    (tileK + stages * tileQ) * (pad16(D) + pad16(Dv)) * e
//     loop over keys       (tileQ + stages * tileK) * (pad16(D) + pad16(Dv)) * e
//
// A plan with copy warps has one loop, over queries, on warpgroup-level products. Beside the first row, in whole panels of
// the copy engine, it holds two stages of dS, by which the warpgroups exchange it, the tile's share of dQ, LSE, delta and
// other vectors of each stage, and dK and dV on their way to memory where these do not lie over V and that share (D != Dv):
//
//     2 * tileQ * tileK * e + tileQ * pad16(D) * 4 + stages * vectors * tileQ * 4 + tileK * (pad16(D) + pad16(Dv)) * e
//
// Plain C++ without MLIR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

namespace attune {

/// Warpgroup-level products where the architecture has them, the order of additions is free, the heads of a
/// group are rounds of one loop, and their tiles fit. Else the
/// largest square tile, and with it the most stages, whose shared memory and accumulators fit; what the request fixes
/// stays. Errors: as rankPlans; a fixed field that the backward pass has no choice of.
Expected<Plan> chooseBackwardPlan(const PlanRequest &request);

} // namespace attune
