// A server's cache: keys and values of all sequences lie in pages of one pool, a table on the device says which pages a
// sequence has, and how long it is. One launch takes a chunk of one sequence's prompt and a step of another that generates;
// lengths and table change from launch to launch, the kernel does not.
#include "common.h"

using namespace attune;
using example::Array;
using example::report;

int main() {
  const Target target = Target::detect();
  constexpr int64_t batch = 2, heads = 8, headsKv = 2, D = 64, page = 16, pool = 64, columns = 16, chunk = 40;
  const Captured lengths = captured("lengths", i32, rank(1)), queries = captured("queries", i32, rank(1)),
                 table = captured("table", i32, rank(2));
  // The queries of each sequence are the last of its keys: causalBottomRight() by its own Sq and Sk.
  const Variant variant =
      Variant("serve").mask(causalBottomRight()).keyLengths(lengths).queryLengths(queries).keyPages(table, page);
  auto kernel = compile(variant, {.dtype = bf16, .headDim = D}, target);
  if (!kernel)
    return report(kernel.error());

  Array k = Array::random(target, bf16, {pool, headsKv, page, D}, 2),
        v = Array::random(target, bf16, {pool, headsKv, page, D}, 3);
  // Any page of the pool may follow any other.
  auto pageOf = [&](int64_t b, int64_t number) { return (number * batch + b) * 7 % pool; };
  Array pages(target, i32, {batch, columns}, [&](int64_t i) { return float(pageOf(i / columns, i % columns)); });

  float worst = 0;
  int64_t length[batch] = {0, 123};
  for (int step = 0; step < 4; ++step) {
    const int64_t rows[batch] = {chunk - step, 1}; // the last chunk of a prompt is shorter
    for (int64_t b = 0; b < batch; ++b)
      length[b] += rows[b];
    Array q = Array::random(target, bf16, {batch, heads, chunk, D}, unsigned(10 + step)),
          o(target, bf16, {batch, heads, chunk, D}, [](int64_t) { return NAN; }),
          keysNow(target, i32, {batch}, [&](int64_t b) { return float(length[b]); }),
          rowsNow(target, i32, {batch}, [&](int64_t b) { return float(rows[b]); });
    LaunchArgs args{.q = q.view(),
                    .k = k.view(),
                    .v = v.view(),
                    .o = o.view(),
                    .tensors = {{"lengths", keysNow.view()}, {"queries", rowsNow.view()}, {"table", pages.view()}}};
    if (auto launched = kernel->launch(nullptr, args); !launched)
      return report(launched.error());
    o.fetch();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < rows[b]; ++i) {
          const int64_t row = ((b * heads + h) * chunk + i) * D;
          float total = 0, sum[D] = {};
          for (int64_t j = 0; j <= length[b] - rows[b] + i; ++j) {
            const int64_t key = ((pageOf(b, j / page) * headsKv + h / (heads / headsKv)) * page + j % page) * D;
            float s = 0;
            for (int64_t d = 0; d < D; ++d)
              s += q[row + d] * k[key + d];
            const float p = std::exp(s / 8);
            total += p;
            for (int64_t d = 0; d < D; ++d)
              sum[d] += p * v[key + d];
          }
          for (int64_t d = 0; d < D; ++d) {
            const float difference = std::abs(o[row + d] - sum[d] / total);
            worst = difference <= worst ? worst : difference; // a NaN stays
          }
        }
  }
  std::printf("4 launches, %lld and %lld keys at the end: largest difference from plain loops %.4f%s\n",
              (long long)length[0], (long long)length[1], worst, worst < 0.03f ? "" : ", WRONG");
  return worst < 0.03f ? 0 : 1;
}
