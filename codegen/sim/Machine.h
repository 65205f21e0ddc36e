//===- Machine.h - State and steps of one simulated block -------------------===//
//
// The state of a block: its warps, rings, named barriers, shared memory and asynchronous work in flight. The
// declarations at the end list the step functions with their operands.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/LaunchParams.h"
#include "codegen/sim/Memory.h"

#include <cstring>
#include <deque>
#include <limits>
#include <string>

namespace attune::sim {

/// A range of shared memory that a copy writes or an asynchronous op reads.
struct Bytes {
  int64_t address = 0, count = 16;
};

/// A cp.async of one thread, in flight.
struct Copy {
  int lane = 0;
  int64_t to = 0;
  uint32_t op = 0;
  int64_t bytes = 16;
  std::array<std::byte, 16> data = {};
};

/// A store_box or add_rows of one thread, in flight.
struct BoxStore {
  int lane = 0;
  uint32_t op = 0;
  std::vector<Bytes> reads;
};

/// A warp's part of an mma_async in flight. The result is written to the registers at once, which no kernel can
/// observe: any access before the mma_wait is a finding.
struct Product {
  uint32_t op = 0;
  std::array<int, 2> registers = {}; ///< buffers of the accumulator and of operand a; -1 where a is in shared memory
  std::vector<Bytes> reads;
};

/// The state of a register buffer with respect to asynchronous MMAs.
struct RegisterState {
  bool touched = true;  ///< whether ordinary instructions accessed the buffer since the last mma_fence
  int underWay = 0;     ///< number of asynchronous MMAs in flight that use the buffer
  bool unnamed = false; ///< whether its MMAs are complete but no mma_wait has named the buffer yet
  uint32_t op = 0;      ///< the last asynchronous MMA that used the buffer
};

struct Warp {
  int index = 0;
  int role = -1;
  int firstThread = 0; ///< thread index of lane 0 within its role
  int elected = 0;     ///< the lane that sched.elect picks
  uint32_t position = 0;
  uint32_t mask = allLanes;
  std::vector<uint32_t> masks; ///< stack: the saved masks of enclosing branches and loops
  std::vector<uint64_t> values;
  std::vector<uint32_t> registers;
  std::vector<RegisterState> buffers;

  // The number of tiles of work that this warp's for_work loop has completed.
  int64_t tilesBefore = 0;

  // Vector clocks.
  uint32_t now = 1, met = 0; ///< the warp's clock; its value at the last sync_lanes or barrier of all lanes
  Knowledge all;             ///< the vector clock that every lane has at least
  Knowledge some;            ///< the vector clock of the lanes in someMask, which have waited for more
  uint32_t someMask = 0;
  uint32_t stored = 0;                     ///< lanes that have stored to shared memory since `met`
  std::array<uint32_t, lanes> fences = {}; ///< the warp's clock at each lane's last fence_async

  // Whether the warp can run, and the ring phase that a waiting warp waits for.
  enum class State : uint8_t { Ready, AtRing, AtBarrier, Done } state = State::Ready;
  int ring = 0, stage = 0, parity = 0;
  bool full = false;

  // Asynchronous work in flight that the warp has started: not yet committed, and committed groups in order.
  std::vector<Copy> copies;
  std::deque<std::vector<Copy>> copyGroups;
  std::vector<BoxStore> boxes;
  std::deque<std::vector<BoxStore>> boxGroups; ///< each group holds stores of one lane
  std::vector<Product> products;
  std::deque<std::vector<Product>> productGroups;

