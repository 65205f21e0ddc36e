//===- Passes.td - The compiler's passes -------------------------*- tablegen -*-===//
#ifndef ATTUNE_PASSES
#define ATTUNE_PASSES

include "mlir/Pass/PassBase.td"

def TileSize : Pass<"attn-tile-size", "::mlir::ModuleOp"> {
  let summary = "choose the tiles and the schedule of each variant under the SRAM budget";
  let description = [{
    Requires: `attn.attention` ops; canonical regions, so that the cost model counts the instructions that remain.
    Ensures: each has a `tile.plan` whose shared memory and registers fit the architecture and the budget; a plan that
    was there stays when it fits, and is an error when it does not.
    Why here: every later pass reads the plan and none changes it.
    Before: `attn.attention @causal dtype bf16 head_dim 128 x 128 scale 0.125 {} mask {...}`
    After: `... attributes {tile.plan = #tile.plan<tile_q = 128, tile_k = 64, warps = 4, ...>} ...`

    A plan comes from the cost model (passes/CostModel.h). tile-q, tile-k, warps, stages and q-registers fix fields, and
    are held to the same limits. The sizes rank candidates only: the kernel is correct for every size.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "architecture: cpu, sm_80, sm_86, sm_89, sm_90, sm_120">,
    Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">,
    Option<"tileQ", "tile-q", "int64_t", "0", "rows of a tile; 0 lets the cost model choose">,
    Option<"tileK", "tile-k", "int64_t", "0", "keys of a tile; 0 lets the cost model choose">,
    Option<"warps", "warps", "int64_t", "0", "warps of a block; 0 lets the cost model choose">,
    Option<"stages", "stages", "int64_t", "0", "stages of the K and V rings; 0 lets the cost model choose">,
    Option<"qRegisters", "q-registers", "std::string", "\"auto\"", "fragments of Q in registers: true, false or auto">,
    Option<"queries", "sq", "int64_t", "4096", "queries to rank for">,
    Option<"keys", "sk", "int64_t", "4096", "keys to rank for">,
    Option<"heads", "heads", "int64_t", "0", "heads to rank for; 0 is 2048 / head_dim">,
    Option<"batch", "batch", "int64_t", "0", "batch to rank for; 0 is 16384 / sq">];
  let dependentDialects = ["::attune::tile::TileDialect"];
}

#endif
