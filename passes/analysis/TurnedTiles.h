//===- TurnedTiles.h - Which tiles go from shared memory to a view with their axes turned ---===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/MapPatterns.h"

namespace attune {

/// Whether what `exchange` puts into shared memory can go from there where `scatter` writes: each warp has 16 rows, in
/// panels of 128 bytes, of the type that the view has, and the last two indices count along columns and rows.
inline bool isTurned(tile::ScatterOp scatter, sched::ExchangeOp exchange) {
  const tile::TileType type = exchange.getTile().getType(), shared = exchange.getResult().getType();
  const tile::ViewType view = scatter.getView().getType();
  auto layout = mlir::dyn_cast_or_null<sched::FragmentAttr>(type.getLayout());
  auto swizzle = mlir::dyn_cast_or_null<sched::SwizzleAttr>(shared.getLayout());
  const size_t rank = scatter.getIndices().size();
  if (scatter.getAdd() || rank < 2 || shared.getElementType() != view.getElementType() || !layout ||
      layout.getRole() != sched::FragmentRole::C || layout.getColumnWarps() != 1 ||
      type.getShape()[0] != 16 * layout.getWarps() || !swizzle || swizzle.getPanel() != 128 ||
      type.getShape()[1] % 64 || shared.getAxes() != type.getAxes())
    return false;
  auto counts = [&](mlir::Value index, unsigned axis, int64_t factor) {
    const std::optional<CountedPlaces> places = countedPlaces(index);
    return places && places->along.axis == type.axis(axis) && isMultipleOf(places->along.origin, factor);
  };
  auto isNumber = [](mlir::Value index) { return !mlir::isa<tile::TileType>(index.getType()); };
  return counts(scatter.getIndices()[rank - 1], 0, 8) && counts(scatter.getIndices()[rank - 2], 1, 1) &&
         llvm::all_of(scatter.getIndices().drop_back(2), isNumber);
}

/// The `tile.scatter` that takes the tile of `scatter` from shared memory, to the same places; null where there is none.
inline tile::ScatterOp turnedOf(tile::ScatterOp scatter) {
  for (mlir::Operation *user : scatter.getTile().getUsers())
    if (auto exchange = mlir::dyn_cast<sched::ExchangeOp>(user))
      for (mlir::Operation *reader : exchange.getResult().getUsers())
        if (auto turned = mlir::dyn_cast<tile::ScatterOp>(reader);
            turned && turned.getView() == scatter.getView() && llvm::equal(turned.getIndices(), scatter.getIndices()))
          return turned;
  return {};
}

} // namespace attune
