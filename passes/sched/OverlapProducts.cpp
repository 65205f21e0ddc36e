//===- OverlapProducts.cpp - Products beside what reads other products --------===//
//
// Says when the ops of a loop run (`sched.at`); tile-pipeline-stages moves them. Products that follow from no other
// start first. A product that adds to a carried tile what the loop computes from another product is deferred: it is the
// tile's before, and runs beside what leads to the next one. In attention's forward pass:
//
//     as written                         order  stage
//     ----------------------------------  -----  -----  -----------------------------------------------------------------
//     S = Q K                             0      0      leads: it follows from no other product
//     m, l, alpha, P' = softmax(S)        3      0      while both products run
//     O' = O alpha                        5      0      behind the wait for O
//     P = convert(P')                     6      0      where P of the tile before lies, which is read until then
//     O = O' + P V                        1      1      deferred
//
// What conditional maps load (tile.map without inputs) is asked for beside the products, order 2.
//
// Where the kernel has `sched.overlap`, V of a tile is waited for when its softmax ends, order 4, in front of the wait for O:
// a device compiler does not move the latter over a loop, and a wait on a barrier is one. Without it, the compiler moved
// the wait for O up to that for S, and no product ran beside the softmax. Waiting there holds two stages of V, which a
// ring of one does not have. Else V is waited for where it is read, and one warpgroup's products run beside another's
// softmax.
//
// A loop's products are deferred while registers hold their left operands beside what the loop carries.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/CopiedTiles.h"
#include "passes/analysis/LeadingProducts.h"
#include "passes/analysis/MapPatterns.h"

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

/// A product that can be the tile's before.
struct Deferral {
  tile::MmaOp product;
  tile::MapOp rescale;         ///< between the carried tile and the product; or null
  tile::ConvertOp leftOperand; ///< into the registers that the product reads
  tile::LoadOp rightOperand;   ///< of this loop, for the product alone; or null
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
    for (tile::MmaOp product : products)
      product->setAttr(sched::asyncAttr, UnitAttr::get(loop.getContext()));
  }

  bool defers() const { return !deferred.empty(); }

private:
  void place(Operation &op, int64_t stage, Order order) {
    op.setAttr(sched::atAttr, AtAttr::get(loop.getContext(), stage, order));
  }

  /// The carried tile that the product adds to, by way of `rescale` or as it is, if nothing else reads it, and the product
  /// gives its next value.
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

  /// Registers of a thread that hold a tile whose rows the warps share.
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
        registers += registersOf(product.getLhs());
        if (registers <= mostRegisters)
          deferred.push_back(*deferral);
      }
  }

  /// Products that lead, with what they follow from and what is written in front of the first.
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

  static constexpr int64_t mostRegisters = 200; ///< of a thread for tiles; what else it holds takes the rest

  tile::ForBlocksOp loop;
  Block &body;
  tile::KernelOp kernel;
  BlockDependences dependences;
  SmallVector<tile::MmaOp> products, leading;
  SmallVector<Deferral> deferred;
};

struct OverlapProducts : attune::impl::OverlapProductsBase<OverlapProducts> {
  using OverlapProductsBase::OverlapProductsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::fillingWarps(kernel))
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

  /// A schedule that is written in the text stays.
  static bool holdsPlaced(Block &body) {
    return llvm::any_of(body, [](Operation &op) { return op.hasAttr(sched::atAttr); });
  }
};

} // namespace
