// Several documents packed into one sequence: each token sees the earlier tokens of its own document.
#include "common.h"

using namespace attune;
using example::report;

int main() {
  const Target target = Target::detect();
  const int64_t S = 500;
  const int64_t ends[] = {90, 91, 320, 500}; // where each document ends
  example::Problem problem(target, {.queries = S, .keys = S});
  example::Array idValues(target, i32, {S}, [&](int64_t i) {
    return float(std::upper_bound(std::begin(ends), std::end(ends), i) - std::begin(ends));
  });

  auto ids = captured("ids", i32, rank(1));
  auto variant = Variant("packed").mask(causal() && documents(ids));
  auto kernel = compile(variant, {.dtype = bf16, .headDim = 64}, target);
  if (!kernel)
    return report(kernel.error());
  LaunchArgs args = {.q = problem.q.view(),
                     .k = problem.k.view(),
                     .v = problem.v.view(),
                     .o = problem.o.view(),
                     .tensors = {{"ids", idValues.view()}}};
  // Which documents the tiles of the sequence hold: the launch finds out, and skips those of other documents.
  args.workspaceBytes = kernel->workspaceBytes(args);
  example::Array workspace(target, i32, {int64_t(args.workspaceBytes / 4)}, [](int64_t) { return 0.0f; });
  args.workspace = workspace.view().data;
  auto launched = kernel->launch(nullptr, args);
  if (!launched)
    return report(launched.error());
  return problem.check("causal in 4 documents", [&](float s, int64_t, int64_t, int64_t q, int64_t k) {
    return q >= k && idValues[q] == idValues[k] ? s : -INFINITY;
  });
}
