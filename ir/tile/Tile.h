//===- Tile.h - The tile dialect --------------------------------------------===//
//
// Logical tiles with named axes. Reference: docs/reference/dialects/tile.md, generated from TileOps.td.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Signature.h"
#include "ir/attn/Attn.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace attune::tile {

using attn::BlockPatternAttr;
using attn::CapturedTensorAttr;
using attn::RuntimeScalarAttr;

/// The memory that holds a tile.
enum class MemorySpace { Shared, Register };
llvm::StringRef stringifyMemorySpace(MemorySpace space);
inline llvm::hash_code hash_value(MemorySpace space) { return llvm::hash_value(int(space)); }

using attune::OperandRole;
class ViewType;

/// On an op: the name of its result in the generated CUDA source: `tile.name = "scores"`.
inline constexpr llvm::StringLiteral nameAttr = "tile.name";
/// On an op: the names of several block arguments or results: `tile.names = ["tile", "slot"]`.
inline constexpr llvm::StringLiteral namesAttr = "tile.names";
/// Sets `tile.name` on the op that defines `value` and returns `value`.
mlir::Value named(mlir::Value value, llvm::StringRef name);
/// The `tile.name` of the op that defines `value`, or "".
llvm::StringRef nameOf(mlir::Value value);

/// The axis of relative-position values: one value for each distance q - k between a query and a key (tile.map).
inline constexpr llvm::StringLiteral distanceAxis = "distance";
/// The axis of the parts into which tile.sum_diagonals splits a tile's rows, one for each warp. Each part has a value
/// for each distance.
inline constexpr llvm::StringLiteral partAxis = "part";

} // namespace attune::tile

#include "ir/tile/TileDialect.h.inc"
#include "ir/tile/TileEnums.h.inc"
#include "ir/tile/TileInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/tile/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/tile/TileTypes.h.inc"

namespace attune::tile {
/// Parse and print `(q: in [b, h, q, d 64] bf16, ...)`, the operands of a tile.kernel or sched.kernel.
mlir::ParseResult parseOperands(mlir::OpAsmParser &parser, mlir::ArrayAttr &operands);
void printOperands(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr operands);
/// Parse and print `[b, h, q by 128]`, the grid of a tile.kernel or sched.kernel.
mlir::ParseResult parseGrid(mlir::OpAsmParser &parser, mlir::ArrayAttr &grid);
void printGrid(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr grid);
/// Parse and print `plan <q 64 x k 64, ...>`, or nothing for an open plan, whose sizes are not chosen yet.
mlir::ParseResult parsePlanClause(mlir::OpAsmParser &parser, PlanAttr &plan);
void printPlanClause(mlir::OpAsmPrinter &printer, mlir::Operation *op, PlanAttr plan);
/// Parse and print `[@partial, @combine dependent]`, the kernels of a tile.launch.
mlir::ParseResult parseKernels(mlir::OpAsmParser &parser, mlir::ArrayAttr &kernels,
                               mlir::DenseBoolArrayAttr &dependent);
void printKernels(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr kernels,
                  mlir::DenseBoolArrayAttr dependent);
} // namespace attune::tile

