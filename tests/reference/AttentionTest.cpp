#include "tools/reference/Philox.h"
#include "tools/reference/Reference.h"

#include "attune/Builtins.h"
#include "tests/reference/Solve.h"
#include "tools/reference/Prepared.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::reference;
using namespace attune::tests;

namespace {

constexpr float negativeInfinity = -std::numeric_limits<float>::infinity();

HostTensor tensorOf(std::vector<int64_t> shape, std::vector<double> values) {
  return HostTensor::fromDoubles(f32, std::move(shape), values);
}

Problem randomProblem(const Variant &variant, DType dtype, int64_t batch, int64_t heads, int64_t kvHeads,
                      int64_t queryLength, int64_t keyLength, int64_t headDim, int64_t headDimV) {
  return {.variant = &variant,
          .q = HostTensor::random(dtype, {batch, heads, queryLength, headDim}, 1),
          .k = HostTensor::random(dtype, {batch, kvHeads, keyLength, headDim}, 2),
          .v = HostTensor::random(dtype, {batch, kvHeads, keyLength, headDimV}, 3)};
}

std::string errorOf(const Problem &problem) {
  Expected<Output> output = attention(problem);
  return output ? "computed" : output.error().message;
}

/// The smallest problem with logits 0 and log 3: q = 1, k = {0, log 3}, v = {4, 8}, scale 1.
Problem tiny(const Variant &variant) {
  return {.variant = &variant,
          .q = tensorOf({1, 1, 1, 1}, {1}),
          .k = tensorOf({1, 1, 2, 1}, {0, std::log(3.0)}),
          .v = tensorOf({1, 1, 2, 1}, {4, 8}),
          .scale = 1.0};
}

} // namespace

TEST_CASE("two keys by hand: p = 1/4 and 3/4") {
  Variant variant("plain");
  Output output = solve(tiny(variant));
  CHECK(output.o[0] == Approx(7).epsilon(1e-7));
  CHECK(output.lse[0] == Approx(std::log(4)).epsilon(1e-7));
}

TEST_CASE("the scale is the caller's, else the variant's, else 1 / sqrt(D)") {
  Variant plain("plain"), scaled("scaled");
  scaled.scale(2.0f);
  Problem problem{.variant = &plain,
                  .q = tensorOf({1, 1, 1, 4}, {1, 1, 1, 1}),
                  .k = tensorOf({1, 1, 1, 4}, {1, 2, 3, 4}),
                  .v = tensorOf({1, 1, 1, 1}, {1})};
  CHECK(solve(problem).lse[0] == 5);
  problem.variant = &scaled;
  CHECK(solve(problem).lse[0] == 20);
  problem.scale = 3.0;
  CHECK(solve(problem).lse[0] == 30);
}

TEST_CASE("a score and a mask by hand") {
  Variant variant("doubled");
  variant.score([](Score s, Index, Index, Index, Index) { return 2.0f * s; });
  Output output = solve(tiny(variant)); // p = 1/10, 9/10
  CHECK(output.o[0] == Approx(7.6).epsilon(1e-7));
  variant.mask([](Index, Index, Index, Index k) { return k == 0; });
  output = solve(tiny(variant));
  CHECK(output.o[0] == 4);
  CHECK(output.lse[0] == 0);
}

TEST_CASE("normalisers by hand") {
  const Variant sigmoid = Variant("sigmoid").normaliser(normalisers::sigmoid());
  Output output = solve(tiny(sigmoid)); // p = 1/2 and 3/4
  CHECK(output.o[0] == Approx(0.5 * 4 + 0.75 * 8).epsilon(1e-7));
  CHECK(output.lse.empty());
  CHECK(output.lseError.empty());
  const Variant squared = Variant("squared")
                              .score([](Score s, Index, Index, Index, Index) { return s * s - 1; })
                              .normaliser(normalisers::none());
  const double log3 = std::log(3.0);
  CHECK(solve(tiny(squared)).o[0] == Approx(-4 + (log3 * log3 - 1) * 8).epsilon(1e-6));
  const Variant masked = Variant(squared).mask([](Index, Index, Index, Index k) { return k == 0; });
  CHECK(solve(tiny(masked)).o[0] == -4);
  CHECK(solvePlain(tiny(masked)).o[0] == -4);

  const Variant sink = Variant("sink").normaliser(normalisers::softmaxWithSink("sinks"));
  Problem problem = tiny(sink);
  problem.tensors["sinks"] = tensorOf({1}, {std::log(4.0)}); // p = 1/8, 3/8, and 4/8 of the sink
  output = solve(problem);
  CHECK(output.o[0] == Approx(3.5).epsilon(1e-6));
  CHECK(output.lse[0] == Approx(std::log(4)).epsilon(1e-7));
  for (double extreme : {1e4, 3e38, -3e38}) {
    problem.tensors["sinks"] = tensorOf({1}, {extreme});
    CHECK(solve(problem).o[0] == (extreme > 0 ? Approx(0).margin(1e-12) : Approx(7).epsilon(1e-7)));
    CHECK(std::isfinite(solvePlain(problem).o[0]));
  }
  problem.tensors["sinks"] = tensorOf({2}, {0, 0});
  CHECK(attention(problem).error().message == "sink sinks is f32[2], but must be f32[1], a logit for each head");
  problem.tensors.clear();
  CHECK(attention(problem).error().message == "tensor sinks is not bound");
}

