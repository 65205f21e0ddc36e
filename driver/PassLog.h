//===- PassLog.h - Logging of passes: times, and the IR after each pass -------===//
#pragma once

#include "mlir/Pass/PassManager.h"

namespace attune::driver {

/// Makes `passes` log to standard error: the time of each pass with ATTUNE_LOG=debug, and the module after each pass if
/// `printAfterAll`. Precondition: the context is single-threaded.
void observePasses(mlir::PassManager &passes, bool printAfterAll);

} // namespace attune::driver
