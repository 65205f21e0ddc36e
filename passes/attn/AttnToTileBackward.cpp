//===- AttnToTileBackward.cpp - Write the kernels of the backward pass ----===//
//
// Writes the gradients with respect to Q, K and V (Dao et al., 2022, Algorithm 4) for any score, mask and normaliser.
// Nothing of size Sq x Sk is stored: each kernel recomputes S, the scores x and the weights P from Q, K and LSE.
//
//     P  = p(x, base(L))                            with statistics (softmax) L = lse(LSE, D), D = divisor(LSE, 1)
//     dV = P'^T dO                                  P' = P with dropout
//     G  = keep(dO V^T) - delta                     delta = divisor_grad(rowsum(dO * O)) - D lse_grad(dLSE)
//                                                   at the statistics (LSE, 1); 0 without statistics
//     dX = p_grad(G), dS = score_grad(dX)           0 at masked keys
//     dK = scale * dS^T Q,  dQ = scale * dS K
//
// There are three kernels, or two without statistics. No kernel adds to the results of another:
//
//     | kernel       | block               | loop                                     | writes          |
//     |--------------|---------------------|------------------------------------------|-----------------|
//     | NAME_rows    | a tile of queries   |                                          | delta, L        |
//     | NAME_keys    | a tile of keys      | the heads of its group, tiles of queries | dK, dV          |
//     | NAME_queries | a tile of queries   | tiles of keys                            | dQ              |
//
// The same kernels compute the gradients of captured tensors, or kernels after them do (CapturedGradients.h): NAME_rows
// and NAME_queries sum per row, NAME_keys sums per key, NAME_queries scatters. NAME_queries also writes dense gradients
// where batches and heads do not share an element.
//
// Each result is summed by one block in a fixed order, so that every launch gives the same bits. Both loops compute S
// and dP, seven products instead of five. With the attribute attn.accumulates_dq five products are enough: the loop
// over queries adds dS K to sums in memory, in no particular order:
//
//     | NAME_rows    | a tile of queries   |                                          | delta, L, zeros |
//     | NAME_keys    | a tile of keys      | the heads of its group, tiles of queries | dK, dV, sums    |
//     | NAME_queries | a tile of queries   |                                          | dQ              |
//
// Gradients of captured tensors that need a loop over keys then have a kernel of their own, NAME_elements; dense
// gradients are written by NAME_keys.
//
// With the attribute attn.separate_dv the loop over queries is written twice, once for each sum, because a thread holds
// one sum of a large head dim in registers and not two. S is computed once more, eight products in all:
//
//     | NAME_values  | a tile of keys      | the heads of its group, tiles of queries | dV              |
//     | NAME_keys    | a tile of keys      | the heads of its group, tiles of queries | dK              |
//     | NAME_queries | a tile of queries   | tiles of keys                            | dQ              |
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/attn/BoundsKernel.h"
#include "passes/attn/backward/Kernels.h"

namespace attune {
#define GEN_PASS_DEF_ATTNTOTILEBACKWARD
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using backward::BackwardProgram;
using backward::KernelFrame;
using backward::Work;

namespace {

/// The kernels of one backward pass, and the tables of the mask that they read.
class BackwardLaunch {
public:
  explicit BackwardLaunch(BackwardProgram &program) : program(program) {}

