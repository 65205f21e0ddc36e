//===- ChoosePath.cpp - Whether a program can be scheduled as its plan asks ---===//
//
// Warps that copy for others, by the copy engine, and warpgroup-level products are scheduled around one shape of
// program: a tile that is loaded once, a loop in which two more are, a product with each, a result that is stored. Any
// other program runs on the path that takes all: warp-level products, all warps copy.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_CHOOSEPATH
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::MemorySpace;
using tile::TileType;

namespace {

bool isShared(Value value) {
  auto type = dyn_cast<TileType>(value.getType());
  return type && type.getSpace() == MemorySpace::Shared;
}

std::string count(size_t n, StringRef what) { return (Twine(n) + " " + what + (n == 1 ? "" : "s")).str(); }

/// Why warps cannot be specialised, or "".
class Fault {
public:
  explicit Fault(tile::KernelOp kernel) : kernel(kernel) {}

  std::string find() {
    for (auto check : {&Fault::ofLoops, &Fault::ofLoads, &Fault::ofProducts, &Fault::ofVectors, &Fault::ofResults})
      if (std::string fault = (this->*check)(); !fault.empty())
        return fault;
    return "";
  }

private:
  std::string ofLoops() {
    SmallVector<tile::ForBlocksOp> loops;
    kernel.walk([&](tile::ForBlocksOp op) { loops.push_back(op); });
    if (loops.size() != 1)
      return "it has " + count(loops.size(), "loop") + " over tiles, not one";
    loop = loops.front();
    return "";
  }

  std::string ofLoads() {
    SmallVector<tile::LoadOp> all;
    kernel.walk([&](tile::LoadOp load) { all.push_back(load); });
    for (tile::LoadOp load : all)
      if (!isShared(load.getResult()) || load.getView().getType().getRank() != 4)
        return "it loads tiles to registers, or from a tensor that has not four dimensions";
    const SmallVector<tile::LoadOp> around(kernel.getBody().getOps<tile::LoadOp>());
    streamed = SmallVector<tile::LoadOp>(loop.getBody().front().getOps<tile::LoadOp>());
    if (around.size() != 1 || streamed.size() != 2 || !around.front()->isBeforeInBlock(loop))
      return "it loads " + count(around.size(), "tile") + " outside the loop and " + std::to_string(streamed.size()) +
             " in it, not one before and two in it";
    once = around.front();
    return "";
  }

  std::string ofProducts() {
    SmallVector<tile::MmaOp> products;
    kernel.walk([&](tile::MmaOp mma) { products.push_back(mma); });
    if (products.size() != 2)
      return "it has " + count(products.size(), "product") + ", not two";
    scores = products[0];
    tile::MmaOp output = products[1];
    auto queries = once.getResult().getType(), keys = streamed[0].getResult().getType();
    if (readOf(scores.getLhs()) != once.getResult() || scores.getRhs() != streamed[0].getResult() ||
        queries.axis(1) != keys.axis(1) || scores.getResult().getType().axis(0) != queries.axis(0))
      return "its first product is not of the tile before the loop with the first in it, along the last axes of both";
    auto values = streamed[1].getResult().getType();
    if (isShared(output.getLhs()) || output.getRhs() != streamed[1].getResult() || !output.getAcc() ||
        output.getLhs().getType().axis(0) != queries.axis(0) || output.getLhs().getType().axis(1) != values.axis(0))
      return "its second product does not add that of a tile in registers with the second in the loop";
    return "";
  }

  static Value readOf(Value tile) {
    auto scale = tile.getDefiningOp<tile::ScaleOp>();
    return scale ? scale.getTile() : tile;
  }

  std::string ofVectors() {
    StringRef rows = scores.getResult().getType().axis(0);
    const bool alongRows = !holds<tile::ReduceOp>(kernel, [&](tile::ReduceOp reduce) {
      return reduce.getTile().getType().axis(0) == reduce.getAxis() || reduce.getTile().getType().axis(0) != rows;
    });
    return alongRows ? "" : "it reduces tiles along their rows";
  }

  std::string ofResults() {
    size_t tiles = 0;
    kernel.walk([&](tile::StoreOp store) {
      tile::OperandAttr operand = tile::operandOf(store.getView());
      const bool byEngine = operand && operand.isTiled() && operand.getAxes().size() == 4 && !isShared(store.getTile());
      tiles += store.getTile().getType().rank() == 1 ? 0 : byEngine ? 1 : 2;
    });
    if (tiles != 1 || holds<tile::AccumulateOp>(kernel))
      return "it does not store just one tile, of a tensor of four dimensions, beside vectors";
    return "";
  }

  tile::KernelOp kernel;
  tile::ForBlocksOp loop;
  tile::LoadOp once;
  SmallVector<tile::LoadOp> streamed;
  tile::MmaOp scores;
};

/// What only the passes write that have found the shape before.
bool isMadeForCopyWarps(tile::KernelOp kernel) {
  return holds<Operation *>(kernel, [](Operation *op) {
    auto convert = dyn_cast<tile::ConvertOp>(op);
    return isa<tile::ScaleOp, tile::WindowOp, tile::PartRowOp>(op) || (convert && isShared(convert.getResult()));
  });
}

struct ChoosePath : attune::impl::ChoosePathBase<ChoosePath> {
  using ChoosePathBase::ChoosePathBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      tile::PlanAttr plan = kernel.getPlan();
      if (!plan.getCopyWarps())
        continue;
      const std::string fault = Fault(kernel).find();
      if (fault.empty())
        continue;
      if (isMadeForCopyWarps(kernel)) {
        kernel.emitError() << "cannot be scheduled around copy warps, for which some of its ops are: " << fault;
        return signalPassFailure();
      }
      kernel.setPlanAttr(tile::PlanAttr::get(
          &getContext(), plan.getTileQ(), plan.getTileK(), plan.getWarps(), plan.getStages(), plan.getQRegisters(),
          plan.getBlocksPerSm(), plan.getLongestFirst(), plan.getDvWarps(), /*copy_warps=*/0, /*persistent=*/false,
          /*q_stages=*/1, /*turns=*/false, /*overlap=*/false, /*stage_biases=*/false));
      tile::remark(kernel, "products are warp-level and all warps copy: warps are specialised around another shape of "
                           "program; " +
                               fault);
    }
  }
};

} // namespace