TEST_CASE("a definition without a formula here is refused") {
  const Variant variant = Variant("v").normaliser({.name = "tanh_of", .p = "x == -inf ? 0 : tanh(x)"});
  CHECK(attention(tiny(variant)).error().message ==
        "the reference has no formula of normaliser tanh_of; it knows softmax, softmax with a sink, sigmoid and none");
}

TEST_CASE("rows without visible keys give 0 and -inf") {
  Variant masked("masked"), scored("scored"), empty("empty");
  masked.mask([](Index, Index, Index q, Index k) { return q > k; });
  scored.score([](Score s, Index, Index, Index q, Index k) { return select(q > k, s, negativeInfinity); });
  for (const Variant *variant : {&masked, &scored}) {
    Problem problem = randomProblem(*variant, f32, 1, 1, 1, 3, 5, 8, 8);
    problem.v.set(4 * 8, std::nan("")); // hidden from every row
    Output output = solve(problem);
    CHECK(output.lse[0] == -infinity);
    for (size_t d = 0; d < 8; ++d) {
      CHECK(output.o[d] == 0);
      CHECK(output.o[8 + d] == problem.v.at(int64_t(d))); // q = 1 sees key 0 alone
      CHECK(std::isfinite(output.o[16 + d]));
    }
    Output plain = solvePlain(problem);
    CHECK(plain.lse[0] == -infinity);
    CHECK(plain.o[0] == 0);
  }
  Output output = solve(randomProblem(empty, f32, 1, 2, 1, 3, 0, 8, 16));
  CHECK(output.o == std::vector<double>(96));
  CHECK(output.lse == std::vector<double>(6, -infinity));
  CHECK(solve(randomProblem(empty, f32, 1, 2, 1, 0, 4, 8, 16)).o.empty());
}

TEST_CASE("NaN and infinities at visible keys spread, at hidden keys they do not") {
  Variant causalVariant("causal");
  causalVariant.mask(causal());
  Problem problem = randomProblem(causalVariant, f32, 1, 1, 1, 3, 3, 8, 8);
  problem.v.set(8 + 3, std::nan(""));
  Output output = solve(problem);
  CHECK(std::isfinite(output.o[3]));
  CHECK(std::isnan(output.o[8 + 3]));
  CHECK(std::isfinite(output.o[8 + 2]));
  CHECK(std::isnan(output.o[16 + 3]));
  CHECK(std::isfinite(output.lse[2]));

  problem = randomProblem(causalVariant, f32, 1, 1, 1, 3, 3, 8, 8);
  problem.k.set(16, std::nan(""));
  output = solve(problem);
  CHECK(std::isfinite(output.o[8]));
  CHECK(std::isnan(output.o[16]));
  CHECK(std::isnan(output.lse[2]));
}

