//===- Layout.h - Sizes of layouts, written out apart from the model ----------===//
#pragma once

#include <cstdint>

/// `value` rounded up to a multiple of 16, the rows and columns of a warp's tile.
inline int64_t pad16(int64_t value) { return (value + 15) / 16 * 16; }
