#include "bench/PlainLoops.h"

#include "runtime/ThreadPool.h"

#include <algorithm>
#include <cmath>

void bench::plainLoops(const float *q, const float *k, const float *v, float *o, int64_t heads, int64_t length,
                       int64_t headDim, float scale) {
  constexpr int64_t rows = 16;
  const int64_t blocks = (length + rows - 1) / rows;
  attune::ThreadPool::process().run(
      size_t(heads * blocks), size_t(length) * sizeof(float), [&](size_t block, void *scratch) {
        auto *p = static_cast<float *>(scratch);
        const int64_t head = int64_t(block) / blocks * length * headDim, begin = int64_t(block) % blocks * rows;
        for (int64_t i = begin; i < std::min(begin + rows, length); ++i) {
          const float *query = q + head + i * headDim;
          float m = -INFINITY, l = 0;
          for (int64_t j = 0; j < length; ++j) {
            float s = 0;
            for (int64_t d = 0; d < headDim; ++d)
              s += query[d] * k[head + j * headDim + d];
            p[j] = s * scale;
            m = std::max(m, p[j]);
          }
          for (int64_t j = 0; j < length; ++j)
            l += p[j] = std::exp(p[j] - m);
          float *out = o + head + i * headDim;
          std::fill(out, out + headDim, 0.0f);
          for (int64_t j = 0; j < length; ++j)
            for (int64_t d = 0; d < headDim; ++d)
              out[d] += p[j] / l * v[head + j * headDim + d];
        }
      });
}
