//===- Machine.h - State and steps of one simulated thread block ------------===//
//
// The state of a thread block: warps, rings, named barriers, shared memory and asynchronous work in flight. At the end
// of the file are the functions that execute the steps, with the operands of each step.
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

/// A TMA store or reduction of one thread (store_box or add_rows), in flight.
struct BoxStore {
  int lane = 0;
  uint32_t op = 0;
  std::vector<Bytes> reads;
};

/// A warp's part of an mma_async in flight. The simulator writes the result to the registers when the mma_async starts.
/// No kernel can observe that, because any access before the mma_wait is reported as an error.
struct Product {
  uint32_t op = 0;
  std::array<int, 2> registers = {}; ///< buffers of the accumulator and of operand a; -1 where a is in shared memory
  std::vector<Bytes> reads;
};

/// The state of a register buffer with respect to asynchronous MMAs.
struct RegisterState {
  bool touched = true;  ///< whether ordinary instructions accessed the buffer since the last mma_fence
  int underWay = 0;     ///< number of asynchronous MMAs in flight that use the buffer
  bool unnamed = false; ///< whether the buffer's MMAs are complete, but no mma_wait has named the buffer yet
  uint32_t op = 0;      ///< the last asynchronous MMA that used the buffer
};

struct Warp {
  int index = 0;
  int role = -1;
  int firstThread = 0; ///< thread index of lane 0 within its role
  int elected = 0;     ///< the lane that sched.elect picks
  uint32_t position = 0;
  uint32_t mask = allLanes;
  std::vector<uint32_t> masks; ///< stack: the lane masks of the enclosing branches and loops
  std::vector<uint64_t> values;
  std::vector<uint32_t> registers;
  std::vector<RegisterState> buffers;

  // The number of tiles of work that this warp's for_work loop has completed.
  int64_t tilesBefore = 0;

  // Vector clocks.
  uint32_t now = 1, met = 0; ///< now: the clock of the warp; met: `now` at the last sync_lanes or barrier of all lanes
  Knowledge all;             ///< the part of the vector clock that all lanes have in common
  Knowledge some;            ///< the vector clock of the lanes in someMask, which have waited where others have not
  uint32_t someMask = 0;
  uint32_t stored = 0;                     ///< lanes with stores to shared memory since the lanes last synchronised
  std::array<uint32_t, lanes> fences = {}; ///< the warp's clock at each lane's last fence_async

  // Whether the warp can run; for a warp that waits at a ring, the mbarrier (ring, stage, full or empty) and the
  // parity.
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
  int underWay = 0;             ///< TMA loads in flight that signal this mbarrier
  Knowledge gathered, complete; ///< joined vector clocks of the arrivals at the current and the last completed phase
};

struct RingState {
  bool ready = false; ///< whether init_ring was executed
  Actor by;           ///< the thread that executed init_ring
  uint32_t fence = 0; ///< the warp's clock at the fence_init of the thread that executed init_ring; else 0
  std::vector<Phase> full, empty;
};

struct NamedBarrier {
  int64_t threads = 0, arrived = 0;
  uint32_t warps = 0;   ///< bit mask of the warps that have arrived
  uint32_t waiting = 0; ///< bit mask of the arrived warps that wait until the barrier completes
  uint32_t op = 0;      ///< the op of the last arrival
  Knowledge gathered;   ///< join of the vector clocks of all arrivals
};

/// A TMA load (load_box) in flight. The scheduler may complete the load at any later moment.
struct Landing {
  uint32_t op = 0;
  int ring = 0, stage = 0;
  std::vector<Bytes> places;
  std::vector<std::byte> data;
  int64_t bytes = 0; ///< bytes of the box, which its completion subtracts from the mbarrier's Phase::bytes
};

/// A tensor of the launch.
struct Memory {
  std::byte *data = nullptr;
  std::array<int64_t, maxRank> extents = {}, strides = {};
};

/// The base offset of a slice that has an index out of bounds. Such a slice is no error until it is accessed.
constexpr int64_t outside = std::numeric_limits<int64_t>::min();

