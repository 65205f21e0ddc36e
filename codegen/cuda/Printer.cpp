//===- Printer.cpp - CUDA C++ from scheduled IR ---------------------------===//

#include "codegen/cuda/Printer.h"

#include "codegen/cuda/KernelPrinter.h"
#include "codegen/cuda/Primitives.h"

#include <memory>

using namespace attune;
using llvm::ArrayRef;

std::string codegen::kernelSymbol(sched::KernelOp kernel) {
  std::string name = cuda::identifier(kernel.getSymName());
  return cuda::isReservedGlobal(name) ? name + "_kernel" : name;
}

Expected<std::string> codegen::printCuda(ArrayRef<sched::KernelOp> kernels, const PrintOptions &options) {
  const cuda::Declarations declared(kernels);
  std::vector<std::unique_ptr<cuda::KernelPrinter>> printers;
  std::set<std::string, std::less<>> used;
  std::string header;
  cuda::MapMembers maps(kernels);
  cuda::DeviceFunctions functions;
  for (sched::KernelOp kernel : kernels) {
    cuda::KernelPrinter &printer =
        *printers.emplace_back(std::make_unique<cuda::KernelPrinter>(kernel, declared, options, maps, functions));
    if (Expected<void> printed = printer.run(); !printed)
      return printed.error();
    printer.printHeader(header);
    used.insert(printer.usedPrimitives().begin(), printer.usedPrimitives().end());
  }
  std::string out = header;
  printers.front()->printParams(out);
  out += codegen::primitives(used);
  out += functions.text();
  for (auto [i, printer] : llvm::enumerate(printers))
    out += (i ? "\n" : "") + printer->function();
  return out;
}
