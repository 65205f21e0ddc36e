//===- KernelExpander.h - Expand a kernel over tiles into the instructions of a lane ----===//
//
// Register tiles become arrays of fragments, tile ops become loops over the elements of fragments, and products become
// single matrix instructions. Each kind of op has an `expandOp`. The files are by topic:
//
//     Control.cpp             kernel, roles, work, branches, loops; dispatch to the other files
//     Phases.cpp              comments in the generated source
//     FunctionNames.cpp       loops that become device functions
//     MapElements.cpp         the region of a map, for one element
//     Pairs.cpp               two columns of a lane by one access to global memory
//     MapInputs.cpp           inputs of maps in shared memory: relative-position values, per-key vectors, windows
//     ConditionWords.cpp      large conditions of maps, in a loop
//     RowCuts.cpp             comparisons of columns with a bound of the row; interleaved maps
//     Reductions.cpp          maxima, sums and votes
//     Exchanges.cpp           exchanges between lanes through shared memory
//     ProbabilityChain.cpp    exp, its sum, dropout and the conversion, block by block
//     Products.cpp            mma.sync, tf32, wgmma, and their left operands
//     Copies.cpp              global to shared memory, by threads and by TMA
//     Stores.cpp              results to global memory
//     Blocks.cpp              loads and stores of tiles saved in the order in which lanes hold them
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/score/MapPatterns.h"
#include "passes/sched/expand/TileBuffers.h"

namespace attune::expansion {

/// Relative-position values (one for each diagonal) that a map reads, in registers of a lane. On its first pair of
/// columns the lane needs one diagonal for each of its rows, which are 8 apart; on each further pair, one new diagonal.
struct Diagonals {
  Value buffer, ring, stage, start;
  bool ascend; ///< whether rows are keys: q - k then grows along the columns
};

/// A per-key vector in shared memory, of which a lane reads the elements of its two adjacent columns together.
struct ColumnPair {
  Value buffer, ring, stage;
};

/// A `tile.element` of a map that is loaded in pairs: `buffer` holds the elements of all of the lane's rows at the
/// current two columns.
struct ElementPairs {
  tile::ElementOp element;
  Value buffer;
  /// A view that starts at the lane's first pair; null unless only the last two indices differ between its pairs.
  Value own;
};

/// A window (a rectangle of a captured tensor in shared memory) of 16-bit elements, loaded as `a` fragments of 16
/// columns of the result. The pairs of an `a` fragment are the pairs of the `c` fragment at the same row and column.
struct Window {
  Value input, buffer;
};

/// A term slope * (origin + column) of a map's element, where `slope` is the same for all elements of the map.
struct Line {
  Value slope, origin;
};

/// The operand by which the elements of an interleaved map are ordered (InterleaveFunctions.cpp), in registers: a value
/// for each row, or one value for all rows in the entry of the first row.
struct Interleaving {
  InterleavedOperand operand;
  Value values;
};

/// The exponential, its row sum, dropout and the conversion to an `a` fragment, expanded together for 16 columns at a
/// time, so that the floats of 16 columns are free before the fragment of the next 16 columns is needed. No chain is
/// made if a wait for an asynchronous product is before the conversion, because the exponentials overlap with that
/// product.
struct ProbabilityChain {
  tile::MapOp exponent;
  tile::ReduceOp sum;
  tile::DropoutOp dropout;
  tile::ConvertOp convert;
};

/// Values of dropout that all 16 x 16 blocks of a tile use.
struct DropoutState {
  Value key0, key1, offsetLow, head, highThreshold, rowBlock, columnBlock;
  bool byKeys;  ///< whether the tile's rows are keys
  bool negates; ///< whether dropped elements are negated and not set to 0
  Value kept;   ///< the tile of flags of kept elements, or null
};

class KernelExpander : public TileBuffers {
public:
  KernelExpander(tile::KernelOp kernel, StringRef arch)
      : TileBuffers(OpBuilder(kernel), kernel.getLoc(), kernel.getPlan()), kernel(kernel), arch(arch),
        specialized(sched::fillingWarps(kernel) > 0) {}

