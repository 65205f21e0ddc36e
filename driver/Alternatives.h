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

/// `kernel` with an alternative for each class of sizes that was measured on the target's device, and for each of
/// options.shapes that was not: by the cost model then, where it expects another plan to be 2% quicker than the
/// kernel's. A class whose best plan is the kernel's own has the kernel itself, so that no other class's plan serves
/// it. A plan that does not compile, or spills more than the kernel does, is left out, the first with a warning.
/// Precondition: leavesScheduleOpen.
Kernel withAlternatives(Kernel kernel, const Source &source, const CompileOptions &options, const Target &target);

/// The key of `image`'s measurements on the target's device; nothing where the device is not there.
std::optional<TunedKey> tunedKeyOf(const KernelImage &image, const Target &target);

} // namespace attune::driver
