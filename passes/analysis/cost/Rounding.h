//===- Rounding.h - Integer division and rounding, upwards -------------------===//
#pragma once

#include <cstdint>

namespace attune {

constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t roundUp(int64_t value, int64_t step) { return ceilDiv(value, step) * step; }

} // namespace attune
