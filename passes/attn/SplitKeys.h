//===- SplitKeys.h - Split the keys of a tile of rows over several thread blocks (split-KV) ---===//
//
// Each thread block visits one split of the tiles of keys of a tile of rows and stores the loop's carried values in
// float32: the normaliser's statistics and the accumulator of its split. A second kernel combines the splits of each
// row with the normaliser's own rescaling, as the forward loop does from one tile of keys to the next, and writes the
// outputs:
//
//     @causal_shares   grid [b, h, q by 64, split]   part_m, part_l [b, h, split, q]   part_acc [b, h, split, q, dv]
//     @causal          grid [b, h, q]                O and LSE
//
//     m = max over splits of m_s     w_s = rescale(m_s, m)     l = sum of l_s w_s     acc = sum of acc_s w_s
//
// With packed groups (tile.group_rows), h and q are hkv and row. The number of splits is a derived axis (tile.derived):
// a launch computes the number from sizes and the number of multiprocessors alone, so every launch gives the same bits.
// A split may be empty: its statistics are then the initial ones.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/attn/Attn.h"
#include "ir/tile/Tile.h"
#include "passes/attn/SequenceWork.h"

namespace attune {

/// The names of the axes of heads and rows in a kernel's grid.
struct RowAxes {
  llvm::StringRef heads = "h", rows = "q";
};

/// The workspace operands in which splits store their partial results: one for each statistic of the normaliser, then
/// the accumulator's. The operands are indexed by sequence and split or, if `byWorkItems`, by work item
/// (SequenceWork.h), because the lengths of the sequences are known only in device memory.
llvm::SmallVector<tile::OperandAttr> splitOperands(attn::AttentionOp op, RowAxes axes, bool byWorkItems);

/// The number of tiles of keys in a domain, and the position among them of the first tile of a split.
struct SplitTiles {
  mlir::Value all, first;
};

/// Restricts `domain`, the tiles of keys that a thread block visits, to split number `split` of `splits`, both i32. All
/// splits have the same number of tiles, except that the last splits may have fewer. Tiles that the domain's `where`
/// region tests one by one and skips are counted too.
SplitTiles takeSplit(mlir::OpBuilder builder, tile::DomainOp domain, mlir::Value split, mlir::Value splits);

/// Writes, at `builder`, the kernel `name` that combines the splits which the kernel `partial` stores. If `workItems`
/// is set, splits are work items, and the combining kernel skips work items without a tile of keys, because `partial`
/// does not write them.
tile::KernelOp writeCombineKernel(mlir::OpBuilder builder, attn::AttentionOp op, tile::KernelOp partial,
                                  llvm::StringRef name, RowAxes axes, std::optional<BlockRows> workItems);

} // namespace attune
