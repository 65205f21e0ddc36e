//===- Decode.h - Sched IR to steps -----------------------------------------===//
#pragma once

#include "attune/Kernel.h"
#include "codegen/sim/Program.h"

#include <memory>

namespace attune::sched {
class KernelOp;
}

namespace attune::sim {

/// `signature` is that of the launch. Errors: an op that the simulator lacks, at its location.
Expected<std::shared_ptr<const Program>> decode(sched::KernelOp kernel, const KernelSignature &signature);

} // namespace attune::sim
