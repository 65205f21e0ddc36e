//===- SchedOps.td - Ops of the sched dialect --------------------*- tablegen -*-===//
#ifndef ATTUNE_SCHED_OPS
#define ATTUNE_SCHED_OPS

include "ir/sched/SchedDialect.td"
include "ir/tile/TileDialect.td"
include "ir/attn/AttnDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class SchedOp<string mnemonic, list<Trait> traits = []> : Op<SchedDialect, mnemonic, traits>;
def Effects : MemoryEffects<[MemRead, MemWrite]>;

include "ir/sched/SchedStructure.td"
include "ir/sched/SchedMemory.td"
include "ir/sched/SchedRings.td"
include "ir/sched/SchedProducts.td"

#endif
