//===- MaskAnalysis.h - Which K tiles a Q tile visits under a mask, or vice versa -----===//
//
// Interval analysis of the mask region. A thread block holds one tile of an axis, queries or keys (the fixed axis), and
// loops over tiles of the other axis (the looped axis). For the rows of the fixed tile the analysis finds two unions of
// intervals of the looped axis, as SSA values computed once per block: `hull`, outside which nothing is visible to any
// of the rows, and `full`, inside which everything is visible to all rows.
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
// With a query offset, row q has the position q + qOffset. The intervals above are in positions; intervals over query
// rows are shifted by -qOffset. The intervals of the hull are clamped to the looped axis, rounded to tiles and sorted.
// The results are segments of tiles, of which the part inside the full intervals is full:
//
//     keys     0 ........ hull.lo ...... full.lo ............ full.hi ...... hull.hi ...... Sk
//     segments             [  partial    ) [       full       ) [   partial   )
//
// A tile.domain visits the tiles of the hull. The mask is a conjunction, and its conjuncts are of three kinds:
//   - Cuts leave one interval visible to each row (MaskSplit::cuts). The kernel applies each cut by a tile.map with a
//     condition of its own, so cuts do not make a tile partial.
//   - Unions leave several intervals visible to each row (MaskSplit::unions).
//   - All other conjuncts (MaskSplit::rest).
// Unions and the rest decide whether a tile of the domain is full or partial; in kernels without cuts the whole mask
// decides. A part of the thread block's rows, such as the rows of a warpgroup, has full intervals of its own
// (MaskSplit::full). In a tile that crosses the end of the fixed axis, the analysis considers only rows before that
// end.
//
// METHOD. The mask is a tree of and, or, not, xor and select over comparisons; negations are pushed down to the
// comparisons. `and` intersects intervals, `or` unites them. Two intervals are merged if they overlap or touch in every
// launch, or if they belong to the hull and no tile fits into the gap between them. A union keeps at most four
// intervals; a fifth interval is merged with the fourth. In `hull`, the smallest interval that contains both replaces
// the two. In `full`, the union of the two replaces them if they touch, else the longer of the two.
//
// A comparison is rewritten to D <= 0 with D = a * (l / n) + c * f + r. Here l and f are positions along the looped and
// the fixed axis, a, c and n > 0 are constants, and r lies in an interval that does not depend on l. The inequality is
// solved for l with r and f at the ends of their intervals. Division truncates towards zero, as in the DSL. Positions
// with a query offset can be negative, and all positions from 1 - n to n - 1 have the quotient 0. Terms that this form
// cannot express (remainders, bit operations, loads by other indices) only widen the interval of r. Uniform values,
// which depend on b, h, extents, run-time scalars and loads indexed by these, are computed exactly. If an integer is
// compared as a float, the bound is the last integer whose float satisfies the comparison.
//
// TABLES. Values that this method cannot analyse (loads, products and quotients by run-time scalars, bit operations,
// functions of floats) are evaluated before the attention kernel, by a bounds kernel that writes per-tile bounds to
// workspace operands. A value along the fixed axis lies between its least and its greatest value over the tile's rows;
// these are the ends of r. A value along the looped axis has such bounds for each looped tile. Conjuncts that depend on
// such a value are evaluated for each looped tile, by the same rules with the looped position between the tile's ends,
// in the `where` region of the domain:
//
//     ids[q] == ids[k], queries with ids in [a, b]
//         tile n, keys with ids in [c, d]:      visible  a <= d and c <= b        full  b <= c and d <= a
//
// These conjuncts do not contribute to the full interval. Each table has an entry for each tile of one axis; filling
// these tables costs O(Sq + Sk) work. If such a condition reads tables of the looped axis, the domain's `groups` region
// tests 32 tiles at once by the same rules: a group is a tile of 32 times the size, with a table of its own.
//
// A loaded element whose indices are quotients of q and k (blocks[q / 128, k / 128]) is read directly for the tile,
// once for each of the few parts of the tile in which the element is constant. In the same way a conjunct is computed
// that uses q and k only through quotients and that intervals do not follow (q / 64 ^ k / 64, a hash of q / 64). Any
// other conjunct with a value of both axes that cannot be analysed (table[q, k], q ^ k) gets a table with an entry for
// each pair of tiles: whether the conjunct holds for any element, and for all. Filling this table costs O(Sq * Sk)
// work, and a remark on the kernel says so. If the conjunct depends on positions alone, a few tiles are tried first; no
// table is made if the conjunct holds somewhere in each of them.
//
// OVERFLOW. Integers of the language wrap. The rewriting above is used for an operation only where its result
// cannot wrap for any launch: 0 <= q < Sq, 0 <= k < Sk, 0 <= Sq, Sk <= 2^30, -2^30 <= qOffset <= 2^30, and
// scalars and loaded elements take any value of their types. Otherwise a uniform value is computed as written,
// with wrapping, and any other value counts as unknown. Bounds are computed in i64 where i32 could overflow.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"

