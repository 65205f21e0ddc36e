//===- BoundsKernel.cpp - The kernel that makes the bounds of tensors -----===//

#include "codegen/cuda/KernelPrinter.h"

#include "attune/LaunchParams.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

void KernelPrinter::printBounds() {
  used.insert("write_bounds");
  std::string text = ("\nextern \"C\" __global__ void __launch_bounds__(" + Twine(boundsBlockThreads) + ")\n" +
                      codegen::kernelSymbol(kernel) + boundsEntrySuffix + "(const __grid_constant__ Params p) {\n")
                         .str();
  if (waitsForLaunch)
    text += "  " + primitive("start_next_launch", {}).text + ";\n";
  text += "  long long entry = (long long)blockIdx.x * " + std::to_string(boundsBlockThreads / 32) +
          " + threadIdx.x / 32;\n";
  if (claimsWork(kernel))
    text += "  // The counter of the claims of work\n"
            "  if (entry == 0)\n"
            "    *static_cast<unsigned *>(p.workspace) = 0;\n";
  for (auto bounds : kernel.getBounds().getAsRange<tile::BoundsAttr>()) {
    std::string tensor = members[(tile::tensorPrefix + bounds.getTensor().getValue()).str()],
                table = members[bounds.getName().str()];
    bool ofKeys = bounds.getAxis().getValue() == "k";
    text += "  // Tiles of " + std::to_string(bounds.getRows()) + (ofKeys ? " keys\n" : " queries\n");
    std::string arguments;
    for (const std::string &name :
         {tensor, tensor + "_stride", tensor + "_extent", table, table + "_stride", table + "_extent"})
      arguments += ", p." + name;
    arguments += (!ofKeys && kernel.getQOffset() ? ", p.q_offset, " : ", 0, ") + extentOf(bounds.getAxis()).text;
    text += wrap("  if (write_bounds<" + std::to_string(tile::boundedTensor(kernel.getTensors(), bounds).getRank()) +
                     ", " + std::to_string(bounds.getDim()) + ", " + std::to_string(bounds.getRows()) + ">(entry" +
                     arguments + "))",
                 2);
    text += "\n    return;\n";
  }
  boundsKernel = text + "}\n";
}

} // namespace attune::codegen::cuda
