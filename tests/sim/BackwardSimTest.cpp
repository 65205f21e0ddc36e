// The backward pass's schedules in the simulator, against float64: warp-level products, and roles with products of
// warpgroups.

#include "attune/Builtins.h"
#include "attune/Simulate.h"
#include "tests/numerics/BackwardRunner.h"
#include "tests/numerics/Cases.h"
#include "tests/numerics/GradientCases.h"

#include <catch2/catch.hpp>
#include <regex>
#include <sstream>

using namespace attune;
using namespace attune::tests;

namespace {

/// Whether some warps of the backward pass copy, and the others multiply by warpgroups.
bool hasRoles(const std::string &text) { return text.find("sched.role ") != std::string::npos; }

Launcher launcherOf(Simulation &simulation, uint64_t seed) {
  return Launcher{Device{}, [&simulation](const LaunchArgs &args) { return simulation.workspaceBytes(args); },
                  [&simulation, seed](const LaunchArgs &args) { return simulation.run(args, {.seed = seed}); }};
}

/// Runs the case under two orders of events, which give the same bits if these are asked for; gives its text.
std::string simulateBackward(const Case &test, const std::string &arch, const Gradients &asked) {
  INFO(arch << ", " << test.describe());
  CompileOptions options = optionsOf(test);
  options.gradients = asked;
  options.backward = true;
  const reference::BackwardProblem problem = backwardProblem(test, asked);
  Expected<reference::GradientValues> exact = exactGradients(test, problem);
  REQUIRE(exact);
  Expected<std::string> text = emit(*test.variant, options, Target::cuda(arch), Stage::Sched);
  if (!text)
    FAIL(text.error().text());
  Expected<Simulation> simulation = Simulation::load({*text, "backward.mlir"});
  if (!simulation)
    FAIL(simulation.error().text());
  SavedTensors saved;
  if (!asked.saving.save.empty()) {
    options.backward = false;
    Expected<std::string> forward = emit(*test.variant, options, Target::cuda(arch), Stage::Sched);
    if (!forward)
      FAIL(forward.error().text());
    Expected<Simulation> saving = Simulation::load({*forward, "forward.mlir"});
    if (!saving)
      FAIL(saving.error().text());
    Expected<SavedTensors> left = runForwardSaving(launcherOf(*saving, 2), test, asked.saving.save);
    if (!left)
      FAIL(left.error().text());
    saved = std::move(*left);
  }
  std::map<std::string, reference::HostTensor> first;
  for (uint64_t seed : {0, 1}) {
    const Expected<GradientResults> results = runBackward(launcherOf(*simulation, seed), test, problem, *exact, saved);
    const Verdict verdict = judgeBackward(test, *exact, results);
    INFO("seed " << seed << ": " << verdict.text);
    CHECK(verdict.pass);
    if (!results || !asked.deterministic)
      continue;
    if (seed == 0)
      first = results->gradients;
    for (const auto &[name, gradient] : first) {
      INFO(name);
      CHECK(results->gradients.at(name).data == gradient.data);
    }
  }
  return *text;
}

/// The text at `stage` of a backward pass that computes dQ, dK and dV, and no gradients of captured tensors.
std::string backwardText(const Case &test, const Target &target, Stage stage) {
  CompileOptions options = optionsOf(test);
  options.backward = true;
  options.gradients = Gradients{};
  Expected<std::string> text = emit(*test.variant, options, target, stage);
  if (!text)
    FAIL(text.error().text());
  return *text;
}

/// Of a backward pass's text, which needs nothing saved.
Verdict judgeText(const std::string &text, const Case &test, const Gradients &asked) {
  const reference::BackwardProblem problem = backwardProblem(test, asked);
  Expected<reference::GradientValues> exact = reference::gradients(problem);
  REQUIRE(exact);
  Expected<Simulation> simulation = Simulation::load({text, "backward.mlir"});
  if (!simulation)
    FAIL(simulation.error().text());
  return judgeBackward(test, *exact, runBackward(launcherOf(*simulation, 0), test, problem, *exact));
}

/// The text without its lines that have `what`, unless they have `unless`.
std::string withoutLines(const std::string &text, const std::string &what, const std::string &unless = "\n") {
  std::string without;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find(what) == std::string::npos || line.find(unless) != std::string::npos)
      without += line + "\n";
  return without;
}

} // namespace

