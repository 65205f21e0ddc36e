//===- Arithmetic.h - Integer arithmetic and conversions of expressions -----===//
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace attune::dsl {

inline float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
inline float fromF16(uint16_t bits) { return float(std::bit_cast<_Float16>(bits)); }

/// Converts a float to an integer: truncates, saturates at the ends of the type, and gives 0 for NaN.
template <typename T> T toInteger(float x) {
  constexpr float end = -float(std::numeric_limits<T>::min()); // 2^31 or 2^63
  return std::isnan(x) ? T(0)
         : x >= end    ? std::numeric_limits<T>::max()
         : x < -end    ? std::numeric_limits<T>::min()
                       : T(x);
}

/// Applies `f` to a and b as unsigned integers, so that the result wraps modulo 2^n.
template <typename T, typename F> T wrapping(T a, T b, F f) {
  using U = std::make_unsigned_t<T>;
  return T(f(U(a), U(b)));
}
/// Addition, subtraction and multiplication wrap. A bool is a 1-bit integer, with arithmetic modulo 2.
template <typename T> T add(T a, T b) { return wrapping(a, b, std::plus<>()); }
template <> inline bool add(bool a, bool b) { return a != b; }
template <typename T> T subtract(T a, T b) { return wrapping(a, b, std::minus<>()); }
template <> inline bool subtract(bool a, bool b) { return a != b; }
template <typename T> T times(T a, T b) { return wrapping(a, b, std::multiplies<>()); }
template <> inline bool times(bool a, bool b) { return a && b; }
/// Division and remainder truncate toward zero and give 0 for b = 0. The lowest number divided by -1 wraps.
template <typename T> T divide(T a, T b) { return b == 0 ? T(0) : b == -1 ? subtract(T(0), a) : T(a / b); }
template <typename T> T remainder(T a, T b) { return b == 0 || b == -1 ? T(0) : T(a % b); }

/// Whether an element of a vector in ascending order comes before x in it: where it is < x, or with `isRight` <= x. NaN
/// comes after all numbers.
template <typename T> bool isBefore(T element, T x, bool isRight) {
  return isRight ? element <= x || x != x : element < x || (x != x && element == element);
}

} // namespace attune::dsl
