//===- common.h - What the examples share -----------------------------------===//
//
// Arrays on the target's device, and attention as plain loops to compare with. A program of yours has arrays of its
// own, from cudaMalloc, PyTorch or elsewhere, and passes views of them (attune/Tensor.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "device_memory.h"

#include "attune/attune.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <random>

namespace example {
using namespace attune;

/// Prints an error and returns the exit code for it.
inline int report(const Error &error) {
  std::fprintf(stderr, "%s\n", error.text().c_str());
  return 1;
}

/// The element as memory holds it; bf16 is the upper half of a float, rounded to nearest even.
inline void store(DType dtype, float value, char *to) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto half = uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  auto integer = int32_t(value);
  bool truth = value != 0;
  std::memcpy(to,
              dtype == bf16      ? (void *)&half
              : dtype == i32     ? &integer
              : dtype == boolean ? &truth
                                 : (void *)&value,
              byteSize(dtype));
}

inline float load(DType dtype, const char *from) {
  uint32_t bits = 0;
  std::memcpy(&bits, from, byteSize(dtype));
  return dtype == bf16  ? std::bit_cast<float>(bits << 16)
         : dtype == f32 ? std::bit_cast<float>(bits)
                        : float(int32_t(bits));
}

/// A row-major array of f32, bf16, i32 or bool on the device of `target`, made by value(i) for each flat index.
class Array {
public:
  template <typename Value>
  Array(const Target &target, DType dtype, std::vector<int64_t> shape, Value &&value)
      : target(target), dtype(dtype), shape(std::move(shape)) {
    int64_t elements = 1;
    for (int64_t extent : this->shape)
      elements *= extent;
    bytes.resize(std::max<size_t>(1, elements * byteSize(dtype)));
    for (int64_t i = 0; i < elements; ++i)
      store(dtype, value(i), &bytes[i * byteSize(dtype)]);
    if (!target.isCuda())
      return;
    device = DeviceMemory(target.device, bytes.size());
    device.write(bytes.data());
  }

  /// Normally distributed.
  static Array random(const Target &target, DType dtype, std::vector<int64_t> shape, unsigned seed) {
    std::mt19937 generator(seed);
    return Array(target, dtype, std::move(shape),
                 [&, normal = std::normal_distribution<float>()](int64_t) mutable { return normal(generator); });
  }

  Tensor view() {
    void *data = target.isCuda() ? device.data() : bytes.data();
    return Tensor::contiguous(data, dtype, shape, target.isCuda() ? Device::cuda(target.device) : Device::cpu());
  }
  /// Brings the device's values to the host, after all work before.
  void fetch() {
    if (target.isCuda())
      device.read(bytes.data());
  }
  float operator[](int64_t i) const { return load(dtype, &bytes[i * byteSize(dtype)]); }

private:
  Target target;
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<char> bytes;
  DeviceMemory device;
};

struct Sizes {
  int64_t batch = 1, heads = 4, headsKv = 4, queries = 256, keys = 256, headDim = 64;
};

/// Q, K, V and O of one attention, in bf16.
struct Problem {
  Problem(const Target &target, const Sizes &sizes)
      : sizes(sizes), q(Array::random(target, bf16, {sizes.batch, sizes.heads, sizes.queries, sizes.headDim}, 1)),
        k(Array::random(target, bf16, {sizes.batch, sizes.headsKv, sizes.keys, sizes.headDim}, 2)),
        v(Array::random(target, bf16, {sizes.batch, sizes.headsKv, sizes.keys, sizes.headDim}, 3)),
        o(target, bf16, {sizes.batch, sizes.heads, sizes.queries, sizes.headDim}, [](int64_t) { return NAN; }) {}

  /// Compares O with plain loops and prints the largest difference; the program's exit code. `score` maps
  /// (s, b, h, q, k) to the score, -infinity for a hidden key, and `keep` to the factor of a probability.
  template <typename Score, typename Keep> int check(const char *what, Score &&score, Keep &&keep) {
    o.fetch();
    const int64_t D = sizes.headDim, group = sizes.heads / sizes.headsKv;
    const float scale = 1 / std::sqrt(float(D));
    float worst = 0;
    std::vector<float> x(sizes.keys), row(D);
    for (int64_t b = 0; b < sizes.batch; ++b)
      for (int64_t h = 0; h < sizes.heads; ++h)
        for (int64_t i = 0; i < sizes.queries; ++i) {
          const int64_t qRow = ((b * sizes.heads + h) * sizes.queries + i) * D;
          const int64_t head = (b * sizes.headsKv + h / group) * sizes.keys * D;
          float m = -INFINITY, l = 0;
          for (int64_t j = 0; j < sizes.keys; ++j) {
            float s = 0;
            for (int64_t d = 0; d < D; ++d)
              s += q[qRow + d] * k[head + j * D + d];
            x[j] = score(s * scale, b, h, i, j);
            m = std::max(m, x[j]);
          }
          std::fill(row.begin(), row.end(), 0.0f);
          for (int64_t j = 0; j < sizes.keys; ++j) {
            const float p = x[j] == -INFINITY ? 0 : std::exp(x[j] - m);
            const float weight = p * keep(b, h, i, j);
            l += p;
            for (int64_t d = 0; weight != 0 && d < D; ++d)
              row[d] += weight * v[head + j * D + d];
          }
          for (int64_t d = 0; d < D; ++d) {
            const float difference = std::abs(o[qRow + d] - (l > 0 ? row[d] / l : 0));
            worst = difference <= worst ? worst : difference; // a NaN stays
          }
        }
    const bool good = worst < 0.03f; // bf16 keeps 8 bits of values up to 4
    std::printf("%s: largest difference from plain loops %.4f%s\n", what, worst, good ? "" : ", WRONG");
    return good ? 0 : 1;
  }
  template <typename Score> int check(const char *what, Score &&score) {
    return check(what, score, [](auto...) { return 1.0f; });
  }

  Sizes sizes;
  Array q, k, v, o;
};

} // namespace example
