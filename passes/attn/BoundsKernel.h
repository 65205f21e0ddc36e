//===- BoundsKernel.h - Write the kernel that fills the per-tile tables of a mask ---===//
#pragma once

#include "passes/analysis/mask/MaskAnalysis.h"

namespace attune {

/// The declaration of the operand tile::workCounter, from which persistent blocks claim work.
tile::OperandAttr workCounterOperand(mlir::MLIRContext *context);

/// Writes, after `kernel`, the kernel that fills the tables of the mask of `op` and resets the work counter of
/// `kernel`, if `kernel` has one, to 0.
tile::KernelOp writeBoundsKernel(mlir::OpBuilder builder, attn::AttentionOp op, tile::KernelOp kernel,
                                 llvm::ArrayRef<BoundsTable> tables);
/// Writes at `builder` the op that launches several kernels one after another, each dependent on the previous one. A
/// single kernel gets no launch op.
void writeLaunch(mlir::OpBuilder builder, llvm::ArrayRef<tile::KernelOp> kernels);

} // namespace attune
