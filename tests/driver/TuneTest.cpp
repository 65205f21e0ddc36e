//===- TuneTest.cpp - Measured plans: races, files, what compile() makes of them ===//

#include "attune/attune.h"
#include "driver/Lowering.h"
#include "driver/PlanJson.h"
#include "driver/Timing.h"
#include "driver/TunedPlans.h"
#include "driver/Tuner.h"
#include "passes/analysis/cost/PlanSpace.h"
#include "runtime/Cache.h"
#include "tests/driver/Driver.h"
#include "tools/reference/Compare.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace attune;
using attune::tests::causalVariant;
using attune::tests::must;
using namespace attune::driver;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {
constexpr ProblemSizes sizes = {1, 2, 1, 96, 96};

/// A cache folder of its own for each test.
struct Folder {
  std::string path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "attune-tune-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }

  CompileOptions options() const {
    CompileOptions result{.dtype = f32, .headDim = 32};
    result.cacheDir = path;
    return result;
  }
  TunedPlans plans() const { return TunedPlans(path); }
  /// The only file of measured plans.
  std::string file() const {
    const std::vector<TunedEntry> entries = *plans().list();
    REQUIRE(entries.size() == 1);
    return entries.front().path;
  }
};

std::vector<TuneResult> tuned(const Folder &folder, const TuneOptions &tuning = {.seconds = 60, .candidates = 8},
                              const Variant &variant = causalVariant(), ProblemSizes of = sizes) {
  return must(tune(variant, folder.options(), Target::cpu(), {{.sizes = of}}, tuning));
}

/// Puts the plan `tileQ` x `tileK` first in the only file.
void makeBest(const Folder &folder, int tileQ, int tileK) {
  const std::string path = folder.file();
  ordered_json json = ordered_json::parse(std::ifstream(path));
  ordered_json &measured = json["measured"];
  measured = ordered_json::array({measured[0]});
  measured[0]["plan"]["tileQ"] = tileQ;
  measured[0]["plan"]["tileK"] = tileK;
  std::ofstream(path) << json.dump();
}

/// Options of the backward pass.
CompileOptions backwardOptions(const Folder &folder) {
  CompileOptions options = folder.options();
  options.gradients.emplace();
  options.backward = true;
  return options;
}

/// dQ, dK and dV of both passes of a variant with gradients, for random inputs.
std::vector<float> gradientsOf(const Kernel &forward, int64_t length) {
  using reference::HostTensor;
  const std::vector<int64_t> ofQ = {1, 2, length, 32}, ofK = {1, 1, length, 32};
  HostTensor q = HostTensor::random(f32, ofQ, 1), k = HostTensor::random(f32, ofK, 2),
             v = HostTensor::random(f32, ofK, 3), o = HostTensor::zeros(f32, ofQ),
             lse = HostTensor::zeros(f32, {1, 2, length}), gradient = HostTensor::random(f32, ofQ, 4),
             dq = HostTensor::zeros(f32, ofQ), dk = HostTensor::zeros(f32, ofK), dv = HostTensor::zeros(f32, ofK);
  auto view = [](const HostTensor &tensor) { return Tensor::contiguous(tensor.data.data(), f32, tensor.shape); };
  LaunchArgs args;
  args.q = view(q), args.k = view(k), args.v = view(v), args.o = view(o), args.lse = view(lse);
  REQUIRE(forward.launch(nullptr, args));
  args.operands = {{"do", view(gradient)}, {"dq", view(dq)}, {"dk", view(dk)}, {"dv", view(dv)}};
  const Kernel backward = forward.backward();
  args.workspaceBytes = backward.workspaceBytes(args);
  std::vector<std::max_align_t> workspace(args.workspaceBytes / sizeof(std::max_align_t) + 1);
  args.workspace = workspace.data();
  REQUIRE(backward.launch(nullptr, args));
  std::vector<float> all;
  for (const HostTensor *tensor : {&dq, &dk, &dv}) {
    const auto *values = reinterpret_cast<const float *>(tensor->data.data());
    all.insert(all.end(), values, values + tensor->bytes() / 4);
  }
  return all;
}

/// O of a launch agrees with the float64 reference.
void checkResult(const Kernel &kernel, const Variant &variant, int64_t length) {
  using reference::HostTensor;
  reference::Problem problem{.variant = &variant,
                             .q = HostTensor::random(f32, {1, 2, length, 32}, 1),
                             .k = HostTensor::random(f32, {1, 1, length, 32}, 2),
                             .v = HostTensor::random(f32, {1, 1, length, 32}, 3)};
  HostTensor o = HostTensor::zeros(f32, {1, 2, length, 32});
  auto view = [](const HostTensor &tensor) { return Tensor::contiguous(tensor.data.data(), f32, tensor.shape); };
  LaunchArgs args;
  args.q = view(problem.q), args.k = view(problem.k), args.v = view(problem.v), args.o = view(o);
  REQUIRE(kernel.launch(nullptr, args));
  auto exact = reference::attention(problem), plain = reference::plainLowPrecision(problem);
  REQUIRE(exact);
  REQUIRE(plain);
  CHECK(reference::compareO(o, *exact, *plain).pass);
}
} // namespace

