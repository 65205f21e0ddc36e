//===- WarpSpecializer.h - Splits a kernel into a producer and a consumer role ---===//
//
// SpecializeWarps.cpp has a diagram of the two roles. The parts:
//
//     Rings.h, Rings.cpp             tiles that go through rings: buffers, barriers, positions
//     LoopRoles.h                    one loop over tiles, in Rings.cpp, Producer.cpp and Consumer.cpp
//     Work.cpp                       tiles of work, and messages about them
//     Roles.cpp                      the roles around the loops over tiles
//     SpecializeWarps.cpp            which warps fill which rings, and the pass
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/WorkOrder.h"
#include "passes/sched/roles/LoopRoles.h"

#include <map>
#include <memory>

namespace attune::roles {

class WarpSpecializer : RoleWriter {
public:
  WarpSpecializer(tile::KernelOp kernel, OpBuilder &builder, ArrayRef<tile::ForBlocksOp> of)
      : RoleWriter(kernel, builder, tile::ForBlocksOp(of.front()).getLoc()) {
    for (tile::ForBlocksOp loop : of)
      loops.push_back(std::make_unique<LoopRoles>(kernel, builder, loop));
  }

  LogicalResult run();

private:
  /// A role's loop over tiles of work, and the arithmetic that maps a number to its tile of work and to the next
  /// number.
  struct Work {
    sched::ForWorkOp loop;
    WorkOrder numbers;
  };
  /// The fields of the message that the first producer warp sends to the other warps for each tile of work.
  struct Task {
    Value more;                ///< whether another tile of work follows; null if blocks are not persistent
    SmallVector<Value> firsts; ///< the first tile of each loop whose tiles are found by a search
    SmallVector<Value> begins; ///< each warpgroup's first visible tile, for each loop that searches for these tiles
  };

  /// A range of warps, numbered through all roles that fill rings.
  struct Warps {
    int64_t first, count;
    int64_t end() const { return first + count; }
    bool contains(int64_t warp) const { return first <= warp && warp < end(); }
  };

  /// Finds the rings of copies before the loops, and of all loops.
  LogicalResult findRings();
  /// Checks which warps fill which rings, and finds the warps other than producer warp 0 that fill rings (`others`).
  LogicalResult findOthers();
  /// Emits the initialisation of the mbarriers by one thread, followed by a barrier of the thread block.
  void initialise();

  Block *writeRole(sched::RoleAttr is) {
    auto role = sched::RoleOp::create(builder, loc, is.getName().getValue(), is.getWarps(),
                                      builder.getI64IntegerAttr(is.getRegisters()));
    return &role.getBody().emplaceBlock();
  }

  //===--- Tiles of work ---===//

  /// The number of values that the loop over tiles of work carries for the rings of the first `end` loops over tiles.
  size_t carriedCount(size_t end) const;
  /// The initial ring positions that a loop over tiles of work carries; empty unless blocks are persistent.
  SmallVector<Value> ringStart() {
    return persistent ? SmallVector<Value>(carriedCount(loops.size()), i32(0)) : SmallVector<Value>();
  }
  void nameWork(sched::ForWorkOp work, ArrayRef<StringRef> first);
  /// How tiles of work are assigned to blocks.
  WorkOrder::Assignment assignment() const {
    return !persistent ? WorkOrder::Assignment::Once
           : claims    ? WorkOrder::Assignment::Claims
                       : WorkOrder::Assignment::Rounds;
  }
  WorkOrder workOrder(WorkOrder::Assignment assignment);
  Work numberedWork();
  Work receivedWork();
  /// The positions in the rings of loop `i` that `work` carries from one tile of work to the next: none unless blocks
  /// are persistent.
  ValueRange carriedFor(sched::ForWorkOp work, size_t i);
  /// The position in the ring of Q of the tile of work with index `count` in the loop: stage `count mod stages`, phase
  /// the parity of `count / stages`.
  Position queryPosition(sched::ForWorkOp work);
  /// Ends the body of the loop over tiles of work. `positions` are the stages and phases in the rings of all loops.
  /// `following` is the number of the next tile of work or, in a role that receives its work by messages, whether there
  /// is a next tile of work. `wholeWarp`: all lanes run the loop, so the positions are marked uniform.
  void nextWork(sched::ForWorkOp work, ValueRange positions, Value following, bool wholeWarp = true);
  /// The number of the tile of work that the thread block claims from the counter in memory.
  Value claimWork();
  /// Whether there is a tile of work of this number: 1 or 0.
  Value hasNext(sched::ForWorkOp work, Value number) {
    Value is = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, number, work.getBound());
    return tile::named(arith::ExtUIOp::create(builder, loc, builder.getI32Type(), is), "more");
  }

  //===--- Messages about tiles of work ---===//

