//===- AssignLayouts.cpp - Which lane holds what, and how shared tiles are swizzled ---===//
//
// For the mma.sync family: accumulators are `c` fragments, vectors over q and k follow their rows and columns, the
// left operand of a product is an `a` fragment (converted from `c` in registers: both hold the same rows, so no lane
// exchanges anything), and shared tiles are cut into swizzled panels that ldmatrix reads without bank conflicts.
//
// Where the plan has `dv_warps`, the columns of what runs along dv are split over them, and all else is held once by
// each:
//
//     warps 8, dv_warps 2     S, P: q over 4 warps, twice     O: q over 4 warps x dv over 2     m, l: q over 4 warps,
//     twice
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_ASSIGNLAYOUTS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using sched::FragmentAttr;
using sched::FragmentRole;
using tile::MemorySpace;
using tile::TileType;

namespace {

struct AssignLayouts : attune::impl::AssignLayoutsBase<AssignLayouts> {
  using AssignLayoutsBase::AssignLayoutsBase;

  FragmentAttr fragment(FragmentRole role, int64_t columnWarps = 1) {
    return FragmentAttr::get(&getContext(), role, warps, columnWarps);
  }

  /// Warps that split the last axis of `type`.
  int64_t columnWarpsOf(TileType type) { return type.axis(type.rank() - 1) == "dv" ? dvWarps : 1; }

  /// The widest panel that divides a warp's share of a row: its columns then start with a panel.
  Attribute swizzle(TileType type) {
    int64_t shareBytes =
        type.getShape().back() / columnWarpsOf(type) * type.getElementType().getIntOrFloatBitWidth() / 8;
    return sched::SwizzleAttr::widest(&getContext(), shareBytes);
  }

  /// Vectors in shared memory are computed thread by thread, and stored one value after the other.
  Attribute layoutFor(TileType type) {
    if (type.getSpace() == MemorySpace::Shared)
      return type.rank() == 1 ? Attribute() : swizzle(type);
    if (type.rank() == 1)
      return type.hasAxis("q") ? fragment(FragmentRole::Rows) : fragment(FragmentRole::Columns, columnWarpsOf(type));
    return fragment(FragmentRole::C, columnWarpsOf(type));
  }

  void assign(Value value) {
    if (auto type = dyn_cast<TileType>(value.getType()); type && !type.getLayout())
      value.setType(type.withLayout(layoutFor(type)));
  }

  /// Warps that compute what is stored. The first copy warp issues copies, and those from the third on copy windows
  /// where there are any. Values by distance are many for each tile: all others share them, so that no scheduler has
  /// all of that work beside its consumers.
  static int64_t warpsThatStore(tile::KernelOp kernel) {
    const bool byDistance =
        holds<tile::MapOp>(kernel, [](tile::MapOp map) { return tile::isByDistance(map.getResult().getType()); });
    return byDistance && !holds<tile::WindowOp>(kernel) ? kernel.getPlan().getCopyWarps() - 1 : 1;
  }

  /// What each lane computes for the others: what copy warps store to shared memory, and what lanes load for those of
  /// their warp.
  void assignLanes(tile::MapOp map) {
    TileType type = map.getResult().getType();
    const bool stored = type.rank() == 1 && !map.getResult().use_empty() &&
                        llvm::all_of(map.getResult().getUsers(), [](Operation *user) {
                          auto convert = dyn_cast<tile::ConvertOp>(user);
                          return convert && convert.getResult().getType().getSpace() == MemorySpace::Shared;
                        });
    if (stored)
      map.getResult().setType(type.withLayout(
          FragmentAttr::get(&getContext(), FragmentRole::Threads, tile::isByDistance(type) ? storingWarps : 1)));
    else if (map.getOnlyIf() && map.getInputs().empty())
      map.getResult().setType(type.withLayout(fragment(FragmentRole::Lanes)));
  }

  /// Makes `mma`'s left operand an `a` fragment: P always, Q if the plan keeps it in registers.
  void assignLeftOperand(tile::MmaOp mma, bool queriesInRegisters) {
    Value lhs = mma.getLhs();
    auto type = cast<TileType>(lhs.getType());
    auto wanted = TileType::get(&getContext(), type.getAxes(), type.getShape(), type.getElementType(),
                                MemorySpace::Register, fragment(FragmentRole::A));
    if (type.getSpace() == MemorySpace::Register) {
      if (auto convert = lhs.getDefiningOp<tile::ConvertOp>(); convert && lhs.hasOneUse()) {
        lhs.setType(wanted);
        return;
      }
    } else if (!queriesInRegisters) {
      return;
    }
    // A converted shared tile is read once, where it is defined; a register tile where it is used.
    OpBuilder builder(mma);
    if (type.getSpace() == MemorySpace::Shared)
      builder.setInsertionPointAfterValue(lhs);
    auto convert = tile::ConvertOp::create(builder, mma.getLoc(), wanted, lhs);
    tile::named(convert.getResult(), (tile::nameOf(lhs) + "_fragment").str());
    mma.getLhsMutable().assign(convert);
  }

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      warps = kernel.getPlan().getRowWarps();
      dvWarps = kernel.getPlan().getDvWarps();
      storingWarps = warpsThatStore(kernel);
      SmallVector<tile::MmaOp> products;
      kernel.walk([&](tile::MmaOp mma) { products.push_back(mma); });
      for (tile::MmaOp mma : products)
        assignLeftOperand(mma, kernel.getPlan().getQRegisters());
      kernel.walk([&](tile::MapOp map) { assignLanes(map); });
      kernel.walk([&](Block *block) { llvm::for_each(block->getArguments(), [&](Value v) { assign(v); }); });
      kernel.walk([&](Operation *op) { llvm::for_each(op->getResults(), [&](Value v) { assign(v); }); });
    }
  }

  int64_t warps = 0, dvWarps = 1, storingWarps = 1;
};

} // namespace
