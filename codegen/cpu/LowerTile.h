//===- LowerTile.h - Lowering tile.kernel to vector code --------------------===//
#pragma once

#include "attune/Error.h"
#include "codegen/cpu/VectorMath.h"
#include "ir/tile/Signature.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace attune {

/// The lowered kernels: llvm.func ops with bodies of scf, arith, math, vector and llvm ops.
struct LoweredModule {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<size_t> scratchBytes; ///< bytes of scratch memory that each kernel needs
};

/// Lowers the tile.kernel ops of one launch.
Expected<LoweredModule> lowerTile(llvm::ArrayRef<tile::LaunchedKernel> kernels, const HostVectors &host);

} // namespace attune
