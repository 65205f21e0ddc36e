//===- MaskAnalysis.h - Which tiles of one axis a tile of the other visits -----===//
//
// Interval analysis of the mask region. One axis is fixed: a tile of queries, or a tile of keys. The other is looped
// over. For the rows of the fixed tile the analysis finds two unions of intervals of the looped axis, as SSA values
// computed once per block: `hull`, outside which nothing is visible to any of the rows, and `full`, inside which
// everything is visible to all of them.
//
//     a tile of queries [q0, end) over keys
//     causal:                       hull [0, end)                 full [0, q0 + 1)
//     slidingWindow(l, r):          hull [q0 - l, end + r)        full [end - 1 - l, q0 + r + 1)
//     chunked(n):                   hull [n * (q0 / n), n * ((end - 1) / n + 1))
//                                   full [n * ((end - 1) / n), n * (q0 / n + 1))
//     keyPadding(lengths):          hull = full = [0, lengths[b])
//     q >= k && (k < 4 || q - k < 1024)    (window and sinks)
//                                   hull [0, min(4, end)) and [q0 - 1023, end)
//                                   full [0, min(4, q0 + 1)) and [end - 1024, q0 + 1)
//
//     a tile of keys [k0, end) over queries
//     causal:                       hull [k0, Sq)                 full [end - 1, Sq)
//     slidingWindow(l, r):          hull [k0 - r, end + l)        full [end - 1 - r, k0 + l + 1)
//     keyPadding(lengths):          hull all if k0 < lengths[b]   full all if end <= lengths[b]
//
// With a query offset these are positions of queries, of which q + qOffset is that of row q; ends of intervals over
// queries are positions less the offset. Cut to the looped axis, rounded to tiles and sorted the intervals of the hull
// are segments of tiles, of which a part of the full ones is full:
//
//     keys     0 ........ hull.lo ...... full.lo ............ full.hi ...... hull.hi ...... Sk
//     segments             [  partial    ) [       full       ) [   partial   )
//
// A tile.domain visits the hull. What of the mask is an interval of each row, its cuts, has conditions of its own: the
// domain's tiles are full or partial by the conjuncts that remain beside the cuts, or by the whole mask for kernels
// without cuts. Of those that remain some are several intervals of each row (MaskSplit::unions). A part of the block's
// rows, as a warpgroup's, has full tiles of its own (MaskSplit::full). A tile that crosses the end of the fixed axis counts as full by the rows that exist.
//
// METHOD. The mask is a tree of and, or, not, xor and select over comparisons; negations are pushed down to
// the comparisons. `and` intersects, `or` unites. Intervals that are one for every launch become one, and so do those
// of the hull between which no tile fits; of more than four the last two become one, in the hull the least that holds
// both, else the union where they touch and the longer where not. A comparison becomes D <= 0, where D = a * (l / n) + c * f + r for positions
// l and f along the looped and the fixed axis, a, c and n > 0 constant, and r lies in an interval that does not depend
// on l: solved for l with r and f at their ends. Division truncates, as the language's does: of positions below zero,
// which a query offset makes, the quotient 0 has those above -n too. What a value depends on beyond that (remainders,
// bit operations, loads by other indices) only widens the interval of r; values that depend on b, h, extents, run-time
// scalars and loads indexed by these ("uniform") are computed exactly. An integer that is compared as a float is
// compared with the last integer whose float is small enough.
//
// TABLES. What none of this follows (loads, products and quotients by run-time scalars, bit operations, functions of
// floats) is evaluated before, by a kernel in front, which keeps bounds of each tile in workspace operands. A value of
// the fixed axis lies between the least and the greatest of the tile's rows: r has these for its ends. A value of the
// looped axis has such bounds for each of its tiles. The conjuncts of the mask that depend on one are judged for each
// tile, by the same rules with the looped position between the tile's ends, in the `where` of the domain:
//
//     ids[q] == ids[k], queries with ids in [a, b]
//         tile n, keys with ids in [c, d]:      visible  a <= d and c <= b        full  b <= c and d <= a
//
// and are left out of the full interval. That is a table entry for each tile of an axis, of O(Sq + Sk) work. Where such
// a condition reads tables of the looped axis, the domain's `groups` judges 32 tiles at once by the same rules: a group
// is a tile of 32 times the size, with a table of its own. An element
// that depends on quotients of q and k alone (blocks[q / 128, k / 128]) is read for the tile itself, for each of a few
// parts in which it is constant. Of a conjunct that holds something of both axes which nothing follows (table[q, k], q ^ k) the table has an entry for each
// tile of both, whether it holds for any element and for all: O(Sq * Sk) work, which remarks of the kernel tell. Where
// the conjunct depends on positions alone, a few tiles are tried first; if each has elements for which it holds, it is
// not worth that.
//
// OVERFLOW. Integers of the language wrap. The rewriting above is used for an operation only where its result
// cannot wrap for any launch: 0 <= q < Sq, 0 <= k < Sk, 0 <= Sq, Sk <= 2^30, -2^30 <= qOffset <= 2^30, and
// scalars and loaded elements anywhere in their types. Otherwise a uniform value is computed as written,
// wrapping, and any other value may be anything. Bounds are computed in i64 where i32 could overflow.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"

