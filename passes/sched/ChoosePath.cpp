//===- ChoosePath.cpp - Remove roles from programs that cannot have producer warps ---===//
//
// Producer warps, which copy by TMA, and warpgroup-level products need a program of a certain form. Its loops over
// tiles come one after another, and each loop copies tiles. Tiles that no loop copies are copied before the first loop.
// Products have 16-bit operands, and 64 rows for each warpgroup or columns that the warpgroups can split. Any other
// program runs on the general path: products are warp-level and all warps copy.
//
// The pass runs twice. The first run is before the tile passes that write ops which need roles (windows of biases,
// relative-position tables), so that no kernel without roles gets such ops. At that time the order of the tiles' axes
// is not chosen, and conditions on the order are not checked. The second run is at the start of the lowering to sched,
// where hand-written tile IR may enter the pipeline.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/ChoosePath.h"
#include "arch/ArchInfo.h"
#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "ir/sched/SwizzledLayout.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/copies/StoredTiles.h"

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

/// Finds the reason why a kernel cannot be split into producer and consumer warps; "" if it can.
class Fault {
public:
  /// `ordersChosen`: whether `tile-place-operands` has chosen the row axis of each register tile.
  Fault(tile::KernelOp kernel, bool ordersChosen) : kernel(kernel), ordersChosen(ordersChosen) {}

  std::string find() {
    for (auto check : {&Fault::ofLoops, &Fault::ofLoads, &Fault::ofProducts, &Fault::ofStores})
      if (std::string fault = (this->*check)(); !fault.empty())
        return fault;
    return "";
  }

private:
  std::string ofLoops() {
    std::string fault;
    kernel.walk([&](tile::ForBlocksOp op) {
      loops.push_back(op);
      if (op->getParentOp() != kernel)
        fault = "a loop over tiles is within another op";
      else if (!op.getDomain().getDefiningOp<tile::DomainOp>())
        fault = "a loop is over a domain that no tile.domain gives";
      else if (followsLoop(op->getOperands().take_front(1 + op.getWithin().size())))
        fault = "the tiles of a loop follow from what another loop computes";
    });
    return loops.empty() ? "it has no loop over tiles" : fault;
  }

  /// Whether any of `values` is computed from the result of a loop over tiles, which the producer does not compute.
  static bool followsLoop(ValueRange values) {
    SmallVector<Value> open(values);
    llvm::SmallDenseSet<Operation *> seen;
    while (!open.empty()) {
      Operation *op = open.pop_back_val().getDefiningOp();
      if (!op || !seen.insert(op).second)
        continue;
      if (isa<tile::ForBlocksOp>(op))
        return true;
      op->walk([&](Operation *nested) { llvm::append_range(open, nested->getOperands()); });
    }
    return false;
  }

  /// Checks the loads that TMA copies to shared memory. Loads to registers need no check: each warp loads the values
  /// that it reads.
  std::string ofLoads() {
    llvm::SmallDenseSet<Operation *> copying; // loops with a copy
    std::string fault;
    kernel.walk([&](tile::LoadOp load) {
      if (!isCopied(load))
        return;
      tile::OperandAttr operand = tile::operandOf(load.getView());
      if (!operand || !operand.isTiled() || load.getView().getType().getRank() != 4)
        fault = "it copies a tile of a tensor that has not four dimensions, the last of a fixed extent";
      const bool isBefore = load->getParentOp() == kernel && load->isBeforeInBlock(loops.front());
      auto around = dyn_cast<tile::ForBlocksOp>(load->getParentOp());
      if (around)
        copying.insert(around);
      if (!isBefore && !around)
        fault = "it copies a tile neither before its loops nor in one";
      if ((around && !runsAhead(around, load)) || followsLoop(load->getOperands()))
        fault = "a place that it copies from follows from what a loop computes";
    });
    if (fault.empty() && copying.size() < loops.size())
      fault = loops.size() == 1 ? "it copies no tile in its loop" : "it copies no tile in one of its loops";
    return fault;
  }