  /// Writes the sched kernel before the tile kernel, and erases the tile kernel.
  LogicalResult run();

private:
  // Control.cpp
  /// Expands the body of a kernel without roles. With `waits`, the first op that accesses operands waits for the end of
  /// the previous kernel of the launch; loads of captured tensors before it do not.
  LogicalResult expandWork(Block &body, bool waits);
  LogicalResult expandOp(sched::RoleOp op);
  LogicalResult expandOp(sched::ForWorkOp op);
  LogicalResult expand(Operation *op);
  LogicalResult expandByKind(Operation *op);
  /// Moves each tile that the then side yields to the buffer of the tile that the else side yields. The else side has
  /// no other op.
  LogicalResult expandOp(scf::IfOp op);
  LogicalResult expandOp(sched::ForTilesOp op);

  // Phases.cpp
  /// Adds a comment on what `op` computes to the generated source, before the first statement of the ops that replace
  /// `op`. These ops are in the IR block `block`, after the op `before`.
  void commentPhase(Operation *op, Block *block, Operation *before);
  /// Comments on where the loops with products begin and end: prologue, steady state, epilogue.
  static void namePhases(sched::KernelOp written);

  // FunctionNames.cpp
  /// Marks the loops that replace `op`, in IR block `block` after op `before`, to be printed as a device function.
  void nameFunctions(Operation *op, Block *block, Operation *before);

  // MapElements.cpp
  LogicalResult expandOp(tile::MapOp op);
  LogicalResult expandOp(tile::SplatOp op);
  /// The entries of `mapping` that `region` uses. Copying the whole `mapping` for each map would take time quadratic in
  /// the terms of a mask.
  IRMapping mappingFor(Region &region);
  /// Computes the elements of `op`. With `inPairs`, elements marked `sched.pairs` are loaded in pairs, else one by one.
  void writeElements(tile::MapOp op, Value buffer, const std::optional<InterleavedOperand> &interleaved, bool inPairs);
  /// Maps the coordinate arguments of the region of `op` to their values at fragment index (i, r, j, c).
  void mapCoordinates(tile::MapOp op, IRMapping &inner, Value i, Value r, Value j, Value c);
  /// The element of `op` at fragment index (i, r, j, c).
  Value mapElement(tile::MapOp op, Value i, Value r, Value j, Value c);
  /// The element of an input of a map at fragment index (i, r, j, c).
  Value inputElement(tile::MapOp op, Value input, Value i, Value r, Value j, Value c);
  /// Whether `axis` runs along the rows of the register tile, not along its columns.
  static bool isRowAxis(Value tile, StringRef axis);
  /// The coordinate along `axis` of element (i, r, j, c) of the register tile.
  Value coordinateInTile(Value tile, StringRef axis, Value i, Value r, Value j, Value c);
  /// The element of the shared tile `input` at the coordinates of element (i, r, j, c) of the register tile `of`. The
  /// shared tile may have either order of axes.
  Value sharedElement(Value input, Value of, Value i, Value r, Value j, Value c);
  /// Expands the region of a map over one axis for the thread's i-th element.
  void mapLane(tile::MapOp op, Value i, IRMapping &inner);
  /// The part of a column's coordinate that differs from lane to lane.
  Value laneColumns(tile::MapOp op);
  /// A column's coordinate as a float: (origin + the lane's part) + the part of the fragment index. The first sum is
  /// the same for all columns of the lane; the second part is a constant once loops are unrolled.
  Value floatCoordinate(Value origin, Value lanePart, Value placePart);
  Value floatStart(Value origin, Value lanePart);
  std::optional<Line> lineThroughColumns(tile::MapOp op, Operation &nested);
  /// The line at column (j, c), as one FMA whose addend is the same for all columns of the lane.
  Value lineElement(tile::MapOp op, Line line, IRMapping &inner, Value j, Value c);
  /// Returns the tile's origin if `nested` divides the column's coordinate by a multiple of 8 and tiles begin at
  /// multiples of the divisor; else null. All lanes then have the same quotient within a block of 8 columns.
  Value originOfDivided(tile::MapOp op, Operation &nested);
  Value columnQuotient(arith::DivSIOp division, Value origin, Value j);
  /// Whether an element depends on its column's coordinate other than through cuts (isCut), or on a vector along the
  /// columns.
  bool readsColumns(tile::MapOp op);

