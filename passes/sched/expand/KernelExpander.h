//===- KernelExpander.h - A kernel over tiles becomes what each lane does ----===//
//
// Register tiles become arrays of fragments, tile ops loops over their places, products one matrix instruction at a
// time. Each kind of op has an `expandOp`; the files are by topic:
//
//     Control.cpp             kernel, roles, work, branches, loops; which op goes where
//     Phases.cpp              what a part computes, in words
//     MapElements.cpp         the region of a map, for one element
//     Pairs.cpp               two columns of a lane by one access to global memory
//     MapInputs.cpp           what maps read from shared memory: by distance, by column, by window
//     ConditionWords.cpp      large conditions of maps, in a loop
//     RowCuts.cpp             comparisons of columns with a bound of the row; paced maps
//     Reductions.cpp          maxima, sums and votes
//     Exchanges.cpp           from lane to lane by way of shared memory
//     ProbabilityChain.cpp    exp, its sum, dropout and the conversion, block by block
//     Products.cpp            mma.sync, tf32, wgmma, and their left operands
//     Copies.cpp              global to shared memory, by threads and by TMA
//     Stores.cpp              results to global memory
//     Blocks.cpp              tiles in memory as lanes hold them, to it and from it
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/MapPatterns.h"
#include "passes/sched/expand/TileBuffers.h"

namespace attune::expansion {

/// A tile that is read by distance, as the registers of a lane: on each column the lane meets new diagonals, as many
/// as it has rows 8 apart on the first, one on each that follows.
struct Diagonals {
  Value buffer, ring, stage, start;
  bool ascend; ///< rows are keys: distances grow along the columns
};

/// What lies by column in shared memory, as the pair of a lane's columns beside each other.
struct ColumnPair {
  Value buffer, ring, stage;
};

/// A `tile.element` of a map that is read in pairs, as the elements of the lane's two columns at hand in all of its rows.
struct ElementPairs {
  tile::ElementOp element;
  Value buffer;
  Value own; ///< the view from the lane's first pair on, where only the last two indices differ between its pairs
};

/// A window of 16-bit elements, as `a` fragments of 16 of the result's columns: their pairs are those of a `c` fragment's
/// place.
struct Window {
  Value input, buffer;
};

/// slope * (origin + column), `slope` being the same for all elements.
struct Line {
  Value slope, origin;
};

/// What a paced map's elements follow from beside themselves, in registers: a value for each row, or one for all, in
/// the place of the first.
struct Interleaving {
  InterleavedOperand operand;
  Value values;
};

/// exp, its row sum, dropout and the conversion to an `a` fragment run block by block of 16 columns, so that each
/// block's floats are free before the next block's fragment is needed. Not where the conversion stands behind a wait
/// for an asynchronous product: the exponentials run beside that.
struct ProbabilityChain {
  tile::MapOp exponent;
  tile::ReduceOp sum;
  tile::DropoutOp dropout;
  tile::ConvertOp convert;
};

/// What all blocks of a tile share.
struct DropoutState {
  Value key0, key1, offsetLow, head, highThreshold, rowBlock, columnBlock;
  bool byKeys;  ///< the tile's rows are keys
  bool negates; ///< what is dropped
  Value kept;   ///< the tile that says what is kept, or null
};

class KernelExpander : public TileBuffers {
public:
  KernelExpander(tile::KernelOp kernel, StringRef arch)
      : TileBuffers(OpBuilder(kernel), kernel.getLoc(), kernel.getPlan()), kernel(kernel), arch(arch),
        specialized(sched::fillingWarps(kernel) > 0) {}

  /// Writes the sched kernel in front of the tile kernel, and erases that.
  LogicalResult run();

private:
  // Control.cpp
  /// The work of all warps.
  /// With `waits` behind the end of the kernel in front, for which what captured tensors give does not wait.
  LogicalResult expandWork(Block &body, bool waits);
  LogicalResult expandOp(sched::RoleOp op);
  LogicalResult expandOp(sched::ForWorkOp op);
  LogicalResult expand(Operation *op);
  LogicalResult expandByKind(Operation *op);
  /// A tile that leaves the branch lies where it does on the other side, which computes nothing of its own.
  LogicalResult expandOp(scf::IfOp op);
  LogicalResult expandOp(sched::ForTilesOp op);

