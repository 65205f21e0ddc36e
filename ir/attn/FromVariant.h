//===- FromVariant.h - From the expression graph to attn --------------------===//
//
// The first lowering: a Variant, which has no sizes, becomes one attn.attention for a dtype and head dims.
//
//     auto module = buildAttention(context, Variant("causal").mask(causal()), bf16, 128, 128);
//     if (!module) return report(module.error());
//     (*module)->dump();
//
//     attn.attention @causal dtype bf16 head_dim 128 x 128 scale 0.0883883461 score {
//     } mask {
//     ^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
//       %0 = arith.cmpi sge, %q, %k : i32
//       attn.yield %0 : i1
//     }
//
// Each operation carries the user's file, line and column. The regions have no undefined results, whatever the
// inputs, so that every later pass may move, duplicate and speculate their ops:
//
//     | expression           | ops                                                                      |
//     |----------------------|--------------------------------------------------------------------------|
//     | x / n, constant n    | divsi; 0 for n = 0; 0 - x for n = -1                                     |
//     | x / y                | y == 0 ? 0 : y == -1 ? 0 - x : x / y; divsi gets 1 where y is 0 or -1    |
//     | x % y                | remsi by y; where y is 0 or -1, remsi by 1, which gives 0                |
//     | x << y, x >> y       | shli, shrsi by y & (width - 1)                                           |
//     | min, max of floats   | minnumf, maxnumf: where one operand is NaN, the other operand            |
//     | cast(float, integer) | fptosi of x where x is in range, of 0 elsewhere; selects then saturate   |
//
// A subexpression that occurs twice in a region is built once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Variant.h"
#include "ir/attn/Attn.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace attune {

/// A module with one attn.attention that computes `variant` on tensors of `dtype` (f16, bf16 or f32), with
/// `headDim` columns in Q and K and `headDimV` in V. Without Variant::scale the scale is 1 / sqrt(headDim).
/// Loads the dialects of the module's ops into `context`. Returns the variant's own error if there is one, else an
/// error for a dtype or head dim that attn does not support (head dims are multiples of 8 up to maxHeadDim).
Expected<mlir::OwningOpRef<mlir::ModuleOp>> buildAttention(mlir::MLIRContext &context, const Variant &variant,
                                                           DType dtype, int headDim, int headDimV);

/// Sets the normaliser of `op` (softmax, or what replaces it), which has none yet: its name, row statistics and
/// regions. `op` must already capture the tensors that the expressions of `normaliser` read.
void writeNormaliser(attn::AttentionOp op, const Normaliser &normaliser);
/// Writes the definition of softmax into `op`, which has no normaliser yet and thus means softmax implicitly.
inline void writeSoftmax(attn::AttentionOp op) { writeNormaliser(op, normalisers::softmax()); }

} // namespace attune
