//===- WarpSpecializer.h - A kernel's loop by a role that copies and one that computes ---===//
//
// What becomes of which warps is drawn in SpecializeWarps.cpp. The members are by topic:
//
//     SpecializeWarps.cpp    what becomes a ring, messages, the roles
//     Rings.cpp              buffers and barriers, positions in rings, tiles of work
//     Producer.cpp           the walks over tiles of its warps, copies, what they compute
//     Consumer.cpp           the loop of the warps that compute, stages read and released
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/Cloning.h"
#include "passes/analysis/CopiedTiles.h"
#include "passes/analysis/Dependences.h"
#include "passes/analysis/TileSequence.h"
#include "passes/analysis/WarpgroupRows.h"
#include "passes/analysis/cost/CostModel.h"
#include "passes/sched/WorkOrder.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>

namespace attune::roles {
using namespace mlir; // this header is for the roles' own files
using tile::TileType;

/// What is read beside a stage: `read` makes it, where the stage is waited for, in front of `neededBy` at the latest.
struct AlsoRead {
  function_ref<void()> read = {};
  Operation *neededBy = nullptr;
};

class WarpSpecializer {
public:
  WarpSpecializer(tile::KernelOp kernel, tile::ForBlocksOp loop)
      : kernel(kernel), loop(loop), builder(kernel), loc(loop.getLoc()),
        persistent(kernel->hasAttr(sched::persistentAttr)), warps(kernel.getPlan().getWarps()) {}

  LogicalResult run();

private:
  /// A load, the conversion of what is computed to a shared tile, or what takes a tile to memory.
  struct Ring {
    Operation *tile;
    sched::RingAttr is; ///< how deep, and filled by whom
    bool isStored;      ///< by lanes, element by element
    Value buffer = {}, barriers = {}, map = {};
    Ring *with = nullptr;          ///< the one whose barriers it shares, if there is one
    SmallVector<Ring *, 1> beside; ///< those that share its barriers

    explicit Ring(Operation *tile)
        : tile(tile), is(sched::ringOf(tile)), isStored(isa<attune::tile::ConvertOp>(tile)) {}
    /// Whether its tile goes to memory.
    bool leaves() const { return isa<attune::tile::StoreOp, attune::tile::AccumulateOp>(tile); }
    /// The tile in it.
    Value value() const { return leaves() ? tile->getOperand(0) : tile->getResult(0); }
    int64_t stages() const { return is.getStages(); }
    /// Those whose copies fill a stage: it, and of those beside it what no lanes store.
    SmallVector<Ring *> copied() {
      SmallVector<Ring *> rings{this};
      llvm::copy_if(beside, std::back_inserter(rings), [](Ring *other) { return !other->isStored; });
      return rings;
    }
  };
  /// Where a role is in a ring: the stage, and the parity of its walks over the stages.
  struct Position {
    Value stage, phase;
  };
  /// Where it is in the rings of a loop, which advance together: one for each of `depths`.
  using Positions = SmallVector<Position, 1>;
  Position in(ArrayRef<Position> at, const Ring &ring) {
    return at[llvm::find(depths, ring.stages()) - depths.begin()];
  }

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

  /// Where the producer tells what is in each stage of a ring.
  Value declareMessages(StringRef name, int64_t stages, int64_t fields);

  /// Rings that are awaited and left together share barriers.
  void joinRings();
  static bool areTogether(const Ring &a, const Ring &b);

  /// Room for `stages` of what the ring holds.
  Value declareBuffer(const Ring &ring);
  /// Those of a tile on its way to memory, of which TMA takes boxes.
  TileType storedType(const Ring &ring);

  static std::string stemOf(const Ring &ring);

  /// Its buffer, and its barriers, unless it shares another's.
  void declare(Ring &ring, int64_t filledBy, int64_t emptiedBy);

  /// Whether the place along the grid's first axis, of batches, decides what a window shows.
  static bool followsBatch(tile::WindowOp window);