  // Phases.cpp
  /// Comments on the first statement that `op` became, behind `before` in `block`, with what it computes.
  void commentPhase(Operation *op, Block *block, Operation *before);

  // MapElements.cpp
  LogicalResult expandOp(tile::MapOp op);
  LogicalResult expandOp(tile::SplatOp op);
  /// What `region` takes of `mapping`, which holds as many values as the kernel has maps: a copy of all for each map is
  /// quadratic in a mask's terms.
  IRMapping mappingFor(Region &region);
  /// The elements of `op`, those of them in pairs that are marked so, or each by itself.
  void writeElements(tile::MapOp op, Value buffer, const std::optional<InterleavedOperand> &interleaved, bool inPairs);
  /// What the coordinates of `op` are at place (i, r, j, c).
  void mapCoordinates(tile::MapOp op, IRMapping &inner, Value i, Value r, Value j, Value c);
  /// The element of `op` at place (i, r, j, c).
  Value mapElement(tile::MapOp op, Value i, Value r, Value j, Value c);
  /// The element of an input of a map at place (i, r, j, c).
  Value inputElement(tile::MapOp op, Value input, Value i, Value r, Value j, Value c);
  /// Whether `axis` runs along the rows of the register tile, not along its columns.
  static bool isRowAxis(Value tile, StringRef axis);
  /// Of place (i, r, j, c) of the register tile the coordinate along `axis`.
  Value coordinateInTile(Value tile, StringRef axis, Value i, Value r, Value j, Value c);
  /// The element of a shared tile, in whatever order of its axes, that belongs to that place of the register tile `of`.
  Value sharedElement(Value input, Value of, Value i, Value r, Value j, Value c);
  /// The region of a map over one axis for the thread's element of pass i.
  void mapLane(tile::MapOp op, Value i, IRMapping &inner);
  /// The part of the columns' coordinate that differs from lane to lane.
  Value laneColumns(tile::MapOp op);
  /// (origin + the lane's part) + the place's part: the first sum is the same for all places, the second part a
  /// constant once loops are unrolled.
  Value floatCoordinate(Value origin, Value lanePart, Value placePart);
  Value floatStart(Value origin, Value lanePart);
  std::optional<Line> lineThroughColumns(tile::MapOp op, Operation &nested);
  /// One multiply-add, whose addend is the same for all columns of the lane.
  Value lineElement(tile::MapOp op, Line line, IRMapping &inner, Value j, Value c);
  /// Where `nested` divides the column's coordinate by a multiple of the 8 columns that lanes have side by side, in tiles
  /// that begin at multiples of the divisor: where they begin. Else null. All lanes then have the same quotient.
  Value originOfDivided(tile::MapOp op, Operation &nested);
  Value columnQuotient(arith::DivSIOp division, Value origin, Value j);
  /// Whether an element depends on its column, and on more than which side of a cut it is on: on the coordinate or on a
  /// vector along the columns.
  bool readsColumns(tile::MapOp op);