  /// Whether the warpgroups can split the result of the product `mma`: the result has `rows` rows, 64 for each
  /// warpgroup, or fewer rows and columns that the warpgroups can split. If the columns are the contiguous axis of the
  /// right operand, each split must start at a panel (up to 128 bytes of each row) of that operand's swizzled layout.
  bool isSplit(tile::MmaOp mma, int64_t rows) {
    TileType result = mma.getResult().getType(), rhs = cast<TileType>(mma.getRhs().getType());
    if (result.getShape()[0] == rows)
      return true;
    const int64_t columns = result.getShape()[1], splits = columnSplits(kernel, result);
    if (!splits)
      return false;
    const int64_t bytes = rhs.getElementType().getIntOrFloatBitWidth() / 8,
                  panel = sched::SwizzleAttr::forBoxes(mma.getContext(), rhs.getShape()[1] * bytes).getPanel();
    return rhs.axis(1) != result.axis(1) || columns / splits * bytes % panel == 0;
  }

  std::string ofProducts() {
    std::string fault;
    const int64_t rows = 16 * kernel.getPlan().getWarps();
    kernel.walk([&](tile::MmaOp mma) {
      TileType result = mma.getResult().getType();
      if (!isa<tile::KernelOp, tile::ForBlocksOp>(mma->getParentOp()))
        fault = "it has a product in a branch";
      else if (cast<TileType>(mma.getLhs().getType()).getElementType().getIntOrFloatBitWidth() != 16)
        fault = "a product's operands are not of 16 bits";
      else if (!ordersChosen)
        return;
      else if (!isSplit(mma, rows))
        fault = "a product has " + std::to_string(result.getShape()[0]) + " rows, not the warpgroups' " +
                std::to_string(rows) + ", and columns that they cannot share";
      else if (result.getShape()[1] % 8 || result.getShape()[1] > 256)
        fault =
            "a product has " + std::to_string(result.getShape()[1]) + " columns, which is no multiple of 8 up to 256";
    });
    return fault;
  }

  /// Rejects stores of shared tiles: all warps of a thread block would have to take part.
  std::string ofStores() {
    std::string fault;
    kernel.walk([&](Operation *op) {
      if (isa<tile::StoreOp, tile::AccumulateOp>(op) && isShared(op->getOperand(0)))
        fault = "it writes a tile of shared memory to global memory";
    });
    return fault;
  }

  tile::KernelOp kernel;
  bool ordersChosen;
  SmallVector<tile::ForBlocksOp> loops;
};

/// Whether the kernel has ops that only kernels with producer warps have: scaled tiles, windows of bias tensors, the
/// row index of a warpgroup, relative-position tables.
bool isMadeForProducerWarps(tile::KernelOp kernel) {
  return holds<Operation *>(kernel, [](Operation *op) {
    auto convert = dyn_cast<tile::ConvertOp>(op);
    return isa<tile::ScaleOp, tile::WindowOp, tile::WarpgroupRowOp>(op) ||
           (convert && tile::isRelative(convert.getResult().getType()));
  });
}

} // namespace

std::string attune::whyNoProducers(tile::KernelOp kernel, bool ordersChosen) {
  return Fault(kernel, ordersChosen).find();
}

namespace {

struct ChoosePath : attune::impl::ChoosePathBase<ChoosePath> {
  using ChoosePathBase::ChoosePathBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::producerWarps(kernel))
        continue;
      const ArchInfo *info = findArch(arch);
      const std::string fault = info && !info->hasProducers() ? arch + " has no warpgroup-level products"
                                                              : whyNoProducers(kernel, ordersChosen);
      if (fault.empty())
        continue;
      if (isMadeForProducerWarps(kernel)) {
        kernel.emitError() << "cannot be scheduled around producer warps, for which some of its ops are: " << fault;
        return signalPassFailure();
      }
      // Removes all schedule attributes except the depths of rings.
      for (StringRef name :
           {StringRef(sched::rolesAttr), StringRef(sched::persistentAttr), StringRef(sched::pingPongAttr),
            StringRef(sched::overlapAttr), StringRef(sched::stageBiasesAttr)})
        kernel->removeAttr(name);
      bool saysWhen = false;
      kernel.walk([&](Operation *op) {
        for (StringRef name : {StringRef(sched::atAttr), StringRef(sched::asyncAttr)})
          saysWhen |= bool(op->removeAttr(name));
        if (sched::RingAttr ring = sched::ringOf(op))
          isa<tile::LoadOp>(op) ? op->setAttr(sched::ringAttr, sched::RingAttr::get(&getContext(), ring.getStages()))
                                : void(op->removeAttr(sched::ringAttr));
      });
      tile::remark(kernel, "products are warp-level and all warps copy: " + fault +
                               (saysWhen ? "; when ops run, which the text says for roles, is left out" : ""));
    }
  }
};

} // namespace
