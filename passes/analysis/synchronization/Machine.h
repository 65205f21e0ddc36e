//===- Machine.h - Executes the warps of one thread block, their rings and barriers -===//
//
// Runs the control flow of each warp until the warp has to wait, then that of the next warp. When no warp can go on,
// either all warps have ended or there is a deadlock, which is an error at a waiting op. Errors are detected by vector
// clocks (Clock.h), not by the order in which this simulation runs the warps. The order only decides which warp runs
// ahead of which, so launches alternate between running the first warp first and running the last warp first.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/synchronization/Memory.h"

#include <deque>
#include <map>
#include <set>

namespace attune::synchronization {

/// One run of a thread block: the extents of the launch, the block's index, and how unknown values are guessed.
struct Launch {
  int64_t queries = 0, keys = 0, heads = 1, batches = 1, workItems = 1, tiles = 0, block = 0, blocks = 1;
  enum class Values { Zero, Most, Mixed, Few, FewOthers, FewMore } values = Values::Zero;
  bool backwards = false; ///< run the last warp first

  llvm::SmallVector<std::pair<llvm::StringRef, int64_t>> others = {}; ///< extents of axes without a field above

  int64_t extentOf(llvm::StringRef axis) const; ///< 1 for an axis that is not known
  std::string describe() const;
};

/// An mbarrier: the full or the empty barrier of one stage of a ring.
struct Phase {
  int64_t arrivals = 1, missing = 1, expected = 0, brought = 0;
  uint32_t number = 0;  ///< number of completed phases
  uint32_t arrived = 0; ///< bit mask of warps that have released the stage in this phase
  Clock gathered, complete;
};

struct RingState {
  bool ready = false, fenced = false;
  Actor by; ///< the actor that initialised the ring's mbarriers
  uint32_t at = 0;
  std::vector<Phase> full, empty;
};

struct NamedBarrier {
  int64_t threads = 0, arrived = 0;
  uint32_t warps = 0, waiting = 0;
  mlir::Operation *op = nullptr;
  Clock gathered;
};

/// An asynchronous op (product, TMA store or cp.async) with the places and registers that it uses until complete.
struct Asynchronous {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<Place, 2> reads;
  llvm::SmallVector<int, 2> registers;
};
struct Groups {
  llvm::SmallVector<Asynchronous, 4> open;
  std::deque<llvm::SmallVector<Asynchronous, 4>> closed;
};

/// The state of a register buffer that products use.
struct RegisterState {
  bool touched = true; ///< accessed by ordinary instructions since the last mma_fence
  int underWay = 0;
  bool unnamed = false; ///< a product on the buffer is complete, but no mma_wait has listed the buffer yet
  mlir::Operation *op = nullptr;
};

struct Warp {
  unsigned index = 0;
  int role = -1, firstThread = 0;
  int position = 0;
  uint32_t mask = ~0u;
  llvm::SmallVector<uint32_t, 4> masks;
  std::vector<int64_t> values;
  enum class State : uint8_t { Ready, Blocked, Done } state = State::Ready;
  int64_t tilesBefore = 0;

  uint32_t now = 1;
  /// The events that the lanes have waited for. `all`: every lane has; `some`: the lanes in `someMask` have.
  Clock all, some;
  uint32_t someMask = 0;
  uint32_t apart = 0;  ///< lanes with accesses as Lanes::Each since the last sync_lanes or barrier
  uint32_t stored = 0; ///< lanes that have stored to shared memory since the last sync_lanes or barrier
  int other = -1;      ///< the lane besides lane 0 that is tracked alone (Lanes::Other); -1 before its first access

  Groups products, copies;          ///< a cp.async copy lists the places that it fills in Asynchronous::reads
  std::map<uint32_t, Groups> boxes; ///< groups of TMA stores, by the mask of lanes that started them
  std::vector<RegisterState> registers;

  int64_t get(Slot slot, int lane) const { return slot.at < 0 ? 0 : values[slot.at + (slot.varies ? lane : 0)]; }
  int first() const { return llvm::countr_zero(mask); }
  const Clock &knows() const { return someMask && (mask & ~someMask) == 0 ? some : all; }
};

/// What the thread blocks of a launch have done. Blocks run one after the other and share a record.
struct Record {
  bool complete = true; ///< false if a thread block exceeded maxSteps and was given up
  /// The numbers of the tiles of work that a loop (sched.for_work) has taken, for each loop and warp.
  std::map<std::pair<mlir::Operation *, unsigned>, std::vector<int64_t>> taken;
  /// The boxes that have been stored, each as tensor map and coordinates.
  std::set<std::pair<const void *, std::array<int64_t, 4>>> stored;
  /// For each tile of work (block, number of tiles of work before it): the place of its boxes along each axis of the
  /// grid, and the op that first gave that place.
  std::map<std::pair<int64_t, int64_t>, llvm::SmallVector<std::pair<int64_t, mlir::Operation *>, 4>> places;
};

class Machine {
public:
  explicit Machine(const Program &program);

