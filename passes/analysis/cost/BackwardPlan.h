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
// In each iteration every warp reads the tile of that iteration from shared memory. A warp of 32 rows uses these bytes
// for twice as many products as a warp of 16 rows. The loop over queries can compute all five products and add dQ to
// memory (accumulatesDq), so that no second loop recomputes S and dP. The model chooses accumulatesDq if the loop's
// warps have 32 rows, if elements are expensive to recompute (random numbers of dropout, functions of a score) and if
// the order of additions need not be fixed. Then tileQ * tileK * e more bytes of shared memory are needed, through
// which the warps exchange dS.
//
// Plans with producer warps have products at warpgroup level, in three forms. The model prefers the first that fits:
//
//     products    loops
//     five        one over queries, which adds dQ to memory (accumulatesDq)
//     seven       one over queries for dK and dV, one over keys for dQ
//     eight       two over queries, for dV and for dK (separateDv), one over keys for dQ
//
// Registers per thread of each loop, where a warp has 16 rows of the accumulators:
//
//     dK and dV    (D + Dv) / 2 + tileQ          dK    D / 2 + tileQ
//     dV           Dv / 2 + tileQ / 2            dQ    D / 2 + tileK
//
// Therefore the form with seven products fits up to a head dim of 128, and the form with eight up to 256. dK, dV and dQ
// are stored through the bytes of K, V, Q or dO, which the warpgroup has read. In the form with five products shared
// memory has the tiles of a loop over queries (see above), in whole panels of TMA, and these bytes in addition:
//
//     2 * tileQ * tileK * e                    two stages of dS, which the warpgroups exchange
//     tileQ * pad16(D) * 4                     dQ of one tile; none in persistent blocks, which add it from registers
//     stages * vectors * tileQ * 4             LSE, delta and other vectors
//     tileK * (pad16(D) + pad16(Dv)) * e       dK and dV before their stores; if D = Dv, they can reuse V and dQ
//     tileQ * tileK * biasBytes                one stage of each dense bias that TMA copies (stageBiases), if it fits
//
// Persistent blocks, where a block copies K and V of its next tile meanwhile, have two stages of K and V, and bytes for dK
// and dV that nothing else uses. They are the choice where they fit: D and Dv up to 64, masks that load nothing for a head.
//
// If a tile of queries has fewer than 64 rows for each warpgroup, the warpgroups split dQ by columns. Each warpgroup
// then has at least one panel of TMA: head dims of 72 to 120 are padded with zeros to 128 (columnsOfQueryLoop).
//
// If one loop has all five products, loops over keys that compute gradients of captured tensors use warpgroup-level
// products too, with 16 rows of S a warp, if a candidate fits. With seven or eight products such a loop also holds dQ,
// and is warp-level.
//
// Plain C++ without MLIR.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

namespace attune {

struct BackwardPlans {
  Plan keys; ///< the loop over queries: a block holds a tile of keys and computes dK, dV, and dQ if accumulatesDq
  /// The loops over keys: a thread block holds a tile of queries and computes dQ unless accumulatesDq, or gradients of
  /// captured tensors. The plan is also that of the kernel of row statistics, which has no loop.
  Plan queries;
  bool accumulatesDq = false; ///< the loop over queries adds dQ to memory, in no particular order
  bool separateDv = false;    ///< dK and dV have a loop over queries each, both with the plan `keys`
  /// "dK, dV 32 x 64, 2 warps, ...; dQ 128 x 64, 4 warps, ..."
  std::string text() const;
  friend bool operator==(const BackwardPlans &, const BackwardPlans &) = default;
};

/// D and Dv as the loop over queries pads them: to multiples of `granularity` (of the matrix instruction). If
/// warpgroups split the columns of dQ (`splits` > 1), D is padded so that each warpgroup has whole TMA panels of 64
/// columns of 16 bits. Dv is then padded in the same way if it is more than one panel.
struct LoopColumns {
  int64_t d, dv;
};
LoopColumns columnsOfQueryLoop(int64_t headDim, int64_t headDimV, int64_t granularity, int64_t splits);
/// Over how many warpgroups the columns of dQ are split: more than 1 if a tile of queries has fewer than 64 rows for
/// each warpgroup.
int64_t columnSplitsOf(int64_t tileQ, int64_t warps);

/// All plans of the backward pass that fit, each once, the model's choice first. The model prefers warpgroup-level
/// products if the architecture has them, inputs are 16-bit, one loop can iterate over the heads of a group, and the
/// tiles fit: all five products in one loop if the order of additions need not be fixed, else seven or eight.
///
/// Otherwise each loop gets a plan of warp-level products, and the loop over queries may still have all five products,
/// as described above. Candidates with more rows a warp are preferred; among these, candidates with wider tiles of the
/// axis that the loop iterates over, then candidates with more stages. The first candidate is the choice whose
/// accumulators fit in registers and of which two thread blocks fit on a multiprocessor. If no candidate meets both
/// conditions, the choice is the first candidate that fits the budget.
///
/// After the candidates of these rules come tiles that the rules leave out, and plans with the opposite accumulatesDq
/// where this is legal; only a measurement can prefer such plans. Plans of the loop over queries and of the loop over
/// keys are combined in pairs; pairs of early candidates come first. Plans that accumulate dQ, whose sums depend on the
/// order of additions, are left out for deterministic gradients.
///
/// Plan fields that the request fixes are kept; `ofQueries`, if set, gives the fixed fields of the loop over keys
/// instead. Errors: as in rankPlans, and a fixed field that the backward kernels do not have.
Expected<std::vector<BackwardPlans>> backwardPlans(const PlanRequest &request,
                                                   const std::optional<PlanChoice> &ofQueries = {});
/// The first of backwardPlans.
Expected<BackwardPlans> chooseBackwardPlans(const PlanRequest &request,
                                            const std::optional<PlanChoice> &ofQueries = {});

} // namespace attune
