//===- Parse.cpp - From sched text to CUDA, for the tests -------------------===//

#include "tests/cuda/Parse.h"

#include "codegen/cuda/Printer.h"
#include "ir/tile/Signature.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

attune::Expected<std::string> attune::tests::printText(MLIRContext &context, const std::string &text,
                                                       const std::string &name) {
  context.loadDialect<attn::AttnDialect, tile::TileDialect, sched::SchedDialect, arith::ArithDialect, math::MathDialect,
                      scf::SCFDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context), name);
  if (!module)
    return Error{"the text does not parse"};
  for (auto kernel : module->getOps<sched::KernelOp>())
    return codegen::printCuda(kernel);
  return Error{"the text holds no sched.kernel"};
}

attune::Expected<std::string> attune::tests::printModule(MLIRContext &context, const std::string &text) {
  context.loadDialect<attn::AttnDialect, tile::TileDialect, sched::SchedDialect, arith::ArithDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  if (!module)
    return Error{"the text does not parse"};
  auto kernels = tile::launchedKernels(*module);
  if (!kernels)
    return kernels.error();
  return codegen::printCuda(
      llvm::map_to_vector(*kernels, [](tile::LaunchedKernel kernel) { return cast<sched::KernelOp>(kernel.op); }));
}
