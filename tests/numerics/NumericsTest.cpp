//===- NumericsTest.cpp - The CPU target against float64 --------------------===//
//
//     attune_numerics_tests "lengths"                 // one group
//     ATTUNE_SEED=17 ATTUNE_RANDOM_CASES=1 attune_numerics_tests "[random]"
//
//===----------------------------------------------------------------------===//

#include "tests/numerics/Cases.h"

#include "tools/reference/Philox.h"
#include "tools/reference/RandomVariant.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

namespace {

void runGroup(const std::string &name, size_t ofSample = 7) {
  const bool found = forEachCase(
      name,
      [](const Case &test) {
        Verdict verdict = check(test, Target::cpu());
        INFO(verdict.text);
        CHECK(verdict.pass);
      },
      ofSample);
  if (!found)
    FAIL("no group " + name);
}

} // namespace

TEST_CASE("builtins") { runGroup("builtins"); }
TEST_CASE("lengths") { runGroup("lengths"); }
TEST_CASE("head-dims") { runGroup("head-dims"); }
TEST_CASE("grouped-heads") { runGroup("grouped-heads"); }
TEST_CASE("layouts") { runGroup("layouts"); }
TEST_CASE("hidden") { runGroup("hidden"); }
TEST_CASE("hard-inputs") { runGroup("hard-inputs"); }
TEST_CASE("large-scores") { runGroup("large-scores"); }
TEST_CASE("patterns") { runGroup("patterns"); }
TEST_CASE("head-masks") { runGroup("head-masks"); }
TEST_CASE("bounds") { runGroup("bounds"); }
TEST_CASE("tiles that captured integers hide are neither loaded nor computed") {
  for (DType dtype : {f32, bf16}) {
    Verdict verdict = checkSkippedTiles(Target::cpu(), dtype, 64);
    INFO(verdict.text);
    CHECK(verdict.pass);
  }
}
TEST_CASE("NaN and infinities at hidden keys of the same sequence reach a row or do not, and what is finite is right") {
  for (DType dtype : {f32, bf16})
    for (bool inKeys : {false, true}) {
      Case test = makeCase("padded keys", Variant("padded").mask([](Index, Index, Index, Index k) { return k < 100; }),
                           dtype, {.queries = 70, .keys = 130, .headDim = 32}, 4);
      HostTensor &poisoned = inKeys ? test.problem.k : test.problem.v;
      for (int64_t head = 0; head < 2; ++head)
        for (int64_t i = 100 * 32; i < 130 * 32; ++i)
          poisoned.set(head * 130 * 32 + i, i % 3 ? std::nan("") : INFINITY);
      Verdict verdict = check(test, Target::cpu());
      INFO(verdict.text);
      CHECK(verdict.pass);
    }
}
TEST_CASE("captured") { runGroup("captured"); }
TEST_CASE("scalars") { runGroup("scalars"); }
TEST_CASE("functions") { runGroup("functions", 1); }
TEST_CASE("expressions") { runGroup("expressions"); }
TEST_CASE("dropout") { runGroup("dropout"); }
TEST_CASE("wide-heads") { runGroup("wide-heads"); }
TEST_CASE("normalisers") { runGroup("normalisers"); }
TEST_CASE("ends") { runGroup("ends"); }
TEST_CASE("packed") { runGroup("packed"); }
TEST_CASE("few-queries") { runGroup("few-queries"); }
TEST_CASE("pages") { runGroup("pages"); }

TEST_CASE("a wrong result, a write outside and an unwritten element are found") {
  Case test = makeCase("causal", Variant("causal").mask(causal()), bf16, {.queries = 70, .keys = 90, .headDim = 32}, 1);
  Expected<Kernel> kernel = compile(*test.variant, optionsOf(test), Target::cpu());
  REQUIRE(kernel);
  Expected<Expectation> expected = expect(test);
  REQUIRE(expected);
  Expected<Results> right = run(*kernel, test);
  REQUIRE(right);
  CHECK(judge(test, *expected, right).pass);
  auto broken = [&](auto change) {
    Results results = *right;
    change(results);
    return !judge(test, *expected, Expected<Results>(results)).pass;
  };
  CHECK(broken([](Results &r) { r.o.set(5, r.o.at(5) + 0.1); }));
  CHECK(broken([](Results &r) { r.o.set(5, std::nan("")); }));
  CHECK(broken([](Results &r) { r.lse.set(5, r.lse.at(5) + 0.05); }));
  CHECK(broken([](Results &r) { r.outside = "memory around O was written at element 3"; }));
  // The kernel of another variant.
  Case other = makeCase("plain", Variant("plain"), bf16, {.queries = 70, .keys = 90, .headDim = 32}, 1);
  Expected<Kernel> plain = compile(*other.variant, optionsOf(other), Target::cpu());
  REQUIRE(plain);
  CHECK(!judge(test, *expected, run(*plain, test)).pass);
}