  /// The tensor maps of windows.
  void describeWindows();

  /// One thread makes the barriers; nobody goes on before.
  void initialise();

  Block *writeRole(sched::RoleAttr is) {
    auto role = sched::RoleOp::create(builder, loc, is.getName().getValue(), is.getWarps(),
                                      builder.getI64IntegerAttr(is.getRegisters()));
    return &role.getBody().emplaceBlock();
  }

  /// What becomes a ring, and which warps fill it.
  LogicalResult findRings();
  LogicalResult findOthers();
  /// Stores and additions whose tiles go to memory by way of a ring.
  LogicalResult findStored();
  /// Whether the kernel loads from the tensor of `view`.
  bool isRead(Value view);

  /// The next stage of each ring, and the phase that goes with it.
  Positions advance(ArrayRef<Position> at);

  /// The tiles of work of a role, and what computes where they are and which come next.
  struct Work {
    sched::ForWorkOp loop;
    WorkOrder numbers;
  };

  /// Persistent blocks carry where the rings of K and V are.
  SmallVector<Value> ringStart() {
    return persistent ? SmallVector<Value>(2 * depths.size(), i32(0)) : SmallVector<Value>();
  }
  void nameWork(sched::ForWorkOp work, ArrayRef<StringRef> first);
  /// The positions that a loop carries, from its first argument after the tile on, and the values that it carries.
  Positions carriedPositions(ValueRange arguments);
  static void append(SmallVectorImpl<Value> &values, ArrayRef<Position> at) {
    for (Position each : at)
      values.append({each.stage, each.phase});
  }

  /// How blocks come to their tiles of work.
  WorkOrder::Assignment assignment() const {
    return !persistent ? WorkOrder::Assignment::Once
           : claims    ? WorkOrder::Assignment::Claims
                       : WorkOrder::Assignment::Rounds;
  }
  WorkOrder workOrder(WorkOrder::Assignment assignment);

  Work numberedWork();

  Work receivedWork();

  /// Where the rings of K and V are when a tile of work begins.
  Positions start(sched::ForWorkOp work);

  /// Where the ring of Q is: count mod stages, and the parity of count / stages.
  Position queryPosition(sched::ForWorkOp work);

  /// The end of a tile of work whose loop over K and V is `tiles`; `following` is the number of the next, or says
  /// whether a received one has a next.
  void nextWork(sched::ForWorkOp work, sched::ForTilesOp tiles, Value following, bool wholeWarp = true);

  void nameCarried(sched::ForTilesOp tiles);

  //===--------------------------------------------------------------------===//
  // The producer
  //===--------------------------------------------------------------------===//

  /// The first warp copies, and others what is theirs (`others`). All walk the same tiles.
  LogicalResult writeProducer(Block *block, ArrayRef<Operation *> original);

  /// Whether one lane of the first warp walks the tiles by itself, as no other has anything to do: a lane elected around
  /// the loop stays the same. In the loop ptxas may elect it in each turn anew.
  bool walksAlone() const { return once.empty() && columns.empty(); }

  /// A load or window of the loop, and those beside it; with K goes what is said of the tile.
  void copyStreamed(Ring &ring, IRMapping &mapping, Position at, ArrayRef<Value> visit = {});

  /// K, and beside it what is read by key, where the mask decides within the tile: the stage is full when both are
  /// there. The wait stands with the copy, in the branch of one lane: a branch without a loop ptxas predicates, but for
  /// the copy, which all lanes then start.
  void copyWithColumns(IRMapping &mapping, Position at, ArrayRef<Value> visit, Value one);

  /// `visit`: of the warp that copies, what it sends about a tile that follows from a search.
  using AtStage = function_ref<void(IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value> visit)>;
  /// `place` says of a persistent block's tile of work where it is, and whether another one follows; `first` is the
  /// first tile of keys, `begins` are those of parts where they are searched.
  using AtWork = function_ref<void(IRMapping &mapping, Position query, ArrayRef<Value> place, Value first,
                                   ArrayRef<Value> begins)>;

