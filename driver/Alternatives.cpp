//===- Alternatives.cpp - Kernels for classes of sizes -----------------------===//

#include "driver/Alternatives.h"

#include "driver/Compiling.h"
#include "driver/PlanJson.h"
#include "runtime/Log.h"

#include <algorithm>
#include <cmath>

using namespace attune;
using namespace attune::driver;

std::optional<TunedKey> attune::driver::tunedKeyOf(const KernelImage &image, const Target &target) {
  return TunedKey::of(target, image.signature, featuresOf(image));
}

namespace {
/// Plans for a class of sizes, or for few queries, best first. The alternative is the first plan that compiles and, if
/// it is not measured, does not spill more than the kernel's own.
struct SizedPlans {
  SizeClass sizes;
  std::vector<PassPlan> plans;
  FewQueries fewQueries = FewQueries::No;
  bool isMeasured = false;

  std::string text() const { return fewQueries == FewQueries::No ? sizes.text() : "few queries"; }
};
} // namespace

/// The cost model's best plans for `sizes`; the kernel's own plan where the model expects no gain from another. The
/// model's choice for a backward pass does not depend on sizes.
static std::vector<PassPlan> predicted(const PassPlan &ownPlan, const Source &source, const CompileOptions &options,
                                       const Target &target, const ProblemSizes &sizes) {
  if (std::holds_alternative<BackwardPlans>(ownPlan))
    return {ownPlan};
  const Plan &own = std::get<Plan>(ownPlan);
  constexpr double gain = 1.02;
  constexpr size_t attempts = 3;
  IrSummary summary;
  Expected<PlanRequest> request = requestOf(source, options, target, sizes, summary);
  if (!request)
    return {own};
  request->theseSizes = true;
  Expected<std::vector<RankedPlan>> ranked = rankPlans(*request);
  if (!ranked)
    return {own};
  const auto found = std::ranges::find(*ranked, own, &RankedPlan::plan);
  if (found != ranked->end() && found->demoted.empty() &&
      found->cost.totalSeconds <= gain * ranked->front().cost.totalSeconds)
    return {own};
  std::vector<PassPlan> plans;
  for (const RankedPlan &plan : *ranked)
    if (plan.accepted() && plans.size() < attempts)
      plans.push_back(plan.plan);
  return plans;
}

/// The plan of the given form with the smallest geometric mean of predicted times over `sizes`.
static std::optional<Plan> bestOverSizes(PlanRequest request, const std::vector<ProblemSizes> &sizes) {
  std::vector<std::pair<Plan, double>> logarithms;
  for (bool isFirst = true; const ProblemSizes &each : sizes) {
    request.batch = each.batch;
    request.heads = each.heads;
    request.headsKv = each.headsKv;
    request.queries = each.queries;
    request.keys = each.keys;
    Expected<std::vector<RankedPlan>> ranked = rankPlans(request);
    if (!ranked)
      return std::nullopt;
    std::vector<std::pair<Plan, double>> sums;
    for (const RankedPlan &plan : *ranked) {
      const auto before = std::ranges::find(logarithms, plan.plan, &std::pair<Plan, double>::first);
      if (plan.accepted() && plan.demoted.empty() && (isFirst || before != logarithms.end()))
        sums.emplace_back(plan.plan, std::log(plan.cost.totalSeconds) + (isFirst ? 0 : before->second));
    }
    logarithms = std::move(sums);
    isFirst = false;
  }
  const auto best = std::ranges::min_element(logarithms, {}, &std::pair<Plan, double>::second);
  return best == logarithms.end() ? std::nullopt : std::optional(best->first);
}

bool attune::driver::servesFewQueries(const Source &source, const CompileOptions &options, const Target &target) {
  return target.isCuda() && !options.gradients && !options.backward &&
         !(source.variant && source.variant->hasDropout()) && leavesScheduleOpen(source, options);
}

std::vector<FewQueriesPlan> attune::driver::fewQueriesPlans(const Source &source, const CompileOptions &options,
                                                            const Target &target) {
  // Sizes are batch, query heads, key heads, queries, keys. `few` has fewer tiles of rows than there are
  // multiprocessors, `many` has as many or more.
  const std::vector<ProblemSizes> few = {{1, 32, 8, 1, 4096}, {1, 32, 8, 1, 32768}, {4, 32, 8, 1, 8192}},
                                  many = {{16, 32, 8, 1, 2048}, {32, 32, 8, 1, 4096}, {128, 32, 8, 1, 1024}};
  IrSummary summary;
  Expected<PlanRequest> request = requestOf(source, options, target, few.front(), summary);
  if (!request)
    return {};
  request->theseSizes = true;
  request->mask = MaskShape::full(); // the last queries of a sequence see all keys
  request->fixed.packGqa = request->packFault.empty();
  std::vector<FewQueriesPlan> plans;
  for (FewQueries form : {FewQueries::Whole, FewQueries::Split}) {
    request->fixed.splitKeys = form == FewQueries::Split;
    if (form == FewQueries::Whole && !*request->fixed.packGqa)
      continue;
    if (std::optional<Plan> plan = bestOverSizes(*request, form == FewQueries::Split ? few : many))
      plans.push_back({form, *plan});
  }
  return plans;
}