TEST_CASE("the dropout pattern is that of the formula, bit for bit") {
  for (DType dtype : {f32, bf16, f16})
    for (float p : {0.1f, 0.5f, 0.9f}) {
      Case test = makeCase(
          "pattern", Variant("dropped").dropout(p), dtype,
          {.batch = 2, .heads = 3, .headsKv = 1, .queries = 77, .keys = 130, .headDim = 16, .headDimV = 64}, 9);
      test.problem.seed = 0xfedcba9876543210ULL;
      test.problem.offset = 0x8000000000000001ULL;
      Expected<Kernel> kernel = compile(*test.variant, optionsOf(test), Target::cpu());
      if (!kernel)
        FAIL(kernel.error().text());
      Expected<std::vector<uint8_t>> keep = recoverKeep(*kernel, test);
      if (!keep)
        FAIL(keep.error().text());
      CHECK((*keep == formulaKeep(test)));
      double kept = 0;
      for (uint8_t one : *keep)
        kept += one;
      CHECK(kept / double(keep->size()) == Approx(1 - p).margin(0.01));
    }
}

TEST_CASE("a run-time scalar, a length and a probability do not recompile") {
  Variant variant =
      Variant("scalar").score([](Score s, Index, Index, Index, Index) { return softcap(s, scalar("cap", f32)); });
  CompileOptions options{.dtype = f32, .headDim = 32};
  Expected<std::string> key = cacheKey(variant, options, Target::cpu());
  REQUIRE(key);
  REQUIRE(compile(variant, options, Target::cpu()));
  Expected<Kernel> again = compile(variant, options, Target::cpu());
  REQUIRE(again);
  CHECK(again->cacheHit());
  Variant dropped = Variant("d").dropout(0.1f), other = Variant("d").dropout(0.2f);
  CHECK(*cacheKey(dropped, options, Target::cpu()) == *cacheKey(other, options, Target::cpu()));
}

TEST_CASE("two launches of a kernel give the same bits") {
  Case test =
      dropoutCase(bf16, {.batch = 2, .heads = 4, .headsKv = 2, .queries = 200, .keys = 300, .headDim = 64}, 0.1f, 8);
  Expected<Kernel> kernel = compile(*test.variant, optionsOf(test), Target::cpu());
  REQUIRE(kernel);
  Expected<Results> first = run(*kernel, test), second = run(*kernel, test);
  REQUIRE(first);
  REQUIRE(second);
  CHECK((first->o.data == second->o.data));
  CHECK((first->lse.data == second->lse.data));
}

TEST_CASE("tiles other than the chosen ones") {
  Sample sample(3);
  for (auto [tileQ, tileK] : std::vector<std::pair<int, int>>{
           {16, 16}, {16, 64}, {32, 32}, {48, 80}, {64, 16}, {64, 128}, {128, 64}, {128, 128}})
    for (DType dtype : {f32, bf16}) {
      if (!sample.takes())
        continue;
      Case test = makeCase("tiles", Variant("busy").mask(causal()).score(softcap(20)).dropout(0.1f), dtype,
                           {.queries = 150, .keys = 170, .headDim = 64}, 6);
      test.options.tileQ = tileQ;
      test.options.tileK = tileK;
      Verdict verdict = check(test, Target::cpu());
      INFO(verdict.text);
      CHECK(verdict.pass);
    }
}

TEST_CASE("random variants", "[random]") {
  const char *seedText = std::getenv("ATTUNE_SEED"), *countText = std::getenv("ATTUNE_RANDOM_CASES");
  uint64_t seed = seedText ? std::strtoull(seedText, nullptr, 0)
                           : uint64_t(std::chrono::system_clock::now().time_since_epoch().count()) / 1000 % 1000000000;
  int count = countText ? std::atoi(countText) : int(150 / sampleStep(5));
  // Without a count, stop in time on a slow machine.
  auto begin = std::chrono::steady_clock::now();
  int done = 0;
  for (; done < count && (countText || std::chrono::steady_clock::now() - begin < std::chrono::seconds(50)); ++done) {
    uint64_t mine = seed + uint64_t(done);
    Verdict verdict = check(randomCase(mine), Target::cpu());
    INFO(verdict.text);
    INFO("repeat with ATTUNE_SEED=" << mine << " ATTUNE_RANDOM_CASES=1");
    INFO(reference::randomCase(mine).describe());
    CHECK(verdict.pass);
  }
  fmt::print("random variants: seeds {} to {}\n", seed, seed + uint64_t(std::max(done, 1)) - 1);
}