  // Pairs.cpp
  /// Whether all views that `op` accesses in pairs are aligned for pairs and contain the whole tile; null if `op`
  /// accesses no view in pairs.
  Value liesInPairs(tile::MapOp op);
  Value liesInPairs(tile::ScatterOp op, ArrayRef<Value> extents);
  Value viewInPairs(Value view, bool eights = false);
  /// The logical and of `known` and the test that the tile is within the view and before the ends of its indices.
  Value liesWithin(Value known, tile::ScatterOp op, ArrayRef<Value> extents);
  /// The logical and of `known` (if not null) and the test that a tile of `type` is between 0 and `end` along an axis.
  Value endsWithin(Value known, const TileCoordinate &along, TileType type, Value end);
  Value extentOf(Value view, int64_t dim);
  /// Clones an op of a map without its marks for pairs, so that its elements are accessed one by one.
  void cloneAlone(Operation &op, IRMapping &inner);
  /// Creates registers for a pair of columns of each marked element of `op`.
  SmallVector<ElementPairs> openPairs(tile::MapOp op);
  void loadPairs(tile::MapOp op, const ElementPairs &of, Value j);
  /// The indices of `element` at fragment index (i, r, j, c) of `op`, for access in pairs. An index is clamped unless
  /// the test for pairs (liesInPairs) guarantees that it is in range.
  SmallVector<Value> indicesOf(tile::MapOp op, tile::ElementOp element, Value i, Value r, Value j, Value c);
  /// `index` clamped to the extent of dimension `dim`.
  Value clamped(Value index, Value view, int64_t dim);
  void scatterPairs(tile::ScatterOp op, ArrayRef<Value> extents);
  void scatterEights(tile::ScatterOp op);
  /// For pairs of rows, a view that starts at the lane's first pair, indexed by column and row; null if other indices
  /// differ between the lane's pairs.
  Value ownPairs(tile::MapOp op, tile::ElementOp element);
  Value ownPairs(tile::ScatterOp op);
  Value fromFirst(Value view, ValueRange first);
  /// The first row of the pair that contains the lane's `row`. If the lane's row is the second of its pair, `column` is
  /// 1.
  Value firstOfPair(Value row, Value column) {
    return arith::SubIOp::create(builder, loc, row, column, arith::IntegerOverflowFlags::nsw);
  }
  /// The index that `places` gives for fragment element (i, r, j, c). Requires that the whole tile is before the end of
  /// `places`, so that the end is not tested.
  Value placeWithin(const CountedPlaces &places, Value i, Value r, Value j, Value c);
  /// Whether the lane's rows are the second rows of their pairs.
  Value isSecondRow();
  /// Transposes 2 x 2 elements between lanes 4 apart. Before, each lane holds one row at two columns; afterwards each
  /// lane holds both rows at one column, the lane of the first row at the first column. The inverse is the same
  /// exchange.
  ///
  ///     lane       holds                      gets
  ///     l          (k, q), (k, q + 1)         (k, q), (k + 1, q)
  ///     l + 4      (k + 1, q), (k + 1, q + 1) (k, q + 1), (k + 1, q + 1)
  std::array<Value, 2> exchangePairs(Value first, Value second, Value isSecond);

  /// Whether the view is aligned for accesses of eight elements and contains the whole tile.
  Value liesInEights(tile::ScatterOp op, ArrayRef<Value> extents);

  // MapInputs.cpp
  /// The layout of relative-position values in a kernel with ping-pong: each value is stored next to the value of the
  /// previous distance, which belongs to the next column. A lane then reads the two columns of a row by one load. These
  /// loads come before the ping-pong region, which other warpgroups wait to enter. In other kernels the shared memory
  /// for the second copy is worth more than the saved loads.
  TileType inPairs(TileType type);
  static bool isInPairs(Value shared) { return cast<TileType>(shared.getType()).hasAxis("pair"); }
  /// Creates registers for the relative-position inputs of `op`, and loads the diagonals that come before the first
  /// pair of columns.
  SmallVector<Diagonals> openDiagonals(tile::MapOp op);
  /// Loads the relative-position values of the lane's n-th diagonal, for both columns of a pair. The lane's diagonals
  /// are 8 apart; diagonal number `before` is that of the lane's first row and column.
  void loadDiagonal(const Diagonals &of, Value n, int64_t before);
  /// Loads two adjacent elements into [place][0] and [place][1] of `buffer`.
  void loadPair(Value shared, Value stage, Value row, Value column, Value buffer, Value place);
  /// Creates registers for a pair of columns of each per-column vector that `op` reads from shared memory.
  SmallVector<ColumnPair> openColumns(tile::MapOp op);
  void loadColumns(const ColumnPair &of, Value j);
  SmallVector<Window> openWindows(tile::MapOp op);
  /// Whether `input` is a tile of two axes in swizzled shared memory. Its rows may be the rows or the columns of the
  /// result of `op`.
  bool isWindow(tile::MapOp op, Value input);

