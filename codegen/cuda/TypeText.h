//===- TypeText.h - Types of the IR as text of the source -----------------===//
#pragma once

#include "ir/sched/Sched.h"

#include <string>

namespace attune::codegen::cuda {

/// Type of an element in global memory; 16-bit floats are storage only.
llvm::StringRef elementName(mlir::Type type);

/// Type of a value in expressions.
llvm::StringRef valueName(mlir::Type type);

/// As MLIR prints it.
std::string text(mlir::Type type);

/// "stage 2 x k 64 x d 64 bf16"
std::string describe(sched::TileType type);

/// Element type of a lane's array, or "".
llvm::StringRef arrayElement(sched::TileType type);

/// "[2][8][4]"
std::string arrayShape(sched::TileType type);

/// "[b, h, q, d 64]"
std::string axesText(sched::OperandAttr operand);

} // namespace attune::codegen::cuda
