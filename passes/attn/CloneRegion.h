//===- CloneRegion.h - Clone ops from an attention's regions into a kernel ---===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace attune {

/// Clones `inner`, an op of one of the regions of `op`, into the kernel. `mapping` must have the operands of `inner`
/// already, and gets the result of the clone. Reads of captured tensors, run-time scalars and extents become tile ops.
void cloneFromRegion(mlir::OpBuilder &builder, attn::AttentionOp op, mlir::Operation &inner, mlir::IRMapping &mapping);

/// Clones `value`, a value of one of the regions of `op`, together with the ops that compute it, except values that
/// `mapping` already has. Returns the clone of `value`.
mlir::Value cloneFromRegion(mlir::OpBuilder &builder, attn::AttentionOp op, mlir::Value value,
                            mlir::IRMapping &mapping);

/// Whether `of`, a value of a region, depends on `argument` other than through values that `mapping` has already.
bool isNeeded(mlir::Value of, mlir::Value argument, const mlir::IRMapping &mapping);

/// Emits the number of keys or queries of sequence `b`: the element of the captured tensor `lengths`, clamped to 0 ..
/// `capacity`, or `capacity` if there is no such tensor. `name` is the name of the clamped value.
mlir::Value lengthOfSequence(mlir::OpBuilder &builder, attn::AttentionOp op, std::optional<llvm::StringRef> lengths,
                             mlir::Value b, mlir::Value capacity, llvm::StringRef name);

/// Adds to the declarations of `kernel` the operands of `other` that `kernel` reads and does not declare yet. For each
/// axis whose extent `kernel` reads but does not know, adds an operand of `other` that has this axis.
void declareReads(tile::KernelOp kernel, tile::KernelOp other);

} // namespace attune
