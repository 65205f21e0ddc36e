//===- OverlapProducts.cpp - Software-pipeline the products of a loop --------===//
//
// Writes attributes that say when the ops of a loop run (`sched.at`); tile-pipeline-stages moves the ops. An op has an
// order within the iteration and a stage: ops of stage 0 work on the current tile, ops of stage 1 on the previous tile.
// Products that depend on no other product start first. A product is deferred to stage 1 if it accumulates into a tile
// that the loop carries and its left operand is computed from another product: the deferred product overlaps with the
// softmax of the current tile. In attention's forward pass:
//
//     as written                          order  stage
//     ----------------------------------  -----  -----  ----------------------------------------------------------
//     S = Q K                             0      0      leading: S depends on no other product
//     m, l, alpha, P' = softmax(S)        3      0      while both products run
//     O' = O alpha                        5      0      after the wait for O
//     P = convert(P')                     6      0      overwrites the previous P, whose product is complete
//     O = O' + P V                        1      1      deferred
//
// Vectors that a conditional tile.map without inputs loads, such as per-key values of a mask, are loaded while the
// products run, order 2.
//
// Where the kernel has `sched.overlap`, the wait for V of a tile is at the end of the tile's softmax, order 4, before
// the wait for O. The wait on V's mbarrier is a loop, and the device compiler does not move the wait for O across a
// loop. Without the wait for V at that point, the compiler would move the wait for O up to the wait for S, and no
// product would overlap with the softmax. At order 4 two stages of V are in use, so V's ring needs two stages. In other
// kernels V is waited for where it is read, and one warpgroup's products overlap with another warpgroup's softmax.
//
// A product is deferred only if registers can hold its left operand in addition to the tiles that the loop carries.
//
// With `sched.overlap` a product is also deferred if its left operand is a tile that the warpgroups exchange through a
// ring in shared memory, together with the op that adds or stores the product to memory. In attention's backward pass
// this product is dQ = dS K, whose dS comes from all warpgroups. Without the deferral every warpgroup waits at a barrier
// for the others' dS of the current tile, so that all of them compute their softmax at the same time. With it, a
// warpgroup reads the dS of the previous tile, and may be up to one tile ahead of another warpgroup:
//
//     as written                          order  stage
//     ----------------------------------  -----  -----  ----------------------------------------------------------
//     S = K Q, dP = V dO                  0      0      leading
//     P, dS = softmax and its gradient    3      0
//     dS to the ring                      3      0
//     dQ = dS K                           3      1      reads the previous tile's stage of the ring
//     dK = dK + dS Q                      3      0
//     add dQ to memory                    3      1
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/products/LeadingProducts.h"
#include "passes/analysis/score/MapPatterns.h"

namespace attune {
#define GEN_PASS_DEF_OVERLAPPRODUCTS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using sched::AtAttr;
using tile::TileType;

namespace {

enum Order : int64_t { Leading, Deferred, Beside, Following, NextWait, Rescaled, Rounded };

/// A product that can be deferred to the next iteration.
struct Deferral {
  tile::MmaOp product;
  tile::MapOp rescale;         ///< the map that rescales the carried tile before the product adds to it; null if none
  tile::ConvertOp leftOperand; ///< the conversion that writes the product's left operand to registers
  tile::LoadOp rightOperand;   ///< the load in the loop that only the product reads; null if there is none
};

class ProductOrder {
public:
  ProductOrder(tile::ForBlocksOp loop, tile::KernelOp kernel)
      : loop(loop), body(loop.getBody().front()), kernel(kernel), dependences(body),
        products(body.getOps<tile::MmaOp>()) {
    llvm::copy_if(products, std::back_inserter(leading),
                  [&](tile::MmaOp product) { return leads(dependences, product); });
  }

  void run() {
    findDeferred();
    for (Operation &op : body.without_terminator())
      place(op, 0, Following);
    placeLeading();
    placeDeferred();
    placeExchanged();
    for (tile::MmaOp product : products)
      product->setAttr(sched::asyncAttr, UnitAttr::get(loop.getContext()));
  }

  bool defers() const { return !deferred.empty() || defersExchanged; }

private:
  void place(Operation &op, int64_t stage, Order order) {
    op.setAttr(sched::atAttr, AtAttr::get(loop.getContext(), stage, order));
  }

  /// Whether the product accumulates into a tile that the loop carries, directly or after a map that rescales the tile,
  /// is the tile's only reader, and yields the tile's next value. Sets `rescale` to that map, or to null.
  bool addsToCarried(tile::MmaOp product, tile::MapOp &rescale) {
    Value carried = product.getAcc();
    if (!carried)
      return false;
    rescale = carried.getDefiningOp<tile::MapOp>();
    if (rescale && (!rescaleFactor(rescale) || !rescale->hasOneUse() || rescale->getBlock() != &body))
      return false;
    if (rescale)
      carried = rescale.getInputs().front();
    auto argument = dyn_cast<BlockArgument>(carried);
    if (!argument || argument.getOwner() != &body || !argument.hasOneUse() || !product.getResult().hasOneUse())
      return false;
    auto carriedTiles = loop.getCarried();
    const auto number = llvm::find(carriedTiles, carried) - carriedTiles.begin();
    return loop.getYield().getValues()[number] == product.getResult();
  }