TEST_CASE("the score is float32: finite values of any size have one right result") {
  Variant shifted("shifted"), maskedByLowest("hidden"), half("half"), plain("plain");
  shifted.score([](Score s, Index, Index, Index, Index) { return s + 1e10f; });
  maskedByLowest.score(
      [](Score s, Index, Index, Index q, Index) { return select(q == 1, std::numeric_limits<float>::lowest(), s); });
  half.score(
      [](Score s, Index, Index, Index, Index k) { return select(k < 3, std::numeric_limits<float>::lowest(), s); });
  Problem problem = randomProblem(shifted, f32, 1, 1, 1, 3, 7, 8, 8);
  std::vector<double> mean(8);
  for (int64_t i = 0; i < problem.v.size(); ++i)
    mean[size_t(i % 8)] += problem.v.at(i) / 7;
  // float64 keeps s beside 1e10, float32 has steps of 1024 there: all keys weigh the same.
  for (const Output &output : {solve(problem), solvePlain(problem)})
    for (size_t q = 0; q < 3; ++q) {
      CHECK(float(output.lse[q]) == 1e10f);
      for (size_t d = 0; d < 8; ++d)
        CHECK(output.o[q * 8 + d] == Approx(mean[d]).epsilon(1e-5));
    }
  problem.variant = &maskedByLowest;
  Output masked = solve(problem);
  CHECK(masked.lse[1] == double(std::numeric_limits<float>::lowest()));
  CHECK(masked.o[8] == Approx(mean[0]).epsilon(1e-12));
  CHECK(masked.lse[0] > -100);
  problem.variant = &half;
  Output partly = solve(problem);
  problem.variant = &plain;
  for (HostTensor *tensor : {&problem.k, &problem.v}) {
    const std::vector<double> values = tensor->doubles();
    *tensor = HostTensor::fromDoubles(f32, {1, 1, 4, 8}, std::span(values).subspan(24));
  }
  Output rest = solve(problem);
  for (size_t i = 0; i < rest.o.size(); ++i)
    CHECK(partly.o[i] == Approx(rest.o[i]).epsilon(1e-12));
}

TEST_CASE("an x of +inf gives NaN, one of -inf hides its key") {
  Variant overflow("overflow"), hidden("hidden");
  overflow.score(
      [](Score s, Index, Index, Index q, Index k) { return select(q == 1 && k == 2, (s + 1e38f) * 1e38f, s); });
  hidden.score(
      [](Score s, Index, Index, Index q, Index k) { return select(q == 1 && k == 2, (s + 1e38f) * -1e38f, s); });
  Problem problem = randomProblem(overflow, f32, 1, 1, 1, 3, 4, 8, 8);
  for (const Output &output : {solve(problem), solvePlain(problem)}) {
    CHECK(std::isnan(output.lse[1]));
    CHECK(std::isnan(output.o[8]));
    CHECK(std::isfinite(output.lse[0]));
    CHECK(std::isfinite(output.o[16]));
  }
  problem.variant = &hidden;
  CHECK(std::isfinite(solve(problem).lse[1]));
}

TEST_CASE("grouped heads share keys") {
  Variant variant("plain");
  Problem grouped = randomProblem(variant, f32, 2, 6, 2, 4, 9, 8, 16);
  Output output = solve(grouped);
  // The same with K and V repeated.
  Problem repeated = grouped;
  auto repeat = [](const HostTensor &tensor) {
    HostTensor result = HostTensor::zeros(tensor.dtype, {2, 6, tensor.shape[2], tensor.shape[3]});
    int64_t plane = tensor.shape[2] * tensor.shape[3];
    for (int64_t i = 0; i < result.size(); ++i)
      result.set(i, tensor.at((i / plane / 6 * 2 + i / plane % 6 / 3) * plane + i % plane));
    return result;
  };
  repeated.k = repeat(grouped.k);
  repeated.v = repeat(grouped.v);
  CHECK(output.o == solve(repeated).o);
  CHECK(output.lse == solve(repeated).lse);
}

TEST_CASE("the q offset shifts q in expressions") {
  Variant whole("whole"), chunk("chunk");
  whole.mask(causal());
  chunk.mask(causal()).qOffset();
  Problem problem = randomProblem(whole, f32, 1, 1, 1, 10, 10, 8, 8);
  Output all = solve(problem);
  Problem rest = problem;
  rest.variant = &chunk;
  rest.qOffset = 6;
  std::vector<double> rows = problem.q.doubles();
  rest.q = HostTensor::fromDoubles(f32, {1, 1, 4, 8}, std::span(rows).subspan(48));
  Output tail = solve(rest);
  CHECK(std::equal(tail.lse.begin(), tail.lse.end(), all.lse.begin() + 6));
  problem.qOffset = 1;
  CHECK(errorOf(problem) == "a q offset is given, but the variant has none; call .qOffset()");
}

