//===- Arithmetic.h - Steps of scalar ops ---------------------------------===//
#pragma once

#include "codegen/sim/Program.h"

#include "mlir/IR/Operation.h"

namespace attune::sim {

/// The step of an op of arith or math, or of a format, which has one result; null where `op` is none.
Run arithmetic(mlir::Operation *op);

} // namespace attune::sim
