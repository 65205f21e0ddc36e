//===- Decode.h - Sched IR to steps -----------------------------------------===//
#pragma once

#include "codegen/sim/Program.h"

#include <memory>

namespace attune::sched {
class KernelOp;
}

namespace attune::sim {

/// Errors: an op that the simulator lacks, at its location.
Expected<std::shared_ptr<const Program>> decode(sched::KernelOp kernel);

} // namespace attune::sim
