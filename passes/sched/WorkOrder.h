//===- WorkOrder.h - Which tile of work a number is -------------------------===//
//
// A kernel's grid lists axes, for example [b, h, q by 128]. Each place along all of them is a tile of work, and has a
// number; a block takes a number and computes where its tile is. `WorkOrder` writes that arithmetic, of unsigned 32-bit
// numbers, into the IR. It follows from the grid alone: its last axis is the tiled one, whose tiles may be longer the
// later they are, those in front of it are called leading here, and each place along them is a head.
//
// Without an option, the last axis counts fastest, as in this grid of 2 heads of 3 tiles:
//
//     | number             | 0     | 1     | 2     | 3     | 4     | 5     |
//     |--------------------|-------|-------|-------|-------|-------|-------|
//     | (head, tile)       | (0,0) | (0,1) | (0,2) | (1,0) | (1,1) | (1,2) |
//     | longest first      | (0,2) | (0,1) | (0,0) | (1,2) | (1,1) | (1,0) |
//     | from both ends     | (0,2) | (0,0) | (0,1) | (1,2) | (1,0) | (1,1) |
//     | claimed, longest   | (0,2) | (1,2) | (0,1) | (1,1) | (0,0) | (1,0) |
//
// Which numbers a block takes, of n blocks in the grid:
//
//   - Once: its own index; the grid has a block for each tile, and blocks start in the order of their indices as others
//     end. Longest first, heads stand together as for claims: head by head, the long tiles of the last head would start
//     when nearly all else is done, and the device would wait for them (an eighth of the time of 16 heads of 64 tiles).
//     They are as many as `rowsTogether` allows, since the K and V of all of them are read at once, and a power of two,
//     which comparisons give: divisions would stand before a block's first copy. Heads of fewer than 8 tiles stand
//     alone, as many are left when the last ones start.
//   - Rounds: one of each n in turn. Longest first, where there are more tiles than blocks, pairs of neighbours: the
//     tiles of a head then run from both ends, so that each pair is equally long together. Pairs are dealt shifted by
//     the golden section of the grid against each other: where a head has an odd number of tiles, some pairs are of two
//     heads, and each block gets its share of them.
//   - Claims: its own index, then what `sched.claim_work` gives. Tiles at one place of several heads stand side by
//     side: they are about equally long, and what blocks take in the end are the short ones of all these heads. There
//     are as many heads together as three blocks of 128 rows, or two of 192, share one, in groups of nearly equal size:
//     with fewer blocks to a head, HBM is what long sequences wait for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// Of a kernel's operands, those that are read by another axis than the grid's last: how many of their rows, of each,
/// half of a level 2 of 32 MiB holds; 0 where there are none. (One of 50 MB whose halves keep copies of what both read
/// has no more room.)
int64_t rowsInHalfOfLevel2(mlir::ArrayAttr operands, mlir::ArrayAttr grid);

class WorkOrder {
public:
  enum class Assignment { Once, Rounds, Claims };
  struct Options {
    Assignment assignment = Assignment::Once;
    bool longestFirst = false;
    /// Tiles at one place, or pair of places, of all positions of the first axis stand side by side: what they read in
    /// common then comes from L2. Not for claims, and nothing where the grid has fewer than two axes.
    bool acrossFirstAxis = false;
    /// Where each block has one tile, longest first: the rows that heads which stand together have at most; 0 for one
    /// head after the other.
    int64_t rowsTogether = 0;
  };

  /// Writes by `builder`, where that stands when a member is called. `grid` holds the kernel's axes. What prepare() has
  /// written is not written again: members that are called behind it stand where it dominates.
  WorkOrder(mlir::OpBuilder &builder, mlir::Location loc, mlir::ArrayAttr grid, Options options);

  /// What is the same for all tiles of a block, for the place in front of its loop: tiles in all, and how many heads
  /// are together.
  void prepare();
  /// How many tiles of work there are.
  mlir::Value total();
  /// The number of the block's first tile.
  mlir::Value first();
  /// Of rounds: the number of the block's tile after `count` others and one more; total() or above for none.
  mlir::Value next(mlir::Value count);
  /// Where tile `number`, below total(), starts along each axis of the grid.
  llvm::SmallVector<mlir::Value> place(mlir::Value number);

private:
  using Value = mlir::Value;

  Value constant(int64_t value);
  Value blockId();
  Value gridSize();
  template <typename Op> Value make(Value a, Value b) { return Op::create(builder, loc, a, b); }
  /// How many places there are along axis i; computed `again` where it is asked for.
  Value count(size_t i, bool again = false);
  /// How many heads there are.
  Value heads();
  /// How many heads stand together.
  Value headsTogether();
  Value headsClaimed();
  Value headsStarted();
  /// Whether no block has a second tile, so that there are no pairs.
  Value inOneIteration();
  bool inGroups() const {
    const bool together =
        options.assignment == Assignment::Claims || (options.assignment == Assignment::Once && options.longestFirst &&
                                                     options.rowsTogether && !options.acrossFirstAxis);
    return together && axes.size() > 1;
  }
  bool inPairs() const { return options.longestFirst && options.assignment == Assignment::Rounds; }
  /// The number in the order without `acrossFirstAxis`.
  Value alongFirstAxis(Value number);
  /// The head, null where the grid has one axis, and the number of the tile in the head in the order of time.
  std::pair<Value, Value> headAndPosition(Value number);
  /// The tile that is `turn` in the order of a head.
  Value tileOf(Value turn);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  llvm::SmallVector<tile::AxisAttr> axes;
  Options options;
  Value totalTiles, allHeads, together, oneIteration; ///< once written
  Value tilesOfHead;                                  ///< where place() is writing
};

} // namespace attune
