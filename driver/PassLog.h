//===- PassLog.h - What a pass manager tells of its passes --------------------===//
#pragma once

#include "mlir/Pass/PassManager.h"

namespace attune::driver {

/// Adds what ATTUNE_LOG=debug shows, the time of each pass, and where `printAfterAll` is set, the module after each
/// pass; both on standard error. Precondition: the context is single-threaded.
void observePasses(mlir::PassManager &passes, bool printAfterAll);

} // namespace attune::driver
