//===- LoopRoles.h - One loop over tiles, as the producer and as the consumers run it -----===//
//
// The rings of a loop over tiles, and the loop itself in each role. WarpSpecializer writes the rest of each role: the
// loop over tiles of work, and the code before, between and after the loops over tiles.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/mask/TileSequence.h"
#include "passes/analysis/products/WarpgroupRows.h"
#include "passes/sched/roles/Rings.h"

namespace attune::roles {

class LoopRoles : RoleWriter {
public:
  LoopRoles(tile::KernelOp kernel, OpBuilder &builder, tile::ForBlocksOp loop)
      : RoleWriter(kernel, builder, loop.getLoc()), loop(loop) {}
  LoopRoles(const LoopRoles &) = delete; // rings point to each other

  tile::ForBlocksOp op() { return loop; }
  tile::DomainOp domain() { return loop.getDomain().getDefiningOp<tile::DomainOp>(); }
  /// Whether the next tile is found by a search for tiles that the mask leaves visible. The first producer warp then
  /// searches, and sends a message with each stage of the first copy (K): the next tile, and whether the tile in the
  /// stage is partly masked.
  bool searches() { return domain().skips(); }

  //===--- Rings (Rings.cpp) ---===//

  /// Finds the ops whose tiles go through rings.
  LogicalResult findRings();
  /// Checks that each ring names producer warps that can fill or empty it.
  LogicalResult checkWarps();
  /// All rings that producer warps fill or empty.
  SmallVector<Ring *> rings();
  /// The loop's rings for which `first` is the first of the producer warps that fill or empty the ring. Rings that use
  /// the barriers of another ring are left out.
  SmallVector<Ring *> ringsOf(int64_t first);
  /// Whether the warps from `first` on go through the tiles of the loop: they fill one of its rings, or search.
  bool concerns(int64_t first);
  /// Lets rings that are waited for and released together share one pair of barriers.
  void joinRings();
  /// Whether the loop reads windows (rectangles of bias tensors), and each window is the same for all batches.
  bool sharesWindows();
  bool hasWindows() const { return !windows.empty(); }
  /// Whether lanes of the first producer warp store per-key vectors of masks in the stages of the first copy (K).
  bool hasColumns() const { return !columns.empty(); }
  /// Declares the buffers and barriers of the loop's rings. `followers` is the number of producer warps, other than
  /// warp 0, that read the messages about the tiles that warp 0 finds by a search.
  void declareRings(int64_t followers);
  void declareVisits();
  void initialise();

  /// The number of warpgroups if the loop searches for the first tile that is visible to each warpgroup's rows; else 0.
  int64_t searchedParts() { return ownBegin ? warps / 4 : 0; }
  /// Whether `op` is part of finding the first tile that is visible to a warpgroup's rows.
  bool isOfOwnBegin(Operation *op) {
    return ownBegin && (op == ownBegin || op == ownBegin.getDomain().getDefiningOp());
  }

  //===--- Positions in the rings (Rings.cpp) ---===//

  /// The number of values that a loop over tiles of work carries for the positions: a stage and a phase each.
  size_t carriedCount() const { return 2 * depths.size(); }
  /// The positions in the rings (stage and phase) that the first carriedCount() values of `carried` hold. If `carried`
  /// is empty, all stages and phases are 0.
  Positions positions(ValueRange carried);
  /// The positions in the rings after the loop `tiles`, which returns the values that it carries.
  ValueRange kept(sched::ForTilesOp tiles) { return tiles.getKept().slice(1, carriedCount()); }

  //===--- The producer (Producer.cpp) ---===//

  /// A callback that emits the body of the loop. `at` are the positions in the rings. `visit` has the message fields
  /// that the first warp sends with K if the loop's tiles are found by a search; else it is empty.
  using AtStage = function_ref<void(IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value> visit)>;

  /// Writes a producer warp's loop over tiles from tile `first` on, whose body `each` emits; `entry` are the positions
  /// in rings before the loop. If `follows`, the warp takes the next tile's index from the message that producer warp 0
  /// sends with each tile of K; else the warp computes that index. The insertion point is then after the loop.
  sched::ForTilesOp walkTiles(TileSequence &sequence, const TileSequence::Visit &first, ArrayRef<Position> entry,
                              IRMapping &mapping, bool follows, AtStage each);
  /// Emits what the first producer warp does for a tile: copies, vectors that lanes store, and the message `visit` that
  /// comes with K. `one`: whether the lane is the elected one; `alone`: no other lane is in the loop.
  void fillFirst(IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value> visit, Value one, bool alone);
  /// Emits what producer warps other than warp 0 do for a tile: copy or compute the tiles of `rings`, or store them to
  /// memory. `one`: whether the lane is the elected one.
  void fillOthers(ArrayRef<Ring *> rings, IRMapping &mapping, ArrayRef<Position> at, Value one);
  /// Clones, for the rows of each warpgroup, the domain (the set of tiles) that `ownBegin` searches. `block` maps
  /// values of the `original` ops to those of the producer. The caller erases the clones.
  SmallVector<tile::DomainOp> partDomains(const IRMapping &block, ArrayRef<Operation *> original);

  //===--- The consumers (Consumer.cpp) ---===//

  /// Replaces the loop by the consumers' loop. `carried` has the positions in the rings before the loop (see
  /// positions()). `first` is the first tile that the producer's message names; null if there is no message. `begins`
  /// has the first visible tile of each warpgroup, if these tiles are searched for. `before` emits the reads of tiles
  /// that are copied before the loop; consume() calls `before` once the first tile is known.
  FailureOr<sched::ForTilesOp> consume(ValueRange carried, Value first, ArrayRef<Value> begins,
                                       function_ref<void()> before);

private:
  Position in(ArrayRef<Position> at, const Ring &ring) {
    return at[llvm::find(depths, ring.stages()) - depths.begin()];
  }
  /// The positions one tile later: the next stage of each ring, and its phase.
  Positions advance(ArrayRef<Position> at);
  void nameCarried(sched::ForTilesOp tiles);

