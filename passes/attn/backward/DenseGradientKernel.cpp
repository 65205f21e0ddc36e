//===- DenseGradientKernel.cpp - The gradient of a captured tensor whose indices are coordinates ---===//

#include "passes/attn/backward/GradientAdditions.h"
#include "passes/attn/backward/Kernels.h"

namespace attune::backward {

using Places = std::array<Value, 2>; // the tensor's indices for b and h; null where b or h is no index

namespace {
/// The batches or heads [begin, end) that share an element of the tensor.
struct Sharers {
  Value begin, end;
};
} // namespace

/// The batches or heads, `count` in all, that share an element of the tensor: the one at `place`, or all of them where
/// `place` is null. The last of the tensor's `extent` places is also shared by all batches or heads beyond it, because
/// their index is clamped.
static Sharers sharersOf(KernelFrame &frame, Value count, Value place, Value extent) {
  Value first = frame.number(0);
  if (!place)
    return {first, count};
  Value next = frame.add(place, frame.number(1)), own = arith::MinSIOp::create(frame.builder, next, count);
  return {place, frame.select(frame.compare(Predicate::eq, next, extent), count, own)};
}

/// Restricts a domain over tiles of keys to the tile at `k0`.
static void restrictTo(KernelFrame &frame, tile::DomainOp tiles, Value k0) {
  OpBuilder::InsertionGuard guard(frame.builder);
  frame.builder.setInsertionPoint(tiles);
  Value tile = frame.divide(k0, frame.number(frame.plan.getTileK())), next = frame.add(tile, frame.number(1));
  for (OpOperand &begin : tiles.getBeginsMutable())
    begin.set(arith::MaxSIOp::create(frame.builder, begin.get(), tile));
  for (OpOperand &end : tiles.getEndsMutable())
    end.set(arith::MinSIOp::create(frame.builder, end.get(), next));
}

/// Writes the loops over the batches `all[0]` and the heads `all[1]`. For each batch and head `body` writes the
/// computation of the tile of keys at `k0`. If visibility of the tile depends on neither batch nor head, all (batch,
/// head) pairs are repetitions (`times`) of the domain of one loop.
static Carried loopOverSharers(KernelFrame &frame, const std::array<Sharers, 2> &all, Value k0, const Carried &none,
                               function_ref<Carried(tile::ForBlocksOp, MaskSplit &)> body) {
  auto &builder = frame.builder;
  auto counted = [&](unsigned i) { return frame.subtract(all[i].end, all[i].begin); };
  auto domainOf = [&](unsigned i, StringRef axis) {
    return tile::DomainOp::create(builder, axis, 1, all[i].begin, all[i].end);
  };
  auto setBatch = [&](Value batch) { frame.values.b = frame.b = batch; };
  Value batches = counted(0), iterations = frame.multiply(batches, counted(1));
  Value anyBatch = frame.number(0), anyHead = frame.number(0);
  setBatch(anyBatch);
  frame.values.h = frame.h = anyHead;
  VisibleTiles tiles = frame.visibleTiles();
  restrictTo(frame, tiles.domain, k0);
  if (anyBatch.use_empty() && anyHead.use_empty()) {
    tiles.domain.getTimesMutable().assign(iterations);
    return frame.loopOver(tiles.domain, none, [&](tile::ForBlocksOp loop) {
      Value iteration = loop.getIteration(), heads = counted(1);
      setBatch(tile::named(frame.add(all[0].begin, frame.divide(iteration, heads)), "b"));
      Value head = arith::RemSIOp::create(builder, iteration, heads);
      frame.setHead(tile::named(frame.add(all[1].begin, head), "h"));
      return body(loop, tiles.mask);
    });
  }
  return frame.loopOver(domainOf(0, "b"), none, [&](tile::ForBlocksOp ofBatches) {
    setBatch(ofBatches.getOrigin());
    return frame.loopOver(domainOf(1, "h"), ofBatches.getCarried(), [&](tile::ForBlocksOp ofHeads) {
      frame.setHead(ofHeads.getOrigin());
      tiles = frame.visibleTiles();
      restrictTo(frame, tiles.domain, k0);
      return frame.loopOver(tiles.domain, ofHeads.getCarried(),
                            [&](tile::ForBlocksOp loop) { return body(loop, tiles.mask); });
    });
  });
}

/// Replaces the indices b and h of the loop's reads of the captured tensor by the position `places` of the gradient's
/// element: batches and heads that share an element of the gradient also read the same element of the tensor.
static void readAtPlaces(KernelFrame &frame, tile::ForBlocksOp loop, const DenseGradient &gradient,
                         const Places &places) {
  const Places own = {frame.b, frame.h};
  loop.walk([&](tile::ElementOp element) {
    if (tile::capturedTensorOf(element.getView()) != gradient.of->tensor)
      return;
    for (auto [coordinate, value] : llvm::enumerate(own))
      if (auto dim = gradient.dims[coordinate]; dim && element.getIndices()[*dim] == value)
        element.getIndicesMutable()[*dim].set(places[coordinate]);
  });
}

SmallVector<std::string> gridOfDense(const CapturedGradient &gradient) {
  const CoordinateDims dims = dimsOfTile(gradient.tiles.front());
  SmallVector<std::string> grid;
  for (unsigned coordinate : {0u, 1u})
    if (dims[coordinate])
      grid.push_back(gradient.axis(*dims[coordinate]));
  grid.append({"q", "k"});
  return grid;
}

void writeDenseGradientKernel(KernelFrame &frame, const CapturedGradient &gradient) {
  BlockValues &values = frame.values;
  DenseGradient dense{&gradient, dimsOfTile(gradient.tiles.front()), {}};
  auto axisOf = [&](unsigned coordinate) {
    return dense.dims[coordinate] ? gradient.axis(*dense.dims[coordinate]) : std::string();
  };
  Places places;
  for (unsigned coordinate : {0u, 1u})
    if (dense.dims[coordinate])
      places[coordinate] = frame.blockIndex(axisOf(coordinate), coordinate ? "head_place" : "batch_place");
  Value q0 = values.q0 = frame.blockIndex("q", "q0"), k0 = frame.blockIndex("k", "k0");
  Value queries = frame.input("q", {"h", "q", "d"}), keys = frame.input("k", {"hkv", "k", "d"}),
        vs = frame.input("v", {"hkv", "k", "dv"}), dO = frame.input("do", {"h", "q", "dv"});
  const RowViews rows = declareRows(frame);
  dense.view = frame.operand(gradient.declaration());
  frame.readLaunch();
  std::array<Sharers, 2> all;
  const Value counts[] = {values.B, values.H};
  for (unsigned i : {0u, 1u})
    all[i] = sharersOf(frame, counts[i], places[i], places[i] ? frame.axisExtent(axisOf(i), "extent") : Value());
  auto afterTile = [&](tile::ForBlocksOp loop, MaskSplit &mask) {
    Value kvHead = tile::named(frame.divide(frame.h, frame.param("group", frame.i32)), "kv_head");
    const SmallVector<Value, 3> ofQuery{frame.b, frame.h, q0}, ofKey{frame.b, kvHead, loop.getOrigin()};
    const int64_t stages = frame.plan.getStages();
    InputTiles inputs;
    inputs.q = frame.load("q_tile", "q", "d", queries, ofQuery, values.Sq, stages);
    inputs.gradient = frame.load("do_tile", "q", "dv", dO, ofQuery, values.Sq, stages);
    inputs.k = frame.load("k_tile", "k", "d", keys, ofKey, values.Sk, stages);
    inputs.v = frame.load("v_tile", "k", "dv", vs, ofKey, values.Sk, stages);
    // With row statistics the mask's condition k < Sk is dropped: storeTile does not store past the end of the keys.
    if (frame.program.hasStatistics())
      llvm::erase_if(mask.cuts, [](const MaskCut &cut) { return cut.conjuncts.empty(); });
    // The iterations run over batches and heads for one position of the tile, so the row values are loaded in each
    // iteration.
    ScoreTile tile = scoresOf(frame, inputs, {q0, k0, loop.getPartial(), mask},
                              loadRowValues(frame, rows, q0, /*givesValues=*/false, /*withBase=*/false));
    hideWeights(frame, tile);
    Value sum = loop.getCarried()[0];
    for (attn::AddGradientOp add : gradient.tiles)
      sum = sumWith(frame, tile, sum, add);
    // Derivatives may read elements of the captured tensor as well: these reads move to the place of the gradient's
    // element.
    readAtPlaces(frame, loop, dense, places);
    return Carried{sum};
  };
  const Carried none{frame.splat("gradient", frame.scores(), frame.zero)};
  storeTile(frame, loopOverSharers(frame, all, k0, none, afterTile).front(), dense, places, q0, k0);
  if (frame.plan.getPersistent()) {
    frame.kernel->setAttr(sched::persistentAttr, frame.builder.getUnitAttr());
    if (frame.plan.getLongestFirst())
      sched::setLongTiles(frame.kernel, sched::LongTiles::Last);
  }
  // The launch skips this kernel if no two batches or heads share an element of the tensor: the main loop has then
  // written the gradient.
  if (isWrittenByLoop(gradient))
    tile::skipIf(frame.kernel, {{"b", axisOf(0)}, {"h", axisOf(1)}});
}

} // namespace attune::backward
