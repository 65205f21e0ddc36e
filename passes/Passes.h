//===- Passes.h - The compiler's passes -------------------------------------===//
//
// Each pass stands in a file of its own name, in the folder of the stage that it works at: attn/, tile/ or sched/.
// What several of them ask of the IR stands in analysis/. Passes.td documents it (Requires, Ensures, Why here, Before,
// After); Pipeline.cpp lists them in order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace attune {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// Adds attn, tile, sched and the upstream dialects that appear inside them.
void registerDialects(mlir::DialectRegistry &registry);
/// Registers every attune pass and the upstream ones that the pipeline uses, for `attune-opt`.
void registerPasses();

} // namespace attune
