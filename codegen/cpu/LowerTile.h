//===- LowerTile.h - A tile.kernel as vector code ---------------------------===//
#pragma once

#include "attune/Error.h"
#include "codegen/cpu/VectorMath.h"
#include "ir/tile/Tile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace attune {

/// The kernel as one LLVM function of the scf, arith, math, vector and llvm dialects.
struct LoweredKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  size_t scratchBytes = 0;
};

Expected<LoweredKernel> lowerTile(tile::KernelOp kernel, const HostVectors &host);

} // namespace attune
