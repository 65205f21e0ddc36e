//===- Arithmetic.h - Step functions of scalar ops ------------------------===//
#pragma once

#include "codegen/sim/Program.h"

#include "mlir/IR/Operation.h"

namespace attune::sim {

/// The step function of an op with one result: arith, math, or a conversion between formats (pack, unpack, ...). Null
/// for any other op.
Run arithmetic(mlir::Operation *op);

} // namespace attune::sim
