//===- TilesInEights.h - Which tiles go to the rows of a view by eight elements at once -------===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/MapPatterns.h"

namespace attune {

/// Whether the last index of `scatter` counts along axis `columns` of its tile, from a multiple of eight on, the one before
/// along the other axis, and those before are the same for the whole tile.
inline bool countsInEights(tile::ScatterOp scatter, unsigned columns) {
  const auto indices = scatter.getIndices();
  const size_t rank = indices.size();
  auto counts = [&](mlir::Value index, unsigned axis, int64_t factor) {
    const std::optional<CountedPlaces> places = countedPlaces(index);
    return places && places->along.axis == scatter.getTile().getType().axis(axis) &&
           isMultipleOf(places->along.origin, factor);
  };
  auto isNumber = [](mlir::Value index) { return !mlir::isa<tile::TileType>(index.getType()); };
  return !scatter.getAdd() && rank >= 2 && counts(indices[rank - 1], columns, 8) &&
         counts(indices[rank - 2], 1 - columns, 1) && llvm::all_of(indices.drop_back(2), isNumber);
}

/// Whether the lanes of quads can exchange what they hold of `scatter`'s tile for eight elements of 16 bits side by side.
inline bool isExchangedInEights(tile::ScatterOp scatter) {
  const tile::TileType type = scatter.getTile().getType();
  auto layout = mlir::dyn_cast_or_null<sched::FragmentAttr>(type.getLayout());
  const mlir::Type element = scatter.getView().getType().getElementType();
  return type.rank() == 2 && type.getElementType().isF32() && (element.isBF16() || element.isF16()) && layout &&
         layout.getRole() == sched::FragmentRole::C && type.getShape()[1] / layout.getColumnWarps() % 32 == 0 &&
         countsInEights(scatter, 1);
}

/// Whether TMA can take what `exchange` puts into shared memory to where `scatter` writes: the rows of shared
/// memory are the view's, of its type, in panels of 128 bytes, and the last two indices count along its rows and columns.
inline bool isInBoxes(tile::ScatterOp scatter, sched::ExchangeOp exchange) {
  constexpr int64_t mostRows = 256;
  const tile::TileType type = exchange.getTile().getType(), shared = exchange.getResult().getType();
  const tile::ViewType view = scatter.getView().getType();
  auto swizzle = mlir::dyn_cast_or_null<sched::SwizzleAttr>(shared.getLayout());
  return shared.getAxes() != type.getAxes() && shared.getElementType() == view.getElementType() && swizzle &&
         swizzle.getPanel() == 128 && shared.getShape()[1] % 64 == 0 && shared.getShape()[0] <= mostRows &&
         view.getRank() <= 4 && scatter.getView().getDefiningOp<tile::ParamOp>() &&
         countsInEights(scatter, scatter.getTile().getType().getAxes() == shared.getAxes());
}

} // namespace attune
