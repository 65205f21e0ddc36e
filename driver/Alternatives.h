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

/// Whether kernels for few queries come with the one for every size: not on the CPU, whose threads share a cache, nor where
/// gradients or dropout are asked for, as training has as many queries as keys.
bool servesFewQueries(const Source &source, const CompileOptions &options, const Target &target);

/// The cost model's plan for each form of few queries that the variant has (packed groups, split keys), best over typical
/// sizes of generation. Precondition: servesFewQueries.
std::vector<FewQueriesPlan> fewQueriesPlans(const Source &source, const CompileOptions &options, const Target &target);

/// Images of plans, compiled before they are asked for.
using PlanImages = std::vector<std::pair<Plan, std::optional<Expected<KernelImage>>>>;
/// Those of `plans`, on all cores. Precondition: leavesScheduleOpen.
PlanImages compilePlans(const std::vector<FewQueriesPlan> &plans, const Source &source, const CompileOptions &options,
                        const Target &target);

/// `kernel` with an alternative for each class of sizes that was measured on the target's device, and for each of
/// options.shapes that was not: by the cost model then, where it expects another plan to be 2% quicker than the
/// kernel's. A class whose best plan is the kernel's own has the kernel itself, so that no other class's plan serves
/// it. Launches of few queries that are of no such class have alternatives, too (KernelImage::planJson lists their
/// plans). A plan that does not compile, or spills more than the kernel does, is left out, the first with a warning.
/// `images` may hold some of the plans. Precondition: leavesScheduleOpen.
Kernel withAlternatives(Kernel kernel, const Source &source, const CompileOptions &options, const Target &target,
                        PlanImages images = {});

/// The key of `image`'s measurements on the target's device; nothing where the device is not there.
std::optional<TunedKey> tunedKeyOf(const KernelImage &image, const Target &target);

} // namespace attune::driver
