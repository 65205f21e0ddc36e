//===- SwizzledLayout.h - How swizzled tiles lie in shared memory ----------===//
//
// Without MLIR, as the cost model counts what passes place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace attune::sched {

/// Bytes of the panels that rows of `rowBytes` are cut into: the widest of 128, 64, ... that divides them.
constexpr int64_t widestPanel(int64_t rowBytes) {
  int64_t panel = 128;
  while (rowBytes % panel)
    panel /= 2;
  return panel;
}

/// A tile with a swizzle starts at a multiple of this many bytes: swizzles repeat within as many.
inline constexpr int64_t swizzledAlignment = 1024;

} // namespace attune::sched
