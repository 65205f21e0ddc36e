//===- RandomProgram.h - Tile programs drawn at random ----------------------===//
#pragma once

#include "kernels/Kernels.h"

namespace attune::tests {

/// A program and a problem drawn from `seed`: tiles of random sizes in either order of axes, loaded to shared memory or
/// registers; a loop over one axis for a tile of the other; products along any axis of what is in registers and in
/// shared memory; maps with vectors of either axis and coordinates; reductions along either axis, carried or not; tiles
/// stored, accumulated, used in the loop, before and behind it. The problem has no check: what writes its operands is
/// compared with what another target writes.
Program randomProgram(uint64_t seed);

/// Where operands that are written differ by more than rounding: of both, the first, or "".
std::string difference(const std::vector<HostOperand> &expected, const std::vector<HostOperand> &given, double limit);

} // namespace attune::tests
