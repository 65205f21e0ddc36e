//===- VisitedTiles.h - Counts the tiles of S that a plan visits ------------===//
#pragma once

#include "passes/analysis/cost/CostModel.h"

#include <optional>

namespace attune {

/// Counts over all row tiles of one head.
struct TileCount {
  double visited = 0;                      ///< visited tiles of S
  double partial = 0;                      ///< visited tiles that evaluate the mask
  double keyRows = 0;                      ///< rows of K read, counted once for each row tile that reads them
  double longest = 0;                      ///< the most tiles that one row tile visits
  std::optional<double> distinctKeys = {}; ///< different rows of K that are read; unset: about all of them
};

/// Counts the tiles of tileQ x tileK for the request's mask and lengths. The counts are expected values for
/// MaskShape::Fraction, for MaskShape::Rows at lengths without an element of `rows`, and for request.tiles at lengths
/// other than those of the map. All other counts are exact, for request.tiles if the map's tile sizes divide tileQ and
/// tileK.
TileCount countTiles(const PlanRequest &request, int64_t tileQ, int64_t tileK);

/// Whether the last rows see clearly more keys than the first rows. The tile scheduler then starts with the last row
/// tiles, so that short tiles fill the gaps at the end of the kernel. Otherwise adjacent row tiles, which read the same
/// keys, run at the same time. Unknown masks count as causal.
bool lastRowsSeeMost(const MaskShape &mask);
/// Whether clearly more rows see the first half of the keys than the second half. Unknown masks count as causal.
bool firstKeysAreSeenMost(const MaskShape &mask);

} // namespace attune
