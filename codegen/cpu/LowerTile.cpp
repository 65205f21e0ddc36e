//===- LowerTile.cpp - Lowering tile.kernel to vector code ----------------===//

#include "codegen/cpu/LowerTile.h"

#include "codegen/cpu/Lowering.h"

namespace attune::cpu {

Expected<size_t> Lowering::run() {
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer, i32, pointer});
  auto function = LLVM::LLVMFuncOp::create(b, kernel.getSymName(), type);
  entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  LLVM::ReturnOp::create(b, ValueRange{});
  b.setInsertionPointToStart(entry);
  params = entry->getArgument(0);
  blockId = entry->getArgument(1);
  scratch = entry->getArgument(2);
  findLaneAxis();
  findNeededOrders();
  // atStart inserts the reads of launch parameters before paramEnd, so that these reads dominate all other code.
  paramEnd = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
  b.setInsertionPoint(entry->getTerminator());
  lowerBlock(kernel.getBody().front());
  if (!problem.empty())
    return Error{problem};
  return size_t(std::max<int64_t>(scratchEnd, cacheLine));
}

void Lowering::fail(Operation *op, const Twine &reason) {
  if (problem.empty())
    problem = ("the cpu target cannot compile '" + op->getName().getStringRef() + "': " + reason).str();
}

} // namespace attune::cpu

attune::Expected<attune::LoweredModule> attune::lowerTile(llvm::ArrayRef<tile::LaunchedKernel> kernels,
                                                          const HostVectors &host) {
  const KernelSignature signature = tile::signatureOf(kernels);
  LoweredModule lowered;
  lowered.module = mlir::ModuleOp::create(kernels.front().op->getLoc());
  for (tile::LaunchedKernel kernel : kernels) {
    Expected<size_t> bytes =
        cpu::Lowering(mlir::cast<tile::KernelOp>(kernel.op), signature, *lowered.module, host).run();
    if (!bytes)
      return bytes.error();
    lowered.scratchBytes.push_back(*bytes);
  }
  return lowered;
}
