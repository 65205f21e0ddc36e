//===- KeysKernel.cpp - dK, dV or both of a tile of keys: a loop over tiles of queries ---===//

#include "passes/attn/backward/GradientAdditions.h"
#include "passes/attn/backward/Kernels.h"

namespace attune::backward {

namespace {
/// What the loop over tiles of queries reads and writes.
struct QueryLoop {
  bool givesKeys, givesValues; ///< whether the loop sums dK, and dV
  Value q = {}, gradient = {}; ///< views of Q and dO
  RowViews rows = {};
  Value dq = {};                      ///< view of the float32 sums of dQ; null where another kernel computes dQ
  Value kTile = {}, vTile = {};       ///< tiles in shared memory; no vTile without dK
  Value end = {};                     ///< number of rows of Q and dO to load
  SmallVector<GradientSum> sums = {}; ///< per key
  SmallVector<DenseGradient> dense = {};

  /// Zeros for those of dK and dV that the loop sums.
  Carried zeros(KernelFrame &frame) const {
    Carried all;
    if (givesKeys)
      all.push_back(frame.zeros("dk", "k", "d"));
    if (givesValues)
      all.push_back(frame.zeros("dv", "k", "dv"));
    return all;
  }
};
} // namespace

/// Writes a rounded tile to shared memory, for a product that reads values which other warps computed. Two ring stages
/// are used alternately, so the warpgroups synchronise once per tile.
static Value exchanged(KernelFrame &frame, Value tile, StringRef name) {
  auto type = cast<TileType>(tile.getType()).withSpace(MemorySpace::Shared);
  auto convert = tile::ConvertOp::create(frame.builder, type, tile.getDefiningOp<tile::ConvertOp>().getTile());
  if (frame.program.hasRoles(frame.plan))
    convert->setAttr(sched::ringAttr, sched::RingAttr::get(frame.builder.getContext(), 2));
  return tile::named(convert, name);
}

/// Loads Q and dO of a tile of queries in the order in which they are read.
static InputTiles loadQueryTile(KernelFrame &frame, const QueryLoop &of, Value q0) {
  const SmallVector<Value, 3> row{frame.b, frame.h, q0};
  InputTiles inputs{.q = {}, .k = of.kTile, .v = of.vTile, .gradient = {}};
  auto loadQ = [&] { inputs.q = frame.load("q_tile", "q", "d", of.q, row, of.end, frame.plan.getStages()); };
  const bool readsGradientFirst = frame.savedScore && !readsProductAndSaved(frame.op);
  if (!readsGradientFirst)
    loadQ();
  inputs.gradient = frame.load("do_tile", "q", "dv", of.gradient, row, of.end,
                               of.givesValues ? frame.plan.getStages() : frame.dpStages());
  if (readsGradientFirst)
    loadQ();
  return inputs;
}

/// Computes one tile of queries and returns the loop's next carried values: dK, dV, then the sums per key of captured
/// gradients. If `of.dq` is set, also adds the tile's dQ to the float32 sums in memory.
static Carried afterQueryTile(KernelFrame &frame, const QueryLoop &of, const MaskSplit &mask, tile::ForBlocksOp loop) {
  Value q0 = loop.getOrigin();
  const InputTiles inputs = loadQueryTile(frame, of, q0);
  const TilePlace at{q0, frame.values.k0, loop.getPartial(), mask, of.givesValues};
  ScoreTile tile = scoresOf(frame, inputs, at, loadRowValues(frame, of.rows, q0, of.givesValues));
  Value gradients = of.givesKeys ? scoreGradients(frame, tile) : Value(), p, ds;
  auto roundWeights = [&] {
    if (of.givesValues)
      p = frame.rounded(keptWeights(frame, tile), "p");
  };
  if (!of.givesKeys)
    hideWeights(frame, tile);
  if (!of.dense.empty()) {
    // P rounded to 16 bits takes half the registers while writeDense computes dense gradients.
    roundWeights();
    writeDense(frame, of.dense, tile);
  }
  if (gradients)
    ds = frame.rounded(gradients, "ds");
  if (of.dense.empty())
    roundWeights();
  Value nextV, dq;
  if (p)
    nextV = frame.product("dv", frame.headTile("k", "dv"), p, inputs.gradient, loop.getCarried()[of.givesKeys]);
  if (of.dq)
    dq = frame.product("dq", frame.headTile("q", "d"), exchanged(frame, ds, "ds"), of.kTile);
  Carried next;
  if (ds)
    next.push_back(frame.product("dk", frame.headTile("k", "d"), ds, inputs.q, loop.getCarried()[0]));
  if (nextV)
    next.push_back(nextV);
  if (dq)
    tile::AccumulateOp::create(frame.builder, dq, of.dq, ValueRange{frame.b, frame.h, q0}, frame.values.Sq);
  for (auto [sum, before] : llvm::zip(of.sums, loop.getCarried().drop_front(next.size())))
    next.push_back(addedTo(frame, before, tile, sum.add, "q"));
  return next;
}

/// A loop over the query heads of a group, from `first` on, and over the tiles of queries that see a key of the tile.
/// Returns dK, dV or both. If the same tiles are visited for every head, one loop repeats its domain for each head
/// (`times`). With producer and consumer roles, and without sums per key, the domain is repeated in any case, because
/// roles support a single loop. Sums per key of captured gradients need a loop over heads around the loop over tiles.
static Carried loopOverGroup(KernelFrame &frame, QueryLoop &of, ArrayRef<Value> sumViews, Value first, Value group) {
  BlockValues &values = frame.values;
  auto takeHead = [&](Value head) {
    frame.setHead(head);
    if (endsByHead(frame.op, MaskAxis::Queries))
      of.end = frame.rowsRead(values, MaskAxis::Queries);
  };
  const Carried none = of.zeros(frame);
  const bool inIterations = frame.program.hasRoles(frame.plan) && of.sums.empty();
  frame.h = first;
  (inIterations ? values.firstHead : values.h) = first;
  VisibleTiles tiles = frame.visibleTiles();
  if (inIterations || (first.use_empty() && of.sums.empty())) {
    tiles.domain.getTimesMutable().assign(group);
    return frame.loopOver(tiles.domain, none, [&](tile::ForBlocksOp loop) {
      takeHead(tile::named(frame.add(first, loop.getIteration()), "h"));
      return afterQueryTile(frame, of, tiles.mask, loop);
    });
  }
  Value heads = tile::DomainOp::create(frame.builder, "h", 1, first, frame.add(first, group));
  return frame.loopOver(heads, none, [&](tile::ForBlocksOp ofHeads) {
    takeHead(ofHeads.getOrigin());
    Carried carried(ofHeads.getCarried());
    carried.append(of.sums.size(), noSum(frame, "k"));
    tiles = frame.visibleTiles();
    carried = frame.loopOver(tiles.domain, carried,
                             [&](tile::ForBlocksOp loop) { return afterQueryTile(frame, of, tiles.mask, loop); });
    for (auto [view, result] : llvm::zip(sumViews, ArrayRef(carried).drop_front(none.size())))
      frame.store(result, view, ValueRange{frame.b, frame.h, values.k0}, values.Sk);
    carried.truncate(none.size());
    return carried;
  });
}

static void writeLoopOverQueries(KernelFrame &frame, QueryLoop of) {
  if (frame.plan.getLongestFirst())
    sched::setLongTiles(frame.kernel, sched::LongTiles::First);
  BlockValues &values = frame.values;
  values.b = frame.b = frame.blockIndex("b", "b");
  Value kvHead = frame.blockIndex("hkv", "hkv");
  values.k0 = frame.blockIndex("k", "k0");
  of.q = frame.input("q", {"h", "q", "d"});
  of.gradient = frame.input("do", {"h", "q", "dv"});
  of.rows = declareRows(frame, /*withDelta=*/of.givesKeys);
  const bool accumulatesDq = of.givesKeys && frame.program.accumulatesDq();
  of.dq = accumulatesDq ? frame.sumsOfQueries() : Value();
  Value keys = frame.input("k", {"hkv", "k", "d"}), vs, dk, dv;
  if (of.givesKeys) {
    vs = frame.input("v", {"hkv", "k", "dv"});
    dk = frame.output("dk", {"hkv", "k", "d"});
    of.sums = frame.program.sumsOfElements(/*ofKeys=*/true);
  }
  if (of.givesValues)
    dv = frame.output("dv", {"hkv", "k", "dv"});
  const SmallVector<Value> sumViews = frame.sumViews(of.sums);
  if (accumulatesDq)
    of.dense = declareDense(frame);
  frame.readLaunch();
  // The product cannot overflow: it is the number of a query head.
  Value group = frame.param("group", frame.i32),
        first = arith::MulIOp::create(frame.builder, kvHead, group, arith::IntegerOverflowFlags::nsw);
  BlockValues ofAllHeads = values;
  ofAllHeads.firstHead = tile::named(first, "first_head");
  const Value end = frame.rowsRead(ofAllHeads, MaskAxis::Keys);
  if (!endsByHead(frame.op, MaskAxis::Queries))
    of.end = frame.rowsRead(ofAllHeads, MaskAxis::Queries);
  const SmallVector<Value, 3> at{frame.b, kvHead, values.k0};
  const int64_t stages = frame.plan.getQStages();
  of.kTile = frame.load("k_tile", "k", "d", keys, at, end, stages);
  if (vs)
    of.vTile = frame.load("v_tile", "k", "dv", vs, at, end, stages);
  const Carried sums = loopOverGroup(frame, of, sumViews, first, group);
  if (dk)
    frame.store(frame.scaledBy("dk", sums.front(), gradientScale(frame, of.givesValues)), dk, at, values.Sk);
  if (dv)
    frame.store(frame.keepScale ? frame.scaledBy("dv", sums.back(), frame.keepScale) : sums.back(), dv, at, values.Sk);
}

void writeKeysKernel(KernelFrame &frame) {
  writeLoopOverQueries(frame, {.givesKeys = true, .givesValues = !frame.program.separatesDv()});
}

void writeValuesKernel(KernelFrame &frame) { writeLoopOverQueries(frame, {.givesKeys = false, .givesValues = true}); }

} // namespace attune::backward
