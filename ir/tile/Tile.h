//===- Tile.h - The tile dialect --------------------------------------------===//
//
// Logical tiles with named axes. Reference: docs/dialects/tile.md, generated from TileOps.td.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"
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

/// Where a tile lives.
enum class MemorySpace { Shared, Register };
llvm::StringRef stringifyMemorySpace(MemorySpace space);
inline llvm::hash_code hash_value(MemorySpace space) { return llvm::hash_value(int(space)); }

using attune::OperandRole;
class ViewType;

/// The attribute that carries an op's name into the generated source: `tile.name = "scores"`.
inline constexpr llvm::StringLiteral nameAttr = "tile.name";
/// The attribute that carries the names of several arguments or results: `tile.names = ["tile", "slot"]`.
inline constexpr llvm::StringLiteral namesAttr = "tile.names";
/// Sets `name` on `op` and returns its result.
mlir::Value named(mlir::Value value, llvm::StringRef name);
/// The name that `value`'s op carries, or "".
llvm::StringRef nameOf(mlir::Value value);

/// The axis along which a tile holds a value for each distance between a row and a key (tile.map).
inline constexpr llvm::StringLiteral distanceAxis = "distance";
/// That of the parts of a tile's rows, each with its own distances (tile.sum_diagonals).
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
/// `(q: in [b, h, q, d 64] bf16, ...)`: the operands of tile.kernel and sched.kernel.
mlir::ParseResult parseOperands(mlir::OpAsmParser &parser, mlir::ArrayAttr &operands);
void printOperands(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr operands);
/// `[b, h, q by 128]`: their grids.
mlir::ParseResult parseGrid(mlir::OpAsmParser &parser, mlir::ArrayAttr &grid);
void printGrid(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr grid);
} // namespace attune::tile

namespace attune::tile {
class ParamOp;
class YieldOp;

/// Whether a tile's one axis is that of distances.
inline bool isRelative(TileType type) { return type.rank() == 1 && type.axis(0) == distanceAxis; }
/// Whether it has those of each part of the rows.
inline bool isByPart(TileType type) {
  return type.rank() == 2 && type.axis(0) == partAxis && type.axis(1) == distanceAxis;
}

/// The attribute of an op above whose source stands a comment line: `tile.comment = "S = Q K^T"`.
inline constexpr llvm::StringLiteral commentAttr = "tile.comment";
/// Adds a sentence to the comment of `op`, once: where a pass has put a term of the user's formula.
void explain(mlir::Operation *op, const llvm::Twine &text);
/// The workspace operand, one i32, from which persistent blocks claim tiles of work: a kernel before sets it to 0.
inline constexpr llvm::StringLiteral workCounter = "work_counter";
/// In front of the names of captured tensors and run-time scalars where a kernel reads them (tile.param), apart from
/// its operands' names.
inline constexpr llvm::StringLiteral tensorPrefix = "tensors.", scalarPrefix = "scalars.";

/// On a kernel: an array of the axes whose extents a launch computes, each a #tile.derived.
inline constexpr llvm::StringLiteral derivedAttr = "tile.derived";
/// The axis of the rows of a group's query heads, that of the shares of keys, that of blocks that run at a time, that of pieces
/// of work, and that of the rows of one.
inline constexpr llvm::StringLiteral rowsAxis = "row", splitsAxis = "split", slotsAxis = "slot_of_device",
                                     workItemsAxis = "piece", tileRowsAxis = "row_of_tile";
llvm::SmallVector<DerivedAxisAttr> derivedAxes(mlir::Operation *kernel);
/// On a kernel: an array of #tile.bound; a launch whose sizes keep all of them leaves the kernel out.
inline constexpr llvm::StringLiteral leftOutAttr = "tile.skipped_if";
llvm::SmallVector<ExtentBoundAttr> skippedIf(mlir::Operation *kernel);
/// Each an axis, and the one whose extent it has at most; "" for 1.
void skipIf(mlir::Operation *kernel, llvm::ArrayRef<std::pair<std::string, std::string>> bounds);
/// On a kernel: the symbol of another one of its launch, which reads captured tensors by TMA, or writes their
/// gradients: it starts in that one's place where the engine cannot.
inline constexpr llvm::StringLiteral fallbackOfAttr = "tile.fallback_of";
/// The kernel in whose place `kernel` starts; null where it stands for none.
mlir::Operation *fallbackOf(mlir::Operation *kernel);
/// Whether another kernel starts in the place of `kernel` where TMA cannot read or write its tensors.
bool hasFallback(mlir::Operation *kernel);

/// The operand `name` that `kernel`, a tile.kernel or sched.kernel, declares; null where there is none.
OperandAttr findOperand(mlir::Operation *kernel, llvm::StringRef name);
/// Whether a launch gives the extent of an axis: of one of `kernel`'s operands, or of a captured tensor's dimension.
bool hasExtent(mlir::Operation *kernel, llvm::StringRef axis);
/// What reads the parameter behind a view, of a group's or of pages' rows too; null for any other view.
ParamOp parameterOf(mlir::Value view);
/// The declaration of the operand that `view` is read as by `tile.param`; null for any other view.
OperandAttr operandOf(mlir::Value view);
/// The captured tensor that `view` is read as by `tile.param`; null for any other view.
CapturedTensorAttr capturedTensorOf(mlir::Value view);
/// Reads of a captured tensor and of a run-time scalar, each with its own name in the generated source.
mlir::Value readTensor(mlir::OpBuilder &builder, mlir::Location loc, CapturedTensorAttr tensor);
mlir::Value readScalar(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef name, mlir::Type type);
/// The kernel around `op`, at whatever stage: the op that declares operands.
mlir::Operation *kernelAround(mlir::Operation *op);

/// What a reduction of elements of `type`, f32 or a signed integer, begins with: it changes none that it is combined
/// with.
mlir::TypedAttr identityOf(Reduction kind, mlir::Type type);

} // namespace attune::tile
#define GET_OP_CLASSES
#include "ir/tile/TileOps.h.inc"

namespace attune::tile {
/// Whether a `tile.launch` of its module starts `kernel` beside the one before it.
bool isDependent(mlir::Operation *kernel);
/// Whether the kernel behind it in a `tile.launch` may.
bool precedesDependent(mlir::Operation *kernel);
/// What a pass did not do for `kernel`, and why: an entry of its `tile.remarks`, which `attune explain` shows. The same
/// remark stands once.
inline constexpr llvm::StringLiteral remarksAttr = "tile.remarks";
void remark(mlir::Operation *kernel, const llvm::Twine &text);
/// Whether a loop's vector that follows from no tile goes to shared memory: where there are producer warps, they compute it.
bool isStaged(ConvertOp convert);
/// Columns of the widest tile that the kernel stores to a tiled operand.
int64_t storedColumns(KernelOp kernel);
} // namespace attune::tile
