//===- Sched.h - The sched dialect ------------------------------------------===//
//
// A kernel scheduled for one GPU architecture. Reference: docs/reference/dialects/sched.md, generated from SchedOps.td.
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

/// On an `scf.for`: the device compiler unrolls the loop, in full (unit attribute) or by a factor (integer attribute).
inline constexpr llvm::StringLiteral unrollAttr = "sched.unroll";

/// On an `scf.for`, a string: the CUDA printer emits the loop as a device function of this name, and a call of that
/// function in place of the loop. Every loop of a nest has the attribute: if canonicalisation removes an outer loop of
/// one iteration, the name is still on an inner loop.
inline constexpr llvm::StringLiteral functionAttr = "sched.function";

/// On a `tile.mma`: the product is asynchronous, and a later `sched.mma_wait` completes it.
inline constexpr llvm::StringLiteral asyncAttr = "sched.async";

/// On an op in a loop over tiles: its pipeline stage and order, an AtAttr.
inline constexpr llvm::StringLiteral atAttr = "sched.at";

/// On a `tile.element` in a map, or on a `tile.scatter`: columns 2 n and 2 n + 1 of the tile access the elements 2 m
/// and 2 m + 1 along the view's last dimension. One access then serves both columns if the view is aligned for it
/// (`sched.in_pairs`). With `sched.row_pairs` two adjacent rows of the tile, not columns, access these two elements:
/// lanes l and l + 4, which hold the rows, then exchange one element of each pair by a shuffle.
inline constexpr llvm::StringLiteral pairsAttr = "sched.pairs", rowPairsAttr = "sched.row_pairs";

/// On a `tile.scatter`: the four lanes of a quad can exchange their pairs of columns by shuffles, so that each lane
/// stores eight adjacent elements by one access if the view is aligned for it (`sched.in_pairs eights`).
inline constexpr llvm::StringLiteral eightsAttr = "sched.eights";

/// On an op with a shared tile: the stages of the tile's ring (circular buffer) and the warps that fill it, a RingAttr.
inline constexpr llvm::StringLiteral ringAttr = "sched.ring";

/// On a kernel: the roles of its warps, an array of RoleAttr.
inline constexpr llvm::StringLiteral rolesAttr = "sched.roles";

/// On a kernel, marks of its schedule, in this order: blocks are persistent; tiles with the most work are scheduled
/// first (LongTiles); warpgroups ping-pong (one runs its products while another runs its softmax); within a warpgroup
/// the product with V, or the product of a tile that warpgroups exchange, overlaps with the softmax of the next tile;
/// producer warps copy dense biases to shared memory.
inline constexpr llvm::StringLiteral persistentAttr = "sched.persistent", longestFirstAttr = "sched.longest_first",
                                     pingPongAttr = "sched.ping_pong", overlapAttr = "sched.overlap",
                                     stageBiasesAttr = "sched.stage_biases";

/// At which end of the grid's last axis `sched.longest_first` says that tiles have the most work. As a unit attribute
/// it means the last tiles (those of queries under a causal mask), as the string "first_tiles" the first (those of
/// keys).
enum class LongTiles { None, First, Last };
inline constexpr llvm::StringLiteral firstTiles = "first_tiles";
LongTiles longTilesOf(mlir::Operation *kernel);
void setLongTiles(mlir::Operation *kernel, LongTiles longest);

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
/// Creates a tensor map of the tensor that `view` reads, with TMA boxes of `rows` rows and the width of one panel of
/// `swizzle` (32, 64 or 128 bytes), and another `tile.param` of the tensor, both at the builder's insertion point.
/// `limited`: each copy gives a row at which it ends.
mlir::Value describe(mlir::OpBuilder &builder, mlir::Location loc, tile::ParamOp view, int64_t rows,
                     SwizzleAttr swizzle, bool limited = false);

/// The pipeline stage and order of `op`; null where `op` has no `sched.at`.
inline AtAttr placeOf(mlir::Operation *op) { return op->getAttrOfType<AtAttr>(atAttr); }
/// Gives `op` the pipeline stage and order of `at` without its ping-pong region. No effect where `at` is null.
inline void placeAt(mlir::Operation *op, AtAttr at) {
  if (at)
    op->setAttr(atAttr, AtAttr::get(at.getContext(), at.getStage(), at.getOrder()));
}
/// The pipeline stage and order of the first op in `block` that reads value `read`: a reader of the earliest stage, and
/// among the readers of that stage the first in program order. A nested reader counts as the op of `block` that
/// contains the reader. Null where the first op has no `sched.at`.
AtAttr earliestPlace(mlir::Value read, mlir::Block &block);
/// The ring (circular buffer) of the shared tile of `op`; null where `op` has no `sched.ring`.
inline RingAttr ringOf(mlir::Operation *op) { return op->getAttrOfType<RingAttr>(ringAttr); }
/// Whether the vector that `staged` writes to shared memory (tile::isStaged) is computed by producer warps other than
/// warp 0, which issues the copies. True for relative-position values, and where `sched.ring` names another warp.
bool isByOtherWarps(tile::ConvertOp staged);

/// The value of `sched.roles` for a producer role and a consumer role with the given numbers of warps.
mlir::ArrayAttr rolesOf(mlir::MLIRContext *context, int64_t producerWarps, int64_t consumerWarps);
/// The number of warps of all warp roles but the last. The last role computes; the other roles copy tiles to shared
/// memory for the computing role, or store tiles from there. 0 in a kernel without roles.
int64_t producerWarps(mlir::Operation *kernel);
/// The index, counted over all roles of `kernel`, of the first warp that fills the ring `ring` or stores its tiles.
int64_t firstWarpOf(mlir::Operation *kernel, RingAttr ring);
/// Whether the kernel's products are asynchronous and issued by whole warpgroups, with accumulators in registers. All
/// kernels with roles have such products: tile-choose-path removes the roles of other kernels.
inline bool hasAsyncProducts(mlir::Operation *kernel) { return producerWarps(kernel) > 0; }
/// Whether the kernel that contains `op` has asynchronous products (hasAsyncProducts).
inline bool isWithAsyncProducts(mlir::Operation *op) { return hasAsyncProducts(op->getParentOfType<tile::KernelOp>()); }

/// The number of stages of the deepest ring in shared memory, at least 1.
int64_t deepestRing(KernelOp kernel);
/// Whether blocks are persistent: a thread block computes several tiles of work in sequence.
bool isPersistent(KernelOp kernel);
/// Whether thread blocks claim tiles of work from a counter, which an earlier kernel of the launch resets.
bool claimsWork(KernelOp kernel);
/// Whether the kernel contains a sched.wait_launch, so that it may start before the previous kernel has ended.
bool waitsForLaunch(KernelOp kernel);
/// Whether `op`, or an op nested in it, accesses an operand. Another kernel of the launch may write operands, but no
/// kernel writes captured tensors.
bool accessesOperands(mlir::Operation *op);
} // namespace attune::sched
