#pragma once

#include <cstdint>

namespace bench {

/// Attention as a C++ programmer writes it first: plain loops, -O3 -march=native, rows of one (batch, head) shared by
/// the process's threads. Row-major [heads, length, headDim], float32.
void plainLoops(const float *q, const float *k, const float *v, float *o, int64_t heads, int64_t length,
                int64_t headDim, float scale);

} // namespace bench
