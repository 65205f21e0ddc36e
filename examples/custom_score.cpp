// A score of one's own: Gemma's soft cap with ALiBi in a local window. The snippet of README.md.
#include "common.h"

using namespace attune;
using example::report;

int main() {
  const Target target = Target::detect();
  example::Problem problem(target, {.heads = 4, .headsKv = 4, .queries = 300, .keys = 300, .headDim = 128});
  example::Array slopeValues(target, f32, {4}, [](int64_t h) { return std::exp2(-2.0f * float(h + 1)); });
  Tensor q = problem.q.view(), k = problem.k.view(), v = problem.v.view(), o = problem.o.view();
  Tensor view = slopeValues.view();
  Stream stream = nullptr;

  // [README
  auto slopes = captured("slopes", f32, rank(1));
  auto variant =
      Variant("gemma_local")
          .score([&](Score s, Index, Index h, Index q, Index k) { return softcap(s, 50.0f) + slopes[h] * (k - q); })
          .mask([](Index, Index, Index q, Index k) { return q >= k && q - k < 128; });
  auto kernel = compile(variant, {.dtype = bf16, .headDim = 128}, target); // target: Target::detect()
  if (!kernel)
    return report(kernel.error()); // its text() has your file and line
  auto launched = kernel->launch(stream, {.q = q, .k = k, .v = v, .o = o, .tensors = {{"slopes", view}}});
  // README]
  if (!launched)
    return report(launched.error());

  return problem.check("softcap + ALiBi + window", [&](float s, int64_t, int64_t h, int64_t q, int64_t k) {
    return q >= k && q - k < 128 ? 50 * std::tanh(s / 50) + slopeValues[h] * float(k - q) : -INFINITY;
  });
}
