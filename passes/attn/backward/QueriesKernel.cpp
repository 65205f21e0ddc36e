//===- QueriesKernel.cpp - dQ of a tile of queries: a loop over tiles of keys ---===//

#include "passes/attn/backward/GradientAdditions.h"
#include "passes/attn/backward/Kernels.h"

namespace attune::backward {

void writeQueriesKernel(KernelFrame &frame) {
  BackwardProgram &program = frame.program;
  const bool withQueries = !program.accumulatesDq();
  if (frame.plan.getLongestFirst())
    sched::setLongTiles(frame.kernel, sched::LongTiles::Last);
  BlockValues &values = frame.values;
  values.b = frame.b = frame.blockIndex("b", "b");
  Value head = frame.blockIndex("h", "h"), q0 = values.q0 = frame.blockIndex("q", "q0");
  Value queries = frame.input("q", {"h", "q", "d"}), keys = frame.input("k", {"hkv", "k", "d"}),
        vs = frame.input("v", {"hkv", "k", "dv"}), gradient = frame.input("do", {"h", "q", "dv"});
  const RowViews rows = declareRows(frame);
  Value dq = withQueries ? frame.output("dq", {"h", "q", "d"}) : Value();
  const SmallVector<GradientSum> sums = program.sumsOfElements(/*ofKeys=*/false);
  const SmallVector<Value> sumViews = frame.sumViews(sums);
  const SmallVector<DenseGradient> dense = withQueries ? declareDense(frame) : SmallVector<DenseGradient>();
  frame.readLaunch();
  frame.setHead(head);
  Value kvHead = tile::named(frame.divide(head, frame.param("group", frame.i32)), "kv_head");
  const SmallVector<Value, 3> at{frame.b, head, q0};
  const Value end = frame.rowsRead(values, MaskAxis::Keys);
  VisibleTiles tiles = frame.visibleTiles();
  InputTiles inputs;
  inputs.q = frame.load("q_tile", "q", "d", queries, at, values.Sq, 1);
  inputs.gradient = frame.load("do_tile", "q", "dv", gradient, at, values.Sq, 1);
  const RowValues ofRow = loadRowValues(frame, rows, q0, /*givesValues=*/false);
  Carried inits;
  if (dq)
    inits.push_back(frame.zeros("dq", "q", "d"));
  inits.append(sums.size(), noSum(frame, "q"));
  const Carried ends = frame.loopOver(tiles.domain, inits, [&](tile::ForBlocksOp loop) {
    Value k0 = loop.getOrigin();
    const SmallVector<Value, 3> row{frame.b, kvHead, k0};
    inputs.k = frame.load("k_tile", "k", "d", keys, row, end, frame.plan.getStages());
    inputs.v = frame.load("v_tile", "k", "dv", vs, row, end, frame.dpStages());
    ScoreTile tile = scoresOf(frame, inputs, {q0, k0, loop.getPartial(), tiles.mask}, ofRow);
    Carried next;
    if (dq) {
      Value gradients = scoreGradients(frame, tile);
      writeDense(frame, dense, tile);
      next.push_back(frame.product("dq", frame.headTile("q", "d"), frame.rounded(gradients, "ds"), inputs.k,
                                   loop.getCarried().front()));
    } else {
      hideWeights(frame, tile);
    }
    for (auto [sum, before] : llvm::zip(sums, loop.getCarried().take_back(sums.size())))
      next.push_back(addedTo(frame, before, tile, sum.add, "k"));
    for (const CapturedGradient &gradient : program.captured)
      for (attn::AddGradientOp add : gradient.scattered)
        scatter(frame, tile, add, gradient);
    return next;
  });
  for (auto [view, result] : llvm::zip(sumViews, ArrayRef(ends).take_back(sums.size())))
    frame.store(result, view, at, values.Sq);
  if (dq)
    frame.store(frame.scaledBy("dq", ends.front(), gradientScale(frame, /*givesValues=*/false)), dq, at, values.Sq);
}

} // namespace attune::backward