TEST_CASE("tune times candidates, and keeps their times") {
  Folder folder;
  const std::vector<TuneResult> results = tuned(folder);
  REQUIRE(results.size() == 1);
  const TuneResult &result = results.front();
  CHECK(result.notKept.empty());
  CHECK(result.space > 8);
  REQUIRE(result.candidates.size() == 8);
  int byModel = 0;
  for (size_t i = 0; i < result.candidates.size(); ++i) {
    CHECK(result.candidates[i].microseconds > 0);
    CHECK(result.candidates[i].launches >= 2);
    CHECK((i == 0 || result.candidates[i - 1].microseconds <= result.candidates[i].microseconds));
    byModel += result.candidates[i].chosenByModel;
  }
  CHECK(byModel == 1);
  const std::vector<TunedEntry> entries = must(folder.plans().list());
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].problem.empty());
  CHECK(entries[0].sizes.sizes == sizes);
  CHECK(entries[0].sizes.provenance.variant == "causal");
  CHECK(entries[0].sizes.measured.size() == 8);
  CHECK(entries[0].sizes.best().microseconds == result.candidates[0].microseconds);
  CHECK(entries[0].id.ends_with(".h2-q96-k96"));
}

TEST_CASE("a plan that left the race is compared with what the winner took meanwhile") {
  // 6% behind at first; then the GPU comes to its power limit.
  const std::vector<double> winner = {69, 69, 70, 69, 69, 77, 77, 77, 77, 77, 77}, left = {73, 73, 74, 73, 73};
  CHECK(timeAgainst(left, winner) == Approx(77.0 * 73 / 69));
  CHECK(timeAgainst(winner, winner) == 77);
  // Something else slowed the winner's first launches down.
  CHECK(timeAgainst(std::vector<double>{66, 66}, std::vector<double>{75, 75, 38, 38, 38, 38}) == 66);
  // Ended in the middle of a round.
  CHECK(timeAgainst(std::vector<double>{2, 3, 4}, std::vector<double>{2, 2}) == 3);
  CHECK(median(std::vector<double>{5}) == 5);
  CHECK(median(std::vector<double>{9, 1, 4}) == 4);
  CHECK(median(std::vector<double>{9, 1, 4, 2}) == 3); // the mean of the two in the middle
}

TEST_CASE("compile takes the measured plan for its class of sizes, and for no other") {
  Folder folder;
  tuned(folder);
  makeBest(folder, 20, 32);
  CompileOptions options = folder.options();
  const Variant variant = causalVariant();
  // A plan that the cost model refuses, from a file that somebody edited: a warning, and the kernel itself.
  const Kernel kernel = must(compile(variant, options, Target::cpu()));
  CHECK(kernel.imageFor(sizes).tileQ == kernel.image().tileQ);

  Folder other;
  tuned(other);
  makeBest(other, 16, 32);
  options = other.options();
  const Kernel good = must(compile(variant, options, Target::cpu()));
  CHECK(good.image().tileQ != 16);
  CHECK(good.imageFor(sizes).tileQ == 16);
  CHECK(good.imageFor(sizes).tileK == 32);
  CHECK(good.imageFor({1, 2, 1, 4096, 4096}).tileQ == good.image().tileQ);
  CHECK(good.image().tileQ == must(compileImage(variant, options, Target::cpu())).tileQ);
  checkResult(good, variant, 96);
  checkResult(good, variant, 200);
  // Again from memory, and in a second process's place from disk.
  CHECK(must(compile(variant, options, Target::cpu())).imageFor(sizes).tileQ == 16);
  // A variant of another name asks the cost model the same.
  CHECK(must(compile(causalVariant("triangle"), options, Target::cpu())).imageFor(sizes).tileQ == 16);
  // Other head dims, another dtype, a fixed field or a budget are not what was measured.
  CompileOptions wider = options;
  wider.headDim = 40;
  CHECK(must(compile(variant, wider, Target::cpu())).alternatives().empty());
  CompileOptions fixed = options;
  fixed.tileK = 64;
  CHECK(must(compile(variant, fixed, Target::cpu())).alternatives().empty());
  CompileOptions budget = options;
  budget.sramBudget = 200000;
  CHECK(must(compile(variant, budget, Target::cpu())).alternatives().empty());
  CompileOptions off = options;
  off.tuning = Tuning::Off;
  CHECK(must(compile(variant, off, Target::cpu())).alternatives().empty());
  // A removal counts at once.
  CHECK(other.plans().remove(must(other.plans().list()).front()));
  CHECK(must(compile(variant, options, Target::cpu())).alternatives().empty());
}

