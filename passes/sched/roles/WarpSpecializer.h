//===- WarpSpecializer.h - Splits a kernel's loop into a producer and a consumer role ---===//
//
// SpecializeWarps.cpp has a diagram of the two roles. The members are grouped by topic:
//
//     SpecializeWarps.cpp    which ops become rings, messages, the two roles
//     Rings.cpp              buffers and barriers, positions in rings, tiles of work
//     Producer.cpp           producer warps: loops over tiles, copies, tiles that producer warps compute
//     Consumer.cpp           consumer warps: the loop over tiles, waits for and releases of ring stages
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/Cloning.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/cost/CostModel.h"
#include "passes/analysis/dataflow/Dependences.h"
#include "passes/analysis/mask/TileSequence.h"
#include "passes/analysis/products/WarpgroupRows.h"
#include "passes/sched/WorkOrder.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>

namespace attune::roles {
using namespace mlir; // other passes do not include this header
using tile::TileType;

/// A message that comes with a ring stage. `read` emits the receive, after the wait for the stage and, if `neededBy` is
/// not null, before that op.
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
  /// An op whose tile goes through a ring: a load or window, a conversion to shared memory, or a store or accumulation.
  struct Ring {
    Operation *tile;
    sched::RingAttr is; ///< the number of stages, and the warps that fill them
    bool isStored;      ///< lanes store the tile element by element (TMA copies it otherwise)
    Value buffer = {}, barriers = {}, map = {};
    Ring *with = nullptr;          ///< the ring whose barriers this ring shares, or null if it has barriers of its own
    SmallVector<Ring *, 1> beside; ///< the rings that share the barriers of this ring

