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
  /// The tensor map of `view` for TMA boxes of `rows` rows x one panel of `swizzle` (32, 64 or 128 bytes). `limited`:
  /// each copy gives a row at which it ends.
  Value tensorMap(Value view, int64_t rows, sched::SwizzleAttr swizzle, bool limited = false);
  /// A limit of the rows of `view`, at most the number of its rows, or null where the limit is that number.
  Value limitOf(Value view, Value limit);

  // Loads
  /// Copies the tile of `op` by TMA to a stage of the shared-memory `buffer`. The stage is full when the bytes of all
  /// boxes have arrived.
  LogicalResult copyByEngine(sched::CopyTileOp op, Value buffer, Value stage);
  /// The destination of TMA boxes in shared memory (BoxTarget) and their source in the tensor (BoxPlace).
  struct BoxTarget {
    Value buffer, stage, ring;
  };
  struct BoxPlace {
    Value batch, head, row;
    Value limit = {}; ///< the tensor's row at which the copy ends, or null
  };
  /// Copies a tile that ends at `from.limit`, in boxes of `rows` rows. A box of a limited map must have a row before the
  /// limit, because TMA reads the map's first address for a box without one: such a box is read from outside of the tensor.
  void loadLimited(sched::CopyTileOp op, int64_t rows, const BoxPlace &from, const BoxTarget &to, Value sharedRow);
  /// Copies a tile of rows in pages, from row `row0` of a sequence of `limit` rows on, in boxes of `together` rows, each
  /// of one page.
  void copyPages(sched::CopyTileOp op, const BoxTarget &to, int64_t together, Value row0, Value limit);
  /// The position in the tensor of row `row` of the sequence: batch (or page), head, and row.
  BoxPlace boxPlace(sched::CopyTileOp op, Value row);
  /// Issues a TMA load of one box for each panel (swizzled slice) of the tile's columns, from row `from` and column
  /// `column0` (null: 0) of the tensor on, to shared memory from row `sharedRow` (null: 0) on.
  void loadBoxRow(Value map, const BoxPlace &from, Value column0, const BoxTarget &to, Value sharedRow);
  /// The thread that issues the copy arrives on the stage's full barrier and announces the bytes of the whole tile
  /// (mbarrier.arrive.expect_tx).
  void expectTile(const BoxTarget &to);
  /// Emits the code of `body`, which reads `index`. If `index` is defined before the op that waits for an empty stage
  /// of `ring` (sched.acquire), the code is placed before that op, so that the loads of `body` overlap with the wait.
  void beforeAcquire(Value ring, Value index, function_ref<void()> body);

  // Stores
  /// Stores a shared tile to a dense tensor by TMA; one thread issues the boxes.
  void scatterBoxes(tile::ScatterOp op);
  /// Whether a `tile.scatter` stores by TMA the shared tile that `exchange` writes.
  static bool isTakenByEngine(sched::ExchangeOp exchange);
  /// Stores a register tile by TMA. Each warpgroup first writes its own rows to shared memory, over a buffer that has
  /// no later reader (takeFreeBuffer) or to a buffer of the output alone. In a persistent block the warpgroup first
  /// waits until TMA has read the previous output from that buffer.
  /// With `another` such store right after, TMA starts the boxes of both together, so that one wait serves both, unless
  /// both use one buffer.
  LogicalResult storeByEngine(tile::StoreOp op, bool another);
  /// A shared buffer that the tile `output` may overwrite, or null; no other output gets the same buffer. Always null
  /// if the output is stored repeatedly (isRepeated). The buffer is that of a product's left operand of which each
  /// warpgroup has read only its own rows. If shared memory has no room for a buffer of the output alone, it may also
  /// be a ring (circular buffer) for whose last tiles the role then waits until other warps have stored them.
  /// `laterBytes`: what the stores after it would take in buffers of their own.
  Value takeFreeBuffer(TileType output, int64_t laterBytes);
  /// The stores after `op` in its IR block.
  static SmallVector<tile::StoreOp> laterStores(tile::StoreOp op);
  /// Whether a buffer of the given type fits in shared memory, in addition to all buffers so far and `laterBytes`.
  bool hasRoomFor(TileType type, int64_t laterBytes);
  /// Erases the waits after the last loop until other warps have stored the tiles of a ring, unless an output has taken
  /// the memory of a ring. No later output takes it then.
  void dropAcquires();
  /// Whether the current store runs more than once: in persistent blocks, or in a loop over tiles.
  bool isRepeated();
  /// Writes the accumulator `buffer` of the warpgroups to a stage of `shared`, a ring (circular buffer) in shared
  /// memory. A fence must follow before TMA reads it.
  void writeStage(Value buffer, Value shared, Value stage);
  /// The source of boxes that TMA stores, a stage in shared memory, and the tensor map of their destination.
  struct StagedBoxes {
    Value shared, stage, map;
    int64_t columns; ///< number of columns of the view
    bool adds;       ///< whether TMA adds the boxes to global memory
    Value limit;     ///< the view's row at which the boxes end, or null
  };
  StagedBoxes stagedBoxes(Value shared, Value stage, Value view, bool adds, Value limit);
  /// A register tile that is stored by way of shared memory, to `at` (batch, head, row) of a view.
  struct Output {
    Value buffer;
    StagedBoxes boxes;
    SmallVector<Value, 3> at;
  };
  /// Each warpgroup writes its own rows of the tile to shared memory. If the store is repeated, the warpgroup first waits
  /// until TMA has read the boxes of all outputs that it has started.
  void writeBoxes(const Output &output);
  /// Makes what writeBoxes has written visible to TMA, synchronises the warps of a warpgroup, and has the warpgroup's
  /// first thread start the stores. The thread waits until TMA has read the boxes: here, or at the end of the warp role
  /// if the store is repeated.
  void issueOutputs();
  /// Stores a warpgroup's 64 rows by TMA, from row `sharedRow` of the stage in shared memory to `at` (batch, head, row)
  /// of the view. If warpgroups split the columns, `ownColumn` is the warpgroup's first column, else null.
  void storeBoxes(const StagedBoxes &boxes, Value sharedRow, ArrayRef<Value> at, Value ownColumn);
  /// The first thread of each warpgroup, which issues the TMA stores, waits until TMA has read their shared memory.
  void waitForBoxes(Value threadId);

  SmallVector<Output> outputs; ///< in shared memory, and not stored by TMA yet
  Value
      ownBuffer; ///< the last buffer of an output alone, which a repeated store shares if there is no room for another
  bool storesBoxes = false; ///< whether the current role must still wait for TMA stores
  /// Shared buffers of the products' left operands that an output may overwrite, in the order of the products.
  llvm::SetVector<Value> leftBuffers;
  llvm::DenseSet<Value> rightBuffers; ///< shared memory of the products' right operands
  /// Buffers of rings whose tiles another warp role stores to global memory. An entry is null once an output reuses it.
  SmallVector<Value> storedBuffers;
};

} // namespace attune::expansion
