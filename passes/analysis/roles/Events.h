//===- Events.h - The ops of synchronisation and of shared memory ------------===//
//
// What passes/analysis/roles/Program.h makes steps of, and which of their operands it needs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/roles/Program.h"

namespace attune::roles {

bool isControl(mlir::Operation *op);
/// Whether `op` waits, arrives, copies, multiplies or accesses shared memory.
bool isEvent(mlir::Operation *op);
/// Whether a loop over elements holds more than accesses and products. Of others whose turns touch the same rows two run.
bool synchronises(mlir::Operation *loop);
Action actionOf(mlir::Operation *event);

/// An operand in the order that Action gives.
struct EventValue {
  mlir::Value value;
  bool row = false; ///< of an access to shared memory by instructions
};
llvm::SmallVector<EventValue, 4> valuesOf(mlir::Operation *event);

/// Bytes, threads, pending groups, rows, or arrivals.
int64_t numberOf(mlir::Operation *event);
/// Null where it has none.
mlir::Value ringOf(mlir::Operation *event);
mlir::Value sharedOf(mlir::Operation *event);

} // namespace attune::roles