  std::optional<Deferral> deferralOf(tile::MmaOp product) {
    Deferral deferral{product, {}, product.getLhs().getDefiningOp<tile::ConvertOp>(), {}};
    if (!addsToCarried(product, deferral.rescale) || !deferral.leftOperand || !deferral.leftOperand->hasOneUse() ||
        deferral.leftOperand->getBlock() != &body || !followsFromProduct(dependences, product.getLhs()))
      return std::nullopt;
    if (auto load = product.getRhs().getDefiningOp<tile::LoadOp>();
        load && load->getBlock() == &body && load->hasOneUse())
      deferral.rightOperand = load;
    return deferral;
  }

  /// The number of registers of each thread that hold `tile`, whose rows are split over the warps.
  int64_t registersOf(Value tile) {
    auto type = dyn_cast<TileType>(tile.getType());
    if (!type || type.getSpace() != tile::MemorySpace::Register || type.rank() != 2)
      return 0;
    return type.bytes() / 4 / (32 * kernel.getPlan().getWarps());
  }

  void findDeferred() {
    int64_t registers = 0;
    for (Value carried : loop.getCarried())
      registers += registersOf(carried);
    for (tile::MmaOp product : leading)
      registers += registersOf(product.getResult());
    for (tile::MmaOp product : products)
      if (std::optional<Deferral> deferral = deferralOf(product)) {
        const int64_t more = registersOf(product.getLhs());
        if (registers + more > mostRegisters)
          continue;
        registers += more;
        deferred.push_back(*deferral);
      }
  }

  /// Places the leading products (those that depend on no other product), the ops that they depend on, and all ops
  /// before the first leading product at the start of the iteration.
  void placeLeading() {
    if (leading.empty())
      return;
    for (tile::MmaOp product : leading)
      for (Operation *op : dependences.allSourcesOf(product))
        place(*op, 0, Leading);
    for (Operation &op : body)
      if (op.isBeforeInBlock(leading.front()))
        place(op, 0, Leading);
    if (defers())
      for (auto map : body.getOps<tile::MapOp>())
        if (map.getOnlyIf() && map.getInputs().empty())
          place(*map, 0, Beside);
  }

  void placeDeferred() {
    const bool early = kernel->hasAttr(sched::overlapAttr);
    for (Deferral &deferral : deferred) {
      place(*deferral.product, 1, Deferred);
      if (deferral.rightOperand && early && ringDepth(deferral.rightOperand) > 1)
        place(*deferral.rightOperand, 0, NextWait);
      else if (deferral.rightOperand)
        place(*deferral.rightOperand, 1, Deferred);
      if (deferral.rescale)
        place(*deferral.rescale, 0, Rescaled);
      place(*deferral.leftOperand, 0, Rounded);
    }
  }

  /// Defers each product of an exchanged tile whose result only ops without results read, such as a tile.accumulate.
  void placeExchanged() {
    if (!kernel->hasAttr(sched::overlapAttr))
      return;
    for (tile::MmaOp product : products) {
      auto exchange = product.getLhs().getDefiningOp<tile::ConvertOp>();
      auto writes = [&](Operation *user) {
        return user->getBlock() == &body && user->getNumResults() == 0 && !user->hasTrait<OpTrait::IsTerminator>();
      };
      if (product.getAcc() || !exchange || exchange->getBlock() != &body || !exchange->hasOneUse() ||
          tile::isStaged(exchange) || !sched::ringOf(exchange) || !llvm::all_of(product->getUsers(), writes))
        continue;
      place(*product, 1, Following);
      for (Operation *user : product->getUsers())
        place(*user, 1, Following);
      defersExchanged = true;
    }
  }

  static constexpr int64_t mostRegisters = 200; ///< most registers of a thread for tiles, of the 255 it can have

  tile::ForBlocksOp loop;
  Block &body;
  tile::KernelOp kernel;
  BlockDependences dependences;
  SmallVector<tile::MmaOp> products, leading;
  SmallVector<Deferral> deferred;
  bool defersExchanged = false;
};

struct OverlapProducts : attune::impl::OverlapProductsBase<OverlapProducts> {
  using OverlapProductsBase::OverlapProductsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::hasAsyncProducts(kernel))
        continue;
      kernel.walk([&](tile::ForBlocksOp loop) {
        Block &body = loop.getBody().front();
        if (body.getOps<tile::MmaOp>().empty() || holdsPlaced(body))
          return;
        ProductOrder order(loop, kernel);
        order.run();
        if (!order.defers())
          tile::remark(kernel,
                       "no product is deferred to the next tile: none adds to a tile that its loop carries what "
                       "the loop computes from another, or registers do not hold its operand meanwhile");
      });
    }
  }

  /// Whether ops of the loop already have `sched.at` from hand-written IR, which the pass keeps.
  static bool holdsPlaced(Block &body) {
    return llvm::any_of(body, [](Operation &op) { return op.hasAttr(sched::atAttr); });
  }
};

} // namespace
