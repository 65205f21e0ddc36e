// Shared memory is a budget: the compiler's plan for M bytes a block, what it costs in memory traffic, and the error
// where even the smallest plan does not fit.
#include "common.h"

#include <nlohmann/json.hpp>

using namespace attune;
using example::report;

int main() {
  auto variant = Variant("causal").mask(causal());
  const Target target = Target::cuda("sm_90");

  std::printf("causal, bf16, head dim 128, for %s\n%10s %8s  %s\n", target.text().c_str(), "budget", "L2 GB", "plan");
  double lastBytes = 0;
  for (size_t budget : {size_t(0), size_t(64) << 10, size_t(32) << 10}) {
    Expected<std::string> text = explain(variant, {.dtype = bf16, .headDim = 128, .sramBudget = budget}, target);
    if (!text)
      return report(text.error());
    const auto plan = nlohmann::json::parse(*text)["plan"];
    const size_t used = plan["shared"]["bytes"], limit = plan["shared"]["budget"];
    const double bytes = plan["traffic"]["bytes"];
    std::printf("%10zu %8.2f  %s: %zu bytes\n", limit, bytes / 1e9, plan["text"].get<std::string>().c_str(), used);
    if (used > limit || bytes < 0.95 * lastBytes) // less memory on the chip is more traffic off it
      return 1;
    lastBytes = bytes;
  }

  Expected<std::string> tooSmall = explain(variant, {.dtype = bf16, .headDim = 128, .sramBudget = 8 << 10}, target);
  if (tooSmall)
    return 1;
  std::printf("%10d  %s\n", 8 << 10, tooSmall.error().text().c_str());

  // What the kernel computes does not depend on the budget.
  const Target here = Target::detect();
  example::Problem problem(here, {});
  auto kernel = compile(variant, {.dtype = bf16, .headDim = 64, .sramBudget = 48 << 10}, here);
  if (!kernel)
    return report(kernel.error());
  auto launched = kernel->launch(
      nullptr, {.q = problem.q.view(), .k = problem.k.view(), .v = problem.v.view(), .o = problem.o.view()});
  if (!launched)
    return report(launched.error());
  return problem.check("with 48 KiB",
                       [](float s, int64_t, int64_t, int64_t q, int64_t k) { return q >= k ? s : -INFINITY; });
}
