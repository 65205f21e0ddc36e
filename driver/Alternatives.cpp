//===- Alternatives.cpp - Kernels for classes of sizes -----------------------===//

#include "driver/Alternatives.h"

#include "driver/Compiling.h"
#include "runtime/Log.h"

#include <algorithm>

using namespace attune;
using namespace attune::driver;

std::optional<TunedKey> attune::driver::tunedKeyOf(const KernelImage &image, const Target &target) {
  return TunedKey::of(target, image.signature, featuresOf(image));
}

namespace {
/// Plans for a class of sizes, best first: the first that compiles without more spills than the kernel's own is taken.
struct SizedPlans {
  SizeClass sizes;
  std::vector<Plan> plans;
};
} // namespace

/// The cost model's first plans for exactly these sizes; the kernel's own where it is expected to be as good.
static std::vector<Plan> predicted(const Plan &own, const Source &source, const CompileOptions &options,
                                   const Target &target, const ProblemSizes &sizes) {
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
  std::vector<Plan> plans;
  for (const RankedPlan &plan : *ranked)
    if (plan.accepted() && plans.size() < attempts)
      plans.push_back(plan.plan);
  return plans;
}

static std::vector<SizedPlans> plansFor(const Kernel &kernel, const Plan &own, const Source &source,
                                        const CompileOptions &options, const Target &target) {
  std::vector<SizedPlans> result;
  auto known = [&](const SizeClass &sizes) {
    return std::ranges::find(result, sizes, &SizedPlans::sizes) != result.end();
  };
  if (options.tuning != Tuning::Off)
    if (std::optional<TunedKey> key = tunedKeyOf(kernel.image(), target))
      for (const TunedSizes &tuned : TunedPlans::of(options).find(*key))
        result.push_back({tuned.sizeClass(), {tuned.bestBeside(own).plan}});
  for (const ProblemSizes &sizes : options.shapes)
    if (!known(SizeClass::of(sizes)))
      result.push_back({SizeClass::of(sizes), predicted(own, source, options, target, sizes)});
  return result;
}

Kernel attune::driver::withAlternatives(Kernel kernel, const Source &source, const CompileOptions &options,
                                        const Target &target) {
  const Plan own = planOf(kernel.image());
  const std::vector<SizedPlans> plans = plansFor(kernel, own, source, options, target);
  if (plans.empty())
    return kernel;
  CompileOptions fixed = options;
  fixed.shapes.clear();
  fixed.printAfterAll = false;
  // Compiled once for all classes that want them. The first of each class on all cores, the others only where needed.
  std::vector<std::pair<Plan, std::optional<Expected<KernelImage>>>> images;
  auto imageOf = [&](const Plan &plan) -> std::optional<Expected<KernelImage>> & {
    auto found = std::ranges::find(images, plan, [](const auto &image) { return image.first; });
    return found == images.end() ? images.emplace_back(plan, std::nullopt).second : found->second;
  };
  for (const SizedPlans &sized : plans)
    if (sized.plans.front() != own)
      imageOf(sized.plans.front());
  onAllCores(images.size(),
             [&](size_t i) { images[i].second = imageOfSource(source, withPlan(fixed, images[i].first), target); });
  auto kernelFor = [&](const SizedPlans &sized) -> Kernel {
    for (const Plan &plan : sized.plans) {
      if (plan == own)
        break;
      std::optional<Expected<KernelImage>> &image = imageOf(plan);
      if (!image)
        image = imageOfSource(source, withPlan(fixed, plan), target);
      if (*image && (*image)->main().spillBytes > kernel.image().main().spillBytes)
        continue;
      Expected<Kernel> made =
          *image ? kernelOfImage(**image, source, withPlan(fixed, plan), target) : Expected<Kernel>(image->error());
      if (made)
        return *made;
      logLine(LogLevel::Warning, "{} is not used for {} at {}: {}", plan.text(), kernel.image().name,
              sized.sizes.text(), made.error().message);
    }
    return kernel;
  };
  std::vector<Alternative> alternatives;
  for (const SizedPlans &sized : plans)
    alternatives.push_back({sized.sizes, kernelFor(sized)});
  return kernel.withAlternatives(std::move(alternatives));
}