  // ConditionWords.cpp
  /// Whether the element of a region argument can be read at a fragment index that is known only at run time. Tiles in
  /// registers cannot, other than vectors of rows and columns.
  bool hasRunTimePlace(tile::MapOp op, BlockArgument argument);
  /// The element of a vector in registers for a column known only at run time, by a select for each column.
  Value columnAt(Value input, Range pairs, Value column);
  /// The conditions of `op` that are computed in a loop: conditions of many ops whose arguments all fulfil
  /// hasRunTimePlace.
  SmallVector<Operation *> largeConditions(tile::MapOp op);
  /// Computes the large conditions of `op` for all elements.
  void openWords(tile::MapOp op);
  /// The index of the word that has the bit of element (i, r, j, c), for a tile of the shape of `buffer`. bitInWord()
  /// is the bit's number in that word.
  SmallVector<Value> wordAt(Value buffer, Value i, Value r, Value j);
  Value bitInWord(Value buffer, Value j, Value c);
  void setBit(Value bit, Value words, Value buffer, Value i, Value r, Value j, Value c);
  Value testBit(Operation *condition, Value words, Value buffer, Value i, Value r, Value j, Value c);
  /// Marks the ops of a map's region that only conditions kept in words use.
  void markInWords(Block &body);

  // RowCuts.cpp
  /// Whether `compare` compares the column, counted from the tile's first, with a number of columns of the tile: one
  /// that is clamped to [0, size of the tile].
  static bool comparesColumn(tile::MapOp op, arith::CmpIOp compare);
  /// The comparison at column (j, c). The lane's part of the column is moved to the row's side once for all columns, so
  /// that the column's side is a constant, or the comparison is a bit of the row's word.
  Value columnComparison(tile::MapOp op, arith::CmpIOp compare, const IRMapping &inner, Value j, Value c);
  Value lanePart(tile::MapOp op, arith::CmpIOp compare, Value columns);
  /// Whether `user` is a cut: a comparison that splits each row of `op` at one column. A tile with more columns than
  /// the bits of a word can hold for a lane has no cuts.
  bool isCut(tile::MapOp op, Operation *user);
  /// Whether all users of the comparison are conditions that are computed as one word for all columns (columnsOf).
  bool isInWords(arith::CmpIOp compare);
  Value bitOfColumn(Value word, Location loc, Value j, Value c);
  /// Whether a value of the map's body is the same for all columns.
  bool followsFromRow(tile::MapOp op, Value value);
  /// The values of row (i, r) for the region arguments of `op` that are the same along a row.
  IRMapping rowOf(tile::MapOp op, Value i, Value r);
  /// Computes a word for each cut of `op` in row (i, r), with one bit for each column of the lane, and words of the
  /// conditions that combine several cuts.
  void openCuts(tile::MapOp op, Value i, Value r);
  SmallVector<Value> interleavedAt(Value i, Value r);
  void forEachInterleaved(function_ref<void(Value i, Value r)> body);
  void openPacing(tile::MapOp op, const InterleavedOperand &operand);
  /// Makes the elements of the next 16 columns depend on the first element of the 16 columns from 16 jj on (on the
  /// first element of each row, if the interleaved operand is per row).
  void interleave(Value buffer, Value jj);

  // Reductions.cpp
  /// A lane combines the flags of its elements by or; then the warp votes.
  LogicalResult expandOp(tile::AnyOp op);
  LogicalResult expandOp(tile::ReduceOp op);
  /// Reduces each row over its columns, in the lanes of a quad.
  void reduceColumns(tile::ReduceOp op, Value source, Value buffer);
  /// Reduces each column over its rows, first in the lanes that hold the column, then over the warps through shared
  /// memory.
  void reduceRows(tile::ReduceOp op, Value source, Value buffer);
  /// Stores a warp's partial result of a column to shared memory; 64 bits are two adjacent words.
  void storePart(Value value, Value parts, Value row, Value place);
  Value loadPart(Type element, Value parts, Value row, Value place);
  LogicalResult expandOp(tile::CombineLanesOp op);
  LogicalResult expandOp(tile::SumDiagonalsOp op); ///< defined in Diagonals.cpp
  Value combine(tile::Reduction kind, Value a, Value b);
  /// The identity element of the reduction.
  Value identityFor(tile::ReduceOp op);
  /// Combines `value` over all lanes whose indices differ only in the bits of `masks`.
  Value combineLanes(tile::Reduction kind, Value value, ArrayRef<int64_t> masks);
  /// Combines `value` over the four lanes of a quad, which share a row.
  Value combineQuad(tile::Reduction kind, Value value) { return combineLanes(kind, value, {1, 2}); }

