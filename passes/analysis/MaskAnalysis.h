//===- MaskAnalysis.h - Which K tiles a query tile visits --------------------===//
//
// Interval analysis of the mask region. For the queries of one tile it finds two intervals of keys, as SSA
// values computed once per block: `hull`, outside which no key is visible to any of the queries, and `full`,
// inside which every key is visible to all of them.
//
//     causal, queries [q0, end):    hull [0, end)                 full [0, q0 + 1)
//     slidingWindow(l, r):          hull [q0 - l, end + r)        full [end - 1 - l, q0 + r + 1)
//     chunked(n):                   hull [n * (q0 / n), n * ((end - 1) / n + 1))
//                                   full [n * ((end - 1) / n), n * (q0 / n + 1))
//     keyPadding(lengths):          hull = full = [0, lengths[b])
//
// cut to [0, Sk) and rounded to tiles they are segments of tiles:
//
//     keys     0 ........ hull.lo ...... full.lo ............ full.hi ...... hull.hi ...... Sk
//     segments             [  partial    ) [       full       ) [   partial   )
//
// A tile.domain visits the hull. What of the mask is an interval of each row, its cuts, has conditions of its own: the
// domain's tiles are full or partial by the conjuncts that remain beside the cuts.
//
// METHOD. The mask is a tree of and, or, not, xor and select over comparisons; negations are pushed down to
// the comparisons. `and` intersects both intervals; `or` takes the hull of the hulls, and of the full ones their
// union where they touch, else the longer. A comparison becomes D <= 0, where D = a * (k / n) + c * q + r, a, c
// and n > 0 constant, and r lies in an interval that does not depend on k: solved for k with r and q at their
// ends. What a value depends on beyond that (remainders, bit operations, loads by other indices) only widens
// the interval of r; values that depend on b, h, extents, run-time scalars and loads indexed by these
// ("uniform") are computed exactly. A comparison of floats is known where it is uniform.
//
// LOADS. A load of integers by q and uniform indices lies between the least and the greatest element that the tile's
// rows read: r has these for its ends. A load by k has such bounds for each tile of keys. The conjuncts of the mask
// that depend on one are judged for each tile, by the same rules with the key between the tile's ends, in the `where`
// of the domain:
//
//     ids[q] == ids[k], queries with ids in [a, b]
//         tile n, keys with ids in [c, d]:      visible  a <= d and c <= b        full  b <= c and d <= a
//
// and are left out of the full interval. The bounds are tables in workspace operands, which a kernel before makes.
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

#include <optional>

namespace attune {

/// The block's position and the extents, as i32 values at the place where the domain is built.
struct BlockValues {
  mlir::Value b, h;
  mlir::Value q0;      ///< first row of the query tile, below Sq, without the query offset
  mlir::Value qOffset; ///< null where the variant has none
  mlir::Value B, H, Sq, Sk;
  int64_t tileQ = 0, tileK = 0;
  bool part = false; ///< the rows are a part of the block's
};

/// A table of the least and the greatest elements of a captured integer tensor within each tile of `rows` queries or
/// keys, along dimension `dim`; of bool, 0 and 1. Indices are limited to the tensor as in `tile.element`; rows of q are
/// counted with the query offset.
///
///     ids = 7 7 7 8 8 | 8 8 9 9 9 | 3        rows 5        ids.k = 7 8 3   least
///                                                                  8 9 3   greatest
struct BoundsTable {
  std::string name;
  tile::CapturedTensorAttr tensor;
  unsigned dim = 0;
  bool ofKeys = false;
  int64_t rows = 0;

  /// The workspace operand that holds it: [end 2, the tensor's other dimensions..., q or k by rows].
  tile::OperandAttr declaration() const;
  mlir::StringRef axis() const { return ofKeys ? "k" : "q"; }
  friend bool operator==(const BoundsTable &, const BoundsTable &) = default;
};
using BoundsTables = mlir::SmallVectorImpl<BoundsTable>;

/// Emits at `builder`, the end of a block, the tile.domain of the K tiles that the queries [q0, min(q0 + tileQ, Sq))
/// visit: segments partial, full, partial in this order, without those that are always empty, by splitMask's `rest`
/// alone. A block pattern (see patternNeedsElementMask) and what depends on loads by key become the domain's `where`;
/// the tables that these need are added to `bounds`. Reads of scalars, uniform captured tensors and bounds become
/// tile.param and tile.element.
mlir::Value buildDomain(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values,
                        BoundsTables &bounds);

/// The tiles, two ends in i32, outside which no key is visible to the queries [q0, q0 + tileQ) below Sq. `q0` may be
/// past Sq: then there are none. Without values where the mask leaves the queries no end of their own.
llvm::SmallVector<mlir::Value, 2> emitHull(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values);

/// A conjunct of a mask: an i1 value of its region, negated or not.
using Conjunct = std::pair<mlir::Value, bool>;

/// One end of the interval of keys that conjuncts leave of each row; without conjuncts the end of the keys, Sk.
struct MaskCut {
  llvm::SmallVector<Conjunct> conjuncts;
  /// Every row sees all keys from here, or to here: i32, one of them null. A tile of keys on that side needs no cut.
  mlir::Value fullBegin, fullEnd;
};

/// A mask as cuts, which cost a comparison an element and end each in the tiles that its own ends cross, and the
/// conjuncts that leave anything else of a row. The end of the keys, Sk, is always one of the cuts.
struct MaskSplit {
  llvm::SmallVector<MaskCut> cuts;
  llvm::SmallVector<Conjunct> rest;
};
MaskSplit splitMask(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &values, BoundsTables &bounds);

/// Whether row `row.q0` sees, by the cut, the key in `column` (i32) of the tile that begins at key `k0`. The row's ends
/// are columns of the tile, in [0, row.tileK].
mlir::Value emitCut(mlir::OpBuilder &builder, attn::AttentionOp op, const BlockValues &row, const MaskCut &cut,
                    mlir::Value k0, mlir::Value column);

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

/// The tiles that buildDomain visits for given sizes, and those that are full by the whole mask and Sk. What depends on
/// b, h, run-time scalars or uniform loads counts as visible, what depends on other loads as partial; a block pattern
/// counts as all set.
TileSegments evaluateDomain(attn::AttentionOp op, int64_t q0, int64_t qOffset, int64_t Sq, int64_t Sk, int64_t tileQ,
                            int64_t tileK);

/// Tiles of one head, over all query tiles.
struct VisitedTiles {
  int64_t full = 0, partial = 0;
  int64_t all = 0; ///< ceil(Sq / tileQ) * ceil(Sk / tileK)
};
VisitedTiles countVisitedTiles(attn::AttentionOp op, int64_t Sq, int64_t Sk, int64_t tileQ, int64_t tileK,
                               int64_t qOffset = 0);

/// The visited share of the tiles, 0 to 1; nothing for sizes without tiles.
std::optional<double> visibleFraction(attn::AttentionOp op, int64_t Sq, int64_t Sk, int64_t tileQ, int64_t tileK);

} // namespace attune
