//===- GradientAdditions.h - Add a tile's part of the gradients of captured tensors ---===//
//
// CapturedGradients.h says which gradients are summed per row or key, which are scattered, and which are dense.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/attn/backward/TileGradients.h"

namespace attune::backward {

/// Zeros for the sums per row ("q") or per key ("k") of a captured tensor's gradient, before the loop's first tile.
Value noSum(KernelFrame &frame, StringRef axis);
/// The sum `before` plus the values that `add` adds in a tile, reduced over the axis `along`.
Value addedTo(KernelFrame &frame, Value before, const ScoreTile &tile, attn::AddGradientOp add, StringRef along);

/// Adds the values of `add` in a tile to the workspace of `gradient` by atomics. If the tensor's indices depend on b, h
/// and q - k alone, one sum per diagonal is added, else each element.
void scatter(KernelFrame &frame, const ScoreTile &tile, attn::AddGradientOp add, const CapturedGradient &gradient);

/// The gradient of a dense captured tensor. In launches where each element of the tensor belongs to a single batch and
/// head, the loop over tiles writes the gradient directly.
struct DenseGradient {
  const CapturedGradient *of;
  CoordinateDims dims;
  Value view;
};
/// Declares the dense gradients that a loop over tiles writes.
SmallVector<DenseGradient> declareDense(KernelFrame &frame);
/// Stores the elements of the gradients `dense` that belong to the queries and keys of `tile`.
void writeDense(KernelFrame &frame, ArrayRef<DenseGradient> dense, const ScoreTile &tile);

/// `sum` + the values of `add` in a tile, element by element; the values alone where `sum` is null.
Value sumWith(KernelFrame &frame, const ScoreTile &tile, Value sum, attn::AddGradientOp add);
/// Stores `total`, the tile of a dense gradient whose first query and key are q0 and k0. `places` are the tensor's
/// indices for the batch and the head. Elements past the ends of the sequences get index -1 and are not stored.
/// Elements past the ends of the tensor are not stored either; launches check that no visible element lies there.
void storeTile(KernelFrame &frame, Value total, const DenseGradient &gradient, std::array<Value, 2> places, Value q0,
               Value k0);

} // namespace attune::backward
