// Tensors and scalars that a score reads: ALiBi's slopes, a bias shared by the heads, and a temperature that changes
// between launches of one kernel.
#include "common.h"

using namespace attune;
using example::report;

int main() {
  const Target target = Target::detect();
  const int64_t H = 4, S = 200;
  example::Problem problem(target, {.heads = H, .headsKv = H, .queries = S, .keys = S});
  example::Array slopeValues(target, f32, {H}, [](int64_t h) { return std::exp2(-2.0f * float(h + 1)); });
  example::Array biasValues = example::Array::random(target, bf16, {1, S, S}, 4);

  auto slopes = captured("slopes", f32, rank(1));
  auto table = captured("bias", bf16, rank(3));
  auto temperature = scalar("temperature", f32);
  auto variant = Variant("biased")
                     .score([&](Score s, Index, Index, Index, Index) { return s / temperature; })
                     .score(alibi(slopes) | bias(table));
  auto kernel = compile(variant, {.dtype = bf16, .headDim = 64}, target);
  if (!kernel)
    return report(kernel.error());

  int exitCode = 0;
  for (float value : {1.0f, 0.5f}) {
    // One [S, S] bias for all heads: a dimension of extent 1, repeated without a copy.
    auto launched = kernel->launch(
        nullptr, {.q = problem.q.view(),
                  .k = problem.k.view(),
                  .v = problem.v.view(),
                  .o = problem.o.view(),
                  .tensors = {{"slopes", slopeValues.view()}, {"bias", biasValues.view().broadcast(0, H)}},
                  .scalars = {{"temperature", value}}});
    if (!launched)
      return report(launched.error());
    exitCode |= problem.check("ALiBi + bias", [&](float s, int64_t, int64_t h, int64_t q, int64_t k) {
      return s / value + slopeValues[h] * float(k - q) + biasValues[q * S + k];
    });
  }
  return exitCode;
}
