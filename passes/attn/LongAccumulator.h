//===- LongAccumulator.h - Sums of floats in any order -----------------------===//
//
// A long accumulator (Kulisch and Miranker, 1981) holds a sum of float32 in fixed point, over all of their range: a
// row of 64-bit integers, the words, each for four exponents. Nothing is rounded and additions of integers commute, so
// that the words are the same in whatever order they are added to. Word w counts multiples of 2^(4 w - 150); a float of
// exponent field e adds its significand, shifted by e mod 4, to word e / 4:
//
//     | x      | e | word | addend            |
//     |--------|-----|------|-------------------|
//     | 1.5    | 127 | 31   | 0xC00000 << 3     | 0x6000000 * 2^-26 = 1.5
//     | -2     | 128 | 32   | -(0x800000 << 0)  | -0x800000 * 2^-22 = -2
//     | 2^-149 | 0   | 0    | 1 << 1            | subnormal: e counts as 1
//     | inf    | 255 | 64   | 1                 | how many there are
//     | -inf   | 255 | 65   | 1                 |
//     | NaN    | 255 | 66   | 1                 |
//
// An addend is below 2^27, so that no word overflows by up to 2^36 of them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Builders.h"

namespace attune::accumulator {

inline constexpr int64_t words = 67;

/// The word to which a float32 is added, as i32.
mlir::Value wordOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
/// What it adds there, as i32.
mlir::Value addendOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x);
/// What an i64 word adds to the sum, rounded to float32. Infinities of both signs add up to NaN.
mlir::Value valueOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value word, mlir::Value index);

} // namespace attune::accumulator