  /// Runs one block. Fails after emitting an error at the op that breaks a rule.
  mlir::LogicalResult run(const Launch &of, Record &record);

private:
  /// How a warp continues after a step: with the next step (Next), at another step (Jumped), by waiting at this step
  /// (Block), or not at all, after an error (Stop).
  enum class Go { Next, Jumped, Block, Stop };

  void reset();
  Go advance(Warp &warp);
  Go step(Warp &warp, const Step &step);
  mlir::LogicalResult finish();
  mlir::LogicalResult finishWarp(Warp &warp);
  void reportDeadlock();
  Go jump(Warp &warp, int target) {
    warp.position = target;
    return Go::Jumped;
  }

  // Emits an error at `op`, unless the run has failed already. `warp` may be null.
  Go fail(const Warp *warp, mlir::Operation *op, const llvm::Twine &what, mlir::Operation *other = nullptr);

  // Steps of control flow and computation of values, defined in Control.cpp.
  Go control(Warp &warp, const Step &step);
  Go loopStep(Warp &warp, const Step &step);
  Go workStep(Warp &warp, const Step &step);
  Go takeWork(Warp &warp, const Step &step, int otherwise);
  Go branch(Warp &warp, const Step &step);
  void move(Warp &warp, const Step &step);
  void value(Warp &warp, const Step &step);
  int64_t valueIn(Warp &warp, const Step &step, int lane);
  int64_t guess(const Step &step, uint64_t key) const;
  int64_t guessElement(const Warp &warp, const Step &step, int lane) const;

  // Steps of rings and named barriers, defined in Rings.cpp.
  Go ring(Warp &warp, const Step &step);
  Go initRing(Warp &warp, const Step &step);
  Go waitFor(Warp &warp, const Step &step, bool full);
  Go arrive(Warp &warp, const Step &step, bool full, int64_t count);
  Go completeIfDone(Warp &warp, const Step &step, Phase &phase, unsigned component);
  Go synchronize(Warp &warp, const Step &step, int64_t id, int64_t threads, bool waits);
  Go checkRing(Warp &warp, const Step &step, int64_t stage);
  Clock handOn(Warp &warp, uint32_t lanes);
  void learn(Warp &warp, const Clock &what);
  void synchronizeLanes(Warp &warp);

  // Steps that access shared memory or start products, defined in Accesses.cpp.
  Go access(Warp &warp, const Step &step);
  Go loadBox(Warp &warp, const Step &step);
  Go readBox(Warp &warp, const Step &step);
  Go checkWork(Warp &warp, const Step &step);
  Go message(Warp &warp, const Step &step);
  Go boxGroup(Warp &warp, const Step &step);
  Go copyGroup(Warp &warp, const Step &step);
  Go product(Warp &warp, const Step &step);
  Go multiply(Warp &warp, const Step &step);
  Go touch(Warp &warp, const Step &step);
  void complete(Warp &warp, Groups &groups, size_t pending, Lanes lanes);
  /// The place of an access in `buffer`: `rows` rows for each active lane, from the lane's `row` plus `offset` on.
  std::optional<Place> place(Warp &warp, const Step &step, int buffer, Slot stage, Slot row, int64_t rows,
                             int64_t offset = 0);
  Go faultAt(Warp &warp, const Step &step, llvm::StringRef verb, const Place &place, const Fault &fault);
  Lanes activeLanes(Warp &warp);
  Accessor accessor(Warp &warp, const Step &step);

  const Program &program;
  Components components;
  Memory memory;
  Launch launch;
  Record *record = nullptr;
  std::vector<Warp> warps;
  std::vector<RingState> rings;
  std::array<NamedBarrier, 16> barriers;
  std::vector<std::vector<std::array<int64_t, 12>>> messages; ///< fields of the last message, by buffer and stage
  std::vector<int64_t> claimed;
  unsigned steps = 0;
  bool failed = false, stopped = false;

  static constexpr unsigned maxSteps = 1 << 22;
};

} // namespace attune::synchronization
