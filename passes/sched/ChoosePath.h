//===- ChoosePath.h - Which kernels can have producer warps -------------------===//
#pragma once

#include "ir/tile/Tile.h"

#include <string>

namespace attune {

/// The reason why a kernel with `sched.roles` cannot be split into producer and consumer warps; "" if it can.
/// `ordersChosen`: whether tile-place-operands has chosen the row axis of each register tile.
std::string whyNoProducers(tile::KernelOp kernel, bool ordersChosen);

} // namespace attune