namespace attune {

/// The fixed axis: a thread block holds one tile of the fixed axis and loops over tiles of the other axis.
enum class MaskAxis { Queries, Keys };

/// The position of a thread block's tile and the extents of the axes, as i32 SSA values that dominate the tile.domain
/// to be built.
struct BlockValues {
  mlir::Value b, h;
  mlir::Value q0;      ///< first row of the query tile, below Sq, without the query offset; null if keys are fixed
  mlir::Value qOffset; ///< null if the variant has no query offset
  mlir::Value B, H, Sq, Sk;
  int64_t tileQ = 0, tileK = 0;
  bool part = false;           ///< whether the fixed tile is a part of the thread block's rows: one warpgroup's rows
  mlir::Value k0 = {};         ///< first key of the key tile, below Sk; null if queries are fixed
  int64_t tiles = 1;           ///< tiles of the kernel per looped tile of the analysis: 1, or 32 for a group of tiles
  llvm::StringRef tables = ""; ///< suffix of names of per-tile tables, if kernels of a launch differ in tile size
  /// The first query head of a GQA group, if the domain (list of visited tiles) is repeated for each head of the group;
  /// h is then null, and conditions that depend on the head are tested for each head.
  mlir::Value firstHead = {};
  /// Whether the fixed tile (the thread block's tile of the axis over which the kernel does not loop) may begin past
  /// the end of its axis. Per-tile tables, which hold bounds of the mask's values, have no entry for such a tile: they
  /// are read with a bounds check, and no result depends on what is read.
  bool mayFollow = false;

  MaskAxis fixed() const { return k0 ? MaskAxis::Keys : MaskAxis::Queries; }
  mlir::Value first() const { return k0 ? k0 : q0; }
  mlir::Value count() const { return k0 ? Sk : Sq; }
  /// Returns these values with the single row `index` as the tile of the fixed axis, over which the kernel does not
  /// loop.
  BlockValues atRow(mlir::Value index) const {
    BlockValues row = *this;
    (k0 ? row.k0 : row.q0) = index;
    (k0 ? row.tileK : row.tileQ) = 1;
    return row;
  }
  /// Returns these values with groups of 32 looped tiles as the looped tiles.
  BlockValues byGroups() const {
    BlockValues groups = *this;
    groups.tiles = tile::DomainOp::groupTiles;
    (k0 ? groups.tileQ : groups.tileK) *= groups.tiles;
    return groups;
  }
};

/// A table of the least and the greatest value that an SSA value of the mask region has in each tile of `queries`
/// queries, of `keys` keys, or of both. For bool the values are 0 and 1. For floats the entry is -inf and inf if any
/// value is NaN. Values that depend on q are evaluated at the row's position, which includes the query offset.
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
  /// How many queries and keys an entry (a least and a greatest value) covers; 0 if the value does not depend on q or
  /// on k, respectively.
  int64_t queries = 0, keys = 0;
  int64_t tiles = 1; ///< how many tiles an entry covers: 1, or 32 for a group