  /// The loops over tiles of work and over their tiles of K and V; `before` the inner loop, at the stage of Q, and
  /// `each` in it. Without `before` a warp follows the first one, where that searches, by what it tells the consumers.
  LogicalResult walkTiles(ArrayRef<Operation *> original, AtWork before, AtStage each);

  /// Whether there is a tile of work of this number: 1 or 0.
  Value hasNext(sched::ForWorkOp work, Value number) {
    Value is = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, number, work.getBound());
    return tile::named(arith::ExtUIOp::create(builder, loc, builder.getI32Type(), is), "more");
  }

  /// Fields of a message that say where a tile of work is, and whether another one follows.
  int64_t taskPlaceFields() { return persistent ? int64_t(kernel.getGrid().size()) + 1 : 0; }

  /// Parts of the tile's rows whose first tiles are searched.
  int64_t searchedParts() { return ownBegin ? kernel.getPlan().getTileQ() / rowsOfWarpgroup(kernel) : 0; }

  /// What finds the first tile that shows a part's rows something.
  bool isOfOwnBegin(Operation *op) {
    return ownBegin && (op == ownBegin || op == ownBegin.getDomain().getDefiningOp());
  }

  /// Of each part of the tile's rows the domain; they are to be erased.
  SmallVector<tile::DomainOp> partDomains(const IRMapping &block, ArrayRef<Operation *> original);

  /// What is staged moves here from the consumers' loop, with what is beside it. A stage is awaited before it is
  /// computed: what is loaded goes straight to shared memory, and a warp that holds nothing through a wait leaves its
  /// registers to the consumers.
  void computeStaged(Ring &ring, IRMapping &mapping, Position at);
  void storeStage(Ring &ring, IRMapping &mapping, Value stage);

  /// Warps other than the first, and their walk over the tiles of what they fill.
  LogicalResult writeOthers(Value thread, ArrayRef<Ring *> rings, ArrayRef<Operation *> original);
  LogicalResult walkOthers(ArrayRef<Ring *> rings, ArrayRef<Operation *> original);

  /// The other end of a ring whose tiles go to memory: `one` lane has TMA take a stage, and the warp empties it.
  void writeStored(Ring &ring, IRMapping &mapping, Position at, Value one);

  void onlyIf(Value condition, function_ref<void()> body);

  void copy(Ring &ring, IRMapping &mapping, Value stage);

  //===--------------------------------------------------------------------===//
  // The consumers
  //===--------------------------------------------------------------------===//

  /// The places of the block's tile of work along the axes of the grid take the place of the ops that ask for them.
  void placeWork(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original);

  LogicalResult writeConsumer(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original);

  /// Of what the producer has found for each part, that for the warpgroup's own.
  void chooseOwnBegin(ArrayRef<Value> begins);

  /// Goes over tiles of the block that the warpgroup has no use for: each stage is awaited, as it may be filled again
  /// only then, and released.
  sched::ForTilesOp passOver(TileSequence &sequence, ValueRange from, Value bound);

  /// Field `i` of a message, the same in all lanes.
  Value field(sched::ReceiveOp message, unsigned i, StringRef name) {
    return tile::named(sched::UniformOp::create(builder, loc, builder.getI32Type(), message.getResult(i)), name);
  }

  /// Waits for Q and receives where its tile of work is, for those of `ops` that ask. Whether the producer sends
  /// another, and the first tile of keys, where these are sent.
  std::pair<Value, Value> receiveTask(Position query, ArrayRef<Operation *> ops,
                                      function_ref<void(tile::BlockIndexOp, Value)> tell,
                                      SmallVectorImpl<Value> *begins = nullptr);

