//===- CapturedGradients.h - Gradients of captured tensors ---------------------===//
//
// Each attn.add_gradient adds a value for every (b, h, q, k), or for every (b, h, q), to an element of a captured
// tensor. The values that the tensor's indices depend on decide how the additions are done:
//
//     | indices depend on         | e.g.                      | in the loops over tiles  | after the loops           |
//     |---------------------------|---------------------------|--------------------------|---------------------------|
//     | b, h, q: not k            | slopes[h], bias[type[q]]  | a sum for each (b, h, q) | one ordered sum of these  |
//     | b, h, k: not q            | bias[b, k]                | a sum for each (b, h, k) | for each element          |
//     | q and k, each an index    | bias[h, q, k]             | a kernel of its own: a thread block for each tile of |
//     |                           |                           | the tensor, a loop over b and h if no index is b, h; |
//     |                           |                           | or the main loop, if no element has several b or h   |
//     | q and k in any other way  | table[h, bucket[q, k]]    | atomic additions to float32 in the workspace, then   |
//     |                           |                           | one conversion                                       |
//     | q - k                     | table[h, q - k + n]       | atomic additions, one for each diagonal of a warp's  |
//     |                           |                           | rows, to float32 as above; then one conversion       |
//     | the last two rows,        |                           | atomic additions to long accumulators                |
//     | deterministic             |                           | (LongAccumulator.h), then an ordered sum of words    |
//
// Every launch gives the same bits, except for the atomic additions to float32 in rows four and five: rows one to three
// sum in a fixed order, and long accumulators do not depend on the order. Infinities and NaN propagate as in any sum.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/attn/TileWriter.h"

namespace attune {

/// The partial sums that one attn.add_gradient keeps in the workspace: a float32 for each (b, h, q), or for each (b, h,
/// k).
struct GradientSum {
  attn::AddGradientOp add;
  bool ofKeys;
  std::string name; ///< name of the workspace operand

  /// The workspace operand, [b, h, q] or [b, h, k].
  tile::OperandAttr declaration() const;
};

/// How the gradient of one captured tensor is computed.
struct CapturedGradient {
  attn::CapturedTensorAttr tensor;
  llvm::SmallVector<GradientSum> sums;
  /// all additions to the gradient, if they have the same indices, each index is one of b, h, q and k, and both q and k
  /// are indices; empty otherwise. If this list is not empty, the other lists are.
  llvm::SmallVector<attn::AddGradientOp> tiles;
  llvm::SmallVector<attn::AddGradientOp> scattered; ///< additions that are done atomically
  bool inAnyOrder = false;                          ///< scattered to long accumulators: any order gives the same bits

  /// The operand of the gradient itself, in the tensor's shape and element type.
  tile::OperandAttr declaration() const;
  /// The workspace operand of `scattered`: float32 in the tensor's shape or, with `inAnyOrder`, i64 with the words of
  /// the accumulator as an additional first axis.
  tile::OperandAttr addends() const;
  /// The name in kernels of the axis whose extent is the tensor's dimension `dim`.
  std::string axis(unsigned dim) const;
};

/// Plans the gradients of all tensors that an attention requests. Fails, with an error at the read of the tensor, if a
/// requested gradient is not supported.
mlir::FailureOr<llvm::SmallVector<CapturedGradient>> planCapturedGradients(attn::AttentionOp op);

/// The arguments b, h, q and k of the gradient region around `add`; null for those that the region does not take.
std::array<mlir::Value, 4> coordinatesAround(attn::AddGradientOp add);
/// The first axis of a tensor's long accumulators (LongAccumulator.h).
inline constexpr llvm::StringLiteral wordAxis = "word";

/// Which coordinate (0 to 3 for b, h, q, k) an index of the tensor is; nullopt for any other index.
std::optional<unsigned> coordinateOf(attn::AddGradientOp add, mlir::Value index);
/// Whether the indices depend on b, h and q - k alone.
bool followsFromDistance(attn::AddGradientOp add);
/// For additions with followsFromDistance: whether no index is linear in q - k. Many values of q - k may then address
/// the same element, as with T5 buckets.
bool sharesPlaces(attn::AddGradientOp add);
/// Whether an index depends on b and h alone.
bool isOfHead(attn::AddGradientOp add, mlir::Value index);
/// Emits the value of `index` at the coordinates b, h, q and k, clamped to [0, extent), as i32. A coordinate that
/// `index` does not read may be null.
mlir::Value placeOf(mlir::OpBuilder &builder, attn::AddGradientOp add, mlir::Value index, mlir::Value extent,
                    const std::array<mlir::Value, 4> &coordinates);
/// The tensor dimension that each of b, h, q and k indexes.
using CoordinateDims = std::array<std::optional<unsigned>, 4>;
/// The tensor dimensions indexed by the coordinates, for an addition whose indices are all coordinates.
CoordinateDims dimsOfTile(attn::AddGradientOp add);

/// Whether the main loop over tiles can write the gradient directly: CapturedGradient::tiles is non-empty, and b or h
/// is an index. In launches where several batches or heads add to one element, the loop sets that index to -1 and so
/// stores nothing.
bool isWrittenByLoop(const CapturedGradient &gradient);
/// Emits whether no two (batch, head) pairs of a launch add to the same element: each of b and h is an index that the
/// tensor's extent does not clamp, or has the count 1. `counts` are the numbers of batches and heads; `extentOf`
/// returns the extent of a dimension.
mlir::Value isUnshared(TileWriter &writer, const CapturedGradient &gradient, std::array<mlir::Value, 2> counts,
                       llvm::function_ref<mlir::Value(unsigned dim)> extentOf);

/// Writes the kernel that adds up the sums and the scattered values, and stores the gradient. `like` is a kernel of the
/// launch: declarations of scalars, tensors and the operands whose extents are read are copied from `like`.
tile::KernelOp writeGradientKernel(attn::AttentionOp op, const CapturedGradient &gradient, tile::KernelOp like);
/// Writes the kernel that clears memory before the others run: the workspace of scattered values, or, for a gradient
/// with CapturedGradient::tiles, the elements that no query and key of the sequences addresses.
tile::KernelOp writeZerosKernel(attn::AttentionOp op, const CapturedGradient &gradient, tile::KernelOp like);

} // namespace attune
