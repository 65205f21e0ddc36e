//===- StageRelativePositions.cpp - Load a relative-position bias once per value of q - k ---===//
//
// The value of a relative-position bias depends on q - k. A tile of tile_q x tile_k elements has only tile_q + tile_k -
// 1 values of q - k, its distances:
//
//     before                              after
//     ------------------------------      ------------------------------------------------------------------------
//     map(s) at(q, k)                     t = map at(distance = q0 - k0 - (tile_k - 1)) { table[h, distance + Sk] }
//       { s + table[h, q - k + Sk] }      shared t' = t
//                                         map(s, t') { s + t }
//
// Other warps may compute the vector t, ahead of its use: table[h, d + Sk] then costs a clamp, an address and a load
// per distance, not per element. The values are exact: the region of the vector's map is cloned from the original map,
// with q = distance and k = 0.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/score/Distances.h"

namespace attune {
#define GEN_PASS_DEF_STAGERELATIVEPOSITIONS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

struct StageRelativePositions : attune::impl::StageRelativePositionsBase<StageRelativePositions> {
  using StageRelativePositionsBase::StageRelativePositionsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::producerWarps(kernel))
        continue;
      SmallVector<tile::MapOp> maps;
      kernel.walk([&](tile::MapOp map) {
        if (isa<tile::ForBlocksOp>(map->getParentOp()) && map.getCoordinate("q") && map.getCoordinate("k"))
          maps.push_back(map);
      });
      for (tile::MapOp map : maps) {
        DistanceValues values(map.getBody().front(), map.getCoordinate("q"), map.getCoordinate("k"),
                              [](BlockArgument) { return false; });
        for (Value root : values.roots())
          stage(map, root, values);
      }
    }
  }

  static void stage(tile::MapOp map, Value root, const DistanceValues &values) {
    OpBuilder builder(map);
    Location loc = root.getLoc();
    auto i32 = [&](int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); };
    auto scores = cast<TileType>(map.getResult().getType());
    const bool isFlag = root.getType().isInteger(1);
    BlockArgument q = map.getCoordinate("q"), k = map.getCoordinate("k");
    std::string name = nameFor(values.slice(root));

    // The first row and the last key of the tile have the least distance.
    Value apart = arith::SubIOp::create(builder, loc, map.originOf(q), map.originOf(k));
    Value first = arith::SubIOp::create(builder, loc, apart, i32(scores.size("k") - 1));
    Type element = isFlag ? builder.getI32Type() : root.getType();
    TileType type = TileType::make(map.getContext(), {{tile::distanceAxis, scores.size("q") + scores.size("k") - 1}},
                                   element, tile::MemorySpace::Register);
    auto computed = tile::MapOp::create(builder, loc, type, ValueRange(),
                                        {{tile::distanceAxis, tile::named(first, "first_distance")}});
    tile::named(computed.getResult(), name);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&computed.getBody().front());
      IRMapping mapping;
      mapping.map(q, computed.getCoordinate(tile::distanceAxis));
      mapping.map(k, i32(0));
      for (Operation *op : values.slice(root))
        builder.clone(*op, mapping);
      Value result = mapping.lookup(root);
      if (isFlag)
        result = arith::ExtUIOp::create(builder, loc, element, result);
      tile::YieldOp::create(builder, loc, result);
    }
    Value staged =
        tile::ConvertOp::create(builder, loc, type.withSpace(tile::MemorySpace::Shared), computed.getResult());
    tile::named(staged, name + "_tile");

    Value argument = map.addInput(staged, element);
    if (isFlag) {
      builder.setInsertionPointToStart(&map.getBody().front());
      argument = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, argument, i32(0));
    }
    SmallVector<Operation *> slice = values.slice(root);
    root.replaceUsesWithIf(argument, [&](OpOperand &use) { return values.leaves(use); });
    for (Operation *op : llvm::reverse(slice))
      if (op->use_empty())
        op->erase();
  }

  /// The name of the captured tensor that the ops of `slice` load from.
  static std::string nameFor(ArrayRef<Operation *> slice) {
    for (Operation *op : llvm::reverse(slice))
      if (auto load = dyn_cast<tile::ElementOp>(op))
        if (StringRef name = tile::nameOf(load.getView()); !name.empty())
          return name.str();
    return "bias";
  }
};

} // namespace