  // ProbabilityChain.cpp
  /// The chain that starts at `map`, if later ops use only its fragment and its row sum.
  std::optional<ProbabilityChain> chainFrom(tile::MapOp map);
  void expandChain(const ProbabilityChain &chain);
  LogicalResult expandOp(tile::DropoutOp op);
  DropoutState prepareDropout(tile::DropoutOp op);
  /// One Philox call serves the eight elements that a lane holds of the 16 x 16 block (i, jj) (see tile.dropout). If
  /// rows are keys, lanes l and l ^ 4 need halves of the same two calls: each lane makes one call, and the lanes
  /// exchange words.
  /// Word [e][n] (or [e][r] if rows are keys) is for element e of a pair in half n (or r).
  using Words = std::array<std::array<Value, 2>, 2>;
  Words wordsByQueries(const DropoutState &state, Value i, Value jj);
  Words wordsByKeys(const DropoutState &state, Value i, Value jj);
  sched::PhiloxOp random(const DropoutState &state, Value query, Value key);
  void dropBlock(const DropoutState &state, Value source, Value buffer, Value i, Value jj);

  // Blocks.cpp
  LogicalResult expandOp(tile::LoadBlocksOp op);
  LogicalResult expandOp(tile::StoreBlocksOp op);
  /// Calls `body(i, jj, block)` for each 16 x 16 block of a register tile that is within the view: block i of the
  /// warp's rows and jj of its columns; `block` is the view's slice of that block. If not all blocks are within the
  /// view, `some` is called first.
  template <typename BlocksOp>
  void forEachBlock(BlocksOp op, TileType type, function_ref<void()> some,
                    function_ref<void(Value i, Value jj, Value block)> body);
  /// The index of the byte that holds this lane's bits of a 16 x 16 block, if rows are queries.
  Value byteOfLane();
  /// The position in memory (tile.store_blocks) of an element of a 16 x 16 block: in half n of the columns, half r of
  /// the rows, column e of a pair.
  Value placeInBlock(TileType type, unsigned n, unsigned r, Value e);
  /// The lane that stored, from a tile with queries as rows, an element that this lane holds in a tile with keys as
  /// rows: element `e` of a pair. If rows are queries, this lane.
  Value laneInBlock(TileType type, unsigned e);

  // Products.cpp
  LogicalResult expandOp(tile::MmaOp op);
  LogicalResult expandOp(sched::MmaWaitOp op);
  LogicalResult expandOp(tile::ConvertOp op);
  /// Converts the 16 columns from 16 kk on (for f32, 8 columns from 8 kk on) of rows i from a `c` to an `a` fragment.
  void packBlock(tile::ConvertOp op, Value source, Value fragment, Value i, Value kk);
  /// The buffer of a shared tile, and its stage.
  std::pair<Value, Value> slotOf(Value tile);
  /// Loads by ldmatrix the warp's rows of a left operand, stored by rows or by columns: the 16 columns from 16 kk on,
  /// into fragment column `to`.
  void loadLeftFragments(Value tile, Value fragment, Value kk, Value to);
  /// Whether each row of a shared tile in memory is a column of the operand that `fragment` holds.
  static bool isStoredByColumns(Value tile, Value fragment);
  /// The row and column in shared memory that a lane passes to ldmatrix or stmatrix for four transposed 8 x 8 matrices.
  /// The matrices are the quarters of a fragment whose first row is column `row0` in shared memory.
  std::pair<Value, Value> transposedPlace(Value row0);
  /// The float of a shared left operand at fragment index (i, kk, e) of the `a` fragment.
  Value leftFloat(Value tile, Value fragment, Value i, Value kk, Value e);
  void loadLeftFloats(Value tile, Value fragment);
  /// An index along one axis of a shared tile: a base, which differs from lane to lane, plus a step that is the same
  /// for all lanes, a multiple of 8 rows or of 8 columns of four bytes. `isAligned`: step and base have no bit in
  /// common.
  struct SteppedIndex {
    Value base, step;
    bool isAligned = true;
  };
  /// Loads the float at a row and a column of a shared tile. With steps, the lane's swizzled address is one register,
  /// and all loads of the lane are at constant distances from that address. Without steps each load has its own
  /// address, which ptxas computes before the loop and spills.
  Value loadFloat(Value shared, Value stage, const SteppedIndex &row, const SteppedIndex &column);
  /// Each warpgroup runs m64nNk16: one instruction for each 16 of the contracted axis, for all columns at once.
  void multiplyAsync(tile::MmaOp op, Value acc, bool transpose);
  /// Each warp runs m16n8k16: for each 16 of the contracted axis it loads the left fragments, then 16 columns of the
  /// right operand at a time.
  void multiply16(tile::MmaOp op, Value acc, bool transpose);
  /// Three m16n8k8 products of tf32 halves: big x small, small x big, big x big. The instruction truncates when it
  /// accumulates, so that each eight products are summed separately, and added to the accumulator with rounding.
  void multiplyTf32(tile::MmaOp op, Value acc, bool transpose);

