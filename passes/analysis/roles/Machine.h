//===- Machine.h - The warps of one block, their rings and barriers ----------===//
//
// Runs the control of each warp until it has to wait, then the next one's; when none can go on the block has ended, or
// an error is at the op that waits. The order of warps does not decide what is found: clocks do (Clock.h). It decides
// only who gets ahead of whom, so that it is run from both ends.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/roles/Memory.h"

#include <deque>
#include <map>
#include <set>

namespace attune::roles {

/// One run: extents, a block of how many, and how values from memory are taken.
struct Launch {
  int64_t queries = 0, keys = 0, heads = 1, batches = 1, workItems = 1, tiles = 0, block = 0, blocks = 1;
  enum class Values { Zero, Most, Mixed, Few, FewOthers, FewMore } values = Values::Zero;
  bool backwards = false; ///< the last warp first

  int64_t extentOf(llvm::StringRef axis) const; // 1 of an axis that the sizes do not name
  std::string describe() const;
};

/// An mbarrier.
struct Phase {
  int64_t arrivals = 1, missing = 1, expected = 0, brought = 0;
  uint32_t number = 0;  ///< of complete phases
  uint32_t arrived = 0; ///< warps that have released, bit by bit
  Clock gathered, complete;
};

struct RingState {
  bool ready = false, fenced = false;
  Actor by; ///< who has initialised it
  uint32_t at = 0;
  std::vector<Phase> full, empty;
};

struct NamedBarrier {
  int64_t threads = 0, arrived = 0;
  uint32_t warps = 0, waiting = 0;
  mlir::Operation *op = nullptr;
  Clock gathered;
};

/// Asynchronous work in the order of its commits.
struct Asynchronous {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<Place, 2> reads;
  llvm::SmallVector<int, 2> registers;
};
struct Groups {
  llvm::SmallVector<Asynchronous, 4> open;
  std::deque<llvm::SmallVector<Asynchronous, 4>> closed;
};

/// Of a register buffer that products use.
struct RegisterState {
  bool touched = true; ///< since the last mma_fence
  int underWay = 0;
  bool unnamed = false; ///< complete, but no mma_wait has named it
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
  Clock all, some; ///< what every lane knows, and what those in `someMask` know
  uint32_t someMask = 0;
  uint32_t apart = 0;  ///< lanes that have accessed shared memory as Lanes::Each since all lanes met
  uint32_t stored = 0; ///< of all that have stored there since
  int other = -1;      ///< the lane that is Lanes::Other, from its first access on

  Groups products, copies;          ///< of copies the places that they fill are among `reads`
  std::map<uint32_t, Groups> boxes; ///< by the lanes that started them
  std::vector<RegisterState> registers;

  int64_t get(Slot slot, int lane) const { return slot.at < 0 ? 0 : values[slot.at + (slot.varies ? lane : 0)]; }
  int first() const { return llvm::countr_zero(mask); }
  const Clock &knows() const { return someMask && (mask & ~someMask) == 0 ? some : all; }
};

/// What the blocks of a launch have done, one after the other.
struct Record {
  bool complete = true; ///< false where one took too long and was given up
  /// Numbers of tiles of work that a warp's loop has taken.
  std::map<std::pair<mlir::Operation *, unsigned>, std::vector<int64_t>> taken;
  /// Boxes of a tensor that have been stored.
  std::set<std::pair<const void *, std::array<int64_t, 4>>> stored;
  /// By block and how many tiles of work came before: where its boxes lie along the axes of the grid, and whose.
  std::map<std::pair<int64_t, int64_t>, llvm::SmallVector<std::pair<int64_t, mlir::Operation *>, 4>> places;
};

class Machine {
public:
  explicit Machine(const Program &program);

  /// Fails with an error.
  mlir::LogicalResult run(const Launch &of, Record &record);

private:
  /// Whether the warp goes on with the next step, waits at this one, or has found an error.
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

  // Errors. `warp` may be null.
  Go fail(const Warp *warp, mlir::Operation *op, const llvm::Twine &what, mlir::Operation *other = nullptr);

  // Control and values: Control.cpp.
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

  // Rings and barriers: Rings.cpp.
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

  // Shared memory and products: Accesses.cpp.
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
  /// The rows that start at the active lanes' plus `offset`, `rows` each.
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
  std::vector<std::vector<std::array<int64_t, 12>>> messages; ///< by buffer and stage
  std::vector<int64_t> claimed;
  unsigned steps = 0;
  bool failed = false, stopped = false;

  static constexpr unsigned maxSteps = 1 << 22;
};

} // namespace attune::roles
