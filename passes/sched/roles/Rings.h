//===- Rings.h - Tiles that go through rings, and the base class of the writers of roles ------------------===//
#pragma once

#include "passes/Cloning.h"
#include "passes/analysis/copies/CopiedTiles.h"
#include "passes/analysis/cost/CostModel.h"
#include "passes/analysis/dataflow/Dependences.h"

namespace attune::roles {
using namespace mlir; // other passes do not include this header
using tile::TileType;

/// An op whose tile goes through a ring (stages in shared memory, each with a full and an empty mbarrier): a load or
/// window, a conversion to shared memory, or a store or accumulation.
struct Ring {
  Operation *tile;
  sched::RingAttr is; ///< the number of stages, and the warps that fill them
  int64_t firstWarp;  ///< the first warp that fills the ring, counted over all roles that fill rings
  bool isStored;      ///< lanes store the tile element by element (TMA copies it otherwise)
  Value buffer = {}, barriers = {}, map = {};
  Ring *with = nullptr;                ///< the ring whose mbarriers this ring uses; null if it has its own
  SmallVector<Ring *, 1> barrierUsers; ///< the other rings that use this ring's mbarriers

  explicit Ring(Operation *tile)
      : tile(tile), is(sched::ringOf(tile)),
        firstWarp(is ? sched::firstWarpOf(tile->getParentOfType<attune::tile::KernelOp>(), is) : 0),
        isStored(isa<attune::tile::ConvertOp>(tile)) {}
  /// Whether the ring's tile goes to global memory.
  bool leaves() const { return isa<attune::tile::StoreOp, attune::tile::AccumulateOp>(tile); }
  /// The tile that goes through the ring.
  Value value() const { return leaves() ? tile->getOperand(0) : tile->getResult(0); }
  int64_t stages() const { return is.getStages(); }
  /// The rings whose TMA copies arrive on this ring's full barrier: this ring, and the `barrierUsers` that TMA fills.
  SmallVector<Ring *> copied() {
    SmallVector<Ring *> rings{this};
    llvm::copy_if(barrierUsers, std::back_inserter(rings), [](Ring *other) { return !other->isStored; });
    return rings;
  }
};

/// A role's position in a ring: the stage, and the phase, which flips after each pass over all stages.
struct Position {
  Value stage, phase;
};
/// A role's positions in the rings of a loop, which advance together: one position for each different number of stages.
using Positions = SmallVector<Position, 1>;

/// Appends the stage and the phase of each position to `values`, as loops carry them.
inline void append(SmallVectorImpl<Value> &values, ArrayRef<Position> at) {
  for (Position each : at)
    values.append({each.stage, each.phase});
}

/// A message that comes with a ring stage. `read` emits the receive, after the wait for the stage and, if `neededBy` is
/// not null, before that op.
struct AlsoRead {
  function_ref<void()> read = {};
  Operation *neededBy = nullptr;
};

/// The kernel that is split into roles, and functions that LoopRoles (one loop over tiles) and WarpSpecializer (the
/// code around these loops) both use.
struct RoleWriter {
  tile::KernelOp kernel;
  OpBuilder &builder;
  Location loc;
  bool persistent; ///< a thread block computes several tiles of work, one after another
  int64_t warps;   ///< number of consumer warps

  RoleWriter(tile::KernelOp kernel, OpBuilder &builder, Location loc)
      : kernel(kernel), builder(builder), loc(loc), persistent(kernel->hasAttr(sched::persistentAttr)),
        warps(kernel.getPlan().getWarps()) {}

  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  void onlyIf(Value condition, function_ref<void()> body);

  /// Checks that the first producer warp alone fills `ring`.
  static LogicalResult checkFirstWarp(const Ring &ring);

  /// Declares the ring's buffer in shared memory, one tile for each stage, and its barriers unless the ring uses those
  /// of another ring. `filledBy` and `emptiedBy` are the arrivals that complete a full and an empty barrier.
  void declare(Ring &ring, int64_t filledBy, int64_t emptiedBy);
  void declareBuffer(Ring &ring);
  /// Declares the shared buffer for the messages of `fields` integers that the producer sends with a ring's stages.
  Value declareMessages(StringRef name, int64_t stages, int64_t fields);

  /// Starts the TMA copy of the ring's tile into `stage`.
  void copy(Ring &ring, IRMapping &mapping, Value stage);

  /// Field `i` of a message, the same in all lanes.
  Value field(sched::ReceiveOp message, unsigned i, StringRef name) {
    return tile::named(sched::UniformOp::create(builder, loc, builder.getI32Type(), message.getResult(i)), name);
  }

  /// The (stage, order) in which `op` runs; (-1, -1) for an op without sched.at.
  static std::pair<int64_t, int64_t> whenOf(Operation *op) {
    auto at = sched::placeOf(op);
    return at ? std::pair(at.getStage(), at.getOrder()) : std::pair<int64_t, int64_t>(-1, -1);
  }
  /// Gives `op` the stage and order of `as`, an op of the original loop, but not the ping-pong mark of `as`.
  static void placeAs(Operation *as, Operation *op) { sched::placeAt(op, sched::placeOf(as)); }

  /// The first and the last op of the IR block `block` that is, or contains, one of `users`; null if there is no such
  /// op.
  static std::pair<Operation *, Operation *> firstAndLast(ArrayRef<Operation *> users, Block &block);
  /// The first and the last op of the ring's block that read the ring's tile; null if no op does.
  static std::pair<Operation *, Operation *> readersOf(const Ring &ring);
  /// Replaces the ring's load or conversion by a sched.slot, which is the tile in the ring's stage `stage`; `first` is
  /// the slot's first reader. Returns the tile that is read: the slot, or the result of a tile.scale that changes the
  /// slot in place.
  Value replaceBySlot(Ring &ring, Value stage, Operation *first);
  /// Replaces the loads of a ring, and of the rings that share its barriers, by slots of a stage. Emits the wait
  /// (unless `waited`) before the first reader and, if the stage is `refilled`, the release after the last reader.
  /// `byLanes`: each lane arrives to release the stage, rather than one lane for its warp. `also`: a message that is
  /// read after the wait.
  void readStage(Ring &ring, Position at, bool byLanes, bool refilled, bool waited = false, AlsoRead also = {});

private:
  /// The type of one stage of a ring whose tile goes to memory, laid out for TMA boxes.
  TileType storedType(const Ring &ring);
  static std::string stemOf(const Ring &ring);
};

} // namespace attune::roles