  // Pairs.cpp
  /// Whether the views that are accessed in pairs lie so, and the tile within them; null where none are.
  Value liesInPairs(tile::MapOp op);
  Value liesInPairs(tile::ScatterOp op, ArrayRef<Value> extents);
  Value viewInPairs(Value view, bool eights = false);
  /// `known`, and that the tile lies within the view and before its places' ends.
  Value liesWithin(Value known, tile::ScatterOp op, ArrayRef<Value> extents);
  /// `known`, if it is there, and that a tile of `type` lies between 0 and `end` along an axis.
  Value endsWithin(Value known, const TileCoordinate &along, TileType type, Value end);
  Value extentOf(Value view, int64_t dim);
  /// An op of a map whose elements are accessed one by one here.
  void cloneAlone(Operation &op, IRMapping &inner);
  /// The marked elements of `op`, each with registers for a pair of columns.
  SmallVector<ElementPairs> openPairs(tile::MapOp op);
  void loadPairs(tile::MapOp op, const ElementPairs &of, Value j);
  /// The indices of `element` at place (i, r, j, c) of `op`, in a tile that lies in pairs: clamped where that does not tell
  /// that they are in range.
  SmallVector<Value> indicesOf(tile::MapOp op, tile::ElementOp element, Value i, Value r, Value j, Value c);
  /// The nearest index of a dimension.
  Value clamped(Value index, Value view, int64_t dim);
  void scatterPairs(tile::ScatterOp op, ArrayRef<Value> extents);
  void scatterEights(tile::ScatterOp op);
  /// Of rows in pairs, the view from the lane's first pair on, by column and row; null where other indices differ, too.
  Value ownPairs(tile::MapOp op, tile::ElementOp element);
  Value ownPairs(tile::ScatterOp op);
  Value fromFirst(Value view, ValueRange first);
  /// Where the pair of a lane's row begins: in the row before, where the lane's is the second (`column` 1).
  Value firstOfPair(Value row, Value column) {
    return arith::SubIOp::create(builder, loc, row, column, arith::IntegerOverflowFlags::nsw);
  }
  /// The coordinate, for a tile that ends before they do.
  Value placeWithin(const CountedPlaces &places, Value i, Value r, Value j, Value c);
  /// Whether the lane's rows are the second ones of pairs.
  Value isSecondRow();
  /// Of an element of each of two rows that lanes 4 apart hold at the lane's two columns, the two rows' at one of them:
  /// the first column in the lane of the first row. Or the other way round, which is the same exchange.
  ///
  ///     lane       holds                      gets
  ///     l          (k, q), (k, q + 1)         (k, q), (k + 1, q)
  ///     l + 4      (k + 1, q), (k + 1, q + 1) (k, q + 1), (k + 1, q + 1)
  std::array<Value, 2> exchangePairs(Value first, Value second, Value isSecond);

  /// Whether the view lies in eights, and the tile within it.
  Value liesInEights(tile::ScatterOp op, ArrayRef<Value> extents);

  // MapInputs.cpp
  /// Where warpgroups take turns, what is read by distance lies in pairs: beside the element of each distance that of
  /// the distance before, which belongs to the next column. A lane then reads its two columns of a row by one load; it
  /// reads before its turn, and others wait for it. Elsewhere the room is worth more.
  TileType inPairs(TileType type);
  static bool isInPairs(Value shared) { return cast<TileType>(shared.getType()).hasAxis("pair"); }
  /// The inputs that `op` reads by distance, with the diagonals before the first column.
  SmallVector<Diagonals> openDiagonals(tile::MapOp op);
  /// The n-th of a lane's diagonals, from the least row of `before` + 1 in steps of 8, for both columns of the pair.
  void loadDiagonal(const Diagonals &of, Value n, int64_t before);
  /// Two elements side by side, into [place][0] and [place][1].
  void loadPair(Value shared, Value stage, Value row, Value column, Value buffer, Value place);
  /// The inputs that `op` reads by column, each with registers for a pair.
  SmallVector<ColumnPair> openColumns(tile::MapOp op);
  void loadColumns(const ColumnPair &of, Value j);
  SmallVector<Window> openWindows(tile::MapOp op);
  /// Whether `op` reads elements of `input`, of two axes, from swizzled shared memory; its rows may be either of the
  /// result's.
  bool isWindow(tile::MapOp op, Value input);

  // ConditionWords.cpp
  /// Whether the element of an argument of a map's region can be found for a place that is told at run time: not in
  /// registers, but for values of rows and of columns.
  bool hasRunTimePlace(tile::MapOp op, BlockArgument argument);
  /// The value of a lane's column that is told at run time, of a vector in registers: by a choice for each.
  Value columnAt(Value input, Range pairs, Value column);
  /// The conditions of `op` that are computed in a loop: of many ops, and of such arguments alone.
  SmallVector<Operation *> largeConditions(tile::MapOp op);
  /// Computes the large conditions of `op` for all elements.
  void openWords(tile::MapOp op);
  /// Where the words of a tile of `buffer`'s shape have the bit of place (i, r, j, c), and which bit it is.
  SmallVector<Value> wordAt(Value buffer, Value i, Value r, Value j);
  Value bitInWord(Value buffer, Value j, Value c);
  void setBit(Value bit, Value words, Value buffer, Value i, Value r, Value j, Value c);
  Value testBit(Operation *condition, Value words, Value buffer, Value i, Value r, Value j, Value c);
  /// Marks the ops of a map's region that only such conditions need.
  void markInWords(Block &body);

