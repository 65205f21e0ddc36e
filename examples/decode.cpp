// Generation: a prompt fills a cache of keys and values, and each step adds one and asks with one query. A kernel for the
// steps has the query heads that share a key head in one tile, so that K and V are read once for all of them, and several
// blocks share the keys of that tile; what they leave is combined in a workspace. It serves every length of the cache.
#include "common.h"

using namespace attune;
using example::report;

int main() {
  const Target target = Target::detect();
  constexpr int64_t batch = 2, heads = 8, headsKv = 2, capacity = 400, D = 64, prompt = 300;
  // Queries are the last of the keys. A model would leave the schedule open, and name its sizes in CompileOptions::shapes
  // or Kernel::prepare: then each launch starts what is best for its sizes. Here both are asked for.
  const Variant variant = Variant("causal").mask(causal()).qOffset();
  auto kernel = compile(variant, {.dtype = bf16, .headDim = D, .packGqa = true, .splitKeys = true}, target);
  if (!kernel)
    return report(kernel.error());

  example::Array k = example::Array::random(target, bf16, {batch, headsKv, capacity, D}, 2),
                 v = example::Array::random(target, bf16, {batch, headsKv, capacity, D}, 3);
  // The cache up to a length: a view of it, with the strides of all of it.
  auto cached = [&](example::Array &array, int64_t length) {
    Tensor view = array.view();
    view.shape[2] = length;
    return view;
  };
  float worst = 0;
  int64_t length = prompt;
  for (int64_t queries : {1, 1, 3, 1}) { // three at once: tokens that a draft proposes
    length += queries;
    example::Array q = example::Array::random(target, bf16, {batch, heads, queries, D}, unsigned(length)),
                   o(target, bf16, {batch, heads, queries, D}, [](int64_t) { return NAN; });
    LaunchArgs args{.q = q.view(),
                    .k = cached(k, length),
                    .v = cached(v, length),
                    .o = o.view(),
                    .qOffset = int32_t(length - queries)};
    const auto words = int64_t(kernel->workspaceBytes(args) / 4);
    example::Array workspace(target, f32, {words}, [](int64_t) { return NAN; });
    args.workspace = workspace.view().data;
    args.workspaceBytes = size_t(words) * 4;
    if (auto launched = kernel->launch(nullptr, args); !launched)
      return report(launched.error());
    o.fetch();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < queries; ++i) {
          const int64_t row = ((b * heads + h) * queries + i) * D,
                        head = (b * headsKv + h / (heads / headsKv)) * capacity * D;
          float total = 0, sum[D] = {};
          for (int64_t j = 0; j <= length - queries + i; ++j) {
            float s = 0;
            for (int64_t d = 0; d < D; ++d)
              s += q[row + d] * k[head + j * D + d];
            const float p = std::exp(s / 8);
            total += p;
            for (int64_t d = 0; d < D; ++d)
              sum[d] += p * v[head + j * D + d];
          }
          for (int64_t d = 0; d < D; ++d) {
            const float difference = std::abs(o[row + d] - sum[d] / total);
            worst = difference <= worst ? worst : difference; // a NaN stays
          }
        }
  }
  std::printf("4 steps, %lld keys at the end: largest difference from plain loops %.4f%s\n", (long long)length, worst,
              worst < 0.03f ? "" : ", WRONG");
  return worst < 0.03f ? 0 : 1;
}
