//===- OverlapProducts.cpp - The softmax of a tile beside the products of its neighbours ---===//
//
// The consumers' loop is rotated: the product with V of tile n - 1 starts after that with K of tile n, and both run
// beside the softmax of tile n.
//
//     before                                     after
//     ----------------------------------         --------------------------------------------------
//     for tiles n:                               first tile: S = Q K; P, m, l = softmax(S); wait V(first)
//       wait K(n); S = Q K(n); release           for tiles n after it:
//       m, l, alpha, P = softmax(S)                wait K(n); start S = Q K(n)
//       O = O * alpha                              start O += P V(n - 1)
//       wait V(n); O += P V(n); release            wait until S is there; release K(n)
//                                                  m, l, alpha = softmax(S)
//                                                  wait V(n)
//                                                  wait until O is there; release V(n - 1)
//                                                  O = O * alpha; P = convert(S)
//                                                O += P V(last)
//
// A wait's pending count is the number of products committed after the one that it needs.
//
// The wait for V(n) stands before that for O because a device compiler does not move the latter over a loop, and a wait
// on a barrier is one. Without it, the compiler moved the wait for O up to that for S, and no product ran beside the
// softmax. Waiting there holds two stages of V, which a ring of one does not have. So it is where the plan says
// `overlap`; else one warpgroup's products run beside another's softmax, and V(n - 1) is waited for where it is read.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/Cloning.h"
#include "passes/analysis/Dependences.h"

namespace attune {
#define GEN_PASS_DEF_OVERLAPPRODUCTS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using sched::ForTilesOp;

namespace {

/// The parts of a consumer's loop body.
struct Parts {
  tile::MmaOp scores, output;
  tile::ConvertOp probability;
  tile::MapOp rescale;
  sched::WaitOp waitKeys, waitValues;
  sched::ReleaseOp releaseKeys, releaseValues;
  sched::SlotOp keys, values;
  unsigned accumulator = 0; ///< index among the loop's tiles
};

std::optional<Parts> match(ForTilesOp loop) {
  Parts parts;
  Block &body = loop.getBody().front();
  for (auto mma : body.getOps<tile::MmaOp>())
    (cast<tile::TileType>(mma.getLhs().getType()).hasAxis("k") ? parts.output : parts.scores) = mma;
  if (!parts.scores || !parts.output || llvm::range_size(body.getOps<tile::MmaOp>()) != 2)
    return std::nullopt;
  parts.probability = parts.output.getLhs().getDefiningOp<tile::ConvertOp>();
  parts.rescale = parts.output.getAcc().getDefiningOp<tile::MapOp>();
  parts.keys = parts.scores.getRhs().getDefiningOp<sched::SlotOp>();
  parts.values = parts.output.getRhs().getDefiningOp<sched::SlotOp>();
  if (!parts.probability || !parts.rescale || !parts.keys || !parts.values || !parts.probability->hasOneUse() ||
      !parts.rescale->hasOneUse())
    return std::nullopt;
  auto carried = dyn_cast<BlockArgument>(parts.rescale.getInputs().front());
  unsigned scalars = loop.getInits().size();
  if (!carried || carried.getOwner() != &body || !carried.hasOneUse() ||
      loop.getNext().getValues()[carried.getArgNumber()] != parts.output.getResult())
    return std::nullopt;
  parts.accumulator = carried.getArgNumber() - scalars;
  // A slot stands behind the wait for it.
  parts.waitKeys = dyn_cast_or_null<sched::WaitOp>(parts.keys->getPrevNode());
  parts.waitValues = dyn_cast_or_null<sched::WaitOp>(parts.values->getPrevNode());
  if (!parts.waitKeys || !parts.waitValues)
    return std::nullopt;
  for (auto release : body.getOps<sched::ReleaseOp>()) {
    if (release.getRing() == parts.waitKeys.getRing())
      parts.releaseKeys = release;
    if (release.getRing() == parts.waitValues.getRing())
      parts.releaseValues = release;
  }
  if (!parts.releaseKeys || !parts.releaseValues)
    return std::nullopt;
  return parts;
}

class LoopRotator {
public:
  /// `early`: V of a tile is waited for when its softmax ends.
  LoopRotator(ForTilesOp loop, Parts parts, bool early)
      : loop(loop), parts(parts), builder(loop), loc(loop.getLoc()), early(early) {}

