//===- TileScores.h - Scores, masks and dropout of a tile, for both passes ----===//
//
// The forward and the backward pass compute the scores x of a tile of queries and keys from S = Q K^T, mask a tile and
// apply dropout by the same functions. The weights P are computed from x by the normaliser's region p.
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

/// Emits the scores x of a tile from s = Q K^T: the softmax scale and then the variant's score expression.
mlir::Value scoreTile(TileWriter &writer, mlir::Value s, TileOrigin origin);
/// Emits a map (elementwise op) that computes `value`, a value of the score region, for each element of s. If `value`
/// is null, the map computes s times the softmax scale.
mlir::Value scoreMap(TileWriter &writer, llvm::StringRef name, mlir::Value s, mlir::Value value, TileOrigin origin);
/// Emits the scores x, computed from `saved`, the value of the score region that the forward pass saved. The product s
/// is read only if x depends on s in another way than through the saved value.
mlir::Value scoreFromSaved(TileWriter &writer, mlir::Value saved, mlir::Value s, TileOrigin origin);
/// Whether x depends on s in another way than through the saved value of the score.
bool readsProductAndSaved(attn::AttentionOp op);
/// Declares the operand of the value `what` ("score" or "dropout") that the forward pass saves for the backward pass.
tile::OperandAttr savedDeclaration(attn::AttentionOp op, llvm::StringRef what, OperandRole role);

inline constexpr float maskedScore = -std::numeric_limits<float>::infinity();

/// Replaces the elements of `tile` for which `visible(q, k)` is false by `masked`, a score or a weight. `from` has the
/// q and k of the first element. Where the flag `onlyIf` is false, the whole tile is left as it is.
mlir::Value hide(TileWriter &writer, mlir::Value tile, TileOrigin from, mlir::Value onlyIf,
                 llvm::function_ref<mlir::Value(mlir::Value q, mlir::Value k)> visible, float masked = maskedScore);
/// Masks the elements of `tile` that are outside of `cut`, a condition of the mask that ends each row's keys at one
/// side, such as q >= k. `looped` is the first index of the tile along the axis that the loop runs over, without the
/// query offset. Where the flag `onlyIf` is false, the tile is left as it is.
mlir::Value hideCut(TileWriter &writer, mlir::Value tile, const BlockValues &block, const MaskCut &cut,
                    TileOrigin origin, mlir::Value looped, mlir::Value onlyIf, float masked = maskedScore);
/// Emits whether (q, k) is visible: all `conjuncts` of the mask must hold and, with `lookUp`, the block pattern must
/// include the position (q, k).
mlir::Value isVisible(TileWriter &writer, llvm::ArrayRef<Conjunct> conjuncts, bool lookUp, mlir::Value q,
                      mlir::Value k);

/// The parameters of dropout. Random numbers are indexed by positions within the sequence and by the head number
/// b * H + h.
struct DropoutValues {
  mlir::Value seed, offset, threshold, head;
};
/// Reads the dropout parameters of the launch. DropoutValues::head of the result is null.
DropoutValues readDropout(TileWriter &writer);
/// Emits b * heads + h for the writer's batch b and head h; `heads` is the number of heads.
mlir::Value headNumber(TileWriter &writer, mlir::Value heads);
/// Sets the dropped elements of a tile to 0 or, with `negates`, negates them. q0 and k0 are the first query and the
/// first key of the tile. With `kept`, the op has a second result, the flags of kept elements.
tile::DropoutOp dropTile(TileWriter &writer, const DropoutValues &dropout, llvm::StringRef name, mlir::Value tile,
                         mlir::Value q0, mlir::Value k0, bool kept = false, bool negates = false);

} // namespace attune