struct Launch {
  const LaunchParams *params = nullptr;
  std::vector<Memory> tensors;
  std::vector<int64_t> parameters; ///< the values of Program::parameters, as bits
  int64_t tiles = 0, blocks = 0;
  std::vector<std::vector<int64_t>> claims; ///< the tiles of work that each thread block claims, ascending
};

struct Machine {
  Machine(const Program &program, const Launch &launch, uint64_t seed);

  /// Simulates one thread block from start to end.
  Expected<void> run(int64_t block);

  const Program &program;
  const Launch &launch;
  uint64_t seed;
  int64_t block = 0;
  size_t claimed = 0; ///< number of tiles of work that the thread block has claimed
  SharedMemory memory;
  std::vector<Warp> warps;
  std::vector<RingState> rings;
  std::array<NamedBarrier, 16> barriers;
  std::vector<Landing> landings;
  std::optional<Error> finding;

  // Reporting of findings (errors in the simulated kernel). The first one ends the simulation.
  Go fail(const Warp *warp, uint32_t op, const std::string &what, uint32_t other = Fault::none);
  Go fail(const Warp &warp, const Step &step, const std::string &what, uint32_t other = Fault::none) {
    return fail(&warp, step.op, what, other);
  }
  /// Reports a wrong access to shared memory. The message is `verb`, the buffer, the stage and the fault's text, such
  /// as "reads k_ring, stage 1, while a copy into it is under way".
  Go fail(const Warp &warp, const Step &step, const char *verb, const SharedBuffer &buffer, int64_t stage,
          const Fault &fault);

  // Vector clocks.
  Actor actor(const Warp &warp, const Step &step, int lane) const {
    const uint32_t fence = lane == Actor::wholeWarp ? 0 : warp.fences[size_t(lane)];
    return {warp.index, lane, warp.now, warp.met, step.op, fence, &warp.knows(lane)};
  }
  /// The vector clock that an arrival of the lanes `arriving` publishes. It covers the accesses that these lanes have
  /// done, and the accesses that are ordered before the next access of these lanes. Increments the warp's clock, so
  /// that later accesses are not covered.
  Knowledge handOn(Warp &warp, uint32_t arriving);
  /// Joins `what`, the vector clock of a barrier or ring stage, into the vector clock of the active lanes, which have
  /// waited there.
  void learn(Warp &warp, const Knowledge &what);
  /// Orders the later accesses of every lane of the warp after the accesses that any lane has done, and after the
  /// accesses that are ordered before the next access of any lane.
  void synchronizeLanes(Warp &warp);

  // Barriers. Functions that return bool return false if they have reported an error.
  bool arrive(const Warp &warp, const Step &step, int64_t stage, bool full, int64_t count, const Knowledge &knows);
  bool completePhase(const Warp *warp, uint32_t op, int ring, int64_t stage, bool full);
  bool ringReady(const Warp &warp, const Step &step, int lane);
  Go synchronize(Warp &warp, const Step &step, int64_t id, int64_t threads, bool waits);

  bool land(size_t which);
  Go completeProducts(Warp &warp, const Step &step, size_t pending);
  Go completeCopies(Warp &warp, const Step &step, size_t pending);
  void completeBoxes(Warp &warp, const Step &step, int lane, size_t pending);

  // Reading and checking operands. Where these functions report an error they return false, or a null address.
  /// Reads an integer operand, which must be the same in all active lanes.
  bool uniform(Warp &warp, const Step &step, int input, int64_t &result);
  /// Checks that all 32 lanes are active.
  bool converged(const Warp &warp, const Step &step);
  /// Checks that exactly one lane is active.
  bool single(const Warp &warp, const Step &step);
  /// The address of `count` consecutive elements of a view whose base offset is in the uniform slot `base`. The first
  /// element is at `indices`, one index for each dimension of the view.
  std::byte *global(Warp &warp, const Step &step, const View &view, Slot base, std::array<int64_t, maxRank> indices,
                    int64_t count);
  /// The position of a lane's element in Warp::registers, or -1 if an index is out of bounds.
  int64_t element(Warp &warp, const Step &step, const RegisterBuffer &buffer, const Slot *indices, int lane);
  bool touch(Warp &warp, const Step &step, int buffer);

private:
  void start(int64_t which);
  bool canRun(const Warp &warp) const;
  void step(Warp &warp);
  bool finish();
  void reportDeadlock();
  uint64_t draw(uint64_t below);

