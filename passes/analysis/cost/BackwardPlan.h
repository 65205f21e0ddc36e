//===- BackwardPlan.h - Chooses the plans of the backward pass ----------------===//
//
//     Expected<BackwardPlans> plans = chooseBackwardPlans(request);    // keys: 32 x 64, 2 warps, 2 stages
//
// In the kernels that plans describe (AttnToTileBackward.cpp) a thread block holds a tile of keys and loops over tiles
// of queries, or vice versa. Each of the two loops has its own plan. Two of the four matrices Q, K, V and dO stay in
// shared memory, and the other two have rings of `stages` tiles. Shared memory in bytes:
//
//     loop over queries    (tileK + stages * tileQ) * (pad16(D) + pad16(Dv)) * e
//     loop over keys       (tileQ + stages * tileK) * (pad16(D) + pad16(Dv)) * e
//
// Registers per thread, for the accumulators (dK and dV, or dQ) and for S and dP, where a warp has `rows` rows:
//
//     loop over queries    rows / 16 * ((pad16(D) + pad16(Dv)) / 2 + tileQ)
//     loop over keys       rows / 16 * (pad16(D) / 2 + tileK)
//
// Warps of 32 rows read half as many bytes of the looped tiles from shared memory per product as warps of 16 rows. The
// loop over queries can compute all five products and add dQ to memory (accumulatesDq), so that no second loop
// recomputes S and dP. The model chooses accumulatesDq if the loop's warps have 32 rows, if elements are expensive to
// recompute (random numbers of dropout, functions of a score) and if the order of additions need not be fixed. Then
// tileQ * tileK * e more bytes of shared memory are needed, through which the warps exchange dS.
//
// A plan with producer warps always has this one loop over queries, with warpgroup-level products. In addition to the
// tiles of the first formula, in whole panels of TMA, its shared memory has two stages of dS, which the warpgroups
// exchange; the dQ of one tile; LSE, delta and other vectors of each stage; dK and dV before their stores, unless D =
// Dv, where dK reuses V and dV reuses dQ; and, if it fits (stageBiases), one stage of each dense bias, which TMA
// copies:
//
//     2 * tileQ * tileK * e + tileQ * pad16(D) * 4 + stages * vectors * tileQ * 4 + tileK * (pad16(D) + pad16(Dv)) * e
//     + tileQ * tileK * biasBytes
//
// If a tile of queries has fewer than 64 rows for each warpgroup, the warpgroups split dQ by columns. Each warpgroup
// then has at least one panel of TMA: head dims of 72 to 120 are padded with zeros to 128 (columnsOfQueryLoop). Loops
// over keys, which compute gradients of captured tensors, then use warpgroup-level products too, with 16 rows of S a
// warp.
//
// Plain C++ without MLIR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

namespace attune {

struct BackwardPlans {
  Plan keys; ///< the loop over queries; a thread block has a tile of keys: dK, dV, and dQ if accumulatesDq
  /// Loops over keys, where a thread block has a tile of queries: dQ unless accumulatesDq, and gradients of captured
  /// tensors that are summed per row. Also the kernel of row statistics, which has no loop.
  Plan queries;
  bool accumulatesDq = false; ///< the loop over queries adds dQ to memory, in no particular order
  /// "dK, dV 32 x 64, 2 warps, ...; dQ 128 x 64, 4 warps, ..."
  std::string text() const;
};

/// D and Dv as the loop over queries pads them: to multiples of `granularity` (of the matrix instruction). If
/// warpgroups split the columns of dQ (`splits` > 1), D is padded so that each of them has whole panels of 64 columns
/// of 16 bits. Dv is padded in the same way if it is more than one panel.
struct LoopColumns {
  int64_t d, dv;
};
LoopColumns columnsOfQueryLoop(int64_t headDim, int64_t headDimV, int64_t granularity, int64_t splits);
/// Over how many warpgroups the columns of dQ are split: more than 1 if a tile of queries has fewer than 64 rows for
/// each warpgroup.
int64_t columnSplitsOf(int64_t tileQ, int64_t warps);

/// Chooses the plans of the backward pass. Warpgroup-level products, with all five products in one loop, are chosen if
/// the architecture has them, the order of additions need not be fixed, one loop can iterate over the heads of a group,
/// and the tiles fit.
///
/// Otherwise each loop gets a plan of warp-level products, and the loop over queries may still have all five products,
/// as described above. Candidates are tried by most rows a warp, then widest looped tile, then most stages. The first
/// candidate is taken whose accumulators fit in registers and of which two thread blocks fit on a multiprocessor; if
/// there is none, the first candidate that fits the budget.
///
/// Fields that the request fixes are kept. For the loop over keys, `ofQueries` gives the fixed fields instead, if it is
/// set. Errors: as in rankPlans, and a fixed field that is no choice of the backward pass.
Expected<BackwardPlans> chooseBackwardPlans(const PlanRequest &request,
                                            const std::optional<PlanChoice> &ofQueries = {});

} // namespace attune
