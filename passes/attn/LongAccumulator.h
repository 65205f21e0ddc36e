//===- LongAccumulator.h - Float32 sums that do not depend on the order of additions ---===//
//
// A long accumulator (Kulisch and Miranker, 1981) holds a sum of float32 in fixed point over the whole range of
// float32: an array of 64-bit integers (words), of which each covers four exponents. No addition rounds, and integer
// additions commute, so the words are the same for every order of additions. Word w counts multiples of 2^(4 w - 150).
// A float with exponent field e adds its significand, shifted by e mod 4, to word e / 4:
//
//     | x      | e | word | addend            |
//     |--------|-----|------|-------------------|
//     | 1.5    | 127 | 31   | 0xC00000 << 3     | 0x6000000 * 2^-26 = 1.5
//     | -2     | 128 | 32   | -(0x800000 << 0)  | -0x800000 * 2^-22 = -2
//     | 2^-149 | 0   | 0    | 1 << 1            | subnormal: e counts as 1
//     | inf    | 255 | 64   | 1                 | the word counts infinities
//     | -inf   | 255 | 65   | 1                 |
//     | NaN    | 255 | 66   | 1                 |
//
// An addend is below 2^27, so 2^36 additions cannot overflow a word.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Builders.h"

namespace attune::accumulator {

inline constexpr int64_t words = 67;

/// The index of the word of a long accumulator to which the float32 `x` is added, as i32.
mlir::Value wordOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
/// The integer that `x` adds to its word, as i32.
mlir::Value addendOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
/// The value, rounded to float32, of the i64 `word` at position `index` of a long accumulator, which holds an exact sum
/// of floats in many words. The accumulator's value is the sum over its words. Infinities of both signs add up to NaN.
mlir::Value valueOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value word, mlir::Value index);

} // namespace attune::accumulator
