// Grouped queries: several query heads read one head of K and V. The group is a launch value of any size, so that one
// kernel serves multi-head, grouped-query and multi-query attention, and any length.
#include "common.h"

using namespace attune;
using example::report;

int main() {
  const Target target = Target::detect();
  auto kernel = compile(Variant("causal").mask(causalBottomRight()), {.dtype = bf16, .headDim = 64}, target);
  if (!kernel)
    return report(kernel.error());

  int exitCode = 0;
  for (int64_t headsKv : {6, 2, 1})    // 6 query heads: groups of 1, 3 and 6
    for (int64_t queries : {1, 160}) { // one token to decode, and a prompt, over 170 keys
      example::Problem problem(target, {.heads = 6, .headsKv = headsKv, .queries = queries, .keys = 170});
      auto launched = kernel->launch(
          nullptr, {.q = problem.q.view(), .k = problem.k.view(), .v = problem.v.view(), .o = problem.o.view()});
      if (!launched)
        return report(launched.error());
      std::printf("6 heads over %lld, %lld queries: ", (long long)headsKv, (long long)queries);
      exitCode |= problem.check("causal", [&](float s, int64_t, int64_t, int64_t q, int64_t k) {
        return k - 170 <= q - queries ? s : -INFINITY;
      });
    }
  return exitCode;
}