  std::byte *value(Slot slot) { return reinterpret_cast<std::byte *>(values.data()) + slot.at; }
  /// Reads the value of a slot in one lane.
  template <typename T> T get(Slot slot, int lane) {
    T result;
    std::memcpy(&result, value(slot) + (slot.varies ? lane * sizeof(T) : 0), sizeof(T));
    return result;
  }
  template <typename T> void set(Slot slot, int lane, T what) {
    std::memcpy(value(slot) + (slot.varies ? lane * sizeof(T) : 0), &what, sizeof(T));
  }
  bool has(int lane) const { return mask >> lane & 1; }
  /// The first active lane.
  int first() const { return __builtin_ctz(mask); }
  const Knowledge &knows(int lane) const { return lane >= 0 && (someMask >> lane & 1) ? some : all; }
};

/// The state of an mbarrier.
struct Phase {
  int64_t arrivals = 1;         ///< number of arrivals that complete a phase
  int64_t missing = 1;          ///< arrivals that the current phase still needs
  int64_t bytes = 0;            ///< bytes expected minus bytes copied in the current phase (the transaction count)
  uint32_t number = 0;          ///< number of the current phase; its low bit is the parity
  int underWay = 0;             ///< boxes in flight that signal this mbarrier
  Knowledge gathered, complete; ///< join of the arrivals' vector clocks: current phase, last completed phase
};

struct RingState {
  bool ready = false; ///< whether init_ring was executed
  Actor by;           ///< the thread that executed init_ring
  uint32_t fence = 0; ///< that warp's clock at the fence_init after init_ring; 0 before it
  std::vector<Phase> full, empty;
};

struct NamedBarrier {
  int64_t threads = 0, arrived = 0;
  uint32_t warps = 0;   ///< bit mask of the warps that have arrived
  uint32_t waiting = 0; ///< bit mask of the arrived warps that block until the barrier completes
  uint32_t op = 0;      ///< the op of the last arrival
  Knowledge gathered;   ///< join of the vector clocks of all arrivals
};

/// A load_box in flight. Its completion may be simulated at any later moment.
struct Landing {
  uint32_t op = 0;
  int ring = 0, stage = 0;
  std::vector<Bytes> places;
  std::vector<std::byte> data;
  int64_t bytes = 0; ///< the box's bytes in the ring's transaction count
};

/// A tensor of the launch.
struct Memory {
  std::byte *data = nullptr;
  std::array<int64_t, maxRank> extents = {}, strides = {};
};

/// The offset of a slice with an index out of bounds. Only an access through such a slice is a finding.
constexpr int64_t outside = std::numeric_limits<int64_t>::min();

struct Launch {
  const LaunchParams *params = nullptr;
  std::vector<Memory> tensors;
  std::vector<int64_t> parameters; ///< the values of Program::parameters, as bits
  int64_t tiles = 0, blocks = 0;
  std::vector<std::vector<int64_t>> claims; ///< the tiles of work that each block claims, ascending
};

struct Machine {
  Machine(const Program &program, const Launch &launch, uint64_t seed);

  /// Simulates one block from start to end.
  Expected<void> run(int64_t block);

  const Program &program;
  const Launch &launch;
  uint64_t seed;
  int64_t block = 0;
  size_t claimed = 0; ///< how often the block has claimed work
  SharedMemory memory;
  std::vector<Warp> warps;
  std::vector<RingState> rings;
  std::array<NamedBarrier, 16> barriers;
  std::vector<Landing> landings;
  std::optional<Error> finding;

  // Findings.
  Go fail(const Warp *warp, uint32_t op, const std::string &what, uint32_t other = Fault::none);
  Go fail(const Warp &warp, const Step &step, const std::string &what, uint32_t other = Fault::none) {
    return fail(&warp, step.op, what, other);
  }
  /// A finding with the text "reads k_ring, stage 1, " followed by the fault's.
  Go fail(const Warp &warp, const Step &step, const char *verb, const SharedBuffer &buffer, int64_t stage,
          const Fault &fault);

  // Vector clocks.
  Actor actor(const Warp &warp, const Step &step, int lane) const {
    const uint32_t fence = lane == Actor::wholeWarp ? 0 : warp.fences[size_t(lane)];
    return {warp.index, lane, warp.now, warp.met, step.op, fence, &warp.knows(lane)};
  }
  /// The vector clock that an arrival of the lanes `arriving` publishes: all that these lanes have seen and done.
  /// Increments the warp's clock, so that later accesses are not included.
  Knowledge handOn(Warp &warp, uint32_t arriving);
  /// Joins `what` into the vector clock of the active lanes, which have waited for it.
  void learn(Warp &warp, const Knowledge &what);
  /// Orders every lane after all that any lane of the warp has seen and done.
  void synchronizeLanes(Warp &warp);

  // Barriers. Functions that return bool return false after a finding.
  bool arrive(const Warp &warp, const Step &step, int64_t stage, bool full, int64_t count, const Knowledge &knows);
  bool completePhase(const Warp *warp, uint32_t op, int ring, int64_t stage, bool full);
  bool ringReady(const Warp &warp, const Step &step, int lane);
  Go synchronize(Warp &warp, const Step &step, int64_t id, int64_t threads, bool waits);

  bool land(size_t which);
  Go completeProducts(Warp &warp, const Step &step, size_t pending);
  Go completeCopies(Warp &warp, const Step &step, size_t pending);
  void completeBoxes(Warp &warp, const Step &step, int lane, size_t pending);

