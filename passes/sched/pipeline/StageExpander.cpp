//===- StageExpander.cpp - Splits stage 0 off a loop: prologue, steady loop, epilogue ===//

#include "passes/analysis/score/MapPatterns.h"
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
  /// A value that the steady loop (the loop over the tiles after the first) carries.
  struct Carried {
    Value value; ///< an argument of the original loop, or a result of stage 0 that stage 1 reads
    bool before; ///< whether the loop carries the value for the previous tile, which stage 1 reads
    Value init = {}, argument = {};
  };

  bool isTile(Value value) { return isa<tile::TileType>(value.getType()); }

  /// A loop carries register tiles and i32 values. It cannot carry a tile in shared memory, because a later write
  /// overwrites such a tile for all warps.
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
      // A product of stage 1 computes the value of `argument` in the same iteration in which stage 0 reads it. So the
      // loop does not carry `argument`: it carries the accumulator input of that product, which stage 0 computed.
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
    // In `carried`, the i32 values come before the tiles.
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

  /// Whether the loop's next tile index is always the index plus one.
  bool isDense() {
    auto next = loop.getNext().getValues().front().getDefiningOp<arith::AddIOp>();
    return next && next.getLhs() == body.getArgument(0) && matchPattern(next.getRhs(), m_One());
  }

  /// Opens the outer sched.for_tiles, whose body runs once if there is a tile, else never. The body sets the next tile
  /// index to the bound, so that the device compiler sees that the body does not repeat. If a later loop continues at
  /// the tile after this loop's last tile, and that tile may differ from the bound, the outer loop carries that tile as
  /// a value of its own (`following_tile`).
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

  /// Clones an op into the steady loop. If that loop has stages left to expand, the copy keeps its stage and order.
  void cloneInSteady(Step step, IRMapping &mapping) {
    if (!stages.overlapsMore())
      return clone(step.op, mapping, /*keepsPingPong=*/true);
    builder.clone(*step.op, mapping)->setAttr(sched::atAttr, stages.placeAfter(step));
  }

  /// Writes the prologue: stage 0 of the first tile. In the first expansion step, the prologue is no ping-pong section;
  /// in later steps it is. A map that rescales an accumulator of zeros is replaced by that accumulator.
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
      if (!argument && !isTile(each.value)) {
        const StringRef name = tile::nameOf(each.value);
        names.push_back((name.empty() ? "value" : name).str() + "_before");
      }
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

  /// The name of an i32 value that the loop carries: a tile index, or a position in a ring.
  std::string nameOf(unsigned index) {
    if (auto names = loop->getAttrOfType<ArrayAttr>(tile::namesAttr); names && index < names.size())
      return cast<StringAttr>(names[index]).str();
    return index ? "slot" : "tile";
  }

  void setNames(ForTilesOp named, ArrayRef<std::string> names) {
    named->setAttr(tile::namesAttr, builder.getStrArrayAttr(SmallVector<StringRef>(names.begin(), names.end())));
  }

  /// The value of a carried argument after the prologue, with which the steady loop starts.
  Value initOf(BlockArgument argument) {
    Value next = stages.nextOf(argument);
    return first.lookupOrDefault(stages.stageOf(next) == 0 ? next : Value(argument));
  }

  void writeInner(ForTilesOp inner) {
    IRMapping own, before; // values of this iteration's tile, and of the previous tile
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

  /// The final value of a carried value after the steady loop.
  Value leftOf(ForTilesOp inner, const Carried &each) {
    const unsigned number = cast<BlockArgument>(each.argument).getArgNumber(), indices = inner.getInits().size();
    return number < indices ? inner.getKept()[number] : inner.getResult(number - indices);
  }

  /// Writes the epilogue: stage 1 of the last tile.
  void writeLast(ForTilesOp inner) {
    // A value may be carried twice, for this tile and for the previous tile. Stage 1 reads the value for the previous
    // tile, which comes later in `carried` and therefore replaces the value for this tile in the mapping.
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
