//===- BoundsKernel.h - The kernel that fills tables of bounds ---------------===//
#pragma once

#include "passes/analysis/MaskAnalysis.h"

namespace attune {

/// Declares tile::workCounter.
tile::OperandAttr workCounterOperand(mlir::MLIRContext *context);

/// Writes, behind `kernel`, the kernel that fills the tables of the mask of `op` and sets its work counter, if it has
/// one, to 0, and in front of it the launch of both.
void writeBoundsKernel(mlir::OpBuilder builder, attn::AttentionOp op, tile::KernelOp kernel,
                       llvm::ArrayRef<BoundsTable> tables);

} // namespace attune