  // Exchanges.cpp
  /// Converts from registers to shared memory, from shared memory to registers, or between register layouts through
  /// shared memory.
  LogicalResult exchange(tile::ConvertOp op);
  /// Writes a register tile to a stage of a ring.
  LogicalResult expandOp(sched::ExchangeOp op);
  /// Whether TMA or a warpgroup's product reads the shared tile.
  bool isReadAsynchronously(Value tile);
  /// Creates a shared buffer for the exchange of a tile of `type`.
  Value exchangeBuffer(TileType type, Type element, StringRef name);
  /// Creates a shared buffer that no other buffer overlaps.
  Value keptBuffer(TileType type, Type element, StringRef name);
  /// Stores the register tile `buffer` to shared memory. The first holder of each element stores the element.
  void writeToShared(Value buffer, Value shared, Value stage);
  /// Whether the lane is the first holder of its elements of a register tile; null if every lane is.
  Value isWriter(Value buffer);
  /// Calls `body` in a branch that only the first holders of the elements of `buffer` run (isWriter).
  void byWriters(Value buffer, function_ref<void()> body);
  /// Synchronises all threads that exchange tiles: those of the role, or of the thread block.
  void synchronizeAll();
  /// Synchronises the threads of the warpgroup.
  void synchronizeWarpgroup();
  /// Synchronises all threads, unless no op has accessed shared memory since the last such barrier.
  void synchronize();
  /// Synchronises all threads before a copy, if an op has read shared memory since the last such barrier: the copy may
  /// overwrite memory that has been read.
  void waitForReaders();

  // Copies.cpp
  LogicalResult expandOp(sched::SlotOp op);
  /// Loads a tile or a vector from global memory to registers, in pairs or element by element.
  LogicalResult expandOp(tile::LoadOp op);
  /// Calls `body(head, place, at)` for each element of `buffer` that is within the view and below `limit`; `condition`
  /// may add a condition to that test. `head` is the view without its leading dimensions, `place` the indices in
  /// `head`, `at` the indices in `buffer`.
  void forEachInside(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                     function_ref<void(Value head, ValueRange place, SmallVector<Value> at)> body);
  /// A view without its leading dimensions, and the index of a row in that view.
  struct HeadRow {
    Value head, row;
  };
  /// Creates the view without its leading dimensions at the builder's position, if all rows of the tile are in one
  /// head.
  void makeHead(Value view, ValueRange indices);
  /// The position of row `row` of the view at these leading indices. Rows of a group (tile.group_rows) are each in a
  /// head of their own.
  HeadRow headRow(Value view, ValueRange indices, Value row);
  /// For each row of a lane's `c` fragment calls `body(i, r, row)`, in a branch that runs if the row is below `limit`.
  /// The first row of the tile has the number `indices.back()` in the view.
  void forEachRow(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                  function_ref<void(Value i, Value r, HeadRow row)> body);
  /// Whether pairs of a lane's elements of `buffer` are adjacent in memory and aligned to the size of a pair.
  bool hasPairs(Value buffer, Value view);
  /// The indices in a fragment of the two floats of a pair.
  using PairAt = std::array<SmallVector<Value>, 2>;
  /// As `forEachInside`, but for two columns at a time; `place` has the indices of the first column. Requires
  /// `hasPairs`.
  void forEachPair(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                   function_ref<void(Value head, ValueRange place, const PairAt &at)> body);
  LogicalResult expandOp(sched::CopyTileOp op);
  /// Copies a window by TMA; leading indices are clamped.
  LogicalResult expandOp(sched::CopyWindowOp op);
  /// Stores to a ring's stage a vector that the threads of producer warps hold, or a `c` fragment of the computing
  /// warps.
  LogicalResult expandOp(sched::StoreTileOp op);
  /// Scales a shared tile in place; each warpgroup scales the rows that its own products read.
  LogicalResult expandOp(tile::ScaleOp op);
  /// The name of a view, after which derived values are named.
  static std::string nameOfView(Value view);
  /// A view without its leading dimensions, created once for each head, before any loop in which the head does not
  /// change.
  Value slice(Value view, ValueRange indices, StringRef name);
  /// Splits `count` elements over threads, and calls `body(i, place)` for this thread's i-th element, which has the
  /// index `place` among all. In a ragged last iteration only some threads have an element.
  void forEachPlaceOf(int64_t count, Value thread, int64_t threads, function_ref<void(Value, Value)> body);
  /// Calls `body(row, column, inside)` for each of this thread's 16-byte chunks of a tile of `rows` x `columns`
  /// elements; `inside` is null unless the last iteration is ragged.
  void forEachChunk(int64_t rows, int64_t columns, int64_t elementBytes, Value thread, int64_t threads,
                    function_ref<void(Value, Value, Value)> body);
  /// The page of row `row` of sequence `b`, and the row's slot in that page.
  struct PagePlace {
    Value page, slot;
  };
  PagePlace pagePlace(tile::PagedRowsOp rows, Value b, Value row);