TEST_CASE("the backward pass of every built-in variant", "[backward]") {
  size_t next = 0;
  for (const std::string arch : {"sm_80", "sm_90a"}) {
    Sample sample(4, arch == "sm_90a" ? 3 : 0); // so that no variant runs on both
    for (const Variant &variant : builtinsForTests()) {
      if (variant.keyPages())
        continue; // of the forward pass alone
      if (!sample.takes())
        continue;
      const int dim = next % 4 < 2 ? 128 : 64;
      const Case test =
          makeCase(std::string(variant.name()), variant, next % 3 ? bf16 : f16,
                   {.batch = 1, .heads = 4, .headsKv = 2, .queries = 150, .keys = 203, .headDim = dim}, 7);
      CHECK(hasRoles(simulateBackward(test, arch, Gradients{.lse = next % 2 == 0})) == (arch == "sm_90a"));
      ++next;
    }
  }
}

TEST_CASE("persistent blocks store dK and dV by one buffer where there is no room for two", "[backward]") {
  const Case test = makeCase("causal", Variant("causal").mask(causal()), bf16,
                             {.batch = 2, .heads = 2, .headsKv = 1, .queries = 300, .keys = 290, .headDim = 128}, 7);
  const Target target = Target::cuda("sm_90a");
  const std::string text = backwardText(test, target, Stage::Tile);
  const std::string persistent =
      std::regex_replace(text, std::regex("(tile.kernel @causal_keys.*attributes \\{)"), "$1sched.persistent, ");
  REQUIRE(persistent != text);
  Expected<std::string> scheduled = emitFromText({persistent, "persistent.mlir"}, {}, target, Stage::Sched);
  if (!scheduled)
    FAIL(scheduled.error().text());
  CHECK(std::regex_search(*scheduled, std::regex("sched.shared \"dv_tile\" at [0-9]+ over %dk_tile")));
  const Verdict verdict = judgeText(*scheduled, test, {});
  INFO(verdict.text);
  CHECK(verdict.pass);
  // The wait until TMA has read dK.
  const size_t wait = scheduled->rfind("sched.wait_boxes", scheduled->rfind("to %dv_map["));
  REQUIRE(wait != std::string::npos);
  std::string early = *scheduled;
  early.erase(wait, early.find('\n', wait) - wait);
  CHECK(!judgeText(early, test, {}).pass);
}

TEST_CASE("one lane waits for a box, and another one releases its stage for the warp", "[backward]") {
  const Case test = makeCase("causal", Variant("causal").mask(causal()), bf16,
                             {.batch = 1, .heads = 1, .headsKv = 1, .queries = 300, .keys = 150, .headDim = 128}, 7);
  const Target target = Target::cuda("sm_90a");
  const std::string text = backwardText(test, target, Stage::Sched);
  CHECK(judgeText(text, test, {}).pass);
  const std::string apart =
      std::regex_replace(text, std::regex("(sched.wait_boxes .*\n *\\}\n) *sched.sync_lanes.*\n"), "$1");
  REQUIRE(apart != text);
  const Verdict verdict = judgeText(apart, test, {});
  INFO(verdict.text);
  CHECK(!verdict.pass);
  CHECK(verdict.text.find("'sched.store_shared' op writes dq_sums_tile, which lanes of another warp may still read "
                          "although one of them has arrived; a sync_lanes before the arrival is missing") !=
        std::string::npos);
  const Expected<std::string> verified = emitFromText({apart, "apart.mlir"}, {}, target, Stage::Sched);
  REQUIRE(!verified);
  CHECK(verified.error().message ==
        "'sched.store_shared' op writes stage 0 of dq_sums_tile, which a lane of another warp may still read although "
        "its warp has arrived; a sched.sync_lanes must come before the arrival");
}

