//===- Boxes.h - Tiles copied by TMA, in boxes of rows x one panel ---------===//
//
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
  /// Copies a tile within which the rows of a sequence end: by boxes of `together` contiguous rows, and, where the rows
  /// end within such a box, by boxes of 8 rows and of single rows (of 16 rows if ends are at multiples of 16).
  void copyLastTile(sched::CopyTileOp op, const BoxTarget &to, int64_t together, Value row0, Value limit);
  struct LastTile {
    sched::CopyTileOp op;
    BoxTarget to;
    SmallVector<int64_t> sizes; ///< rows of a box, in decreasing order
    SmallVector<Value> maps;    ///< the tensor map for boxes of each size
    Value outside, limit;
  };
  /// Copies `sizes[level]` rows, from row `row` of the sequence on, which is at position `at` of the tensor.
  void copyBoxes(LastTile &tile, size_t level, const BoxPlace &at, Value tileRow, Value row);
  /// Calls `body(first)` for the first row of every `size` rows before row `end`, in a loop if there are several.
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
  /// Writes `body`, which reads `index`, before the acquire of the ring's stage if the acquire is after the definition
  /// of `index`. Loads of `body` then overlap with the wait for the stage.
  void beforeAcquire(Value ring, Value index, function_ref<void()> body);

  // Stores
  /// Stores a shared tile to a dense tensor by TMA; one thread issues the boxes.
  void scatterBoxes(tile::ScatterOp op);
  /// Whether TMA scatters the exchanged tile.
  static bool isTakenByEngine(sched::ExchangeOp exchange);
  /// Stores by TMA through shared memory, where each warpgroup writes its own rows: over the rows of a free buffer
  /// (takeFreeBuffer), or in a persistent block over the rows of the previous output, once TMA has read them.
  LogicalResult storeByEngine(tile::StoreOp op);
  /// A shared buffer that an output may overwrite, or null. The output must be stored once only. The buffer is that of
  /// a left operand of which each warpgroup has read only its own rows, or a ring whose tiles have all been stored.
  Value takeFreeBuffer(TileType output);
  /// Whether the current store runs more than once: in persistent blocks, or in a loop over tiles.
  bool isRepeated();
  /// Each warpgroup writes its own rows of `buffer` to `shared`, from where TMA stores them. If the store is
  /// repeated, the warpgroup first waits until TMA has read the previous boxes; the role's end waits for the last ones.
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

  bool storesBoxes = false;           ///< whether TMA stores of the current role have not been waited for
  Value leftBuffer;                   ///< buffer of a product's left operand that an output may overwrite, or null
  llvm::DenseSet<Value> rightBuffers; ///< shared memory of the products' right operands
  /// Shared memory of rings whose tiles another role stores; null once an output reuses that memory.
  SmallVector<Value> storedBuffers;
};

} // namespace attune::expansion
