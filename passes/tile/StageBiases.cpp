//===- StageBiases.cpp - Copy dense biases to shared memory together with the K tile ---===//
//
//     before                                     after
//     --------------------------------------     -------------------------------------------
//     map(s) at(q, k) { s + bias[h, q, k] }      b = window bias[h, q0, k0]
//                                                map(s, b) { s + b }
//
// TMA copies the window (the rectangle of the bias for one tile of scores) ahead of its use; without the window each
// lane would load its elements one by one. A backward loop of five products reads the window before most of the
// products, so the ring of the window needs only one stage: the stage is refilled while these products run.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/score/Distances.h"

namespace attune {
#define GEN_PASS_DEF_STAGEBIASES
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

struct StageBiases : attune::impl::StageBiasesBase<StageBiases> {
  using StageBiasesBase::StageBiasesBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel->hasAttr(sched::stageBiasesAttr))
        continue;
      SmallVector<std::pair<tile::MapOp, tile::ElementOp>> loads;
      kernel.walk([&](tile::MapOp map) {
        for (auto load : map.getBody().getOps<tile::ElementOp>())
          if (isa<tile::ForBlocksOp>(map->getParentOp()) && isDense(map, load))
            loads.push_back({map, load});
      });
      for (auto [map, load] : loads)
        stage(map, load);
    }
  }

  static bool isDense(tile::MapOp map, tile::ElementOp load) {
    return isDenseBias(map, load, [&](Value index) { return index.getParentBlock() != &map.getBody().front(); });
  }

  static void stage(tile::MapOp map, tile::ElementOp load) {
    OpBuilder builder(map);
    auto scores = cast<TileType>(map.getResult().getType());
    SmallVector<Value> indices(load.getIndices().drop_back(2));
    indices.append({map.originOf(map.getCoordinate("q")), map.originOf(map.getCoordinate("k"))});
    TileType type = TileType::make(map.getContext(), {{"q", scores.size("q")}, {"k", scores.size("k")}},
                                   load.getView().getType().getElementType(), tile::MemorySpace::Shared);
    Value window = windowOf(map, type, load.getView(), indices);
    if (!window) {
      window = tile::WindowOp::create(builder, load.getLoc(), type, load.getView(), indices);
      StringRef name = tile::nameOf(load.getView());
      tile::named(window, ((name.empty() ? "bias" : name) + "_tile").str());
      constexpr int64_t ofGradients = 5;
      if (llvm::range_size(map->getBlock()->getOps<tile::MmaOp>()) >= ofGradients)
        window.getDefiningOp()->setAttr(sched::ringAttr, sched::RingAttr::get(map.getContext(), 1));
    }
    load.getResult().replaceAllUsesWith(map.addInput(window, load.getResult().getType()));
    load.erase();
  }

  /// Returns an existing window of the loop with the same type, view and indices, or null. The derivative of a score
  /// reads the same elements as the score.
  static Value windowOf(tile::MapOp map, TileType type, Value view, ValueRange indices) {
    for (auto window : map->getBlock()->getOps<tile::WindowOp>())
      if (window.getType() == type && window.getView() == view && llvm::equal(window.getIndices(), indices))
        return window;
    return {};
  }
};

} // namespace
