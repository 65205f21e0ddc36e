//===- KernelExpander.h - Expand a kernel over tiles into the instructions of a lane ----===//
//
// Register tiles become arrays of fragments, tile ops become loops over the elements of fragments, and matrix products
// become mma.sync or wgmma instructions. Each kind of op has an `expandOp`. The expander is a chain of base classes,
// each with a header. A class uses the classes above it in this table:
//
//     Emitter.h        functions that create common ops
//     Lanes.h          coordinates of a lane and of the elements of its fragments
//     TileBuffers.h    registers that hold tiles
//     SharedTiles.h    tiles in shared memory, exchanges between lanes, barriers
//     GlobalViews.h    rows, elements and pairs of a view that a tile covers
//     Boxes.h          copies by TMA
//     Products.h       matrix instructions and their operands
//     MapInputs.h      values that a map reads to compute one element
//     MapElements.h    loops that expand the region of a map for each element
//
// KernelExpander, the last class, expands the ops that no base class expands, in these files:
//
//     Control.cpp             kernel, roles, work, branches, loops; dispatch to the other files
//     Phases.cpp              comments in the generated source
//     FunctionNames.cpp       loops that become device functions
//     Reductions.cpp          maxima, sums and votes
//     Diagonals.cpp           sums along diagonals
//     ProbabilityChain.cpp    exponentials, their row sums, dropout and the conversion of P, block by block
//     Blocks.cpp              loads and stores of tiles saved in the order in which lanes hold them
//     Copies.cpp              copies of tiles from global memory to shared memory and to registers
//     Stores.cpp              stores of results to global memory
//     Scatters.cpp            stores of results at indices that tiles hold
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/expand/MapElements.h"

namespace attune::expansion {

/// The ops that compute P: the element-wise map of the exponentials, the row sum, dropout, and the conversion to an `a`
/// fragment (left operand of mma). The chain is expanded 16 columns at a time, so that the registers of 16 columns of
/// floats are free before the fragment of the next 16 columns needs registers. If the kernel waits for an asynchronous
/// product before the conversion, the ops form no chain: all exponentials then overlap with that product.
struct ProbabilityChain {
  tile::MapOp exponent;
  tile::ReduceOp sum;
  tile::DropoutOp dropout;
  tile::ConvertOp convert;
};

/// Values that dropout uses in all 16 x 16 blocks of a tile: Philox key and offset, threshold, position of the tile.
struct DropoutState {
  Value key0, key1, offsetLow, head, highThreshold, rowBlock, columnBlock;
  bool byKeys;  ///< whether the tile's rows are keys
  bool negates; ///< whether dropped elements are negated instead of set to 0
  Value kept;   ///< tile that receives a flag for each element, whether it is kept; null if no op reads such flags
};

class KernelExpander : public MapElements {
public:
  using MapElements::MapElements;

  /// Creates a sched.kernel with the expanded ops before the tile.kernel, and erases the tile.kernel.
  LogicalResult run();

private:
  using MapElements::expandOp;

  // Control.cpp
  /// Expands the body of a kernel without warp roles. With `waits`, the kernel waits for the end of the launch's
  /// previous kernel before the first op that accesses operands. Loads of captured tensors (tensors that the user's
  /// formulas read) before that op do not wait.
  LogicalResult expandWork(Block &body, bool waits);
  LogicalResult expandOp(sched::RoleOp op);
  LogicalResult expandOp(sched::ForWorkOp op);
  LogicalResult expand(Operation *op);
  LogicalResult expandByKind(Operation *op);
  /// Expands a branch. Each tile that the then region yields is moved to the registers of the tile that the else region
  /// yields. The else region must contain no other op than its yield.
  LogicalResult expandOp(scf::IfOp op);
  LogicalResult expandOp(sched::ForTilesOp op);
  LogicalResult expandOp(sched::SharedOp op);

  // Phases.cpp
  /// Adds a comment on what `op` computes to the generated source, before the first statement of the ops that replace
  /// `op`: the ops of the IR block `block` after the op `before` (null: from the start of the block).
  void commentPhase(Operation *op, Block *block, Operation *before);
  /// Adds comments to the generated source where the prologue, the steady state and the epilogue of each loop with
  /// matrix products begin. `written` is the expanded kernel.
  static void namePhases(sched::KernelOp written);

  // FunctionNames.cpp
  /// Marks the loops that replace `op` to be printed as a device function: the loops of the IR block `block` after the
  /// op `before` (null: from the start of the block).
  void nameFunctions(Operation *op, Block *block, Operation *before);