    explicit Ring(Operation *tile)
        : tile(tile), is(sched::ringOf(tile)), isStored(isa<attune::tile::ConvertOp>(tile)) {}
    /// Whether the ring's tile goes to global memory.
    bool leaves() const { return isa<attune::tile::StoreOp, attune::tile::AccumulateOp>(tile); }
    /// The tile that goes through the ring.
    Value value() const { return leaves() ? tile->getOperand(0) : tile->getResult(0); }
    int64_t stages() const { return is.getStages(); }
    /// The rings whose TMA copies together fill a stage: this ring, and the rings of `beside` that lanes do not store.
    SmallVector<Ring *> copied() {
      SmallVector<Ring *> rings{this};
      llvm::copy_if(beside, std::back_inserter(rings), [](Ring *other) { return !other->isStored; });
      return rings;
    }
  };
  /// A role's position in a ring: the stage, and the phase, which flips after each pass over all stages.
  struct Position {
    Value stage, phase;
  };
  /// A role's positions in the rings of a loop, which advance together: one position for each entry of `depths`.
  using Positions = SmallVector<Position, 1>;
  Position in(ArrayRef<Position> at, const Ring &ring) {
    return at[llvm::find(depths, ring.stages()) - depths.begin()];
  }

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }

  /// Declares the shared buffer for the messages that the producer sends with the stages of a ring.
  Value declareMessages(StringRef name, int64_t stages, int64_t fields);

  /// Lets rings that are waited for and released together share one pair of barriers.
  void joinRings();
  static bool areTogether(const Ring &a, const Ring &b);

  /// Declares the ring's buffer in shared memory, one tile for each stage.
  Value declareBuffer(const Ring &ring);
  /// The type of one stage of a ring whose tile goes to memory, laid out for TMA boxes.
  TileType storedType(const Ring &ring);

  static std::string stemOf(const Ring &ring);

  /// Declares the ring's buffer, and its barriers unless the ring uses those of another ring.
  void declare(Ring &ring, int64_t filledBy, int64_t emptiedBy);

  /// Whether the window's indices depend on the batch, which is the grid's first axis.
  static bool followsBatch(tile::WindowOp window);

  /// Declares the tensor maps through which TMA copies windows.
  void describeWindows();

  /// Emits the initialisation of the mbarriers by one thread, followed by a barrier of the thread block.
  void initialise();

  Block *writeRole(sched::RoleAttr is) {
    auto role = sched::RoleOp::create(builder, loc, is.getName().getValue(), is.getWarps(),
                                      builder.getI64IntegerAttr(is.getRegisters()));
    return &role.getBody().emplaceBlock();
  }

  /// Finds the ops whose tiles go through rings, and the warps that fill each ring.
  LogicalResult findRings();
  LogicalResult findOthers();
  /// Finds the stores and accumulations whose tiles go to memory through a ring.
  LogicalResult findStored();
  /// Whether the kernel loads from the tensor of `view`.
  bool isRead(Value view);

  /// The positions one tile later: the next stage of each ring, and its phase.
  Positions advance(ArrayRef<Position> at);

  /// A role's loop over tiles of work, and the arithmetic that maps a number to its tile of work and to the next
  /// number.
  struct Work {
    sched::ForWorkOp loop;
    WorkOrder numbers;
  };

  /// The initial ring positions that a loop over tiles of work carries; empty unless blocks are persistent.
  SmallVector<Value> ringStart() {
    return persistent ? SmallVector<Value>(2 * depths.size(), i32(0)) : SmallVector<Value>();
  }
  void nameWork(sched::ForWorkOp work, ArrayRef<StringRef> first);
  /// Reads ring positions from a loop's carried values, which begin with a stage and a phase for each entry of
  /// `depths`; append() writes them.
  Positions carriedPositions(ValueRange arguments);
  static void append(SmallVectorImpl<Value> &values, ArrayRef<Position> at) {
    for (Position each : at)
      values.append({each.stage, each.phase});
  }

  /// How tiles of work are assigned to blocks.
  WorkOrder::Assignment assignment() const {
    return !persistent ? WorkOrder::Assignment::Once
           : claims    ? WorkOrder::Assignment::Claims
                       : WorkOrder::Assignment::Rounds;
  }
  WorkOrder workOrder(WorkOrder::Assignment assignment);

  Work numberedWork();

  Work receivedWork();

  /// The positions in the loop's rings (K, V) when a tile of work begins.
  Positions start(sched::ForWorkOp work);

  /// The position in the ring of Q of the tile of work with index `count` in the loop: stage `count mod stages`, phase
  /// the parity of `count / stages`.
  Position queryPosition(sched::ForWorkOp work);

  /// Ends the body of the loop over tiles of work; `tiles` is the loop over K and V. `following` is the number of the
  /// next tile of work or, in a role that receives its work by messages, whether there is a next one.
  void nextWork(sched::ForWorkOp work, sched::ForTilesOp tiles, Value following, bool wholeWarp = true);

  void nameCarried(sched::ForTilesOp tiles);

  //===--------------------------------------------------------------------===//
  // The producer
  //===--------------------------------------------------------------------===//

  /// Writes the producer role. The first warp copies, other warps fill the rings in `others`; all of them loop over the
  /// same tiles.
  LogicalResult writeProducer(Block *block, ArrayRef<Operation *> original);

  /// Whether one elected lane of the first warp runs the loop over tiles, because the other lanes have nothing to do.
  /// The election is then outside of the loop; inside, ptxas may elect a lane anew in each iteration.
  bool walksAlone() const { return once.empty() && columns.empty() && !tasks; }

  /// Copies the tile of `ring`, a load or window of the loop, and the tiles of the rings that share its barriers. With
  /// K, also sends the message `visit`: the next tile, and whether this tile is partial.
  void copyStreamed(Ring &ring, IRMapping &mapping, Position at, ArrayRef<Value> visit = {});

  /// Copies K and stores per-key vectors (`columns`) to the same stage, which is full when both are there. Where tiles
  /// are found by a search, only partial tiles get the vectors. One lane starts the copy, in a branch that also
  /// contains the acquire. Without the acquire, which is a loop, ptxas would replace the branch by predicates, but not
  /// for the copy, which all lanes would then start.
  void copyWithColumns(IRMapping &mapping, Position at, ArrayRef<Value> visit, Value one);

  /// A callback that emits the body of the loop over tiles. `visit` has the message fields that the first warp sends
  /// with K if the loop's tiles are found by a search.
  using AtStage = function_ref<void(IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value> visit)>;
  /// A callback that emits the beginning of a tile of work. `place`, for persistent blocks, is the position of the tile
  /// of work and whether another one follows. `first` is the first tile of keys. `begins` has the first visible tile of
  /// each warpgroup's rows, if these tiles are searched.
  using AtWork = function_ref<void(IRMapping &mapping, Position query, ArrayRef<Value> place, Value first,
                                   ArrayRef<Value> begins)>;

  /// Writes the loop over tiles of work and, in it, the loop over tiles of K and V. `before` emits code before the
  /// inner loop, for the stage of Q, and `each` emits the body of the inner loop. If the first warp searches tiles, a
  /// warp without `before` follows the messages that the first warp sends to the consumers.
  LogicalResult walkTiles(ArrayRef<Operation *> original, AtWork before, AtStage each);
  /// The number of the tile of work that the thread block claims from the counter in memory.
  Value claimWork();
  /// Recomputes in this role the scalars before the loop, on which tile coordinates depend. Canonicalisation drops the
  /// unused ones.
  void cloneScalars(ArrayRef<Operation *> original, IRMapping &mapping);
  /// Writes the loop over tiles of K and V from tile `first` on; `entry` are the positions in rings before the loop. If
  /// `follows`, the warp takes the next tile's index from the message that the producer sends with each tile of K; else
  /// the warp computes that index. The builder's insertion point is left at the end of the loop's body.
  sched::ForTilesOp walkKeys(TileSequence &sequence, const TileSequence::Visit &first, ArrayRef<Position> entry,
                             IRMapping &mapping, bool follows, AtStage each);

  /// Whether there is a tile of work of this number: 1 or 0.
  Value hasNext(sched::ForWorkOp work, Value number) {
    Value is = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, number, work.getBound());
    return tile::named(arith::ExtUIOp::create(builder, loc, builder.getI32Type(), is), "more");
  }

  /// Declares `tasks` and its barriers. `followers` is the number of producer warps that receive the messages, in
  /// addition to the consumers.
  void declareTasks(int64_t followers);
  /// The number of stages of `tasks`, and of the rings of copies before the loop.
  int64_t taskStages() const { return once.empty() ? 1 : once.front().stages(); }

  /// The number of message fields for the position of a tile of work and for whether another one follows.
  int64_t taskPlaceFields() { return persistent ? int64_t(kernel.getGrid().size()) + 1 : 0; }

  /// The number of warpgroups whose first visible tiles are searched; 0 without such a search.
  int64_t searchedParts() { return ownBegin ? kernel.getPlan().getTileQ() / rowsOfWarpgroup(kernel) : 0; }

  /// Whether `op` is part of finding the first tile that is visible to a warpgroup's rows.
  bool isOfOwnBegin(Operation *op) {
    return ownBegin && (op == ownBegin || op == ownBegin.getDomain().getDefiningOp());
  }

  /// Clones, for the rows of each warpgroup, the domain that `ownBegin` searches. The caller erases the clones.
  SmallVector<tile::DomainOp> partDomains(const IRMapping &block, ArrayRef<Operation *> original);

  /// Computes the tile of a ring in the producer instead of in the consumers' loop, together with the tiles of rings
  /// that share its barriers. The stage is acquired before the tile is computed, so that the warp keeps no values in
  /// registers across the wait: the producer has few registers, because the consumers get most of them.
  void computeStaged(Ring &ring, IRMapping &mapping, Position at);
  void storeStage(Ring &ring, IRMapping &mapping, Value stage);

  /// Writes the branch of the producer warps (not the first) that fill `rings`, and their loop over tiles.
  LogicalResult writeOthers(Value thread, ArrayRef<Ring *> rings, ArrayRef<Operation *> original);
  LogicalResult walkOthers(ArrayRef<Ring *> rings, ArrayRef<Operation *> original);

  /// The producer's side of a ring whose tiles go to memory: the elected lane (`one`) starts the TMA store of a stage,
  /// and the warp then releases the stage.
  void writeStored(Ring &ring, IRMapping &mapping, Position at, Value one);

  void onlyIf(Value condition, function_ref<void()> body);

  void copy(Ring &ring, IRMapping &mapping, Value stage);

  //===--------------------------------------------------------------------===//
  // The consumers
  //===--------------------------------------------------------------------===//

  /// Replaces each tile.block_index by the position of the tile of work along the op's axis of the grid.
  void placeWork(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original);

  LogicalResult writeConsumer(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original);

  /// Selects this warpgroup's first visible tile from `begins`, which has one for each warpgroup.
  void chooseOwnBegin(ArrayRef<Value> begins);

  /// Writes a loop over tiles that the warpgroup skips, from `from` to `bound`. The warpgroup waits for each stage and
  /// releases it, because the producer refills a stage only after every consumer has released it.
  sched::ForTilesOp passOver(TileSequence &sequence, ValueRange from, Value bound);

  /// Field `i` of a message, the same in all lanes.
  Value field(sched::ReceiveOp message, unsigned i, StringRef name) {
    return tile::named(sched::UniformOp::create(builder, loc, builder.getI32Type(), message.getResult(i)), name);
  }

  /// Waits for Q and receives the message about its tile of work. Calls `tell` with each tile.block_index in `ops` and
  /// the tile of work's position along that axis. Returns whether another tile of work follows, and the first tile of
  /// keys; null for a value that is not sent.
  std::pair<Value, Value> receiveTask(Position query, ArrayRef<Operation *> ops,
                                      function_ref<void(tile::BlockIndexOp, Value)> tell,
                                      SmallVectorImpl<Value> *begins = nullptr);

  /// Whether each lane arrives to release a stage, rather than one lane for its warp. Where lanes read values or a
  /// message that other lanes have stored, each lane arrives, because compute-sanitizer does not count one lane's
  /// arrival for the other lanes.
  bool byLanes(const Ring &ring) const {
    return ring.isStored || ((visits || !columns.empty()) && ring.barriers == streamed.front().barriers);
  }
  void release(const Ring &ring, Value stage) {
    sched::ReleaseOp::create(builder, loc, ring.barriers, stage, byLanes(ring));
  }

  /// The (stage, order) in which `op` runs; (-1, -1) for an op without sched.at.
  static std::pair<int64_t, int64_t> whenOf(Operation *op) {
    auto at = sched::placeOf(op);
    return at ? std::pair(at.getStage(), at.getOrder()) : std::pair<int64_t, int64_t>(-1, -1);
  }

  /// Gives `op` the stage and order of `as`, an op of the original loop, but not the ping-pong mark of `as`.
  static void placeAs(Operation *as, Operation *op) { sched::placeAt(op, sched::placeOf(as)); }

  /// Receives the message that the producer sends with K: the next tile, and whether this tile is partial.
  sched::ReceiveOp receiveVisit(Position at) {
    Type type = builder.getI32Type();
    return sched::ReceiveOp::create(builder, loc, {type, type}, visits, at.stage);
  }

  /// Waits for K, returns the next tile from the message that came with K, and releases the stage without reading K.
  Value followVisit(ArrayRef<Position> at);

  /// The first and the last op of the ring's block that read the ring's tile; null if no op does.
  static std::pair<Operation *, Operation *> readersOf(const Ring &ring);

  /// Replaces the load or conversion by a sched.slot of the ring's stage; `first` is the slot's first reader. Returns
  /// the tile that is read: the slot, or the result of a tile.scale that changes the slot in place.
  Value replaceBySlot(Ring &ring, Value stage, Operation *first);

  /// Replaces the loads of a ring, and of the rings that share its barriers, by slots of a stage. Emits the wait
  /// (unless `waited`) before the first reader and, if the stage is `refilled`, the release after the last reader.
  void readStage(Ring &ring, Position at, bool refilled, bool waited = false, AlsoRead also = {});

  /// Replaces the conversion of a tile to shared memory by a write of the tile to the current stage of its ring.
  /// Consumer warps both write and read such a ring.
  void exchange(Ring &ring, Position at);

  /// Replaces a store to memory by a store to a stage of the ring, once the stage is empty. Each lane arrives for its
  /// own part.
  void fillStored(Ring &ring, Position at);
  /// Waits, after the loop, until TMA has stored all stages, because other buffers may reuse their shared memory.
  void awaitStored(sched::ForTilesOp tiles);

  tile::KernelOp kernel;
  tile::ForBlocksOp loop;
  OpBuilder builder;
  Location loc;
  bool persistent;             ///< a thread block computes several tiles of work, one after another
  int64_t warps;               ///< number of consumer warps
  SmallVector<Ring> once;      ///< copies before the loop: Q
  SmallVector<Ring> streamed;  ///< copies in the loop: K and V
  SmallVector<Ring> windows;   ///< windows of captured tensors that the loop reads
  SmallVector<Ring> staged;    ///< tiles of the loop that producer warps compute for the consumers
  SmallVector<Ring> exchanged; ///< tiles of the loop that consumer warps exchange through shared memory
  SmallVector<Ring> stored;    ///< tiles of the loop that a producer warp stores to memory
  /// Per-key vectors that maps of the loop read. They use the stages and the barriers of streamed.front(), which is K.
  SmallVector<Ring> columns;
  /// Buffer of the messages about a tile of work: a persistent block's tile of work, and the first tile of keys. Null if
  /// nothing has to be sent.
  Value tasks;
  /// The barriers of `tasks`: those of the first copy before the loop, with which the message comes, or barriers of
  /// their own in a kernel without such a copy.
  Value taskBarriers;
  /// Buffer of the messages that come with K if tiles are searched: the next tile, and whether this tile is partial.
  Value visits;
  /// The op that searches for the first tile visible to a warpgroup's rows; null if no search is needed.
  tile::FirstVisibleOp ownBegin;
  /// The rings that producer warps other than the first fill, keyed by the index of the first warp that fills them.
  std::map<int64_t, SmallVector<Ring *>> others;
  SmallVector<int64_t> depths; ///< the different numbers of stages of the rings in the loop
  bool sharesWindows = false;  ///< all batches read the same windows
  /// A free thread block claims its next tile of work; else the tile is computed from the index of the thread block.
  bool claims = false;
};

} // namespace attune::roles