  void write() {
    const bool accumulatesDq = program.accumulatesDq();
    if (program.hasStatistics() || accumulatesDq)
      add("_rows", {"b", "h", "q"}, Work::Rows, backward::writeRowsKernel);
    if (program.separatesDv())
      add("_values", {"b", "hkv", "k"}, Work::LoopOverQueries, backward::writeValuesKernel);
    tile::KernelOp keys = add("_keys", {"b", "hkv", "k"}, Work::LoopOverQueries, backward::writeKeysKernel);
    if (accumulatesDq)
      add("_queries", {"b", "h", "q"}, Work::Rows, backward::writeSumsKernel);
    if (!accumulatesDq || program.addsByRow())
      add(accumulatesDq ? "_elements" : "_queries", {"b", "h", "q"}, Work::LoopOverKeys, backward::writeQueriesKernel);
    for (const CapturedGradient &gradient : program.captured)
      addCaptured(gradient, keys);
    OpBuilder builder(program.op);
    if (!tables.empty())
      addFirst(writeBoundsKernel(builder, program.op, keys, tables));
    builder.setInsertionPointToStart(program.op->getBlock());
    tile::LaunchOp::create(builder, program.op.getLoc(), program.op.getSymNameAttr(), builder.getArrayAttr(kernels),
                           builder.getDenseBoolArrayAttr(SmallVector<bool>(kernels.size(), false)));
  }

private:
  tile::KernelOp add(const Twine &suffix, ArrayRef<StringRef> axes, Work work, function_ref<void(KernelFrame &)> body) {
    KernelFrame frame(program, suffix, axes, work);
    body(frame);
    frame.finish();
    for (const BoundsTable &table : frame.tables)
      if (!llvm::is_contained(tables, table))
        tables.push_back(table);
    addLast(frame.kernel);
    return frame.kernel;
  }

  /// Adds the kernel that completes the gradient of a captured tensor, and before all other kernels the one that clears
  /// this gradient or its workspace. Declarations of operands are copied from `like`, a kernel of the launch.
  void addCaptured(const CapturedGradient &gradient, tile::KernelOp like) {
    if (!gradient.tiles.empty() || !gradient.scattered.empty())
      addFirst(writeZerosKernel(program.op, gradient, like));
    if (gradient.tiles.empty())
      return addLast(writeGradientKernel(program.op, gradient, like));
    const SmallVector<std::string> grid = backward::gridOfDense(gradient);
    add("_grad_" + gradient.tensor.getName().getValue(), SmallVector<StringRef>(grid.begin(), grid.end()),
        Work::LoopOverKeys, [&](KernelFrame &frame) { backward::writeDenseGradientKernel(frame, gradient); });
  }

  static Attribute symbolOf(tile::KernelOp kernel) { return FlatSymbolRefAttr::get(kernel.getSymNameAttr()); }
  void addFirst(tile::KernelOp kernel) { kernels.insert(kernels.begin(), symbolOf(kernel)); }
  void addLast(tile::KernelOp kernel) { kernels.push_back(symbolOf(kernel)); }

  BackwardProgram &program;
  SmallVector<Attribute> kernels;
  SmallVector<BoundsTable> tables;
};

struct AttnToTileBackward : attune::impl::AttnToTileBackwardBase<AttnToTileBackward> {
  using AttnToTileBackwardBase::AttnToTileBackwardBase;

  void runOnOperation() override {
    for (auto op : llvm::make_early_inc_range(getOperation().getOps<attn::AttentionOp>())) {
      if (!op.getGradients())
        continue;
      auto plan = op->getAttrOfType<attn::PlanAttr>(attn::planAttr);
      if (!plan || op.getPGrad().empty()) {
        op.emitError() << "has no "
                       << (plan ? "regions of gradients; run attn-differentiate" : "attn.plan; run attn-tile-size")
                       << " first";
        return signalPassFailure();
      }
      auto ofQueries = op->getAttrOfType<attn::PlanAttr>(attn::queriesPlanAttr);
      BackwardProgram program{op, plan, ofQueries ? ofQueries : plan, granularity, {}};
      if (program.separatesDv() && program.accumulatesDq()) {
        op.emitError() << "has attn.separate_dv and attn.accumulates_dq, with which one loop computes dQ, dK and dV; "
                          "leave one out";
        return signalPassFailure();
      }
      FailureOr<SmallVector<CapturedGradient>> captured = planCapturedGradients(op);
      if (failed(captured))
        return signalPassFailure();
      program.captured = *captured;
      BackwardLaunch(program).write();
      op.erase();
    }
  }
};

} // namespace