TEST_CASE("heads of a group that see other keys", "[backward]") {
  size_t next = 0;
  const bool found = forEachCase(
      "head-masks",
      [&](const Case &test) {
        CHECK(hasRoles(simulateBackward(test, "sm_90a", Gradients{.lse = next % 2 == 0})));
        if (next++ % 4 == 0)
          simulateBackward(test, "sm_80", {});
      },
      17);
  CHECK(found);
}

TEST_CASE("NaN after the rows where a mask ends keys or queries, of gradients", "[ends]") {
  size_t next = 0;
  const bool found = forEachCase(
      "ends",
      [&](const Case &test) {
        const int64_t dim = std::max(test.problem.q.shape[3], test.problem.v.shape[3]);
        Gradients asked;
        if (test.problem.tensors.contains("bias"))
          asked.tensors = {"bias"};
        CHECK(hasRoles(simulateBackward(test, "sm_90a", asked)) == (dim <= 256));
        if (next++ % 4 == 0)
          simulateBackward(test, "sm_80", asked);
      },
      9);
  CHECK(found);
}

TEST_CASE("gradients of packed sequences", "[packed]") {
  size_t next = 0;
  const bool found = forEachCase(
      "packed",
      [&](const Case &test) {
        if (test.variant->keyPages()) // of the forward pass alone
          return;
        Gradients asked{.deterministic = next % 4 == 0};
        for (const char *name : {"slopes", "sinks"})
          if (test.problem.tensors.contains(name))
            asked.tensors.push_back(name);
        simulateBackward(test, next % 3 == 1 ? "sm_80" : "sm_90a", asked);
        ++next;
      },
      7);
  CHECK(found);
}

TEST_CASE("dropout, normalisers and head dims of the backward pass", "[backward]") {
  const Variant dropped = Variant("dropped").mask([](Index, Index, Index q, Index k) { return q >= k; }).dropout(0.3f);
  for (const std::string arch : {"sm_80", "sm_90a"}) {
    for (auto [dim, dimV] : {std::pair(64, 64), {128, 128}, {32, 64}, {40, 24}})
      simulateBackward(
          makeCase("dropout", dropped, bf16,
                   {.batch = 2, .heads = 1, .headsKv = 1, .queries = 70, .keys = 300, .headDim = dim, .headDimV = dimV},
                   8),
          arch, {});
    const Variant sigmoid = Variant("sigmoid").normaliser(normalisers::sigmoid());
    simulateBackward(makeCase("sigmoid", sigmoid, bf16,
                              {.batch = 1, .heads = 2, .headsKv = 1, .queries = 130, .keys = 129, .headDim = 64}, 9),
                     arch, {});
  }
}

TEST_CASE("the backward pass of normalisers of one's own", "[backward]") {
  size_t next = 0;
  for (const Asked &asked : definedCases(bf16))
    simulateBackward(asked.test, next++ % 2 ? "sm_80" : "sm_90a", asked.gradients);
}

TEST_CASE("what the forward pass saves serves the backward pass", "[backward]") {
  const Gradients dropout{.saving = {.save = {"dropout"}}}, score{.saving = {.save = {"score"}}},
      both{.saving = {.save = {"dropout", "score"}}};
  const Shape shape{.batch = 1, .heads = 4, .headsKv = 2, .queries = 150, .keys = 203, .headDim = 64};
  Shape wide = shape;
  wide.headDim = 128;
  const Variant dropped = Variant("dropped").mask(causal()).dropout(0.3f),
                softcapped = Variant("softcap").score(softcap(5)),
                // Nothing reads the tile of queries before the mask does.
      residues = Variant("residues").score(softcap(5)).mask([](Index, Index, Index q, Index k) {
        return q >= k && q % 3 == k % 3;
      }),
                sigmoid =
                    Variant("sigmoid").mask(slidingWindow(40, 3)).normaliser(normalisers::sigmoid()).dropout(0.3f);
  const std::pair<Case, Gradients> cases[] = {{makeCase("dropout", dropped, bf16, shape, 11), dropout},
                                              {makeCase("dropout", dropped, f16, wide, 12), both},
                                              {makeCase("softcap", softcapped, bf16, shape, 13), score},
                                              {makeCase("residues", residues, bf16, shape, 15), score},
                                              {makeCase("sigmoid", sigmoid, bf16, shape, 14), both}};
  Sample sample(3);
  for (const auto &[test, gradients] : cases)
    for (const std::string arch : {"sm_90a", "sm_80"})
      if (sample.takes())
        simulateBackward(test, arch, gradients);
  // Loops for each sum, which read saved flags of dropout.
  wide.headDim = 192;
  simulateBackward(makeCase("dropout", dropped, bf16, wide, 16), "sm_90a", dropout);
}

