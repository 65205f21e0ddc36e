//===- CloneRegion.h - Clone ops from an attention's regions into a kernel ---===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace attune {

/// Clones `inner`, an op of one of the regions of `op`, into the kernel. The operands of `inner` must be mapped
/// already. Reads of captured tensors, run-time scalars and extents become tile ops. The clone's result is added to
/// `mapping`.
void cloneFromRegion(mlir::OpBuilder &builder, attn::AttentionOp op, mlir::Operation &inner, mlir::IRMapping &mapping);

/// Clones the ops that a value of one of the regions of `op` is computed from, stopping at values that `mapping`
/// already has.
mlir::Value cloneFromRegion(mlir::OpBuilder &builder, attn::AttentionOp op, mlir::Value value,
                            mlir::IRMapping &mapping);

/// Whether `of`, a value of a region, depends on `argument`. Values that `mapping` has already are not followed to their
/// operands.
bool isNeeded(mlir::Value of, mlir::Value argument, const mlir::IRMapping &mapping);

/// The number of keys or queries of sequence `b`, read from the captured tensor `lengths`. Without `lengths` all
/// sequences have the length `capacity`.
mlir::Value lengthOfSequence(mlir::OpBuilder &builder, attn::AttentionOp op, std::optional<llvm::StringRef> lengths,
                             mlir::Value b, mlir::Value capacity, llvm::StringRef name);

/// Declares the operands of `other` that `kernel` reads but does not declare yet, and, for each extent that `kernel`
/// reads, an operand that has this extent.
void declareReads(tile::KernelOp kernel, tile::KernelOp other);

} // namespace attune
