//===- CapturedGradients.h - Gradients of captured tensors ---------------------===//
//
// Each attn.add_gradient adds a value for every (b, h, q, k), or for every (b, h, q), to an element of a captured tensor.
// What its indices follow from says how the additions are done:
//
//     | indices follow from       | e.g.                      | by the loops over tiles    | behind them               |
//     |---------------------------|---------------------------|----------------------------|---------------------------|
//     | b, h, q: not k            | slopes[h], bias[type[q]]  | a sum for each (b, h, q)   | one ordered sum of them   |
//     | b, h, k: not q            | bias[b, k]                | a sum for each (b, h, k)   | for each element          |
//     | q and k, each an index    | bias[h, q, k]             | a kernel of its own, a block for each tile of the        |
//     |                           |                           | tensor, a loop over the b and h that it leaves out; or   |
//     |                           |                           | by the loop itself, in a launch that leaves none out     |
//     | q and k in any other way  | table[h, bucket[q, k]]    | atomic additions to float32 in the workspace, then       |
//     |                           |                           | one conversion                                           |
//     | q - k                     | table[h, q - k + n]       | the same of sums along the diagonals of a warp's rows    |
//     | both, deterministic       |                           | atomic additions to long accumulators (LongAccumulator.h)|
//     |                           |                           | in the workspace, then the ordered sum of their words    |
//
// The first three are sums in an order of their own, and of the last one no order shows: all but the fourth and the fifth
// are the same bits in every launch. Addends that are not finite come out as in any sum: inf, or NaN where there is a NaN, or inf and -inf.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"

namespace attune {

/// What the loops leave of one attn.add_gradient: a float32 for each query of each head, or for each key.
struct GradientSum {
  attn::AddGradientOp add;
  bool ofKeys;
  std::string name; ///< of the workspace operand

  /// [b, h, q] or [b, h, k]
  tile::OperandAttr declaration() const;
};

/// How the gradient of one captured tensor is formed.
struct CapturedGradient {
  attn::CapturedTensorAttr tensor;
  llvm::SmallVector<GradientSum> sums;
  llvm::SmallVector<attn::AddGradientOp> tiles; ///< each index is one coordinate, q and k among them: then nothing else
  llvm::SmallVector<attn::AddGradientOp> scattered; ///< by atomic additions
  bool inAnyOrder = false;                          ///< scattered to long accumulators, whose bits no order changes

  /// The gradient itself, in the tensor's shape and element type.
  tile::OperandAttr declaration() const;
  /// Its float32 in the workspace, or words of i64 in front of its own dimensions, to which elements are scattered.
  tile::OperandAttr addends() const;
  /// The extent of a dimension, as kernels name the axis.
  std::string axis(unsigned dim) const;
};

/// Of all tensors that an attention takes the gradients of. Fails, with an error where the tensor is read, where one
/// cannot be formed as asked for.
mlir::FailureOr<llvm::SmallVector<CapturedGradient>> planCapturedGradients(attn::AttentionOp op);

/// The coordinates b, h, q and k among the arguments of the region of gradients around `add`; null where it takes none.
std::array<mlir::Value, 4> coordinatesAround(attn::AddGradientOp add);
/// The first axis of a tensor's long accumulators (LongAccumulator.h).
inline constexpr llvm::StringLiteral wordAxis = "word";

/// Which coordinate (0 to 3: b, h, q, k) an index is; nothing where it is something else.
std::optional<unsigned> coordinateOf(attn::AddGradientOp add, mlir::Value index);
/// Whether the indices follow from b, h and q - k.
bool followsFromDistance(attn::AddGradientOp add);
/// Of these: whether no index counts with q - k, so that many distances have one place (buckets).
bool sharesPlaces(attn::AddGradientOp add);
/// Whether an index follows from b and h alone.
bool isOfHead(attn::AddGradientOp add, mlir::Value index);
/// `index` at these coordinates (those that it follows from), limited to [0, extent), as i32.
mlir::Value placeOf(mlir::OpBuilder &builder, attn::AddGradientOp add, mlir::Value index, mlir::Value extent,
                    const std::array<mlir::Value, 4> &coordinates);
/// The dimension that each of b, h, q and k is the index of.
using CoordinateDims = std::array<std::optional<unsigned>, 4>;
/// Of an addition each index of which is a coordinate.
CoordinateDims dimsOfTile(attn::AddGradientOp add);

/// Whether a loop over tiles can write a gradient that is formed by tiles, where no batches and heads share an element: b or
/// h is an index, whose place says that it does not where they do.
bool isWrittenByLoop(const CapturedGradient &gradient);
/// Whether no batches and heads share an element in a launch of `counts` of b and h: each is an index that the tensor's
/// extent does not clamp, or 1. `extentOf` gives the extent of a dimension.
mlir::Value isUnshared(mlir::OpBuilder &builder, mlir::Location loc, const CapturedGradient &gradient,
                       std::array<mlir::Value, 2> counts, llvm::function_ref<mlir::Value(unsigned dim)> extentOf);

/// The kernel that adds up the sums and what was scattered, and writes the gradient. `like` is a kernel of the launch, of
/// which it has scalars, tensors and the operands whose extents it reads.
tile::KernelOp writeGradientKernel(attn::AttentionOp op, const CapturedGradient &gradient, tile::KernelOp like);
/// The kernel that sets what is scattered to, to zero; or, of a gradient that is formed by tiles, what lies beyond the
/// sequences.
tile::KernelOp writeZerosKernel(attn::AttentionOp op, const CapturedGradient &gradient, tile::KernelOp like);

} // namespace attune