  /// Whether each lane arrives when it has read a stage. Where lanes read what lanes have stored, values or a message,
  /// compute-sanitizer wants it so: for it, no lane speaks for another.
  bool byLanes(const Ring &ring) const {
    return ring.isStored || ((visits || !columns.empty()) && ring.barriers == streamed.front().barriers);
  }
  void release(const Ring &ring, Value stage) {
    sched::ReleaseOp::create(builder, loc, ring.barriers, stage, byLanes(ring));
  }

  /// When `op` runs, in stages and orders; ops without sched.at are alike.
  static std::pair<int64_t, int64_t> whenOf(Operation *op) {
    auto at = sched::placeOf(op);
    return at ? std::pair(at.getStage(), at.getOrder()) : std::pair<int64_t, int64_t>(-1, -1);
  }

  /// `op` runs when `as` does, an op of the loop as it is written; turns are for what is written.
  static void placeAs(Operation *as, Operation *op) { sched::placeAt(op, sched::placeOf(as)); }

  /// What the producer has sent with K: the tile after this one, and whether this one is partial.
  sched::ReceiveOp receiveVisit(Position at) {
    Type type = builder.getI32Type();
    return sched::ReceiveOp::create(builder, loc, {type, type}, visits, at.stage);
  }

  /// The next tile, by what the producer has sent with K, of which nothing else is needed.
  Value followVisit(ArrayRef<Position> at);

  /// The first and the last op of the ring's block that read its tile; null where none does.
  static std::pair<Operation *, Operation *> readersOf(const Ring &ring);

  /// The ring's stage in place of the load or conversion, for its readers from the `first` on. Gives what they read: the
  /// stage, or what is changed in its place.
  Value replaceBySlot(Ring &ring, Value stage, Operation *first);

  /// The load is the ring's stage: full from its wait on, as are those beside it; released after the last reader of
  /// these, and what is also read, where it is filled again.
  void readStage(Ring &ring, Position at, bool refilled, bool waited = false, AlsoRead also = {});

  /// What the warps of the role exchange goes into a stage, one after the other.
  void exchange(Ring &ring, Position at);

  /// What goes to memory goes into a stage of its ring, once that is empty; each lane arrives for what it has written.
  void fillStored(Ring &ring, Position at);
  /// Behind the loop: nothing of the rings is on its way any more, and other tiles may lie there.
  void awaitStored(sched::ForTilesOp tiles);

  tile::KernelOp kernel;
  tile::ForBlocksOp loop;
  OpBuilder builder;
  Location loc;
  bool persistent;             ///< blocks take one tile of work after another
  int64_t warps;               ///< that compute
  SmallVector<Ring> once;      ///< copies before the loop: of Q
  SmallVector<Ring> streamed;  ///< those in it: of K, and of V
  SmallVector<Ring> windows;   ///< of captured tensors in it
  SmallVector<Ring> staged;    ///< what producer warps compute for the others in it
  SmallVector<Ring> exchanged; ///< what the warps that compute give each other in it
  SmallVector<Ring> stored;    ///< what they give memory in it, by way of another warp
  /// What maps read by key in it: in stages beside those of the first of `streamed`, by the same barriers.
  SmallVector<Ring> columns;
  /// Messages about each stage of Q: persistent blocks' tiles of work, and the first tile of keys.
  Value tasks;
  /// And, where tiles are searched, about each stage of K: the next tile, and whether this one is partial.
  Value visits;
  /// The first tile that shows a warpgroup's rows something, where that follows from a search.
  tile::FirstVisibleOp ownBegin;
  /// The rings that other warps than the first fill, by the first of these warps.
  std::map<int64_t, SmallVector<Ring *>> others;
  SmallVector<int64_t> depths; ///< of the rings in the loop
  bool sharesWindows = false;  ///< all batches read the same windows
  bool claims = false;         ///< blocks claim tiles of work when they are free; else these follow from their index
};

} // namespace attune::roles
