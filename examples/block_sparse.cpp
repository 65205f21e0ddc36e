// An explicit pattern of blocks (FlashAttention, Algorithm 5): hidden blocks are neither loaded nor computed. Here a
// band of blocks and the first column, as in BigBird, that moves with the head; the mask inside of the blocks stays
// free.
#include "common.h"

using namespace attune;
using example::report;

int main() {
  const Target target = Target::detect();
  const int64_t H = 4, S = 512, block = 64, blocks = S / block;
  example::Problem problem(target, {.heads = H, .headsKv = H, .queries = S, .keys = S});
  auto visible = [](int64_t h, int64_t row, int64_t column) { return column == 0 || std::abs(row - column) <= h; };
  int64_t count = 0;
  example::Array patternValues(target, boolean, {H, blocks, blocks}, [&](int64_t i) {
    const bool kept = visible(i / (blocks * blocks), i / blocks % blocks, i % blocks);
    count += kept;
    return float(kept);
  });

  auto pattern = captured("pattern", boolean, rank(3));
  auto variant = Variant("big_bird").mask(causal()).blocks(pattern, block, block);
  auto kernel = compile(variant, {.dtype = bf16, .headDim = 64}, target);
  if (!kernel)
    return report(kernel.error());
  auto launched = kernel->launch(nullptr, {.q = problem.q.view(),
                                           .k = problem.k.view(),
                                           .v = problem.v.view(),
                                           .o = problem.o.view(),
                                           .tensors = {{"pattern", patternValues.view()}}});
  if (!launched)
    return report(launched.error());
  std::printf("%lld of %lld blocks are visible\n", (long long)count, (long long)(H * blocks * blocks));
  return problem.check("causal in those blocks", [&](float s, int64_t, int64_t h, int64_t q, int64_t k) {
    return q >= k && visible(h, q / block, k / block) ? s : -INFINITY;
  });
}
