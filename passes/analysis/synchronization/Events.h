//===- Events.h - Ops that synchronise or access shared memory ---------------===//
//
// Classifies the ops that become steps of passes/analysis/synchronization/Program.h, and lists the operands that each
// step needs.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/analysis/synchronization/Program.h"

namespace attune::synchronization {

bool isControl(mlir::Operation *op);
/// Whether `op` waits, arrives, copies, multiplies or accesses shared memory.
bool isEvent(mlir::Operation *op);
/// Whether a loop over elements contains synchronisation, and not only accesses and products. Loops without
/// synchronisation may run only their first and their last iteration (Program.h).
bool synchronises(mlir::Operation *loop);
Action actionOf(mlir::Operation *event);

/// An operand of an event. The order of operands is documented at enum Action (Program.h).
struct EventValue {
  mlir::Value value;
  bool row = false; ///< the operand is the row of a shared-memory access by ordinary instructions
};
llvm::SmallVector<EventValue, 4> valuesOf(mlir::Operation *event);

/// The number of bytes, threads, pending groups, rows or arrivals that the op has, depending on its kind; 0 if none.
int64_t numberOf(mlir::Operation *event);
/// The ring that the op uses, or null.
mlir::Value ringOf(mlir::Operation *event);
mlir::Value sharedOf(mlir::Operation *event);

} // namespace attune::synchronization
