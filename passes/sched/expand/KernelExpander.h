//===- KernelExpander.h - Expand a kernel over tiles into the instructions of a lane ----===//
//
// Register tiles become arrays of fragments, tile ops become loops over the elements of fragments, and products become
// single matrix instructions. Each kind of op has an `expandOp`. The expander is made of layers, each with a header. A
// layer uses those above it in this table:
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
// KernelExpander expands the ops that no layer expands, and calls the layers for all others:
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

/// The map that computes the exponentials of P, their row sum, dropout, and the conversion to an `a` fragment. These
/// ops are expanded together, 16 columns at a time, so that the registers of 16 columns of floats are free before the
/// fragment of the next 16 columns needs registers. The ops form no chain if the kernel waits for an asynchronous
/// product before the conversion, because the exponentials overlap with that product.
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

class KernelExpander : public MapElements {
public:
  using MapElements::MapElements;

  /// Writes the sched kernel before the tile kernel, and erases the tile kernel.
  LogicalResult run();

private:
  using MapElements::expandOp;

  // Control.cpp
  /// Expands the body of a kernel without roles. With `waits`, the kernel waits for the end of the launch's previous
  /// kernel before the first op that accesses operands. Loads of captured tensors before that op do not wait.
  LogicalResult expandWork(Block &body, bool waits);
  LogicalResult expandOp(sched::RoleOp op);
  LogicalResult expandOp(sched::ForWorkOp op);
  LogicalResult expand(Operation *op);
  LogicalResult expandByKind(Operation *op);
  /// Moves each tile that the then region yields to the buffer of the tile that the else region yields. The else region
  /// must have no other op than this yield.
  LogicalResult expandOp(scf::IfOp op);
  LogicalResult expandOp(sched::ForTilesOp op);
  LogicalResult expandOp(sched::SharedOp op);

  // Phases.cpp
  /// Adds a comment on what `op` computes to the generated source, before the first statement of the ops that replace
  /// `op`. These ops are in the IR block `block`, after the op `before`.
  void commentPhase(Operation *op, Block *block, Operation *before);
  /// Adds comments where the prologue, the steady state and the epilogue of a loop with products begin.
  static void namePhases(sched::KernelOp written);

  // FunctionNames.cpp
  /// Marks the loops that replace `op`, in IR block `block` after op `before`, to be printed as a device function.
  void nameFunctions(Operation *op, Block *block, Operation *before);

  // Reductions.cpp
  /// Combines the flags of a lane's elements by a logical or, and then the flags of all lanes by a warp vote.
  LogicalResult expandOp(tile::AnyOp op);
  LogicalResult expandOp(tile::ReduceOp op);
  /// Reduces each row over its columns, in the lanes of a quad.
  void reduceColumns(tile::ReduceOp op, Value source, Value buffer);
  /// Reduces each column over its rows, first in the lanes that hold the column, then over the warps through shared
  /// memory.
  void reduceRows(tile::ReduceOp op, Value source, Value buffer);
  /// Stores a warp's partial result of a column to shared memory; a 64-bit result takes two adjacent words.
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
  /// The chain that starts at `map`; nothing if an op outside of the chain reads the exponentials or their dropout.
  std::optional<ProbabilityChain> chainFrom(tile::MapOp map);
  void expandChain(const ProbabilityChain &chain);
  LogicalResult expandOp(tile::DropoutOp op);
  DropoutState prepareDropout(tile::DropoutOp op);
  /// One Philox call serves the eight elements that a lane holds of the 16 x 16 block (i, jj) (see tile.dropout). If
  /// rows are keys, lanes l and l ^ 4 need halves of the same two calls: each lane makes one call, and the lanes
  /// exchange words. words[e][n] is for column e of a pair in half n of the columns. If rows are keys, words[e][r] is
  /// for column e of a pair in half r of the rows.
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
  /// The place that tile.store_blocks defines, from 0 to 7 among the elements of a 16 x 16 block that one lane stores,
  /// of the element in half n of the columns, half r of the rows, column e of a pair.
  Value placeInBlock(TileType type, unsigned n, unsigned r, Value e);
  /// The lane that stored element `e` of a pair of this lane. Blocks are stored from tiles with queries as rows. If the
  /// rows of `type` are queries too, each lane loads what it has stored; if they are keys, another lane may have stored
  /// the element.
  Value laneInBlock(TileType type, unsigned e);

