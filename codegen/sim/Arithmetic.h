//===- Arithmetic.h - Functions that execute scalar ops in the simulator ---===//
#pragma once

#include "codegen/sim/Program.h"

#include "mlir/IR/Operation.h"

namespace attune::sim {

/// The C++ function that executes `op` in the simulator. The op has one result and is an arith op, a math op, or a
/// conversion between number formats (pack, unpack, ...). Null for any other op.
Run arithmetic(mlir::Operation *op);

} // namespace attune::sim
