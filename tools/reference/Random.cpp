//===- Random.cpp - Random tensors, many elements at once -------------------===//
//
// Element i of a tensor depends on (seed, i) alone, so blocks of elements are drawn by all cores, and within a block
// the loops below are written for the vectoriser: no branch, no call. They use only operations that IEEE 754 rounds
// exactly, in one order, and this file is compiled without contraction: every vector width, and no vectors at all, give
// the same bits.
//
//===----------------------------------------------------------------------===//
#include "tools/reference/Npy.h"
#include "tools/reference/ParallelFor.h"
#include "tools/reference/Philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace attune;
using namespace attune::reference;

namespace {

constexpr uint32_t lastWord = 0x61747475; // of the counter: these draws and no others
constexpr int blockSize = 512;            // elements that are drawn together
constexpr int lanes = 16;                 // of the widest vector

/// Elements of one block.
struct Draws {
  uint32_t low[blockSize], high[blockSize];
};

/// randomBits(seed, first + offsets[i], stream) for i < count. `first` is a multiple of blockSize, `count` of `lanes`;
/// offsets are below blockSize.
[[gnu::always_inline]] inline void draw(uint64_t seed, uint64_t first, const uint32_t *offsets, int count,
                                        uint32_t stream, Draws &to) {
#pragma clang loop vectorize(enable)
  for (int i = 0; i < count; ++i) {
    uint32_t c0 = uint32_t(first) + offsets[i], c1 = uint32_t(first >> 32), c2 = stream, c3 = lastWord;
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
#pragma clang loop unroll(full)
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53} * c0, product1 = uint64_t{0xCD9E8D57} * c2;
      c0 = uint32_t(product1 >> 32) ^ c1 ^ k0;
      c1 = uint32_t(product1);
      c2 = uint32_t(product0 >> 32) ^ c3 ^ k1;
      c3 = uint32_t(product0);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    to.low[i] = c0;
    to.high[i] = c1;
  }
}

/// An integer from 0 to 2^32 - 1 as a double, exactly.
[[gnu::always_inline]] inline double exactDouble(uint32_t value) {
  return std::bit_cast<double>(uint64_t{0x4330000000000000} | value) - 0x1p52;
}

/// Natural logarithm of 2^-64 <= x < 2: log(m * 2^e) = e * log 2 + 2 * atanh((m - 1) / (m + 1)), with m between
/// sqrt(1/2) and sqrt(2).
[[gnu::always_inline]] inline double portableLog(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000); // in [1/2, 1)
  const bool low = mantissa < 0.70710678118654752;
  mantissa = low ? mantissa * 2 : mantissa;
  const double exponent = exactDouble(uint32_t(bits >> 52)) - (low ? 1023 : 1022);
  const double z = (mantissa - 1) / (mantissa + 1), square = z * z;
  double sum = 0;
#pragma clang loop unroll(full)
  for (int term = 21; term >= 1; term -= 2) {
    const double scaled = sum * square;
    sum = scaled + 1.0 / term;
  }
  const double fromExponent = exponent * 0.69314718055994531, fromMantissa = 2 * z * sum;
  return fromExponent + fromMantissa;
}

/// Marsaglia's polar method: a normal number from each draw within the unit circle; anything where `accepted` is 0.
[[gnu::always_inline]] inline void makeNormal(const Draws &draws, int count, double *values, uint8_t *accepted) {
#pragma clang loop vectorize(enable)
  for (int i = 0; i < count; ++i) {
    const double x = (exactDouble(draws.low[i]) + 0.5) * 0x1p-31 - 1,
                 y = (exactDouble(draws.high[i]) + 0.5) * 0x1p-31 - 1;
    const double xx = x * x, yy = y * y, square = xx + yy;
    accepted[i] = square < 1;
    values[i] = x * std::sqrt(-2 * portableLog(square) / square);
  }
}

/// Elements first to first + count of N(0, 1). What attempt t rejects is drawn again from stream t + 1.
[[gnu::always_inline]] inline void drawNormal(uint64_t seed, uint64_t first, int count, double *to) {
  Draws draws;
  uint32_t offsets[blockSize];
  double values[blockSize];
  uint8_t accepted[blockSize];
  std::iota(offsets, offsets + count, 0u);
  for (uint32_t attempt = 0; count > 0; ++attempt) {
    const int padded = (count + lanes - 1) / lanes * lanes;
    std::fill(offsets + count, offsets + padded, 0u);
    draw(seed, first, offsets, padded, attempt, draws);
    makeNormal(draws, padded, values, accepted);
    int rejected = 0;
    for (int i = 0; i < count; ++i) {
      const uint32_t offset = offsets[i];
      to[offset] = values[i];
      offsets[rejected] = offset;
      rejected += !accepted[i];
    }
    count = rejected;
  }
}

