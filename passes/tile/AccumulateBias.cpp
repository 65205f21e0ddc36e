//===- AccumulateBias.cpp - Initialise the accumulator of QK^T with the bias ---===//
//
//     before                                     after
//     --------------------------------------     -------------------------------------------
//     s = Q K                                    b = map(..) { t }
//     x = map(s, ..) { s + t }                   x = Q K + b
//
// A matrix product adds to its accumulator at no cost. The bias is then computed before the product, while the
// warpgroup would wait for its ping-pong turn or for K anyway, and not on the critical path between the product and the
// exponentials.
//
// Before the warpgroup reads a bias in shared memory, it has to wait for the copy of the bias. In kernels with
// `sched.overlap` and without ping-pong, no other warpgroup hides that latency, and the product QK^T would start later.
// In such kernels the bias is added after QK^T, overlapped with the product with V.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

namespace attune {
#define GEN_PASS_DEF_ACCUMULATEBIAS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

struct AccumulateBias : attune::impl::AccumulateBiasBase<AccumulateBias> {
  using AccumulateBiasBase::AccumulateBiasBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::hasAsyncProducts(kernel))
        continue;
      const bool alone = kernel->hasAttr(sched::overlapAttr) && !kernel->hasAttr(sched::pingPongAttr);
      SmallVector<tile::MapOp> maps;
      kernel.walk([&](tile::MapOp map) { maps.push_back(map); });
      for (tile::MapOp map : maps)
        if (Value bias = biasOf(map); bias && !(alone && readsShared(map)))
          startFrom(map, bias);
    }
  }

  /// Returns the product that computes the map's first input, if nothing else reads the product.
  static tile::MmaOp productOf(tile::MapOp map) {
    auto product = map.getInputs().empty() ? tile::MmaOp() : map.getInputs().front().getDefiningOp<tile::MmaOp>();
    return product && !product.getAcc() && product.getResult().hasOneUse() &&
                   map.getResult().getType() == product.getResult().getType()
               ? product
               : tile::MmaOp();
  }

  /// Returns the value that the map adds to the product; null if the map does anything else.
  static Value biasOf(tile::MapOp map) {
    if (!map.isWhole() || !productOf(map))
      return {};
    auto sum = map.getYield().getValues().front().getDefiningOp<arith::AddFOp>();
    BlockArgument element = map.getElement(0);
    if (!sum || !element.hasOneUse() || (sum.getLhs() != element && sum.getRhs() != element))
      return {};
    return sum.getLhs() == element ? sum.getRhs() : sum.getLhs();
  }

  static bool readsShared(tile::MapOp map) {
    return llvm::any_of(map.getInputs(), [](Value input) {
      return cast<tile::TileType>(input.getType()).getSpace() == tile::MemorySpace::Shared;
    });
  }

  static void startFrom(tile::MapOp map, Value bias) {
    tile::MmaOp product = productOf(map);
    OpBuilder builder(map);
    SmallVector<std::pair<StringRef, Value>> coordinates;
    for (auto [axis, origin] : llvm::zip(map.getAxes().getAsValueRange<StringAttr>(), map.getOrigins()))
      coordinates.push_back({axis, origin});
    auto start = tile::MapOp::create(builder, map.getLoc(), map.getResult().getType(), map.getInputs().drop_front(),
                                     coordinates);
    tile::named(start.getResult(), "s");
    if (auto comment = map->getAttrOfType<StringAttr>(tile::commentAttr))
      tile::explain(start, comment.getValue());
    tile::explain(start, "the product starts from the bias");
    IRMapping mapping;
    for (auto [old, argument] : llvm::zip(map.getBody().getArguments().drop_front(), start.getBody().getArguments()))
      mapping.map(old, argument);
    builder.setInsertionPointToEnd(&start.getBody().front());
    Operation *sum = map.getYield().getValues().front().getDefiningOp();
    for (Operation &op : map.getBody().front().without_terminator())
      if (&op != sum)
        builder.clone(op, mapping);
    tile::YieldOp::create(builder, map.getLoc(), mapping.lookupOrDefault(bias));
    // The map may read values that are defined after the product; the product must be placed after the definitions of
    // these values.
    product->moveAfter(start);
    product.getAccMutable().assign(start.getResult());
    map.getResult().replaceAllUsesWith(product.getResult());
    map.erase();
  }
};

} // namespace
