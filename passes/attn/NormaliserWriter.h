//===- NormaliserWriter.h - Emit a normaliser's regions in kernels --------===//
//
// A normaliser such as softmax is defined in attn.attention by row statistics (a maximum and a sum) and by expressions:
// the base and the rescaling factor of the statistics, the weight p of a score, the divisor and the LSE. Kernels that
// visit tiles of keys, and the kernel that combines splits, emit these expressions with the functions below.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/attn/TileWriter.h"

#include <map>

namespace attune {

struct NormaliserWriter : TileWriter {
  using TileWriter::TileWriter;

  llvm::SmallVector<attn::RowStatisticAttr> statistics() {
    return llvm::to_vector(op.getStatistics().getAsRange<attn::RowStatisticAttr>());
  }
  /// A float constant. It is created once per value and, inside a loop over tiles, before the loop.
  mlir::Value floatConstant(float value);
  /// The initial value of a statistic, before any key.
  mlir::Value initialOf(attn::RowStatisticAttr statistic) {
    return floatConstant(statistic.getInitial().getValue().convertToFloat());
  }
  /// A map (elementwise op) that evaluates `region`, one of the normaliser's expressions. `values` are the region's
  /// arguments after the batch and the head. `finish` computes the map's element from the region's result.
  mlir::Value mapByRegion(
      llvm::StringRef name, mlir::Type type, mlir::Region &region, mlir::ValueRange values,
      llvm::function_ref<mlir::Value(mlir::Value)> finish = [](mlir::Value result) { return result; });
  /// The factor that turns the accumulator into O: 1 / divisor, 0 where the divisor is 0, times dropout's `keepScale`
  /// if that is not null. Without a divisor the result is `keepScale`, which may be null.
  mlir::Value inverseOf(mlir::ValueRange statistics, mlir::Value keepScale);

  mlir::Value row0; ///< first row of the tile; read only for packed groups

private:
  std::map<uint32_t, mlir::Value> floats; ///< keys are the bits of the floats
};

} // namespace attune
