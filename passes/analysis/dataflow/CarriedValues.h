//===- CarriedValues.h - Loop-carried values of scf.for and sched.for_tiles --===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// A loop-carried value: the block argument `inside`, the loop's result `outside` (null where the loop does not return
/// the value), the `initial` value, and the yielded `next` value.
struct CarriedValue {
  mlir::Value inside, outside, initial, next;
};

/// The carried values of an `scf.for` or of a `sched.for_tiles` that carries no tiles; empty for any other op.
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
