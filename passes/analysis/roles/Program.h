//===- Program.h - The control and synchronisation of a kernel, flat ---------===//
//
// What of a kernel the executor of passes/analysis/RoleOrder.h runs: ops that wait, arrive, copy, multiply or access
// shared memory, and the integers that decide control, name a stage or barrier, or say where a row lies. Loops and
// branches are jumps, so that a warp can stop at any step and go on later:
//
//     sched.for_tiles (%n) = (%a) below %b {...}        Move a -> n; [test] Below n, b, else to [end]; ...; Move; Jump
//     [test]
//
// Ordinary accesses to registers that a product uses, and nothing else of loops over elements, are one step Touch.
// A loop whose counter decides neither control nor a stage takes its first and its last turn.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"
#include "passes/analysis/IntegerOp.h"

namespace attune::roles {

enum class Action : uint8_t {
  // Control. `target` is where to go on otherwise.
  Jump,
  SkipUnless, ///< in: condition, the same in all lanes
  MaskIf,     ///< in: condition by lane
  MaskElse,   ///< the same condition
  MaskEnd,
  Below,   ///< in: number, bound
  Advance, ///< in: number before and after this turn, bound; fails where a loop over tiles stands still
  Turn,    ///< in: counter, bound, step; out: counter; number: whether all turns are taken; goes on at target
  Move,    ///< in: values, out: as many; all at once
  RoleBegin,
  WorkBegin, ///< in: number, bound; out: number, count
  WorkNext,  ///< the same; goes on at target while there is a tile
  ReceiveBegin,
  ReceiveNext, ///< in: whether another tile comes; out: count; goes on at target
  End,
  // Values.
  Integer, ///< by `integer`
  Constant,
  ThreadId,
  LaneId,
  Elect,
  BlockId,
  GridSize,
  Extent,
  Element, ///< in: indices
  Guess,
  Ballot,
  AnyLane,
  Shuffle,
  ShuffleXor,
  ClaimWork,
  // Rings and barriers. In: stage or id, phase.
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
  // Shared memory. In: stage, row.
  Send,     ///< in: stage, fields
  Receive,  ///< in: stage; out: fields
  LoadBox,  ///< in: stage, batch, head, row
  StoreBox, ///< in: stage, shared row, batch, head, row, column
  AddRows,  ///< in: stage, row
  CommitBoxes,
  WaitBoxes,
  FenceAsync,
  CommitCopies,
  WaitCopies,
  Copy, ///< by cp.async
  Read,
  Write,
  // Products.
  Multiply, ///< in: stage of b, row of b, stage of a, row of a
  MmaFence,
  MmaCommit,
  MmaWait,
  Touch,
};

/// Where a value lies: one number, or one for each lane.
struct Slot {
  int at = -1;
  bool varies = false;
};

/// Where the box of a load or store lies along an axis of the kernel's grid: input `input` of its step over `by`.
struct GridPlace {
  unsigned input = 0, axis = 0;
  int64_t by = 1;
};

struct Step {
  Action action = Action::End;
  mlir::Operation *op = nullptr;
  llvm::SmallVector<Slot, 3> in, out;
  int64_t number = 0; ///< a constant, bytes, threads, pending, rows, a hash of what is guessed
  int target = -1;
  int ring = -1;              ///< of Program::rings
  int shared = -1, left = -1; ///< of Program::buffers; `left` is a product's a
  std::optional<IntegerOp> integer;
  /// Of products the accumulator and a; of mma_wait what it completes; of Touch what is touched, with the first op.
  llvm::SmallVector<int, 2> registers;
  llvm::SmallVector<mlir::Operation *, 2> touching;
  llvm::SmallVector<GridPlace, 3> grid; ///< of load_box and store_box
};

/// A buffer of shared memory in blocks of rows.
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

/// The axis whose extent `op` gives, of a kernel or of an operand; empty of any other op.
llvm::StringRef extentAxis(mlir::Operation *op);

struct Program {
  static Program of(sched::KernelOp kernel);

  /// Of the grid.
  llvm::SmallVector<tile::AxisAttr, 4> axes() const {
    return llvm::to_vector<4>(sched::KernelOp(kernel).getGrid().getAsRange<tile::AxisAttr>());
  }

  sched::KernelOp kernel;
  int warps = 0;
  std::vector<Step> steps;
  int slots = 0; ///< numbers that a warp has
  std::vector<sched::RingOp> rings;
  std::vector<SharedBuffer> buffers;
  std::vector<mlir::Value> registers; ///< that products use
  std::vector<Role> roles;
  bool several = false; ///< whether a block has several tiles of work
  bool claims = false;
  bool guesses = false; ///< whether values come from parameters, registers or memory
  bool loads = false;   ///< from memory
};

} // namespace attune::roles
