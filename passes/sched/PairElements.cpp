//===- PairElements.cpp - Access two columns of a tile by one memory instruction -------===//
//
//     before                                          after
//     --------------------------------------------    -------------------------------------------------------
//     map(s) at(q, k) { s + bias[h, q, k] }           map(s) at(q, k) { s + bias[h, q, k] {sched.pairs} }
//     scatter g, dbias[h, q_index, k_index]           scatter g, dbias[h, q_index, k_index] {sched.pairs}
//
// A lane of an accumulator holds pairs of columns, an even column and the next one. If the last index of a memory
// access counts along the columns and the view's last dimension is dense, the elements of a pair are adjacent in
// memory, and one access serves both (`sched.pairs`). If the last index counts along the rows, lanes 4 apart hold
// adjacent rows and exchange one of their two elements (`sched.row_pairs`). Whether the view allows accesses by pairs
// (stride 1; even strides, extent and address) and whether the whole tile is inside of the view is known at run time
// only. One branch, which all threads take alike, chooses between pairs and single elements.
//
// In a scatter to 16-bit elements, the four lanes of a quad hold the pairs of one row, in each of four blocks of 8
// columns. Where the view is aligned to eight elements, the lanes exchange their pairs and each lane writes a whole
// block, 16 bytes (`sched.eights`, in addition to `sched.pairs`).
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/TilesInEights.h"
#include "passes/analysis/dataflow/Dependences.h"
#include "passes/analysis/score/MapPatterns.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace attune {
#define GEN_PASS_DEF_PAIRELEMENTS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

bool attune::holdsRows(tile::MapOp map, Value input) {
  auto type = cast<TileType>(input.getType());
  return type.rank() == 1 && type.getSpace() == tile::MemorySpace::Register &&
         type.axis(0) == map.getResult().getType().axis(0);
}

namespace {

struct PairElements : attune::impl::PairElementsBase<PairElements> {
  using PairElementsBase::PairElementsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      kernel.walk([&](tile::MapOp map) {
        if (holdsPairs(map.getResult().getType()))
          for (auto element : map.getBody().getOps<tile::ElementOp>())
            if (mark(element, isInPairs(map, element, 1), isInPairs(map, element, 0)))
              bringOut(map, element.getView());
      });
      kernel.walk([&](tile::ScatterOp scatter) {
        mark(scatter, isInPairs(scatter, 1), isInPairs(scatter, 0));
        if (scatter->hasAttr(sched::pairsAttr) && isExchangedInEights(scatter))
          scatter->setAttr(sched::eightsAttr, UnitAttr::get(&getContext()));
      });
    }
  }

  /// If hand-written IR has the view's parameter (tile.param) inside of the map, moves the parameter before the map,
  /// where the view's alignment is tested.
  static void bringOut(tile::MapOp map, Value view) {
    if (auto parameter = view.getDefiningOp<tile::ParamOp>(); parameter && map->isAncestor(parameter))
      parameter->moveBefore(map);
  }

  /// Marks `op` if its elements are adjacent along columns or rows. Returns whether `op` is marked.
  static bool mark(Operation *op, bool byColumns, bool byRows) {
    if (byColumns || byRows)
      op->setAttr(byColumns ? sched::pairsAttr : sched::rowPairsAttr, UnitAttr::get(op->getContext()));
    return byColumns || byRows;
  }

  static bool hasRole(TileType type, sched::FragmentRole role) {
    auto layout = dyn_cast_or_null<sched::FragmentAttr>(type.getLayout());
    return layout && layout.getRole() == role;
  }

  /// Whether a lane holds pairs of columns of a tile of `type`.
  static bool holdsPairs(TileType type) {
    return type.rank() == 2 && type.getSpace() == tile::MemorySpace::Register && hasRole(type, sched::FragmentRole::C);
  }

  static bool isFloat(tile::ViewType view) {
    const Type element = view.getElementType();
    return element.isF32() || element.isBF16() || element.isF16();
  }

  /// Whether a coordinate is the index along `axis`, and the tile's first index along `axis` is even.
  static bool countsAlong(const std::optional<TileCoordinate> &coordinate, StringRef axis) {
    return coordinate && coordinate->axis == axis && isMultipleOf(coordinate->origin, 2);
  }

  /// Whether the last index of `element` counts along axis `along` of the map's tile, and the other indices do not vary
  /// along that axis.
  static bool isInPairs(tile::MapOp map, tile::ElementOp element, unsigned along) {
    const TileType type = map.getResult().getType();
    if (!isFloat(element.getView().getType()) || element.getIndices().empty() ||
        !countsAlong(coordinateOf(map, element.getIndices().back()), type.axis(along)))
      return false;
    auto isOther = [&](BlockArgument argument) {
      const size_t number = argument.getArgNumber(), inputs = map.getInputs().size();
      return number < inputs ? along == 1 && holdsRows(map, map.getInputs()[number])
                             : cast<StringAttr>(map.getAxes()[number - inputs]) == type.axis(1 - along);
    };
    return llvm::all_of(element.getIndices().drop_back(), [&](Value index) {
      return index.getType().isInteger(32) && followsOnlyFrom(index, map.getBody().front(), isOther);
    });
  }

  static bool isInPairs(tile::ScatterOp scatter, unsigned along) {
    TileType type = scatter.getTile().getType();
    if (scatter.getAdd() || !holdsPairs(type) || !type.getElementType().isF32() ||
        !isFloat(scatter.getView().getType()))
      return false;
    const std::optional<CountedPlaces> places = countedPlaces(scatter.getIndices().back());
    if (!places || !countsAlong(places->along, type.axis(along)))
      return false;
    // Indices before the last may be scalars, or vectors along the axis of the tile that the last index does not count.
    // If pairs are along rows, such a vector must be a map of coordinates (givesPlaces).
    return llvm::all_of(scatter.getIndices().drop_back(), [&](Value index) {
      auto vector = dyn_cast<TileType>(index.getType());
      auto map = index.getDefiningOp<tile::MapOp>();
      return !vector || (vector.rank() == 1 && vector.axis(0) == type.axis(1 - along) &&
                         (along == 1 ? hasRole(vector, sched::FragmentRole::Rows) : map && givesPlaces(map)));
    });
  }
};

} // namespace
