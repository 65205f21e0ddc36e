//===- SequenceWork.h - Work items for sequences of different lengths -----===//
//
// Where the lengths of sequences are known only in device memory, a launch cannot compute the number of splits of each
// sequence, and a grid over sequences, tiles of rows and splits would consist mostly of thread blocks without work. The
// grid is a list of work items instead, and each block computes its work item from its block index:
//
//     each        = ceil(sum over sequences of row tiles x key tiles, of all heads, / blocks that run at a time)
//     splits      = ceil(key tiles of a sequence / each), 1 at least
//     work items    0 .. | row tile 0: split 0, 1, .. | row tile 1: .. | next sequence .. | none
//
// A launch has as many thread blocks as there can be work items: the number of blocks that run at a time plus the
// number of tiles of rows. Blocks after the last work item start last and do nothing. The number of key tiles of a
// sequence is taken from its last tile of rows; other tiles of rows with more key tiles have longer splits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace attune {

/// The rows that a kernel's block works on, as i32 values of the kernel.
struct BlockRows {
  mlir::Value sequence, row0; ///< index of the sequence; first row. `rows` and `keyTiles` are computed from these
  mlir::Value rows;           ///< number of rows of the sequence
  mlir::Value keyTiles;       ///< number of key tiles that the tile of rows visits
};

/// Emits the arithmetic by which a thread block finds its work item (a split of a tile of rows of a sequence) from its
/// block index. The arithmetic loops over all sequences of the batch.
class SequenceWork {
public:
  /// `block` has the values of one block. The ops that compute `rows` and `keyTiles` from `sequence` and `row0` are
  /// cloned for other sequences and rows. The values may belong to another kernel than the one being written. `tileQ`
  /// is the number of rows of a tile, `heads` the name of the grid's axis of heads.
  SequenceWork(mlir::OpBuilder &builder, mlir::Location loc, BlockRows block, int64_t tileQ, llvm::StringRef heads);

  /// The number of splits of each tile of rows of a sequence, at least 1.
  mlir::Value splitsOf(mlir::Value sequence);
  /// The number of tiles of keys of the tile of rows that begins at `row0`.
  mlir::Value keyTilesOf(mlir::Value sequence, mlir::Value row0);
  /// The index of the first work item of the tile of rows `rowTile` of a sequence with `splits` splits.
  mlir::Value firstItem(mlir::Value sequence, mlir::Value rowTile, mlir::Value splits);

  /// ceil(a / b)
  mlir::Value divideUp(mlir::Value a, mlir::Value b);

  struct Place {
    mlir::Value sequence, row0, split, splits;
  };
  /// Decodes the index of a work item. For an index past the last one, `row0` is past the sequence's rows.
  Place find(mlir::Value workItem);

private:
  using Sequences = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;
  /// Emits a loop over the sequences below `end`, and returns its results. The carried values are integers that start
  /// from `inits` and are called `names`; `body` returns their next values.
  llvm::SmallVector<mlir::Value> forSequences(mlir::Value end, mlir::ValueRange inits,
                                              llvm::ArrayRef<llvm::StringRef> names, Sequences body);
  mlir::Value rowTilesOf(mlir::Value sequence);
  /// The number of tiles of keys of a sequence's last tile of rows.
  mlir::Value keyTilesOf(mlir::Value sequence);
  mlir::Value evenPart();
  /// Clones the ops that compute `value`, with sequence and row replaced as mapped in `given`. Ops that depend on
  /// neither sequence nor row are cloned once, before the loop.
  mlir::Value again(mlir::Value value, mlir::IRMapping &given);

  mlir::Value number(int64_t value) { return mlir::arith::ConstantIntOp::create(builder, loc, value, 32); }
  mlir::Value extent(llvm::StringRef axis, llvm::StringRef name) {
    return tile::named(tile::AxisExtentOp::create(builder, loc, builder.getI32Type(), axis), name);
  }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  BlockRows block;
  int64_t tileQ;
  llvm::StringRef heads;
  mlir::Operation *loop = nullptr;       ///< the loop being written
  mlir::IRMapping common;                ///< clones of ops that do not depend on the sequence, shared by all sequences
  llvm::DenseMap<mlir::Value, bool> own; ///< whether a value depends on the sequence or the row, cached
  mlir::Value each;                      ///< tiles of keys per split
};

} // namespace attune
