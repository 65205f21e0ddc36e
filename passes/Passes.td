//===- Passes.td - The compiler's passes -------------------------*- tablegen -*-===//
#ifndef ATTUNE_PASSES
#define ATTUNE_PASSES

include "mlir/Pass/PassBase.td"

def VerifyAttn : Pass<"attn-verify", "::mlir::ModuleOp"> {
  let summary = "check the rules of attn that single ops cannot check, at the end of the stage";
  let description = [{
    Requires: nothing.
    Ensures: the module holds `attn.attention` ops only. Their regions compute with arith, math and attn ops, on f32, i32, i64 and i1. No captured tensor or
    run-time scalar has the name of another one or of a launch parameter.
    Why here: the passes that follow clone the regions into the kernels of every target and rely on these rules.
    Before: `attn.attention @causal ... score {} mask {...}`
    After: the same; or an error at the op that breaks a rule.
  }];
}

def Differentiate : Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "write the gradients of a variant's expressions";
  let description = [{
    Requires: `attn.attention` ops with canonical regions, so that dead ops are not differentiated.
    Ensures: each attention that has `gradients` and no gradient regions gets gradient regions, by reverse-mode
    differentiation of its score and its normaliser. An op that names no normaliser first gets the regions of softmax.
    Lengths of sequences become conditions of its mask, k < lengths[b], and their attributes are removed.
    Errors are: an op without a derivative rule, a normaliser that breaks a law of NormaliserLaw.h, and a captured
    tensor whose gradient is requested but to which no expression contributes.
    Why here: the pass differentiates expressions of one element, before tiles exist.
    Before: `attn.attention ... attributes {gradients = #attn.gradients<["slopes"]>} score { s + slopes[h] * float(k - q) }`
    After: `... score_grad { attn.add_gradient g * float(k - q), "slopes"[h]; yield g }`
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def Recompute : Pass<"attn-recompute", "::mlir::ModuleOp"> {
  let summary = "choose what the forward pass saves for the backward pass";
  let description = [{
    Requires: `attn.attention` ops that have `gradients` and are differentiated (attn-differentiate).
    Ensures: where a memory budget or explicit choices are given, each attention without `saves` gets that list. Unless
    an explicit choice decides, "dropout" and "score" are in the list if they fit the budget at the given sizes and if
    the cost model (passes/analysis/cost/BackwardCost.h) predicts the least total time of forward and backward pass with
    them. For "score" the pass saves the intermediate value of the score that leaves the least work to the backward
    pass. That value is marked `attn.saved` unless the region yields it. The attribute `attn.recompute` records the
    alternatives that were compared. Without a budget and choices, everything but O and LSE is recomputed.
    Why here: a saved value is an operand of the forward and the backward kernels, and changes what the cost model counts.
    Before: `attn.attention @dropped ... attributes {dropout, gradients = #attn.gradients<[]>}`
    After: `attn.attention @dropped ... attributes {..., saves = ["dropout"]}`
  }];
  let options = [
    Option<"arch", "arch", "std::string", "attune::defaultArch", "architecture, as for attn-tile-size">,
    Option<"memoryBudget", "memory-budget", "int64_t", "0", "bytes that the forward pass may save in addition to O and LSE">,
    ListOption<"save", "save", "std::string", "values that are saved, whatever the cost model predicts">,
    ListOption<"recompute", "recompute", "std::string", "values that are recomputed, whatever the cost model predicts">,
    Option<"queries", "sq", "int64_t", "4096", "number of queries that the cost model assumes">,
    Option<"keys", "sk", "int64_t", "4096", "number of keys that the cost model assumes">,
    Option<"heads", "heads", "int64_t", "0", "number of heads that the cost model assumes; 0 is 2048 / head_dim">,
    Option<"batch", "batch", "int64_t", "0", "batch size that the cost model assumes; 0 is 16384 / sq">];
}

def TileSize : Pass<"attn-tile-size", "::mlir::ModuleOp"> {
  let summary = "choose the tile sizes and the schedule of each attention within the shared-memory budget";
  let description = [{
    Requires: `attn.attention` ops with canonical regions, so that the cost model counts no instruction that
    canonicalisation removes.
    Ensures: each attention has an `attn.plan` whose shared memory and registers fit the architecture and the budget. A plan that is there already is kept if it
    fits, and is an error if it does not. For a backward pass, `attn.plan` is the plan of the loop over queries; `attn.queries_plan` is the plan of the loop
    over keys, where the two differ. `attn.accumulates_dq` says that the loop over queries accumulates dQ in global memory: the pass sets it where this is
    faster than a second loop and `deterministic` gradients are not requested. `attn.separate_dv` says that dK and dV have a loop over queries each: the pass
    sets it where a thread has no registers for both.
    Why here: every later pass reads the plan and none changes it.
    Before: `attn.attention @causal dtype bf16 head_dim 128 x 128 scale 0.125 score {} mask {...}`
    After: `... attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 4, ...>} ...`

    A plan comes from the cost model (passes/analysis/cost/CostModel.h). The options from tile-q to split-keys fix single fields of the plan, within the same
    limits. The sizes (sq, sk, heads, batch) only rank candidates: the kernel is correct for every size.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "attune::defaultArch", "architecture, a name of arch/ArchInfo.h">,
    Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">,
    Option<"tileQ", "tile-q", "int64_t", "0", "rows of a tile; 0 lets the cost model choose">,
    Option<"tileK", "tile-k", "int64_t", "0", "keys of a tile; 0 lets the cost model choose">,
    Option<"warps", "warps", "int64_t", "0", "warps of a block; 0 lets the cost model choose">,
    Option<"stages", "stages", "int64_t", "0", "stages of the K and V rings; 0 lets the cost model choose">,
    Option<"qRegisters", "q-registers", "std::string", "\"auto\"", "fragments of Q in registers: true, false or auto">,
    Option<"dvWarps", "dv-warps", "int64_t", "0", "warps that split the columns of V and O; 0 lets the cost model choose">,
    Option<"blocksPerSm", "blocks-per-sm", "int64_t", "0", "blocks that share a multiprocessor; 0 lets the cost model choose">,
    Option<"longestFirst", "longest-first", "std::string", "\"auto\"", "thread blocks start with the last rows, in a backward pass also with the first keys: true, false or auto">,
    Option<"persistent", "persistent", "std::string", "\"auto\"", "blocks that take one tile of rows after another: true, false or auto">,
    Option<"queryStages", "query-stages", "int64_t", "0", "stages of Q (backward: of K and V) in persistent blocks; 0 lets the cost model choose">,
    Option<"pingPong", "ping-pong", "std::string", "\"auto\"", "ping-pong: one warpgroup runs its products while another runs its softmax: true, false or auto">,
    Option<"overlap", "overlap", "std::string", "\"auto\"", "the product with V overlaps with the next softmax: true, false or auto">,
    Option<"stageBiases", "stage-biases", "std::string", "\"auto\"", "dense biases through shared memory: true, false or auto">,
    Option<"packGqa", "pack-gqa", "std::string", "\"auto\"", "the query heads of a key head share a tile's rows: true, false or auto">,
    Option<"splitKeys", "split-keys", "std::string", "\"auto\"", "several blocks share the keys of a tile of rows: true, false or auto">,
    Option<"queries", "sq", "int64_t", "4096", "number of queries for which plans are ranked">,
    Option<"keys", "sk", "int64_t", "4096", "number of keys for which plans are ranked">,
    Option<"heads", "heads", "int64_t", "0", "number of heads for which plans are ranked; 0 is 2048 / head_dim">,
    Option<"batch", "batch", "int64_t", "0", "batch size for which plans are ranked; 0 is 16384 / sq">];
  let dependentDialects = ["::attune::tile::TileDialect"];
}

def AttnToTile : Pass<"attn-to-tile", "::mlir::ModuleOp"> {
  let summary = "write the tile program of one block: a loop over the visible K tiles that updates the normaliser";
  let description = [{
    Requires: `attn.attention` with an `attn.plan` (attn-tile-size).
    Ensures: each attention becomes one `tile.kernel`. The mask becomes a domain and maps. The domain has the bounds of
    the loop. Where tables of keys, or conditions on both axes, decide which tiles are visible, the domain also has a
    test of each tile; such a tile is partial if other conditions of the mask must be evaluated for its elements. A
    condition that ends a row's visible keys at one side (k < Sk is one) is a map that compares columns with the row's
    own end, in the tiles that such an end crosses. The other conditions are one map, which runs in partial tiles. Where
    the domain reads per-tile tables of values of the mask, a kernel launched before this one fills the tables
    (workspace operands). Where several warpgroups compute, each visits only the tiles `within` the range that its own
    rows (`tile.warpgroup_row`) see. The range follows from the mask's ends. Where the visible tiles of these rows
    follow from per-tile bounds of a single 32-bit value, the range begins at the first of these tiles
    (`tile.first_visible`). The statistics of the normaliser become carried values of the loop, and each of its regions
    becomes a map; an op that names no normaliser has softmax.
    Why here: this is the last point where the variant is still one formula.
    Before: `attn.attention @causal ... score {} mask { q >= k }`
    After: `tile.kernel @causal { ... tile.for_blocks (%k0, %partial) in %dom iter_args(%m, %l, %acc) { ... } }`
  }];
  let options = [Option<"granularity", "granularity", "int64_t", "8",
                        "head dims are padded to a multiple of this: the target's matrix instruction">];
  let dependentDialects = ["::attune::tile::TileDialect", "::attune::sched::SchedDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def AttnToTileBackward : Pass<"attn-to-tile-backward", "::mlir::ModuleOp"> {
  let summary = "write the tile programs of the backward pass";
  let description = [{
    Requires: `attn.attention` ops that have `gradients`, are differentiated (attn-differentiate) and have an `attn.plan` (attn-tile-size).
    Ensures: each attention becomes a `tile.launch` of kernels. With row statistics (softmax) the first kernel computes
    rowsum(dO * O) and similar row values. One kernel computes dK and dV for tiles of keys: its loop goes over the heads
    of a group and over the tiles of queries that see a key. One kernel computes dQ for tiles of queries. Where the mask
    reads tables, a kernel before all others fills them. Domains and masks are as in attn-to-tile, for loops over either
    axis. A kernel with roles has a single loop: the loop's domain is repeated (`times`) for each head of a group, and
    the domain's `where` region takes the number of the repetition if the mask or a block pattern depends on the head.
    Other kernels repeat the domain only if all heads visit the same tiles and no gradient is summed for each key;
    otherwise heads are an outer loop. Scores and weights are recomputed from Q, K and LSE.
    Every gradient of Q, K and V is summed in a fixed order, without atomics, unless the op has `attn.accumulates_dq`.
    With that attribute the loop over queries has all five products and adds dQ to a workspace. The first kernel clears
    this workspace, and the kernel for dQ converts it. Without a producer role and in persistent blocks, warps add dQ from
    registers, and the workspace keeps rows in blocks (`tile.blocked_rows`). With `attn.separate_dv` one kernel computes dV and another one dK, both over tiles of keys.
    How the gradient of a captured tensor is summed depends on the tensor's indices. If no index depends on k, the
    gradient is summed for each row; if no index depends on q, for each key. These sums are written to the workspace,
    and a later kernel `_grad_NAME` adds them up. If q and k are both indices, the kernel `_grad_NAME` computes the
    tensor's tiles itself (the launch checks that the tensor has an element for each q and k). With any other index,
    elements are added atomically, after a kernel `_zeros_NAME` has cleared the memory. Where the indices depend on b, h
    and q - k alone, sums along the diagonals of a warp's rows are added instead. Atomic additions are to float32, or
    for `deterministic` gradients to the integers of long accumulators, whose result does not depend on the order of
    additions.
    Why here: as in attn-to-tile, this is the last point where the variant is still one formula.
    Before: `attn.attention @causal ... attributes {gradients = #attn.gradients<[]>} ... p_grad {...}`
    After: `tile.launch @causal [@causal_rows, @causal_keys, @causal_queries]`
  }];
  let options = [Option<"granularity", "granularity", "int64_t", "8",
                        "head dims are padded to a multiple of this: the target's matrix instruction">];
  let dependentDialects = ["::attune::tile::TileDialect", "::attune::sched::SchedDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def AttnToTileMap : Pass<"attn-to-tile-map", "::mlir::ModuleOp"> {
  let summary = "write a kernel that stores the class of each tile that a mask leaves visible";
  let description = [{
    Requires: `attn.attention`.
    Ensures: each attention becomes a `tile.kernel` over tiles of queries. Its loop has the domain of a forward kernel
    with these tiles, including the block pattern and the tables of bounds. The kernel writes the class (1 partial, 2
    full; attune/TileMap.h) of each visited tile to `classes`, and does not write the class of other tiles. `queries`
    and `keys` provide lengths only. The kernel declares only those captured tensors on which a tile's class depends.
    Why here: this pass ends a pipeline of its own, for counting and drawing tiles; no forward kernel is made from its result.
    Before: `attn.attention @causal ... mask { q >= k }`
    After: `tile.kernel @causal { ... tile.for_blocks (%k0, %partial) in %dom { tile.store (partial ? 1 : 2), %classes[b, h, row, column] } }`
  }];
  let options = [Option<"tileQ", "tile-q", "int64_t", "128", "queries of a tile">,
                 Option<"tileK", "tile-k", "int64_t", "128", "keys of a tile">];
  let dependentDialects = ["::attune::tile::TileDialect", "::mlir::arith::ArithDialect"];
}

def ScaleQueries : Pass<"tile-scale-queries", "::mlir::ModuleOp"> {
  let summary = "scale Q by a power of two, so that a bias in the accumulator is divided by at least 1";
  let description = [{
    Requires: tile kernels whose scores begin with the product of Q and K.
    Ensures: in bf16 kernels with producer warps: where a score adds a bias that producer warps copy to shared memory to
    the product of Q and K times a constant below 1, Q is multiplied by a power of two, and the product by a constant
    from 1 to 2. The pass skips `precise` kernels, and kernels that load Q again for each tile of keys.
    Why here: tile-fold-factors divides the bias by that constant next; with a constant of at least 1 the quotient is finite.
    Before: `%q = load`, `%x = map(%s) { s * 0.09 + t }`
    After: `%q = scale (load) exponent -4`, `%x = map(%s) { s * 16 * 0.09 + t }`
  }];
}

def ExpandLogistic : Pass<"tile-expand-logistic", "::mlir::ModuleOp"> {
  let summary = "compute the logistic function with one special function instead of two";
  let description = [{
    Requires: maps whose exponents have one constant factor (tile-fold-softmax-scale).
    Ensures: in bf16 kernels with roles and without `precise`, 1 / (1 + exp2(y)) needs no reciprocal of the special-function unit, which costs as much as an
    exponential. The reciprocal is one step of Newton's method from a start value that a subtraction on the float's bits gives, with a relative error of 2^-9.6.
    The pass applies only where the result is a factor of a value that is rounded to bf16 next.
    Why here: the exponent is a product with one constant factor, so that adding a constant to it makes one
    multiply-add.
    Before: `%e = exp2(%y)`, `1 / (%e + 1)`
    After: `%a = exp2(%y + 4) + 16`, `%g = bitcast(0x7ff32000 - bitcast(%a))`, `max(%g * fma(-%a, %g, 8.0052), 0)`
  }];
}

def FoldFactors : Pass<"tile-fold-factors", "::mlir::ModuleOp"> {
  let summary = "merge constant factors of the score and turn divisions by constants into products";
  let description = [{
    Requires: tile kernels.
    Ensures: in kernels of 16-bit inputs without `precise`, no float is divided by a constant, or multiplied by two
    constants in a row, if the magnitudes of these constants are between 2^-60 and 2^60. A relative-position bias is
    added to the unscaled product. A bias that producer warps copy to shared memory is added to the unscaled product
    too.
    Why here: attn-to-tile has just multiplied the score by the softmax scale; tile-fold-softmax-scale folds one factor into the exponent next.
    Before: `s * 0.125 / 30`
    After: `s * 0.0041666667`
  }];
}

def FoldSoftmaxScale : Pass<"tile-fold-softmax-scale", "::mlir::ModuleOp"> {
  let summary = "merge the score's scale with log2(e) in the exponent";
  let description = [{
    Requires: the normaliser in the form that attn-to-tile writes.
    Ensures: a positive constant factor at the end of the score is applied by the consumers of the scores, where it merges with log2(e). The exp of softmax is
    exp2 of a difference times one constant, which is correct for every finite score and maximum. The exponential of a score alone, as in sigmoid, is exp2 of
    the score times one constant, except with `precise` and in float32.
    Why here: the formulas are still maps of whole tiles.
    Before: `%x = map { s * 0.125 }`, `%p = map { exp(x - m) }`
    After: `%p = map { exp2((s - m) * 0.18) }`
  }];
}

def SplitRowSums : Pass<"tile-split-row-sums", "::mlir::ModuleOp"> {
  let summary = "keep the row sums split over lanes until the loop ends";
  let description = [{
    Requires: a carried sum l' = factor * l + sum(p) that nothing else in the loop reads.
    Ensures: the `tile.reduce` of the sum is `per_lane`: each lane adds up its own columns. A `tile.combine_lanes` follows the loop.
    Why here: the pass needs the loop's recurrence; layouts later assign columns to lanes.
    Before: `%l2 = tile.reduce sum %p over "k" init %l1`
    After: `%l2 = tile.reduce sum %p over "k" init %l1 per_lane` and `%l = tile.combine_lanes sum %r#1` after the loop
  }];
}

def HoistParts : Pass<"tile-hoist-parts", "::mlir::ModuleOp"> {
  let summary = "compute a condition on blocks of queries and keys once for each block in a tile";
  let description = [{
    Requires: maps.
    Ensures: a condition that depends on coordinates through quotients by constants alone is computed for the first element of each part of the tile in which it
    is constant, at most 32 parts, by a `tile.bits` before the map. An element reads the bit of its part. Excluded are conditions that take fewer than 16
    operations for an element, conditions with loads, and tiles that begin at another place than a multiple of their size.
    Why here: tile-hoist-invariants would split the condition by axis, after which its parts are not visible.
    Before: `map(p) at(q = q0) { f(q / 64) ? p : 0 }`
    After: `%parts = bits 2 { f((q0 + i % 2 * 64) / 64) }`, `map(p) at(q = q0) { (parts >> (q - q0) / 64) & 1 ? p : 0 }`
  }];
}

def HoistInvariants : Pass<"tile-hoist-invariants", "::mlir::ModuleOp"> {
  let summary = "compute each value once for the block, row or column that it depends on";
  let description = [{
    Requires: maps.
    Ensures: no map computes a value that depends on the block alone. Costly values that vary along one axis (loads,
    divisions, special functions) come from a map over that axis. What a loop does not change is computed before the
    loop. A quotient of a coordinate that is the same for the whole tile is computed from the tile's first coordinate.
    Where all iterations of a loop visit the same tile, elements that maps load along both axes are loaded before the
    loop too, except biases that producer warps load. Values of a conditional map that vary along the loop's axis stay
    in that map. The exceptions are searches and, with `conditional-columns`, loads: these come from a map over that
    axis, which is conditional too with `conditional-columns`.
    Why here: the vectors exist before tile-assign-layouts gives them layouts.
    Before: `map(q, k) { s + exp2(head[h]) * table[q] }`
    After: `%e = math.exp2`, `%t = map(q) { table[q] * e }`, `map(q, k) { s + t }`
  }];
  let options = [Option<"conditionalColumns", "conditional-columns", "bool", "false",
                        "compute what conditional maps load along the loop's axis in conditional maps over that axis; for targets whose lanes share vectors">];
}

def StageRelativePositions : Pass<"tile-stage-relative-positions", "::mlir::ModuleOp"> {
  let summary = "compute values that depend on q - k once per difference, in shared memory";
  let description = [{
    Requires: maps over q and k in a loop.
    Ensures: with producer warps, no such map loads a captured tensor at indices that follow from q - k alone. A map over the differences of the tile loads
    these values, a conversion stores them to shared memory, and the first map reads them by difference. Values of 64 bits are not changed.
    Why here: tile-hoist-invariants has moved out what varies along one axis or none; tile-split-relative-positions then converts the differences that no load
    uses.
    Before: `map(%s) at(q, k) { s + table[h, q - k] }`
    After: `%t = map() at(distance = %first) { table[h, distance] }`, `%ts = convert %t : register -> shared`, `map(%s, %ts) { s + t }`
  }];
}

def AddFallbackKernels : Pass<"tile-add-fallback-kernels", "::mlir::ModuleOp"> {
  let summary = "add a fallback kernel that loads dense biases element by element, launched where TMA cannot address the bias";
  let description = [{
    Requires: maps over q and k in a loop; a kernel with `sched.stage_biases`.
    Ensures: each kernel that reads a captured tensor of floats at [.., q, k] gets a fallback kernel, placed before it
    in the launch. The fallback kernel is the same kernel without `sched.stage_biases`. Where TMA cannot read the
    tensor, a launch starts the fallback kernel instead of the original one (`tile.fallback_of`).
    Why here: tile-hoist-invariants hoists a bias only if producer warps do not load it, which differs between the two kernels.
    Before: `tile.kernel @bias ... {sched.stage_biases}`
    After: `tile.kernel @bias_elements ... {tile.fallback_of = @bias}`, `tile.kernel @bias ... {sched.stage_biases}`, `tile.launch [@bias_elements, @bias]`
  }];
}

def StageBiases : Pass<"tile-stage-biases", "::mlir::ModuleOp"> {
  let summary = "copy dense biases to shared memory together with the K tile";
  let description = [{
    Requires: maps over q and k in a loop; a kernel with `sched.stage_biases`.
    Ensures: no such map loads a captured tensor of floats at [.., q, k] whose leading indices are the same for the block: the map reads a `tile.window`
    instead. In a loop with the five products of a backward pass the window's ring has one stage.
    Why here: tile-hoist-invariants has moved the computation of leading indices out of the map.
    Before: `map(%s) at(q, k) { s + bias[h, q, k] }`
    After: `%w = window %bias[%h, %q0, %k0]`, `map(%s, %w) { s + w }`
  }];
}

def StageColumns : Pass<"tile-stage-columns", "::mlir::ModuleOp"> {
  let summary = "copy per-key vectors that masked maps read to shared memory, together with the K tile";
  let description = [{
    Requires: conditional maps over k (tile-hoist-invariants with `conditional-columns`).
    Ensures: with producer warps, conditional maps over k of 32-bit values become unconditional, and a conversion stores
    their result to shared memory.
    Why here: tile-hoist-invariants has created these maps.
    Before: `%c = map() at(k) only_if %partial { ids[k] }`, `map(%s, %c) only_if %partial`
    After: `%c = map() at(k) { ids[k] }`, `%t = convert %c : register -> shared`, `map(%s, %t) only_if %partial`
  }];
}

def StageVectors : Pass<"tile-stage-vectors", "::mlir::ModuleOp"> {
  let summary = "copy vectors that a loop loads to shared memory";
  let description = [{
    Requires: loads of vectors in loops over tiles, and maps of these vectors.
    Ensures: the pass handles 32-bit vectors that maps of tiles read, that are computed from loads alone, and whose
    loads begin at one place that changes with each iteration. With producer warps such a vector is computed by one map
    without inputs, and a conversion stores its result to shared memory. Without producer warps the loads go to shared
    memory, and the maps of tiles compute the vector from them.
    Why here: tile-fuse-exponents has folded the addends of an exponent that are per row into one vector.
    Before: `%l = load %LSE[%b, %h, %q0]`, `%n = map(%l) { -l }`, `map(%s, %n)`
    After: `%r = map() at(q = %q0) { -LSE[b, h, q] }`, `%t = convert %r : register -> shared`, `map(%s, %t)`
  }];
}

def SplitRelativePositions : Pass<"tile-split-relative-positions", "::mlir::ModuleOp"> {
  let summary = "write the difference k - q as a column's float minus a row's float";
  let description = [{
    Requires: maps over q and k.
    Ensures: no map converts k - q to float: columns and rows are coordinates of type f32. Columns count from float(k0 -
    q0), rows from 0.
    Why here: canonicalisation has given differences one form. tile-hoist-invariants could not separate them, because they depend on both axes.
    Before: `%d = sitofp(k - q)`
    After: `at(k = %distance : f32, q = %zero : f32)`, `%d = column - row`
  }];
}

def CancelRowTerms : Pass<"tile-cancel-row-terms", "::mlir::ModuleOp"> {
  let summary = "move the row part of a relative-position bias from the scores to the LSE";
  let description = [{
    Requires: split differences (tile-split-relative-positions), hoisted block values, the softmax in exp2 form.
    Ensures: in bf16 kernels without `precise`, a score that adds u * (column - row), where u is the same for the block,
    adds u * column instead. Maps that read the maximum after the loop subtract u * row from it.
    Why here: the pass has to see the difference x - m in the exponents, in which a shift common to the row cancels.
    Before: `%x = map { s + slope * (column - row) }`, `%lse = map { m + log(l) }`
    After: `%x = map { s + slope * column }`, `%lse = map { (m - slope * row) + log(l) }`
  }];
}

def AccumulateBias : Pass<"tile-accumulate-bias", "::mlir::ModuleOp"> {
  let summary = "initialise the accumulator of QK^T with the bias";
  let description = [{
    Requires: scores whose scale has moved to the exponent; tensors copied to shared memory (tile-stage-biases).
    Ensures: with producer warps: where a map only adds a value to the product of Q and K, and the value does not depend
    on that product, the map is removed and the product's accumulator starts from the value. A bias from shared memory
    is still added by a map where the kernel has `sched.overlap` without `sched.ping_pong`.
    Why here: the bias has its final form. It is then computed before the product, overlapped with the products of other warpgroups, and the addition is free.
    Before: `%s = mma %q, %k`, `%x = map(%s, %t) { s + t }`
    After: `%b = map(%t) { t }`, `%x = mma %q, %k add %b`
  }];
}

def FuseExponents : Pass<"tile-fuse-exponents", "::mlir::ModuleOp"> {
  let summary = "compute the exponent as one FMA: exp2(c * x - c * m)";
  let description = [{
    Requires: maps of the form exp2((x - m) * c): the exponentials of the softmax, and the factors that rescale earlier exponentials when the maximum changes.
    Ensures: in bf16 kernels without `precise` and without `sched.ping_pong`, each exponential is exp2 of one FMA, correct for every finite x and m. With
    warp-level products, a branch replaces x by x - m, and m by 0, where a row of the warp has |c m| >= 2^14. With warpgroup-level products, where c <= 3 and no
    exponential of m is added to the sum after the loop, each row has a factor of its own, c or (where |c m| >= 2^30) a power of two, and the loop carries the
    row's addend.
    Why here: tile-cancel-row-terms matches the difference x - m, which this pass replaces.
    Before: `%alpha = map(%m0, %m) { exp2((m0 - m) * c) }`, `%p = map(%x, %m) { exp2((x - m) * c) }`
    After: `%f = map(%m) { |m| >= 2^30 / c ? 2^k : c }`, `%a = map(%m, %f) { -(m * f) }`,
    `%alpha = map(%a, %a0) { exp2(a - a0) }`, `%p = map(%x, %f, %a) { exp2(fma(x, f, a)) }`
  }];
}

def SkipRescale : Pass<"tile-skip-rescale", "::mlir::ModuleOp"> {
  let summary = "rescale the accumulator only when a row maximum has moved";
  let description = [{
    Requires: the rescaling of the accumulator as a map of its own, and warp-level products.
    Ensures: that map runs `only_if` a row of the warp has a factor other than 1. The result is bit for bit the same.
    Why here: tile-hoist-invariants has run, and no other computation is in the same map.
    Before: `%acc1 = tile.map(%acc, %alpha) { acc * alpha }`
    After: `%moved = tile.any %alpha { alpha != 1 }`, `%acc1 = tile.map(%acc, %alpha) only_if %moved { acc * alpha }`
  }];
}

def SeparateScore : Pass<"tile-separate-score", "::mlir::ModuleOp"> {
  let summary = "end the basic block of S = Q K^T before the score";
  let description = [{
    Requires: the score as a map of the product.
    Ensures: that map runs `only_if` there are keys, which is true wherever the loop runs. The branch keeps the device
    compiler from scheduling the score between the instructions of the product.
    Why here: tile-hoist-invariants handles unconditional maps and has to run first.
    Before: `%x = tile.map(%s) { softcap }`
    After: `%x = tile.map(%s) only_if %has_keys { softcap }`
  }];
}

def PackSequences : Pass<"tile-pack-sequences", "::mlir::ModuleOp"> {
  let summary = "kernels of a batch become kernels of packed sequences";
  let description = [{
    Requires: a kernel with `tile.sequences`. Its grid has an axis of packed rows, an axis of sequences, or neither: a kernel that adds up over all rows takes them as
    those of one sequence.
    Ensures: a thread block finds its sequence and the tile in it by `tile.search`; rows of operands, and limits of rows, are those of all sequences; extents of q
    and k are those of the sequence. In workspaces a sequence begins at a multiple of 128 rows. Positions are unchanged: they count within the sequence.
    Why here: last, as other passes know the rows of a tile by the indices and limits of a batch.
    Before: `grid [b, h, q by 64]`, `load %Q[%b, %h, %q0] limit %Sq`
    After: `grid [h, q_by_64 by 64]`, `load %Q[0, %h, %first_query + %q0] limit %queries_end`
  }];
}

def VerifyTile : Pass<"tile-verify", "::mlir::ModuleOp"> {
  let summary = "check the rules of tile that single ops cannot check, at the end of the stage";
  let description = [{
    Requires: nothing.
    Ensures: the module holds `tile.kernel` ops and a `tile.launch` only, and the kernels hold tile ops and scalar
    arithmetic. The axes q and k of every tile have the plan's sizes, and domains step by these sizes. Each loop's
    domain is a `tile.domain`. Parameters of dropout and of a query offset are read only where the kernel has them.
    Tiles in shared memory, each counted once for each stage of its ring, fit the budget.
    Why here: later passes take the sizes of layouts, rings and the CPU's vectors from the plan, not from the types.
    Before: `tile.kernel @causal ... { ... }`
    After: the same; or an error at the op that breaks a rule.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"\"", "architecture whose shared-memory limit the plan's buffers must fit; empty: no check">,
    Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">];
}

def ChoosePath : Pass<"tile-choose-path", "::mlir::ModuleOp"> {
  let summary = "remove the roles of kernels that cannot be split into producer and consumer warps";
  let description = [{
    Requires: tiles without layouts. With `orders-chosen`, tile-place-operands has chosen which axis of each register
    tile is its rows; with `orders-chosen=false` it has not, and the pass does not check rows and columns of products.
    Ensures: a kernel keeps `sched.roles`, and the attributes that depend on them, only if the architecture has warpgroups and the program has the shape that
    roles need: loops over tiles, one after another, of which none follows from another's results; copies of tensors of four dimensions before the first loop and
    in each; products of 16-bit operands, with 64 rows for each warpgroup. In other kernels products are warp-level, attributes that say when ops run are removed, and a remark on the kernel gives the reason.
    Why here: the pass runs twice. The first run is before the tile passes whose ops need roles (windows, relative-position tables), so that a kernel without
    roles gets no such op. The second run is at the start of the schedule, because layouts and copies depend on the roles, and tile text may start there.
    Before: `attributes {sched.persistent, sched.roles = [...]}` of a kernel with a copy after its loop
    After: `attributes {tile.remarks = ["products are warp-level ..."]}`
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"\"", "architecture that must have producer warps; empty: no check">,
    Option<"ordersChosen", "orders-chosen", "bool", "true", "whether tile-place-operands has chosen which axis of each register tile is its rows">
  ];
}

def PlanKernels : Pass<"tile-plan-kernels", "::mlir::ModuleOp"> {
  let summary = "choose warps, roles and ring depths of kernels that come without a plan";
  let description = [{
    Requires: tiles without layouts.
    Ensures: each kernel has a plan: that of all combinations of warps, roles, ring depths and blocks per multiprocessor
    whose predicted time is least (passes/tile/KernelCost.h). A plan, roles and depths of rings that the text gives are kept. A
    remark on the kernel says what was planned.
    Why here: the pass runs first where a text of stage tile enters, because all other passes and the verifier read the
    plan.
    Before: `tile.kernel @product(...) grid [b, m, q by 64] dtype bf16 { ... }`
    After: `tile.kernel @product(...) grid [b, m, q by 64] dtype bf16 plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> attributes {sched.roles = [...]}`
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"\"", "architecture; may be empty if all kernels have plans">,
    Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">
  ];
}

def PlaceOperands : Pass<"tile-place-operands", "::mlir::ModuleOp"> {
  let summary = "choose which axis of a register tile is rows, and copy operands that products read from shared memory there";
  let description = [{
    Requires: tiles without layouts.
    Ensures: the left operand of a product has the rows of the result as its rows, and is in registers or in shared
    memory. The right operand is in shared memory. Register tiles that maps, products and loops tie together have one
    order of axes: the order in which the fewest products and reductions exchange elements between lanes. Tiles that are
    loaded, stored or accumulated keep the order of memory. A register tile and its copy in shared memory have the same
    order. The exception is a tile that is also stored to a dense tensor of its type, in a kernel with roles that has a
    fallback kernel (`tile.fallback_of`): its shared copy has the tensor's order, so that TMA can store it
    (`tile-store-by-tma`).
    Why here: layouts follow from the order of axes.
    Before: `tile.mma %ds, %k` with %ds : (k, q) in registers, contracted along k
    After: `%t = tile.convert %ds : ... -> !tile.tile<k 64 x q 64, bf16, shared>`, `tile.mma %t, %k`
  }];
}

def ScheduleBlocks : Pass<"tile-schedule-blocks", "::mlir::ModuleOp"> {
  let summary = "compute the position of a block's tile from the block index";
  let description = [{
    Requires: kernels of the CPU target, which are not lowered to sched and have one tile of work per block.
    Ensures: no `tile.block_index` is left. Each becomes arithmetic on `sched.block_id`, the same arithmetic that assigns work in scheduled kernels.
    Why here: this pass runs last; no earlier pass needs to know which tiles follow each other.
    Before: `%q0 = tile.block_index "q"` in a kernel with `grid [b, h, q by 64]`
    After: `%0 = sched.block_id`, `%q_tiles = arith.ceildivui %Sq, %c64`, `%position = arith.remui %0, %q_tiles`, ...
  }];
  let dependentDialects = ["::attune::sched::SchedDialect"];
}

def AssignRoles : Pass<"tile-assign-roles", "::mlir::ModuleOp"> {
  let summary = "choose how many stages the ring of each shared tile has, and which warps fill the ring";
  let description = [{
    Requires: kernels for which `tile-choose-path` has decided whether they have roles.
    Ensures: each tile that producer warps write has a `sched.ring`; attributes in the text are kept. A ring that is
    filled before the loop has one stage, and the ring of a copy in the loop has two. Rings of windows and vectors have
    as many stages as the ring of the loop's first copy. The first warp copies tiles. Where the next tile is found by a
    search, the first warp also searches, and the second warp makes all copies of an iteration but the first.
    Relative-position values are computed by all warps but the first, or, if other warps load vectors or store tiles, by
    the second alone. A tile that a loop adds to memory, if TMA can do so, is stored by a warp that fills no ring. The
    kernel has two `sched.roles` or more: the last computes, the others fill rings or store their tiles, each with its
    number of registers per thread. The first role does what the text gives to no other. Without producer warps the copies of a loop have rings too, filled by all warps.
    Why here: the layout of a tile that producer warps compute contains the number of these warps.
    Before: `%k = tile.load %K[...]`
    After: `%k = tile.load %K[...] {sched.ring = #sched.ring<stages 2, "producer" warp 0>}`
  }];
  let dependentDialects = ["::attune::sched::SchedDialect"];
}

def AssignLayouts : Pass<"tile-assign-layouts", "::mlir::ModuleOp"> {
  let summary = "give each register tile a fragment layout and each shared tile a swizzle";
  let description = [{
    Requires: tiles without layouts.
    Ensures: every tile type has its layout. Conditional vectors are spread over the lanes of a warp. Left operands of products are `a` fragments or shared
    tiles. A vector in shared memory that maps read along their rows is converted to registers before the first of these maps.
    Why here: copies and expansion depend on layouts, and no earlier pass does.
    Before: `!tile.tile<q 128 x k 64, f32, register>`
    After: `!tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>`
  }];
  let dependentDialects = ["::attune::sched::SchedDialect"];
}

def FoldRectifiers : Pass<"tile-fold-rectifiers", "::mlir::ModuleOp"> {
  let summary = "fold a maximum with 0 into the rounding conversion that follows";
  let description = [{
    Requires: layouts.
    Ensures: a map does not end in a maximum with 0 if all readers of its tile are conversions that pack the tile for products: these conversions have `relu`
    instead.
    Why here: layouts show which tiles are packed, and conversions have not been moved yet.
    Before: `%p = tile.map(%s) { maximumf(%x, 0) }`, `tile.convert %p : ... bf16`
    After: `%p = tile.map(%s) { %x }`, `tile.convert %p relu : ... bf16`
  }];
}

def PipelineCopies : Pass<"tile-pipeline-copies", "::mlir::ModuleOp"> {
  let summary = "turn loads into asynchronous copies that run ahead of their use";
  let description = [{
    Requires: layouts.
    Ensures: no `tile.load` to shared memory is left. Shared tiles are slots of rings. Every read follows a barrier, and
    that barrier follows a wait whose pending count is the number of groups committed after the group that the read
    needs. Loads outside of loops that follow each other have one such wait, where the first of their tiles is read. The domain becomes
    bounds and a condition of `sched.for_tiles`, and a search (`sched.next_visible`) where the
    domain skips tiles. A ring that ops of stage 1 (`sched.at`) read is copied one tile less ahead.
    Why here: the tile loop is still one op, so that prologue, body and epilogue are made together.
    Before: `%k = tile.load %K[...]` in `tile.for_blocks`
    After: `sched.copy_tile`, `sched.commit_copies`, `sched.wait_copies pending 0`, `sched.barrier`, `sched.slot`
  }];
  let dependentDialects = ["::attune::sched::SchedDialect", "::mlir::scf::SCFDialect"];
}

def OverlapProducts : Pass<"tile-overlap-products", "::mlir::ModuleOp"> {
  let summary = "software-pipeline the products: issue the next QK^T before the softmax of the current tile";
  let description = [{
    Requires: roles; layouts.
    Ensures: the ops of a loop with products have attributes that say when they run (`sched.at`), and products are
    marked as asynchronous (`sched.async`). Products that depend on no other product start first. A product is deferred
    to stage 1, so that it works on the previous tile, if it adds a value computed from another product to a carried
    tile (rescaled or not), and if registers can hold its left operand meanwhile. With `overlap`, the wait for the right
    operand of a deferred product (a tile of V) is placed after the softmax and before the wait for the deferred product
    of the previous tile. With `overlap` a product is also deferred, with the op that adds or stores the product to memory,
    if its left operand is a tile that the warpgroups exchange through a ring in shared memory. Loops that have `sched.at`
    in the text are not changed. A remark says where no product is deferred.
    Why here: tiles are still values, and layouts say how many registers they need.
    Before: `for_blocks { %s = mma %q, %k; softmax; %acc1 = map(%acc, %alpha); %o = mma %p, %v add %acc1 }`
    After: `%s = mma %q, %k {sched.async, sched.at = #sched.at<order 0>}`, `%o = mma %p, %v add %acc1 {sched.async, sched.at = #sched.at<order 1, stage 1>}`
  }];
}

def PingPong : Pass<"tile-ping-pong", "::mlir::ModuleOp"> {
  let summary = "ping-pong scheduling: one warpgroup runs its products while another runs its softmax";
  let description = [{
    Requires: `sched.ping_pong`, and two or more warpgroups; `sched.at`.
    Ensures: two kinds of asynchronous products of a loop form the ping-pong region "products": those that depend on no other product, and those of stage 1. The
    pass skips loops whose text already has a ping-pong region. It also skips loops whose warpgroups skip tiles (`within`) while a ring has one stage; a remark
    says so.
    Why here: the order and stage of each product is known.
    Before: `%s = mma %q, %k {sched.async, sched.at = #sched.at<order 0>}`
    After: `%s = mma %q, %k {sched.async, sched.at = #sched.at<order 0, ping_pong "products">}`
  }];
}

def SpecializeWarps : Pass<"tile-specialize-warps", "::mlir::ModuleOp"> {
  let summary = "split the kernel into a producer role that fills rings and a consumer role that computes";
  let description = [{
    Requires: `tile.for_blocks` ops that follow each other; layouts.
    Ensures: every load becomes a ring. The producer acquires a stage and copies; the consumers wait for the stage, read
    it, and release it right after the last reader. Rings of equal depth that the same warps fill share a pair of
    barriers if the consumers wait for them and release them together. Registers are divided between the roles. Each
    role has its own loop over work. With a `persistent` plan this loop carries the stage and phase of the K and V rings
    from one tile of work to the next, and Q has a ring too. A `tile.window` is a ring like that of K.
    Where tiles are found by a search, one warp searches and sends messages: the first tile together with Q; with each K
    tile, the next tile and whether this one is partial. All other warps receive these messages. A second producer warp
    copies V, unless the other producer warps compute relative-position values. The search also finds each warpgroup's
    `tile.first_visible`. Where the kernel has a `work_counter`, persistent blocks claim tiles of work
    (`sched.claim_work`). Where nothing is copied before the loop, the messages have stages and barriers of their own.
    The position and the successor of a tile of work become arithmetic (passes/sched/WorkOrder.h).
    Per-key vectors that maps read are stored in the stages of K's ring by the warp that copies K, where the tile is
    partial. For the tiles outside of a loop's `within`, a warpgroup has one loop before and one loop after its own:
    these two loops only wait for the stages of the tiles and release them. A tile that the loop stores or adds to
    memory and that has a `sched.ring` is written to a stage by the consumers; a producer warp has TMA store it from
    there (`sched.write_tile`). After the loop the consumers wait until that ring is empty.
    Why here: the lifetime of a stage follows from the tile ops that read it.
    Before: `tile.for_blocks ... { %k = tile.load ...; %s = tile.mma %q, %k }`
    After: `sched.role "producer" { sched.for_work ... { sched.for_tiles ... { acquire; copy_tile ... signal %kr } } }`,
    `sched.role "consumer" { sched.for_work ... { sched.for_tiles ... { wait; %s = tile.mma %q, %slot; release } } }`
  }];
}

def PipelineStages : Pass<"tile-pipeline-stages", "::mlir::ModuleOp"> {
  let summary = "move the ops of loops over tiles into the order and stage that their attributes state";
  let description = [{
    Requires: rings, and `sched.at` on ops of loops, written by passes or in the text. Asynchronous products and ping-pong regions are in kernels with roles
    only.
    Ensures: the ops of a loop are in the order in which they run. Where some ops have stage 1, stage 0 of the first tile is placed before the loop and stage 1
    of the last tile after it, and the loop carries the values that stage 0 passes to stage 1. With more stages, the remaining loop is expanded in the same way
    again. A slot follows the wait for its stage, and a release follows the last op that reads the stage, whatever their `sched.at` says. A `sched.mma_wait`
    with its pending count is placed before the first op that needs an asynchronous product; the stages that the product reads are released after that wait. A
    warpgroup waits on a named barrier before the first op of a ping-pong region and signals the next warpgroup after the last one. For a tile that a warpgroup
    skips, it signals at once. No `sched.at` is left.
    Why here: rings and stages exist, and tiles are still values.
    Before: `for_tiles { %s = mma %q, %k {sched.async, order 0}; softmax; %o = mma %p, %v add %acc {sched.async, order 1, stage 1} }`
    After: `first tile's softmax; for_tiles { start %s; start %o; mma_wait pending 1; softmax; mma_wait pending 0; ... }; %o = mma ...`
  }];
}

def VerifySchedule : Pass<"tile-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "check the form of IR between tile and sched";
  let description = [{
    Requires: nothing.
    Ensures: the module has the given `form`. "layouts", after `tile-assign-layouts`: register tiles are fragments, and shared operands of products are
    swizzled. "copies", after `tile-pipeline-copies` and `tile-specialize-warps`: no load to shared memory and no loop over a domain is left; one role fills a
    ring and another waits for it; a ring that is acquired is released. "stages", after `tile-pipeline-stages`: no op has a `sched.at`; no op reads a product
    that is in flight, and no product is in flight at the end of its block; the pending count of each `sched.mma_wait` is the number of products started after
    the last one that it completes.
    Why here: an error in a pass, or in text written by hand, is reported where it was made.
    Before: `sched.mma_wait pending 1 completes(%s)` after the start of `%s` and of two more products
    After: the same; or `leaves 1 products under way, but 2 were started after the last that it completes`
  }];
  let options = [Option<"form", "form", "std::string", "\"stages\"", "layouts, copies or stages">];
}

def LazyRescale : Pass<"tile-lazy-rescale", "::mlir::ModuleOp"> {
  let summary = "lazy rescaling: keep the running maximum while the exponentials stay in range";
  let description = [{
    Requires: `sched.ping_pong`, and a loop, after the first tile, with the softmax's maximum, its exponentials as exp2
    of a multiple of the difference to the maximum, and its rescalings as maps of their own. Between the first and the
    last of these ops no other op reads their results, or starts the product with V that they wait for; where a schedule
    has such an op, a remark says so.
    Ensures: the exponentials use the running maximum of the previous tiles, and come after the wait for the previous
    product with V. (Where the kernel has `sched.overlap` too, the exponentials of the first half of the columns come
    before that wait.) The maximum is updated, and sum and accumulator are rescaled, only where a lane's sum of
    exponentials is 2^15 or more. In bf16 without `precise` the exponent is an FMA whose addend is carried together with
    the maximum: -c m, or infinity where |c m| >= 2^14, so that the maximum is then updated in every tile.
    Why here: `tile-pipeline-stages` has peeled off the first tile, which always updates the maximum.
    Before: `%m1 = tile.reduce max %x over "k" init %m`, `%p = exp2((%x - %m1) * c)`, `%l1 = %l * %alpha + sum %p`, `mma_wait %acc`, `%acc1 = %acc * %alpha`
    After: `mma_wait %acc`, `%p = exp2(fma(%x, c, %addend))`, `%sum = tile.reduce sum %p over "k" per_lane`, `%moves = tile.any %sum >= 2^15`,
    `%m1, %l1, %acc1, %p1, %addend1 = scf.if %moves { as before } else { %m, %l + %sum, %acc, %p, %addend }`
  }];
}

def RecomputeMaps : Pass<"tile-recompute-maps", "::mlir::ModuleOp"> {
  let summary = "recompute a cheap map instead of keeping its result in registers";
  let description = [{
    Requires: maps in their final form, as tile-to-sched expands them.
    Ensures: where two maps of a block compute the same values from a float32 tile in registers, and other ops of the
    later map read more than one of these values, the later map reads the elements of that tile through `sched.after`,
    ordered after the elements of its own first input. The device compiler therefore recomputes the values, and does not
    keep those of the earlier map for all elements.
    Why here: no later pass can compare maps by what they compute.
    Before: `%x = tile.map(%s) { tanh(%s) * exp(%s) }`, `%ds = tile.map(%dp, %s) { %dp * f(tanh(%s), exp(%s)) }`
    After: `%ds = tile.map(%dp, %s) { %again = sched.after %s, %dp; %dp * f(tanh(%again), exp(%again)) }`
  }];
  let dependentDialects = ["::attune::sched::SchedDialect"];
}

def InterleaveFunctions : Pass<"tile-interleave-functions", "::mlir::ModuleOp"> {
  let summary = "interleave special-function instructions with the arithmetic that feeds them";
  let description = [{
    Requires: a kernel with roles.
    Ensures: a map is `interleaved` if it computes one special function (tanh, exp2) of each element, through a sum, product or FMA with a value of the row, and
    if no op sums up its elements: the first element of each 16 columns is ordered after the first element of the 16 columns before. The pass skips maps in
    which four or more instructions depend on the function, two maps of which one reads the other, and kernels with float32-accurate functions.
    Why here: `tile-lazy-rescale` has split off the exponentials that are computed alone.
    Before: `%t = tile.map(%s) { tanh(%s * c) }`
    After: `%t = tile.map(%s) { tanh(%s * c) } {interleaved}`
  }];
}

def PairElements : Pass<"tile-pair-elements", "::mlir::ModuleOp"> {
  let summary = "access two columns of a tile by one memory instruction";
  let description = [{
    Requires: layouts. Origins of tiles are block indices or products with the tile's size.
    Ensures: a `tile.element` of floats in a map of an accumulator has `sched.pairs` if its last index is the coordinate
    along the columns and the other indices are the same along a row, and `sched.row_pairs` if rows and columns are
    exchanged. A `tile.scatter` of an accumulator that does not add is marked in the same way, if its last index counts
    along the axis up to an end. A scatter to 16-bit elements whose last two indices count along rows and along 32 or
    more columns of a warp also has `sched.eights`: the four lanes of a quad exchange their pairs, so that each lane
    stores eight elements. Whether the view is aligned for pairs (`sched.in_pairs`) or for eights, and whether the whole
    tile is inside of the view, is tested at run time, by one branch that is the same for all threads.
    Why here: this pass runs late, because the maps that it marks must not change any more.
    Before: `%x = tile.map(%s) at(q = %q0, k = %k0) { %s + tile.element %bias[%h, %q, %k] }`
    After: `%x = tile.map(%s) at(q = %q0, k = %k0) { %s + tile.element %bias[%h, %q, %k] {sched.pairs} }`
  }];
}

def StoreByTma : Pass<"tile-store-by-tma", "::mlir::ModuleOp"> {
  let summary = "store a shared-memory tile by TMA where its layout equals the tensor's";
  let description = [{
    Requires: layouts, and a barrier of the warps between a `sched.exchange` and its readers.
    Ensures: the pass handles a `tile.scatter` without addition whose last two indices count along rows and columns, if a `sched.exchange` writes the same tile
    to shared memory for a product, with the view's element type, rows and columns. The scatter moves after the last product (but not past a loop over further
    tiles) and reads the shared tile: it becomes boxes of TMA (`sched.store_box`), which do not write past the end of the tensor.
    Why here: `tile-pipeline-stages` has ordered the loop, so that the last product is known.
    Before: `tile.scatter %ds, %dbias[%h, %q, %k]; %s = sched.exchange %ds ...; %dq = tile.mma %s, %k`
    After: `%s = sched.exchange %ds ...; %dq = tile.mma %s, %k; tile.scatter %s, %dbias[%h, %q, %k]`
  }];
}

def TileToSched : Pass<"tile-to-sched", "::mlir::ModuleOp"> {
  let summary = "expand tile ops into the fragments and instructions of a lane";
  let description = [{
    Requires: layouts, and copies that are pipelined.
    Ensures: each kernel is a `sched.kernel` whose ops are single instructions, loops and scalar arithmetic. Tiles are buffers, and a result reuses the buffer
    of an operand that has no later reader. A tile that TMA stores goes to shared memory that nothing reads later: to an operand's buffer, to a buffer of its own or,
    where the budget leaves no room for one, to a ring whose tiles other warps store, after a wait for these stores. From sm_90 on, each dependent kernel of a launch waits for the kernel before itself (`sched.wait_launch`), and that
    kernel lets it start early (`sched.start_next_launch`).
    Why here: all decisions on whole tiles have been made.
    Before: `%s = tile.mma %q, %k`
    After: unrolled `scf.for` loops around `sched.load_matrix` and `sched.mma`
  }];
  let options = [
    Option<"arch", "arch", "std::string", "attune::defaultArch", "GPU architecture">,
    Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">
  ];
  let dependentDialects = ["::attune::sched::SchedDialect", "::mlir::scf::SCFDialect"];
}

def ExpandSearches : Pass<"sched-expand-searches", "::mlir::ModuleOp"> {
  let summary = "expand searches and block patterns into loops of single instructions";
  let description = [{
    Requires: `sched.kernel` ops.
    Ensures: no `sched.next_visible` and no `tile.touches` is left. A search becomes a loop that tests 32 tiles at a time, one a lane (`sched.ballot`). A search
    with `groups` tests 32 groups of tiles at a time while its end is more than 64 tiles away. A block pattern becomes a loop over blocks, or one load where a
    tile lies in one block.
    Why here: earlier passes have to find searches as single ops.
    Before: `%n, %origin, %visible, %full = sched.next_visible from %a below %end { ...; sched.visible %1, %2 }`
    After: `%window, %n, ... = sched.for_tiles (%window, ...) = (%a, ...) below %end keeps { ...; %votes = sched.ballot %1; ... }`
  }];
  let dependentDialects = ["::mlir::math::MathDialect"];
}

def UnswitchMasks : Pass<"sched-unswitch-masks", "::mlir::ModuleOp"> {
  let summary = "give full tiles code without mask branches";
  let description = [{
    Requires: loops of roles with asynchronous products.
    Ensures: masks that come after maps of two products, with only arithmetic between the masks and no product in flight, are in one branch. The ops between the issue of
    these products and the masks are in both sides of that branch, so that a full tile executes no branch there. They are not duplicated with dropout and with masks that
    read memory, as the two copies would spill registers, nor where the condition may differ between threads of a role or where their results are used after the masks.
    Why here: CSE has run, so that equal conditions are one value.
    Before: `mma_wait %s; exp; mma_wait %dp; ds; scf.if %end { mask }; scf.if %diagonal { mask }; scf.if %any { clear }`
    After: `scf.if %any { mma_wait %s; exp; mma_wait %dp; ds; scf.if %end { mask }; scf.if %diagonal { mask }; scf.if %opaque_any { clear } } else { mma_wait %s; exp; mma_wait %dp; ds }`
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def Rematerialize : Pass<"sched-rematerialize", "::mlir::ModuleOp"> {
  let summary = "rematerialise lane coordinates in the loop to save registers";
  let description = [{
    Requires: `sched.kernel` with `sched.for_work grid` or `persistent`.
    Ensures: branches of the tile loop, and ops after the loop, use no value from before the loop that follows from
    `sched.thread_id`, from the number of the tile of work or from a received message: they recompute it. Values that
    follow from both a thread index and a work number are kept. Loops that hold no tile in registers are treated like
    ops after the loop. Branches of the loops of roles are not changed.
    Why here: CSE has run and can no longer merge the copies. The reads that the copies start from have effects, so that no later pass merges them.
    Before: `%row = arith.divui %thread, %c4` before the loop, used after it
    After: `%t = sched.read_thread_id`, `%row = arith.divui %t, %c4` after the loop
  }];
}

def BoundArithmetic : Pass<"sched-bound-arithmetic", "::mlir::ModuleOp"> {
  let summary = "mark integer arithmetic that cannot overflow";
  let description = [{
    Requires: `sched.kernel` ops.
    Ensures: an i32 sum, difference or product is marked `overflow<nsw>` where the ranges of its operands rule out signed overflow.
    Ranges follow from the extents that a launch accepts (at most 2^30 along an axis of tiles), from the number of threads of a
    block, from the bounds of loops, from what loops carry, such as stages of rings, and from what roles send to each other.
    Why here: all arithmetic of tiles and lanes is written; the CUDA printer reads the marks.
    Before: `%k0 = arith.muli %tile, %c64` with %tile the counter of a loop below `ceil(Sk / 64)`
    After: `%k0 = arith.muli %tile, %c64 overflow<nsw>`
  }];
}

def AssignSharedMemory : Pass<"sched-assign-shared-memory", "::mlir::ModuleOp"> {
  let summary = "assign an offset to each shared buffer";
  let description = [{
    Requires: `sched.kernel` with `sched.shared` buffers.
    Ensures: buffers that are alive at the same time do not overlap. `shared_bytes` is the end of the last buffer.
    Why here: the lifetimes of buffers are final.
    Before: `sched.shared "k_tile" at 0`
    After: `sched.shared "k_tile" at 16384`
  }];
}

def VerifySched : Pass<"sched-verify", "::mlir::ModuleOp"> {
  let summary = "check expansion, shared-memory offsets, and every wait, arrival and barrier that orders copies, products and roles, at the end of sched";
  let description = [{
    Requires: nothing.
    Ensures: the module holds `sched.kernel` ops only, and every op in them is expanded. Shared buffers that overlap are never alive at the same time. The
    barriers of rings are within `shared_bytes` and overlap nothing. `shared_bytes` is within the budget. Each ring is filled and waited for, and a ring that is
    filled again is acquired and released. An instruction of a whole warpgroup is in no branch whose condition is a vote of one warp.

    All warps of a block run concurrently (passes/analysis/synchronization/AccessOrder.h); a kernel without roles is one
    role. The pass runs launches without keys, of one key more than a tile and of (2 stages + 1)
    tile_k keys. Where a block has several tiles of work, the pass runs two blocks with several tiles each. Vector
    clocks decide, so that the result does not depend on the order in which warps, copies and products happen to run.
    The pass checks: each wait and acquire is for the phase that comes next for its warp. Each stage is filled and
    released by as many arrivals and bytes as its ring counts, and a warp releases it once, after having waited for it.
    Every access to shared memory is ordered after the writes, copies, products and boxes that it depends on, through a
    `sched.fence_async` where the asynchronous proxy reads stores of threads. Registers of products are accessed only
    while no product is in flight on them. A copy by cp.async is complete, by a wait of the threads that started it,
    before a read of its tile and before the end. Each named barrier is reached by the number of threads that it counts.
    Messages are sent before they are received. Every tile of work is taken once, its boxes are at one point of the
    grid, and each box of an output is stored once. Values loaded from memory are unknown; the pass runs with a few
    values assumed for each, the same in all roles. The pass does not know which elements a mask leaves visible: it
    accepts a tile that all roles skip alike, and a tile that is not masked (tests/verify/MutationTest.cpp lists what
    the pass accepts; the simulator finds these errors).

    The pass tracks order per lane, not per warp (passes/analysis/synchronization/Clock.h). An arrival of one lane, such as `sched.release`, publishes what this lane has
    read, written or waited for, and of the other lanes what they did before the last `sched.sync_lanes` or barrier. Instructions of the whole warp (ldmatrix,
    wgmma and its waits) count for every lane.

    A release need not follow the last read of its stage: it suffices that something else orders the read before the
    next copy. In the overlapped forward loop K's release may move before the `mma_wait pending 1` of K's product. One
    producer thread fills K and V alternately, with rings of equal depth S. Before it fills K's stage for tile t + S it
    has waited for V's stage of tile t - 1, which every consumer warp releases after the wait for K's product of tile t.
    For the first tile's K, which is multiplied before any V, such a move is an error, as it is wherever the producer
    has no other wait in between (tests/passes/sched-verify-lanes.mlir, tests/sim/FaultTest.cpp).
    Why here: nothing changes the kernel after this pass, and the printer takes no decision.
    Before: `sched.wait_copies pending 1`, `sched.barrier`, `sched.load_matrix %k_ring[%slot, ...]`
    After: the same; or `reads stage 0 of k_ring, whose copy is still under way; the wait before it leaves 1 group pending`, or
    `releases k_barriers, stage 1, without having waited for it; sched.wait must stand in front`.
  }];
  let options = [Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">];
}

#endif
