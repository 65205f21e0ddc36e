//===- CarriedValues.h - What loops carry, whatever kind they are ------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// A value that a loop carries: as the loop's argument, as its result or null where it leaves none, at first, and what
/// it becomes.
struct CarriedValue {
  mlir::Value inside, outside, initial, next;
};

/// Those of an `scf.for` or a `sched.for_tiles` without tiles; none of any other op.
inline llvm::SmallVector<CarriedValue> carriedBy(mlir::Operation *op) {
  llvm::SmallVector<CarriedValue> result;
  if (auto loop = mlir::dyn_cast<mlir::scf::ForOp>(op)) {
    for (auto [argument, outside, initial, next] :
         llvm::zip(loop.getRegionIterArgs(), loop.getResults(), loop.getInitArgs(), loop.getYieldedValues()))
      result.push_back({argument, outside, initial, next});
  } else if (auto tiles = mlir::dyn_cast<sched::ForTilesOp>(op)) {
    for (auto [i, initial] : llvm::enumerate(tiles.getInits()))
      result.push_back({tiles.getBody().getArgument(i), tiles.getKeeps() ? tiles.getKept()[i] : mlir::Value(), initial,
                        tiles.getNext().getValues()[i]});
  }
  return result;
}

} // namespace attune
