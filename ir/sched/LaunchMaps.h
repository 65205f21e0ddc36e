//===- LaunchMaps.h - The tensor maps of a launch ----------------------------===//
//
// The kernels of a launch take one list of tensor maps, in which those alike stand once: the same tensor in boxes and
// panels of the same sizes. The map of a captured tensor, or of its gradient, cannot always be made; a kernel that needs
// it then stays out, and one that takes elements starts in its place (`tile.fallback_of`).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

#include "attune/Kernel.h"

namespace attune::sched {

/// The tensor maps of kernels, in the order of the launch, and there of the ops.
class LaunchMaps {
public:
  explicit LaunchMaps(llvm::ArrayRef<KernelOp> kernels);
  const std::vector<TensorMapParam> &params() const { return maps; }
  /// The place of a kernel's map in the list.
  unsigned numberOf(TensorMapOp map) const;
  /// Bits of the maps of captured tensors and their gradients that `kernel` needs, and those of the kernel in whose
  /// place it starts.
  MapCondition conditionOf(KernelOp kernel) const;

private:
  int32_t optional(KernelOp kernel) const;
  std::vector<TensorMapParam> maps;
};

} // namespace attune::sched