  /// A thread block that executes more than mostSteps steps is reported as an endless loop. 2^28 steps take about ten
  /// seconds.
  static constexpr uint64_t mostSteps = uint64_t(1) << 28;
  uint64_t stepsTaken = 0;
  uint64_t state; ///< state of the random number generator
};

//===----------------------------------------------------------------------===//
// Functions that execute the steps of sched ops and of control flow (those of scalar ops are in Arithmetic.cpp)
//
// The comment at a function says what the step does or names the op that the step executes. It lists the inputs
// (Step::in) and outputs (Step::out) in order, and the meaning of Step::at, Step::number and Step::flag. A step without
// a comment takes the operands and results of the op of the same name.
//===----------------------------------------------------------------------===//

Go jump(Machine &, Warp &, const Step &);
/// Jumps to Step::target if a uniform condition is false. Input: condition.
Go skipUnless(Machine &, Warp &, const Step &);
/// Starts a branch on a per-lane condition: masks off the lanes where it is false. Input: condition.
Go maskIf(Machine &, Warp &, const Step &);
/// Starts the else part of a branch on a per-lane condition: activates the lanes where it is false. Input: condition.
Go maskElse(Machine &, Warp &, const Step &);
Go maskBegin(Machine &, Warp &, const Step &);
Go maskEnd(Machine &, Warp &, const Step &);
/// Ends a loop, for the lanes where counter >= bound. Inputs: counter, bound.
Go loopTest(Machine &, Warp &, const Step &);
/// Copies a value in the active lanes. Input: source. Output: target. number[0]: bytes of one value.
Go move(Machine &, Warp &, const Step &);
/// Skips the role for warps that do not belong to it. at[0]: index of the role.
Go roleBegin(Machine &, Warp &, const Step &);
Go roleEnd(Machine &, Warp &, const Step &);
/// Starts a for_work loop. Inputs: index of the tile of work, number of all tiles of work. Outputs: that index, count
/// of tiles that this loop has completed.
Go workBegin(Machine &, Warp &, const Step &);
/// Continues a for_work loop. Inputs: index of the next tile of work, number of all tiles of work. Outputs: that index,
/// count of tiles that this loop has completed.
Go workNext(Machine &, Warp &, const Step &);
/// Starts a for_work loop whose tiles of work are received in messages from the producer warp. Output: count of tiles
/// that this loop has completed.
Go receiveBegin(Machine &, Warp &, const Step &);
/// Continues a for_work loop whose tiles of work are received in messages. Input: whether another tile of work follows.
/// Output: count of tiles that this loop has completed.
Go receiveNext(Machine &, Warp &, const Step &);
Go finishWarp(Machine &, Warp &, const Step &);

Go threadId(Machine &, Warp &, const Step &);
Go elect(Machine &, Warp &, const Step &);
Go blockId(Machine &, Warp &, const Step &);
Go gridSize(Machine &, Warp &, const Step &);
/// sched.claim_work. Output: index of the claimed tile of work, in lane 0.
Go claimWork(Machine &, Warp &, const Step &);
/// sched.send. Inputs: stage, fields of the message. at[0]: index of the shared tile that holds the messages.
Go sendMessage(Machine &, Warp &, const Step &);
/// sched.receive. Input: stage. Outputs: fields of the message. at[0]: index of the shared tile that holds the
/// messages. number[0]: number of fields.
Go receiveMessage(Machine &, Warp &, const Step &);
Go laneId(Machine &, Warp &, const Step &);
Go ballot(Machine &, Warp &, const Step &);
Go anyLane(Machine &, Warp &, const Step &);
Go uniform(Machine &, Warp &, const Step &);
/// sched.shuffle_xor. Input: value. number[0]: mask; lane l receives the value of lane l xor mask. number[1]: bytes of
/// the value.
Go shuffleXor(Machine &, Warp &, const Step &);
/// sched.shuffle. Inputs: value, source lane. number[0]: bytes of the value.
Go shuffle(Machine &, Warp &, const Step &);
Go philox(Machine &, Warp &, const Step &);

