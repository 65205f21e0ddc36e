// Dropout that a user can reproduce: whether a probability is kept depends on its coordinates, the seed and the offset,
// and on nothing else. `kept` below is the whole definition.
#include "common.h"

using namespace attune;
using example::report;

/// 16 random bits of (b * H + h, q, k): Philox 4x32 with 7 rounds. One call serves 8 elements of a 16 x 16 block.
static uint32_t randomBits(uint64_t seed, uint64_t offset, uint32_t head, uint32_t q, uint32_t k) {
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32) ^ uint32_t(offset >> 32)};
  uint32_t c[4] = {(q >> 4) * 8 + (q & 7), (k >> 4) * 4 + ((k & 7) >> 1), head, uint32_t(offset)};
  for (int round = 0; round < 7; ++round) {
    const uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    const uint32_t next[4] = {uint32_t(b >> 32) ^ c[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ key[1],
                              uint32_t(a)};
    std::copy(next, next + 4, c);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  const uint32_t word = c[2 * (k & 1) + ((k >> 3) & 1)];
  return (q >> 3) & 1 ? word >> 16 : word & 0xffff;
}

int main() {
  const Target target = Target::detect();
  example::Problem problem(target, {.queries = 200, .keys = 170});
  auto kernel = compile(Variant("dropped").dropout(0.1f), {.dtype = bf16, .headDim = 64}, target);
  if (!kernel)
    return report(kernel.error());

  int exitCode = 0;
  for (float probability : {0.1f, 0.5f}) { // a launch value: one kernel
    const uint64_t seed = 42, offset = uint64_t(7) << 32 | 3;
    auto launched = kernel->launch(nullptr, {.q = problem.q.view(),
                                             .k = problem.k.view(),
                                             .v = problem.v.view(),
                                             .o = problem.o.view(),
                                             .dropout = probability,
                                             .seed = seed,
                                             .offset = offset});
    if (!launched)
      return report(launched.error());

    const auto threshold = std::min<uint32_t>(65535, uint32_t(std::lround(65536 * probability)));
    const float factor = 65536.0f / float(65536 - threshold);
    int64_t kept = 0;
    exitCode |= problem.check(
        "dropout", [](float s, auto...) { return s; },
        [&](int64_t, int64_t h, int64_t q, int64_t k) {
          const bool keep = randomBits(seed, offset, uint32_t(h), uint32_t(q), uint32_t(k)) >= threshold; // b is 0
          kept += keep;
          return keep ? factor : 0.0f;
        });
    std::printf("kept %.2f%% at probability %.1f\n", 100.0 * double(kept) / (4 * 200 * 170), probability);
  }
  return exitCode;
}
