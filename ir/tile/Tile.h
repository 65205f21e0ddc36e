//===- Tile.h - The tile dialect --------------------------------------------===//
//
// Logical tiles with named axes. Reference: docs/dialects/tile.md, generated from TileOps.td.
//
//===----------------------------------------------------------------------===//
#pragma once

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

} // namespace attune::tile

#include "ir/tile/TileDialect.h.inc"
#include "ir/tile/TileEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/tile/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/tile/TileTypes.h.inc"

namespace attune::tile {
class YieldOp;

/// Whether a tile's one axis is that of distances.
inline bool isByDistance(TileType type) { return type.rank() == 1 && type.axis(0) == distanceAxis; }

/// The captured tensor, among `tensors`, that `bounds` are of; null where there is none.
CapturedTensorAttr boundedTensor(mlir::ArrayAttr tensors, BoundsAttr bounds);
/// Each of `bounds` is of an integer tensor of the kernel, along one of its dimensions.
mlir::LogicalResult verifyBounds(mlir::Operation *kernel, mlir::ArrayAttr tensors, mlir::ArrayAttr bounds);
} // namespace attune::tile
#define GET_OP_CLASSES
#include "ir/tile/TileOps.h.inc"