TEST_CASE("a block pattern hides blocks, per head or shared") {
  Variant pattern("pattern"), mask("mask");
  pattern.blocks(captured("blocks", boolean, rank(3)), 16, 32);
  auto table = captured("table", boolean, rank(3));
  mask.mask([&](Index, Index h, Index q, Index k) { return table(h, q / 16, k / 32); });
  for (int64_t heads : {1, 2}) {
    Problem problem = randomProblem(pattern, f32, 2, 2, 1, 40, 70, 8, 8);
    HostTensor blocks = HostTensor::random(boolean, {heads, 3, 3}, 5);
    problem.tensors = {{"blocks", blocks}, {"table", blocks}};
    Output output = solve(problem);
    problem.variant = &mask;
    CHECK(output.o == solve(problem).o);
    CHECK(output.lse == solve(problem).lse);
  }
}

TEST_CASE("visible keys are counted without their data, as often as rows repeat") {
  auto countOf = [](Problem problem, int64_t most = 1 << 20) {
    for (HostTensor *tensor : {&problem.q, &problem.k, &problem.v})
      tensor->data.clear();
    Expected<std::optional<int64_t>> count = countVisible(problem, most);
    if (!count)
      FAIL(count.error().message);
    return *count;
  };
  Variant plain("plain"), rows("rows"), keys("keys"), all("all"), score("score"), blocks("blocks");
  rows.mask([](Index, Index, Index q, Index k) { return q >= k; }).qOffset();
  keys.mask([](Index, Index, Index, Index k) { return k % 3 != 0; });
  all.mask([](Index b, Index h, Index q, Index k) { return (b + 2 * h + 3 * q + 5 * k) % 4 == 0; });
  score.score([](Score s, Index, Index, Index, Index k) { return select(k < 5, s, negativeInfinity); });
  blocks.blocks(captured("blocks", boolean, rank(3)), 16, 32).mask(causal());
  Problem problem = randomProblem(plain, f32, 2, 4, 2, 40, 300, 8, 8);
  CHECK(countOf(problem) == 2 * 4 * 40 * 300);
  problem.variant = &keys;
  CHECK(countOf(problem) == 2 * 4 * 40 * 200);
  CHECK(countOf(problem, 300) == 2 * 4 * 40 * 200);
  CHECK(countOf(problem, 299) == std::nullopt);
  problem.variant = &score;
  CHECK(countOf(problem) == 2 * 4 * 40 * 300);
  problem.variant = &rows;
  problem.qOffset = 7;
  CHECK(countOf(problem) == 2 * 4 * (40 * 41 / 2 + 40 * 7));
  problem.qOffset = 0;
  problem.variant = &all;
  int64_t expected = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t q = 0; q < 40; ++q)
        for (int64_t k = 0; k < 300; ++k)
          expected += (b + 2 * h + 3 * q + 5 * k) % 4 == 0;
  CHECK(countOf(problem) == expected);
  problem.variant = &blocks;
  HostTensor table = HostTensor::random(boolean, {4, 3, 10}, 5);
  problem.tensors = {{"blocks", table}};
  expected = 0;
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t q = 0; q < 40; ++q)
      for (int64_t k = 0; k <= q; ++k)
        expected += 2 * table.intAt((h * 3 + q / 16) * 10 + k / 32);
  CHECK(countOf(problem) == expected);
}

TEST_CASE("dropout keeps what the formula keeps, at the promised rate") {
  Variant variant("dropped");
  variant.dropout(0.3f);
  Problem problem = randomProblem(variant, f32, 2, 3, 3, 65, 200, 8, 8);
  problem.seed = 0x123456789ABCDEF0;
  problem.offset = 77;
  problem.wantKeep = true;
  Output output = solve(problem);
  REQUIRE(output.keep.size() == 2 * 3 * 65 * 200);
  double kept = 0;
  for (uint8_t keep : output.keep)
    kept += keep;
  CHECK(std::fabs(kept / double(output.keep.size()) - 0.7) < 0.005);
  CHECK(output.keep[((1 * 3 + 2) * 65 + 33) * 200 + 117] ==
        (dropoutBits(problem.seed, 77, 3, 1, 2, 33, 117) >= dropThreshold(0.3f)));

  // With V = 1, O is the sum of p', and LSE does not see dropout.
  for (int64_t i = 0; i < problem.v.size(); ++i)
    problem.v.set(i, 1);
  Output ones = solve(problem);
  problem.dropout = 0.0;
  Output undropped = solve(problem);
  CHECK(ones.lse == undropped.lse);
  CHECK(undropped.o[0] == Approx(1));
  double mean = 0;
  for (double o : ones.o)
    mean += o / double(ones.o.size());
  CHECK(mean == Approx(1).epsilon(0.01));
  problem.dropout = 1.0;
  CHECK(errorOf(problem) == "dropout probability 1.000000 is not in [0, 1)");
}

