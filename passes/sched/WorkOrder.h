//===- WorkOrder.h - Map the number of a tile of work to its position -------------------------===//
//
// A kernel's grid lists axes, for example [b, h, q by 128]. Each point of the grid is a tile of work and has a number.
// A block takes a number and computes the position of its tile. `WorkOrder` writes that arithmetic, on unsigned 32-bit
// integers, into the IR. The arithmetic depends on the grid alone. The grid's last axis is the tiled one. Each point
// along the axes before the last one is called a head here. Under a causal mask the last tiles of a head take longest
// if the tiled axis counts queries (`LongTiles::Last`), and the first tiles if the tiled axis counts keys
// (`LongTiles::First`).
//
// Without an option, the last axis varies fastest. The option `longest` (`sched.longest_first` of the kernel) numbers
// the long tiles of a head first. The order then also depends on how blocks take numbers: Once (with `rowsTogether` 0),
// Rounds or Claims, explained after the table. In a grid of 2 heads of 3 tiles, the (head, tile) of each number is:
//
//     | number                 | 0     | 1     | 2     | 3     | 4     | 5     |
//     |------------------------|-------|-------|-------|-------|-------|-------|
//     | without an option      | (0,0) | (0,1) | (0,2) | (1,0) | (1,1) | (1,2) |
//     | Last, Once             | (0,2) | (0,1) | (0,0) | (1,2) | (1,1) | (1,0) |
//     | Last, Rounds           | (0,2) | (0,0) | (0,1) | (1,2) | (1,0) | (1,1) |
//     | Last, Claims           | (0,2) | (1,2) | (0,1) | (1,1) | (0,0) | (1,0) |
//     | First, Rounds          | (0,0) | (0,2) | (0,1) | (1,0) | (1,2) | (1,1) |
//     | First, Claims          | (0,0) | (1,0) | (0,1) | (1,1) | (0,2) | (1,2) |
//
// A grid of n blocks may have more tiles than blocks. A block takes the numbers of its tiles in one of three ways:
//
//   - Once: the block takes its own index. The grid has a block for each tile, and blocks start in the order of their
//     indices as other blocks end. With `longest`, tiles of several heads alternate, as with Claims in the
//     table. If heads came one after the other, the long tiles of the last head would start when nearly all other tiles
//     are done, and the device would wait for these tiles (with 16 heads of 64 tiles, for an eighth of the run time).
//     `rowsTogether` limits the number of heads that alternate, so that L2 can hold the operands that the blocks of
//     these heads copy in their loops (K and V, or Q and dO). The number of alternating heads is a power of two, which
//     comparisons choose, because divisions would delay a block's first copy. Heads of fewer than 8 tiles do not
//     alternate: tiles of many such heads run at the same time anyway.
//   - Rounds: in each round the block takes one of the next n numbers. With `longest` and more tiles than blocks,
//     the block takes pairs of adjacent numbers. The tiles of a head are then numbered from both ends, so that all
//     pairs take equally long. In the k-th set of n pairs, block b takes pair b + 5/8 n k (mod n). Where a head has an
//     odd number of tiles, some pairs span two heads, and this shift spreads these pairs over the blocks.
//   - Claims: the block takes its own index, then the numbers that `sched.claim_work` returns. Tiles at the same
//     position of several heads have adjacent numbers: they take about equally long, and the last tiles that blocks
//     take are the short ones of all these heads. Heads are grouped so that three blocks of 128 rows, or two of 192,
//     work on each head of a group at a time; groups have nearly equal size. With fewer blocks per head, long
//     sequences are limited by the bandwidth of HBM.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// The number of rows that fit in half of a 32 MiB L2 cache. The size of a row is the sum of one row of each read-only
/// operand that is tiled along another axis than the last axis of `grid`, for example a row of K and a row of V.
/// Returns 0 if the kernel has no such operand. (32 MiB is assumed for an L2 of 50 MB, because each half of that L2
/// keeps a copy of data that multiprocessors of both halves read.)
int64_t rowsInHalfOfLevel2(mlir::ArrayAttr operands, mlir::ArrayAttr grid);