  // Boxes.cpp
  /// The tensor map of `view`, created once per kernel, for boxes of `rows` rows x one panel of `swizzle`.
  Value tensorMap(Value view, int64_t rows, sched::SwizzleAttr swizzle);
  /// Stores a shared tile to a dense tensor by TMA; one thread issues the boxes.
  void scatterBoxes(tile::ScatterOp op);
  static bool isTakenByEngine(sched::ExchangeOp exchange);
  /// Writes `body`, which reads `index`, before the acquire of the ring's stage if the acquire is after the definition
  /// of `index`. Loads of `body` then overlap with the wait for the stage.
  void beforeAcquire(Value ring, Value index, function_ref<void()> body);
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

  // Stores.cpp
  LogicalResult expandOp(tile::StoreOp op);
  /// The body of the sched kernel; buffers and tensor maps that the whole kernel uses are created there.
  Block &kernelBody() {
    return builder.getInsertionBlock()->getParent()->getParentOfType<sched::KernelOp>().getBody().front();
  }
  /// The thread of each warpgroup that stores boxes waits until TMA has read them.
  void waitForBoxes(Value threadId);
  /// Whether TMA stores the tile, which requires 16-bit elements.
  bool isStoredByEngine(tile::StoreOp op);
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
  /// Each warpgroup writes its own rows of `buffer` to `shared`, from where TMA stores them. If the store is
  /// repeated, the warpgroup first waits until TMA has read the previous boxes; the role's end waits for the last ones.
  void writeBoxes(Value buffer, Value shared, Value view, ValueRange indices);
  LogicalResult expandOp(sched::WriteTileOp op);
  /// Whether the current store runs more than once: in persistent blocks, or in a loop over tiles.
  bool isRepeated();
  /// A shared buffer that an output may overwrite, or null. The output must be stored once only. The buffer is that of
  /// a left operand of which each warpgroup has read only its own rows, or a ring whose tiles have all been stored.
  Value takeFreeBuffer(TileType output);
  /// Stores by TMA through shared memory, where each warpgroup writes its own rows: over the rows of a free buffer
  /// (takeFreeBuffer), or in a persistent block over the rows of the previous output, once TMA has read them.
  LogicalResult storeByEngine(tile::StoreOp op);
  /// The type of an output tile in shared memory.
  TileType stagedType(TileType type, Type element);
  /// Stores the 16-bit elements of a `c` fragment to a shared tile. One `sched.store_matrix` stores the four 8 x 8
  /// matrices of two adjacent blocks of 8 columns. Lane l passes the address of row l % 16, lanes 0 to 15 in the first
  /// of the two blocks. The last block of an odd number of blocks is stored by pairs.
  void writeMatrices(Value buffer, Value shared, Value stage, TileType held);
  /// Stores a `c` fragment to a shared tile, two columns at a time, from the block of 8 columns with index `firstJ` on.
  void writeFragments(Value buffer, Value shared, Value stage, TileType held, int64_t firstJ = 0);
  /// Whether lanes store their pairs of a float32 tile directly to global memory. The four lanes of a row write whole
  /// sectors of 32 bytes, and the output takes no shared memory in addition to the rings.
  bool isStoredInPairs(tile::StoreOp op);
  /// Stores each element or pair by its first holder: for vectors, and for tiles of a view whose columns are not
  /// contiguous.
  LogicalResult storeElements(tile::StoreOp op);
  /// Adds a register tile to memory, element by element or, from sm_90 on, two columns at a time.
  LogicalResult expandOp(tile::AccumulateOp op);
  /// Scatters a tile, each element by its first holder; in pairs or eights, or by TMA, where the op is marked for that.
  LogicalResult expandOp(tile::ScatterOp op);
  /// The value of `index`, an index of a scatter, for element (i, r, j, c) of the tile. A scalar index is the same for
  /// all elements.
  Value indexElement(Value index, Value i, Value r, Value j, Value c);
  /// Scatters element by element; `extents` are the extents of the view.
  void scatterElements(tile::ScatterOp op, ArrayRef<Value> extents);
  /// Adds the sum of the warp's elements in one addition if all elements of the warp go to the same place of the view,
  /// or to none; else adds element by element.
  void scatterMerged(tile::ScatterOp op, ArrayRef<Value> extents);
  /// The logical and of `known` (if not null) and the test 0 <= index < extent.
  Value within(Value known, Value index, Value extent);
  /// Adds a shared tile to memory: by TMA, where one lane of each warp issues the rows, or element by element.
  void addShared(tile::AccumulateOp op);
  /// Whether `op` adds whole rows of a shared tile that are contiguous in shared and global memory; from sm_90 on.
  bool addsByRows(Operation *op);
  /// Stores a tile that is in shared memory already.
  LogicalResult storeShared(tile::StoreOp op);
  /// Whether each warpgroup stores its own rows without waiting for other warpgroups, through shared memory that no
  /// other buffer overlaps.
  bool isStoredByWarpgroups(tile::StoreOp op);
  /// Copies a shared tile to the rows of a view, 16 bytes at a time.
  void copyToGlobal(tile::StoreOp op, Value shared, bool byWarpgroups = false);
  /// Stores a register tile through shared memory: fragments hold pairs of columns, but from shared memory each thread
  /// writes 16 contiguous bytes.
  LogicalResult storeThroughShared(tile::StoreOp op);

