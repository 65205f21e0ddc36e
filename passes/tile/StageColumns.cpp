//===- StageColumns.cpp - Copy per-key vectors that masks read to shared memory ---===//
//
//     before                                              after
//     -----------------------------------------------     ------------------------------------------------
//     c = map() at(k) only_if partial { ids[k] }          c = map() at(k) { ids[k] }
//                                                         t = convert c : register -> shared
//     map(s, c) only_if partial { r == c ? s : -inf }     map(s, t) only_if partial { r == c ? s : -inf }
//
// With warpgroup-level products, S, P and O occupy nearly all registers of a lane: no registers are left for loads in
// flight, nor for their addresses. The producer warp that copies K loads the vectors ahead instead.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_STAGECOLUMNS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

struct StageColumns : attune::impl::StageColumnsBase<StageColumns> {
  using StageColumnsBase::StageColumnsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>())
      if (sched::producerWarps(kernel))
        kernel.walk([&](tile::MapOp map) {
          if (map.getOnlyIf() && map.getInputs().empty() &&
              map.getResult().getType().getElementType().getIntOrFloatBitWidth() == 32)
            stage(map);
        });
  }

  /// Whether an unconditional map of the loop computes the same vector, which happens if the score and the mask read
  /// the same captured tensor.
  static bool isComputedToo(tile::MapOp map) {
    return llvm::any_of(map->getBlock()->getOps<tile::MapOp>(), [&](tile::MapOp other) {
      return other != map && OperationEquivalence::isEquivalentTo(map, other, OperationEquivalence::IgnoreLocations);
    });
  }

  static void stage(tile::MapOp map) {
    map.getOnlyIfMutable().clear();
    if (isComputedToo(map)) // CSE merges the two equal maps.
      return;
    OpBuilder builder(map);
    builder.setInsertionPointAfter(map);
    TileType type = map.getResult().getType();
    auto staged =
        tile::ConvertOp::create(builder, map.getLoc(), type.withSpace(tile::MemorySpace::Shared), map.getResult());
    tile::named(staged.getResult(), (tile::nameOf(map.getResult()) + "_tile").str());
    map.getResult().replaceAllUsesExcept(staged.getResult(), staged);
  }
};

} // namespace
