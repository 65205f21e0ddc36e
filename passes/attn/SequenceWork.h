//===- SequenceWork.h - Blocks for sequences of unlike lengths ----------------===//
//
// Where memory says how many tiles of keys a sequence has, no launch knows how many shares they make, and a grid of
// sequences, tiles of rows and shares would be mostly blocks without work. The grid is a list of pieces instead, and
// each block finds its own:
//
//     each    = ceil(sum over sequences of row tiles x key tiles, of all heads, / blocks that run at a time)
//     shares  = ceil(key tiles of a sequence / each), 1 at least
//     pieces    0 .. | row tile 0: share 0, 1, .. | row tile 1: .. | next sequence .. | none
//
// A launch has room for as many pieces as there can be: one block for each that runs at a time, and one for each tile
// of rows. Those behind the last, which begin last, do nothing. A sequence's key tiles are those of its last tile of
// rows; where another has more, its shares are longer.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace attune {

/// What a kernel's block works on, as values of the kernel (i32).
struct BlockRows {
  mlir::Value sequence, row0; ///< which everything else follows from
  mlir::Value rows;           ///< of the sequence
  mlir::Value keyTiles;       ///< that the tile of rows visits
};

/// Emits, at a builder, what of the sequences' work is computed in each block.
class SequenceWork {
public:
  /// What `block` follows from is computed again for other sequences and rows, also in another kernel than its own.
  SequenceWork(mlir::OpBuilder &builder, mlir::Location loc, BlockRows block, int64_t tileQ, llvm::StringRef heads);

  /// The shares of each tile of rows of a sequence, at least 1.
  mlir::Value splitsOf(mlir::Value sequence);
  /// The tiles of keys of the tile of rows that begins at `row0`.
  mlir::Value keyTilesOf(mlir::Value sequence, mlir::Value row0);
  /// The first piece of the tile of rows `rowTile` of a sequence of `shares`.
  mlir::Value firstItem(mlir::Value sequence, mlir::Value rowTile, mlir::Value splits);

  /// a / b, rounded up.
  mlir::Value divideUp(mlir::Value a, mlir::Value b);

  struct Place {
    mlir::Value sequence, row0, split, splits;
  };
  /// Which piece a number is. Behind the last one `row0` is no row of the sequence.
  Place find(mlir::Value workItem);

private:
  using Sequences = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;
  /// A loop over the sequences below `end`, which carries integers.
  llvm::SmallVector<mlir::Value> forSequences(mlir::Value end, mlir::ValueRange inits,
                                              llvm::ArrayRef<llvm::StringRef> names, Sequences body);
  mlir::Value rowTilesOf(mlir::Value sequence);
  /// Tiles of keys of a sequence's last tile of rows.
  mlir::Value keyTilesOf(mlir::Value sequence);
  mlir::Value evenPart();
  /// `value` for what `given` maps; what does not follow from that stands in front of the loop, once.
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
  mlir::Operation *loop = nullptr;       ///< that is written
  mlir::IRMapping common;                ///< of all sequences
  llvm::DenseMap<mlir::Value, bool> own; ///< whether a value follows from the sequence or the row
  mlir::Value each;                      ///< tiles in a share
};

} // namespace attune