  // Reading and checking operands. After a finding these functions return false, or a null address.
  /// Reads an integer operand, which must be the same in all active lanes.
  bool uniform(Warp &warp, const Step &step, int input, int64_t &result);
  /// Checks that all 32 lanes are active.
  bool converged(const Warp &warp, const Step &step);
  /// Checks that exactly one lane is active.
  bool single(const Warp &warp, const Step &step);
  /// The address of `count` consecutive elements of a view, by all of the view's indices.
  std::byte *global(Warp &warp, const Step &step, const View &view, Slot base, std::array<int64_t, maxRank> indices,
                    int64_t count);
  /// The position of a lane's element in Warp::registers, or -1 after a finding.
  int64_t element(Warp &warp, const Step &step, const RegisterBuffer &buffer, const Slot *indices, int lane);
  bool touch(Warp &warp, const Step &step, int buffer);

private:
  void start(int64_t which);
  bool canRun(const Warp &warp) const;
  void step(Warp &warp);
  bool finish();
  void reportDeadlock();
  uint64_t draw(uint64_t below);

  /// A block that takes more steps is taken for an endless loop; so many steps take about ten seconds.
  static constexpr uint64_t mostSteps = uint64_t(1) << 28;
  uint64_t stepsTaken = 0;
  uint64_t state; ///< state of the random number generator
};

//===----------------------------------------------------------------------===//
// Step functions of sched ops and of control flow (Arithmetic.cpp has those of arithmetic). Notes give the step's
// inputs and outputs in order, the meaning of its fields at[] and number[], and of its flag.
//===----------------------------------------------------------------------===//

Go jump(Machine &, Warp &, const Step &);
Go skipUnless(Machine &, Warp &, const Step &); ///< in: condition
Go maskIf(Machine &, Warp &, const Step &);     ///< in: condition
Go maskElse(Machine &, Warp &, const Step &);   ///< in: condition
Go maskBegin(Machine &, Warp &, const Step &);
Go maskEnd(Machine &, Warp &, const Step &);
Go loopTest(Machine &, Warp &, const Step &);  ///< in: counter, bound; evaluated per lane where one of them varies
Go move(Machine &, Warp &, const Step &);      ///< in: from; out: to; number[0]: bytes; active lanes only
Go roleBegin(Machine &, Warp &, const Step &); ///< at[0]: role
Go roleEnd(Machine &, Warp &, const Step &);
Go workBegin(Machine &, Warp &, const Step &);    ///< in: number of the tile, bound; out: number, count
Go workNext(Machine &, Warp &, const Step &);     ///< in, out: as for workBegin
Go receiveBegin(Machine &, Warp &, const Step &); ///< out: count
Go receiveNext(Machine &, Warp &, const Step &);  ///< in: whether another tile of work follows; out: count
Go finishWarp(Machine &, Warp &, const Step &);

Go threadId(Machine &, Warp &, const Step &);
Go elect(Machine &, Warp &, const Step &);
Go blockId(Machine &, Warp &, const Step &);
Go gridSize(Machine &, Warp &, const Step &);
Go claimWork(Machine &, Warp &, const Step &);      ///< out: number of the claimed tile of work, in lane 0
Go sendMessage(Machine &, Warp &, const Step &);    ///< in: stage, fields; at[0]: shared
Go receiveMessage(Machine &, Warp &, const Step &); ///< in: stage; out: fields; at[0]: shared; number[0]: fields
Go laneId(Machine &, Warp &, const Step &);
Go ballot(Machine &, Warp &, const Step &);
Go anyLane(Machine &, Warp &, const Step &);
Go uniform(Machine &, Warp &, const Step &);
Go shuffleXor(Machine &, Warp &, const Step &); ///< number[0]: mask
Go shuffle(Machine &, Warp &, const Step &);    ///< in: value, lane; number[0]: bytes
Go philox(Machine &, Warp &, const Step &);

Go registers(Machine &, Warp &, const Step &);  ///< at[0]: buffer
Go getElement(Machine &, Warp &, const Step &); ///< in: indices; out: value; at[0]: buffer
Go setElement(Machine &, Warp &, const Step &); ///< in: value, indices; at[0]: buffer

Go slice(Machine &, Warp &, const Step &);   ///< in: view, indices; out: offset; at[0]: view
Go extent(Machine &, Warp &, const Step &);  ///< at[0]: view; number[0]: dimension
Go isNull(Machine &, Warp &, const Step &);  ///< at[0]: view
Go inPairs(Machine &, Warp &, const Step &); ///< at[0]: view; number[0]: elements of an access (2 or 8)
Go loadElement(Machine &, Warp &,
               const Step &); ///< in: view, indices; out: value; at[0]: view; number[i]: whether index i is surely in
                              ///< range, else it is clamped; at[1]: bit i is set if index i is i64
Go loadElements(Machine &, Warp &, const Step &);  ///< in: view, indices; out: two values; at[0]: view
Go storeElement(Machine &, Warp &, const Step &);  ///< in: value, view, indices; at[0]: view
Go storeElements(Machine &, Warp &, const Step &); ///< in: two values, view, indices; at[0]: view
Go storeEights(Machine &, Warp &, const Step &);   ///< in: eight values, quad, view, indices; at[0]: view
Go loadByte(Machine &, Warp &, const Step &);      ///< in: view, indices; out: bits; at[0]: view; at[1]: bytes
Go storeByte(Machine &, Warp &, const Step &);     ///< in: bits, view, indices; at[0]: view
Go addElements(Machine &, Warp &, const Step &);   ///< in: values, view, indices; at: view, number of values
Go addInteger(Machine &, Warp &, const Step &);    ///< in: value, view, indices; at: view
Go copyToGlobal(Machine &, Warp &, const Step &);  ///< in: row, column, view, view row; at: shared, view

Go copyAsync(Machine &, Warp &, const Step &); ///< in: view, view row, column, stage, row, valid; at: shared, view
Go commitCopies(Machine &, Warp &, const Step &);
Go waitCopies(Machine &, Warp &, const Step &); ///< number[0]: pending
Go barrier(Machine &, Warp &, const Step &);
Go initRing(Machine &, Warp &, const Step &); ///< at[0]: ring
Go fenceInit(Machine &, Warp &, const Step &);
Go acquire(Machine &, Warp &, const Step &);     ///< in: stage, phase; at[0]: ring
Go wait(Machine &, Warp &, const Step &);        ///< in: stage, phase; at[0]: ring
Go expectBytes(Machine &, Warp &, const Step &); ///< in: stage; at[0]: ring; number[0]: bytes
Go commit(Machine &, Warp &, const Step &);      ///< in: stage; at[0]: ring
Go release(Machine &, Warp &, const Step &);     ///< in: stage; at[0]: ring; number[0]: arrivals
Go syncLanes(Machine &, Warp &, const Step &);
Go syncWarps(Machine &, Warp &, const Step &);   ///< in: id; number[0]: threads
Go arriveWarps(Machine &, Warp &, const Step &); ///< in: id; number[0]: threads
Go loadBox(Machine &, Warp &,
           const Step &); ///< in: batch, head, row, tensor column, stage, column; at: map, shared, ring
Go storeBox(Machine &, Warp &,
            const Step &); ///< in: stage, shared row, batch, head, row, column; at: map, shared; flag: adds
Go addRows(Machine &, Warp &, const Step &); ///< in: stage, row, view, view row; at: shared, view; number[0]: rows
Go commitBoxes(Machine &, Warp &, const Step &);
Go waitBoxes(Machine &, Warp &, const Step &); ///< number[0]: pending
Go fenceAsync(Machine &, Warp &, const Step &);

Go loadMatrix(
    Machine &, Warp &,
    const Step &); ///< in: stage, row, column, row step, column step, i, j; at: shared, fragment; flag: transpose
Go loadShared(Machine &, Warp &, const Step &); ///< in: stage, row, column, row step, column step; at[0]: shared
Go loadPair(Machine &, Warp &, const Step &);   ///< in: stage, row, column; out: two values; at[0]: shared
Go storeShared(
    Machine &, Warp &,
    const Step &); ///< in: value, stage, row, column, row step, column step, second; at[0]: shared; number[0]: words
Go scaleShared(Machine &, Warp &, const Step &); ///< in: stage, row, column; at[0]: shared; number[0]: exponent
Go storeMatrix(
    Machine &, Warp &,
    const Step &); ///< in: four matrices, stage, row, column, row step, column step; at[0]: shared; flag: transpose
Go mma(Machine &, Warp &, const Step &); ///< in: i, j, ai, aj, bi, bj; at: acc, a, b
Go mmaAsync(Machine &, Warp &,
            const Step &); ///< in: stage, row, column, accumulate, indices of a; at: acc, a, b; flag: transpose;
                           ///< number[0]: whether a is in shared memory
Go mmaFence(Machine &, Warp &, const Step &);
Go mmaCommit(Machine &, Warp &, const Step &);
Go mmaWait(Machine &, Warp &, const Step &);     ///< number[0]: pending
Go mmaComplete(Machine &, Warp &, const Step &); ///< at[0]: a buffer that the preceding mma_wait names

} // namespace attune::sim
