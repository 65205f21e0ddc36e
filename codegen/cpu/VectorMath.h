//===- VectorMath.h - float32 functions on vectors --------------------------===//
//
// Polynomial approximations with float32 accuracy (a few ulp), built from arith ops on f32 or vector<f32>. Every
// function keeps the IEEE special cases: NaN gives NaN, exp2(-inf) = 0, log(0) = -inf, log(x < 0) = NaN. Denormal
// inputs and results are as accurate as others.
//
// Constants and polynomials: S. Moshier, Cephes Math Library, single precision.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace attune {

/// The properties of the host's vector unit.
struct HostVectors {
  unsigned lanes = 4;      ///< float32 elements of a vector register
  unsigned registers = 16; ///< number of vector registers
  bool avx512 = false;
};

/// Emits an approximation of `op` (math dialect, f32 result) at `operands`, each f32 or vector<f32>. Returns null where
/// the LLVM or libm lowering of the op is to be used.
mlir::Value approximate(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                        const HostVectors &host);

} // namespace attune
