//===- Numbers.h - Number formats and Philox on the host --------------------===//
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace attune::sim {

inline float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
inline float fromF16(uint16_t bits) { return float(std::bit_cast<_Float16>(bits)); }
inline uint16_t toF16(float x) { return std::bit_cast<uint16_t>(_Float16(x)); }
/// Rounded to nearest even; a NaN stays one.
inline uint16_t toBf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::isnan(x) ? uint16_t(bits >> 16 | 0x40) : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
/// Rounded to tf32's ten bits of fraction, ties away from zero (cvt.rna).
inline uint32_t toTf32(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? (bits + 0x1000) & ~0x1fffu : bits;
}

/// The product, rounded toward zero.
inline float multiplyTowardZero(float a, float b) {
  const double exact = double(a) * b;
  const float rounded = float(exact);
  return std::isfinite(exact) && std::fabs(double(rounded)) > std::fabs(exact) ? std::nextafter(rounded, 0.0f) : rounded;
}

/// Truncated, saturating at the ends of the type; 0 for NaN.
template <typename T> T toInteger(float x) {
  constexpr float end = -float(std::numeric_limits<T>::min()); // 2^31 or 2^63
  return std::isnan(x) ? T(0) : x >= end ? std::numeric_limits<T>::max() : x < -end ? std::numeric_limits<T>::min() : T(x);
}

/// `f` on the bits of a and b, modulo 2^n.
template <typename T, typename F> T wrapping(T a, T b, F f) {
  using U = std::make_unsigned_t<T>;
  return T(f(U(a), U(b)));
}
/// i1 counts modulo 2.
template <typename T> T add(T a, T b) { return wrapping(a, b, std::plus<>()); }
template <> inline bool add(bool a, bool b) { return a != b; }
template <typename T> T subtract(T a, T b) { return wrapping(a, b, std::minus<>()); }
template <> inline bool subtract(bool a, bool b) { return a != b; }
template <typename T> T times(T a, T b) { return wrapping(a, b, std::multiplies<>()); }
template <> inline bool times(bool a, bool b) { return a && b; }
/// Truncating; 0 for b = 0. The lowest number over -1 wraps.
template <typename T> T divide(T a, T b) { return b == 0 ? T(0) : b == -1 ? subtract(T(0), a) : T(a / b); }
template <typename T> T remainder(T a, T b) { return b == 0 || b == -1 ? T(0) : T(a % b); }
template <typename T> T divideUnsigned(T a, T b) { return b ? wrapping(a, b, std::divides<>()) : T(0); }
template <typename T> T remainderUnsigned(T a, T b) { return b ? wrapping(a, b, std::modulus<>()) : T(0); }
/// Rounded down, and up.
template <typename T> T divideDown(T a, T b) { return divide(a, b) - (remainder(a, b) != 0 && (a < 0) != (b < 0)); }
template <typename T> T divideUp(T a, T b) { return divide(a, b) + (remainder(a, b) != 0 && (a < 0) == (b < 0)); }

/// Philox 4x32 with 7 rounds (Salmon et al. 2011): counter c, key k.
inline std::array<uint32_t, 4> philox7(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 7; ++round) {
    uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k[1], uint32_t(a)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

} // namespace attune::sim
