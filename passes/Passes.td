//===- Passes.td - The compiler's passes -------------------------*- tablegen -*-===//
#ifndef ATTUNE_PASSES
#define ATTUNE_PASSES

include "mlir/Pass/PassBase.td"

#endif
