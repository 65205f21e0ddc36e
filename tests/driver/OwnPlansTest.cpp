//===- OwnPlansTest.cpp - Schedules of the compiler's own are never refused -----===//
//
// Whatever a variant is, the plan that the compiler chooses for it leads to a schedule on every target: masks of all
// kinds, beside dense biases, their gradients and tables by relative position, forward and backward; and random variants
// with the gradients of all their captured tensors. A sample of them here, all with ATTUNE_FULL_GRID=all.
//
//===----------------------------------------------------------------------===//

#include "driver/Lowering.h"
#include "tests/Sample.h"
#include "tools/reference/RandomVariant.h"

#include <catch2/catch.hpp>

using namespace attune;
using namespace attune::driver;
using attune::tests::sampleStep;

namespace {

constexpr std::string_view targets[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120"};

const std::string masks[] = {
    "",
    // One interval of keys for each row.
    "q >= k",
    "q > k",
    "k - Sk <= q - Sq",
    "k >= q",
    "q >= k && q - k < 1000",
    "abs(q - k) <= 500",
    "k < 700",
    "k >= 4",
    "q >= k || k < 700",
    "q / 512 == k / 512",
    "q >= k && q / 500 == k / 500",
    "q / 128 >= k / 128",
    "2 * q >= k",
    "q >= 2 * k",
    "k < Sk / 2",
    "q < Sq / 2 || k > 100",
    "(q - k) * 1.0 < 100.5",
    // By run-time scalars.
    "k < i",
    "q >= k && q - k < i",
    "abs(q - k) <= i",
    "q >= k || k < i",
    "q / i == k / i",
    "q >= k && (q - k < i || k < j)",
    "q % i >= k % i",
    "(q - k) % i == 0",
    "k * 1.0 < x",
    "q * i >= k * j",
    // By batch and head.
    "k < n[b]",
    "q >= k && k < n[b]",
    "k < n[b] && q < n[b]",
    "q - k < windows[h]",
    "q >= k && q - k < windows[h]",
    "h % 2 == 0 || q >= k",
    "b == 0 || q >= k",
    "h < 4 ? q >= k : k >= q",
    "k < n[b] && q - k < windows[h]",
    "k + h >= q",
    "q >= k + b",
    "k < H * 16",
    "q - k < B * 64",
    // Several intervals for each row.
    "q >= k && (q - k < 1000 || k < 4)",
    "q - k < 100 || k < 4 || k > Sk - 64",
    "q < 512 ? k < 512 : k >= 512",
    "k < 64 || (k >= 256 && k < 320) || (k >= 1024 && k < 1088)",
    "abs(q - k) < 64 || abs(q - k - 512) < 64 || abs(q - k - 1024) < 64",
    "q >= k && (q / 256 == k / 256 || k / 256 == 0)",
    "abs(q - k) > 64",
    "q != k",
    "!(q >= k && q - k < 256)",
    // Quotients and remainders.
    "k % 2 == 0",
    "q % 3 == k % 3",
    "(q - k) % 4 == 0",
    "(q + k) % 7 < 3",
    "q % 128 >= k % 128",
    "abs(q / 64 - k / 64) <= 6 && abs(q % 64 - k % 64) <= 6",
    "abs(q / 1024 - k / 1024) <= 1 && abs(q / 32 % 32 - k / 32 % 32) <= 3 && abs(q % 32 - k % 32) <= 3",
    "((q >= 2048) == (k >= 2048) && q % 2048 / 128 == k % 2048 / 128) || (q < 2048 && k >= 2048 && q / 128 > (k - "
    "2048) / "
    "128) || (q >= 2048 && k >= 2048 && q / 128 >= k / 128)",
    "q >= k && (k % 8 == 0 || q - k < 64)",
    "k / 16 % 2 == q / 16 % 2",
    // Bits, products, floats.
    "(q & k) == 0",
    "(q ^ k) < 64",
    "(q | k) % 2 == 1",
    "(q >> 4) == (k >> 4)",
    "q * k < 100000",
    "q * q + k * k < 1000000",
    "sqrt(q * 1.0) > k / 32.0",
    "sin((q - k) * 1.0) > 0.0",
    "min(q, k) % 5 != 0",
    "max(q, k) < 1000",
    "abs(abs(q - k) - 100) < 20",
    "q == k || q == 0 || k == 0",
    // Captured tensors by query or by key.
    "ids[q] == ids[k]",
    "q >= k && ids[q] == ids[k]",
    "ids[q] <= ids[k]",
    "ids[k] >= 0",
    "ids[q] > 3",
    "ids[k] == 7 || q >= k",
    "q >= k && q - k < ids[q]",
    "q >= k && k >= ids[q]",
    "weights[q] > weights[k]",
    "weights[k] > 0.5",
    "flags[k]",
    "flags[q] || flags[k]",
    "flags[q] && q >= k",
    "ids[q / 2] == ids[k / 2]",
    "ids[q] == ids[k] && (q - k < 500 || k < 64)",
    "ids[ids[q]] == ids[k]",
    "ids[Sk - 1 - k] < i",
    // Captured tensors by query and key, or with batch and head.
    "pairs[q, k] != 0",
    "q >= k && pairs[q, k] > i",
    "pairs[q / 128, k / 128] != 0",
    "pairs[h, k] != 0",
    "pairs[b, k] == pairs[b, q]",
    "batched[b, q] == batched[b, k]",
    "q >= k && batched[b, q] == batched[b, k]",
    "pairs[q, k] != 0 && k < n[b]",
    "blocks[b, h, q / 64, k / 64]",
    "ids[q] == ids[k] && k < n[b] && q - k < windows[h]",
};

/// A score, and the captured tensors of it whose gradients are asked for.
struct ScoreCase {
  std::string text;
  std::vector<std::string> gradients;
};
const ScoreCase scores[] = {{"s", {}},
                            {"s + bias[h, q, k]", {}},
                            {"s + bias[h, q, k]", {"bias"}},
                            {"s + bias[h, q, k] + table[h, q - k + Sk]", {"bias", "table"}},
                            {"s + own[b, h, q, k]", {"own"}},
                            {"softcap(s, 50) + slopes[h] * (k - q) + table[h, q - k + Sk]", {"slopes", "table"}},
                            {"s * row[q] + column[k] + bias[h, q, k]", {"row", "column", "bias"}}};

Variant variantOf(const std::string &mask, const std::string &score, DType ofBias) {
  TextVariant text{.score = score, .mask = mask};
  text.tensors = {{"bias", ofBias, 3},   {"own", ofBias, 4}, {"table", f32, 2},   {"slopes", f32, 1},
                  {"row", f32, 1},       {"column", f32, 1}, {"ids", i32, 1},     {"n", i32, 1},
                  {"windows", i32, 1},   {"pairs", i32, 2},  {"batched", i32, 2}, {"blocks", boolean, 4},
                  {"flags", boolean, 1}, {"weights", f32, 1}};
  std::erase_if(text.tensors, [&](const TensorDecl &tensor) {
    return (score + " " + mask).find(tensor.name + "[") == std::string::npos;
  });
  text.scalars = {{"i", i32}, {"j", i32}, {"x", f32}};
  Expected<Variant> variant = Variant::parse("v", text);
  if (!variant)
    FAIL(mask << " " << score << ": " << variant.error().text());
  return *variant;
}

/// Lowers to the schedule, forward or backward.
void schedules(const Variant &variant, CompileOptions options, const std::string &arch) {
  for (bool backward : {false, true}) {
    options.backward = backward;
    Expected<Lowered> lowered = lower({.variant = &variant}, options, Target::cuda(arch), Stage::Sched, false);
    INFO(arch << (backward ? " backward, head dim " : " forward, head dim ") << options.headDim << ", "
              << name(options.dtype));
    if (!lowered)
      FAIL_CHECK(lowered.error().text());
  }
}

} // namespace

TEST_CASE("plans of the compiler's own lead to schedules for any mask, bias and gradient") {
  struct Form {
    DType dtype, ofBias;
    int headDim, headDimV;
    bool deterministic = false;
  };
  const Form forms[] = {{bf16, bf16, 64, 64},        {bf16, f32, 128, 128},     {f16, f32, 64, 64},
                        {bf16, bf16, 128, 128},      {bf16, f32, 256, 256},     {f32, f32, 64, 64},
                        {bf16, f32, 192, 128},       {f16, f16, 96, 96},        {f32, f32, 128, 128},
                        {bf16, bf16, 32, 32},        {bf16, f32, 8, 8},         {bf16, bf16, 256, 256},
                        {bf16, bf16, 136, 256},      {bf16, bf16, 320, 320},    {bf16, bf16, 64, 64, true},
                        {bf16, f32, 128, 128, true}, {f16, f16, 192, 192, true}};
  // The mask decides on roles, and roles are sm_90a's: it takes part in more of the sample.
  size_t number = 0;
  const size_t each = sampleStep(397), eachOfWarpgroups = sampleStep(97);
  for (const std::string &mask : masks)
    for (const ScoreCase &score : scores)
      for (const Form &form : forms)
        for (std::string_view arch : targets) {
          ++number;
          if (number % (arch == "sm_90a" ? eachOfWarpgroups : each))
            continue;
          INFO("mask " << mask << ", score " << score.text);
          const Variant variant = variantOf(mask, score.text, form.ofBias);
          schedules(variant,
                    {.dtype = form.dtype,
                     .headDim = form.headDim,
                     .headDimV = form.headDimV,
                     .gradients = Gradients{.tensors = score.gradients, .deterministic = form.deterministic}},
                    std::string(arch));
        }
}

TEST_CASE("plans of the compiler's own lead to schedules for a saved score") {
  const std::string some[] = {"q >= k", "q >= k && q % 3 == k % 3", "batched[b, q] == batched[b, k]",
                              "q >= k && q - k < windows[h]"};
  for (const std::string &mask : some)
    for (auto [headDim, headDimV] : {std::pair(64, 64), {128, 128}, {192, 128}, {256, 256}})
      for (bool deterministic : {false, true})
        for (const char *score : {"softcap(s, 50)", "softcap(s, 50) * s"}) {
          INFO("mask " << mask << ", score " << score);
          schedules(variantOf(mask, score, f32),
                    {.dtype = bf16,
                     .headDim = headDim,
                     .headDimV = headDimV,
                     .gradients = Gradients{.deterministic = deterministic, .saving = {.save = {"score"}}}},
                    "sm_90a");
        }
}

TEST_CASE("vectors of a dense gradient's kernel count beside its tiles and windows") {
  // 504 bytes above the budget where only tiles and windows counted.
  for (const ScoreCase &score : scores)
    if (score.text.find("table") != std::string::npos && !score.gradients.empty())
      schedules(variantOf("", score.text, bf16),
                {.dtype = bf16, .headDim = 128, .headDimV = 128, .gradients = Gradients{.tensors = score.gradients}},
                "sm_90a");
}

TEST_CASE("dK and V of unlike panels have a place each") {
  // Rows of V that end within a tile have panels of 128 bytes, those of dK at D 32 have 64.
  const Variant variant = variantOf("k < n[b] && q < n[b]", "s + bias[h, q, k] + table[h, q - k + Sk]", bf16);
  for (int dim : {16, 32, 48})
    schedules(variant,
              {.dtype = bf16, .headDim = dim, .headDimV = dim, .gradients = Gradients{.tensors = {"bias", "table"}}},
              "sm_90a");
}

TEST_CASE("dK and dV that dropout scales have a place each") {
  // A product with dropout's factor stands between their stores.
  for (const char *score : {"s", "s + bias[h, q, k]"})
    for (auto [headDim, headDimV] : {std::pair(64, 64), {128, 128}, {64, 128}, {128, 64}, {96, 96}}) {
      Variant variant = variantOf("", score, bf16);
      variant.dropout(0.1f);
      schedules(variant, {.dtype = bf16, .headDim = headDim, .headDimV = headDimV, .gradients = Gradients{}}, "sm_90a");
    }
}

TEST_CASE("plans of the compiler's own lead to schedules for random variants") {
  for (uint64_t seed = 0; seed < 200; seed += sampleStep(23)) {
    const reference::RandomCase random = reference::randomCase(seed);
    INFO(random.describe());
    Gradients gradients;
    for (const TensorDecl &tensor : random.variant->tensors())
      if (isFloat(tensor.dtype) && tensor.rank > 0)
        gradients.tensors.push_back(tensor.name);
    const reference::Problem &problem = random.problem;
    for (std::string_view arch : targets)
      schedules(*random.variant,
                {.dtype = problem.q.dtype,
                 .headDim = int(problem.q.shape.back()),
                 .headDimV = int(problem.v.shape.back()),
                 .gradients = gradients},
                std::string(arch));
  }
}
