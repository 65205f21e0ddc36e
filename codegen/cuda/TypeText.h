//===- TypeText.h - Types of the IR as text of the source -----------------===//
#pragma once

#include "ir/sched/Sched.h"

#include <string>

namespace attune::codegen::cuda {

/// C++ type of an element of this type in global memory, "" where tensors cannot have such elements. bf16 and f16 are
/// storage types; arithmetic is in float.
llvm::StringRef elementName(mlir::Type type);

/// C++ type of a scalar in expressions: bool for i1, and elementName for f32, i32 and i64; "" for all other types.
llvm::StringRef valueName(mlir::Type type);

/// The type as MLIR prints it.
std::string text(mlir::Type type);

/// Axes and element type of a tile, such as "stage 2 x k 64 x d 64 bf16".
std::string describe(sched::TileType type);

/// Element type of the array in which a lane holds its part of a fragment; "" if the fragment cannot be printed.
llvm::StringRef arrayElement(sched::TileType type);

/// Shape of the array in which a lane holds its part of a fragment, such as "[2][8][4]".
std::string arrayShape(sched::TileType type);

/// The axes of an operand, such as "[b, h, q, d 64]".
std::string axesText(sched::OperandAttr operand);

} // namespace attune::codegen::cuda
