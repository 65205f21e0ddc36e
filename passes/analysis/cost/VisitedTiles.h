//===- VisitedTiles.h - How many tiles of S a plan visits -------------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

#include <optional>

namespace attune {

/// What the tiles of rows visit, summed over one head.
struct TileCount {
  double visited = 0;
  double partial = 0;                      ///< of these, tiles that evaluate the mask
  double keyRows = 0;                      ///< rows of K read
  double longest = 0;                      ///< most tiles that one block visits
  std::optional<double> distinctKeys = {}; ///< rows of K that some block reads; unset: about all
};

/// Of the request's mask and lengths. Exact, but for MaskShape::Fraction, and Rows of other lengths than those that it
/// knows: they give expected values. By request.tiles it is exact for its lengths, where its tiles divide tileQ and tileK.
TileCount countTiles(const PlanRequest &request, int64_t tileQ, int64_t tileK);

/// Whether the last rows see clearly more keys than the first ones: their tiles then come first, so that short ones fill
/// the gaps at the end. Elsewhere neighbouring tiles of rows, which share keys, stay side by side. Unknown masks count as
/// causal ones.
bool lastRowsSeeMost(const MaskShape &mask);

} // namespace attune
