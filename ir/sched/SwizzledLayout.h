//===- SwizzledLayout.h - Sizes of swizzled tiles in shared memory ---------===//
//
// A swizzled tile is split into panels: slices of 32, 64 or 128 bytes of its rows, stored row after row. This header
// has no MLIR types, so that passes and the cost model compute the same sizes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace attune::sched {

/// The panel width in bytes for rows of `rowBytes`: the widest of 128, 64, ... that divides `rowBytes`.
constexpr int64_t widestPanel(int64_t rowBytes) {
  int64_t panel = 128;
  while (rowBytes % panel)
    panel /= 2;
  return panel;
}

/// Bytes that a row of `rowBytes` takes in shared memory: rounded up to whole panels of `panel` bytes.
constexpr int64_t paddedToPanels(int64_t rowBytes, int64_t panel) { return (rowBytes + panel - 1) / panel * panel; }

/// The panel width in bytes for a tile that TMA copies, with rows of `rowBytes`. Narrow panels make the copy slower:
/// panels of 64 bytes slightly slower than panels of 128, panels of 32 up to twice as slow as panels of 64. Wide panels
/// may pad the row with unused bytes. The function weighs both:
///
///     | columns of bf16 | 16 | 32 | 48  | 64  | 80     | 96     | 112     | 128 | 144     | 160     | 176     | 192 |
///     |-----------------|----|----|-----|-----|--------|--------|---------|-----|---------|---------|---------|-----|
///     | panel           | 32 | 64 | 128 | 128 | 64     | 64     | 128     | 128 | 64      | 64      | 128     | 128 |
///     | bytes of a row  | 32 | 64 | 128 | 128 | 192    | 192    | 256     | 256 | 320     | 320     | 384     | 384 |
constexpr int64_t panelForBoxes(int64_t rowBytes) {
  const int64_t at128 = 100 * paddedToPanels(rowBytes, 128), at64 = 112 * paddedToPanels(rowBytes, 64),
                at32 = 150 * paddedToPanels(rowBytes, 32);
  return at128 <= at64 && at128 <= at32 ? 128 : at64 <= at32 ? 64 : 32;
}

/// Alignment in bytes of a swizzled tile, as the swizzle pattern repeats every 1024 bytes.
inline constexpr int64_t swizzledAlignment = 1024;

/// Bytes that a row of `rowBytes` takes in a tile that TMA copies: rounded up to whole panels (swizzled slices of the
/// row) of panelForBoxes.
constexpr int64_t boxRowBytes(int64_t rowBytes) { return paddedToPanels(rowBytes, panelForBoxes(rowBytes)); }

} // namespace attune::sched