TEST_CASE("explain has the times of what was measured") {
  Folder folder;
  tuned(folder);
  const Variant variant = causalVariant();
  auto explained = [&](const CompileOptions &options, const ProblemSizes &of) {
    return ordered_json::parse(must(explain(variant, options, Target::cpu(), of)));
  };
  const ordered_json with = explained(folder.options(), sizes);
  CHECK(with["measured"]["sizeClass"] == "h2 q96 k96");
  CHECK(with["measured"]["plans"] == 8);
  CHECK(with["measured"]["differs"].empty());
  int timed = 0;
  for (const ordered_json &candidate : with["candidates"])
    if (candidate.contains("measuredMicroseconds")) {
      ++timed;
      const double times =
          candidate["measuredMicroseconds"].get<double>() / with["measured"]["microseconds"].get<double>();
      const std::string why = candidate["passedOver"];
      if (times > 1)
        CHECK(why == fmt::format("measured: {:.1f}% slower", 100 * (times - 1)));
      else
        CHECK((why.empty() || why == "measured: the quickest, for these sizes alone"));
    }
  // Plans that differ in the order of rows alone are no rows of the ranking.
  CHECK(timed >= 4);
  CHECK_FALSE(explained(folder.options(), {1, 2, 1, 2048, 2048}).contains("measured"));
  CompileOptions off = folder.options();
  off.tuning = Tuning::Off;
  CHECK_FALSE(explained(off, sizes).contains("measured"));
  const std::string path = folder.file();
  ordered_json json = ordered_json::parse(std::ifstream(path));
  json["provenance"]["attune"] = "0.0.9";
  json["provenance"]["costModel"] = 3;
  std::ofstream(path) << json.dump();
  CHECK(explained(folder.options(), sizes)["measured"]["differs"] ==
        ordered_json({"attune 0.0.9 measured, this is 0.2.0",
                      fmt::format("cost model 3 chose the candidates, this is {}", costModelVersion)}));
}

TEST_CASE("shapes and prepare make kernels by the cost model where nothing was measured") {
  Folder folder;
  CompileOptions options = folder.options();
  const Variant variant = causalVariant();
  const Kernel plain = must(compile(variant, options, Target::cpu()));
  CHECK(plain.alternatives().empty());
  const ProblemSizes small = {1, 2, 1, 16, 16};
  const Kernel prepared = must(plain.prepare({small, sizes}));
  CHECK(prepared.alternatives().size() == 2);
  CHECK(plain.alternatives().empty());
  options.shapes = {small, sizes};
  const Kernel shaped = must(compile(variant, options, Target::cpu()));
  CHECK(shaped.imageFor(small).planJson == prepared.imageFor(small).planJson);
  // Without a cache, too.
  CompileOptions uncached = options;
  uncached.useCache = false;
  CHECK(must(compile(variant, uncached, Target::cpu())).imageFor(small).tileQ == shaped.imageFor(small).tileQ);
  checkResult(prepared, variant, 16);
  checkResult(prepared, variant, 96);
}

TEST_CASE("prepare keeps the handle's dropout") {
  Folder folder;
  Variant variant = causalVariant();
  variant.dropout(0.25f);
  const Kernel kernel = must(compile(variant, folder.options(), Target::cpu())).withDropout(0.5f);
  using reference::HostTensor;
  const HostTensor q = HostTensor::random(f32, {1, 2, 64, 32}, 1), k = HostTensor::random(f32, {1, 1, 64, 32}, 2);
  HostTensor a = HostTensor::zeros(f32, {1, 2, 64, 32}), b = HostTensor::zeros(f32, {1, 2, 64, 32});
  auto run = [&](const Kernel &of, HostTensor &o) {
    auto view = [](const HostTensor &tensor) { return Tensor::contiguous(tensor.data.data(), f32, tensor.shape); };
    LaunchArgs args;
    args.q = view(q), args.k = view(k), args.v = view(k), args.o = view(o);
    REQUIRE(of.launch(nullptr, args));
  };
  run(kernel, a);
  run(must(kernel.prepare({{4, 2, 1, 4096, 4096}})), b);
  CHECK(a.data == b.data);
}