  // RowCuts.cpp
  /// Whether `compare` is one of a column of the tile, from 0 on, with a number of them in [0, tile_k].
  static bool comparesColumn(tile::MapOp op, arith::CmpIOp compare);
  /// The comparison with the lane's part on the side of the row, for all columns at once: what is left of a column is a
  /// constant, or a bit of the row's word.
  Value columnComparison(tile::MapOp op, arith::CmpIOp compare, const IRMapping &inner, Value j, Value c);
  Value lanePart(tile::MapOp op, arith::CmpIOp compare, Value columns);
  /// Whether `user` cuts a row of `op` in two, and a word has a bit for each column of a lane.
  bool isCut(tile::MapOp op, Operation *user);
  /// Whether all that read the comparison take it from words of the row, together with others.
  bool isInWords(arith::CmpIOp compare);
  Value bitOfColumn(Value word, Location loc, Value j, Value c);
  /// Whether a value of the map's body is the same for all columns.
  bool followsFromRow(tile::MapOp op, Value value);
  /// What the region of `op` takes that is the same along a row, of row (i, r).
  IRMapping rowOf(tile::MapOp op, Value i, Value r);
  /// The words of the cuts of `op` for row (i, r), and of conditions of several of them.
  void openCuts(tile::MapOp op, Value i, Value r);
  SmallVector<Value> interleavedAt(Value i, Value r);
  void forEachInterleaved(function_ref<void(Value i, Value r)> body);
  void openPacing(tile::MapOp op, const InterleavedOperand &operand);
  /// The next 16 columns behind the first element of columns 16 jj and on, or the first of each row.
  void interleave(Value buffer, Value jj);

  // Reductions.cpp
  /// Flags are or-ed over a lane's share, then voted on by the warp.
  LogicalResult expandOp(tile::AnyOp op);
  LogicalResult expandOp(tile::ReduceOp op);
  /// Along the columns: of each row by the lanes of a quad.
  void reduceColumns(tile::ReduceOp op, Value source, Value buffer);
  /// Along the rows: of each column by the lanes that hold it, then, by way of shared memory, by the warps.
  void reduceRows(tile::ReduceOp op, Value source, Value buffer);
  /// What a warp has of a column, in shared memory: 64 bits as two words side by side.
  void storePart(Value value, Value parts, Value row, Value place);
  Value loadPart(Type element, Value parts, Value row, Value place);
  LogicalResult expandOp(tile::CombineLanesOp op);
  LogicalResult expandOp(tile::SumDiagonalsOp op); ///< (Diagonals.cpp)
  Value combine(tile::Reduction kind, Value a, Value b);
  /// What changes no element that it is combined with.
  Value identityFor(tile::ReduceOp op);
  /// Combines `value` over lanes that differ in the bits of `masks`.
  Value combineLanes(tile::Reduction kind, Value value, ArrayRef<int64_t> masks);
  /// Combines `value` over the four lanes of a quad, which share a row.
  Value combineQuad(tile::Reduction kind, Value value) { return combineLanes(kind, value, {1, 2}); }

  // ProbabilityChain.cpp
  /// The chain that starts at `map`, if what leaves it is the fragment and a carried sum alone.
  std::optional<ProbabilityChain> chainFrom(tile::MapOp map);
  void expandChain(const ProbabilityChain &chain);
  LogicalResult expandOp(tile::DropoutOp op);
  DropoutState prepareDropout(tile::DropoutOp op);
  /// One Philox call serves the eight elements that a lane holds of the 16 x 16 block (i, jj) (see tile.dropout). Where
  /// rows are keys, lanes l and l ^ 4 need halves of the same two calls: each makes one, and they exchange words.
  using Words =
      std::array<std::array<Value, 2>, 2>; ///< of element e of a pair and half n or r, that of [e][n] or [e][r]
  Words wordsByQueries(const DropoutState &state, Value i, Value jj);
  Words wordsByKeys(const DropoutState &state, Value i, Value jj);
  sched::PhiloxOp random(const DropoutState &state, Value query, Value key);
  void dropBlock(const DropoutState &state, Value source, Value buffer, Value i, Value jj);

