//===- Decode.h - Sched IR to steps -----------------------------------------===//
#pragma once

#include "attune/Kernel.h"
#include "codegen/sim/Program.h"

#include <memory>

namespace attune::sched {
class KernelOp;
class LaunchMaps;
} // namespace attune::sched

namespace attune::sim {

/// `signature` and `maps` are those of the launch. Errors: an op that the simulator lacks, at its location.
Expected<std::shared_ptr<const Program>> decode(sched::KernelOp kernel, const KernelSignature &signature,
                                                const sched::LaunchMaps &maps);

} // namespace attune::sim