  // Reductions.cpp
  /// Combines the flags of a lane's elements by a logical or, and then the flags of all lanes by a warp vote.
  LogicalResult expandOp(tile::AnyOp op);
  LogicalResult expandOp(tile::BitsOp op);
  LogicalResult expandOp(tile::ReduceOp op);
  /// Reduces each row of the accumulator `source` over its columns, first in each lane, then over the four lanes that
  /// hold the row. The second step is left out if the op is `per_lane`.
  void reduceColumns(tile::ReduceOp op, Value source, Value buffer);
  /// Reduces each column over its rows, first in the lanes that hold the column, then over the warps through shared
  /// memory.
  void reduceRows(tile::ReduceOp op, Value source, Value buffer);
  /// Stores a warp's partial result of a column to the shared-memory buffer `parts`, at row `row` (the warp's index)
  /// and column `place`. A 64-bit result takes two adjacent words.
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
  LogicalResult expandOp(tile::MapOp op);
  /// The chain of exponentials, row sum, dropout and conversion of P that starts at `map`. Nullopt if `map` starts no
  /// such chain, for example because another op reads the exponentials too.
  std::optional<ProbabilityChain> chainFrom(tile::MapOp map);
  void expandChain(const ProbabilityChain &chain);
  LogicalResult expandOp(tile::DropoutOp op);
  DropoutState prepareDropout(tile::DropoutOp op);
  /// Random words for the eight elements that a lane holds of a 16 x 16 block: one Philox call gives four words of two
  /// 16-bit random numbers each. words[e][n] is for column e of a pair in half n of the columns. If the rows of the
  /// tile are keys, words[e][r] is for column e of a pair in half r of the rows. Lanes l and l ^ 4 then need halves of
  /// the same two Philox calls: each lane makes one call, and the two lanes exchange words.
  using Words = std::array<std::array<Value, 2>, 2>;
  Words wordsByQueries(const DropoutState &state, Value i, Value jj);
  Words wordsByKeys(const DropoutState &state, Value i, Value jj);
  sched::PhiloxOp random(const DropoutState &state, Value query, Value key);
  void dropBlock(const DropoutState &state, Value source, Value buffer, Value i, Value jj);

  // Blocks.cpp
  LogicalResult expandOp(tile::LoadBlocksOp op);
  LogicalResult expandOp(tile::StoreBlocksOp op);
  /// Calls `body(i, jj, block)` for each 16 x 16 block of a register tile that is within the view: block i of the
  /// warp's rows and jj of its columns; `block` is the view's slice of that block. For a tile that is not wholly
  /// within the view, `some` (if not null) is called first.
  template <typename BlocksOp>
  void forEachBlock(BlocksOp op, TileType type, function_ref<void()> some,
                    function_ref<void(Value i, Value jj, Value block)> body);
  /// The index, among the 32 bytes of a saved 16 x 16 block of flags, of the byte with this lane's eight flags. Only
  /// for tiles whose rows are queries.
  Value byteOfLane();
  /// One lane stores eight elements of a 16 x 16 block, numbered from 0 to 7 by tile.store_blocks. Returns the number
  /// of the element in half n of the columns, half r of the rows, column e of a pair of a tile of `type`.
  Value placeInBlock(TileType type, unsigned n, unsigned r, Value e);
  /// The lane that stored the element which this lane loads from a saved block as column `e` of a pair. Blocks are
  /// stored from tiles with queries as rows. If the rows of `type`, the loaded tile, are queries too, the result is
  /// this lane; if the rows are keys, another lane may have stored the element.
  Value laneInBlock(TileType type, unsigned e);

  // Copies.cpp
  LogicalResult expandOp(sched::SlotOp op);
  /// Loads a tile or a vector from global memory to registers, in pairs or element by element.
  LogicalResult expandOp(tile::LoadOp op);
  LogicalResult expandOp(sched::CopyTileOp op);
  /// Copies a window (a rectangle of a captured tensor) to shared memory by TMA. The indices of the tensor's leading
  /// dimensions are clamped to the tensor.
  LogicalResult expandOp(sched::CopyWindowOp op);
  /// Stores a register tile to a stage of a ring (circular buffer in shared memory): a vector that the threads of
  /// producer warps hold, or an accumulator of the computing warps.
  LogicalResult expandOp(sched::StoreTileOp op);
  /// Writes a register tile to a stage of a ring (circular buffer in shared memory).
  LogicalResult expandOp(sched::ExchangeOp op);
  /// Scales a shared tile in place; each warpgroup scales the rows that its own products read.
  LogicalResult expandOp(tile::ScaleOp op);