TEST_CASE("Tuning::Measure measures what is not measured yet") {
  Folder folder;
  CompileOptions options = folder.options();
  options.tuning = Tuning::Measure;
  options.shapes = {{1, 1, 1, 32, 32}};
  must(compile(causalVariant(), options, Target::cpu()));
  const int64_t written = must(folder.plans().list()).at(0).sizes.provenance.written;
  CHECK(written > 0);
  const auto time = fs::last_write_time(folder.file());
  must(compile(causalVariant(), options, Target::cpu()));
  CHECK(fs::last_write_time(folder.file()) == time);
}

TEST_CASE("tuning resumes, ends when it is told to, and starts from what it knew") {
  Folder folder;
  tuned(folder);
  makeBest(folder, 16, 32);
  const std::vector<TuneResult> resumed = tuned(folder, {.resume = true});
  CHECK(resumed[0].resumed);
  CHECK(resumed[0].candidates.size() == 1);
  // With two candidates there are the model's choice and the best of before.
  const std::vector<TuneResult> again = tuned(folder, {.seconds = 2, .candidates = 2});
  CHECK(std::ranges::any_of(again[0].candidates,
                            [](const TunedCandidate &each) { return each.text.starts_with("16 x 32"); }));
  int calls = 0;
  TuneOptions ending = {.seconds = 2, .candidates = 4, .progress = [&](const TuneProgress &progress) {
                          CHECK(progress.candidates == 4);
                          return ++calls < 12;
                        }};
  const std::vector<TuneResult> ended = must(
      tune(causalVariant(), folder.options(), Target::cpu(), {{.sizes = sizes}, {.sizes = {1, 1, 1, 8, 8}}}, ending));
  CHECK(calls == 12);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].ended);
  // Ended in the first round: what was measured before stays.
  makeBest(folder, 16, 32);
  bool racing = false;
  const TuneOptions early = {.seconds = 2, .candidates = 4, .progress = [&](const TuneProgress &progress) {
                               return !std::exchange(racing, progress.inRace > 0);
                             }};
  CHECK(tuned(folder, early)[0].ended);
  CHECK(must(folder.plans().list()).at(0).sizes.measured.size() == 1);
}

TEST_CASE("the plans of a backward pass are measured, kept, and taken by compile") {
  Folder folder;
  const Variant variant = causalVariant();
  const CompileOptions backward = backwardOptions(folder);
  const TuneResult result =
      must(tune(variant, backward, Target::cpu(), {{.sizes = sizes}}, {.seconds = 60, .candidates = 6}))[0];
  CHECK(result.space > 100);
  REQUIRE(result.candidates.size() == 6);
  CHECK(std::ranges::count(result.candidates, true, &TunedCandidate::chosenByModel) == 1);
  CHECK(result.candidates[0].text.starts_with("dK, dV "));
  const TunedEntry entry = must(folder.plans().list()).at(0);
  CHECK(entry.problem.empty());
  CHECK(entry.key.isBackward());
  // The forward pass was not measured.
  CompileOptions both = folder.options();
  both.gradients.emplace();
  // The best plan is now one of 32 x 16 for dK and dV, and of 32 x 64 for dQ.
  makeBest(folder, 16, 32);
  ordered_json json = ordered_json::parse(std::ifstream(folder.file()));
  json["measured"][0]["plan"]["queries"]["tileQ"] = 32;
  json["measured"][0]["plan"]["queries"]["tileK"] = 64;
  std::ofstream(folder.file()) << json.dump();
  const Kernel kernel = must(compile(variant, both, Target::cpu()));
  CHECK(kernel.alternatives().empty());
  const ordered_json plan = ordered_json::parse(kernel.backward().imageFor(sizes).planJson)["backward"];
  CHECK(plan["tileQ"] == 16);
  CHECK(plan["tileK"] == 32);
  CHECK(plan["queries"]["tileQ"] == 32);
  CHECK(plan["queries"]["tileK"] == 64);
  const ordered_json other = ordered_json::parse(kernel.backward().imageFor({1, 2, 1, 4096, 4096}).planJson);
  CHECK(other == ordered_json::parse(kernel.backward().image().planJson));
  CHECK(must(compile(variant, backward, Target::cpu())).imageFor(sizes).planJson ==
        kernel.backward().imageFor(sizes).planJson);
  both.tuning = Tuning::Off;
  const Kernel byModel = must(compile(variant, both, Target::cpu()));
  CHECK(byModel.backward().alternatives().empty());
  for (int64_t length : {96, 90}) {
    const std::vector<float> measured = gradientsOf(kernel, length), chosen = gradientsOf(byModel, length);
    REQUIRE(measured.size() == chosen.size());
    for (size_t i = 0; i < measured.size(); ++i)
      REQUIRE(measured[i] == Approx(chosen[i]).margin(1e-4));
  }
  // Deterministic gradients and gradients of tensors are other programs.
  CompileOptions deterministic = backward;
  deterministic.gradients->deterministic = true;
  CHECK(must(compile(variant, deterministic, Target::cpu())).alternatives().empty());
  CompileOptions fixed = backward;
  fixed.tileK = 32;
  CHECK(must(compile(variant, fixed, Target::cpu())).alternatives().empty());
  // Plans that the model does not have, from an edited file: a warning, and the kernel itself.
  Folder edited;
  const CompileOptions ofEdited = backwardOptions(edited);
  must(tune(variant, ofEdited, Target::cpu(), {{.sizes = sizes}}, {.seconds = 1, .candidates = 1}));
  makeBest(edited, 48, 32);
  CHECK(must(compile(variant, ofEdited, Target::cpu())).imageFor(sizes).tileK != 32);
  // Plans of a forward pass in the file of a backward pass.
  json["measured"][0]["plan"].erase("queries");
  std::ofstream(folder.file()) << json.dump();
  CHECK(must(folder.plans().list()).at(0).problem == "one of its plans is of another pass than its features");
}

