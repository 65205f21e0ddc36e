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
/// Writes at `builder` the launch of several kernels, each dependent on the one in front of it; none of a single one.
void writeLaunch(mlir::OpBuilder builder, llvm::ArrayRef<tile::KernelOp> kernels);

} // namespace attune
