//===- VisitedTiles.cpp - The tiles of a mask for given sizes -------------===//

#include "passes/analysis/mask/Visibility.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

TileSegments attune::evaluateDomain(attn::AttentionOp op, int64_t q0, int64_t qOffset, int64_t Sq, int64_t Sk,
                                    int64_t tileQ, int64_t tileK) {
  auto [begin, fullBegin, fullEnd, end] = Visibility(op, q0, qOffset, Sq, Sk, tileQ, tileK).tiles();
  return {begin.constant, fullBegin.constant, fullEnd.constant, end.constant};
}

VisitedTiles attune::countVisitedTiles(attn::AttentionOp op, int64_t Sq, int64_t Sk, int64_t tileQ, int64_t tileK,
                                       int64_t qOffset) {
  VisitedTiles count;
  for (int64_t q0 = 0; q0 < Sq; q0 += tileQ) {
    TileSegments segments = evaluateDomain(op, q0, qOffset, Sq, Sk, tileQ, tileK);
    int64_t full = std::max<int64_t>(0, segments.fullEnd - segments.fullBegin);
    count.full += full;
    count.partial += std::max<int64_t>(0, segments.end - segments.begin) - full;
    count.all += (Sk + tileK - 1) / tileK;
  }
  return count;
}

std::optional<double> attune::visibleFraction(attn::AttentionOp op, int64_t Sq, int64_t Sk, int64_t tileQ,
                                              int64_t tileK) {
  VisitedTiles count = countVisitedTiles(op, Sq, Sk, tileQ, tileK);
  if (count.all == 0)
    return std::nullopt;
  return double(count.full + count.partial) / double(count.all);
}
