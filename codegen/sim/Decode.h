//===- Decode.h - Translating a sched.kernel to simulator steps -------------===//
#pragma once

#include "attune/Kernel.h"
#include "codegen/sim/Program.h"

#include <memory>

namespace attune::sched {
class KernelOp;
class LaunchMaps;
} // namespace attune::sched

namespace attune::sim {

/// Translates one kernel of a launch. `signature` and `maps` (the tensor maps) are those of the whole launch. Fails for
/// an op that the simulator does not implement; the error points at the op's location.
Expected<std::shared_ptr<const Program>> decode(sched::KernelOp kernel, const KernelSignature &signature,
                                                const sched::LaunchMaps &maps);

} // namespace attune::sim
