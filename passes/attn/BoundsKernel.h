//===- BoundsKernel.h - The kernel that fills tables of bounds ---------------===//
#pragma once

#include "passes/analysis/MaskAnalysis.h"

namespace attune {

/// Declares tile::workCounter.
tile::OperandAttr workCounterOperand(mlir::MLIRContext *context);

/// Writes, behind `kernel`, the kernel that fills the tables of the mask of `op` and sets the work counter of `kernel`, if
/// it has one, to 0.
tile::KernelOp writeBoundsKernel(mlir::OpBuilder builder, attn::AttentionOp op, tile::KernelOp kernel,
                                 llvm::ArrayRef<BoundsTable> tables);
/// The same, and in front of `kernel` the launch of both.
void writeBoundsLaunch(mlir::OpBuilder builder, attn::AttentionOp op, tile::KernelOp kernel,
                       llvm::ArrayRef<BoundsTable> tables);

} // namespace attune