/// Declares a register buffer: its elements become unwritten. at[0]: index of the buffer.
Go registers(Machine &, Warp &, const Step &);
/// Reads an element of a register buffer. Inputs: indices. Output: value. at[0]: index of the buffer.
Go getElement(Machine &, Warp &, const Step &);
/// Writes an element of a register buffer. Inputs: value, indices. at[0]: index of the buffer.
Go setElement(Machine &, Warp &, const Step &);

/// sched.slice. Inputs: base offset of the view, indices. Output: base offset of the slice. at[0]: index of the view.
Go slice(Machine &, Warp &, const Step &);
/// sched.extent. at[0]: index of the view. number[0]: dimension.
Go extent(Machine &, Warp &, const Step &);
/// Whether an optional tensor is absent. at[0]: index of the view.
Go isNull(Machine &, Warp &, const Step &);
/// sched.in_pairs: whether a tensor allows aligned accesses to number[0] consecutive elements (2 for pairs, 8 for
/// eights). at[0]: index of the view.
Go inPairs(Machine &, Warp &, const Step &);
/// tile.element. Inputs: base offset of the view, indices. Output: value. at[0]: index of the view. number[i]: 1 if
/// index i is known to be in range, 0 if the step must clamp index i. at[1]: bit i is set if index i is i64.
Go loadElement(Machine &, Warp &, const Step &);
/// tile.search, a binary search in a sorted vector. Inputs: base offset of the view, x. Output: number of elements
/// before x. at[0]: index of the view. flag: elements equal to x are counted as before x.
Go searchElements(Machine &, Warp &, const Step &);
/// Loads adjacent elements. Inputs: base offset of the view, indices. Outputs: values. at[0]: index of the view. at[1]:
/// number of values.
Go loadElements(Machine &, Warp &, const Step &);
/// Stores one element per lane. Inputs: value, base offset of the view, indices. at[0]: index of the view.
Go storeElement(Machine &, Warp &, const Step &);
/// Stores adjacent elements. Inputs: values, base offset of the view, indices. at[0]: index of the view. at[1]: number
/// of values.
Go storeElements(Machine &, Warp &, const Step &);
/// Stores eight elements per lane, exchanged within a quad of lanes. Inputs: eight values, the lane's index in its
/// quad, base offset of the view, indices. at[0]: index of the view.
Go storeEights(Machine &, Warp &, const Step &);
/// Loads one or two bytes. Inputs: base offset of the view, indices. Output: the bytes as an i32. at[0]: index of the
/// view. at[1]: number of bytes.
Go loadByte(Machine &, Warp &, const Step &);
/// Stores the low byte of the bits. Inputs: bits, base offset of the view, indices. at[0]: index of the view.
Go storeByte(Machine &, Warp &, const Step &);
/// Adds to float32 elements. Inputs: values, base offset of the view, indices. at[0]: index of the view. at[1]: number
/// of values.
Go addElements(Machine &, Warp &, const Step &);
/// Adds to an int64 element. Inputs: value, base offset of the view, indices. at[0]: index of the view.
Go addInteger(Machine &, Warp &, const Step &);
/// Copies 16 bytes per lane. Inputs: row of the shared tile, column of both tile and view, base offset of the view, row
/// of the view. at[]: indices of the shared tile and the view.
Go copyToGlobal(Machine &, Warp &, const Step &);

