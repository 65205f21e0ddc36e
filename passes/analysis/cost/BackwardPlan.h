//===- BackwardPlan.h - Tiles of the backward pass ----------------------------===//
//
//     Expected<BackwardPlans> plans = chooseBackwardPlans(request);    // keys: 32 x 64, 2 warps, 2 stages
//
// The kernels that plans describe (AttnToTileBackward.cpp): one block holds a tile of keys, or of queries, and loops
// over tiles of the other axis, each kind of block with a plan of its own. Of the four matrices two stay in shared memory
// and two have rings of `stages` tiles:
//
//     loop over queries    (tileK + stages * tileQ) * (pad16(D) + pad16(Dv)) * e
//     loop over keys       (tileQ + stages * tileK) * (pad16(D) + pad16(Dv)) * e
//
// and a thread has registers for each 16 rows of its warp: accumulators of dK and dV, or of dQ, and S and dP.
//
//     loop over queries    rows / 16 * ((pad16(D) + pad16(Dv)) / 2 + tileQ)
//     loop over keys       rows / 16 * (pad16(D) / 2 + tileK)
//
// Warps of 32 rows read half as much of the looped tiles from shared memory for each product as warps of 16. Where these
// have dK and dV, elements are dear (random numbers of dropout, functions of a score) and the order of additions is free,
// the loop over queries has all five products and adds dQ up in memory (accumulatesDq); tileQ * tileK * e bytes more are of
// dS, by which warps exchange it.
//
// A plan with producer warps has that one loop in any case, on warpgroup-level products. Beside the first row, in whole panels
// of TMA, it holds two stages of dS, by which the warpgroups exchange it, the tile's share of dQ, LSE, delta and
// other vectors of each stage, dK and dV on their way to memory where these do not lie over V and that share (D != Dv), and
// if that fits (stageBiases) one stage of each dense bias, which TMA brings:
//
//     2 * tileQ * tileK * e + tileQ * pad16(D) * 4 + stages * vectors * tileQ * 4 + tileK * (pad16(D) + pad16(Dv)) * e
//     + tileQ * tileK * biasBytes
//
// Where tiles of queries have fewer rows than the warpgroups, these share out dQ by columns, each a panel of TMA
// at least: head dims of 72 to 120 are computed as 128, of which the rest is zeros (columnsOfQueryLoop). Loops over keys, for what
// captured tensors are given, then are on warpgroup-level products too, 16 rows of S a warp.
//
// Plain C++ without MLIR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

namespace attune {

struct BackwardPlans {
  Plan keys;    ///< of the loop over queries: dK, dV, and all five products where it adds up dQ
  Plan queries; ///< of loops over keys: dQ else, and what captured tensors are given by row; of rows without a loop
  bool accumulatesDq = false; ///< the loop over queries adds dQ up in memory, in no particular order
  /// "dK, dV 32 x 64, 2 warps, ...; dQ 128 x 64, 4 warps, ..."
  std::string text() const;
};

/// D and Dv as the loop over queries computes them: whole multiples of `granularity`, that of a product; of 16-bit elements
/// whole panels, D one for each of the `shares` of dQ's columns, where these are more than 1.
struct LoopColumns {
  int64_t d, dv;
};
LoopColumns columnsOfQueryLoop(int64_t headDim, int64_t headDimV, int64_t granularity, int64_t splits);
/// How many warpgroups share out dQ by columns: those for which a tile of queries has no 64 rows.
int64_t columnSplitsOf(int64_t tileQ, int64_t warps);

/// Warpgroup-level products where the architecture has them, the order of additions is free, the heads of a group are
/// rounds of one loop, and their tiles fit: one loop then has all five products, and one plan. Else for each loop, one of
/// which may have all five as said above, the most rows a warp, then the widest looped tile, then the most stages, whose
/// accumulators fit and of whose blocks two share a multiprocessor; where none does, what fits the budget. What the request
/// fixes stays, for the loop over keys what `ofQueries` fixes, if given. Errors: as rankPlans; a fixed field that the
/// backward pass has no choice of.
Expected<BackwardPlans> chooseBackwardPlans(const PlanRequest &request,
                                            const std::optional<PlanChoice> &ofQueries = {});

} // namespace attune