namespace attune::tile {
class ParamOp;
class YieldOp;

/// Whether a tile holds relative-position values: its only axis is `distance`.
inline bool isRelative(TileType type) { return type.rank() == 1 && type.axis(0) == distanceAxis; }
/// Whether a tile has the axes `part` and `distance`: a value for each distance in each part (one warp's rows).
inline bool isByPart(TileType type) {
  return type.rank() == 2 && type.axis(0) == partAxis && type.axis(1) == distanceAxis;
}

/// On an op: a comment line that precedes the op's statement in the generated source: `tile.comment = "S = Q K^T"`.
inline constexpr llvm::StringLiteral commentAttr = "tile.comment";
/// Adds `text` to the `tile.comment` of `op`, a comment in the generated source, unless the comment contains `text`
/// already. A pass that moves a term of the user's formula adds such a comment, which says where the term is now.
void explain(mlir::Operation *op, const llvm::Twine &text);
/// The workspace operand, one i32, from which persistent blocks claim tiles of work. An earlier kernel of the launch
/// sets the counter to 0.
inline constexpr llvm::StringLiteral workCounter = "work_counter";
/// Prefixes of the names of captured tensors and run-time scalars in tile.param, to distinguish them from operands.
inline constexpr llvm::StringLiteral tensorPrefix = "tensors.", scalarPrefix = "scalars.";

/// On a kernel: an array of #tile.derived, the axes whose extents a launch computes.
inline constexpr llvm::StringLiteral derivedAttr = "tile.derived";
/// Names of derived axes, whose extents a launch computes, in this order: the query rows of all heads of a group, the
/// splits of keys, the thread blocks that the device runs at a time, the work items, and the rows of one tile.
inline constexpr llvm::StringLiteral rowsAxis = "row", splitsAxis = "split", slotsAxis = "slot_of_device",
                                     workItemsAxis = "work_item", tileRowsAxis = "row_of_tile";
llvm::SmallVector<DerivedAxisAttr> derivedAxes(mlir::Operation *kernel);
/// On a kernel until tile-pack-sequences: the #attn.sequences of which the kernel is packed.
inline constexpr llvm::StringLiteral sequencesAttr = "tile.sequences";
/// On a kernel: an array of #tile.bound, bounds on extents. A launch whose sizes satisfy all bounds skips the kernel.
inline constexpr llvm::StringLiteral leftOutAttr = "tile.skipped_if";
llvm::SmallVector<ExtentBoundAttr> skippedIf(mlir::Operation *kernel);
/// Sets `tile.skipped_if`: a launch skips `kernel` if its sizes satisfy all `bounds`. Each bound is a pair of axes: the
/// extent of the first axis is at least 1 and at most the extent of the second axis, or at most 1 if the second is "".
void skipIf(mlir::Operation *kernel, llvm::ArrayRef<std::pair<std::string, std::string>> bounds);
/// On a fallback kernel: the symbol of the kernel that it replaces in its launch. That kernel accesses captured tensors
/// or their gradients by TMA, and the fallback runs where TMA cannot address one of them.
inline constexpr llvm::StringLiteral fallbackOfAttr = "tile.fallback_of";
/// The kernel that `kernel` is the fallback of; null where `kernel` is no fallback.
mlir::Operation *fallbackOf(mlir::Operation *kernel);
/// Whether `kernel` has a fallback kernel, for launches whose tensors TMA cannot address.
bool hasFallback(mlir::Operation *kernel);

/// The operand `name` that `kernel`, a tile.kernel or sched.kernel, declares; null where there is none.
OperandAttr findOperand(mlir::Operation *kernel, llvm::StringRef name);
/// Whether the extent of `axis` is known only at launch. Such an axis is of one of three kinds: an axis in
/// `tile.derived`, whose extent the launch computes (the number of splits of the keys, for example); an axis of an
/// operand of `kernel` without a fixed extent; or a dimension of a captured tensor.
bool hasExtent(mlir::Operation *kernel, llvm::StringRef axis);
/// Rows of a block of a view with tile.blocked_rows: those of an accumulator of one warp.
inline constexpr int64_t blockRows = 16;
/// The tile.param that reads `view`, directly or as rows of several heads (tile.group_rows), of pages (tile.paged_rows)
/// or in blocks (tile.blocked_rows); null for any other view.
ParamOp parameterOf(mlir::Value view);
/// The kernel's declaration of the operand that `view` accesses; null where `view` is not of an operand.
OperandAttr operandOf(mlir::Value view);
/// The kernel's declaration of the captured tensor that `view` accesses; null where `view` is not of a captured tensor.
CapturedTensorAttr capturedTensorOf(mlir::Value view);
/// Create a tile.param that reads a captured tensor or a run-time scalar, with the name of the tensor or scalar as
/// `tile.name`.
mlir::Value readTensor(mlir::OpBuilder &builder, mlir::Location loc, CapturedTensorAttr tensor);
mlir::Value readScalar(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef name, mlir::Type type);
/// The tile.kernel or sched.kernel that contains `op`: the ancestor with the attribute `operands`.
mlir::Operation *kernelAround(mlir::Operation *op);

/// The identity element of a reduction over elements of `type`, which is f32 or a signed integer.
mlir::TypedAttr identityOf(Reduction kind, mlir::Type type);

} // namespace attune::tile
#define GET_OP_CLASSES
#include "ir/tile/TileOps.h.inc"

namespace attune::tile {
/// Whether `kernel` is `dependent` in a `tile.launch`: it may start before the previous kernel has ended.
bool isDependent(mlir::Operation *kernel);
/// Whether the kernel after `kernel` in a `tile.launch` is `dependent`: it may start before `kernel` has ended.
bool precedesDependent(mlir::Operation *kernel);
/// On a kernel: texts that say what a pass did not do for the kernel, and why. `attune explain` prints the remarks.
inline constexpr llvm::StringLiteral remarksAttr = "tile.remarks";
/// Adds `text` to the remarks of `kernel` unless the same remark is already there.
void remark(mlir::Operation *kernel, const llvm::Twine &text);
/// Whether `convert` writes to shared memory a vector that the body of a tile.for_blocks computes from coordinates and
/// from elements in global memory, without reading a tile. Producer warps, if there are any, compute the vector.
bool isStaged(ConvertOp convert);
/// The number of columns of the widest operand to which a tile.store of the kernel writes.
int64_t storedColumns(KernelOp kernel);
} // namespace attune::tile
