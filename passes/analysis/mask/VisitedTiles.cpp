//===- VisitedTiles.cpp - The tiles of a mask for given sizes -------------===//

#include "passes/analysis/mask/Visibility.h"

using namespace mlir;
using namespace attune;
using namespace attune::mask;

SmallVector<TileSegments> attune::evaluateDomain(attn::AttentionOp op, const MaskSizes &sizes, int64_t first,
                                                 MaskAxis fixed) {
  return llvm::map_to_vector(Visibility(op, fixed, first, sizes).tiles(), [](const VisitedPart &part) {
    return TileSegments{part.begin.constant, part.fullBegin.constant, part.fullEnd.constant, part.end.constant};
  });
}