  // Stores.cpp
  LogicalResult expandOp(tile::StoreOp op);
  /// Whether TMA stores the tile, which requires 16-bit elements.
  bool isStoredByEngine(tile::StoreOp op);
  LogicalResult expandOp(sched::WriteTileOp op);
  /// Whether each lane stores its pairs of columns of a float32 tile from registers to global memory. The four lanes of
  /// a row write whole sectors of 32 bytes, and the output takes no shared memory. Kernels with roles store so, and all
  /// kernels a tile whose elements are one value.
  bool isStoredInPairs(tile::StoreOp op);
  /// Stores each element, or pair of columns, by the first lane that holds it (isWriter). Used for vectors, for tiles
  /// that isStoredInPairs accepts, and for views whose last axis has no fixed size.
  LogicalResult storeElements(tile::StoreOp op);
  LogicalResult storeBlocks(tile::StoreOp op);
  /// Adds a register tile to global memory atomically, element by element or, from sm_90 on, two columns at a time.
  LogicalResult expandOp(tile::AccumulateOp op);
  /// Adds a shared tile to global memory: by TMA, where one lane of each warp issues the rows, or element by element.
  void addShared(tile::AccumulateOp op);
  /// Stores to global memory a tile that is in shared memory already.
  LogicalResult storeShared(tile::StoreOp op);
  /// Whether each warpgroup stores its own rows without waiting for other warpgroups, through shared memory that no
  /// other buffer overlaps.
  bool isStoredByWarpgroups(tile::StoreOp op);
  /// Copies a shared tile to the rows of a view, 16 bytes at a time. With `byWarpgroups` each warpgroup copies its own
  /// 64 rows; otherwise all threads share the chunks of the tile.
  void copyToGlobal(tile::StoreOp op, Value shared, bool byWarpgroups = false);
  /// Stores a register tile to global memory through shared memory. In registers a lane holds pairs of columns; from
  /// shared memory each thread writes 16 contiguous bytes.
  LogicalResult storeThroughShared(tile::StoreOp op);

  // Scatters.cpp
  /// Stores or adds each element of a tile at indices of its own in the view. An element in registers is stored by the
  /// first lane that holds it. If the op is marked for pairs or eights, a lane stores two or eight elements at a time.
  /// A tile in shared memory is stored by TMA.
  LogicalResult expandOp(tile::ScatterOp op);
  /// The value of `index`, an index of a scatter, for the lane's element (i, r, j, c) of the tile: row 16 i + 8 r and
  /// column 8 j + c, counted from the lane's first. A scalar index is the same for all elements.
  Value indexElement(Value index, Value i, Value r, Value j, Value c);
  /// Stores or adds each element at its indices in the view, one at a time. Elements with an index outside of
  /// `extents`, the extents of the view, are skipped.
  void scatterElements(tile::ScatterOp op, ArrayRef<Value> extents);
  /// Adds the elements at their indices in the view. If all unmasked elements of the warp have the same indices, one
  /// lane adds the sum of these elements; else each element is added alone. `extents` are the extents of the view.
  void scatterMerged(tile::ScatterOp op, ArrayRef<Value> extents);
  Value liesInPairs(tile::ScatterOp op, ArrayRef<Value> extents);
  /// Whether the view is aligned for accesses of eight elements and contains the whole tile.
  Value liesInEights(tile::ScatterOp op, ArrayRef<Value> extents);
  /// The logical and of `known` and a run-time test of the indices of `op` that are coordinates of its tile: all of
  /// them are within `extents`, the extents of the view, and below the first masked coordinate (CountedPlaces::end;
  /// masked elements, which have a negative index, are not stored).
  Value liesWithin(Value known, tile::ScatterOp op, ArrayRef<Value> extents);
  Value ownPairs(tile::ScatterOp op);
  void scatterPairs(tile::ScatterOp op, ArrayRef<Value> extents);
  void scatterEights(tile::ScatterOp op);

  SmallVector<Value> place; ///< origin of the block's tile along each grid axis; set in kernels without roles only
  llvm::DenseMap<Operation *, ProbabilityChain> chains; ///< last op of a probability chain -> the chain
};

} // namespace attune::expansion