static Expected<KernelImage> imageOfPlan(const Source &source, const CompileOptions &options, const Target &target,
                                         const PassPlan &plan) {
  const auto [planned, ofPlan] = withPlan(source, options, plan);
  return imageOfSource(planned, ofPlan, target);
}

/// Compiles the images that are missing, on all cores.
static void compileMissing(PlanImages &images, const Source &source, const CompileOptions &options,
                           const Target &target) {
  onAllCores(images.size(), [&](size_t i) {
    if (!images[i].second)
      images[i].second = imageOfPlan(source, options, target, images[i].first);
  });
}

PlanImages attune::driver::compilePlans(const std::vector<FewQueriesPlan> &plans, const Source &source,
                                        const CompileOptions &options, const Target &target) {
  PlanImages images;
  for (const FewQueriesPlan &each : plans)
    images.emplace_back(each.plan, std::nullopt);
  compileMissing(images, source, options, target);
  return images;
}

static std::vector<SizedPlans> plansFor(const Kernel &kernel, const PassPlan &own, const Source &source,
                                        const CompileOptions &options, const Target &target) {
  std::vector<SizedPlans> result;
  auto known = [&](const SizeClass &sizes) {
    return std::ranges::find(result, sizes, &SizedPlans::sizes) != result.end();
  };
  if (options.tuning != Tuning::Off)
    if (std::optional<TunedKey> key = tunedKeyOf(kernel.image(), target))
      for (const TunedSizes &tuned : TunedPlans::of(options).find(*key))
        result.push_back({tuned.sizeClass(), {tuned.bestAgainst(own).plan}, FewQueries::No, /*isMeasured=*/true});
  for (const ProblemSizes &sizes : options.shapes)
    if (!known(SizeClass::of(sizes)))
      result.push_back({SizeClass::of(sizes), predicted(own, source, options, target, sizes)});
  if (!servesFewQueries(source, options, target))
    return result;
  // An image has no such list if it was compiled for a request with this plan fixed, or with gradients.
  const std::optional<std::vector<FewQueriesPlan>> listed = fewQueriesPlansOf(kernel.image());
  for (const FewQueriesPlan &few : listed ? *listed : fewQueriesPlans(source, options, target))
    result.push_back({{}, {few.plan}, few.form});
  return result;
}

Kernel attune::driver::withAlternatives(Kernel kernel, const Source &source, const CompileOptions &options,
                                        const Target &target, PlanImages images) {
  const PassPlan own = passPlanOf(kernel.image());
  const std::vector<SizedPlans> plans = plansFor(kernel, own, source, options, target);
  if (plans.empty())
    return kernel;
  // Each plan is compiled once for all its classes. The first plan of each class is compiled in parallel, the others
  // only on demand.
  auto imageOf = [&](const PassPlan &plan) -> std::optional<Expected<KernelImage>> & {
    auto found = std::ranges::find(images, plan, [](const auto &image) { return image.first; });
    return found == images.end() ? images.emplace_back(plan, std::nullopt).second : found->second;
  };
  for (const SizedPlans &sized : plans)
    if (sized.plans.front() != own)
      imageOf(sized.plans.front());
  compileMissing(images, source, options, target);
  auto kernelFor = [&](const SizedPlans &sized) -> Kernel {
    for (const PassPlan &plan : sized.plans) {
      if (plan == own)
        break;
      std::optional<Expected<KernelImage>> &image = imageOf(plan);
      if (!image)
        image = imageOfPlan(source, options, target, plan);
      if (*image && !sized.isMeasured && (*image)->main().spillBytes > kernel.image().main().spillBytes)
        continue;
      const auto [planned, ofPlan] = withPlan(source, options, plan);
      Expected<Kernel> made =
          *image ? kernelOfImage(**image, planned, ofPlan, target) : Expected<Kernel>(image->error());
      if (made)
        return *made;
      logLine(LogLevel::Warning, "{} is not used for {} at {}: {}", fullPlanText(plan), kernel.image().name,
              sized.text(), made.error().message);
    }
    return kernel;
  };
  std::vector<Alternative> alternatives;
  for (const SizedPlans &sized : plans)
    alternatives.push_back({sized.sizes, kernelFor(sized), sized.fewQueries});
  return kernel.withAlternatives(std::move(alternatives));
}