TEST_CASE("dropout scales what it keeps by 65536 / (65536 - T)") {
  Variant variant("dropped");
  variant.dropout(0.5f);
  Problem problem = tiny(variant);
  problem.wantKeep = true;
  bool sawKept = false, sawDropped = false;
  for (problem.seed = 0; problem.seed < 40; ++problem.seed) {
    Output output = solve(problem);
    CHECK(output.o[0] == Approx(2 * (output.keep[0] * 1 + output.keep[1] * 6)).epsilon(1e-7));
    sawKept |= output.keep[1] == 1;
    sawDropped |= output.keep[1] == 0;
  }
  CHECK((sawKept && sawDropped));
}

TEST_CASE("a long row of runs equals the sum over its pieces") {
  // 600 keys are three runs of the interpreter; the mask splits them at 300.
  Variant all("all"), low("low"), high("high");
  all.score([](Score s, Index, Index, Index q, Index k) { return s + 0.01f * (k - q); });
  low = all;
  high = all;
  low.mask([](Index, Index, Index, Index k) { return k < 300; });
  high.mask([](Index, Index, Index, Index k) { return k >= 300; });
  Problem problem = randomProblem(all, f32, 1, 1, 1, 4, 600, 8, 8);
  Output whole = solve(problem);
  problem.variant = &low;
  Output first = solve(problem);
  problem.variant = &high;
  Output second = solve(problem);
  for (size_t q = 0; q < 4; ++q) {
    double a = std::exp(first.lse[q]), b = std::exp(second.lse[q]);
    CHECK(whole.lse[q] == Approx(std::log(a + b)).epsilon(1e-12));
    for (size_t d = 0; d < 8; ++d)
      CHECK(whole.o[q * 8 + d] == Approx((a * first.o[q * 8 + d] + b * second.o[q * 8 + d]) / (a + b)).epsilon(1e-10));
  }
}

TEST_CASE("the result does not depend on the number of threads") {
  Variant variant("causal");
  variant.mask(causal()).dropout(0.1f);
  Problem problem = randomProblem(variant, bf16, 1, 3, 1, 70, 90, 16, 8);
  problem.threads = 1;
  Output one = solve(problem);
  problem.threads = 5;
  CHECK(one.o == solve(problem).o);
  CHECK(solvePlain(problem).o == solvePlain(problem).o);
}

TEST_CASE("the plain computation is near, and rounded to the dtype") {
  Variant variant("softcap");
  variant.score(softcap(10)).mask(causal());
  for (auto [dtype, near] : {std::pair{f32, 1e-5}, std::pair{f16, 5e-3}, std::pair{bf16, 4e-2}}) {
    Problem problem = randomProblem(variant, dtype, 1, 2, 1, 100, 100, 64, 32);
    Output exact = solve(problem), plain = solvePlain(problem);
    double largest = 0;
    bool rounded = true;
    for (size_t i = 0; i < exact.o.size(); ++i) {
      largest = std::max(largest, std::fabs(exact.o[i] - plain.o[i]));
      rounded &= double(roundTo(dtype, float(plain.o[i]))) == plain.o[i];
    }
    CHECK(largest > 0);
    CHECK(largest < near);
    CHECK(rounded);
  }
}

