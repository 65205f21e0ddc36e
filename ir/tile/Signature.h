//===- Signature.h - What a kernel's launch passes ---------------------------===//
//
//     KernelSignature signature = tile::signatureOf(kernel);
//     size_t at = tile::findView(signature, "k")->offset;
//
// The signature is what the runtime checks and packs (attune/Kernel.h); generated code finds its parameters at the
// signature's offsets (attune/LaunchParams.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"
#include "ir/tile/Tile.h"
#include "mlir/IR/BuiltinOps.h"

namespace attune::tile {

/// The dtype of a type that operands, captured tensors and scalars may have.
DType dtypeOf(mlir::Type type);

/// The declaration of an operand in the IR.
OperandAttr declarationOf(mlir::MLIRContext *context, const OperandParam &operand);

/// Those of the forward pass of an attention.
std::vector<OperandParam> forwardOperandsOf(attn::AttentionOp op);

/// A kernel of a module as a launch starts it.
struct LaunchedKernel {
  mlir::Operation *op; ///< a tile.kernel or sched.kernel
  bool dependent;
};

/// The kernels of `module` in the order of its tile.launch; without one, its only kernel. The error says what the
/// module has instead.
Expected<llvm::SmallVector<LaunchedKernel>> launchedKernels(mlir::ModuleOp module);

/// What `kernels`, tile.kernel or sched.kernel ops of one module, declare: each name once, in the order of the first to
/// declare it, workspace operands behind all others. Tensor maps and what schedules ask of a launch are not among them.
KernelSignature signatureOf(llvm::ArrayRef<mlir::Operation *> kernels);
inline KernelSignature signatureOf(mlir::Operation *kernel) { return signatureOf(llvm::ArrayRef(kernel)); }
/// That of the kernels of a launch.
KernelSignature signatureOf(llvm::ArrayRef<LaunchedKernel> kernels);

/// The axes of a kernel's grid.
std::vector<AxisParam> gridOf(mlir::Operation *kernel);
std::vector<ExtentBound> boundsOf(mlir::Operation *kernel);

/// A parameter's declaration in a signature.
struct Declaration {
  enum Kind { Operand, Tensor } kind;
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
