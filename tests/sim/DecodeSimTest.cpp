//===- DecodeSimTest.cpp - Few queries over many keys, in the simulator -----===//
//
// Rows of several heads in a tile, and keys that several blocks share: on both paths, for groups that divide a tile and
// that do not, more rows than a tile has, lengths of nothing, shares that are empty. Keys in pages, of sequences of unlike
// lengths: what lies behind a length is NaN, and entries behind it are out of range.
//
//===----------------------------------------------------------------------===//

#include "tests/sim/Schedules.h"

#include "tests/numerics/Cases.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;

namespace {

struct Sharing {
  bool packGqa, splitKeys;
};

/// Runs the case under `seeds` orders of events, each with another number of multiprocessors and so of shares.
void runShared(Case test, const std::string &arch, Sharing sharing, std::initializer_list<uint64_t> seeds) {
  test.problem.threads = 1;
  test.options.packGqa = sharing.packGqa;
  test.options.splitKeys = sharing.splitKeys;
  if (!test.options.tileQ && (sharing.packGqa || sharing.splitKeys))
    test.options.tileQ = 64;
  INFO(arch << ", " << test.describe() << (sharing.packGqa ? ", packed" : "") << (sharing.splitKeys ? ", split" : ""));
  Expected<std::string> text = emit(*test.variant, optionsOf(test), Target::cuda(arch), Stage::Sched);
  if (!text)
    FAIL(text.error().text());
  Expected<Simulation> simulation = Simulation::load({*text, "kernel.mlir"});
  if (!simulation)
    FAIL(simulation.error().text());
  Expected<Expectation> expected = expect(test);
  REQUIRE(expected);
  for (uint64_t seed : seeds) {
    const SimulationOptions options{.seed = seed, .multiprocessors = int64_t(1 + 7 * seed)};
    const Launcher launcher{Device{}, [&](const LaunchArgs &args) { return simulation->workspaceBytes(args, options); },
                            [&](const LaunchArgs &args) { return simulation->run(args, options); }};
    const Verdict verdict = judge(test, *expected, tests::run(launcher, test));
    INFO("seed " << seed << ": " << verdict.text);
    CHECK(verdict.pass);
  }
}

Variant shifted() {
  return Variant("shifted").mask(causal()).score(softcap(20) | alibi(captured("slopes", f32, rank(1)))).qOffset();
}

} // namespace

TEST_CASE("few queries: groups and lengths", "[decode]") {
  struct Sizes {
    int64_t batch, heads, headsKv, queries, keys;
  };
  uint64_t seed = 0;
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (auto [batch, heads, headsKv, queries, keys] : {Sizes{2, 8, 2, 1, 300},
                                                        {1, 6, 2, 3, 257},
                                                        {1, 4, 4, 5, 64},
                                                        {1, 16, 1, 9, 500},
                                                        {1, 4, 2, 1, 1},
                                                        {1, 4, 2, 2, 0},
                                                        {1, 14, 2, 33, 333}})
      for (Sharing sharing : {Sharing{true, true}, {true, false}, {false, true}}) {
        Case test = makeCase(
            "few queries", shifted(), seed % 3 ? bf16 : f16,
            {.batch = batch, .heads = heads, .headsKv = headsKv, .queries = queries, .keys = keys, .headDim = 64}, 4);
        test.problem.qOffset = std::max<int64_t>(0, keys - queries);
        if (arch == "sm_80" && seed % 2)
          test.options.qRegisters = false;
        runShared(test, arch, sharing, {seed % 4});
        ++seed;
      }
}

TEST_CASE("few queries: tiles of two warpgroups", "[decode]") {
  for (Sharing sharing : {Sharing{true, true}, {true, false}, {false, true}}) {
    Case test = makeCase("two warpgroups", shifted(), bf16,
                         {.batch = 1, .heads = 8, .headsKv = 1, .queries = 20, .keys = 300, .headDim = 64}, 4);
    test.problem.qOffset = 280;
    test.options.tileQ = 128;
    runShared(test, "sm_90a", sharing, {0, 1, 2});
  }
}

TEST_CASE("NaN after the rows where a mask ends keys or queries", "[ends]") {
  uint64_t seed = 0;
  const bool found = forEachCase(
      "ends",
      [&](const Case &test) {
        const bool few = test.problem.q.shape[2] < 16;
        const bool packs = few && !test.variant->hasDropout() && test.label.find("by head") == std::string::npos;
        runShared(test, seed % 4 ? "sm_90a" : "sm_80", {packs, few}, {seed % 3});
        ++seed;
      },
      7);
  CHECK(found);
}

TEST_CASE("keys in pages, of sequences of unlike lengths", "[decode]") {
  uint64_t seed = 0;
  const Variant last = Variant("last")
                           .mask(causalBottomRight())
                           .keyLengths(captured("lengths", i32, rank(1)))
                           .queryLengths(captured("new_tokens", i32, rank(1)));
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (int page : {0, 16, 48, 64, 256})
      for (Sharing sharing : {Sharing{false, false}, {true, true}, {true, false}, {false, true}}) {
        const int64_t keys = page ? (500 + page - 1) / page * page : 333;
        Variant variant = last;
        if (page)
          variant.keyPages(captured("pages", i32, rank(2)), page);
        const int dim = seed % 2 ? 128 : 64;
        Case test = makeCase(
            fmt::format("pages of {}", page), variant, seed % 3 ? bf16 : f16,
            {.batch = 3, .heads = 4, .headsKv = 2, .queries = seed % 4 ? 3 : 150, .keys = keys, .headDim = dim}, 4);
        runShared(test, arch, sharing, {seed % 4, 5});
        ++seed;
      }
}

TEST_CASE("packed sequences", "[packed]") {
  uint64_t seed = 0;
  const bool found = forEachCase(
      "packed",
      [&](const Case &test) {
        runShared(test, seed % 3 ? "sm_90a" : "sm_80", {}, {seed % 4});
        ++seed;
      },
      5);
  CHECK(found);
}
