//===- TilesInEights.h - Scatters that store eight adjacent elements, or whole boxes, at once -------===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/score/MapPatterns.h"

namespace attune {

/// Whether `scatter` writes its tile to contiguous rows of a view: the last index is the coordinate along axis
/// `columns` of the tile, beginning at a multiple of eight; the last index but one is the coordinate along the other
/// axis; all earlier indices are uniform over the tile.
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

/// Whether the four lanes of a quad can exchange elements of `scatter`'s accumulator so that each lane holds eight
/// adjacent elements of 16 bits, which one 16-byte store writes.
inline bool isExchangedInEights(tile::ScatterOp scatter) {
  const tile::TileType type = scatter.getTile().getType();
  auto layout = mlir::dyn_cast_or_null<sched::FragmentAttr>(type.getLayout());
  const mlir::Type element = scatter.getView().getType().getElementType();
  return type.rank() == 2 && type.getElementType().isF32() && (element.isBF16() || element.isF16()) && layout &&
         layout.getRole() == sched::FragmentRole::C && type.getShape()[1] / layout.getColumnWarps() % 32 == 0 &&
         countsInEights(scatter, 1);
}

/// Whether TMA can store the shared tile of `exchange` to the place where `scatter` writes. The rows of the shared
/// tile must be rows of the view, and the shared tile must have the view's element type and panels of 128 bytes. The
/// last two scatter indices must be the coordinates along the rows and columns of the tile.
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
