//===- GradientKernelWriter.h - Base class for kernels over the elements of a captured tensor ---===//
//
// GradientSums.cpp writes kernels that add up a captured tensor's gradient. GradientZeros.cpp writes kernels that clear
// those elements of a gradient that no other kernel writes. Both derive from this class.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/attn/TileWriter.h"
#include "passes/attn/backward/CapturedGradients.h"

namespace attune {

/// Writes one kernel whose thread blocks compute on tiles of 128 rows.
class GradientKernelWriter : protected TileWriter {
public:
  GradientKernelWriter(attn::AttentionOp op, const CapturedGradient &gradient, tile::KernelOp like)
      : TileWriter(op), gradient(gradient), like(like), rank(unsigned(gradient.tensor.getRank())) {}

protected:
  /// Begins a kernel whose grid covers the operand `over`. The last axes of `over` are the tensor's dimensions; a
  /// thread block takes `by[dim]` elements of dimension `dim`, and its tiles have `columns` columns. The caller writes
  /// the body next.
  void begin(const llvm::Twine &suffix, tile::OperandAttr over, llvm::ArrayRef<int64_t> by, int64_t columns) {
    builder.setInsertionPoint(op);
    llvm::SmallVector<mlir::Attribute> grid(over.getAxes().begin(), over.getAxes().end());
    for (unsigned dim = 0; dim < rank; ++dim)
      grid[grid.size() - rank + dim] = axis(gradient.axis(dim), 0, by[dim]);
    auto plan =
        tile::PlanAttr::make(builder.getContext(), {{"q", blockRows}, {"k", columns}}, warps, /*blocksPerSm=*/1);
    kernel = tile::KernelOp::create(builder, (op.getSymName() + suffix + gradient.tensor.getName().getValue()).str(),
                                    builder.getArrayAttr({}), builder.getArrayAttr(grid), op.getDtype(), plan,
                                    op.getTensorsAttr(), op.getScalarsAttr(), attn::BlockPatternAttr(), false,
                                    op.getPrecise(), op.getQOffset());
    if (mlir::Attribute sequences = op.getSequencesAttr())
      kernel->setAttr(tile::sequencesAttr, sequences);
    builder.createBlock(&kernel.getBody());
  }

  tile::KernelOp end() {
    kernel.setOperandsAttr(builder.getArrayAttr(operands));
    declareReads(kernel, like);
    return kernel;
  }

  mlir::Value declare(tile::OperandAttr operand) {
    operands.push_back(operand);
    return param(operand);
  }

  mlir::Value positive(mlir::Value a) { return mlir::arith::MaxSIOp::create(builder, a, number(0)); }
  /// The extent of dimension `dim` of the tensor.
  mlir::Value extentOf(unsigned dim) { return axisExtent(gradient.axis(dim), "extent" + llvm::Twine(dim)); }
  mlir::Value indexOf(unsigned dim) { return blockIndex(gradient.axis(dim), "i" + llvm::Twine(dim)); }
  /// The extents of b, h, q and k.
  std::array<mlir::Value, 4> coordinateExtents() {
    return {axisExtent("b", "B"), axisExtent("h", "H"), axisExtent("q", "Sq"), axisExtent("k", "Sk")};
  }

  const CapturedGradient &gradient;
  tile::KernelOp like, kernel;
  unsigned rank;
  static constexpr int64_t warps = 8, blockRows = 16 * warps;
  llvm::SmallVector<mlir::Attribute> operands;
};

} // namespace attune
