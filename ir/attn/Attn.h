//===- Attn.h - The attn dialect --------------------------------------------===//
//
// What a variant computes. Reference: docs/dialects/attn.md, generated from AttnOps.td.
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

/// The module's attribute that holds the variant it was made from, an #attn.variant.
inline constexpr llvm::StringLiteral variantAttr = "attn.variant";

/// The plan of an attention: a PlanAttr.
inline constexpr llvm::StringLiteral planAttr = "attn.plan";
/// Of a backward pass, where the loop over keys has a plan of its own.
inline constexpr llvm::StringLiteral queriesPlanAttr = "attn.queries_plan";
/// A unit: the loop over queries of a backward pass adds dQ up in memory, in no particular order.
inline constexpr llvm::StringLiteral accumulatesDqAttr = "attn.accumulates_dq";
/// What attn-recompute has weighed, in words.
inline constexpr llvm::StringLiteral decisionsAttr = "attn.recompute";
/// On an op of the score region: what it gives is left for the backward pass.
inline constexpr llvm::StringLiteral savedAttr = "attn.saved";

/// The type that an element of `type` has inside expressions: f16 and bf16 widen to f32, i8 is bool.
mlir::Type valueType(mlir::Type type);

} // namespace attune::attn