  bool isOfBoth() const { return queries && keys; }
  /// The declaration of the workspace operand that holds the table. Its axes are [end 2, b, h, q by `queries`, k by
  /// `keys`], where index 0 of `end` has the least and index 1 the greatest value, without those axes among b, h, q and
  /// k that the value does not depend on.
  tile::OperandAttr declaration() const;
  friend bool operator==(const BoundsTable &, const BoundsTable &) = default;
};
using BoundsTables = mlir::SmallVectorImpl<BoundsTable>;

/// What decides whether a tile is full (nothing of it is masked). `Rest`: the conjuncts of the mask other than cuts,
/// which are conditions that end each row's visible range at one side. `Mask`: the whole mask and the end of the looped
/// axis.
enum class FullBy { Rest, Mask };

/// Creates at `builder` (the end of an IR block) the tile.domain of the tiles along the looped axis that the fixed tile
/// visits. Each interval of looped indices that any row may see gives segments (ranges of tiles) partial, full and
/// partial, in this order, without segments that are always empty.
///
/// A block pattern (see patternNeedsElementMask) and conditions on loads whose indices depend on the looped axis become
/// the domain's `where` region. The conditions on loads also give the `groups` region. A domain of a part (one
/// warpgroup's rows) has no `groups`, because it is tested together with the thread block's domain. Per-tile tables
/// that the regions read are added to `bounds`; all tables of one name have the same tile size.
///
/// If the domain is repeated for each head of a GQA group (`firstHead`), conditions that depend on the head go to
/// `where`, which then has the number of the repetition as an argument. The segments then cover the tiles of all heads,
/// and the caller must set the domain's `times`. Reads of scalars, uniform captured tensors and bounds become
/// tile.param and tile.element.
mlir::Value buildDomain(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds,
                        FullBy fullBy = FullBy::Rest);

/// Whether the bounds kernel must evaluate a condition of the mask for all O(Sq * Sk) elements to find the visited
/// tiles.
bool countsTiles(attn::AttentionOp op);

/// Properties of the loop over the tiles that a mask and a block pattern leave visible.
struct LoopShape {
  bool searches = false; ///< whether tiles are tested one by one: the domain has a `where` region
  bool byBatch = false;  ///< whether the visited tiles, or the cuts of the mask, depend on b
  bool byHead = false;   ///< whether the visited tiles, or the cuts of the mask, depend on h
};
/// The LoopShape of `op` for a query tile of tileQ rows and key tiles of tileK keys. The function builds the
/// tile.domain and the cuts (one-sided conditions such as q >= k) of the mask in a scratch IR block.
LoopShape loopShape(attn::AttentionOp op, int64_t tileQ, int64_t tileK);

/// The range [begin, end) of tiles of the looped axis (i32) outside of which nothing is visible to the fixed tile. The
/// range is empty if the fixed tile begins past the end of its axis. Returns no values if neither end of the range
/// depends on the position of the fixed tile.
llvm::SmallVector<mlir::Value, 2> emitHull(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values);

/// For `axis` Keys: the number of leading keys (i32) beyond which no query of the sequence sees any key, so that rows
/// of K and V after these keys need not be read. The number comes from conjuncts of the mask that do not depend on the
/// query: the conjunct `k < lengths[b]` gives min(max(lengths[b], 0), Sk). For `axis` Queries the same with queries and
/// keys exchanged. Null if no conjunct gives such a number.
mlir::Value emitEndOf(mlir::OpBuilder &builder, attn::AttentionOp op, BlockValues values, MaskAxis axis);

/// Whether the mask ends `axis` for all rows alike, as `k < lengths[b]` ends the keys; emitEndOf then returns a value.
bool hasEndOf(attn::AttentionOp op, MaskAxis axis);
/// Whether the end that the mask gives `axis` (emitEndOf) depends on the head, as for `k < lengths[h]`.
bool endsByHead(attn::AttentionOp op, MaskAxis axis);

/// A conjunct of a mask: an i1 value of the mask region, and whether it is negated.
using Conjunct = std::pair<mlir::Value, bool>;