TEST_CASE("a backward pass is measured with what its forward pass leaves, captured tensors and saved values") {
  Folder folder;
  auto slopes = captured("slopes", f32, rank(1));
  Variant alibi =
      Variant("alibi").score([&](Score s, Index, Index h, Index q, Index k) { return s + slopes[h] * (k - q); });
  alibi.mask([](Index, Index, Index q, Index k) { return q < k; }); // the last row sees no key
  alibi.dropout(0.25f);
  CompileOptions options = backwardOptions(folder);
  options.gradients->tensors = {"slopes"};
  options.gradients->lse = true;
  options.gradients->saving.save = {"dropout", "score"};
  std::vector<float> data = {0.5f, 0.25f}, o(2 * 96 * 32, -1.0f);
  TuneCase tuneCase = {.sizes = sizes};
  tuneCase.args.tensors = {{"slopes", Tensor::contiguous(data.data(), f32, {2})}};
  tuneCase.args.o = Tensor::contiguous(o.data(), f32, {1, 2, 96, 32});
  CHECK(must(tune(alibi, options, Target::cpu(), {tuneCase}, {.seconds = 20, .candidates = 2}))[0].candidates.size() ==
        2);
  CHECK(std::ranges::count(o, -1.0f) == 0);
  CHECK(std::ranges::count(o, 0.0f) >= 2 * 32);
  // A normaliser without statistics reads neither O nor LSE.
  const Variant sigmoid = Variant("weights").normaliser(normalisers::sigmoid());
  CHECK(must(tune(sigmoid, backwardOptions(folder), Target::cpu(), {{.sizes = sizes}},
                  {.seconds = 20, .candidates = 2}))[0]
            .candidates.size() == 2);
}

TEST_CASE("Tuning::Measure measures the backward pass, too") {
  Folder folder;
  CompileOptions options = folder.options();
  options.headDim = 8;
  const Variant variant = Variant("weights").normaliser(normalisers::sigmoid());
  must(tune(variant, options, Target::cpu(), {{.sizes = {1, 1, 1, 16, 16}}}, {.seconds = 1, .candidates = 1}));
  options.gradients.emplace();
  options.tuning = Tuning::Measure;
  options.shapes = {{1, 1, 1, 16, 16}};
  must(compile(variant, options, Target::cpu()));
  const std::vector<TunedEntry> entries = must(folder.plans().list());
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].key.isBackward() != entries[1].key.isBackward());
}

TEST_CASE("the plans of a backward pass are the same after JSON") {
  for (int headDim : {64, 256}) {
    PlanRequest request;
    request.arch = "sm_90a";
    request.headDim = request.headDimV = headDim;
    for (const BackwardPlans &plans : must(backwardPlans(request)))
      CHECK(std::get<BackwardPlans>(passPlanOfFields(planFields(plans))) == plans);
  }
  // Files from before the fields were there.
  nlohmann::ordered_json fields =
      planFields(BackwardPlans{.keys = {.tileQ = 64}, .queries = {.tileQ = 32}, .accumulatesDq = true});
  for (const char *later : {"separateDv", "dpStages"}) {
    fields.erase(later);
    fields["queries"].erase(later);
  }
  const BackwardPlans plans = std::get<BackwardPlans>(passPlanOfFields(fields));
  CHECK((plans.accumulatesDq && !plans.separateDv && plans.keys.dpStages == 0 && plans.queries.tileQ == 32));
}

