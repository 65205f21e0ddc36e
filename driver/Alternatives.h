//===- Alternatives.h - Kernels for classes of sizes -------------------------===//
//
//     kernel = withAlternatives(kernel, source, options, target);
//     kernel.alternatives()                       // {h8 q1024 k1024: 64 x 128}, {h* q4096 k4096: the kernel itself}
//
//===----------------------------------------------------------------------===//
#pragma once

#include "driver/Lowering.h"
#include "driver/TunedPlans.h"

namespace attune::driver {

/// A plan for launches of few queries.
struct FewQueriesPlan {
  FewQueries form;
  Plan plan;
};

/// Whether a kernel gets alternatives for launches of few queries. The CPU needs none, as its threads share a cache.
/// Requests with gradients or dropout need none, as training has as many queries as keys.
bool servesFewQueries(const Source &source, const CompileOptions &options, const Target &target);

/// The cost model's plan for each form of few queries that the variant supports (packed groups, split keys): the plan
/// that is best over typical sizes of generation. Precondition: servesFewQueries.
std::vector<FewQueriesPlan> fewQueriesPlans(const Source &source, const CompileOptions &options, const Target &target);

/// Plans with their images; nullopt for a plan that is not compiled yet.
using PlanImages = std::vector<std::pair<PassPlan, std::optional<Expected<KernelImage>>>>;
/// Compiles the images of `plans` in parallel on all cores. Precondition: leavesScheduleOpen.
PlanImages compilePlans(const std::vector<FewQueriesPlan> &plans, const Source &source, const CompileOptions &options,
                        const Target &target);

/// `kernel` with alternatives for classes of sizes. Each class that was measured on the target's device has an
/// alternative with its best measured plan. Each of options.shapes that was not measured has one if the cost model
/// expects another plan to be 2% faster than the kernel's. If the kernel's own plan is best for a class, the
/// alternative is the kernel itself, so that no plan of another class serves that class. Launches of few queries
/// outside of all these classes have alternatives, too (KernelImage::planJson lists their plans). A plan that does not
/// compile, or that is not measured and spills more than the kernel does, is dropped; the first such plan gives a warning. `images` may hold
/// some of the plans. Precondition: leavesScheduleOpen.
Kernel withAlternatives(Kernel kernel, const Source &source, const CompileOptions &options, const Target &target,
                        PlanImages images = {});

/// The key of measurements of `image`'s program on the target's device; nullopt where there is no such device.
std::optional<TunedKey> tunedKeyOf(const KernelImage &image, const Target &target);

} // namespace attune::driver