/// A cut: one end (lower or upper) of the interval of the looped axis that `conjuncts` leave visible to each row. A cut
/// without conjuncts masks only indices at or past the end of the looped axis.
struct MaskCut {
  llvm::SmallVector<Conjunct> conjuncts;
  /// Bounds (i32) of the indices at which the cut masks no row; tiles inside these bounds need not evaluate the cut.
  /// A cut of a lower end sets fullBegin: the cut masks nothing from that index on. A cut of an upper end sets fullEnd:
  /// the cut masks nothing before that index. The value that is not set is null.
  mlir::Value fullBegin, fullEnd;
};

/// A mask split into three kinds of conjuncts. A cut costs one comparison per element, and only in tiles that begin
/// before its fullBegin or end past its fullEnd. `unions` leave several intervals visible to a row. `rest` has all
/// other conjuncts, and all conjuncts that depend on the head if the domain is repeated for each head. The end of the
/// looped axis is always one of the cuts.
struct MaskSplit {
  llvm::SmallVector<MaskCut> cuts;
  llvm::SmallVector<Conjunct> unions, rest;
  /// Set only for one warpgroup's part of the thread block's rows: ranges [from, to) (i32) of looped indices. `unions`
  /// and `rest` mask nothing of the part in a tile whose first index lies in one of these ranges. Conditions that need
  /// per-tile tables give no ranges.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> full;
  bool isCutsAlone() const { return unions.empty() && rest.empty(); }
};
MaskSplit splitMask(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds);

/// Emits whether the cut leaves `column` (i32) of the looped tile at index `origin` visible to the row
/// (BlockValues::atRow). The column is compared with one end of the row's visible interval, clamped to the columns of
/// the tile.
mlir::Value emitCut(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &row, const MaskCut &cut,
                    mlir::Value origin, mlir::Value column);

/// Emits whether `conjunct`, which leaves several intervals visible to each row (MaskSplit::unions), leaves `column` of
/// the looped tile at `origin` visible to the row.
mlir::Value emitUnion(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &row, const Conjunct &conjunct,
                      mlir::Value origin, mlir::Value column);

/// Whether a visited tile may contain elements that the op's block pattern masks, because the pattern's blocks are not
/// multiples of the tile. Then no segment is full, and the mask of a tile must include emitPatternLookup.
bool patternNeedsElementMask(attn::AttentionOp op, int64_t tileQ, int64_t tileK);

/// Emits the load of the flag (i1) of the pattern block that contains row q, without the query offset, and key k.
mlir::Value emitPatternLookup(mlir::OpBuilder &builder, mlir::Value view, mlir::Value h, mlir::Value q, mlir::Value k,
                              attn::BlockPatternAttr pattern);

/// Visited tiles, as tile indices: [begin, fullBegin) are partial, [fullBegin, fullEnd) full, [fullEnd, end) partial.
struct TileSegments {
  int64_t begin = 0, fullBegin = 0, fullEnd = 0, end = 0;
};

struct MaskSizes {
  int64_t Sq = 0, Sk = 0, tileQ = 0, tileK = 0, qOffset = 0;
};

/// The conjuncts of the mask for which intervals do not describe the visible elements of a row exactly. These conjuncts
/// must be tested for each tile.
llvm::SmallVector<Conjunct> looseConjuncts(attn::AttentionOp op, MaskAxis fixed = MaskAxis::Queries);

/// The tiles that buildDomain visits for the fixed tile at `first`, as ascending segments that do not overlap. A tile
/// is full if the whole mask holds in the tile and the tile does not cross the end of the looped axis. `loose` is the
/// result of looseConjuncts(), which is the same for all tiles of an axis. A condition on b, h, run-time scalars or
/// uniform loads counts as true. A condition on other loads counts as true for some elements of each tile. All blocks
/// of a block pattern count as set.
llvm::SmallVector<TileSegments> evaluateDomain(attn::AttentionOp op, const MaskSizes &sizes, int64_t first,
                                               llvm::ArrayRef<Conjunct> loose, MaskAxis fixed = MaskAxis::Queries);

} // namespace attune
