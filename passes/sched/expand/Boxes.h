//===- Boxes.h - Tiles copied by TMA, in boxes of rows x one panel ---------===//
//
// A panel is the part of a row within which the swizzle permutes 16-byte chunks: 32, 64 or 128 bytes (#sched.swizzle).
// One thread issues the boxes of a tile. A load is complete when the bytes of all boxes have arrived at the barrier of
// the stage. A store reads shared memory, which no thread may overwrite before TMA has read the boxes (waitForBoxes).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/expand/GlobalViews.h"

namespace attune::expansion {

class Boxes : public GlobalViews {
public:
  using GlobalViews::GlobalViews;

protected:
  /// The tensor map of `view`, created once per kernel, for boxes of `rows` rows x one panel of `swizzle`.
  Value tensorMap(Value view, int64_t rows, sched::SwizzleAttr swizzle);

  // Loads
  /// Copies a tile by TMA. The stage is full when the bytes of all boxes have arrived.
  LogicalResult copyByEngine(sched::CopyTileOp op, Value buffer, Value stage);
  /// The destination (BoxTarget) and the source (BoxPlace) of boxes.
  struct BoxTarget {
    Value buffer, stage, ring;
  };
  struct BoxPlace {
    Value batch, head, row;
  };
  /// Copies the tile in which the rows of a sequence end, in boxes of `together` contiguous rows. If the end is within
  /// such a box, the box is split into boxes of 8 rows, and the one with the end into single rows. If ends are at
  /// multiples of 16 rows, the box is split into boxes of 16 rows instead.
  void copyLastTile(sched::CopyTileOp op, const BoxTarget &to, int64_t together, Value row0, Value limit);
  struct LastTile {
    sched::CopyTileOp op;
    BoxTarget to;
    SmallVector<int64_t> sizes; ///< rows of a box, in decreasing order
    SmallVector<Value> maps;    ///< the tensor map for boxes of each size
    Value outside, limit;
  };
  /// Copies `sizes[level]` rows to the rows of shared memory from `tileRow` on. The first of these rows is row `row` of
  /// the sequence and is at position `at` in the tensor.
  void copyBoxes(LastTile &tile, size_t level, const BoxPlace &at, Value tileRow, Value row);
  /// Calls `body(row)` for rows 0, `size`, 2 * `size`, ... below `end`; several calls become a loop.
  void forSteps(int64_t end, int64_t size, StringRef name, function_ref<void(Value)> body);
  /// The position in the tensor of row `row` of the copied tile.
  BoxPlace boxPlace(sched::CopyTileOp op, Value row);
  /// A row index past the end of every batch or page of the tensor.
  Value rowOutside(sched::CopyTileOp op);
  /// Issues a box for each panel, from column `column0` of the tensor on (null: from the first), to the rows of shared
  /// memory from `sharedRow` on.
  void loadBoxRow(Value map, const BoxPlace &from, Value column0, const BoxTarget &to, Value sharedRow);
  /// The thread that copies arrives on the full barrier of the stage with the number of bytes to expect.
  void expectTile(const BoxTarget &to);
  /// Emits the code of `body`, which reads `index`. If `index` is defined before the acquire of the ring's stage, the
  /// code is placed before the acquire, so that the loads of `body` overlap with the wait for the stage.
  void beforeAcquire(Value ring, Value index, function_ref<void()> body);

  // Stores
  /// Stores a shared tile to a dense tensor by TMA; one thread issues the boxes.
  void scatterBoxes(tile::ScatterOp op);
  /// Whether TMA stores the exchanged tile for a `tile.scatter`.
  static bool isTakenByEngine(sched::ExchangeOp exchange);
  /// Stores a register tile by TMA. Each warpgroup first writes its own rows to shared memory, over a buffer that has
  /// no later reader (takeFreeBuffer) or to a buffer of the output alone. In a persistent block that buffer still has
  /// the rows of the previous output, and the warpgroup waits until TMA has read them.
  LogicalResult storeByEngine(tile::StoreOp op);
  /// A shared buffer that an output may overwrite, or null. Always null if the output is stored repeatedly
  /// (isRepeated). The buffer is that of a left operand of which each warpgroup has read only its own rows, or a ring
  /// whose tiles have all been stored.
  Value takeFreeBuffer(TileType output);
  /// Whether the current store runs more than once: in persistent blocks, or in a loop over tiles.
  bool isRepeated();
  /// Each warpgroup writes its own rows of `buffer` to `shared`, from where TMA stores them. If the store is repeated,
  /// the warpgroup first waits until TMA has read the previous boxes, and waits for the last boxes at the end of the
  /// role.
  void writeBoxes(Value buffer, Value shared, Value view, ValueRange indices);
  /// Writes a `c` fragment of the warpgroups to a stage, from where TMA stores it.
  void writeStage(Value buffer, Value shared, Value stage);
  /// Boxes that TMA stores from a stage.
  struct StagedBoxes {
    Value shared, stage, map;
    int64_t columns; ///< number of columns of the view
    bool adds;
  };
  StagedBoxes stagedBoxes(Value shared, Value stage, Value view, bool adds);
  /// Stores a warpgroup's 64 rows from row `sharedRow` of the stage to row `at[2]` of the view. If warpgroups split the
  /// columns, `ownColumn` is the warpgroup's first column.
  void storeBoxes(const StagedBoxes &boxes, Value sharedRow, ArrayRef<Value> at, Value ownColumn);
  /// The thread of each warpgroup that stores boxes waits until TMA has read them.
  void waitForBoxes(Value threadId);

  bool storesBoxes = false; ///< whether the current role must still wait for TMA stores
  /// Buffers of products' left operands that an output may overwrite, in the order of the products.
  llvm::SetVector<Value> leftBuffers;
  llvm::DenseSet<Value> rightBuffers; ///< shared memory of the products' right operands
  /// Shared memory of rings whose tiles another role stores; null once an output reuses that memory.
  SmallVector<Value> storedBuffers;
};

} // namespace attune::expansion