  // Blocks.cpp
  LogicalResult expandOp(tile::LoadBlocksOp op);
  LogicalResult expandOp(tile::StoreBlocksOp op);
  /// Calls `body(i, jj, block)` for each 16 x 16 of a lane's share of a register tile that the view has: block i of its
  /// rows and jj of its columns; `block` is the view's [n] of it. Where it has not all of them, `some` comes first.
  template <typename BlocksOp>
  void forEachBlock(BlocksOp op, TileType type, function_ref<void()> some,
                    function_ref<void(Value i, Value jj, Value block)> body);
  /// The byte of a block that holds the bits of a lane where rows are queries.
  Value byteOfLane();
  /// Of a block's element n-th of columns, r-th of rows, e-th of a pair, its place in memory (tile.store_blocks).
  Value placeInBlock(TileType type, unsigned n, unsigned r, Value e);
  /// The lane that holds, where rows are queries, the elements that a lane has where rows are keys, of one of a pair.
  Value laneInBlock(TileType type, unsigned e);

  // Products.cpp
  LogicalResult expandOp(tile::MmaOp op);
  LogicalResult expandOp(sched::MmaWaitOp op);
  LogicalResult expandOp(tile::ConvertOp op);
  /// Columns 16 kk and on (8 kk for f32) of rows i, from a `c` to an `a` fragment.
  void packBlock(tile::ConvertOp op, Value source, Value fragment, Value i, Value kk);
  /// The buffer of a shared tile, and its stage.
  std::pair<Value, Value> slotOf(Value tile);
  /// ldmatrix of the warp's rows of a left operand, stored by rows or by columns: columns 16 kk and on, into fragment
  /// column `to`.
  void loadLeftFragments(Value tile, Value fragment, Value kk, Value to);
  /// Whether a shared tile is stored by the columns of the operand that `fragment` holds.
  static bool isStoredByColumns(Value tile, Value fragment);
  /// Row and column in shared memory that a lane gives of four 8 x 8 matrices that are read or written transposed: the
  /// quarters of a fragment whose first row is column `row0` there.
  std::pair<Value, Value> transposedPlace(Value row0);
  /// The float of a shared left operand at place (i, kk, e) of the `a` fragment.
  Value leftFloat(Value tile, Value fragment, Value i, Value kk, Value e);
  void loadLeftFloats(Value tile, Value fragment);
  /// An index along one axis of a shared tile, as a lane's own part and a step that is the same for all lanes: a multiple
  /// of 8 rows, or of 8 columns of four bytes. `isAligned`: the step's bits are none of the base's.
  struct SteppedIndex {
    Value base, step;
    bool isAligned = true;
  };
  /// A float there. Steps make the lane's swizzled address one register, from which all of its loads are a constant away;
  /// without them each load has an address of its own, which ptxas computes before the loop and spills.
  Value loadFloat(Value shared, Value stage, const SteppedIndex &row, const SteppedIndex &column);
  /// m64nNk16 by each warpgroup: one instruction for each 16 of the contracted axis, all columns at once.
  void multiplyAsync(tile::MmaOp op, Value acc, bool transpose);
  /// m16n8k16: for each 16 of the contracted axis, the left fragments, then 16 columns of the right operand at a time.
  void multiply16(tile::MmaOp op, Value acc, bool transpose);
  /// Three m16n8k8 products of tf32 halves: big x small, small x big, big x big. The instruction truncates when it
  /// accumulates, so that each eight products are summed on their own and added to the accumulator with rounding.
  void multiplyTf32(tile::MmaOp op, Value acc, bool transpose);

  // Exchanges.cpp
  /// From registers to shared memory, to another layout by way of it, or from it.
  LogicalResult exchange(tile::ConvertOp op);
  /// To a stage of shared memory.
  LogicalResult expandOp(sched::ExchangeOp op);
  /// Whether TMA or a warpgroup's product reads the shared tile.
  bool isReadAsynchronously(Value tile);
  /// Room in shared memory for what the lanes exchange of `type`.
  Value exchangeBuffer(TileType type, Type element, StringRef name);
  /// The same, where nothing else ever lies.
  Value keptBuffer(TileType type, Type element, StringRef name);
  /// What each place of the register tile `buffer` holds, by the first of those that hold it.
  void writeToShared(Value buffer, Value shared, Value stage);
  /// In the lanes and warps that are the first to hold what they hold of a register tile, true; null where all are.
  Value isWriter(Value buffer);
  /// Calls `body`, by the writers of `buffer` alone.
  void byWriters(Value buffer, function_ref<void()> body);
  /// All threads that exchange tiles wait for each other: those of the role, or of the block.
  void synchronizeAll();
  /// A barrier of the warpgroup's threads.
  void synchronizeWarpgroup();
  /// The same, unless nothing in shared memory has been touched since they did.
  void synchronize();
  /// The same before copies, where something has been read since: a copy may take the place of what is read no more.
  void waitForReaders();

