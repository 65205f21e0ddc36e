//===- LaunchMaps.h - The tensor maps of a launch ----------------------------===//
//
// The kernels of a launch share one list of tensor maps. Equal maps occur once: maps of the same tensor with boxes of the same
// size and the same swizzle. A launch cannot always create the map of a captured tensor (which the user's formulas read)
// or of its gradient, for example if strides are unaligned. A kernel that needs such a map is then replaced by its
// fallback kernel, which accesses single elements (`tile.fallback_of`).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

#include "attune/Signature.h"

namespace attune::sched {

/// The list of tensor maps of a launch, in the order of the kernels and, within a kernel, of its ops.
class LaunchMaps {
public:
  explicit LaunchMaps(llvm::ArrayRef<KernelOp> kernels);
  const std::vector<TensorMapParam> &params() const { return maps; }
  /// The index, in the launch's list of tensor maps, of the tensor map that `map` reads.
  unsigned numberOf(TensorMapOp map) const;
  /// The condition under which a launch starts `kernel`: two bit masks over the tensor maps of captured tensors and of
  /// their gradients. The first mask has the maps that `kernel` needs. The second, for a fallback kernel, has the maps
  /// that are needed by the kernel which the fallback replaces.
  MapCondition conditionOf(KernelOp kernel) const;

private:
  int32_t optional(KernelOp kernel) const;
  std::vector<TensorMapParam> maps;
};

} // namespace attune::sched
