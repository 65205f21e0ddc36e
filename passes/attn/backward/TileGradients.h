//===- TileGradients.h - S, x, P, dP and dS of a tile of queries and keys ---===//
//
//     P  = p(x, base(L))               with statistics (softmax) L = lse(LSE, divisor(LSE, 1))
//     G  = keep(dO V^T) - delta        0 at dropped elements; without statistics delta is 0
//     dX = p_grad(G), dS = score_grad(dX)
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/attn/backward/KernelFrame.h"

namespace attune::backward {

//===--- Values of a row ---===//

/// Whether a row has no visible keys.
Value isEmpty(KernelFrame &frame, Value lse);
/// The arguments of a region of the normaliser: b, h, and the maximum and sum of a row in the order of its statistics.
SmallVector<Value> statisticsOf(KernelFrame &frame, Value maximum, Value sum);
/// The same for the maximum LSE, with which the weights of a row sum to 1 (0 in a row without visible keys).
SmallVector<Value> atLse(KernelFrame &frame, Value lse);

/// Views of values per row; null where the normaliser has no statistics.
struct RowViews {
  Value logs; ///< LSE, or L = lse(LSE, divisor)
  Value delta;
};
/// `withDelta`: the kernel computes dS.
RowViews declareRows(KernelFrame &frame, bool withDelta = true);

/// Vectors with a value per query of a tile; null where the normaliser has no statistics.
struct RowValues {
  Value logs, base, delta; ///< if `base` is null, scoresOf computes the base from `logs`
};
/// Loads the values of the rows from `q0` on. `givesValues` as in TilePlace; `withBase` computes the base before delta is
/// loaded.
RowValues loadRowValues(KernelFrame &frame, const RowViews &views, Value q0, bool givesValues, bool withBase = true);

//===--- Values of an element ---===//

/// A tile of queries and keys in a loop over queries or keys.
struct TilePlace {
  Value q0, k0;             ///< first query, without the query offset, and first key
  Value partial;            ///< the loop's partial flag
  const MaskSplit &mask;    ///< of the loop's domain
  bool givesValues = false; ///< the loop computes dV from P
};
/// Tiles of the inputs. `v` is null in a loop that does not compute dP.
struct InputTiles {
  Value q, k, v, gradient;
};

/// The scores of a tile and their gradients.
struct ScoreTile {
  TilePlace at;
  TileOrigin origin; ///< of the tile's coordinates: with the query offset
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
/// Computes dS of a tile and masks P afterwards. dS is 0 at masked keys, whatever its other factors are. Masking is a
/// branch; a branch between P and dS would end the basic block that ptxas schedules, so that all pending exponentials
/// would run before the branch with nothing to overlap with.
Value scoreGradients(KernelFrame &frame, ScoreTile &tile);
/// The values, one for each element of the tile, that the op `add` adds to a captured tensor's gradient; 0 at masked
/// keys. `add` is in the gradient region of the score or of p.
Value addedOf(KernelFrame &frame, const ScoreTile &tile, attn::AddGradientOp add);

/// The softmax scale times the constant factor that BackwardProgram::splitsGradient leaves out of dX.
Value gradientScale(KernelFrame &frame, bool givesValues);

} // namespace attune::backward
