//===- LowerTile.h - A tile.kernel as vector code ---------------------------===//
#pragma once

#include "attune/Error.h"
#include "codegen/cpu/VectorMath.h"
#include "ir/tile/Signature.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace attune {

/// Kernels as LLVM functions of the scf, arith, math, vector and llvm dialects.
struct LoweredModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<size_t> scratchBytes; ///< of each kernel
};

/// `kernels` are the tile.kernel ops of one launch.
Expected<LoweredModule> lowerTile(llvm::ArrayRef<tile::LaunchedKernel> kernels, const HostVectors &host);

} // namespace attune