TEST_CASE("problems that do not fit together are errors") {
  Variant variant("bias"), blocks("blocks");
  auto bias = captured("bias", f32, rank(1));
  variant.score([&](Score s, Index, Index h, Index, Index) { return s + bias[h]; });
  Problem problem = randomProblem(variant, f32, 1, 2, 2, 4, 4, 8, 8);
  CHECK(errorOf(problem) == "tensor bias is not bound");
  problem.tensors = {{"bias", HostTensor::zeros(f32, {2})}};
  CHECK(errorOf(problem) == "computed");
  Problem odd = problem;
  odd.k = odd.v = HostTensor::zeros(f32, {1, 3, 4, 8});
  CHECK(errorOf(odd) == "q is f32[1, 2, 4, 8], k is f32[1, 3, 4, 8], v is f32[1, 3, 4, 8], but the heads of q must "
                        "be a multiple of those of k");
  odd = problem;
  odd.k = HostTensor::zeros(f16, {1, 2, 4, 8});
  CHECK(errorOf(odd) == "k is f16[1, 2, 4, 8], but q, k and v must share one of f32, f16, bf16");
  odd = problem;
  odd.v = HostTensor::zeros(f32, {2, 4, 8});
  CHECK(errorOf(odd) == "v is f32[2, 4, 8], but must have 4 dimensions");
  odd = problem;
  odd.dropout = 0.5;
  CHECK(errorOf(odd) == "a dropout probability is given, but the variant has no dropout");
  blocks.blocks(captured("pattern", boolean, rank(2)), 16, 16);
  problem = randomProblem(blocks, f32, 1, 2, 2, 17, 4, 8, 8);
  problem.tensors = {{"pattern", HostTensor::zeros(boolean, {1, 1})}};
  CHECK(errorOf(problem) == "block pattern pattern is bool[1, 1], but must be bool of [H or 1, ceil(Sq / 16), "
                            "ceil(Sk / 16)]");
}

TEST_CASE("S 1024, D 64, H 2 takes well under a second", "[.speed]") {
  Variant variant("gemma");
  auto slopes = captured("slopes", f32, rank(1));
  variant.score(softcap(50) | alibi(slopes)).mask(causal()).dropout(0.1f);
  Problem problem = randomProblem(variant, bf16, 1, 2, 1, 1024, 1024, 64, 64);
  problem.tensors = {{"slopes", HostTensor::random(f32, {2}, 1)}};
  auto begin = std::chrono::steady_clock::now();
  solve(problem);
  auto middle = std::chrono::steady_clock::now();
  solvePlain(problem);
  auto end = std::chrono::steady_clock::now();
  auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  WARN("float64 " << seconds(middle - begin) << " s, plain " << seconds(end - middle) << " s");
  CHECK(seconds(middle - begin) < 1);
}

TEST_CASE("the expected time follows the products and the elements of K and V") {
  CHECK(expectedSeconds({1, 8, 1024, 128}, {1, 8, 1024, 128}, 1) == Approx(1.4166).epsilon(0.001));
  CHECK(expectedSeconds({1, 8, 1024, 128}, {1, 8, 1024, 128}, 2) == Approx(1.4166 / 2).epsilon(0.001));
  CHECK(expectedSeconds({64, 8, 1, 128}, {64, 8, 8192, 128}, 16) == Approx(0.715).epsilon(0.001));
  CHECK(expectedSeconds({0, 8, 1, 128}, {0, 8, 8192, 128}, 16) == 0);
}

TEST_CASE("rows and keys behind a sequence's own lengths") {
  const Variant variant = Variant("v")
                              .mask(causalBottomRight())
                              .keyLengths(captured("n", i32, rank(1)))
                              .queryLengths(captured("m", i32, rank(1)));
  Problem problem{.variant = &variant,
                  .q = HostTensor::random(f32, {2, 1, 3, 8}, 1),
                  .k = HostTensor::random(f32, {2, 1, 5, 8}, 2),
                  .v = HostTensor::random(f32, {2, 1, 5, 8}, 3)};
  problem.tensors["n"] = HostTensor::fromInts(DType::I32, {2}, std::array<int64_t, 2>{5, 2});
  problem.tensors["m"] = HostTensor::fromInts(DType::I32, {2}, std::array<int64_t, 2>{3, 1});
  // 3, 4 and 5 keys, and 2 of the one query of the other.
  CHECK(**countVisible(problem, 1000) == 3 + 4 + 5 + 2);
  const Expected<Output> output = attention(problem);
  REQUIRE(output);
  for (int64_t row = 0; row < 6; ++row)
    CHECK(std::isnan(output->lse[size_t(row)]) == (row > 3));
  problem.tensors["m"] = HostTensor::fromInts(DType::I32, {1}, std::array<int64_t, 1>{3});
  CHECK(attention(problem).error().message == "lengths m are i32[1], but must be i32[2], one for each sequence");
}