namespace attune {

/// The axis of which a block holds one tile; it loops over the other.
enum class MaskAxis { Queries, Keys };

/// The block's position and the extents, as i32 values at the place where the domain is built.
struct BlockValues {
  mlir::Value b, h;
  mlir::Value q0;      ///< first row of the query tile, below Sq, without the query offset; null where keys are fixed
  mlir::Value qOffset; ///< null where the variant has none
  mlir::Value B, H, Sq, Sk;
  int64_t tileQ = 0, tileK = 0;
  bool part = false;           ///< the rows are a part of the block's
  mlir::Value k0 = {};         ///< first key of the key tile, below Sk; null where queries are fixed
  int64_t tiles = 1;           ///< of the plan, that a looped tile is: 1, or those of a group
  llvm::StringRef tables = ""; ///< ends the names of tables, where kernels of a launch have other tiles
  /// Where heads are rounds of the domain, that of the first; h is null. What differs by head is asked of each round.
  mlir::Value firstHead = {};
  /// The fixed tile may lie behind the last of its axis: then its entries of tables are any, and nobody uses them.
  bool mayFollow = false;

  MaskAxis fixed() const { return k0 ? MaskAxis::Keys : MaskAxis::Queries; }
  mlir::Value first() const { return k0 ? k0 : q0; }
  mlir::Value count() const { return k0 ? Sk : Sq; }
  /// With the one row `index` of the fixed axis for its tile.
  BlockValues atRow(mlir::Value index) const {
    BlockValues row = *this;
    (k0 ? row.k0 : row.q0) = index;
    (k0 ? row.tileK : row.tileQ) = 1;
    return row;
  }
  /// With groups of looped tiles for its tiles.
  BlockValues byGroups() const {
    BlockValues groups = *this;
    groups.tiles = tile::DomainOp::groupTiles;
    (k0 ? groups.tileQ : groups.tileK) *= groups.tiles;
    return groups;
  }
};

/// A table of the least and the greatest that a value of the mask's region has in each tile of so many queries, of keys
/// or of both; of bool, 0 and 1; of floats -inf and inf where one is NaN. A value of q is taken at the row plus the
/// query offset.
///
///     ids = 7 7 7 8 8 | 8 8 9 9 9 | 3        keys 5         ids.k = 7 8 3   least
///                                                                   8 9 3   greatest
///                                            keys 160, a group of 32 tiles
///                                                           ids.k_groups = 3   least
///                                                                          9   greatest
struct BoundsTable {
  std::string name;
  mlir::Value value;
  bool byBatch = false, byHead = false;
  int64_t queries = 0, keys = 0; ///< of an entry; 0 where the value is the same for all
  int64_t tiles = 1;             ///< of an entry: 1, or those of a group

