//===- Passes.h - The compiler's passes -------------------------------------===//
//
// Each pass has a file of its own name in the folder of the dialect that the pass works on: attn/, tile/ or sched/.
// Analyses that several passes use are in analysis/. Passes.td documents each pass (Requires, Ensures, Why here,
// Before, After); Pipeline.cpp lists the passes in order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "arch/ArchInfo.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace attune {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// Adds attn, tile, sched and the upstream dialects that appear inside them.
void registerDialects(mlir::DialectRegistry &registry);
/// Registers every attune pass and the upstream MLIR passes that the pipeline uses, for `attune-opt`.
void registerPasses();

} // namespace attune
