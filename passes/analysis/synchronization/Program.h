//===- Program.h - A kernel's control flow and synchronisation as flat steps -===//
//
// The part of a kernel that passes/analysis/synchronization/AccessOrder.h executes: ops that wait, arrive, copy,
// multiply or access shared memory, and the integers that decide control flow, name a stage or barrier, or give the row
// of an access. Loops and branches become jumps, so that a warp can stop at any step and continue later:
//
//     sched.for_tiles (%n) = (%a) below %b {...}               Move a -> n
//                                                      [test]  Below n, b; if not, jump to [end]
//                                                              ... (the body)
//                                                              Advance: an error if the next index is not above n
//                                                              Move next index -> n
//                                                              Jump to [test]
//                                                      [end]
//
// Register buffers of asynchronous products are also accessed by ordinary instructions. Successive accesses by ordinary
// instructions are merged into one step, Touch, which includes loops over elements that contain only such accesses. Of
// a loop only the first and the last iteration run if the loop's counter decides neither control flow nor a stage and
// the loop's body does not synchronise.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/dataflow/IntegerOp.h"

namespace attune::synchronization {

enum class Action : uint8_t {
  // Control flow. `target` is the step to jump to; a step with a condition jumps if the condition does not hold.
  Jump,
  SkipUnless, ///< inputs: a condition that is the same in all lanes
  MaskIf,     ///< inputs: the condition of each lane; lanes for which the condition holds run the next steps
  MaskElse,   ///< inputs: the condition of each lane; lanes for which the condition fails run the next steps
  MaskEnd,
  Below,   ///< inputs: number, bound; the condition is number < bound
  Advance, ///< inputs: tile index before and after this iteration, bound; an error if a loop does not advance
  /// End of an iteration; jumps to target if another iteration follows. Inputs: counter, bound, step; outputs: counter.
  /// Step::number: 1 if all iterations run, 0 if only the first and the last.
  Turn,
  Move, ///< inputs: values; outputs: as many slots, which are assigned in parallel
  RoleBegin,
  WorkBegin, ///< inputs: number of the tile of work, bound; outputs: that number, count of tiles before it
  WorkNext,  ///< inputs and outputs as for WorkBegin; jumps to target while there is a tile of work
  ReceiveBegin,
  ReceiveNext, ///< inputs: whether another tile of work follows; outputs: count; jumps to target if one follows
  End,
  // Computation of values.
  Integer, ///< computed by Step::integer
  Constant,
  ThreadId,
  LaneId,
  Elect,
  BlockId,
  GridSize,
  Extent,
  Element, ///< inputs: the indices of an element in memory
  Guess,
  Ballot,
  AnyLane,
  Shuffle,
  ShuffleXor,
  ClaimWork,
  // Rings and barriers. Inputs: the ring's stage or the named barrier's id; to acquire or wait, also the phase.
  InitRing,
  FenceInit,
  Acquire,
  Wait,
  ExpectBytes,
  Commit,
  Release,
  Barrier,
  SyncLanes,
  SyncWarps,
  ArriveWarps,
  // Shared memory. Inputs: stage and row of the access, unless noted otherwise.
  Send,     ///< inputs: stage, fields of the message
  Receive,  ///< inputs: stage; outputs: fields of the message
  LoadBox,  ///< inputs: stage, then batch, head and row of the box in the tensor
  StoreBox, ///< inputs: stage, row in shared memory, then batch, head, row and column of the box in the tensor
  AddRows,  ///< inputs: stage, row in shared memory
  CommitBoxes,
  WaitBoxes,
  FenceAsync,
  CommitCopies,
  WaitCopies,
  Copy, ///< a copy to shared memory by cp.async
  Read,
  Write,
  // Products of warpgroups (wgmma).
  Multiply, ///< inputs: stage of B; if A is in shared memory, also stage and row of A
  MmaFence,
  MmaCommit,
  MmaWait,
  Touch,
};

/// Where Warp::values has a value: one number at index `at`, or 32 numbers from `at` on if the lanes may have different
/// values.
struct Slot {
  int at = -1;
  bool varies = false;
};

/// Where a TMA box is along axis number `axis` of the kernel's grid: the tile index is the step's input number `input`,
/// divided by the tile size `by`.
struct GridPlace {
  unsigned input = 0, axis = 0;
  int64_t by = 1;
};

struct Step {
  Action action = Action::End;
  mlir::Operation *op = nullptr;
  llvm::SmallVector<Slot, 3> in, out;
  int64_t number = 0; ///< by action: a constant, bytes, threads, pending groups, rows, or the hash of a guessed value
  int target = -1;
  int ring = -1;              ///< index in Program::rings
  int shared = -1, left = -1; ///< indices in Program::buffers; `left` is the A operand of a product
  std::optional<IntegerOp> integer;
  /// Indices in Program::registers. Multiply: the accumulator, and A if in registers; MmaWait: the buffers that the
  /// wait completes; Touch: the buffers that are accessed, with the first op that does so in `touching`.
  llvm::SmallVector<int, 2> registers;
  llvm::SmallVector<mlir::Operation *, 2> touching;
  llvm::SmallVector<GridPlace, 3> grid; ///< LoadBox and StoreBox: position of the TMA box in the kernel's grid
};

/// A buffer of shared memory. Accesses are tracked for groups of rows: at most 32 groups a stage, of 16 rows or more.
struct SharedBuffer {
  sched::SharedOp op;
  int64_t stages = 1, rows = 1, blocks = 1;

  static constexpr int64_t rowsOfBlock = 16, mostBlocks = 32;
  int64_t rowsAtOnce() const { return std::max(rowsOfBlock, int64_t(llvm::divideCeil(rows, mostBlocks))); }
};

struct Role {
  sched::RoleOp op;
  int firstWarp = 0, warps = 0;
};

/// The name of the axis (of the kernel or of an operand) whose extent `op` returns; empty for any other op.
llvm::StringRef extentAxis(mlir::Operation *op);

struct Program {
  static Program of(sched::KernelOp kernel);

  /// The axes of the kernel's grid.
  llvm::SmallVector<tile::AxisAttr, 4> axes() const {
    return llvm::to_vector<4>(sched::KernelOp(kernel).getGrid().getAsRange<tile::AxisAttr>());
  }

  sched::KernelOp kernel;
  int warps = 0;
  std::vector<Step> steps;
  int slots = 0; ///< length of Warp::values
  std::vector<sched::RingOp> rings;
  std::vector<SharedBuffer> buffers;
  std::vector<mlir::Value> registers; ///< register buffers that products use
  std::vector<Role> roles;
  bool several = false;  ///< whether a thread block computes several tiles of work
  bool branches = false; ///< whether tiles of a loop take one of two branches that wait for products
  bool claims = false;
  bool guesses = false; ///< whether the program needs values that are unknown (parameters, registers, memory)
  bool loads = false;   ///< whether some unknown values are loaded from memory
};

} // namespace attune::synchronization
