//===- SharedTiles.h - Tiles in shared memory ------------------------------===//
//
// A shared tile is a stage of a ring, or a buffer through which lanes exchange a register tile. Several lanes may hold
// the same element of a register tile: the first of them, the element's first holder, writes the element. All threads
// synchronise before other lanes read the element.
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
  SharedTiles(tile::KernelOp kernel, StringRef arch)
      : TileBuffers(OpBuilder(kernel), kernel.getLoc(), kernel.getPlan()), kernel(kernel), arch(arch),
        specialized(sched::producerWarps(kernel) > 0) {}

protected:
  /// The body of the sched kernel; buffers and tensor maps that the whole kernel uses are created there.
  Block &kernelBody() {
    return builder.getInsertionBlock()->getParent()->getParentOfType<sched::KernelOp>().getBody().front();
  }
  /// The buffer of a shared tile, and its stage.
  std::pair<Value, Value> slotOf(Value tile);
  /// The type of an output tile in shared memory.
  TileType stagedType(TileType type, Type element);
  /// The layout of relative-position values in a kernel with ping-pong: each value is stored next to the value of the
  /// previous distance, which belongs to the next column. A lane then reads the two columns of a row by one load. Other
  /// warpgroups may wait while a warpgroup executes these loads, which come before its ping-pong region. In other
  /// kernels the shared memory of the second copy is worth more than the saved loads, and `type` is returned unchanged.
  TileType inPairs(TileType type);
  static bool isInPairs(Value shared) { return cast<TileType>(shared.getType()).hasAxis("pair"); }
  /// Creates a shared buffer for the exchange of a tile of `type`.
  Value exchangeBuffer(TileType type, Type element, StringRef name);
  /// Creates a shared buffer that no other buffer overlaps.
  Value keptBuffer(TileType type, Type element, StringRef name);

  /// Whether `axis` runs along the rows of the register tile, not along its columns.
  static bool isRowAxis(Value tile, StringRef axis);
  /// The coordinate along `axis` of element (i, r, j, c) of the register tile.
  Value coordinateInTile(Value tile, StringRef axis, Value i, Value r, Value j, Value c);
  /// The element of the shared tile `input` at the coordinates of element (i, r, j, c) of the register tile `of`. The
  /// shared tile may have either order of axes.
  Value sharedElement(Value input, Value of, Value i, Value r, Value j, Value c);

  /// Whether the lane is the first holder of its elements of a register tile; null if every lane is.
  Value isWriter(Value buffer);
  /// Calls `body` in a branch that only the first holders of the elements of `buffer` run (isWriter).
  void byWriters(Value buffer, function_ref<void()> body);
  /// Stores the register tile `buffer` to shared memory. The first holder of each element stores the element.
  void writeToShared(Value buffer, Value shared, Value stage);
  /// Stores the 16-bit elements of a `c` fragment to a shared tile. One `sched.store_matrix` stores the four 8 x 8
  /// matrices of two adjacent blocks of 8 columns. Lane l passes the address of row l % 16, lanes 0 to 15 in the first
  /// of the two blocks. The last block of an odd number of blocks is stored by pairs.
  void writeMatrices(Value buffer, Value shared, Value stage, TileType held);
  /// Stores a `c` fragment to a shared tile, two columns at a time, from the block of 8 columns with index `firstJ` on.
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
  /// Synchronises all threads that exchange tiles: those of the role, or of the thread block.
  void synchronizeAll();
  /// Synchronises the threads of the warpgroup.
  void synchronizeWarpgroup();
  /// Synchronises all threads if an op may have accessed shared memory since the last such barrier.
  void synchronize();
  /// Synchronises all threads before a copy, if an op has read shared memory since the last such barrier: the copy may
  /// overwrite memory that has been read.
  void waitForReaders();

  tile::KernelOp kernel;
  StringRef arch;
  bool specialized;                       ///< whether the kernel has roles
  int64_t roleWarps = 0;                  ///< warps of the current role; 0 in a kernel without roles
  IRMapping mapping;                      ///< scalar or view of the tile kernel -> that of the sched kernel
  llvm::DenseMap<Value, Value> exchanged; ///< shared tile that the kernel computes -> its buffer
};

} // namespace attune::expansion
