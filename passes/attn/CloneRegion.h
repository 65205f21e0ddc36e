//===- CloneRegion.h - Regions of an attention op within a kernel ------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace attune {

/// Copies an op of one of the regions of `op`, whose operands are mapped: reads of captured tensors, run-time scalars
/// and extents become tile ops. Maps the result.
void cloneFromRegion(mlir::OpBuilder &builder, attn::AttentionOp op, mlir::Operation &inner, mlir::IRMapping &mapping);

/// Copies what a value of one of the regions of `op` is computed from, as far as it is not mapped.
mlir::Value cloneFromRegion(mlir::OpBuilder &builder, attn::AttentionOp op, mlir::Value value,
                            mlir::IRMapping &mapping);

/// How many keys or queries sequence `b` has by the captured tensor `lengths`: `capacity`, the extent of all, where sequences
/// have no lengths of their own.
mlir::Value lengthOfSequence(mlir::OpBuilder &builder, attn::AttentionOp op, std::optional<llvm::StringRef> lengths,
                             mlir::Value b, mlir::Value capacity, llvm::StringRef name);

/// Declares operands of `other` that `kernel` reads and has not, and for each extent that it reads one which has it.
void declareReads(tile::KernelOp kernel, tile::KernelOp other);

} // namespace attune
