//===- BoundsKernel.h - Write the kernel that fills the per-tile tables of a mask ---===//
#pragma once

#include "passes/analysis/mask/MaskAnalysis.h"

namespace attune {

/// Declares the operand tile::workCounter: a counter in device memory, from which persistent thread blocks claim their
/// tiles of work.
tile::OperandAttr workCounterOperand(mlir::MLIRContext *context);

/// Writes, after `kernel`, the kernel that fills `tables`, the per-tile tables of the mask of `op`. If `kernel` has a
/// work counter, the written kernel also resets that counter to 0; without tables it does nothing else.
tile::KernelOp writeBoundsKernel(mlir::OpBuilder builder, attn::AttentionOp op, tile::KernelOp kernel,
                                 llvm::ArrayRef<BoundsTable> tables);
/// Writes at `builder` the tile.launch op that starts `kernels` one after another, each by programmatic dependent
/// launch on the previous one. A single kernel gets no launch op.
void writeLaunch(mlir::OpBuilder builder, llvm::ArrayRef<tile::KernelOp> kernels);

} // namespace attune