TEST_CASE("deterministic gradients are two loops on any architecture", "[backward]") {
  const Variant variant = Variant("causal").mask(causal());
  for (int headDim : {64, 128}) {
    const Case test =
        makeCase("causal", variant, bf16,
                 {.batch = 1, .heads = 2, .headsKv = 1, .queries = 300, .keys = 290, .headDim = headDim}, 10);
    const std::string text = simulateBackward(test, "sm_90a", Gradients{.deterministic = true});
    CHECK(hasRoles(text));
    CHECK(text.find("dq_sums") == std::string::npos);
    CHECK(text.find("_values") == std::string::npos);
  }
}

TEST_CASE("head dims above 128 have a loop for each sum", "[backward]") {
  const Variant grouped = Variant("grouped").mask(causal()),
                dropped = Variant("dropped").mask(slidingWindow(100, 3)).dropout(0.3f),
                softcapped = Variant("softcap").score(softcap(5)).mask(causal()),
                sigmoid = Variant("sigmoid").mask(causal()).normaliser(normalisers::sigmoid());
  const std::tuple<const Variant *, int, int, Gradients> cases[] = {
      {&grouped, 256, 256, {}}, {&dropped, 192, 128, {}}, {&softcapped, 256, 256, {.deterministic = true}},
      {&sigmoid, 136, 136, {}}, {&grouped, 160, 256, {}}, {&dropped, 256, 256, {.deterministic = true}}};
  for (const auto &[variant, headDim, headDimV, asked] : cases) {
    const Case test = makeCase(
        "large head dims", *variant, bf16,
        {.batch = 1, .heads = 2, .headsKv = 1, .queries = 200, .keys = 300, .headDim = headDim, .headDimV = headDimV},
        21);
    const std::string text = simulateBackward(test, "sm_90a", asked);
    CHECK(hasRoles(text));
    CHECK(text.find("_values") != std::string::npos);
  }
}

TEST_CASE("deterministic gradients of tables beside the backward pass", "[backward]") {
  Sample sample(7);
  for (const Reader &reader : scatteredReaders()) {
    if (!sample.takes())
      continue;
    const size_t number = sample.number();
    const bool isHopper = number % 2;
    const Variant variant = Variant("table").score(reader.score).mask(causal());
    Asked asked = testOf(reader, variant,
                         isHopper     ? bf16
                         : number % 4 ? f16
                                      : f32,
                         gradientShapes()[number % 4], number);
    asked.gradients.deterministic = true;
    CHECK(hasRoles(simulateBackward(asked.test, isHopper ? "sm_90a" : "sm_80", asked.gradients)) == isHopper);
  }
}

TEST_CASE("gradients of tables by distance are sums along diagonals", "[backward]") {
  Sample sample(5, 4);
  for (const Reader &reader : scatteredReaders()) {
    if (reader.label.find("q - k") == std::string::npos)
      continue;
    // Tiles all of whose distances have one bucket, and fewer rows than a warp's.
    for (const Shape &shape :
         {Shape{.batch = 1, .heads = 2, .headsKv = 1, .queries = 70, .keys = 420, .headDim = 64},
          Shape{.batch = 2, .heads = 2, .headsKv = 2, .queries = 5, .keys = 33, .headDim = 40, .headDimV = 72},
          Shape{.batch = 1, .heads = 2, .headsKv = 1, .queries = 300, .keys = 130, .headDim = 128}})
      for (const std::string arch : {"sm_80", "sm_90a"}) {
        if (!sample.takes())
          continue;
        const size_t number = sample.number() + 1;
        Variant variant = Variant("table").score(reader.score);
        const bool hasOffset = number % 3 == 0;
        if (hasOffset)
          variant = Variant(variant).qOffset();
        if (number % 2)
          variant = Variant(variant).mask(causal());
        Asked asked = testOf(reader, variant, number % 4 ? bf16 : f16, shape, number);
        asked.test.problem.qOffset = hasOffset ? 37 : 0;
        const std::string text = simulateBackward(asked.test, arch, asked.gradients);
        INFO(reader.label << ", " << arch);
        CHECK(text.find("#sched.fragment<distances") != std::string::npos);
      }
  }
}