TEST_CASE("the plans of a backward pass give the kernels that they describe") {
  const Variant variant = causalVariant();
  for (const char *arch : {"sm_90a", "sm_80"})
    for (bool deterministic : {false, true}) {
      CompileOptions options{
          .dtype = bf16, .headDim = 64, .gradients = Gradients{.deterministic = deterministic}, .backward = true};
      const Target target = Target::cuda(arch);
      const std::vector<PredictedPlan> space =
          must(tuningSpace({.variant = &variant}, options, target, {4, 16, 16, 2048, 2048}));
      int ofWarpgroups = 0;
      for (size_t i = 0; i < space.size(); ++i) {
        const BackwardPlans &plans = std::get<BackwardPlans>(space[i].plan);
        CHECK(space[i].seconds > 0);
        REQUIRE_FALSE((deterministic && plans.accumulatesDq));
        ofWarpgroups += plans.keys.producerWarps > 0;
        if (i > 8)
          continue;
        Source source{.variant = &variant};
        source.plans = plans;
        const Lowered lowered = must(lower(source, options, target, Stage::Sched, true));
        CHECK(lowered.backward->second == plans);
        const Plan &main = plans.accumulatesDq ? plans.keys : plans.queries;
        CHECK(lowered.path == (main.producerWarps ? "wgmma" : "mma.sync"));
        CHECK(lowered.plan.tileQ == main.tileQ);
        CHECK(lowered.plan.tileK == main.tileK);
        CHECK(lowered.plan.warps == main.warps);
        CHECK(lowered.plan.stages == main.stages);
      }
      CHECK((ofWarpgroups > 2) == (std::string_view(arch) == "sm_90a"));
    }
  // Plans that are none of the model's.
  Source source{.variant = &variant};
  source.plans = BackwardPlans{};
  const Expected<Lowered> none =
      lower(source, {.dtype = bf16, .headDim = 64, .gradients = Gradients{}, .backward = true}, Target::cuda("sm_90a"),
            Stage::Sched, true);
  REQUIRE_FALSE(none);
}

TEST_CASE("tuning says what it cannot do") {
  Folder folder;
  auto failure = [&](const Variant &variant, const CompileOptions &options, ProblemSizes of = sizes,
                     const Target &target = Target::cpu()) {
    Expected<std::vector<TuneResult>> results = tune(variant, options, target, {{.sizes = of}});
    return results ? "no error" : results.error().message;
  };
  CompileOptions options = folder.options();
  CHECK(failure(causalVariant(), options, {1, 2, 1, 0, 96}) ==
        "sizes to tune for are batch 1, heads 2 over 1, lengths 0 and 96, required are positive ones; set all of "
        "TuneCase::sizes");
  CHECK_THAT(failure(causalVariant(), options, {1, 3, 2, 96, 96}), Catch::Contains("heads"));
  CompileOptions fixed = options;
  fixed.tileQ = 32;
  CHECK(failure(causalVariant(), fixed) ==
        "tuning chooses the whole schedule, but fields of it or an SRAM budget are fixed; leave them out");
  auto slopes = captured("slopes", f32, rank(1));
  const Variant alibi =
      Variant("alibi").score([&](Score s, Index, Index h, Index q, Index k) { return s + slopes[h] * (k - q); });
  CHECK(failure(alibi, options) == "captured tensor 'slopes' has no data to measure with; call tune() with it in "
                                   "TuneCase::args, or attune tune with --tensor and --scalar");
  const auto cap = scalar("cap", f32);
  const Variant capped = Variant("capped").score([&](Score s, Index, Index, Index, Index) { return softcap(s, cap); });
  CHECK(failure(capped, options) == "run-time scalar 'cap' has no data to measure with; call tune() with it in "
                                    "TuneCase::args, or attune tune with --tensor and --scalar");
  CompileOptions measuring = options;
  measuring.tuning = Tuning::Measure;
  measuring.shapes = {sizes};
  Expected<Kernel> measured = compile(alibi, measuring, Target::cpu());
  REQUIRE_FALSE(measured);
  CHECK_THAT(measured.error().message, Catch::StartsWith("captured tensor 'slopes' has no data to measure with"));
  CompileOptions backward = backwardOptions(folder);
  CHECK(failure(alibi, backward) == failure(alibi, options));
  backward.tileQ = 32;
  CHECK(failure(causalVariant(), backward) == failure(causalVariant(), fixed));
  backward = backwardOptions(folder);
  const IrText text = {must(emit(causalVariant(), backward, Target::cpu(), Stage::Attn))};
  Expected<std::vector<TuneResult>> ofText = tuneText(text, folder.options(), Target::cpu(), {{.sizes = sizes}});
  REQUIRE_FALSE(ofText);
  CHECK(ofText.error().message == "the text does not say which variant's backward pass it is, so that there is no "
                                  "forward pass to run before it; tune the variant");
  CHECK(failure(causalVariant(), options, {int64_t(1) << 40, 2, 1, 96, 96}) ==
        "a tensor of 1099511627776 x 2 x 96 x 32 elements is too large to tune with");
  CHECK(must(folder.plans().list()).empty());
  // Without a cache there is nowhere to keep them.
  CompileOptions uncached = options;
  uncached.useCache = false;
  const std::vector<TuneResult> results = must(
      tune(causalVariant(), uncached, Target::cpu(), {{.sizes = {1, 1, 1, 16, 16}}}, {.seconds = 1, .candidates = 2}));
  CHECK(results[0].notKept ==
        "measured plans are not kept: there is no cache folder; name one, such as by ATTUNE_CACHE_DIR");
}