  static bool areTogether(const Ring &a, const Ring &b);
  /// Whether the window's indices depend on the batch, which is the grid's first axis.
  static bool followsBatch(tile::WindowOp window);
  /// Declares the tensor maps through which TMA copies windows.
  void describeWindows();
  /// Finds the stores and accumulations whose tiles go to memory through a ring.
  LogicalResult findStored();
  /// Whether the kernel loads from the tensor of `view`.
  bool isRead(Value view);

  /// Copies the tile of `ring`, a load or window of the loop, and the tiles of the rings that share its barriers. With
  /// K, also sends the message `visit`: the next tile, and whether this tile is partial.
  void copyStreamed(Ring &ring, IRMapping &mapping, Position at, ArrayRef<Value> visit = {});
  /// Copies K and stores per-key vectors (`columns`) to the same stage, which is full when both are there. Where tiles
  /// are found by a search, only partial tiles get the vectors. One lane starts the copy, in a branch that also
  /// contains the acquire. Without the acquire, which is a loop, ptxas would replace the branch by predicates, but not
  /// for the copy, which all lanes would then start.
  void copyWithColumns(IRMapping &mapping, Position at, ArrayRef<Value> visit, Value one);
  /// Computes the tile of a ring in the producer instead of in the consumers' loop, together with the tiles of rings
  /// that share its barriers. The stage is acquired before the tile is computed, so that the warp keeps no values in
  /// registers across the wait: the producer has few registers, because the consumers get most of them.
  void computeStaged(Ring &ring, IRMapping &mapping, Position at);
  void storeStage(Ring &ring, IRMapping &mapping, Value stage);
  /// The producer's side of a ring whose tiles go to memory: the elected lane (`one`) starts the TMA store of a stage,
  /// and the warp then releases the stage.
  void writeStored(Ring &ring, IRMapping &mapping, Position at, Value one);

  /// Selects this warpgroup's first visible tile from `begins`, which has one for each warpgroup.
  void chooseOwnBegin(ArrayRef<Value> begins);
  /// Writes a loop over tiles that the warpgroup skips, from `from` to `bound`. The warpgroup waits for each stage and
  /// releases it, because the producer refills a stage only after every consumer has released it.
  sched::ForTilesOp passOver(TileSequence &sequence, ValueRange from, Value bound);
  /// Whether each lane arrives to release a stage, rather than one lane for its warp. Where lanes read values or a
  /// message that other lanes have stored, each lane arrives, because compute-sanitizer does not count one lane's
  /// arrival for the other lanes.
  bool byLanes(const Ring &ring) const {
    return ring.isStored || ((visits || !columns.empty()) && ring.barriers == streamed.front().barriers);
  }
  void release(const Ring &ring, Value stage) {
    sched::ReleaseOp::create(builder, loc, ring.barriers, stage, byLanes(ring));
  }
  /// Receives the message that the producer sends with K: the next tile, and whether this tile is partial.
  sched::ReceiveOp receiveVisit(Position at) {
    Type type = builder.getI32Type();
    return sched::ReceiveOp::create(builder, loc, {type, type}, visits, at.stage);
  }
  /// Waits for K, returns the next tile from the message that came with K, and releases the stage without reading K.
  Value followVisit(ArrayRef<Position> at);
  /// Replaces the conversion of a tile to shared memory by a write of the tile to the current stage of its ring.
  /// Consumer warps both write and read such a ring. They synchronise by the ring's mbarriers if readsLater(ring), else
  /// by a named barrier, which tile-pipeline-stages inserts.
  void exchange(Ring &ring, Position at);
  /// Whether the readers of the exchanged tile are of a later pipeline stage than the write: they read the stage that
  /// the ring had for the previous tile.
  static bool readsLater(const Ring &ring) {
    Operation *first = readersOf(ring).first;
    return first && whenOf(first).first > std::max<int64_t>(whenOf(ring.tile).first, 0);
  }
  /// Arrives on the stage's full barrier: the lanes of a warp synchronise after their stores, and one arrives.
  void commitStores(Ring &ring, Value stage);
  /// Replaces a store to memory by a store to a stage of the ring, once the stage is empty.
  void fillStored(Ring &ring, Position at);
  /// Waits, after the loop, until TMA has stored all stages, because other buffers may reuse their shared memory.
  void awaitStored(sched::ForTilesOp tiles);

  tile::ForBlocksOp loop;
  SmallVector<Ring> streamed;  ///< copies in the loop: K and V
  SmallVector<Ring> windows;   ///< windows of captured tensors that the loop reads
  SmallVector<Ring> staged;    ///< tiles of the loop that producer warps compute for the consumers
  SmallVector<Ring> exchanged; ///< tiles of the loop that consumer warps exchange through shared memory
  SmallVector<Ring> stored;    ///< tiles of the loop that a producer warp stores to memory
  /// Per-key vectors that maps of the loop read. They use the stages and the barriers of streamed.front(), which is K.
  SmallVector<Ring> columns;
  /// Buffer of the messages that come with K if a search finds tiles: the next tile, and whether K is partly masked.
  Value visits;
  /// The op that searches for the first tile visible to a warpgroup's rows; null if no search is needed.
  tile::FirstVisibleOp ownBegin;
  SmallVector<int64_t> depths; ///< the different numbers of stages of the rings
};

} // namespace attune::roles