TEST_CASE("gradients of captured tensors beside the backward pass", "[backward]") {
  const std::vector<std::function<Asked()>> cases = gradientCases();
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (size_t i = 0; i < cases.size(); i += sampleStep(71)) {
      const Asked asked = cases[i]();
      if (asked.test.problem.q.dtype != DType::F32 || arch == "sm_80")
        simulateBackward(asked.test, arch, asked.gradients);
    }
}

TEST_CASE("which gradients of dense tensors are written two columns at a time, and which eight", "[backward]") {
  struct Dense {
    std::string label;
    DType type;
    std::vector<int64_t> extents;
    int64_t keys;
    bool inPairs, inEights = false;
    Layout layout = {};
  };
  // One whole tile of each plan, and one that the sequences end in.
  const Dense tensors[] = {
      {"of the sequence's length", bf16, {2, 140, 136}, 136, true, true},
      {"of an odd length", bf16, {2, 140, 135}, 135, false},
      {"of a length that is no multiple of 8", bf16, {2, 140, 132}, 132, true},
      {"longer, of odd keys", f32, {2, 140, 140}, 135, true},
      {"longer, in eights", bf16, {3, 150, 144}, 135, true, true},
      {"two elements on", bf16, {2, 140, 136}, 136, true, false, {.tensorShift = 2}},
      {"its gradient two elements on", bf16, {2, 140, 136}, 136, true, false, {.gradientShift = 2}},
      {"an odd element on", f16, {2, 140, 136}, 136, false, false, {.tensorShift = 1}},
      {"columns apart", f32, {2, 140, 136}, 136, false, false, {.reversedTensors = true}}};
  Sample sample(5);
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (const Dense &each : tensors)
      for (int64_t batch : {1, 2}) { // written by the loop over tiles, and by a kernel of its own
        if (!sample.takes())
          continue;
        INFO(arch << ", " << each.label << ", B " << batch);
        auto bias = captured("bias", each.type, rank(3));
        const Variant variant = Variant("dense").mask(causal()).score(
            [&](Score s, Index, Index h, Index q, Index k) { return s + bias[h][q][k]; });
        Case test =
            makeCase(each.label, variant, bf16,
                     {.batch = batch, .heads = 2, .headsKv = 2, .queries = 140, .keys = each.keys, .headDim = 64}, 5);
        test.layout = each.layout;
        test.problem.tensors["bias"] = reference::HostTensor::random(each.type, each.extents, 7);
        const Gradients asked{.tensors = {"bias"}};
        const std::string text = simulateBackward(test, arch, asked);
        const std::string without = withoutLines(text, "sched.store_elements", "%dq_sums_head");
        CHECK(without != text);
        // From shared memory by TMA: the loop over queries, whose rows are keys, on warpgroup-level products.
        const bool isInBoxes = arch == "sm_90a" && batch == 1 && each.inEights;
        const std::string withoutBoxes = withoutLines(text, "to %grads.bias_map[");
        CHECK((withoutBoxes != text) == (arch == "sm_90a" && each.type == bf16));
        CHECK(judgeText(withoutBoxes, test, asked).pass == !isInBoxes);
        // What has queries as rows is exchanged between lanes: by the other kernels, and zeros beyond the sequences.
        const bool isLonger = each.extents != std::vector<int64_t>{2, 140, each.keys},
                   isExchanged = each.inEights && (!isInBoxes || isLonger);
        const std::string withoutExchanged = withoutLines(text, "sched.store_eights");
        CHECK((withoutExchanged != text) == (each.type != f32));
        CHECK(judgeText(withoutExchanged, test, asked).pass == !isExchanged);
        CHECK(judgeText(without, test, asked).pass == (isInBoxes || isExchanged || !each.inPairs));
      }
}