  // Copies.cpp
  LogicalResult expandOp(sched::SlotOp op);
  /// A tile, or a vector, from global memory to registers, by pairs or element by element.
  LogicalResult expandOp(tile::LoadOp op);
  /// Calls `body(head, place, at)` for each element of `buffer` whose place in the view is below `limit` and within it, if
  /// what `condition` makes of that holds; `place` counts in `head`, the view without its leading dimensions.
  void forEachInside(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                     function_ref<void(Value head, ValueRange place, SmallVector<Value> at)> body);
  /// A row of a view without its leading dimensions, and that view.
  struct HeadRow {
    Value head, row;
  };
  /// Makes the view without its leading dimensions here, where all rows are in one head.
  void makeHead(Value view, ValueRange indices);
  /// Where row `row` of the view is at these leading indices; of a group's rows (tile.group_rows) in a head of its own.
  HeadRow headRow(Value view, ValueRange indices, Value row);
  /// For each row of a lane's `c` fragment below `limit`, in one branch: `body(i, r, row)`, from the last index on.
  void forEachRow(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                  function_ref<void(Value i, Value r, HeadRow row)> body);
  /// Whether a lane's elements of `buffer` stand in pairs in memory, eight bytes that begin at a multiple of eight.
  bool hasPairs(Value buffer, Value view);
  /// Where the two floats of a pair are in a fragment.
  using PairAt = std::array<SmallVector<Value>, 2>;
  /// As `forEachInside`, two columns at a time; `place` is that of the first. For what `hasPairs`.
  void forEachPair(Value buffer, Value view, ValueRange indices, Value limit, function_ref<Value(Value)> condition,
                   function_ref<void(Value head, ValueRange place, const PairAt &at)> body);
  LogicalResult expandOp(sched::CopyTileOp op);
  /// By TMA; leading indices are clamped.
  LogicalResult expandOp(sched::CopyWindowOp op);
  /// A vector that the threads of producer warps hold, or a `c` fragment of those that compute.
  LogicalResult expandOp(sched::StoreTileOp op);
  /// In place, each warpgroup the rows that its products read.
  LogicalResult expandOp(tile::ScaleOp op);
  /// What is made of a view is called after it.
  static std::string nameOfView(Value view);
  /// A view without its leading dimensions, made once for each head, before any loop.
  Value slice(Value view, ValueRange indices, StringRef name);
  /// Calls `body(pass, place)` for each of this thread's places of `count`; the last pass may be ragged.
  void forEachPlaceOf(int64_t count, Value thread, int64_t threads, function_ref<void(Value, Value)> body);
  /// Calls `body(row, column, inside)` for each of this thread's 16-byte chunks of a tile of `rows` x `columns`
  /// elements; `inside` is null unless the last pass is ragged.
  void forEachChunk(int64_t rows, int64_t columns, int64_t elementBytes, Value thread, int64_t threads,
                    function_ref<void(Value, Value, Value)> body);
  /// Where row `row` of sequence `b` lies in pages.
  struct PagePlace {
    Value page, slot;
  };
  PagePlace pagePlace(tile::PagedRowsOp rows, Value b, Value row);

