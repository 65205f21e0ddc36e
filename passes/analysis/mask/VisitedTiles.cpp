//===- VisitedTiles.cpp - Evaluates the visited tiles of a mask for given sizes ===//

#include "passes/analysis/mask/Visibility.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

SmallVector<Conjunct> attune::looseConjuncts(attn::AttentionOp op, MaskAxis fixed) {
  // Conjuncts are classified for a row near the middle of the longest sequence.
  const MaskSizes longest = {.Sq = maxExtent, .Sk = maxExtent, .tileQ = 1, .tileK = 1};
  return Visibility(op, fixed, maxExtent / 2 + 12345, longest).rowConjuncts().loose;
}

SmallVector<TileSegments> attune::evaluateDomain(attn::AttentionOp op, const MaskSizes &sizes, int64_t first,
                                                 ArrayRef<Conjunct> loose, MaskAxis fixed) {
  SmallVector<TileSegments> parts =
      llvm::map_to_vector(Visibility(op, fixed, first, sizes).tiles(), [](const VisitedPart &part) {
        return TileSegments{part.begin.constant, part.fullBegin.constant, part.fullEnd.constant, part.end.constant};
      });
  if (loose.empty())
    return parts;
  SmallVector<TileSegments> asked;
  for (const TileSegments &part : parts)
    for (int64_t tile = part.begin; tile < part.end; ++tile) {
      Visibility ofTile(op, fixed, first, sizes, tile);
      if (!ofTile.isPossible(loose))
        continue;
      const bool full = tile >= part.fullBegin && tile < part.fullEnd;
      if (!asked.empty() && asked.back().end == tile && full == (asked.back().fullBegin < asked.back().fullEnd)) {
        asked.back().end = tile + 1;
        asked.back().fullEnd = full ? tile + 1 : asked.back().fullEnd;
      } else {
        asked.push_back({tile, tile, full ? tile + 1 : tile, tile + 1});
      }
    }
  return asked;
}