TEST_CASE("a dense gradient of the first tile, in front of a loop of two stages", "[backward]") {
  auto bias = captured("bias", bf16, rank(3));
  const Variant variant =
      Variant("dense").score([&](Score s, Index, Index h, Index q, Index k) { return s + bias[h][q][k]; });
  Case test =
      makeCase("D unlike Dv", variant, bf16,
               {.batch = 1, .heads = 2, .headsKv = 1, .queries = 200, .keys = 136, .headDim = 128, .headDimV = 64}, 5);
  test.problem.tensors["bias"] = reference::HostTensor::random(bf16, {2, 200, 136}, 7);
  const std::string text = simulateBackward(test, "sm_90a", {.tensors = {"bias"}});
  CHECK(text.find("to %grads.bias_map[") != std::string::npos);
}

TEST_CASE("a dense tensor that the score's derivative reads, too", "[backward]") {
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (int64_t batch : {1, 2}) {
      INFO(arch << ", B " << batch);
      auto bias = captured("bias", bf16, rank(3));
      const Variant variant = Variant("dense").score([&](Score s, Index, Index h, Index q, Index k) {
        return s + bias[h][q][k] + 0.5f * tanh(broadcast(bias[h][q][k]));
      });
      Case test = makeCase("read twice", variant, bf16,
                           {.batch = batch, .heads = 2, .headsKv = 1, .queries = 140, .keys = 136, .headDim = 64}, 5);
      test.problem.tensors["bias"] = reference::HostTensor::random(bf16, {2, 140, 136}, 7);
      const std::string text = simulateBackward(test, arch, {.tensors = {"bias"}});
      // One window serves both.
      CHECK((text.find("\"bias_ring\"") != std::string::npos) == (arch == "sm_90a"));
      CHECK(text.find("\"bias_ring_") == std::string::npos);
    }
}

TEST_CASE("which gradients of dense tensors the loop over tiles writes", "[backward]") {
  struct Dense {
    std::string label;
    std::vector<int64_t> extents; ///< of b, h, q and k
    int64_t batch;
    bool byLoop;
    bool masked = true;
  };
  const Dense tensors[] = {
      {"[b, h, q, k]", {2, 4, 100, 90}, 2, true},         {"[b, h, q, k], no mask", {2, 4, 100, 90}, 2, true, false},
      {"one for all batches", {1, 4, 100, 90}, 2, false}, {"one for all batches of one", {1, 4, 100, 90}, 1, true},
      {"one for all heads", {2, 1, 100, 90}, 2, false},   {"larger", {3, 5, 130, 96}, 2, true}};
  Sample sample(5);
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (const Dense &each : tensors) {
      if (!sample.takes())
        continue;
      INFO(arch << ", " << each.label);
      auto bias = captured("bias", f32, rank(4));
      Variant variant = Variant("dense").score(
          [&](Score s, Index b, Index h, Index q, Index k) { return s * 0.5f + broadcast(bias[b][h][q][k]) * s; });
      if (each.masked)
        variant = Variant(variant).mask(causal() && slidingWindow(30, 0));
      Case test =
          makeCase(each.label, variant, bf16,
                   {.batch = each.batch, .heads = 4, .headsKv = 2, .queries = 100, .keys = 90, .headDim = 64}, 6);
      test.problem.tensors["bias"] = reference::HostTensor::random(f32, each.extents, 7);
      const Gradients asked{.tensors = {"bias"}};
      const std::string text = simulateBackward(test, arch, asked);
      // Without what the tensor's own kernel writes.
      const size_t own = text.find("sched.kernel @dense_grad_bias");
      REQUIRE(own != std::string::npos);
      const std::string without = text.substr(0, own) + withoutLines(text.substr(own), "sched.store_element");
      CHECK(without != text);
      CHECK(judgeText(without, test, asked).pass == each.byLoop);
    }
}
