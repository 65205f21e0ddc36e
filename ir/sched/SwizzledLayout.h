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

/// Bytes of a row of `rowBytes` in whole panels.
constexpr int64_t paddedToPanels(int64_t rowBytes, int64_t panel) { return (rowBytes + panel - 1) / panel * panel; }

/// The panel for rows of `rowBytes` that TMA brings. It takes twice as long for panels of half the width,
/// which boxes of 32 bytes show in full, and of 64 little; wider ones may leave room behind a row:
///
///     | columns of bf16 | 16 | 32 | 48  | 64  | 80     | 96     | 112     | 128 | 144     | 160     | 176     | 192 |
///     |-----------------|----|----|-----|-----|--------|--------|---------|-----|---------|---------|---------|-----|
///     | panel           | 32 | 64 | 128 | 128 | 64     | 64     | 128     | 128 | 64      | 64      | 128     | 128 |
///     | bytes of a row  | 32 | 64 | 128 | 128 | 192    | 192    | 256     | 256 | 320     | 320     | 384     | 384 |
///
/// A box starts at a multiple of 128 bytes of shared memory: tiles to which single rows are copied have panels of 128.
constexpr int64_t panelForBoxes(int64_t rowBytes, bool singleRows = false) {
  if (singleRows)
    return 128;
  const int64_t at128 = 100 * paddedToPanels(rowBytes, 128), at64 = 112 * paddedToPanels(rowBytes, 64),
                at32 = 150 * paddedToPanels(rowBytes, 32);
  return at128 <= at64 && at128 <= at32 ? 128 : at64 <= at32 ? 64 : 32;
}

/// A tile with a swizzle starts at a multiple of this many bytes: swizzles repeat within as many.
inline constexpr int64_t swizzledAlignment = 1024;

/// Bytes of a row in whole panels of boxes.
constexpr int64_t boxRowBytes(int64_t rowBytes, bool singleRows = false) {
  return paddedToPanels(rowBytes, panelForBoxes(rowBytes, singleRows));
}

} // namespace attune::sched
