//===- Tuner.cpp - Tuning: measuring plans and choosing the fastest ----------===//
//
// For each problem the tuner chooses candidate plans, compiles them, measures them in a race and stores the times.
//
//===----------------------------------------------------------------------===//

#include "driver/Tuner.h"

#include "driver/Alternatives.h"
#include "driver/Compiling.h"
#include "driver/PlanJson.h"
#include "driver/Timing.h"
#include "driver/TunedPlans.h"
#include "runtime/Log.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::driver;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

namespace {
double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// A candidate plan of a race.
struct Racer {
  PassPlan plan;
  int rank = 0; ///< rank in the cost model's list, from 1 on; 0 for a plan that is not in the list
  double predictedSeconds = 0;
  bool chosenByModel = false;
  std::optional<KernelImage> image = {}; ///< set when compiled; its module is loaded at the first launch
  Kernel kernel = {};
  int launches = 0;
  double beside = 0; ///< time in milliseconds relative to the winner (timeAgainst), set after the race
};

/// State of one tune() that its problems share.
struct Session {
  const Source &source;
  CompileOptions options;
  const Target &target;
  const TuneOptions &tuning;
  LaunchTimer timer;
  Kernel model;                                          ///< the kernel for every size, as compile() chooses it
  PassPlan own;                                          ///< the plan of `model`
  std::optional<TunedKey> key;                           ///< key of the measurements
  Kernel forward;                                        ///< for a backward pass: the forward pass before it
  std::vector<std::pair<PassPlan, Kernel>> kernels = {}; ///< kernels of the plans compiled so far
};

/// The race for one problem.
class Race {
public:
  Race(Session &session, const TuneCase &tuneCase, size_t number, size_t count)
      : session(session), tuneCase(tuneCase), number(number), count(count) {}

  Expected<TuneResult> run() {
    result.sizes = tuneCase.sizes;
    Expected<ProblemData> made = ProblemData::make(session.model, tuneCase);
    if (!made)
      return made.error();
    data = std::move(*made);
    if (const Variant *variant = session.source.variant; variant && variant->hasDropout())
      data.setDropout(variant->dropoutProbability());
    // Arguments are checked before anything is compiled.
    Expected<LaunchArgs> args = data.argsFor(session.model);
    if (!args)
      return args.error();
    if (Expected<void> good = session.model.check(*args); !good)
      return good.error();
    if (Expected<void> run = runForward(); !run)
      return run.error();
    if (Expected<void> chosen = choose(); !chosen)
      return chosen.error();
    compile();
    if (Expected<void> timed = time(); !timed)
      return timed.error();
    finish();
    return std::move(result);
  }

private:
  /// Fills O, LSE and saved values for a backward pass by a launch of the forward pass. With other values than those of
  /// the forward pass, P = exp2(S - LSE) would be far from a distribution: dS could overflow, rows that see no key would
  /// be computed, and the products' power, on which the clock depends, would not be that of training.
  Expected<void> runForward() {
    if (!session.forward.valid())
      return {};
    if (Expected<void> added = data.addOperands(session.forward, tuneCase.sizes); !added)
      return added;
    Expected<LaunchArgs> args = data.argsFor(session.forward);
    Expected<double> time = args ? session.timer.milliseconds(session.forward, *args) : Expected<double>(args.error());
    return time ? Expected<void>() : time.error();
  }

  /// Chooses the candidates: the cost model's plan, the best plan of an earlier tuning, and the best-ranked plans.
  Expected<void> choose() {
    Expected<std::vector<PredictedPlan>> space =
        tuningSpace(session.source, session.options, session.target, tuneCase.sizes);
    if (!space)
      return space.error();
    result.space = space->size();
    auto add = [&](const PassPlan &plan) {
      if (std::ranges::find(racers, plan, &Racer::plan) != racers.end())
        return;
      const auto ranked = std::ranges::find(*space, plan, &PredictedPlan::plan);
      const bool known = ranked != space->end();
      racers.push_back({.plan = plan,
                        .rank = known ? int(ranked - space->begin()) + 1 : 0,
                        .predictedSeconds = known ? ranked->seconds : 0,
                        .chosenByModel = plan == session.own});
    };
    add(session.own);
    if (const std::optional<TunedSizes> before = measuredBefore())
      if (std::ranges::find(*space, before->best().plan, &PredictedPlan::plan) != space->end())
        add(before->best().plan);
    for (const PredictedPlan &plan : *space)
      if (racers.size() < session.tuning.candidates)
        add(plan.plan);
    return {};
  }

  std::optional<TunedSizes> measuredBefore() const {
    return session.key ? TunedPlans::of(session.options).find(*session.key, SizeClass::of(tuneCase.sizes))
                       : std::nullopt;
  }