  tile::KernelOp kernel;
  StringRef arch;
  bool specialized; ///< whether the kernel has roles
  Block *workBlock = nullptr;
  SmallVector<Value> place;           ///< origin of the tile of work along each grid axis; kernels without roles only
  int64_t roleWarps = 0;              ///< warps of the current role; 0 in a kernel without roles
  bool storesBoxes = false;           ///< whether TMA stores of the current role have not been waited for
  Value leftBuffer;                   ///< buffer of a product's left operand that an output may overwrite, or null
  llvm::DenseSet<Value> rightBuffers; ///< shared memory of the products' right operands
  IRMapping mapping;                  ///< scalar or view of the tile kernel -> that of the sched kernel
  SmallVector<std::pair<std::pair<Value, SmallVector<Value>>, Value>> slices;
  std::optional<Interleaving> interleaving;          ///< the values that order the elements of the current map
  llvm::DenseMap<Operation *, Value> columnsBelow;   ///< comparison of columns -> its bits for the current row
  llvm::DenseMap<Operation *, Value> columnsOf;      ///< condition on such comparisons -> its bits for that row
  llvm::DenseMap<Operation *, Value> conditionWords; ///< large condition -> words with a bit for each element
  llvm::DenseSet<Operation *> inWords;               ///< ops that only large conditions use
  llvm::DenseMap<Operation *, Value> elementPairs;   ///< element loaded in pairs -> registers of its current pairs
  llvm::DenseMap<Value, Value> columnPairs;          ///< per-column vector in shared memory -> registers of its pair
  llvm::DenseMap<Value, Value> windows;              ///< window of 16-bit elements -> its current fragments
  llvm::DenseMap<Value, Value> exchanged;            ///< shared tile that the kernel computes -> its buffer
  /// Shared memory of rings whose tiles another role stores; null once an output reuses that memory.
  SmallVector<Value> storedBuffers;
  llvm::DenseMap<Operation *, ProbabilityChain> chains; ///< last op of a chain -> the chain
};

} // namespace attune::expansion