/// narrowBits for values whose result is normal and finite: the fraction is rounded to nearest even, and a carry steps
/// the exponent.
template <int fractionBits, int bias>
[[gnu::always_inline]] inline void narrowAll(const double *values, int count, uint16_t *to) {
  constexpr int shift = 52 - fractionBits;
#pragma clang loop vectorize(enable)
  for (int i = 0; i < count; ++i) {
    const uint64_t bits = std::bit_cast<uint64_t>(values[i]), magnitude = bits & 0x7FFFFFFFFFFFFFFF;
    const uint64_t rounded = (magnitude + ((uint64_t{1} << (shift - 1)) - 1) + (magnitude >> shift & 1)) >> shift;
    to[i] = uint16_t((rounded - (uint64_t(1023 - bias) << fractionBits)) | (bits >> 63 << 15));
  }
}

/// One block of a tensor's elements.
[[gnu::always_inline]] inline void fillBlock(DType dtype, uint64_t seed, uint64_t first, int count, std::byte *to) {
  double values[blockSize];
  if (isFloat(dtype))
    drawNormal(seed, first, count, values);
  switch (dtype) {
  case DType::F32:
    for (int i = 0; i < count; ++i)
      reinterpret_cast<float *>(to)[i] = float(values[i]);
    return;
  case DType::BF16: // no value is below 2^-60
    return narrowAll<7, 127>(values, count, reinterpret_cast<uint16_t *>(to));
  case DType::F16:
    narrowAll<10, 15>(values, count, reinterpret_cast<uint16_t *>(to));
    for (int i = 0; i < count; ++i)
      if (std::fabs(values[i]) < 0x1p-14) // few: subnormal
        reinterpret_cast<uint16_t *>(to)[i] = narrowBits(dtype, values[i]);
    return;
  default:
    break;
  }
  Draws draws;
  uint32_t offsets[blockSize];
  std::iota(offsets, offsets + blockSize, 0u);
  draw(seed, first, offsets, blockSize, 0, draws);
  for (int i = 0; i < count; ++i) {
    const uint32_t value = draws.low[i] & (dtype == DType::Bool ? 1 : 7);
    if (dtype == DType::I64)
      reinterpret_cast<int64_t *>(to)[i] = value;
    else if (dtype == DType::I32)
      reinterpret_cast<int32_t *>(to)[i] = int32_t(value);
    else
      reinterpret_cast<uint8_t *>(to)[i] = uint8_t(value);
  }
}

using FillBlock = void (*)(DType, uint64_t, uint64_t, int, std::byte *);

void fillBlockPlain(DType dtype, uint64_t seed, uint64_t first, int count, std::byte *to) {
  fillBlock(dtype, seed, first, count, to);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void fillBlockAvx2(DType dtype, uint64_t seed, uint64_t first, int count, std::byte *to) {
  fillBlock(dtype, seed, first, count, to);
}
#ifdef __clang__
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,prefer-256-bit")]]
#else
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq")]]
#endif
void fillBlockAvx512(DType dtype, uint64_t seed, uint64_t first, int count, std::byte *to) {
  fillBlock(dtype, seed, first, count, to);
}
FillBlock widest() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return fillBlockAvx512;
  return __builtin_cpu_supports("avx2") ? fillBlockAvx2 : fillBlockPlain;
}
#else
FillBlock widest() { return fillBlockPlain; }
#endif

} // namespace

uint64_t attune::reference::randomBits(uint64_t seed, uint64_t index, uint32_t stream) {
  std::array<uint32_t, 4> words = philox4x32({uint32_t(index), uint32_t(index >> 32), stream, lastWord},
                                             {uint32_t(seed), uint32_t(seed >> 32)}, 10);
  return uint64_t(words[1]) << 32 | words[0];
}

HostTensor HostTensor::random(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  static const FillBlock fill = widest();
  HostTensor tensor = uninitialized(dtype, std::move(shape));
  const int64_t count = tensor.size();
  parallelFor((count + blockSize - 1) / blockSize, 0, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      fill(dtype, seed, uint64_t(block) * blockSize, int(std::min<int64_t>(blockSize, count - block * blockSize)),
           tensor.data.data() + size_t(block) * blockSize * byteSize(dtype));
  });
  return tensor;
}
