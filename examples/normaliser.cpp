// A normaliser of one's own: softmax to the base of 2, with a temperature for each head.
#include "common.h"

using namespace attune;
using example::report;

int main() {
  const Target target = Target::detect();
  example::Problem problem(target, {.heads = 4, .headsKv = 2, .queries = 200, .keys = 300, .headDim = 64});
  example::Array temperatureValues(target, f32, {4}, [](int64_t h) { return 0.5f + float(h); });

  // A row carries the maximum of its scores and the sum of its weights. A row that has seen no key yet has -inf for a
  // maximum, which no difference may meet: its base is 0.
  const Normaliser softmax2 = {
      .name = "softmax2",
      .statistics = {{"top", Reduction::Max, -INFINITY}, {"total", Reduction::Sum, 0}},
      .base = "top == -inf ? 0 : top",
      .rescale = "exp2((top - base) / temperature[h])",
      .p = "x == -inf ? 0 : exp2((x - base) / temperature[h])", // a hidden key, whatever the sign
      .divisor = "total",
      .tensors = {{"temperature", f32, 1}},
  };
  auto variant = Variant("softmax2").mask(causalBottomRight()).normaliser(softmax2);

  auto kernel = compile(variant, {.dtype = bf16, .headDim = 64}, target);
  if (!kernel)
    return report(kernel.error());
  // Without an lse expression the kernel has no LSE.
  auto launched = kernel->launch(nullptr, {.q = problem.q.view(),
                                           .k = problem.k.view(),
                                           .v = problem.v.view(),
                                           .o = problem.o.view(),
                                           .tensors = {{"temperature", temperatureValues.view()}}});
  if (!launched)
    return report(launched.error());

  // 2^x is e^(x ln 2).
  return problem.check("softmax to the base of 2", [&](float s, int64_t, int64_t h, int64_t q, int64_t k) {
    return k - 300 <= q - 200 ? s * std::log(2.0f) / temperatureValues[h] : -INFINITY;
  });
}