  void run() {
    unsigned scalars = loop.getInits().size(), tiles = loop.getTiles().size();
    // Entered at most once: only where there is a tile. It leaves with its bound, which a device compiler sees; where
    // another loop goes on from the tile after the last, and that is another than the bound, it is carried beside.
    const bool goesOn = loop.getKeeps() && !loop.getKept().front().use_empty() && !isDense();
    SmallVector<Value> entry(loop.getInits());
    if (goesOn)
      entry.push_back(entry.front());
    auto outer = ForTilesOp::create(builder, loc, entry, loop.getBound(), loop.getTiles(), loop.getKeeps());
    static constexpr StringRef outerNames[] = {"first_tile", "first_stage", "first_phase", "following_tile"};
    outer->setAttr(tile::namesAttr, builder.getStrArrayAttr(ArrayRef(outerNames).take_front(entry.size())));
    builder.setInsertionPointToStart(&outer.getBody().front());
    SmallVector<Value> entered(outer.getBody().getArguments());
    if (goesOn)
      entered.erase(entered.begin() + scalars);

    // The first tile.
    IRMapping first;
    for (auto [old, argument] : llvm::zip(loop.getBody().getArguments(), entered))
      first.map(old, argument);
    for (Operation &op : loop.getBody().front().without_terminator()) {
      if (isValuesPart(&op) || &op == parts.rescale || first.contains(&op))
        continue;
      Operation *copy = builder.clone(op, first);
      if (&op == parts.scores) {
        copy->setAttr(sched::asyncAttr, builder.getUnitAttr());
        finishScores(first, copy->getResult(0), 0);
      }
    }
    if (early)
      wait(parts.waitValues, entered[1], entered[2]);
    Value accumulator = entered[scalars + parts.accumulator];

    // The others. They also carry where V of the tile before lies, and P.
    SmallVector<Value> inits, carried;
    OperandRange next = loop.getNext().getValues();
    for (unsigned i = 0; i < scalars; ++i)
      inits.push_back(first.lookupOrDefault(next[i]));
    inits.push_back(entered[1]);
    if (!early)
      inits.push_back(entered[2]);
    const unsigned places = inits.size();
    for (unsigned i = 0; i < tiles; ++i)
      carried.push_back(i == parts.accumulator ? accumulator : first.lookupOrDefault(next[scalars + i]));
    carried.push_back(first.lookup(parts.probability.getResult()));
    auto inner = ForTilesOp::create(builder, loc, inits, loop.getBound(), carried, /*keeps=*/true);
    SmallVector<StringRef> names{"tile", "stage", "phase", "v_stage", "v_phase"};
    inner->setAttr(tile::namesAttr, builder.getStrArrayAttr(ArrayRef(names).take_front(places)));
    builder.setInsertionPointToStart(&inner.getBody().front());
    writeBody(inner, scalars, places);

    // The last product with V.
    builder.setInsertionPointAfter(inner);
    Value stage = inner.getKept()[scalars], phase = early ? Value() : inner.getKept()[scalars + 1];
    IRMapping last;
    Value output =
        multiplyValues(last, inner.getResult(tiles), inner.getResult(parts.accumulator), stage, phase, /*async=*/false);
    release(parts.releaseValues, stage);
    SmallVector<Value> leave{loop.getBound(), inner.getKept()[1], inner.getKept()[2]};
    if (goesOn)
      leave.push_back(inner.getKept()[0]);
    for (unsigned i = 0; i < tiles; ++i)
      leave.push_back(i == parts.accumulator ? output : inner.getResult(i));
    sched::NextOp::create(builder, loc, leave);
    SmallVector<Value> results(outer.getResults());
    if (goesOn)
      results[tiles] = results.pop_back_val();
    loop.replaceAllUsesWith(results);
    loop.erase();
  }

private:
  /// Whether the tile after each is the one beside it.
  bool isDense() {
    auto next = loop.getNext().getValues().front().getDefiningOp<arith::AddIOp>();
    return next && next.getLhs() == loop.getBody().getArgument(0) && matchPattern(next.getRhs(), m_One());
  }

  bool isValuesPart(Operation *op) {
    return op == parts.waitValues || op == parts.values || op == parts.output || op == parts.releaseValues;
  }

  void wait(sched::WaitOp like, Value stage, Value phase) {
    sched::WaitOp::create(builder, like.getLoc(), like.getRing(), stage, phase);
  }
  void release(sched::ReleaseOp like, Value stage) {
    sched::ReleaseOp::create(builder, like.getLoc(), like.getRing(), stage);
  }