  bool isOfBoth() const { return queries && keys; }
  /// The workspace operand that holds it: [end 2, b, h, q by queries, k by keys], of these what the value depends on.
  tile::OperandAttr declaration() const;
  friend bool operator==(const BoundsTable &, const BoundsTable &) = default;
};
using BoundsTables = mlir::SmallVectorImpl<BoundsTable>;

/// What decides whether a domain's tile is full: what is left of the mask beside its cuts (splitMask), or all of it and
/// the end of the looped axis.
enum class FullBy { Rest, Mask };

/// Emits at `builder`, the end of a block, the tile.domain of the looped tiles that the fixed tile visits: segments
/// partial, full, partial in this order for each interval of the hull, without those that are always empty. A block pattern (see
/// patternNeedsElementMask) and what depends on loads by the looped axis become the domain's `where`, the latter for
/// groups of tiles its `groups` as well; the tables that these need are added to `bounds`, in which a name has one size
/// of tile. A part's domain has no groups: it is asked beside the block's. Where heads are rounds, what depends on the
/// head becomes `where`, too, which then takes the round; the segments enclose what any head sees, and the domain lacks
/// its `times`. Reads of scalars, uniform captured tensors and bounds become tile.param and tile.element.
mlir::Value buildDomain(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds,
                        FullBy fullBy = FullBy::Rest);

/// Whether a kernel in front evaluates all elements of some of the mask, to say which tiles are visited.
bool countsTiles(attn::AttentionOp op);

/// What a loop over the tiles that a mask and a block pattern leave is like.
struct LoopShape {
  bool searches = false; ///< its tiles are looked up one by one: the domain has a `where`
  bool byBatch = false;  ///< its tiles, or the cuts of its mask, depend on b
  bool byHead = false;   ///< on h
};
/// Found by building the domain and the cuts of the mask in a scratch block.
LoopShape loopShape(attn::AttentionOp op, int64_t tileQ, int64_t tileK);

/// The tiles, two ends in i32, outside which nothing is visible to the fixed tile; they enclose all of its intervals. It may begin past the end of its
/// axis: then there are none. Without values where the mask leaves the rows no end of their own.
llvm::SmallVector<mlir::Value, 2> emitHull(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values);

/// The number of keys after which no query of the sequence sees any, as conjuncts of the mask say that depend on no query: min(max(lengths[b], 0), Sk)
/// of `k < lengths[b]`, whatever else the mask holds; or, along `axis`, the number of queries after which none sees any key. i32; null without such a
/// conjunct. Rows from there on need not be read.
mlir::Value emitEndOf(mlir::OpBuilder &builder, attn::AttentionOp op, BlockValues values, MaskAxis axis);

/// Whether emitEndOf finds one.
bool hasEndOf(attn::AttentionOp op, MaskAxis axis);
/// Whether it is another one for each head: `k < lengths[h]`.
bool endsByHead(attn::AttentionOp op, MaskAxis axis);

/// A conjunct of a mask: an i1 value of its region, negated or not.
using Conjunct = std::pair<mlir::Value, bool>;

/// One end of the interval of the looped axis that conjuncts leave of each row; without conjuncts the end of the axis.
struct MaskCut {
  llvm::SmallVector<Conjunct> conjuncts;
  /// Every row sees everything from here, or to here: i32, one of them null. A looped tile on that side needs no cut.
  mlir::Value fullBegin, fullEnd;
};

/// A mask as cuts, which cost a comparison an element and end each in the tiles that its own ends cross, the conjuncts
/// that leave several intervals of a row, and those that leave anything else, or that differ by rounds. The end of the
/// looped axis is always one of the cuts.
struct MaskSplit {
  llvm::SmallVector<MaskCut> cuts;
  llvm::SmallVector<Conjunct> unions, rest;
  /// For a part's rows, without tables: beside the cuts a looped tile is full if its first index lies in [from, to), two
  /// i32, of one of these.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> full;
  bool isCutsAlone() const { return unions.empty() && rest.empty(); }
};
MaskSplit splitMask(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds);

/// Whether one row (BlockValues::atRow) sees, by the cut, the `column` (i32) of the looped tile that begins at index
/// `origin`. The row's ends are columns of the tile, from none to all.
mlir::Value emitCut(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &row, const MaskCut &cut,
                    mlir::Value origin, mlir::Value column);

/// The same by a conjunct that leaves several intervals of a row.
mlir::Value emitUnion(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &row, const Conjunct &conjunct,
                      mlir::Value origin, mlir::Value column);

/// Whether a visited tile may hold elements that the op's block pattern hides, because its blocks are not whole
/// multiples of the tile. Then no segment is full, and the mask of a tile must include emitPatternLookup.
bool patternNeedsElementMask(attn::AttentionOp op, int64_t tileQ, int64_t tileK);

/// The flag (i1) of the block of `pattern` that holds row q, counted without the query offset, and key k.
mlir::Value emitPatternLookup(mlir::OpBuilder &builder, mlir::Value view, mlir::Value h, mlir::Value q, mlir::Value k,
                              attn::BlockPatternAttr pattern);

/// Tile indices: [begin, fullBegin) partial, [fullBegin, fullEnd) full, [fullEnd, end) partial.
struct TileSegments {
  int64_t begin = 0, fullBegin = 0, fullEnd = 0, end = 0;
};

struct MaskSizes {
  int64_t Sq = 0, Sk = 0, tileQ = 0, tileK = 0, qOffset = 0;
};

/// The conjuncts of which intervals do not say all that a row sees: those of which each tile is asked.
llvm::SmallVector<Conjunct> looseConjuncts(attn::AttentionOp op, MaskAxis fixed = MaskAxis::Queries);

/// The tiles that buildDomain visits for the tile at `first` of the fixed axis, and those that are full by the whole
/// mask and the end of the looped axis: in ascending order and apart. `loose` are the looseConjuncts, the same for all
/// tiles of an axis. What depends on b, h, run-time scalars or uniform loads counts as visible, what depends on other
/// loads as partial; a block pattern counts as all set.
llvm::SmallVector<TileSegments> evaluateDomain(attn::AttentionOp op, const MaskSizes &sizes, int64_t first,
                                               llvm::ArrayRef<Conjunct> loose, MaskAxis fixed = MaskAxis::Queries);

} // namespace attune
