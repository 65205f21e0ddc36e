//===- Printer.cpp - CUDA C++ from scheduled IR ---------------------------===//

#include "codegen/cuda/Printer.h"

#include "codegen/cuda/KernelPrinter.h"

using namespace attune;

std::string codegen::kernelSymbol(sched::KernelOp kernel) {
  std::string name = cuda::identifier(kernel.getSymName());
  return cuda::isReserved(name) ? name + "_kernel" : name;
}

Expected<std::string> codegen::printCuda(sched::KernelOp kernel, const PrintOptions &options) {
  return cuda::KernelPrinter(kernel, options).run();
}
