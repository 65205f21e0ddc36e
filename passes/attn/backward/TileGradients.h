//===- TileGradients.h - S, x, P, dP and dS of a tile of queries and keys ---===//
//
//     P  = p(x, base(L))               with statistics (softmax) L = lse(LSE, divisor(LSE, 1))
//     G  = keep(dO V^T) - delta        0 at dropped elements; without statistics delta is 0
//     dX = p_grad(G), dS = score_grad(dX)      gradients of the scores x and of S
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/attn/backward/KernelFrame.h"

namespace attune::backward {

//===--- Values of a row ---===//

/// Emits whether a row has no visible keys: its `lse` is -inf.
Value isEmpty(KernelFrame &frame, Value lse);
/// The arguments of a region of the normaliser: b, h, and the maximum and sum of a row in the order of its statistics.
SmallVector<Value> statisticsOf(KernelFrame &frame, Value maximum, Value sum);
/// The arguments b, h, maximum and sum of a region of the normaliser, for the maximum LSE. The sum of the row's weights
/// is then 1 (0 in a row without visible keys).
SmallVector<Value> atLse(KernelFrame &frame, Value lse);

/// Views of values per row; null where the normaliser has no statistics.
struct RowViews {
  Value logs; ///< LSE or, with a softmax sink or the like, L = lse(LSE, divisor)
  Value delta;
};
/// Declares the operands with a value per row: LSE or L and, with `withDelta`, delta, which kernels that compute dS
/// read.
RowViews declareRows(KernelFrame &frame, bool withDelta = true);

/// Vectors with a value per query of a tile; null where the normaliser has no statistics.
struct RowValues {
  Value logs, base, delta; ///< if `base` is null, scoresOf computes the base from `logs`
};
/// Loads LSE and delta of the query rows from `q0` on. `givesValues`: the loop computes dV from P. Also computes the
/// base, the value that the exponent of P subtracts from the score, unless `withBase` is false: scoresOf then computes
/// the base after the product Q K^T has been issued.
RowValues loadRowValues(KernelFrame &frame, const RowViews &views, Value q0, bool givesValues, bool withBase = true);

//===--- Values of an element ---===//

/// A tile of queries and keys in a loop over queries or keys.
struct TilePlace {
  Value q0, k0;             ///< first query, without the query offset, and first key
  Value partial;            ///< the loop's partial flag
  const MaskSplit &mask;    ///< of the loop's domain
  bool givesValues = false; ///< the loop computes dV from P
};
/// The tiles of Q, K, V and dO (`gradient`). `v` is null in a loop that does not compute dP.
struct InputTiles {
  Value q, k, v, gradient;
};

/// The scores of a tile and their gradients.
struct ScoreTile {
  TilePlace at;
  TileOrigin origin; ///< first query, with the query offset, and first key
  RowValues rows;
  Value kept = {}, saved = {}; ///< dropout flags and score saved by the forward pass, or null
  Value s = {}, x = {}, p = {}, dp = {};
  Value ds = {};       ///< null until scoreGradients writes it
  Value isMasked = {}; ///< whether the mask has been applied to the tile at least in part, as i1; null: never
};

/// Computes S, the scores x, P and, if there is V, dP of a tile. With row statistics (softmax) P is returned unmasked:
/// hideWeights or scoreGradients masks P or dS later, so that the branch of the mask does not come between P and dS.
/// Without row statistics the scores x are masked here, before P.
ScoreTile scoresOf(KernelFrame &frame, const InputTiles &inputs, const TilePlace &at, RowValues rows);
/// Sets P to 0 at masked keys. Masking x with -inf instead would not suffice: the row's LSE may be NaN.
void hideWeights(KernelFrame &frame, ScoreTile &tile);
/// P with dropout applied, computed from the tile's P.
Value keptWeights(KernelFrame &frame, const ScoreTile &tile);
/// Computes dS of a tile, which is 0 at masked keys, and masks P if P is still read. Masking is a branch and therefore
/// comes after P and dS: a branch between P and dS would end the basic block that ptxas schedules, so that all pending
/// exponentials would run before the branch with nothing to overlap with.
Value scoreGradients(KernelFrame &frame, ScoreTile &tile);
/// The values, one for each element of the tile, that the op `add` adds to a captured tensor's gradient; 0 at masked
/// keys. `add` is in the gradient region of the score or of p.
Value addedOf(KernelFrame &frame, const ScoreTile &tile, attn::AddGradientOp add);

/// The factor of dQ and dK: the softmax scale times the constant factor by which dX, the gradient of the scores, is
/// computed too large or too small (see BackwardProgram::splitsGradient). `givesValues`: the loop also computes dV from
/// P; the constant factor is then half as large.
Value gradientScale(KernelFrame &frame, bool givesValues);

} // namespace attune::backward