  /// Compiles the candidates in parallel, in their order, until half of the time limit is spent.
  void compile() {
    CompileOptions options = session.options;
    options.useCache = false; // most of these kernels are never requested again
    std::vector<Racer *> missing;
    for (Racer &racer : racers) {
      if (racer.chosenByModel)
        racer.kernel = session.model;
      else if (auto known = std::ranges::find(session.kernels, racer.plan, [](const auto &each) { return each.first; });
               known != session.kernels.end())
        racer.kernel = known->second;
      else
        missing.push_back(&racer);
    }
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<size_t> done = racers.size() - missing.size(), failed = 0;
    onAllCores(missing.size(), [&](size_t i) {
      if (ended || secondsSince(begin) > session.tuning.seconds / 2)
        return;
      const auto [source, ofPlan] = withPlan(session.source, options, missing[i]->plan);
      Expected<KernelImage> image = imageOfSource(source, ofPlan, session.target);
      if (image) {
        missing[i]->image = std::move(*image);
      } else {
        ++failed;
        logLine(LogLevel::Info, "{} does not compile: {}", fullPlanText(missing[i]->plan), image.error().message);
      }
      ++done;
      if (std::this_thread::get_id() == caller)
        report(done, 0);
    });
    result.failed = failed;
    for (Racer *racer : missing) {
      if (!racer->image)
        continue;
      Expected<Kernel> kernel = kernelOfImage(std::move(*racer->image), session.source, options, session.target);
      if (kernel)
        session.kernels.emplace_back(racer->plan, racer->kernel = *kernel);
      else
        logLine(LogLevel::Info, "{} does not load: {}", fullPlanText(racer->plan), kernel.error().message);
    }
    std::erase_if(racers, [](const Racer &racer) { return !racer.kernel.valid(); });
  }

  /// Measures the candidates in a race, in which the cost model's plan stays as the baseline.
  Expected<void> time() {
    Expected<RaceTimes> times = race(
        racers.size(), [&](size_t i) { return racers[i].chosenByModel; },
        [&](size_t i) -> Expected<double> {
          Expected<LaunchArgs> args = data.argsFor(racers[i].kernel);
          if (!args)
            return args.error();
          Expected<double> milliseconds = session.timer.milliseconds(racers[i].kernel, *args);
          if (milliseconds && racers[i].launches++) // the first launch warms up; an interrupt would not keep its time
            best = std::min(best, std::pair(*milliseconds, i));
          return milliseconds;
        },
        [&](bool isFirst, size_t racing) {
          report(racers.size(), racing);
          return !ended && (isFirst || secondsSince(begin) <= session.tuning.seconds);
        });
    if (!times)
      return times.error();
    const std::vector<double> compared = times->compared();
    for (size_t i = 0; i < racers.size(); ++i) {
      racers[i].beside = compared[i];
      racers[i].launches = int(times->milliseconds[i].size());
    }
    isWhole = times->isWhole;
    return {};
  }

  /// Sorts the measured candidates and stores their times.
  void finish() {
    result.ended = ended;
    // If the first round was interrupted, some candidates have no times.
    std::erase_if(racers, [](const Racer &racer) { return !racer.launches || !racer.beside; });
    std::ranges::sort(racers, {}, &Racer::beside);
    TunedSizes tuned = {.sizes = tuneCase.sizes, .provenance = provenance(), .measured = {}};
    for (const Racer &racer : racers) {
      const std::vector<KernelEntry> &entries = racer.kernel.image().entries;
      result.candidates.push_back({.text = fullPlanText(racer.plan),
                                   .chosenByModel = racer.chosenByModel,
                                   .rank = racer.rank,
                                   .predictedMicroseconds = racer.predictedSeconds * 1e6,
                                   .microseconds = racer.beside * 1e3,
                                   .launches = racer.launches,
                                   .registers = std::ranges::max(entries, {}, &KernelEntry::registers).registers,
                                   .spillBytes = std::ranges::max(entries, {}, &KernelEntry::spillBytes).spillBytes});
      tuned.measured.push_back({racer.plan, racer.beside * 1e3, racer.launches});
    }
    result.seconds = secondsSince(begin);
    // If the first round was interrupted, an earlier measurement is not overwritten.
    if (racers.empty() || (!isWhole && measuredBefore()))
      return;
    Expected<void> written = session.key ? TunedPlans::of(session.options).write(*session.key, tuned)
                                         : Expected<void>(Error{"there is no device"});
    if (!written)
      result.notKept = written.error().message;
  }