  // Boxes.cpp
  /// The launch's description of `view`, once a kernel: boxes of `rows` x a panel of `swizzle`.
  Value tensorMap(Value view, int64_t rows, sched::SwizzleAttr swizzle);
  /// A tile of shared memory to a dense tensor, by TMA, which one thread asks for it.
  void scatterBoxes(tile::ScatterOp op);
  static bool isTakenByEngine(sched::ExchangeOp exchange);
  /// Writes `body`, which reads `index`, in front of the wait for the ring's stage where it has just been written: what it asks
  /// memory for is under way meanwhile.
  void beforeAcquire(Value ring, Value index, function_ref<void()> body);
  /// The stage is full when the bytes of all boxes are there.
  LogicalResult copyByEngine(sched::CopyTileOp op, Value buffer, Value stage);
  /// Where boxes go, and where they come from.
  struct BoxTarget {
    Value buffer, stage, ring;
  };
  struct BoxPlace {
    Value batch, head, row;
  };
  /// The tile that the rows end in: boxes of as many rows as lie `together`, and of 8 and of single rows where they end within
  /// one.
  void copyLastTile(sched::CopyTileOp op, const BoxTarget &to, int64_t together, Value row0, Value limit);
  struct LastTile {
    sched::CopyTileOp op;
    BoxTarget to;
    SmallVector<int64_t> sizes; ///< rows of a box, less and less
    SmallVector<Value> maps;    ///< of each
    Value outside, limit;
  };
  /// `sizes[level]` rows from `row` on, which lie from `at` on.
  void copyBoxes(LastTile &tile, size_t level, const BoxPlace &at, Value tileRow, Value row);
  /// Calls `body(first)` for each piece of `size` rows before `end`, in a loop where there are several.
  void forSteps(int64_t end, int64_t size, StringRef name, function_ref<void(Value)> body);
  /// Where the engine finds row `row` of what is copied.
  BoxPlace boxPlace(sched::CopyTileOp op, Value row);
  /// A row that the tensor does not have, in any of its batches or pages.
  Value rowOutside(sched::CopyTileOp op);
  /// A box for each panel, from column `column0` of the tensor on or, where that is null, its first, to the rows from
  /// `sharedRow` on.
  void loadBoxRow(Value map, const BoxPlace &from, Value column0, const BoxTarget &to, Value sharedRow);
  /// The writer arrives and tells how many bytes come.
  void expectTile(const BoxTarget &to);

  // Stores.cpp
  LogicalResult expandOp(tile::StoreOp op);
  /// Of the kernel that is written: buffers and maps that all of it shares stand there.
  Block &kernelBody() {
    return builder.getInsertionBlock()->getParent()->getParentOfType<sched::KernelOp>().getBody().front();
  }
  /// The thread of a warpgroup that copies boxes waits until they have been read.
  void waitForBoxes(Value threadId);
  /// Whether TMA stores the tile: 16-bit elements.
  bool isStoredByEngine(tile::StoreOp op);
  /// A `c` fragment of the warpgroups into a stage, for TMA.
  void writeStage(Value buffer, Value shared, Value stage);
  /// Boxes that TMA takes from a stage.
  struct StagedBoxes {
    Value shared, stage, map;
    int64_t columns; ///< of the view
    bool adds;
  };
  StagedBoxes stagedBoxes(Value shared, Value stage, Value view, bool adds);
  /// A warpgroup's 64 rows, from `sharedRow` of the stage to row `at[2]` of the view; from column `ownColumn` where it has a
  /// share of the columns.
  void storeBoxes(const StagedBoxes &boxes, Value sharedRow, ArrayRef<Value> at, Value ownColumn);
  /// Each warpgroup writes its own rows of `buffer` to `shared`, from where TMA stores them. Where that is
  /// repeated, the boxes of the time before are awaited first, and the last ones at the role's end.
  void writeBoxes(Value buffer, Value shared, Value view, ValueRange indices);
  LogicalResult expandOp(sched::WriteTileOp op);
  /// Whether a store at hand runs more than once: in persistent blocks, or in a loop over tiles.
  bool isRepeated();
  /// Shared memory that an output may lie over, or null: it is stored once, and each warpgroup's own rows are
  /// of a left operand that it alone has read, or a ring's from which all has been written.
  Value takeFreeBuffer(TileType output);
  /// Through shared memory, where each warpgroup writes its own rows: over those of such a buffer, or, in a persistent
  /// block, over those of the tile before once they have been read.
  LogicalResult storeByEngine(tile::StoreOp op);
  /// An output tile in shared memory.
  TileType stagedType(TileType type, Type element);
  /// The 16-bit elements of a `c` fragment into a staged tile: of two j, four matrices of 8 x 8 by one
  /// `sched.store_matrix`. Lane l gives a place in row l % 16, of the first j in lanes 0 to 15. What is left of an odd
  /// number of j goes by pairs.
  void writeMatrices(Value buffer, Value shared, Value stage, TileType held);
  /// A `c` fragment into a staged tile, two columns at a time, from one j on.
  void writeFragments(Value buffer, Value shared, Value stage, TileType held, int64_t firstJ = 0);
  /// Whether lanes store their pairs of a tile of float32 themselves: of a row four write whole sectors of 32 bytes, and
  /// no shared memory is kept for it beside the rings.
  bool isStoredInPairs(tile::StoreOp op);
  /// Each element, or pair, by its first holder: a vector, or a tile of a view whose columns do not lie side by side.
  LogicalResult storeElements(tile::StoreOp op);
  /// From registers, element by element or, from sm_90 on, two columns at a time.
  LogicalResult expandOp(tile::AccumulateOp op);
  /// Element by element, each by its first holder.
  LogicalResult expandOp(tile::ScatterOp op);
  /// Of place (i, r, j, c) of the tile that is scattered, an index; a number is that of all.
  Value indexElement(Value index, Value i, Value r, Value j, Value c);
  /// `extents` are those of the view.
  void scatterElements(tile::ScatterOp op, ArrayRef<Value> extents);
  /// One addition where all sums of the warp have one place, or none.
  void scatterMerged(tile::ScatterOp op, ArrayRef<Value> extents);
  /// `known`, if that is not null, and that an index is at least 0 and below `extent`.
  Value within(Value known, Value index, Value extent);
  /// A tile in shared memory: by TMA, a lane of each warp its rows, or element by element.
  void addShared(tile::AccumulateOp op);
  /// Whether `op` adds whole rows of a shared tile, side by side in both memories, from sm_90 on.
  bool addsByRows(Operation *op);
  /// By two columns of a lane.
  /// A tile that lies in shared memory already.
  LogicalResult storeShared(tile::StoreOp op);
  /// 16 bytes of a shared tile at a time to the rows of a view.
  /// Each warpgroup its own rows, which wait for no other's: what they go through is theirs, as nothing else lies there.
  bool isStoredByWarpgroups(tile::StoreOp op);
  void copyToGlobal(tile::StoreOp op, Value shared, bool byWarpgroups = false);
  /// Fragments hold pairs of columns; through shared memory each thread writes 16 contiguous bytes.
  LogicalResult storeThroughShared(tile::StoreOp op);

