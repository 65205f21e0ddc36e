//===- Sched.h - The sched dialect ------------------------------------------===//
//
// A kernel scheduled for one GPU architecture. Reference: docs/dialects/sched.md, generated from SchedOps.td.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace attune::sched {

using attn::BlockPatternAttr;
using attn::CapturedTensorAttr;
using attn::RuntimeScalarAttr;
using tile::OperandAttr;
using tile::parseGrid;
using tile::parseOperands;
using tile::PlanAttr;
using tile::printGrid;
using tile::printOperands;
using tile::TileType;
using tile::ViewType;

/// On an `scf.for`: the device compiler unrolls it, in full (unit) or so many times (an integer).
inline constexpr llvm::StringLiteral unrollAttr = "sched.unroll";

/// Marks a `tile.mma` that starts only: a `sched.mma_wait` further on completes it.
inline constexpr llvm::StringLiteral asyncAttr = "sched.async";

/// When an op of a block loop runs: an AtAttr.
inline constexpr llvm::StringLiteral atAttr = "sched.at";

/// Marks a `tile.element` of a map, or a `tile.scatter`, whose last index is at an even column of the tile an even number
/// and at the next column the next one: where the view lies in pairs (`sched.in_pairs`), one access serves both columns.
/// The second mark says the same of rows: lanes 4 apart then exchange an element of each pair.
inline constexpr llvm::StringLiteral pairsAttr = "sched.pairs", rowPairsAttr = "sched.row_pairs";

/// Marks a `tile.scatter` whose pairs of columns the lanes of a quad can exchange for eight side by side, where the view
/// lies in eights.
inline constexpr llvm::StringLiteral eightsAttr = "sched.eights";

/// How deep the ring of a shared tile is, and who fills it: a RingAttr.
inline constexpr llvm::StringLiteral ringAttr = "sched.ring";

/// The roles of a kernel's warps: an array of RoleAttr.
inline constexpr llvm::StringLiteral rolesAttr = "sched.roles";

/// Of a kernel, what its schedule is to be beside that; each is a mark. Blocks take one tile of work after another, the
/// tiles with the most work come first, warpgroups ping-pong: one runs its products while another runs its softmax, products with what others lead to run
/// beside it in each warpgroup, and dense biases come to shared memory.
inline constexpr llvm::StringLiteral persistentAttr = "sched.persistent", longestFirstAttr = "sched.longest_first",
                                     pingPongAttr = "sched.ping_pong", overlapAttr = "sched.overlap",
                                     stageBiasesAttr = "sched.stage_biases";

} // namespace attune::sched

#include "ir/sched/SchedDialect.h.inc"
#include "ir/sched/SchedEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/sched/SchedAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/sched/SchedTypes.h.inc"

namespace attune::sched {
class NextOp;
}
#define GET_OP_CLASSES
#include "ir/sched/SchedOps.h.inc"

namespace attune::sched {
/// Reads the parameter `view` again and makes its tensor map: boxes of `rows` rows and a panel of `swizzle`.
mlir::Value describe(mlir::OpBuilder &builder, mlir::Location loc, tile::ParamOp view, int64_t rows,
                     SwizzleAttr swizzle);

/// When `op` runs; null where nothing says so.
inline AtAttr placeOf(mlir::Operation *op) { return op->getAttrOfType<AtAttr>(atAttr); }
/// Has `op` run when `at` says, without its turn; nothing where `at` is null.
inline void placeAt(mlir::Operation *op, AtAttr at) {
  if (at)
    op->setAttr(atAttr, AtAttr::get(at.getContext(), at.getStage(), at.getOrder()));
}
/// When the first reader of `read` runs, in the order of the text but for those of an earlier stage, each being the op of
/// `block` around it; null where that one says nothing.
AtAttr earliestPlace(mlir::Value read, mlir::Block &block);
/// The ring of the tile that `op` gives; null where nothing says so.
inline RingAttr ringOf(mlir::Operation *op) { return op->getAttrOfType<RingAttr>(ringAttr); }
/// Of what a filling role computes and stores (tile::isStaged): whether other warps of it do than the first, which copies.
/// They compute values by distance, and what the text gives them.
inline bool isByOtherWarps(tile::ConvertOp staged) {
  RingAttr ring = ringOf(staged);
  return tile::isRelative(staged.getResult().getType()) || (ring && ring.getFirstWarp() > 0);
}

/// Warps of the role that fills rings, beside which others compute by warpgroups; 0 where all warps do the same.
int64_t fillingWarps(mlir::Operation *kernel);
/// The kernel around `op`.
inline int64_t fillingWarpsAround(mlir::Operation *op) { return fillingWarps(op->getParentOfType<tile::KernelOp>()); }

/// Stages of the deepest ring in shared memory, 1 at least.
int64_t deepestRing(KernelOp kernel);
/// Whether blocks take one tile of work after another.
bool isPersistent(KernelOp kernel);
/// Whether blocks claim tiles of work, from a counter that a kernel before resets.
bool claimsWork(KernelOp kernel);
/// Whether the kernel waits for the one before itself, so that it may start beside it.
bool waitsForLaunch(KernelOp kernel);
/// Whether `op`, or one within it, is of a place in an operand, which another kernel of the launch may write, as none writes
/// captured tensors.
bool accessesOperands(mlir::Operation *op);
} // namespace attune::sched