  Provenance provenance() const {
    Provenance from = {.variant = session.model.image().name,
                       .driver = {},
                       .attune = std::string(versionText()),
                       .costModel = costModelVersion,
                       .written = int64_t(std::time(nullptr))};
    if (session.target.isCuda())
      from.driver = driverText();
    return from;
  }

  void report(size_t compiled, size_t racing) {
    if (!session.tuning.progress || ended)
      return;
    TuneProgress progress = {.problem = number,
                             .problems = count,
                             .compiled = compiled,
                             .candidates = racers.size(),
                             .inRace = racing,
                             .secondsLeft = std::max(0.0, session.tuning.seconds - secondsSince(begin))};
    if (std::isfinite(best.first)) {
      progress.best = fullPlanText(racers[best.second].plan);
      progress.bestMicroseconds = best.first * 1e3;
    }
    ended = !session.tuning.progress(progress);
  }

  Session &session;
  const TuneCase &tuneCase;
  const size_t number, count;
  const Clock::time_point begin = Clock::now();
  ProblemData data;
  std::vector<Racer> racers;
  std::pair<double, size_t> best = {INFINITY, 0}; ///< least time of a launch so far, in milliseconds, and its racer
  std::atomic<bool> ended = false;
  bool isWhole = false; ///< every candidate was timed at least once
  TuneResult result;
};
} // namespace

static Expected<void> checkCase(const TuneCase &tuneCase) {
  const ProblemSizes &sizes = tuneCase.sizes;
  if (std::min({sizes.batch, sizes.heads, sizes.headsKv, sizes.queries, sizes.keys}) < 1)
    return Error{
        fmt::format("sizes to tune for are batch {}, heads {} over {}, lengths {} and {}, required are positive "
                    "ones; set all of TuneCase::sizes",
                    sizes.batch, sizes.heads, sizes.headsKv, sizes.queries, sizes.keys)};
  return {};
}

/// Checks that the case has data for all captured tensors and scalars of the kernel.
static Expected<void> checkData(const TuneCase &tuneCase, const KernelSignature &signature) {
  auto lacks = [](const auto &given, const std::string &name) {
    return std::ranges::none_of(given, [&](const auto &each) { return each.name == name; });
  };
  std::vector<std::string> absent;
  for (const TensorParam &param : signature.tensors)
    if (lacks(tuneCase.args.tensors, param.name))
      absent.push_back(fmt::format("captured tensor '{}'", param.name));
  for (const ScalarParam &param : signature.scalars)
    if (lacks(tuneCase.args.scalars, param.name))
      absent.push_back(fmt::format("run-time scalar '{}'", param.name));
  if (absent.empty())
    return {};
  const bool one = absent.size() == 1;
  return Error{fmt::format("{} {} no data to measure with; call tune() with {} in TuneCase::args, or attune tune with "
                           "--tensor and --scalar",
                           fmt::join(absent, ", "), one ? "has" : "have", one ? "it" : "them")};
}

/// The result of a case from stored measurements.
static TuneResult resumedResult(const TuneCase &tuneCase, const TunedSizes &tuned, const PassPlan &own) {
  TuneResult result;
  result.sizes = tuneCase.sizes;
  result.resumed = true;
  for (const MeasuredPlan &plan : tuned.measured)
    result.candidates.push_back({.text = fullPlanText(plan.plan),
                                 .chosenByModel = plan.plan == own,
                                 .microseconds = plan.microseconds,
                                 .launches = plan.launches});
  return result;
}

/// The forward pass before the backward pass of `options`.
static Expected<Kernel> forwardOf(const Source &source, CompileOptions options, const Target &target) {
  options.backward = false;
  Expected<KernelImage> image = imageOfSource(source, options, target);
  return image ? kernelOfImage(std::move(*image), source, options, target) : image.error();
}

/// Only one tuning runs at a time, as two would disturb each other's measurements.
static std::mutex tuningMutex;

/// Returns the stored measurements of a program; cases of these classes are not measured again.
using Known = std::vector<TunedSizes> (*)(const TunedPlans &, const TunedKey &);