/// cp.async. Inputs: base offset of the view, row of the view, column of view and tile, stage, row of the shared tile,
/// whether to copy (else zeros). at[]: indices of the shared tile and the view. number[0]: bytes.
Go copyAsync(Machine &, Warp &, const Step &);
Go commitCopies(Machine &, Warp &, const Step &);
/// sched.wait_copies. number[0]: groups that may stay pending.
Go waitCopies(Machine &, Warp &, const Step &);
Go barrier(Machine &, Warp &, const Step &);
/// sched.init_ring. at[0]: index of the ring.
Go initRing(Machine &, Warp &, const Step &);
Go fenceInit(Machine &, Warp &, const Step &);
/// Waits until a stage is empty. Inputs: stage, phase. at[0]: index of the ring.
Go acquire(Machine &, Warp &, const Step &);
/// Waits until a stage is full. Inputs: stage, phase. at[0]: index of the ring.
Go wait(Machine &, Warp &, const Step &);
/// sched.expect_bytes. Input: stage. at[0]: index of the ring. number[0]: bytes.
Go expectBytes(Machine &, Warp &, const Step &);
/// Arrives at the full barrier. Input: stage. at[0]: index of the ring.
Go commit(Machine &, Warp &, const Step &);
/// Arrives at the empty barrier. Input: stage. at[0]: index of the ring. number[0]: arrivals.
Go release(Machine &, Warp &, const Step &);
Go syncLanes(Machine &, Warp &, const Step &);
/// Arrives at a named barrier and waits. Input: id of the barrier. number[0]: threads.
Go syncWarps(Machine &, Warp &, const Step &);
/// Arrives at a named barrier without waiting. Input: id of the barrier. number[0]: threads.
Go arriveWarps(Machine &, Warp &, const Step &);
/// sched.load_box. Inputs: batch, head, row and column of the tensor, stage, shared column, and optionally the shared
/// row. at[]: indices of the tensor map, the shared tile and the ring.
Go loadBox(Machine &, Warp &, const Step &);
/// sched.store_box. Inputs: stage, shared row, batch, head, row and column of the tensor, shared column. at[]: indices
/// of the tensor map and the shared tile. flag: adds to the tensor instead of overwriting.
Go storeBox(Machine &, Warp &, const Step &);
/// sched.add_rows. Inputs: stage, shared row, base offset of the view, row of the view. at[]: indices of the shared
/// tile and the view. number[0]: rows.
Go addRows(Machine &, Warp &, const Step &);
Go commitBoxes(Machine &, Warp &, const Step &);
/// sched.wait_boxes. number[0]: groups that may stay pending.
Go waitBoxes(Machine &, Warp &, const Step &);
Go fenceAsync(Machine &, Warp &, const Step &);

/// ldmatrix. Inputs: stage; row, column; row step, column step (added to row, column); i, j (position of the matrices
/// in the register buffer). at[]: indices of the shared tile and the register buffer. flag: transpose.
Go loadMatrix(Machine &, Warp &, const Step &);
/// Loads one element per lane. Inputs: stage; row, column; row step, column step (added to row, column). at[0]: index
/// of the shared tile.
Go loadShared(Machine &, Warp &, const Step &);
/// Loads two float32 per lane. Inputs: stage, row, column. Outputs: two values. at[0]: index of the shared tile.
Go loadPair(Machine &, Warp &, const Step &);
/// Stores one or two words per lane. Inputs: value; stage; row, column; row step, column step (added to row, column);
/// second value. at[0]: index of the shared tile. number[0]: number of words (2 with a second value).
Go storeShared(Machine &, Warp &, const Step &);
/// Multiplies eight bf16 per lane by a power of two. Inputs: stage, row, column. at[0]: index of the shared tile.
/// number[0]: exponent.
Go scaleShared(Machine &, Warp &, const Step &);
/// stmatrix. Inputs: four matrices; stage; row, column; row step, column step (added to row, column). at[0]: index of
/// the shared tile. flag: transpose.
Go storeMatrix(Machine &, Warp &, const Step &);
/// mma.sync. Inputs: i, j of the fragment in the buffer acc, then in a and in b. at[]: indices of the register buffers
/// acc, a, b.
Go mma(Machine &, Warp &, const Step &);
/// wgmma. Inputs: stage, row, column of b; whether to accumulate; indices of a. at[]: indices of the buffers acc, a, b.
/// flag: b is transposed. number[0]: whether a is in shared memory. number[1]: whether a is transposed.
Go mmaAsync(Machine &, Warp &, const Step &);
Go mmaFence(Machine &, Warp &, const Step &);
Go mmaCommit(Machine &, Warp &, const Step &);
/// sched.mma_wait. number[0]: groups that may stay pending.
Go mmaWait(Machine &, Warp &, const Step &);
/// Marks a register buffer as named by the preceding mma_wait. at[0]: index of the buffer.
Go mmaComplete(Machine &, Warp &, const Step &);

} // namespace attune::sim
