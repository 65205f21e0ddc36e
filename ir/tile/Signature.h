//===- Signature.h - The launch signature of kernels in the IR ---------------===//
//
//     KernelSignature signature = tile::signatureOf(kernel);
//     size_t at = tile::findView(signature, "k")->offset;
//
// The runtime checks and packs the parameters of a launch by the signature (attune/Kernel.h). Generated code reads its
// parameters at the signature's offsets (attune/LaunchParams.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "attune/Signature.h"
#include "ir/tile/Tile.h"
#include "mlir/IR/BuiltinOps.h"

namespace attune::tile {

/// The dtype for an element type of operands, captured tensors and scalars; i8 and i1 give Bool.
DType dtypeOf(mlir::Type type);

/// The #tile.operand that declares `operand` in the IR.
OperandAttr declarationOf(mlir::MLIRContext *context, const OperandParam &operand);

/// The operands of the forward pass of an attention: q, k, v, o and lse.
std::vector<OperandParam> forwardOperandsOf(attn::AttentionOp op);

/// One kernel of a launch.
struct LaunchedKernel {
  mlir::Operation *op; ///< the kernel, a tile.kernel or sched.kernel
  bool dependent;      ///< whether the kernel may start before the previous kernel has ended
};

/// The kernels of `module` in the order of its tile.launch, or its only kernel if there is no tile.launch. Fails where
/// a module without a tile.launch has no kernel or several kernels.
Expected<llvm::SmallVector<LaunchedKernel>> launchedKernels(mlir::ModuleOp module);

/// The union of the declarations of `kernels`, tile.kernel or sched.kernel ops of one module. Each name occurs once, in
/// the order of first declaration; workspace operands come after all others. The list of tensor maps stays empty;
/// LaunchMaps computes it.
KernelSignature signatureOf(llvm::ArrayRef<mlir::Operation *> kernels);
inline KernelSignature signatureOf(mlir::Operation *kernel) { return signatureOf(llvm::ArrayRef(kernel)); }
/// The signature of the kernels of a launch.
KernelSignature signatureOf(llvm::ArrayRef<LaunchedKernel> kernels);

/// The axes of a kernel's grid.
std::vector<AxisParam> gridOf(mlir::Operation *kernel);
/// The bounds under which a launch skips `kernel` (`tile.skipped_if`).
std::vector<ExtentBound> boundsOf(mlir::Operation *kernel);

/// A view's entry in a signature.
struct Declaration {
  enum Kind { Operand, Tensor } kind;
  size_t index; ///< position within KernelSignature::operands or ::tensors
  int rank;
  size_t offset; ///< byte offset in the packed parameters
};

/// The entry of the view that `tile.param` reads by `name`; nullopt where there is none.
std::optional<Declaration> findView(const KernelSignature &signature, llvm::StringRef name);
/// Byte offset of the run-time scalar that `tile.param` reads by `name`; nullopt where there is none.
std::optional<size_t> findScalar(const KernelSignature &signature, llvm::StringRef name);
/// Byte offset of the extent of `axis`; nullopt where neither an operand nor a captured tensor has the axis.
std::optional<size_t> findExtent(const KernelSignature &signature, llvm::StringRef axis);

} // namespace attune::tile