TEST_CASE("captured tensors and the user's own q, k, v and o are measured with") {
  Folder folder;
  auto slopes = captured("slopes", f32, rank(1));
  const Variant alibi =
      Variant("alibi").score([&](Score s, Index, Index h, Index q, Index k) { return s + slopes[h] * (k - q); });
  std::vector<float> data = {0.5f, 0.25f};
  std::vector<float> o(2 * 96 * 32, -1.0f);
  TuneCase tuneCase = {.sizes = sizes};
  tuneCase.args.tensors = {{"slopes", Tensor::contiguous(data.data(), f32, {2})}};
  tuneCase.args.o = Tensor::contiguous(o.data(), f32, {1, 2, 96, 32});
  CHECK(must(tune(alibi, folder.options(), Target::cpu(), {tuneCase}, {.seconds = 1, .candidates = 2}))[0]
            .candidates.size() == 2);
  CHECK(std::ranges::count(o, -1.0f) == 0);
}

TEST_CASE("a file that is not as it should be does not count") {
  Folder folder;
  tuned(folder);
  const std::string path = folder.file(), whole = must(IrText::read(path)).text;
  const TunedKey key = must(folder.plans().list()).at(0).key;
  REQUIRE(folder.plans().find(key).size() == 1);
  auto problemOf = [&](const std::string &text) {
    std::ofstream(path) << text;
    CHECK(folder.plans().find(key).empty());
    return must(folder.plans().list()).at(0).problem;
  };
  CHECK(problemOf("") == "it is not a JSON object");
  CHECK(problemOf(whole.substr(0, whole.size() / 2)) == "it is not a JSON object");
  CHECK(problemOf("[]") == "it is not a JSON object");
  CHECK(problemOf("{}") == "it lacks 'format' or has it with another type");
  const ordered_json good = ordered_json::parse(whole);
  auto changed = [&](auto &&change) {
    ordered_json json = good;
    change(json);
    return problemOf(json.dump());
  };
  CHECK(changed([](ordered_json &json) { json["format"] = 2; }) == "it has format 2, required is 1");
  CHECK(changed([](ordered_json &json) { json["planSpace"] = 99; }) == "its plans are of space 99, required is 3");
  CHECK(changed([](ordered_json &json) { json["measured"] = ordered_json::array(); }) == "it has no measurement");
  CHECK(changed([](ordered_json &json) { json["measured"][0].erase("plan"); }) ==
        "it lacks 'measured.plan' or has it with another type");
  CHECK(changed([](ordered_json &json) { json["measured"][0]["plan"]["tileQ"] = "x"; }) ==
        "it lacks 'measured.plan.tileQ' or has it with another type");
  CHECK(changed([](ordered_json &json) { json["measured"][0]["microseconds"] = -1.0; }) ==
        "one of its times is no positive number");
  CHECK(changed([](ordered_json &json) { json["features"] = "other"; }) == "its name does not match its content");
  CHECK(changed([](ordered_json &json) { json["sizes"]["queries"] = 4096; }) == "its name does not match its content");
  // Tuning again mends it.
  tuned(folder);
  CHECK(folder.plans().find(key).size() == 1);
  // A file that others may write to is not used.
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  CHECK(folder.plans().find(key).empty());
  CHECK_THAT(must(folder.plans().list()).at(0).problem, Catch::Contains("lets others write to it"));
}

