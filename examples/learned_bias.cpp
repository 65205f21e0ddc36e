// A score that learns: ALiBi's slopes and a table of relative positions, by gradient descent on the difference from
// what attention with other slopes and another table gives.
#include "common.h"

using namespace attune;
using example::report;

namespace {

constexpr int64_t H = 4, S = 96, D = 32, buckets = 16;

/// What is learned.
struct Weights {
  std::vector<float> slopes = std::vector<float>(H), table = std::vector<float>(H * buckets);
};

/// Weights as arrays on the device.
struct Placed {
  example::Array slopes, table;
  Placed(const Target &target, const Weights &weights)
      : slopes(target, f32, {H}, [&](int64_t i) { return weights.slopes[size_t(i)]; }),
        table(target, f32, {H, buckets}, [&](int64_t i) { return weights.table[size_t(i)]; }) {}
};

} // namespace

int main() {
  const Target target = Target::detect();
  auto slopes = captured("slopes", f32, rank(1)), table = captured("table", f32, rank(2));
  auto variant = Variant("learned").mask(causal()).score([=](Score s, Index, Index h, Index q, Index k) {
    return s + slopes[h] * cast(k - q, f32) + table[h][min(q - k, int(buckets) - 1)];
  });
  // A gradient for each of the two, beside those of Q, K and V.
  auto forward =
      compile(variant, {.dtype = f32, .headDim = D, .gradients = Gradients{.tensors = {"slopes", "table"}}}, target);
  if (!forward)
    return report(forward.error());
  const Kernel backward = forward->backward();

  const std::vector<int64_t> shape = {1, H, S, D};
  auto zeros = [&](const std::vector<int64_t> &dims) {
    return example::Array(target, f32, dims, [](int64_t) { return 0.0f; });
  };
  example::Array q = example::Array::random(target, f32, shape, 1), k = example::Array::random(target, f32, shape, 2),
                 v = example::Array::random(target, f32, shape, 3), o = zeros(shape), lse = zeros({1, H, S}),
                 dq = zeros(shape), dk = zeros(shape), dv = zeros(shape);
  auto attend = [&](Placed &weights) {
    return forward->launch(nullptr, {.q = q.view(),
                                     .k = k.view(),
                                     .v = v.view(),
                                     .o = o.view(),
                                     .lse = lse.view(),
                                     .tensors = {{"slopes", weights.slopes.view()}, {"table", weights.table.view()}}});
  };

  Weights right, weights;
  for (int64_t h = 0; h < H; ++h)
    right.slopes[size_t(h)] = std::exp2(-float(h + 1));
  for (size_t i = 0; i < right.table.size(); ++i)
    right.table[i] = std::sin(float(i));
  Placed teacher(target, right);
  if (auto launched = attend(teacher); !launched)
    return report(launched.error());
  o.fetch();
  std::vector<float> wanted(size_t(H * S * D));
  for (size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = o[int64_t(i)];

  float first = 0, loss = 0;
  for (int step = 0; step <= 200; ++step) {
    Placed placed(target, weights);
    if (auto launched = attend(placed); !launched)
      return report(launched.error());
    o.fetch();
    loss = 0;
    for (size_t i = 0; i < wanted.size(); ++i)
      loss += 0.5f * (o[int64_t(i)] - wanted[i]) * (o[int64_t(i)] - wanted[i]);
    first = step ? first : loss;
    if (step % 50 == 0)
      std::printf("step %3d  loss %9.4f  slope of head 0 %6.3f, right is %.3f\n", step, loss, weights.slopes[0],
                  right.slopes[0]);

    // The gradient of the loss by O.
    example::Array gradient(target, f32, shape, [&](int64_t i) { return o[i] - wanted[size_t(i)]; });
    example::Array ofSlopes = zeros({H}), ofTable = zeros({H, buckets});
    LaunchArgs args = {.q = q.view(),
                       .k = k.view(),
                       .v = v.view(),
                       .o = o.view(),
                       .lse = lse.view(),
                       .tensors = {{"slopes", placed.slopes.view()}, {"table", placed.table.view()}},
                       .operands = {{"do", gradient.view()},
                                    {"dq", dq.view()},
                                    {"dk", dk.view()},
                                    {"dv", dv.view()},
                                    {"grads.slopes", ofSlopes.view()},
                                    {"grads.table", ofTable.view()}}};
    args.workspaceBytes = backward.workspaceBytes(args);
    example::Array workspace = zeros({int64_t(args.workspaceBytes + 3) / 4});
    args.workspace = workspace.view().data;
    if (auto launched = backward.launch(nullptr, args); !launched)
      return report(launched.error());
    ofSlopes.fetch();
    ofTable.fetch();
    for (int64_t i = 0; i < H; ++i)
      weights.slopes[size_t(i)] -= 1e-4f * ofSlopes[i];
    for (size_t i = 0; i < weights.table.size(); ++i)
      weights.table[i] -= 0.003f * ofTable[int64_t(i)];
  }
  const bool learned = loss < 0.01f * first;
  std::printf("the loss fell from %.4f to %.4f%s\n", first, loss, learned ? "" : ", WRONG: required is a hundredth");
  return learned ? 0 : 1;
}
