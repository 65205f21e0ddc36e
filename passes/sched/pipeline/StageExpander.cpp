//===- StageExpander.cpp - The first stage of a loop beside the others --------===//

#include "passes/analysis/MapPatterns.h"
#include "passes/sched/pipeline/Stages.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace attune::pipeline {

using sched::ForTilesOp;

namespace {

class StageExpander {
public:
  StageExpander(ForTilesOp loop, LoopStages &stages)
      : loop(loop), body(loop.getBody().front()), stages(stages), builder(loop), loc(loop.getLoc()),
        scalars(loop.getInits().size()) {}

  FailureOr<ForTilesOp> run() {
    if (failed(findCarried()))
      return failure();
    ForTilesOp outer = enter();
    writeFirst();
    ForTilesOp inner = openInner();
    writeInner(inner);
    builder.setInsertionPointAfter(inner);
    writeLast(inner);
    leave(outer, inner);
    return inner;
  }

private:
  /// What the inner loop carries beside the indices of the loop as it was.
  struct Carried {
    Value value; ///< an argument of the loop, or what stage 0 gives to stage 1
    bool before; ///< the value of the tile before, which stage 1 reads
    Value init = {}, argument = {};
  };

  bool isTile(Value value) { return isa<tile::TileType>(value.getType()); }

  /// Shared memory is written for all warps at a time: a tile there is no value that each carries.
  static bool isCarriable(Type type) {
    auto tile = dyn_cast<tile::TileType>(type);
    return tile ? tile.getSpace() == tile::MemorySpace::Register : type.isInteger(32);
  }

  LogicalResult findCarried() {
    SmallVector<Value> crossing;
    for (Operation &op : body.without_terminator())
      if (stages.stageOf(&op) == 0)
        for (Value result : op.getResults())
          if (stages.crosses(result))
            crossing.push_back(result);
    for (BlockArgument argument : body.getArguments()) {
      const int64_t next = stages.stageOfNext(argument);
      if (next == 0 || stages.reads(1, argument) || !stages.reads(0, argument)) {
        carried.push_back({argument, /*before=*/false});
        continue;
      }
      // Stage 0 reads what stage 1 has given in the same pass. In its place stands what that adds to.
      Value added = addedTo(stages.nextOf(argument));
      auto place = llvm::find(crossing, added);
      if (place != crossing.end()) {
        carried.push_back({*place, false});
        crossing.erase(place);
      }
    }
    for (BlockArgument argument : body.getArguments())
      if (stages.reads(1, argument) && stages.stageOfNext(argument) == 0)
        carried.push_back({argument, /*before=*/true});
    for (Value value : crossing)
      carried.push_back({value, false});
    for (const Carried &each : carried)
      if (Operation *producer = each.value.getDefiningOp(); producer && !isCarriable(each.value.getType())) {
        const int64_t reader = stages.writtenStageOfReader(each.value);
        return producer->emitError() << "gives " << each.value.getType() << " to an op of stage " << reader
                                     << ", where a loop carries tiles in registers and i32; give it stage " << reader;
      }
    // Indices first.
    SmallVector<Carried> tiles;
    llvm::erase_if(carried, [&](const Carried &each) {
      if (isTile(each.value))
        tiles.push_back(each);
      return isTile(each.value);
    });
    llvm::append_range(carried, tiles);
    return success();
  }

  static Value addedTo(Value next) {
    auto product = next.getDefiningOp<tile::MmaOp>();
    return product ? product.getAcc() : Value();
  }

  /// Whether the tile after each is the one beside it.
  bool isDense() {
    auto next = loop.getNext().getValues().front().getDefiningOp<arith::AddIOp>();
    return next && next.getLhs() == body.getArgument(0) && matchPattern(next.getRhs(), m_One());
  }

  /// A loop that is entered at most once: where there is a tile. It leaves with its bound, which a device compiler sees;
  /// where another loop goes on from the tile after the last, and that is another than the bound, it is carried beside.
  ForTilesOp enter() {
    goesOn = loop.getKeeps() && !loop.getKept().front().use_empty() && !isDense();
    SmallVector<Value> entry(loop.getInits());
    if (goesOn)
      entry.push_back(entry.front());
    auto outer = ForTilesOp::create(builder, loc, entry, loop.getBound(), loop.getTiles(), loop.getKeeps());
    SmallVector<std::string> names;
    for (unsigned i = 0; i < scalars; ++i)
      names.push_back((stages.passName() + "_" + nameOf(i)).str());
    if (goesOn)
      names.push_back("following_tile");
    setNames(outer, names);
    builder.setInsertionPointToStart(&outer.getBody().front());
    SmallVector<Value> entered(outer.getBody().getArguments());
    if (goesOn)
      entered.erase(entered.begin() + scalars);
    for (auto [old, argument] : llvm::zip(body.getArguments(), entered))
      first.map(old, argument);
    return outer;
  }

  void clone(Operation *op, IRMapping &mapping, bool keepsPingPong) {
    Operation *copy = builder.clone(*op, mapping);
    if (auto at = sched::placeOf(copy); at && !(keepsPingPong && at.getPingPong()))
      copy->removeAttr(sched::atAttr);
  }

  /// In the loop over the tiles after the first.
  void cloneInSteady(Step step, IRMapping &mapping) {
    if (!stages.overlapsMore())
      return clone(step.op, mapping, /*keepsPingPong=*/true);
    builder.clone(*step.op, mapping)->setAttr(sched::atAttr, stages.placeAfter(step));
  }