static Expected<std::vector<TuneResult>> tuneUnknown(const Source &source, const CompileOptions &options,
                                                     const Target &target, const std::vector<TuneCase> &cases,
                                                     const TuneOptions &tuning, Known knownOf) {
  for (const TuneCase &tuneCase : cases)
    if (Expected<void> good = checkCase(tuneCase); !good)
      return good.error();
  CompileOptions own = options;
  own.tuning = Tuning::Off;
  own.shapes.clear();
  own.printAfterAll = false;
  std::lock_guard lock(tuningMutex);
  Expected<Kernel> model = compileSource(source, own, target);
  if (!model)
    return model.error();
  if (!options.backward && std::holds_alternative<BackwardPlans>(passPlanOf(model->image())))
    return Error{"the text does not say which variant's backward pass it is, so that there is no forward pass to run "
                 "before it; tune the variant"};
  if (!leavesScheduleOpen(source, options))
    return Error{"tuning chooses the whole schedule, but fields of it or an SRAM budget are fixed; leave them out"};
  for (const TuneCase &tuneCase : cases)
    if (Expected<void> good = checkData(tuneCase, model->image().signature); !good)
      return good.error();
  Expected<Kernel> forward = options.backward ? forwardOf(source, own, target) : Kernel();
  if (!forward)
    return forward.error();
  Expected<LaunchTimer> timer = LaunchTimer::create(target);
  if (!timer)
    return timer.error();
  Session session = {source,
                     own,
                     target,
                     tuning,
                     std::move(*timer),
                     *model,
                     passPlanOf(model->image()),
                     tunedKeyOf(model->image(), target),
                     std::move(*forward)};
  std::vector<TuneResult> results;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::vector<TunedSizes> known =
        session.key ? knownOf(TunedPlans::of(options), *session.key) : std::vector<TunedSizes>();
    const auto found = std::ranges::find(known, SizeClass::of(cases[i].sizes), &TunedSizes::sizeClass);
    if (found != known.end()) {
      results.push_back(resumedResult(cases[i], *found, session.own));
      continue;
    }
    Expected<TuneResult> result = Race(session, cases[i], i + 1, cases.size()).run();
    if (!result)
      return result.error();
    results.push_back(std::move(*result));
    if (results.back().ended)
      break;
  }
  return results;
}

Expected<std::vector<TuneResult>> attune::driver::tuneSource(const Source &source, const CompileOptions &options,
                                                             const Target &target, const std::vector<TuneCase> &cases,
                                                             const TuneOptions &tuning) {
  // Only measurements of the user's folder count as known: cases with shipped measurements are measured again.
  const Known known = tuning.resume ? +[](const TunedPlans &plans, const TunedKey &key) { return plans.findOwn(key); }
                                    : +[](const TunedPlans &, const TunedKey &) { return std::vector<TunedSizes>(); };
  return tuneUnknown(source, options, target, cases, tuning, known);
}

Expected<void> attune::driver::measureMissing(const Source &source, const CompileOptions &options,
                                              const Target &target) {
  if (options.shapes.empty() || !leavesScheduleOpen(source, options))
    return {};
  std::vector<TuneCase> cases;
  for (const ProblemSizes &sizes : options.shapes)
    cases.push_back({.sizes = sizes});
  Expected<std::vector<TuneResult>> results = tuneUnknown(
      source, options, target, cases, {}, [](const TunedPlans &plans, const TunedKey &key) { return plans.find(key); });
  if (!results)
    return results.error();
  for (const TuneResult &result : *results)
    if (!result.notKept.empty()) // then no kernel will use the measurements
      logLine(LogLevel::Warning, "{}", result.notKept);
  return {};
}

Expected<std::vector<TuneResult>> attune::tune(const Variant &variant, const CompileOptions &options,
                                               const Target &target, const std::vector<TuneCase> &cases,
                                               const TuneOptions &tuning) {
  return tuneSource({.variant = &variant}, options, target, cases, tuning);
}
Expected<std::vector<TuneResult>> attune::tuneText(const IrText &text, const CompileOptions &options,
                                                   const Target &target, const std::vector<TuneCase> &cases,
                                                   const TuneOptions &tuning) {
  return tuneSource({.text = &text}, options, target, cases, tuning);
}

static ordered_json resultJson(const TuneResult &result) {
  ordered_json candidates = ordered_json::array();
  for (const TunedCandidate &candidate : result.candidates)
    candidates.push_back({{"text", candidate.text},
                          {"microseconds", candidate.microseconds},
                          {"launches", candidate.launches},
                          {"predictedMicroseconds", candidate.predictedMicroseconds},
                          {"rank", candidate.rank},
                          {"chosenByModel", candidate.chosenByModel},
                          {"registers", candidate.registers},
                          {"spillBytes", candidate.spillBytes}});
  ordered_json json = {{"sizes", sizesJson(result.sizes)},
                       {"sizeClass", SizeClass::of(result.sizes).text()},
                       {"space", result.space},
                       {"failed", result.failed},
                       {"resumed", result.resumed},
                       {"ended", result.ended},
                       {"seconds", result.seconds},
                       {"candidates", candidates}};
  if (!result.notKept.empty())
    json["notKept"] = result.notKept;
  return json;
}

std::string attune::tuneJson(const std::vector<TuneResult> &results) {
  ordered_json list = ordered_json::array();
  for (const TuneResult &result : results)
    list.push_back(resultJson(result));
  return list.dump();
}
