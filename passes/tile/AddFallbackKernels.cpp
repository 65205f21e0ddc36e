//===- AddFallbackKernels.cpp - Fallback kernels for biases that TMA cannot read ---===//
//
//     before                                     after
//     --------------------------------------     -------------------------------------------------------
//     tile.kernel @bias {stage_biases}           tile.kernel @bias_elements {fallback_of = @bias}
//                                                tile.kernel @bias {stage_biases}
//                                                tile.launch @bias [@bias_elements, @bias]
//
// TMA can read only a tensor whose columns are contiguous and whose rows begin at multiples of 16 bytes: a 16-bit bias
// [H, S, S] where S is a multiple of 8, for example. For all other strides the fallback kernel, with the same tiles,
// loads the bias element by element or in pairs, in the lanes that add it. A launch knows the strides of its tensors
// and starts one of the two kernels.
//
// A kernel whose producer warps copied single elements to shared memory instead took 30 times as long as TMA
// (docs/inside/decisions-numerics.md).
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/score/Distances.h"

namespace attune {
#define GEN_PASS_DEF_ADDFALLBACKKERNELS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct AddFallbackKernels : attune::impl::AddFallbackKernelsBase<AddFallbackKernels> {
  using AddFallbackKernelsBase::AddFallbackKernelsBase;

  void runOnOperation() override {
    for (auto kernel : llvm::to_vector(getOperation().getOps<tile::KernelOp>()))
      if (readsWindows(kernel))
        addKernel(kernel);
  }

  /// Whether tile-stage-biases will copy a bias of the kernel to shared memory, as a window.
  static bool readsWindows(tile::KernelOp kernel) {
    return holds<tile::MapOp>(kernel, [](tile::MapOp map) {
      return isa<tile::ForBlocksOp>(map->getParentOp()) &&
             llvm::any_of(map.getBody().getOps<tile::ElementOp>(),
                          [&](tile::ElementOp load) { return isWindow(load, map); });
    });
  }

  void addKernel(tile::KernelOp kernel) {
    tile::KernelOp clone = kernel.clone();
    clone->removeAttr(sched::stageBiasesAttr);
    clone->setAttr(tile::fallbackOfAttr, FlatSymbolRefAttr::get(kernel.getSymNameAttr()));
    // The symbol table makes the name unique in the module.
    clone.setSymName((kernel.getSymName() + "_elements").str());
    SymbolTable(getOperation()).insert(clone, Block::iterator(kernel));
    addToLaunch(clone, kernel);
  }

  /// Inserts `added` before `kernel` in the launch: the last kernel of a launch writes the results and is the one whose
  /// schedule is reported.
  void addToLaunch(tile::KernelOp added, tile::KernelOp kernel) {
    auto own = FlatSymbolRefAttr::get(kernel.getSymNameAttr()), other = FlatSymbolRefAttr::get(added.getSymNameAttr());
    for (auto launch : getOperation().getOps<tile::LaunchOp>()) {
      SmallVector<Attribute> kernels;
      SmallVector<bool> dependent;
      for (auto [name, is] : llvm::zip(launch.getKernels(), launch.getDependent())) {
        if (name == own) {
          kernels.push_back(other);
          dependent.push_back(is);
        }
        kernels.push_back(name);
        dependent.push_back(is);
      }
      launch.setKernelsAttr(ArrayAttr::get(&getContext(), kernels));
      launch.setDependent(dependent);
      return;
    }
    OpBuilder builder(added);
    tile::LaunchOp::create(builder, kernel.getLoc(), StringAttr(), builder.getArrayAttr({other, own}),
                           builder.getDenseBoolArrayAttr({false, false}));
  }
};

} // namespace