  /// Whether any loop's tiles are found by a search.
  bool searches() const {
    return llvm::any_of(loops, [](const auto &loop) { return loop->searches(); });
  }
  /// Declares the buffer of the messages about tiles of work (`tasks`) and its barriers. `followers` is the number of
  /// producer warps that receive the messages, in addition to the consumers.
  void declareTasks(int64_t followers);
  /// The number of stages of the message buffer `tasks`, and of the rings of copies before the loop.
  int64_t taskStages() const { return !once.empty() ? once.front().stages() : persistent ? 2 : 1; }
  /// The number of message fields for the position of a tile of work and for whether another tile of work follows.
  int64_t taskPlaceFields() { return persistent ? int64_t(kernel.getGrid().size()) + 1 + int64_t(told.size()) : 0; }
  /// Waits for the stage `query` of the ring of Q, whose mbarriers also signal the message about the tile of work. Then
  /// reads this message from shared memory. Calls `tell` for each tile.block_index op of `ops`, with the value that
  /// replaces the op: the index of the tile of work along an axis of the grid. Calls it for each integer of `told`, too.
  /// With `begins`, the message also holds the first visible tile of each warpgroup, which is read too.
  Task receiveTask(Position query, ArrayRef<Operation *> ops, function_ref<void(Value, Value)> tell, bool begins);
  /// Releases the stage of a persistent block's message, unless readers of copies before the loops release that stage.
  /// The release is at the end of the tile of work: sched-rematerialize reads the message once more after a loop.
  void releaseTask(Position query);

  //===--- The producer ---===//

  /// Writes the producer role. The first warp copies, other warps fill the rings that name them; all of them loop over
  /// the same tiles.
  LogicalResult writeProducer(Block *block, Warps of, ArrayRef<Operation *> original);
  /// Writes a role between the producer and the consumers, whose warps fill rings or store tiles.
  LogicalResult writeFiller(Block *block, Warps of, ArrayRef<Operation *> original);
  /// Whether one elected lane of the first warp runs the loops over tiles, because the other lanes have nothing to do.
  /// The election is then outside of the loops; inside, ptxas may elect a lane anew in each iteration.
  bool walksAlone() const {
    return once.empty() && !tasks && llvm::none_of(loops, [](const auto &loop) { return loop->hasColumns(); });
  }
  /// A callback that emits the beginning of a tile of work; `task` are the fields of the message about it.
  using AtWork = function_ref<void(IRMapping &mapping, Position query, ArrayRef<Value> task)>;
  /// A callback that emits the body of one of the loops over tiles.
  using AtTile = function_ref<void(LoopRoles &loop, IRMapping &mapping, ArrayRef<Position> at, ArrayRef<Value> visit)>;
  /// Writes the loop over tiles of work and, in it, the loops over tiles, for the producer warps from `first` on.
  /// `begin` emits code before the inner loops, for the stage of Q, and `each` emits the bodies of the inner loops. If
  /// the first warp finds tiles by a search, a warp without `begin` takes its tiles from the messages that the first
  /// warp sends to the consumers.
  LogicalResult walkWork(ArrayRef<Operation *> original, int64_t first, AtWork begin, AtTile each);
  /// Recomputes in this role the scalars before and between the loops, on which tile coordinates depend.
  /// Canonicalisation drops unused scalars.
  void cloneScalars(ArrayRef<Operation *> original, IRMapping &mapping);
  /// Writes a branch with loops over tiles for each group of warps of the role `of` that fills rings. Producer warp 0
  /// is excluded. `thread` is the thread's number in the role.
  LogicalResult writeOthers(Value thread, Warps of, ArrayRef<Operation *> original);
  LogicalResult writeBranch(Value thread, Warps of, Warps who, ArrayRef<Operation *> original);

  //===--- The consumers ---===//

  /// Replaces each tile.block_index by the position of the tile of work along the op's axis of the grid.
  void placeWork(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original);
  LogicalResult writeConsumer(sched::ForWorkOp work, WorkOrder &numbers, ArrayRef<Operation *> original);

  SmallVector<Ring> once; ///< copies before the loops: Q
  SmallVector<std::unique_ptr<LoopRoles>> loops;
  /// Buffer of the messages about a tile of work: the position of a persistent block's tile of work, and the first
  /// tiles of loops whose tiles are found by a search. Null if nothing has to be sent.
  Value tasks;
  /// The barriers of `tasks`: those of the first copy before the loops, with which the message comes, or barriers of
  /// their own in a kernel without such a copy.
  Value taskBarriers;
  std::map<int64_t, int64_t> others; ///< groups of warps that fill rings, without warp 0: first warp -> number of warps
  /// The integers that producer warp 0 reads from captured tensors before the loops (integersReadAhead), and that come
  /// to all other warps by message.
  SmallVector<Operation *> told;
  /// Whether warps that fill rings, other than producer warp 0, take the tiles of work from messages.
  bool followMessages() { return searches() || !told.empty(); }
  /// A free thread block claims its next tile of work; else the tile is computed from the index of the thread block.
  bool claims = false;
};

} // namespace attune::roles