  tile::KernelOp kernel;
  StringRef arch;
  bool specialized; ///< roles fill rings and compute
  Block *workBlock = nullptr;
  SmallVector<Value> place;           ///< of the tile of work along each axis of the grid, in a kernel without roles
  int64_t roleWarps = 0;              ///< of the role at hand; 0 where all warps of the block do the same
  bool storesBoxes = false;           ///< the role at hand has started boxes that it has not awaited
  Value leftBuffer;                   ///< shared memory of a left operand, once a warpgroup's product has read it
  llvm::DenseSet<Value> rightBuffers; ///< of their right operands
  IRMapping mapping;                  ///< scalars and views
  SmallVector<std::pair<std::pair<Value, SmallVector<Value>>, Value>> slices;
  std::optional<Interleaving> interleaving;          ///< of the map at hand
  llvm::DenseMap<Operation *, Value> columnsBelow;   ///< comparisons of columns, to the word of the row that is at hand
  llvm::DenseMap<Operation *, Value> columnsOf;      ///< what holds of a column by such comparisons, the same
  llvm::DenseMap<Operation *, Value> conditionWords; ///< large conditions, to their words of all elements
  llvm::DenseSet<Operation *> inWords;               ///< what only these need
  llvm::DenseMap<Operation *, Value> elementPairs;   ///< what is read in pairs, to the pairs that are at hand
  llvm::DenseMap<Value, Value> columnPairs;          ///< what is read by column, to the pair that is at hand
  llvm::DenseMap<Value, Value> windows;              ///< of 16-bit elements, to the fragments that they are read by
  llvm::DenseMap<Value, Value> exchanged;            ///< shared tiles that the kernel itself makes, to their buffers
  SmallVector<Value>
      storedBuffers; ///< rings whose tiles another role takes to memory; null where an output lies over one
  llvm::DenseMap<Operation *, ProbabilityChain> chains; ///< by the op that ends them
};

} // namespace attune::expansion
