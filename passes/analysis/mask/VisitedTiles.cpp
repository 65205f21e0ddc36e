//===- VisitedTiles.cpp - The tiles of a mask for given sizes -------------===//

#include "passes/analysis/mask/Visibility.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

TileSegments attune::evaluateDomain(attn::AttentionOp op, const MaskSizes &sizes, int64_t first, MaskAxis fixed) {
  auto [begin, fullBegin, fullEnd, end] = Visibility(op, fixed, first, sizes).tiles();
  return {begin.constant, fullBegin.constant, fullEnd.constant, end.constant};
}

VisitedTiles attune::countVisitedTiles(attn::AttentionOp op, const MaskSizes &sizes, MaskAxis fixed) {
  auto [Sq, Sk, tileQ, tileK, qOffset] = sizes;
  bool keysFixed = fixed == MaskAxis::Keys;
  int64_t rows = keysFixed ? Sk : Sq, step = keysFixed ? tileK : tileQ;
  VisitedTiles count;
  count.all = ((Sq + tileQ - 1) / tileQ) * ((Sk + tileK - 1) / tileK);
  for (int64_t first = 0; first < rows; first += step) {
    TileSegments segments = evaluateDomain(op, sizes, first, fixed);
    int64_t full = std::max<int64_t>(0, segments.fullEnd - segments.fullBegin);
    count.full += full;
    count.partial += std::max<int64_t>(0, segments.end - segments.begin) - full;
  }
  return count;
}

std::optional<double> attune::visibleFraction(attn::AttentionOp op, const MaskSizes &sizes) {
  VisitedTiles count = countVisitedTiles(op, sizes);
  if (count.all == 0)
    return std::nullopt;
  return double(count.full + count.partial) / double(count.all);
}