class WorkOrder {
public:
  /// How a thread block takes the numbers of its tiles of work: `Once` its own index, `Rounds` one number in each round
  /// of all blocks, `Claims` numbers from a counter in memory. See the top of this file.
  enum class Assignment { Once, Rounds, Claims };
  struct Options {
    Assignment assignment = Assignment::Once;
    sched::LongTiles longest = sched::LongTiles::None;
    /// The first axis (the batch, for example) varies fastest: tiles (or pairs of tiles) that differ only in their
    /// batch have adjacent numbers, so that data which all batches read comes from L2. Not for `Claims`; no effect
    /// where the grid has fewer than two axes.
    bool acrossFirstAxis = false;
    /// For `Once` with `longest`: tiles of several heads alternate only as long as these heads together have at
    /// most this many rows. 0: tiles of different heads do not alternate.
    int64_t rowsTogether = 0;
  };

  /// Every member writes IR at the current insertion point of `builder`. `grid` holds the axes of the kernel's grid.
  /// Members reuse the values that prepare() has written, so the insertion point of prepare() must dominate those of
  /// all later calls.
  WorkOrder(mlir::OpBuilder &builder, mlir::Location loc, mlir::ArrayAttr grid, Options options);

  /// Writes the values that are the same for all tiles of a block: the total number of tiles, the number of heads whose
  /// tiles alternate, and whether every block has at most one tile. To be called before the block's loop over tiles.
  void prepare();
  /// The number of tiles of work.
  mlir::Value total();
  /// The number of the first tile of work that the thread block computes.
  mlir::Value first();
  /// For `Rounds`: the number that the block takes in iteration `count` + 1, where iteration 0 takes first(). The
  /// result is total() or above if there is no such tile.
  mlir::Value next(mlir::Value count);
  /// The start of tile `number`, which is below total(), along each axis of the grid.
  llvm::SmallVector<mlir::Value> place(mlir::Value number);

private:
  using Value = mlir::Value;

  Value constant(int64_t value);
  Value blockId();
  Value gridSize();
  template <typename Op> Value make(Value a, Value b) { return Op::create(builder, loc, a, b); }
  /// The number of tiles along axis i. If `again`, the extent is read a second time, so that no register has to keep
  /// the result of the first read.
  Value count(size_t i, bool again = false);
  /// The number of heads: points of the grid along all axes but the last.
  Value heads();
  /// The number of heads whose tiles alternate: headsClaimed() computes it for `Claims`, headsStarted() for `Once`.
  Value headsTogether();
  Value headsClaimed();
  Value headsStarted();
  /// Whether every block has at most one tile. Tiles are then not assigned in pairs.
  Value inOneIteration();
  bool inGroups() const {
    const bool together =
        options.assignment == Assignment::Claims ||
        (options.assignment == Assignment::Once && isUneven() && options.rowsTogether && !options.acrossFirstAxis);
    return together && axes.size() > 1;
  }
  bool isUneven() const { return options.longest != sched::LongTiles::None; }
  bool inPairs() const { return isUneven() && options.assignment == Assignment::Rounds; }
  /// Converts a tile's number in the order with option `acrossFirstAxis` to its number in the order without the option.
  Value alongFirstAxis(Value number);
  /// The head of tile `number` (null if the grid has one axis), and the tile's position in the order in which the
  /// head's tiles run.
  std::pair<Value, Value> headAndPosition(Value number);
  /// The index of the tile at `position` in the order in which a head's tiles run.
  Value tileOf(Value position);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::SmallVector<tile::AxisAttr> axes;
  Options options;
  Value totalTiles, allHeads, together, oneIteration; ///< null until the IR of the value is written
  Value tilesOfHead;                                  ///< tiles per head, in the place() call that is running
};

} // namespace attune