  // Copies.cpp
  LogicalResult expandOp(sched::SlotOp op);
  /// Loads a tile or a vector from global memory to registers, in pairs or element by element.
  LogicalResult expandOp(tile::LoadOp op);
  LogicalResult expandOp(sched::CopyTileOp op);
  /// Copies a window (a rectangle of a captured tensor) to shared memory by TMA; leading indices are clamped.
  LogicalResult expandOp(sched::CopyWindowOp op);
  /// Stores a tile to a stage of a ring: a vector that the threads of producer warps hold, or a `c` fragment of the
  /// computing warps.
  LogicalResult expandOp(sched::StoreTileOp op);
  /// Writes a register tile to a stage of a ring.
  LogicalResult expandOp(sched::ExchangeOp op);
  /// Scales a shared tile in place; each warpgroup scales the rows that its own products read.
  LogicalResult expandOp(tile::ScaleOp op);

  // Stores.cpp
  LogicalResult expandOp(tile::StoreOp op);
  /// Whether TMA stores the tile, which requires 16-bit elements.
  bool isStoredByEngine(tile::StoreOp op);
  LogicalResult expandOp(sched::WriteTileOp op);
  /// Whether lanes store their pairs of a float32 tile directly to global memory. The four lanes of a row write whole
  /// sectors of 32 bytes, and the output takes no shared memory in addition to the rings.
  bool isStoredInPairs(tile::StoreOp op);
  /// Stores each element, or pair of columns, by the first lane that holds it (isWriter). Used for vectors, for tiles
  /// that isStoredInPairs accepts, and for views whose last axis has no fixed size.
  LogicalResult storeElements(tile::StoreOp op);
  /// Adds a register tile to memory, element by element or, from sm_90 on, two columns at a time.
  LogicalResult expandOp(tile::AccumulateOp op);
  /// Adds a shared tile to memory: by TMA, where one lane of each warp issues the rows, or element by element.
  void addShared(tile::AccumulateOp op);
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

  // Scatters.cpp
  /// Scatters a register tile, each element by the first lane that holds it. If the op is marked for pairs or eights, a
  /// lane stores two or eight elements at a time. TMA scatters a shared tile.
  LogicalResult expandOp(tile::ScatterOp op);
  /// The value of `index`, an index of a scatter, for element (i, r, j, c) of the tile. A scalar index is the same for
  /// all elements.
  Value indexElement(Value index, Value i, Value r, Value j, Value c);
  /// Scatters element by element; `extents` are the extents of the view.
  void scatterElements(tile::ScatterOp op, ArrayRef<Value> extents);
  /// If all elements of the warp that are not masked have the same indices in the view, one lane adds the sum of these
  /// elements; else each element is added alone.
  void scatterMerged(tile::ScatterOp op, ArrayRef<Value> extents);
  Value liesInPairs(tile::ScatterOp op, ArrayRef<Value> extents);
  /// Whether the view is aligned for accesses of eight elements and contains the whole tile.
  Value liesInEights(tile::ScatterOp op, ArrayRef<Value> extents);
  /// The logical and of `known` and the test that the tile is within the view and has no masked element (the `end` of
  /// CountedPlaces).
  Value liesWithin(Value known, tile::ScatterOp op, ArrayRef<Value> extents);
  Value ownPairs(tile::ScatterOp op);
  void scatterPairs(tile::ScatterOp op, ArrayRef<Value> extents);
  void scatterEights(tile::ScatterOp op);

  SmallVector<Value> place; ///< origin of the tile of work along each grid axis; kernels without roles only
  llvm::DenseMap<Operation *, ProbabilityChain> chains; ///< last op of a chain -> the chain
};

} // namespace attune::expansion
