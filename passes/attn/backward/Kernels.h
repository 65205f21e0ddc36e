//===- Kernels.h - The kernels of the backward pass, each in a file of its own ---===//
//
//     RowsKernel.cpp             NAME_rows      values per row of queries
//     KeysKernel.cpp             NAME_keys      a tile of keys: a loop over tiles of queries
//                                NAME_values    the same for dV, if it is computed apart from dK
//     QueriesKernel.cpp          NAME_queries   a tile of queries: a loop over tiles of keys
//     DenseGradientKernel.cpp    NAME_grad_T    a tile of a dense captured tensor T: a loop over batches and heads
//     GradientSums.cpp           NAME_grad_T    elements of any other captured tensor T (CapturedGradients.h)
//     GradientZeros.cpp          NAME_zeros_T   clears elements of the gradient of T (CapturedGradients.h)
//
// AttnToTileBackward.cpp decides which kernels there are. Each function writes the body of the kernel `frame`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/attn/backward/KernelFrame.h"

namespace attune::backward {

/// Writes delta and, with a softmax sink or the like (BackwardProgram::hasSink), the row constant L of the weights P =
/// p(x, base(L)); without a sink L is LSE. With `accumulates_dq` also sets the float32 sums of dQ to zero.
void writeRowsKernel(KernelFrame &frame);
/// Converts the float32 sums of dQ in memory to dQ, for a tile of queries.
void writeSumsKernel(KernelFrame &frame);

/// Writes dK and dV of a tile of keys, or with `separate_dv` dK alone. With `accumulates_dq` also adds dQ to float32
/// sums in memory, and writes the dense gradients of captured tensors.
void writeKeysKernel(KernelFrame &frame);
/// Writes dV of a tile of keys.
void writeValuesKernel(KernelFrame &frame);

/// Computes dQ of a tile of queries and those gradients of captured tensors that a loop over keys sums up; with
/// `accumulates_dq` only the captured gradients.
void writeQueriesKernel(KernelFrame &frame);

/// The axes of the grid of writeDenseGradientKernel: the tensor's axes that are indexed by b and h, then q and k.
SmallVector<std::string> gridOfDense(const CapturedGradient &gradient);
/// Writes the gradient of a captured tensor whose indices are q, k and perhaps b and h. The grid has a thread block for
/// each tile of queries and keys, and for each b and h that is an index. A loop runs over the batches and heads that
/// share the tile's elements.
void writeDenseGradientKernel(KernelFrame &frame, const CapturedGradient &gradient);

} // namespace attune::backward
