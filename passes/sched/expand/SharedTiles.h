//===- SharedTiles.h - Tiles in shared memory ------------------------------===//
//
// A shared tile is a stage of a ring (circular buffer), or a buffer through which lanes exchange a register tile.
// Several lanes may hold the same element of a register tile: the first of these lanes, the element's first holder,
// writes the element. All threads synchronise before other lanes read the element.
//
//     SharedTiles.cpp    buffers, elements, writes of register tiles
//     Exchanges.cpp      barriers, conversions from one layout to another
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/expand/TileBuffers.h"

namespace attune::expansion {

class SharedTiles : public TileBuffers {
public:
  /// `sramBudget`: bytes of shared memory a block; 0 is the limit of the architecture.
  SharedTiles(tile::KernelOp kernel, StringRef arch, int64_t sramBudget)
      : TileBuffers(OpBuilder(kernel), kernel.getLoc(), kernel.getPlan()), kernel(kernel), arch(arch),
        sramBudget(sramBudget), specialized(sched::producerWarps(kernel) > 0) {}

protected:
  /// The body of the expanded kernel (sched.kernel), where buffers and tensor maps of the whole kernel are created.
  Block &kernelBody() {
    return builder.getInsertionBlock()->getParent()->getParentOfType<sched::KernelOp>().getBody().front();
  }
  /// The shared-memory buffer that contains the shared tile, and the tile's stage in that buffer.
  std::pair<Value, Value> slotOf(Value tile);
  /// The type of a tile of `type` that is written to shared memory as `element`s: one stage of a ring, in panels
  /// (swizzled slices of the rows).
  TileType stagedType(TileType type, Type element);
  /// The type of a buffer of `type` that stores relative-position values twice, in kernels with ping-pong scheduling:
  /// each value is next to the value of the previous distance q - k, which belongs to the next column. A lane then
  /// reads the two columns of a row by one load, and other warpgroups wait less for this one to start its ping-pong
  /// region. In other kernels, where the second copy is not worth its shared memory, and for other buffers, returns
  /// `type`.
  TileType inPairs(TileType type);
  static bool isInPairs(Value shared) { return cast<TileType>(shared.getType()).hasAxis("pair"); }
  /// Creates a shared buffer for the exchange of a tile of `type`.
  Value exchangeBuffer(TileType type, Type element, StringRef name);
  /// Creates a shared buffer that no other buffer overlaps.
  Value keptBuffer(TileType type, Type element, StringRef name);

  /// Whether `axis` runs along the rows of the register tile, not along its columns.
  static bool isRowAxis(Value tile, StringRef axis);
  /// The coordinate along `axis` of the lane's element (i, r, j, c) of the register tile: row 16 i + 8 r and column 8 j
  /// + c, counted from the lane's first.
  Value coordinateInTile(Value tile, StringRef axis, Value i, Value r, Value j, Value c);
  /// The element of the shared tile `input` at the coordinates of the lane's row 16 i + 8 r and column 8 j + c of the
  /// register tile `of`. The shared tile may have either order of axes.
  Value sharedElement(Value input, Value of, Value i, Value r, Value j, Value c);

  /// Whether this lane is the first that holds its elements of the register tile `buffer`; null if every lane is.
  Value isWriter(Value buffer);
  /// Emits `body` in a branch that only the first lane that holds an element of `buffer` runs (isWriter).
  void byWriters(Value buffer, function_ref<void()> body);
  /// Stores the register tile `buffer` to shared memory. The first holder of each element stores the element.
  void writeToShared(Value buffer, Value shared, Value stage);
  /// Stores the 16-bit elements of a `c` fragment to a shared tile. One `sched.store_matrix` stores the four 8 x 8
  /// matrices of two adjacent blocks of 8 columns. Lane l passes the address of row l % 16, lanes 0 to 15 in the first
  /// of the two blocks. The last block of an odd number of blocks is stored by pairs. `held` is the type of `buffer`;
  /// if warpgroups split the columns, with the slices of columns stacked as rows.
  void writeMatrices(Value buffer, Value shared, Value stage, TileType held);
  /// Stores a `c` fragment to a shared tile, two columns at a time, from the block of 8 columns with index `firstJ` on.
  /// `held` is the type of `buffer`; if warpgroups split the columns, with the slices of columns stacked as rows.
  void writeFragments(Value buffer, Value shared, Value stage, TileType held, int64_t firstJ = 0);
  /// The row and column in shared memory that a lane passes to ldmatrix or stmatrix for four transposed 8 x 8 matrices.
  /// The matrices are the quarters of a fragment whose first row is column `row0` in shared memory.
  std::pair<Value, Value> transposedPlace(Value row0);

  // Exchanges.cpp
  /// Converts from registers to shared memory, from shared memory to registers, or between register layouts through
  /// shared memory.
  LogicalResult exchange(tile::ConvertOp op);
  /// Whether TMA or a warpgroup's product reads the shared tile.
  bool isReadAsynchronously(Value tile);
  /// Whether TMA adds the shared tile of `op` to global memory in whole rows. The rows must be contiguous in shared and
  /// in global memory, and the architecture must be sm_90 or later.
  bool addsByRows(Operation *op);
  /// Synchronises all threads of the current warp role or, in a kernel without roles, of the thread block.
  void synchronizeAll();
  /// Synchronises the threads of the warpgroup.
  void synchronizeWarpgroup();
  /// Synchronises all threads if an op may have accessed shared memory since the last barrier of all threads.
  void synchronize();
  /// Synchronises all threads before a copy to shared memory, if an op has read shared memory since the last barrier of
  /// all threads: the copy may overwrite memory that other threads still read.
  void waitForReaders();

  tile::KernelOp kernel;
  StringRef arch;
  int64_t sramBudget;
  bool specialized;                       ///< whether the kernel has roles
  int64_t roleWarps = 0;                  ///< warps of the current role; 0 in a kernel without roles
  IRMapping mapping;                      ///< scalar or view of the tile.kernel -> its value in the expanded kernel
  llvm::DenseMap<Value, Value> exchanged; ///< shared tile that the kernel computes -> its buffer
};

} // namespace attune::expansion