  /// Beside the products that have been started: what else is read of the stage of K, and loads that follow from no
  /// product. Then waits for S, `pending` products older than the last. Where maps of S read from the stage of K too,
  /// it is released behind them.
  void finishScores(IRMapping &mapping, Value scores, int64_t pending) {
    Block *body = &loop.getBody().front();
    auto isScores = [&](Operation *op) { return op == parts.scores; };
    Operation *read = parts.scores->getNextNode();
    for (; read != parts.releaseKeys; read = read->getNextNode()) {
      if (llvm::any_of(read->getOperands(), [&](Value operand) { return followsFrom(operand, isScores); }))
        break;
      builder.clone(*read, mapping);
    }
    for (auto map : body->getOps<tile::MapOp>())
      if (map.getOnlyIf() && map.getInputs().empty())
        cloneWithOperands(map, body, builder, mapping);
    sched::MmaWaitOp::create(builder, loc, pending, scores);
    if (read == parts.releaseKeys)
      builder.clone(*parts.releaseKeys, mapping);
  }

  /// O + P V of the given stage.
  Value multiplyValues(IRMapping &mapping, Value probability, Value accumulator, Value stage, Value phase, bool async) {
    if (!early)
      wait(parts.waitValues, stage, phase);
    Value slot = sched::SlotOp::create(builder, loc, parts.values.getResult().getType(), parts.values.getRing(), stage);
    mapping.map(parts.output.getLhs(), probability);
    mapping.map(parts.output.getRhs(), slot);
    mapping.map(parts.output.getAcc(), accumulator);
    Operation *product = builder.clone(*parts.output, mapping);
    if (async)
      product->setAttr(sched::asyncAttr, builder.getUnitAttr());
    return product->getResult(0);
  }

  /// `places` numbers are carried: those of the loop before, and where V of the tile before lies.
  void writeBody(ForTilesOp inner, unsigned scalars, unsigned places) {
    auto arguments = inner.getBody().getArguments();
    IRMapping mapping;
    for (unsigned i = 0; i < scalars; ++i)
      mapping.map(loop.getBody().getArgument(i), arguments[i]);
    unsigned tiles = loop.getTiles().size();
    for (unsigned i = 0; i < tiles; ++i)
      mapping.map(loop.getBody().getArgument(scalars + i), arguments[places + i]);
    Value valueStage = arguments[scalars], valuePhase = early ? Value() : arguments[scalars + 1];
    Value probability = arguments[places + tiles], accumulator = arguments[places + parts.accumulator];

    Value output;
    for (Operation &op : loop.getBody().front().without_terminator()) {
      if (isValuesPart(&op) || &op == parts.rescale || &op == parts.probability || mapping.contains(&op))
        continue;
      Operation *copy = builder.clone(op, mapping);
      if (&op != parts.scores)
        continue;
      copy->setAttr(sched::asyncAttr, builder.getUnitAttr());
      IRMapping before;
      output = multiplyValues(before, probability, accumulator, valueStage, valuePhase, /*async=*/true);
      // S is the older of two groups.
      finishScores(mapping, copy->getResult(0), 1);
    }
    if (early)
      wait(parts.waitValues, arguments[1], arguments[2]);
    sched::MmaWaitOp::create(builder, loc, 0, ValueRange{output, probability});
    release(parts.releaseValues, valueStage);
    mapping.map(parts.rescale.getInputs().front(), output);
    builder.clone(*parts.rescale, mapping);
    builder.clone(*parts.probability, mapping);

    SmallVector<Value> next;
    OperandRange values = loop.getNext().getValues();
    for (unsigned i = 0; i < scalars; ++i)
      next.push_back(mapping.lookupOrDefault(values[i]));
    next.push_back(arguments[1]);
    if (!early)
      next.push_back(arguments[2]);
    for (unsigned i = 0; i < tiles; ++i)
      next.push_back(i == parts.accumulator ? mapping.lookup(parts.rescale.getResult())
                                            : mapping.lookupOrDefault(values[scalars + i]));
    next.push_back(mapping.lookup(parts.probability.getResult()));
    sched::NextOp::create(builder, loc, next);
  }

  ForTilesOp loop;
  Parts parts;
  OpBuilder builder;
  Location loc;
  bool early;
};

struct OverlapProducts : attune::impl::OverlapProductsBase<OverlapProducts> {
  using OverlapProductsBase::OverlapProductsBase;

  void runOnOperation() override {
    SmallVector<ForTilesOp> loops;
    getOperation().walk([&](sched::ForWorkOp work) { llvm::append_range(loops, work.getBody().getOps<ForTilesOp>()); });
    for (ForTilesOp loop : loops) {
      tile::PlanAttr plan = loop->getParentOfType<tile::KernelOp>().getPlan();
      if (std::optional<Parts> parts = match(loop))
        LoopRotator(loop, *parts, plan.getOverlap() && plan.getStages() > 1).run();
    }
  }
};

} // namespace
