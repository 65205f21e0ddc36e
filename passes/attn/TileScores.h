//===- TileScores.h - Scores, masks and dropout of a tile, for both passes ----===//
//
// The forward and the backward pass compute the scores x of a tile of queries and keys from S = Q K^T, mask a tile and
// apply dropout by the same functions. The weights P are NormaliserWriter::weights.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/mask/MaskAnalysis.h"
#include "passes/attn/TileWriter.h"

#include <limits>

namespace attune {

/// The coordinates of the first query (with the query offset) and of the first key of a tile.
struct TileOrigin {
  mlir::Value q, k;
};

/// The scores x of a tile s = Q K^T.
mlir::Value scoreTile(TileWriter &writer, mlir::Value s, TileOrigin origin);
/// A map that computes `value`, a value of the score region, for each element of s. If `value` is null the map computes
/// the scaled product.
mlir::Value scoreMap(TileWriter &writer, llvm::StringRef name, mlir::Value s, mlir::Value value, TileOrigin origin);
/// The scores x, computed from the saved value of the score region and, where x depends on the product other than
/// through the saved value, from s.
mlir::Value scoreFromSaved(TileWriter &writer, mlir::Value saved, mlir::Value s, TileOrigin origin);
/// Whether x depends on s in another way than through the saved value of the score.
bool readsProductAndSaved(attn::AttentionOp op);
/// The operand of a value that the forward pass saves for the backward pass.
tile::OperandAttr savedDeclaration(attn::AttentionOp op, llvm::StringRef what, OperandRole role);

inline constexpr float maskedScore = -std::numeric_limits<float>::infinity();

/// Replaces the elements of `tile` for which `visible(q, k)` is false by `masked`, a score or a weight. The map is
/// conditional on `onlyIf`; q and k count from `from`.
mlir::Value hide(TileWriter &writer, mlir::Value tile, TileOrigin from, mlir::Value onlyIf,
                 llvm::function_ref<mlir::Value(mlir::Value q, mlir::Value k)> visible, float masked = maskedScore);
/// Applies one cut of the mask to a tile. `looped` is the first index of the tile along the looped axis, without the
/// query offset.
mlir::Value hideCut(TileWriter &writer, mlir::Value tile, const BlockValues &block, const MaskCut &cut,
                    TileOrigin origin, mlir::Value looped, mlir::Value onlyIf, float masked = maskedScore);
/// Emits whether (q, k) is visible: these conjuncts of the mask must hold and, with `lookUp`, the block pattern must
/// include the position (q, k).
mlir::Value isVisible(TileWriter &writer, llvm::ArrayRef<Conjunct> conjuncts, bool lookUp, mlir::Value q,
                      mlir::Value k);

/// The parameters of dropout. Random numbers are indexed by positions within the sequence and by the head number
/// b * H + h.
struct DropoutValues {
  mlir::Value seed, offset, threshold, head;
};
/// Reads the parameters of the launch; the head number remains null.
DropoutValues readDropout(TileWriter &writer);
/// The head number of the writer's batch and head.
mlir::Value headNumber(TileWriter &writer, mlir::Value heads);
/// Sets dropped elements of a tile to 0 or, with `negates`, negates them. With `kept`, the op has a second result, the
/// flags of kept elements.
tile::DropoutOp dropTile(TileWriter &writer, const DropoutValues &dropout, llvm::StringRef name, mlir::Value tile,
                         mlir::Value q0, mlir::Value k0, bool kept = false, bool negates = false);

} // namespace attune