TEST_CASE("measured plans are exported and imported") {
  Folder from, to;
  tuned(from);
  tuned(from, {.seconds = 1, .candidates = 4}, causalVariant(), {1, 1, 1, 32, 32});
  const std::string text = must(from.plans().exported(3));
  CHECK(must(to.plans().import(text)) == 2);
  const std::vector<TunedEntry> entries = must(to.plans().list());
  REQUIRE(entries.size() == 2);
  for (const TunedEntry &entry : entries)
    CHECK(entry.sizes.measured.size() == 3);
  CHECK(must(to.plans().exported(3)) == text);
  ordered_json bad = ordered_json::parse(text);
  bad["plans"][1]["measured"][0]["microseconds"] = "fast";
  Folder untouched;
  for (const auto &[content, problem] :
       {std::pair<std::string, const char *>{"{}", "it is not what attune cache plans export writes"},
        {bad.dump(), "entry 1 is bad: it lacks 'measured.microseconds' or has it with another type"}}) {
    Expected<size_t> imported = untouched.plans().import(content);
    REQUIRE_FALSE(imported);
    CHECK(imported.error().message == problem);
    CHECK(must(untouched.plans().list()).empty());
  }
}

TEST_CASE("processes that write at once lose nothing") {
  Folder folder;
  tuned(folder);
  const TunedEntry entry = must(folder.plans().list()).front();
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t process = fork();
    REQUIRE(process >= 0);
    if (process == 0) {
      bool good = true;
      for (int i = 0; i < 25; ++i) {
        TunedSizes mine = entry.sizes;
        mine.sizes.queries = 1000 * (child + 1);
        good &= bool(folder.plans().write(entry.key, mine)) && bool(folder.plans().write(entry.key, entry.sizes));
        good &= !folder.plans().find(entry.key).empty();
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(process);
  }
  for (pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  const std::vector<TunedEntry> entries = must(folder.plans().list());
  CHECK(entries.size() == 5);
  for (const TunedEntry &each : entries)
    CHECK(each.problem.empty());
  for (const auto &file : fs::directory_iterator(folder.path + "/plans"))
    CHECK(file.path().extension() == ".json");
}

TEST_CASE("the plans that attune ships are of this cost model's questions, few and legal") {
  const std::string path = std::string(ATTUNE_SOURCE) + "/arch/plans/nvidia_h200.json";
  const ordered_json json = ordered_json::parse(std::ifstream(path));
  REQUIRE(shippedPlans().size() == json["plans"].size());
  CHECK(shippedPlans().size() >= 40);
  CHECK(shippedPlans().size() <= 90);
  CHECK(std::ranges::count_if(shippedPlans(), [](const TunedEntry &entry) {
          return std::holds_alternative<BackwardPlans>(entry.sizes.best().plan);
        }) >= 12);
  std::set<std::string> ids;
  for (const TunedEntry &entry : shippedPlans()) {
    INFO(entry.id);
    CHECK(ids.insert(entry.id).second);
    CHECK(entry.key.device == "NVIDIA H200, 132 multiprocessors");
    CHECK(entry.sizes.measured.size() >= 2);
    // Tune again (bench/ship_plans.py) where the cost model reads programs in another way than then.
    const auto builtin = std::ranges::find(builtinVariants(), entry.sizes.provenance.variant, &BuiltinVariant::name);
    const Variant variant = builtin == builtinVariants().end() ? Variant("plain") : must(builtin->make({}, {}));
    CompileOptions options = {
        .dtype = *parseDType(entry.key.dtype), .headDim = entry.key.headDim, .headDimV = entry.key.headDimV};
    if (std::holds_alternative<BackwardPlans>(entry.sizes.best().plan)) {
      options.gradients.emplace();
      options.backward = true;
      const Target target = Target::cuda(entry.key.arch);
      const ProblemSizes &sizes = entry.sizes.sizes;
      REQUIRE(planFeatures(must(explainGradients({.variant = &variant}, options, target, sizes, nullptr)).request) ==
              entry.key.features);
      const std::vector<PredictedPlan> space = must(tuningSpace({.variant = &variant}, options, target, sizes));
      for (const MeasuredPlan &measured : entry.sizes.measured)
        CHECK(std::ranges::find(space, measured.plan, &PredictedPlan::plan) != space.end());
      continue;
    }
    IrSummary summary;
    PlanRequest request =
        must(requestOf({.variant = &variant}, options, Target::cuda(entry.key.arch), ProblemSizes{}, summary));
    REQUIRE(planFeatures(request) == entry.key.features);
    for (const MeasuredPlan &measured : entry.sizes.measured) {
      const Plan plan = std::get<Plan>(measured.plan);
      request.fixed = choiceOf(plan);
      CHECK(must(choosePlan(request)).plan == plan);
    }
  }
}
