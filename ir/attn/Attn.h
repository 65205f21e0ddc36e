//===- Attn.h - The attn dialect --------------------------------------------===//
//
// The attn dialect holds a variant's formulas. Reference: docs/reference/dialects/attn.md, generated from AttnOps.td.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <array>

#include "ir/attn/AttnDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/attn/AttnAttrs.h.inc"
#define GET_OP_CLASSES
#include "ir/attn/AttnOps.h.inc"

namespace attune::attn {

/// On a module: the variant from which the module was built, an #attn.variant.
inline constexpr llvm::StringLiteral variantAttr = "attn.variant";

/// On an attention: the plan of its kernels (tile sizes and schedule), a PlanAttr.
inline constexpr llvm::StringLiteral planAttr = "attn.plan";
/// On a backward pass: the plan of the kernel that loops over keys to compute dQ, where that plan differs from
/// `attn.plan`.
inline constexpr llvm::StringLiteral queriesPlanAttr = "attn.queries_plan";
/// On a backward pass, a unit attribute: the kernel that loops over queries to compute dK and dV also accumulates dQ in
/// global memory, by atomic additions in no fixed order.
inline constexpr llvm::StringLiteral accumulatesDqAttr = "attn.accumulates_dq";
/// On a backward pass, a unit attribute: dV is computed by a kernel of its own, so that each kernel that loops over
/// queries has one accumulator.
inline constexpr llvm::StringLiteral separateDvAttr = "attn.separate_dv";
/// On a backward pass, an array of strings: for each value, whether attn-recompute saves or recomputes it, and why.
inline constexpr llvm::StringLiteral decisionsAttr = "attn.recompute";
/// On an op of the score region: the forward pass saves the op's result for the backward pass.
inline constexpr llvm::StringLiteral savedAttr = "attn.saved";

/// The type that expressions use for an element of type `type` in memory: f32 for f16 and bf16, i1 for i8 (bool), else
/// `type`.
mlir::Type valueType(mlir::Type type);

/// The name of the result of a binary search (attn.search) in the captured vector `vector`.
inline std::string nameOfSearch(llvm::StringRef vector) { return (vector + "_count").str(); }

} // namespace attune::attn