  /// Stage 0 of the first tile; it takes turns where the loop's passes do, the first of which it is. A multiple of a tile of
  /// zeros is that tile.
  void writeFirst() {
    for (Step step : stages.inOrder(0)) {
      auto map = dyn_cast<tile::MapOp>(step.op);
      if (map && rescaleFactor(map) && isZeroAtFirst(map.getInputs().front()))
        first.map(map.getResult(), first.lookup(map.getInputs().front()));
      else
        clone(step.op, first, /*keepsPingPong=*/!stages.isFirstStep());
    }
  }

  bool isZeroAtFirst(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != &body || argument.getArgNumber() < scalars)
      return false;
    auto splat = loop.getTiles()[argument.getArgNumber() - scalars].getDefiningOp<tile::SplatOp>();
    return splat && matchPattern(splat.getValue(), m_AnyZeroFloat());
  }

  ForTilesOp openInner() {
    SmallVector<Value> indices, tiles;
    SmallVector<std::string> names;
    for (unsigned i = 0; i < scalars; ++i)
      names.push_back(nameOf(i));
    for (Carried &each : carried) {
      auto argument = dyn_cast<BlockArgument>(each.value);
      each.init = !argument || each.before ? first.lookupOrDefault(each.value) : initOf(argument);
      (isTile(each.value) ? tiles : indices).push_back(each.init);
      if (each.before)
        names.push_back(nameOf(argument.getArgNumber()) + "_before");
    }
    auto inner = ForTilesOp::create(builder, loc, indices, loop.getBound(), tiles, /*keeps=*/true);
    if (names.size() == indices.size())
      setNames(inner, names);
    Block &block = inner.getBody().front();
    for (auto [each, argument] : llvm::zip(carried, block.getArguments()))
      each.argument = argument;
    builder.setInsertionPointToStart(&block);
    return inner;
  }

  /// The name of an index that the loop carries: a tile, or a place in a ring.
  std::string nameOf(unsigned index) {
    if (auto names = loop->getAttrOfType<ArrayAttr>(tile::namesAttr); names && index < names.size())
      return cast<StringAttr>(names[index]).str();
    return index ? "slot" : "tile";
  }

  void setNames(ForTilesOp named, ArrayRef<std::string> names) {
    named->setAttr(tile::namesAttr, builder.getStrArrayAttr(SmallVector<StringRef>(names.begin(), names.end())));
  }

  /// What the inner loop's first pass takes for a carried value: after the first tile's stage 0.
  Value initOf(BlockArgument argument) {
    Value next = stages.nextOf(argument);
    return first.lookupOrDefault(stages.stageOf(next) == 0 ? next : Value(argument));
  }

  void writeInner(ForTilesOp inner) {
    IRMapping own, before; // of the pass's tile, and of the tile before
    for (const Carried &each : carried) {
      auto argument = dyn_cast<BlockArgument>(each.value);
      const bool byStage1 = argument && stages.stageOfNext(argument) == 1;
      if (argument && !each.before && !byStage1)
        own.map(each.value, each.argument);
      else
        before.map(each.value, each.argument);
    }
    for (Step step : stages.inOrder()) {
      cloneInSteady(step, step.stage ? before : own);
      if (step.stage)
        for (BlockArgument argument : body.getArguments())
          if (Value next = stages.nextOf(argument); next.getDefiningOp() == step.op)
            own.map(argument, before.lookup(next));
    }
    SmallVector<Value> next;
    for (const Carried &each : carried) {
      auto argument = dyn_cast<BlockArgument>(each.value);
      if (!argument)
        next.push_back(own.lookup(each.value));
      else if (each.before)
        next.push_back(own.lookupOrDefault(each.value));
      else
        next.push_back((stages.stageOfNext(argument) == 0 ? own : before).lookupOrDefault(stages.nextOf(argument)));
    }
    sched::NextOp::create(builder, loc, next);
  }

  /// What the inner loop leaves of a carried value.
  Value leftOf(ForTilesOp inner, const Carried &each) {
    const unsigned number = cast<BlockArgument>(each.argument).getArgNumber(), indices = inner.getInits().size();
    return number < indices ? inner.getKept()[number] : inner.getResult(number - indices);
  }

  /// Stage 1 of the last tile.
  void writeLast(ForTilesOp inner) {
    // Of a value that is carried for both stages, that of the tile before, which stands behind the other.
    for (const Carried &each : carried)
      last.map(each.value, leftOf(inner, each));
    for (Step step : stages.inOrder(1))
      clone(step.op, last, /*keepsPingPong=*/false);
  }

  void leave(ForTilesOp outer, ForTilesOp inner) {
    SmallVector<Value> values{loop.getBound()};
    for (unsigned i = 1; i < scalars; ++i)
      values.push_back(inner.getKept()[i]);
    if (goesOn)
      values.push_back(inner.getKept()[0]);
    for (BlockArgument argument : body.getArguments().drop_front(scalars)) {
      Value next = stages.nextOf(argument);
      if (stages.stageOf(next) == 1) {
        values.push_back(last.lookup(next));
        continue;
      }
      const Carried *each = llvm::find_if(carried, [&](const Carried &c) { return c.value == argument && !c.before; });
      values.push_back(leftOf(inner, *each));
    }
    sched::NextOp::create(builder, loc, values);
    const unsigned tiles = loop.getTiles().size();
    SmallVector<Value> results(outer.getResults());
    if (goesOn)
      results[tiles] = results.pop_back_val();
    loop.replaceAllUsesWith(results);
    loop.erase();
  }

  ForTilesOp loop;
  Block &body;
  LoopStages &stages;
  OpBuilder builder;
  Location loc;
  unsigned scalars;
  bool goesOn = false;
  SmallVector<Carried> carried;
  IRMapping first, last;
};

} // namespace

FailureOr<ForTilesOp> expandStages(ForTilesOp loop, LoopStages &stages) { return StageExpander(loop, stages).run(); }

} // namespace attune::pipeline
