//===- Numbers.h - Number formats and Philox on the host --------------------===//
#pragma once

#include "dsl/Arithmetic.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace attune::sim {

inline uint16_t toF16(float x) { return std::bit_cast<uint16_t>(_Float16(x)); }
/// Rounds to nearest, ties to even. A NaN stays a NaN.
inline uint16_t toBf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::isnan(x) ? uint16_t(bits >> 16 | 0x40) : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
/// Rounds to tf32, which has ten fraction bits; ties away from zero (cvt.rna).
inline uint32_t toTf32(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000) & ~0x1fffu : bits;
}

/// a * b, rounded toward zero.
inline float multiplyTowardZero(float a, float b) {
  const double exact = double(a) * b;
  const float rounded = float(exact);
  return std::isfinite(exact) && std::fabs(double(rounded)) > std::fabs(exact) ? std::nextafter(rounded, 0.0f)
                                                                               : rounded;
}

using dsl::add;
using dsl::divide;
using dsl::fromBf16;
using dsl::fromF16;
using dsl::remainder;
using dsl::subtract;
using dsl::times;
using dsl::toInteger;
using dsl::wrapping;

template <typename T> T divideUnsigned(T a, T b) { return b ? wrapping(a, b, std::divides<>()) : T(0); }
template <typename T> T remainderUnsigned(T a, T b) { return b ? wrapping(a, b, std::modulus<>()) : T(0); }
/// Signed division, rounded toward minus infinity (divideDown) or plus infinity (divideUp).
template <typename T> T divideDown(T a, T b) { return divide(a, b) - (remainder(a, b) != 0 && (a < 0) != (b < 0)); }
template <typename T> T divideUp(T a, T b) { return divide(a, b) + (remainder(a, b) != 0 && (a < 0) == (b < 0)); }

/// Philox 4x32 with 7 rounds (Salmon et al. 2011), for counter c and key k.
inline std::array<uint32_t, 4> philox7(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 7; ++round) {
    uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k[1], uint32_t(a)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

} // namespace attune::sim
