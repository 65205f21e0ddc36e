//===- SplitKeys.h - The keys of a tile of rows, shared by several blocks -----===//
//
// A block takes a share of the tiles of keys that a tile of rows visits, and leaves what the loop carries: the
// normaliser's statistics and the accumulator of its share, in float32. A second kernel combines the shares of each row
// by the normaliser's own rescale, as the loop does from one tile to the next, and finishes:
//
//     @causal_shares   grid [b, h, q by 64, split]   part_m, part_l [b, h, split, q]   part_acc [b, h, split, q, dv]
//     @causal          grid [b, h, q]                O and LSE
//
//     m = max over shares of m_s     w_s = rescale(m_s, m)     l = sum of l_s w_s     acc = sum of acc_s w_s
//
// Where rows are those of a group's heads (tile.group_rows), h and q are hkv and row. How many shares there are is a
// derived axis (tile.derived): a launch computes it from sizes and multiprocessors alone, so that results are the same
// bits each time. A share may be empty: its statistics are those before any key.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"
#include "passes/attn/SequenceWork.h"

namespace attune {

/// What the axes are called along which a kernel's blocks take heads and rows.
struct RowAxes {
  llvm::StringRef heads = "h", rows = "q";
};

/// The workspace operands of shares: one for each statistic of the normaliser, and the accumulator's last. By sequence and
/// share, or, where memory says how many there are, by piece (SequenceWork.h).
llvm::SmallVector<tile::OperandAttr> splitOperands(attn::AttentionOp op, RowAxes axes, bool byWorkItems);

/// How many tiles of keys a domain has, and the first of a share among them.
struct SplitTiles {
  mlir::Value all, first;
};

/// Leaves of the domain's tiles the share `share` (i32) of `shares` (i32): as many as the others have, or fewer in the last. Of
/// what the domain's `where` leaves out, every share counts the tiles.
SplitTiles takeSplit(mlir::OpBuilder builder, tile::DomainOp domain, mlir::Value split, mlir::Value splits);

/// Writes, at `builder`, the kernel `name` that combines the shares which `partial` leaves. Where `pieces` is set, what a block
/// of `partial` works on, shares are pieces, and those without a tile are left out: `partial` does not write them.
tile::KernelOp writeCombineKernel(mlir::OpBuilder builder, attn::AttentionOp op, tile::KernelOp partial,
                                  llvm::StringRef name, RowAxes axes, std::optional<BlockRows> workItems);

} // namespace attune
