//===- VectorMath.h - float32 functions on vectors --------------------------===//
//
// Polynomial approximations with float32 accuracy (a few ulp), written with arith ops on f32 or
// vector<f32>. Each keeps the IEEE special cases: NaN gives NaN, exp2(-inf) = 0, log(0) = -inf,
// log(x < 0) = NaN, denormal inputs and results are exact to rounding.
//
// Constants and polynomials: S. Moshier, Cephes Math Library, single precision.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace attune {

/// What the host's vector unit offers.
struct HostVectors {
  unsigned lanes = 4;      ///< float32 elements of a register
  unsigned registers = 16; ///< vector registers
  bool avx512 = false;
};

/// Replaces `op` (of the math dialect, f32 result) by approximations of its value at `operands`, each
/// f32 or vector<f32>. Null when the op is left to the LLVM or libm lowering.
mlir::Value approximate(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                        const HostVectors &host);

} // namespace attune
