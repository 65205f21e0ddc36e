//===- Signature.h - What a kernel's launch passes ---------------------------===//
//
//     KernelSignature signature = tile::signatureOf(kernel);
//     size_t at = signature.operandOffset(*tile::operandIndex(signature, "k"));
//
// The signature is what the runtime checks and packs (attune/Kernel.h); generated code finds its parameters at the
// signature's offsets (attune/LaunchParams.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"
#include "ir/tile/Tile.h"

namespace attune::tile {

/// The dtype of a type that operands, captured tensors and scalars may have.
DType dtypeOf(mlir::Type type);

/// The declarations of `kernel`, a tile.kernel or sched.kernel. Tensor maps and what schedules ask of a launch are not
/// among them.
KernelSignature signatureOf(mlir::Operation *kernel);

/// A parameter's declaration in a signature.
struct Declaration {
  enum Kind { Operand, Tensor, Bounds } kind;
  size_t index; ///< among those of its kind
  int rank;
  size_t offset; ///< in the packed parameters
};

/// That of the view which `tile.param` reads by `name`; nothing where there is none.
std::optional<Declaration> findView(const KernelSignature &signature, llvm::StringRef name);
/// Where the run-time scalar lies that `tile.param` reads by `name`; nothing where there is none.
std::optional<size_t> findScalar(const KernelSignature &signature, llvm::StringRef name);
/// Where the extent of an axis lies; nothing where no operand has it.
std::optional<size_t> findExtent(const KernelSignature &signature, llvm::StringRef axis);

} // namespace attune::tile
