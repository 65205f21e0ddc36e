//===- Parse.h - From sched text to CUDA, for the tests ---------------------===//
#pragma once

#include "attune/Error.h"
#include "mlir/IR/MLIRContext.h"

#include <string>

namespace attune::tests {

/// CUDA of the first sched.kernel in `text`.
Expected<std::string> printText(mlir::MLIRContext &context, const std::string &text,
                                const std::string &name = "test.mlir");

/// The CUDA of all kernels of a module, in the order of its tile.launch.
Expected<std::string> printModule(mlir::MLIRContext &context, const std::string &text);

} // namespace attune::tests
