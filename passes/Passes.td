//===- Passes.td - The compiler's passes -------------------------*- tablegen -*-===//
#ifndef ATTUNE_PASSES
#define ATTUNE_PASSES

include "mlir/Pass/PassBase.td"

def VerifyAttn : Pass<"attn-verify", "::mlir::ModuleOp"> {
  let summary = "check what attn ops alone cannot: the end of attn";
  let description = [{
    Requires: nothing.
    Ensures: the module holds `attn.attention` ops only; their regions compute with arith, math and attn's own ops, in f32, i32, i64
    and i1; no captured tensor or run-time scalar has another's name or a launch parameter's.
    Why here: what follows clones the regions into every target's kernel and relies on it.
    Before: `attn.attention @causal ... score {} mask {...}`
    After: the same; an op that breaks a rule is an error there.
  }];
}

def Differentiate : Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "write the gradients of a variant's expressions";
  let description = [{
    Requires: `attn.attention`; canonical regions, so that what is not needed is not differentiated.
    Ensures: one that takes `gradients` and has no regions of gradients yet has them, by reverse-mode differentiation of its score and its normaliser (softmax where
    the op names none, which is written out). An op without a rule, a normaliser whose statistics have none, and a captured tensor whose gradient is asked for but to which nothing adds
    are errors.
    Why here: expressions of one element, without tiles, are all that it has to know.
    Before: `attn.attention ... attributes {gradients = #attn.gradients<["slopes"]>} score { s + slopes[h] * float(k - q) }`
    After: `... score_grad { attn.add_gradient g * float(k - q), "slopes"[h]; yield g }`
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def Recompute : Pass<"attn-recompute", "::mlir::ModuleOp"> {
  let summary = "choose what the forward pass saves for the backward pass";
  let description = [{
    Requires: `attn.attention` that takes `gradients`, differentiated (attn-differentiate).
    Ensures: where a memory budget or choices are given, one without `saves` has them: "dropout" and "score" are saved where forward and backward together are then
    quickest by the cost model (passes/analysis/cost/BackwardCost.h), of what the budget holds for the sizes. Of the score it is the value that leaves the least work,
    marked `attn.saved` where it is not what the region yields. The attribute `attn.recompute` tells what was weighed. Without a budget all but O and LSE is computed again.
    Why here: what is saved is an operand of both passes, and decides what the cost model counts.
    Before: `attn.attention @dropped ... attributes {dropout, gradients = #attn.gradients<[]>}`
    After: `attn.attention @dropped ... attributes {..., saves = ["dropout"]}`
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "architecture, as attn-tile-size">,
    Option<"memoryBudget", "memory-budget", "int64_t", "0", "bytes of what is saved beside O and LSE">,
    ListOption<"save", "save", "std::string", "values that are saved whatever the model says">,
    ListOption<"recompute", "recompute", "std::string", "values that are computed again whatever the model says">,
    Option<"queries", "sq", "int64_t", "4096", "queries to weigh for">,
    Option<"keys", "sk", "int64_t", "4096", "keys to weigh for">,
    Option<"heads", "heads", "int64_t", "0", "heads to weigh for; 0 is 2048 / head_dim">,
    Option<"batch", "batch", "int64_t", "0", "batch to weigh for; 0 is 16384 / sq">];
}

def TileSize : Pass<"attn-tile-size", "::mlir::ModuleOp"> {
  let summary = "choose the tiles and the schedule of each variant under the SRAM budget";
  let description = [{
    Requires: `attn.attention` ops; canonical regions, so that the cost model counts the instructions that remain.
    Ensures: each has an `attn.plan` whose shared memory and registers fit the architecture and the budget; a plan that
    was there stays when it fits, and is an error when it does not. Of a backward pass it is the plan of the loop over queries, and
    `attn.queries_plan`, where that differs, of the loop over keys; `attn.accumulates_dq` says that the loop over queries adds dQ up in memory, where that is
    quicker than a second loop and `deterministic` gradients are not asked for.
    Why here: every later pass reads the plan and none changes it.
    Before: `attn.attention @causal dtype bf16 head_dim 128 x 128 scale 0.125 score {} mask {...}`
    After: `... attributes {attn.plan = #attn.plan<tile_q = 128, tile_k = 64, warps = 4, ...>} ...`

    A plan comes from the cost model (passes/analysis/cost/CostModel.h). Options from tile-q to split-keys fix fields, and
    are held to the same limits. The sizes rank candidates only: the kernel is correct for every size.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "architecture: cpu, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_120">,
    Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">,
    Option<"tileQ", "tile-q", "int64_t", "0", "rows of a tile; 0 lets the cost model choose">,
    Option<"tileK", "tile-k", "int64_t", "0", "keys of a tile; 0 lets the cost model choose">,
    Option<"warps", "warps", "int64_t", "0", "warps of a block; 0 lets the cost model choose">,
    Option<"stages", "stages", "int64_t", "0", "stages of the K and V rings; 0 lets the cost model choose">,
    Option<"qRegisters", "q-registers", "std::string", "\"auto\"", "fragments of Q in registers: true, false or auto">,
    Option<"dvWarps", "dv-warps", "int64_t", "0", "warps that split the columns of V and O; 0 lets the cost model choose">,
    Option<"blocksPerSm", "blocks-per-sm", "int64_t", "0", "blocks that share a multiprocessor; 0 lets the cost model choose">,
    Option<"longestFirst", "longest-first", "std::string", "\"auto\"", "the last rows first: true, false or auto">,
    Option<"persistent", "persistent", "std::string", "\"auto\"", "blocks that take one tile of rows after another: true, false or auto">,
    Option<"queryStages", "query-stages", "int64_t", "0", "stages of Q in persistent blocks; 0 lets the cost model choose">,
    Option<"pingPong", "ping-pong", "std::string", "\"auto\"", "ping-pong: one warpgroup runs its products while another runs its softmax: true, false or auto">,
    Option<"overlap", "overlap", "std::string", "\"auto\"", "the product with V overlaps with the next softmax: true, false or auto">,
    Option<"stageBiases", "stage-biases", "std::string", "\"auto\"", "dense biases through shared memory: true, false or auto">,
    Option<"packGqa", "pack-gqa", "std::string", "\"auto\"", "the query heads of a key head share a tile's rows: true, false or auto">,
    Option<"splitKeys", "split-keys", "std::string", "\"auto\"", "several blocks share the keys of a tile of rows: true, false or auto">,
    Option<"queries", "sq", "int64_t", "4096", "queries to rank for">,
    Option<"keys", "sk", "int64_t", "4096", "keys to rank for">,
    Option<"heads", "heads", "int64_t", "0", "heads to rank for; 0 is 2048 / head_dim">,
    Option<"batch", "batch", "int64_t", "0", "batch to rank for; 0 is 16384 / sq">];
  let dependentDialects = ["::attune::tile::TileDialect"];
}

def AttnToTile : Pass<"attn-to-tile", "::mlir::ModuleOp"> {
  let summary = "write the tiles of one block: the normaliser over the visible K tiles";
  let description = [{
    Requires: `attn.attention` with an `attn.plan` (attn-tile-size).
    Ensures: one `tile.kernel` in its place; the mask is a domain (bounds of the loop and, where tables of keys or arithmetic of both axes decide, a question to
    each tile, whose partial tiles are those in which the rest decides) and maps: what cuts a row's keys at one end, Sk among it, compares columns with the row's own end, in the tiles that an
    end goes through; the rest is one map in partial tiles. Where the domain reads tables of values of the mask, a kernel in front fills them (workspace operands). Where several warpgroups
    compute, each visits the tiles `within` what its own rows (`tile.warpgroup_row`) see, by the mask's ends and, where a domain of their own asks tables of one tensor of words, from its first tile on
    (`tile.first_visible`), and compares columns in the tiles that their ends go through. The normaliser is its definition, softmax where the op names none: the loop carries its statistics, and
    each of its regions is a map.
    Why here: the last point where the variant is still one formula.
    Before: `attn.attention @causal ... score {} mask { q >= k }`
    After: `tile.kernel @causal { ... tile.for_blocks (%k0, %partial) in %dom iter_args(%m, %l, %acc) { ... } }`
  }];
  let options = [Option<"granularity", "granularity", "int64_t", "8",
                        "head dims are padded to a multiple of this: the target's matrix instruction">];
  let dependentDialects = ["::attune::tile::TileDialect", "::attune::sched::SchedDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def AttnToTileBackward : Pass<"attn-to-tile-backward", "::mlir::ModuleOp"> {
  let summary = "write the tiles of the backward pass";
  let description = [{
    Requires: `attn.attention` that takes `gradients`, differentiated (attn-differentiate), with an `attn.plan` (attn-tile-size).
    Ensures: in its place a `tile.launch` of kernels: with row statistics one for rowsum(dO * O) and the like, one for dK and dV over tiles of keys, whose loop goes over the heads of a group and over the tiles of queries that see a key, one for dQ over tiles
    of queries; and in front of all the one that fills tables, where the mask has any. Domains and masks are those of attn-to-tile, for loops over either axis. Where roles go over one loop, heads of a group are rounds of its domain, whose `where` takes the round
    if the mask or a block pattern depends on the head; else such heads are a loop around. Scores and weights are computed again from Q, K and LSE.
    Every gradient of Q, K and V is summed in one order, without atomics; but with `attn.accumulates_dq` the loop over queries has all five products and adds dQ to a workspace, which the kernel of rows clears and the one for dQ converts. Those of captured tensors follow from what indexes them: with k left out they are summed for each row, with q left out for each key, to the workspace, and a kernel `_grad_NAME` behind adds these up;
    with q and k as indices that kernel computes the tensor's tiles itself (launches of a variant see to it that the tensor has an element for each of them); with any other index elements, or where indices follow from q - k sums along the diagonals of what a warp holds, are added atomically, behind a kernel `_zeros_NAME`: to float32, or for `deterministic` gradients to the integers of long accumulators, which the order of additions does not change.
    Why here: as attn-to-tile.
    Before: `attn.attention @causal ... attributes {gradients = #attn.gradients<[]>} ... p_grad {...}`
    After: `tile.launch @causal [@causal_rows, @causal_keys, @causal_queries]`
  }];
  let options = [Option<"granularity", "granularity", "int64_t", "8",
                        "head dims are padded to a multiple of this: the target's matrix instruction">];
  let dependentDialects = ["::attune::tile::TileDialect", "::attune::sched::SchedDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def AttnToTileMap : Pass<"attn-to-tile-map", "::mlir::ModuleOp"> {
  let summary = "write the classes of the tiles that a mask leaves";
  let description = [{
    Requires: `attn.attention`.
    Ensures: in its place a `tile.kernel` over tiles of queries whose loop has the domain of a forward kernel with these tiles, the block pattern and tables of bounds included. It writes the class (1 partial, 2 full; attune/TileMap.h) of each tile that it visits
    to `classes` and leaves the others alone; `queries` and `keys` only have the lengths. Of the captured tensors those that decide it are declared.
    Why here: an end of the pipeline of its own, for counting and drawing; no forward kernel comes of it.
    Before: `attn.attention @causal ... mask { q >= k }`
    After: `tile.kernel @causal { ... tile.for_blocks (%k0, %partial) in %dom { tile.store (partial ? 1 : 2), %classes[b, h, row, column] } }`
  }];
  let options = [Option<"tileQ", "tile-q", "int64_t", "128", "queries of a tile">,
                 Option<"tileK", "tile-k", "int64_t", "128", "keys of a tile">];
  let dependentDialects = ["::attune::tile::TileDialect", "::mlir::arith::ArithDialect"];
}

def ScaleQueries : Pass<"tile-scale-queries", "::mlir::ModuleOp"> {
  let summary = "a power of two of the score's factor moves to Q";
  let description = [{
    Requires: tile kernels whose scores begin with the product of Q and K.
    Ensures: with producer warps and bf16, a score that adds a staged bias to the product times a constant below 1 multiplies Q by a power of two
    instead, and the product by a constant from 1 to 2. Not with `precise`, and not where Q comes anew with each tile of keys.
    Why here: tile-fold-factors divides the bias by that constant, which is finite then.
    Before: `%q = load`, `%x = map(%s) { s * 0.09 + t }`
    After: `%q = scale (load) exponent -4`, `%x = map(%s) { s * 16 * 0.09 + t }`
  }];
}

def ExpandLogistic : Pass<"tile-expand-logistic", "::mlir::ModuleOp"> {
  let summary = "one special function for the logistic function";
  let description = [{
    Requires: maps whose exponents are folded.
    Ensures: in bf16 kernels with roles, without `precise`, 1 / (1 + exp2(y)) in a map, where it is a factor of what is rounded to bf16 next, is one step of Newton's method from a reciprocal that a subtraction
    of bits gives, with a relative error of 2^-9.6: no reciprocal by the special-function unit, which is as dear as an exponential.
    Why here: the exponent has its one factor.
    Before: `%e = exp2(%y)`, `1 / (%e + 1)`
    After: `%a = exp2(%y + 4) + 16`, `%g = bitcast(0x7ff32000 - bitcast(%a))`, `max(%g * fma(-%a, %g, 8.0052), 0)`
  }];
}

def FoldFactors : Pass<"tile-fold-factors", "::mlir::ModuleOp"> {
  let summary = "merge constant factors of the score and turn divisions by constants into products";
  let description = [{
    Requires: tile kernels.
    Ensures: in kernels of 16-bit inputs without `precise`, no float is divided by a moderate constant or multiplied by two
    constants in a row; a bias by distance, and with producer warps one that they stage, stands beside the unscaled product.
    Why here: the softmax scale has just met the score; folding it into the exponent comes next and looks for one factor.
    Before: `s * 0.125 / 30`
    After: `s * 0.0041666667`
  }];
}

def FoldSoftmaxScale : Pass<"tile-fold-softmax-scale", "::mlir::ModuleOp"> {
  let summary = "the score's scale meets log2(e) in the exponent";
  let description = [{
    Requires: the normaliser as attn-to-tile writes it.
    Ensures: a positive constant factor at the end of the score is applied by the consumers of the scores, where it merges with
    log2(e); the softmax's exp is exp2 of a difference times one constant, right for every finite score and maximum. An exponential of a score alone, as sigmoid's, is exp2 of
    it times one constant, but with `precise` and float32.
    Why here: the formulas are still whole tiles.
    Before: `%x = map { s * 0.125 }`, `%p = map { exp(x - m) }`
    After: `%p = map { exp2((s - m) * 0.18) }`
  }];
}

def SplitRowSums : Pass<"tile-split-row-sums", "::mlir::ModuleOp"> {
  let summary = "leave the row sums split over lanes until the loop ends";
  let description = [{
    Requires: a carried sum l' = factor * l + sum(p) that nothing else in the loop reads.
    Ensures: its `tile.reduce` is `per_lane`; a `tile.combine_lanes` follows the loop.
    Why here: it needs the loop's recurrence; layouts then give each lane its columns.
    Before: `%l2 = tile.reduce sum %p over "k" init %l1`
    After: `%l2 = tile.reduce sum %p over "k" init %l1 per_lane` and `%l = tile.combine_lanes sum %r#1` after the loop
  }];
}

def HoistInvariants : Pass<"tile-hoist-invariants", "::mlir::ModuleOp"> {
  let summary = "compute each value once: for the block, the row or the column that it depends on";
  let description = [{
    Requires: maps.
    Ensures: a quotient of a coordinate that is one for all of a tile is taken of its first; no map computes what depends on the block alone;
    costly values of one axis (loads, divisions, special functions) come from a map over that axis; what a loop does not change stands before it. Where the rounds of a loop have one tile, what they load of both axes does, too, but for the biases that producer warps bring. Values along the loop's axis in a conditional map stay in it;
    with `conditional-columns`, those that are loaded come from a conditional map of their own.
    Why here: before layouts, so that the vectors get theirs.
    Before: `map(q, k) { s + exp2(head[h]) * table[q] }`
    After: `%e = math.exp2`, `%t = map(q) { table[q] * e }`, `map(q, k) { s + t }`
  }];
  let options = [Option<"conditionalColumns", "conditional-columns", "bool", "false",
                        "what conditional maps load along the loop's axis comes from conditional maps over it: for targets whose lanes share vectors">];
}

def StageRelativePositions : Pass<"tile-stage-relative-positions", "::mlir::ModuleOp"> {
  let summary = "compute what follows from q - k once for each distance, in shared memory";
  let description = [{
    Requires: maps over q and k in a loop.
    Ensures: with producer warps, no such map loads a captured tensor by what follows from q - k alone: a map over the tile's distances does,
    converted to shared, and the map reads that by distance. Left alone are values of 64 bits.
    Why here: hoisting has taken out what varies along one axis or none; then distances without a load become floats.
    Before: `map(%s) at(q, k) { s + table[h, q - k] }`
    After: `%t = map() at(distance = %first) { table[h, distance] }`, `%ts = convert %t : register -> shared`, `map(%s, %ts) { s + t }`
  }];
}

def AddFallbackKernels : Pass<"tile-add-fallback-kernels", "::mlir::ModuleOp"> {
  let summary = "beside a kernel whose dense biases producer warps bring, one that reads their elements";
  let description = [{
    Requires: maps over q and k in a loop; a kernel with `sched.stage_biases`.
    Ensures: one that reads a captured tensor of floats at [.., q, k] has another in front of it in the launch, the same without `sched.stage_biases`, that starts in its place where
    TMA cannot read the tensor (`tile.fallback_of`).
    Why here: what is hoisted depends on whether producer warps bring it.
    Before: `tile.kernel @bias ... {sched.stage_biases}`
    After: `tile.kernel @bias_elements ... {tile.fallback_of = @bias}`, `tile.kernel @bias ... {sched.stage_biases}`, `tile.launch [@bias_elements, @bias]`
  }];
}

def StageBiases : Pass<"tile-stage-biases", "::mlir::ModuleOp"> {
  let summary = "bring dense biases to shared memory with the K tile";
  let description = [{
    Requires: maps over q and k in a loop; a kernel with `sched.stage_biases`.
    Ensures: no such map loads a captured tensor of floats at [.., q, k], indices before these two being the block's: it reads a
    `tile.window`. Beside the five products of gradients its ring has one stage.
    Why here: hoisting has taken leading indices to the block.
    Before: `map(%s) at(q, k) { s + bias[h, q, k] }`
    After: `%w = window %bias[%h, %q0, %k0]`, `map(%s, %w) { s + w }`
  }];
}

def StageColumns : Pass<"tile-stage-columns", "::mlir::ModuleOp"> {
  let summary = "bring what conditional maps load by key to shared memory";
  let description = [{
    Requires: conditional maps over k (tile-hoist-invariants with `conditional-columns`).
    Ensures: with producer warps, those of 32-bit values are unconditional, and converted to shared.
    Why here: hoisting has made them.
    Before: `%c = map() at(k) only_if %partial { ids[k] }`, `map(%s, %c) only_if %partial`
    After: `%c = map() at(k) { ids[k] }`, `%t = convert %c : register -> shared`, `map(%s, %t) only_if %partial`
  }];
}

def StageVectors : Pass<"tile-stage-vectors", "::mlir::ModuleOp"> {
  let summary = "bring vectors that a loop loads to shared memory";
  let description = [{
    Requires: loads of vectors in loops over tiles, and maps of them.
    Ensures: with producer warps, what a tile reads of 32-bit vectors whose loads differ from pass to pass of the loop and begin at one place, and computes from these alone, is one map without inputs, converted to shared. Without, the loads are to shared memory, and tiles compute it.
    Why here: what exponents add a row has been folded into one vector.
    Before: `%l = load %LSE[%b, %h, %q0]`, `%n = map(%l) { -l }`, `map(%s, %n)`
    After: `%r = map() at(q = %q0) { -LSE[b, h, q] }`, `%t = convert %r : register -> shared`, `map(%s, %t)`
  }];
}

def SplitRelativePositions : Pass<"tile-split-relative-positions", "::mlir::ModuleOp"> {
  let summary = "the distance k - q as a difference of a column's float and a row's";
  let description = [{
    Requires: maps over q and k.
    Ensures: no map converts k - q to float: columns and rows are coordinates of type f32, counted from float(k0 - q0) and 0.
    Why here: canonicalisation has put distances in one form; hoisting could not separate them.
    Before: `%d = sitofp(k - q)`
    After: `at(k = %distance : f32, q = %zero : f32)`, `%d = column - row`
  }];
}

def CancelRowTerms : Pass<"tile-cancel-row-terms", "::mlir::ModuleOp"> {
  let summary = "move the row part of a bias by distance from the scores to the LSE";
  let description = [{
    Requires: split distances; hoisted block values; the softmax in exp2 form.
    Ensures: in bf16 kernels without `precise`, a score that adds u * (column - row), u a block value, adds u * column; what reads the
    maximum after the loop subtracts u * row.
    Why here: the exponents must show that a common shift cancels.
    Before: `%x = map { s + slope * (column - row) }`, `%lse = map { m + log(l) }`
    After: `%x = map { s + slope * column }`, `%lse = map { (m - slope * row) + log(l) }`
  }];
}

def AccumulateBias : Pass<"tile-accumulate-bias", "::mlir::ModuleOp"> {
  let summary = "products with K start from the bias";
  let description = [{
    Requires: scores whose scale has moved to the exponent; staged tensors.
    Ensures: with producer warps, no map adds to the product of Q and K, and nothing else, what does not depend on it: the product's
    accumulator starts from that. What comes from shared memory stays a map where the kernel has `sched.overlap` without `sched.ping_pong`.
    Why here: the bias has its last form. It is then computed before the product, beside other warpgroups' products, and the sum costs nothing.
    Before: `%s = mma %q, %k`, `%x = map(%s, %t) { s + t }`
    After: `%b = map(%t) { t }`, `%x = mma %q, %k add %b`
  }];
}

def FuseExponents : Pass<"tile-fuse-exponents", "::mlir::ModuleOp"> {
  let summary = "one multiply-add for the exponent";
  let description = [{
    Requires: the softmax's exponentials, and by what the maximum's move changes those before, as maps to exp2((x - m) * c).
    Ensures: in bf16 kernels without `precise` and without `pingPong`, the exponentials are exp2 of one multiply-add, and right for every finite x and m: with warp-level products
    x is x - m, and m 0, where a row of the warp has |c m| >= 2^14; else, where c <= 3 and no exponential of m is added to the sum behind the loop, the multiply-add has a factor of the row, c or a power of two where |c m| >= 2^30, and its addend is carried.
    Why here: `tile-cancel-row-terms` asks for the difference.
    Before: `%alpha = map(%m0, %m) { exp2((m0 - m) * c) }`, `%p = map(%x, %m) { exp2((x - m) * c) }`
    After: `%f = map(%m) { |m| >= 2^30 / c ? 2^k : c }`, `%a = map(%m, %f) { -(m * f) }`, `%alpha = map(%a, %a0) { exp2(a - a0) }`, `%p = map(%x, %f, %a) { exp2(fma(x, f, a)) }`
  }];
}

def SkipRescale : Pass<"tile-skip-rescale", "::mlir::ModuleOp"> {
  let summary = "rescale the accumulator only when a row maximum moved";
  let description = [{
    Requires: the accumulator's rescaling as a map of its own, and warp-level products.
    Ensures: that map runs `only_if` a row of the warp has a factor other than 1; the result is the same to the bit.
    Why here: after hoisting, when no other computation shares the map.
    Before: `%acc1 = tile.map(%acc, %alpha) { acc * alpha }`
    After: `%moved = tile.any %alpha { alpha != 1 }`, `%acc1 = tile.map(%acc, %alpha) only_if %moved { acc * alpha }`
  }];
}

def SeparateScore : Pass<"tile-separate-score", "::mlir::ModuleOp"> {
  let summary = "end the basic block of S = Q K^T before the score";
  let description = [{
    Requires: the score as a map of the product.
    Ensures: that map is `only_if` there are keys, which holds wherever the loop runs.
    Why here: after hoisting, which looks at unconditional maps.
    Before: `%x = tile.map(%s) { softcap }`
    After: `%x = tile.map(%s) only_if %has_keys { softcap }`
  }];
}

def VerifyTile : Pass<"tile-verify", "::mlir::ModuleOp"> {
  let summary = "check what tile ops alone cannot: the end of tile";
  let description = [{
    Requires: nothing.
    Ensures: the module holds `tile.kernel` ops only, and these tile ops and scalar arithmetic; axes q and k of every tile have the
    plan's sizes and domains step by them; each loop's domain is a `tile.domain`; parameters of dropout and of a query offset are read
    only where the kernel has them; the shared tiles that are loaded, those of a loop `stages` times, fit the budget.
    Why here: layouts, rings and the CPU's vectors follow the plan, not the types.
    Before: `tile.kernel @causal ... { ... }`
    After: the same; an op that breaks a rule is an error there.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"\"", "architecture whose limit the plan's buffers keep; none: they are not checked">,
    Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">];
}

def ChoosePath : Pass<"tile-choose-path", "::mlir::ModuleOp"> {
  let summary = "programs that warps cannot be specialised around lose their roles";
  let description = [{
    Requires: tiles without layouts; products' rows chosen (`tile-place-operands`), or `orders-chosen=false`: then rows and columns of products are not checked.
    Ensures: a kernel has `sched.roles`, and marks that go with them, only where the architecture has warpgroups and the program is one loop over tiles, with copies of tensors of four dimensions before it and in it,
    and products of 16-bit operands in it whose rows are the warpgroups' 64 each. Elsewhere products are warp-level, what the text says of when ops run is gone, and the kernel's remarks say why.
    Why here: before the tile passes whose ops only roles serve (windows, values by distance), so that a kernel without roles gets none of them; and at the start of the schedule, as layouts and copies
    follow from the roles, and tile text may begin there.
    Before: `attributes {sched.persistent, sched.roles = [...]}` of a kernel with two loops
    After: `attributes {tile.remarks = ["products are warp-level ..."]`
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90a\"", "GPU architecture">,
    Option<"ordersChosen", "orders-chosen", "bool", "true", "whether the axes that are rows are chosen">
  ];
}

def PlaceOperands : Pass<"tile-place-operands", "::mlir::ModuleOp"> {
  let summary = "choose which axis of a register tile is rows, and bring to shared memory what products read from there";
  let description = [{
    Requires: tiles without layouts.
    Ensures: a product's left operand has the rows of the result, and lies in shared memory or in registers with these rows first; its right operand
    lies in shared memory. Register tiles that belong together have the order of axes in which fewest products and reductions exchange elements between
    lanes; tiles that are loaded, stored or accumulated keep the one of memory. Shared copies have their registers' order, but the tensor's where a kernel with roles, in whose
    place another can start (`tile.fallback_of`), also stores the tile to a dense tensor of its type: TMA takes it from there (`tile-store-by-tma`).
    Why here: layouts follow from the order of axes.
    Before: `tile.mma %ds, %k` with %ds : (k, q) in registers, contracted along k
    After: `%t = tile.convert %ds : ... -> !tile.tile<k 64 x q 64, bf16, shared>`, `tile.mma %t, %k`
  }];
}

def ScheduleBlocks : Pass<"tile-schedule-blocks", "::mlir::ModuleOp"> {
  let summary = "compute where a block's tile is from the block's number";
  let description = [{
    Requires: kernels that run as they stand, one tile of work a block: those of the CPU target.
    Ensures: no `tile.block_index` is left; each is arithmetic on `sched.block_id`, as the work order of scheduled kernels is.
    Why here: last; until then it does not matter which tiles follow each other.
    Before: `%q0 = tile.block_index "q"` in a kernel with `grid [b, h, q by 64]`
    After: `%0 = sched.block_id`, `%q_tiles = arith.ceildivui %Sq, %c64`, `%turn = arith.remui %0, %q_tiles`, ...
  }];
  let dependentDialects = ["::attune::sched::SchedDialect"];
}

def AssignRoles : Pass<"tile-assign-roles", "::mlir::ModuleOp"> {
  let summary = "say how deep the ring of each shared tile is, and which warps fill it";
  let description = [{
    Requires: a path that all of the kernel can take.
    Ensures: what a role brings has a `sched.ring`: of one stage before the loop, in it of two, or as many as that of the first copy, where the text says nothing; the first warp copies, and searches tiles where they follow from a search,
    beside which the second copies all but the first tile of a pass; values by distance are computed by all warps but the first; what a loop adds to memory, where TMA can, is taken there by a warp that fills no ring. The kernel has its two
    `sched.roles`, one that fills rings and one that computes, with the registers of a thread. Without producer warps copies of a loop have such rings, too, and all warps fill them. What the text says stays.
    Why here: how many warps compute a tile for the others is in its layout.
    Before: `%k = tile.load %K[...]`
    After: `%k = tile.load %K[...] {sched.ring = #sched.ring<stages 2, "producer" warp 0>}`
  }];
  let dependentDialects = ["::attune::sched::SchedDialect"];
}

def AssignLayouts : Pass<"tile-assign-layouts", "::mlir::ModuleOp"> {
  let summary = "give each register tile a fragment layout and each shared tile a swizzle";
  let description = [{
    Requires: tiles without layouts.
    Ensures: every tile type carries its layout: conditional vectors are spread over the lanes of a warp; left operands of products are `a` fragments or shared tiles. A vector in shared memory
    that maps read by their rows is converted to registers in front of the first of them.
    Why here: copies and expansion depend on layouts, and nothing before does.
    Before: `!tile.tile<q 128 x k 64, f32, register>`
    After: `!tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>`
  }];
  let dependentDialects = ["::attune::sched::SchedDialect"];
}

def FoldRectifiers : Pass<"tile-fold-rectifiers", "::mlir::ModuleOp"> {
  let summary = "a maximum with 0 in the rounding that follows";
  let description = [{
    Requires: layouts.
    Ensures: a map whose tile is packed for products, and read by nothing else, does not end in a maximum with 0: its conversions have `relu`.
    Why here: layouts say what is packed, and conversions are not moved yet.
    Before: `%p = tile.map(%s) { maximumf(%x, 0) }`, `tile.convert %p : ... bf16`
    After: `%p = tile.map(%s) { %x }`, `tile.convert %p relu : ... bf16`
  }];
}

def PipelineCopies : Pass<"tile-pipeline-copies", "::mlir::ModuleOp"> {
  let summary = "turn loads into asynchronous copies that run ahead of their use";
  let description = [{
    Requires: layouts.
    Ensures: no `tile.load` is left; shared tiles are slots of rings; every read is behind a wait
    whose pending count is the number of groups committed after the one it needs, and a barrier; the domain is bounds and
    a test of `sched.for_tiles`, and searches (`sched.next_visible`) where it leaves tiles out. Rings whose tiles ops of stage 1 (`sched.at`) read are copied one tile less ahead.
    Why here: the tile loop is still one op, so that prologue, body and epilogue are made together.
    Before: `%k = tile.load %K[...]` in `tile.for_blocks`
    After: `sched.copy_tile`, `sched.commit_copies`, `sched.wait_copies pending 0`, `sched.barrier`, `sched.slot`
  }];
  let dependentDialects = ["::attune::sched::SchedDialect", "::mlir::scf::SCFDialect"];
}

def OverlapProducts : Pass<"tile-overlap-products", "::mlir::ModuleOp"> {
  let summary = "products beside what reads other products";
  let description = [{
    Requires: roles; layouts.
    Ensures: the ops of a loop with products say when they run (`sched.at`), the products that they only start (`sched.async`). Those that follow from no other product come
    first. One that adds to a carried tile, as it is or rescaled, what the loop computes from another product is of stage 1, the tile before, as long as registers hold its left operand. With
    `overlap` the tile that it reads is waited for before it. Loops whose text says so already stay; a remark says where no product is deferred.
    Why here: tiles are values, and their registers are known.
    Before: `for_blocks { %s = mma %q, %k; softmax; %acc1 = map(%acc, %alpha); %o = mma %p, %v add %acc1 }`
    After: `%s = mma %q, %k {sched.async, sched.at = #sched.at<order 0>}`, `%o = mma %p, %v add %acc1 {sched.async, sched.at = #sched.at<order 1, stage 1>}`
  }];
}

def PingPong : Pass<"tile-ping-pong", "::mlir::ModuleOp"> {
  let summary = "warpgroups ping-pong: one runs its products while another runs its softmax";
  let description = [{
    Requires: `sched.ping_pong`, and two or more warpgroups; `sched.at`.
    Ensures: the asynchronous products of a loop that follow from no other, and those of stage 1, are a turn, "products". Not where warpgroups pass over tiles (`within`) of rings of one
    stage, nor where the text has a turn; a remark says so of the former.
    Why here: it is known which products run beside each other.
    Before: `%s = mma %q, %k {sched.async, sched.at = #sched.at<order 0>}`
    After: `%s = mma %q, %k {sched.async, sched.at = #sched.at<order 0, ping_pong "products">}`
  }];
}

def SpecializeWarps : Pass<"tile-specialize-warps", "::mlir::ModuleOp"> {
  let summary = "a producer role copies tiles into rings that the consumer role reads";
  let description = [{
    Requires: one `tile.for_blocks`; layouts.
    Ensures: every load is a ring: the producer acquires a stage and copies, the consumers wait for it, read, and release it right
    after the last reader. Rings of one depth that the same warps fill share barriers where they are awaited and left together: copies that the same ops read first and last, and
    what is computed. Registers are split between the roles. Each role has its loop over work; with a `persistent` plan it carries
    where the rings of K and V are from one tile of work to the next, and Q is a ring. A `tile.window` is a ring like that of K. Where tiles
    follow from a search, all warps but the one that searches receive the first with Q, and with K the next one and whether this one is partial; V is copied by a warp of
    its own, unless warps compute by distance. Where the kernel has a `work_counter`, persistent blocks claim tiles of work (`sched.claim_work`). Where nothing
    is copied in front of the loop, no message can go with it: both roles find their tiles of work themselves, which are neither claimed nor searched then. Where a tile of
    work lies, and which number follows, becomes arithmetic (passes/sched/WorkOrder.h). What maps read by key lies beside K, in stages of
    K's ring: the warp that copies K stores it where the tile is partial. The search also finds where each warpgroup's `tile.first_visible` is. Tiles outside of a loop's `within` a
    warpgroup passes over, in loops before and after it: it waits for their stages and releases them. What the loop stores or adds to memory with a `sched.ring` the consumers
    store to a stage, from where a warp of the producer has TMA take it (`sched.write_tile`); behind the loop they await that the ring is empty.
    Why here: lifetimes of stages follow the tile ops that read them.
    Before: `tile.for_blocks ... { %k = tile.load ...; %s = tile.mma %q, %k }`
    After: `sched.role "producer" { sched.for_work ... { sched.for_tiles ... { acquire; copy_tile ... signal %kr } } }`,
    `sched.role "consumer" { sched.for_work ... { sched.for_tiles ... { wait; %s = tile.mma %q, %slot; release } } }`
  }];
}

def PipelineStages : Pass<"tile-pipeline-stages", "::mlir::ModuleOp"> {
  let summary = "loops over tiles run as their ops say";
  let description = [{
    Requires: rings, and `sched.at` of the ops of loops, from passes or from the text; asynchronous products and pingPong in roles alone.
    Ensures: the ops of a loop stand in the order in which they run; where some are of stage 1, stage 0 of the first tile stands in front of it and stage 1 of the last behind it, and what
    stage 0 gives to stage 1 is carried; with more stages the loop that is left is taken apart in the same way. A slot follows from the wait for its stage, a release from the last op that reads its tiles, whatever their orders. A `sched.mma_wait` with its pending count stands in front of what needs an asynchronous product, a release of what it reads behind that.
    Warpgroups wait for their turn in front of the first op that has one and hand it on behind the last; turns of tiles that a warpgroup passes over it hands on at once. No `sched.at` is left.
    Why here: rings and stages are there, tiles are still values.
    Before: `for_tiles { %s = mma %q, %k {sched.async, order 0}; softmax; %o = mma %p, %v add %acc {sched.async, order 1, stage 1} }`
    After: `first tile's softmax; for_tiles { start %s; start %o; mma_wait pending 1; softmax; mma_wait pending 0; ... }; %o = mma ...`
  }];
}

def VerifySchedule : Pass<"tile-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "what the forms between tile and sched have in common";
  let description = [{
    Requires: nothing.
    Ensures: of the `form` "layouts", behind `tile-assign-layouts`: register tiles are fragments, shared operands of products swizzled. Of "copies", behind `tile-pipeline-copies` and
    `tile-specialize-warps`: no load to shared memory and no loop over a domain is left; a ring is filled by one role and awaited by another, and released where it is acquired. Of "stages", behind
    `tile-pipeline-stages`: no op has a `sched.at`; nothing reads a product that is under way, nor leaves its block; the pending count of each `sched.mma_wait` is the number of products started behind the last
    that it completes.
    Why here: an error in a pass, or in text that a hand wrote, shows where it was made.
    Before: `sched.mma_wait pending 1 completes(%s)` behind the start of `%s` and of two more
    After: the same; or `leaves 1 products under way, but 2 were started behind the last that it completes`
  }];
  let options = [Option<"form", "form", "std::string", "\"stages\"", "layouts, copies or stages">];
}

def LazyRescale : Pass<"tile-lazy-rescale", "::mlir::ModuleOp"> {
  let summary = "a row keeps its maximum until exponentials grow out of range";
  let description = [{
    Requires: `sched.ping_pong`, and a loop behind the first tile with the softmax's maximum, exponentials by exp2 of a multiple of what they exceed it by, and rescalings
    as maps of their own. Nothing among these reads what they give, nor starts the product that they wait for: a remark says where a schedule has it otherwise.
    Ensures: exponentials follow from the maximum so far, behind the wait for the product before, of the first half of the columns in front of it where the kernel has `sched.overlap` too; it moves, and sum and
    accumulator are rescaled, only where a lane's sum of them is 2^15 or more. In bf16 without `precise` the exponent is a multiply-add with an addend that is carried beside the maximum: -c m, or infinity, so that the
    maximum moves in every tile, where |c m| >= 2^14.
    Why here: `tile-pipeline-stages` has set the first tile apart, whose maximum moves in any case.
    Before: `%m1 = tile.reduce max %x over "k" init %m`, `%p = exp2((%x - %m1) * c)`, `%l1 = %l * %alpha + sum %p`, `mma_wait %acc`, `%acc1 = %acc * %alpha`
    After: `mma_wait %acc`, `%p = exp2(fma(%x, c, %addend))`, `%sum = tile.reduce sum %p over "k" per_lane`, `%moves = tile.any %sum >= 2^15`,
    `%m1, %l1, %acc1, %p1, %addend1 = scf.if %moves { as before } else { %m, %l + %sum, %acc, %p, %addend }`
  }];
}

def RecomputeMaps : Pass<"tile-recompute-maps", "::mlir::ModuleOp"> {
  let summary = "what two maps compute of a tile is computed twice";
  let description = [{
    Requires: maps as they are expanded.
    Ensures: where a map computes of a further input, a tile of float32 in registers, what an earlier map of the block has computed of it, and reads more than one of these values further on, it takes its elements behind those of its
    first input (`sched.after`): the device compiler then computes again and does not keep the earlier values of all elements.
    Why here: no later pass tells maps apart by what they compute.
    Before: `%x = tile.map(%s) { tanh(%s) * exp(%s) }`, `%ds = tile.map(%dp, %s) { %dp * f(tanh(%s), exp(%s)) }`
    After: `%ds = tile.map(%dp, %s) { %again = sched.after %s, %dp; %dp * f(tanh(%again), exp(%again)) }`
  }];
  let dependentDialects = ["::attune::sched::SchedDialect"];
}

def InterleaveFunctions : Pass<"tile-interleave-functions", "::mlir::ModuleOp"> {
  let summary = "special functions in step with what leads to them";
  let description = [{
    Requires: roles.
    Ensures: a map of a tile that computes one special function (tanh, exp2) of each element, by way of its sum, product or fma with what is the same along a row, and whose elements nothing sums up,
    is `interleaved`: 16 columns wait for the first of the 16 columns before. Not where four instructions or more follow from the function. Not in kernels of float32-accurate functions.
    Why here: `tile-lazy-rescale` has set exponentials apart that are computed alone.
    Before: `%t = tile.map(%s) { tanh(%s * c) }`
    After: `%t = tile.map(%s) { tanh(%s * c) } {interleaved}`
  }];
}

def PairElements : Pass<"tile-pair-elements", "::mlir::ModuleOp"> {
  let summary = "two columns of a tile by one access to memory";
  let description = [{
    Requires: layouts; origins of tiles are numbers of blocks, or products with the tile's size.
    Ensures: a `tile.element` of floats in a map of an accumulator carries `sched.pairs` where its last index is the coordinate along the columns and the others
    are the same along a row, and `sched.row_pairs` where rows and columns change places; so does a `tile.scatter` of an accumulator that adds nothing, whose last index
    counts along the axis up to an end. A scatter to 16 bits whose last two indices count along rows and 32 or more columns of a warp carries `sched.eights`, too: lanes of a quad exchange their pairs for eight elements each. Whether the view lies in pairs (`sched.in_pairs`), or in eights, and the whole tile in the view, is asked at run time, in one branch for all threads.
    Why here: last of those on whole tiles; maps that it marks change no more.
    Before: `%x = tile.map(%s) at(q = %q0, k = %k0) { %s + tile.element %bias[%h, %q, %k] }`
    After: `%x = tile.map(%s) at(q = %q0, k = %k0) { %s + tile.element %bias[%h, %q, %k] {sched.pairs} }`
  }];
}

def StoreByTma : Pass<"tile-store-by-tma", "::mlir::ModuleOp"> {
  let summary = "a tile that lies in shared memory as a dense tensor does goes there by TMA";
  let description = [{
    Requires: layouts; the meeting of the warps in front of what reads a `sched.exchange`.
    Ensures: a `tile.scatter` that adds nothing, whose last two indices count along rows and columns, and whose tile a `sched.exchange` puts into shared memory with these
    rows and columns in the view's type for a product, stands behind the last product in front of any loop for further tiles, and takes the shared tile: boxes of the
    TMA (`sched.store_box`), which ends where the tensor does.
    Why here: behind the stages of the loop, which say when products run.
    Before: `tile.scatter %ds, %dbias[%h, %q, %k]; %s = sched.exchange %ds ...; %dq = tile.mma %s, %k`
    After: `%s = sched.exchange %ds ...; %dq = tile.mma %s, %k; tile.scatter %s, %dbias[%h, %q, %k]`
  }];
}

def TileToSched : Pass<"tile-to-sched", "::mlir::ModuleOp"> {
  let summary = "expand tiles into the fragments of a lane";
  let description = [{
    Requires: layouts and pipelined copies.
    Ensures: a `sched.kernel` whose ops are single instructions, loops and scalar arithmetic; tiles are buffers, reused in
    place where an operand dies. From sm_90 on dependent kernels of a launch wait for the one before themselves (`sched.wait_launch`), which lets them start (`sched.start_next_launch`).
    Why here: everything that is decided on whole tiles has been.
    Before: `%s = tile.mma %q, %k`
    After: unrolled `scf.for` loops around `sched.load_matrix` and `sched.mma`
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"", "GPU architecture">];
  let dependentDialects = ["::attune::sched::SchedDialect", "::mlir::scf::SCFDialect"];
}

def ExpandSearches : Pass<"sched-expand-searches", "::mlir::ModuleOp"> {
  let summary = "make searches and block patterns loops around single instructions";
  let description = [{
    Requires: `sched.kernel` ops.
    Ensures: no `sched.next_visible` and no `tile.touches` is left: loops whose lanes ask for 32 tiles at a time (`sched.ballot`), of searches with `groups` for 32
    groups of tiles where the end is more than 64 tiles away, and loops over blocks of a pattern, or one load where a tile lies in one.
    Why here: until then passes ask where a search is.
    Before: `%n, %origin, %visible, %full = sched.next_visible from %a below %end { ...; sched.visible %1, %2 }`
    After: `%window, %n, ... = sched.for_tiles (%window, ...) = (%a, ...) below %end keeps { ...; %votes = sched.ballot %1; ... }`
  }];
  let dependentDialects = ["::mlir::math::MathDialect"];
}

def Rematerialize : Pass<"sched-rematerialize", "::mlir::ModuleOp"> {
  let summary = "compute a lane's place again rather than keep it in registers through the loop";
  let description = [{
    Requires: `sched.kernel` with `sched.for_work grid` or `persistent`.
    Ensures: branches of the tile loop, and what follows the loop, use no value derived from `sched.thread_id`, from the number of the tile of work or from what is
    received before the loop; what follows from a thread and a number both is kept. Loops that hold no tiles in registers count as what follows.
    Why here: after CSE, which would merge the copies; their reads have effects, so that later passes do not.
    Before: `%row = arith.divui %thread, %c4` before the loop, used after it
    After: `%t = sched.read_thread_id`, `%row = arith.divui %t, %c4` after the loop
  }];
}

def AssignSharedMemory : Pass<"sched-assign-shared-memory", "::mlir::ModuleOp"> {
  let summary = "give each shared buffer its offset";
  let description = [{
    Requires: `sched.kernel` with `sched.shared` buffers.
    Ensures: buffers alive at the same time do not overlap; `shared_bytes` is the end of the last one.
    Why here: lifetimes are final.
    Before: `sched.shared "k_tile" at 0`
    After: `sched.shared "k_tile" at 16384`
  }];
}

def VerifySched : Pass<"sched-verify", "::mlir::ModuleOp"> {
  let summary = "check what is left, places in shared memory, and every wait, arrival and barrier that orders copies, products and roles: the end of sched";
  let description = [{
    Requires: nothing.
    Ensures: the module holds `sched.kernel` ops only, and these nothing that is not expanded; shared buffers that overlap are never alive at once; barriers of rings lie within `shared_bytes` and over nothing
    else; `shared_bytes` are within the budget; each ring is filled and waited for, and one that is filled again is acquired and released; what a warpgroup does together stands in no branch on
    a vote of one warp.

    Where threads copy by cp.async alone, every read of shared memory finds the newest copy complete and a barrier after its wait, every write a
    barrier after the last read, every copy a wait before the tile of work ends, and all threads come by every barrier, wait and
    commit. This is not read off the schedule: the pass executes the kernel's control for launches of 0, 1, tile_k, tile_k + 1
    and (2 stages + 1) tile_k keys, in the first, a middle and the last query tile, and follows the state of each stage
    (passes/analysis/CopyOrder.h). 

    In kernels with roles, rings, boxes, bulk sums or warpgroup-level products all warps of a block run side by side (passes/analysis/RoleOrder.h), for launches without keys, of one key more than a tile and of (2 stages + 1) tile_k
    keys; where a block has several tiles of work, for two blocks with several each. Vector clocks decide, so that what is found does not depend on the order in which warps, copies and products happen to
    run. Each wait and acquire is for the phase that comes next for its warp; each stage is filled and released by as many arrivals and bytes as its ring counts, and released once by those who have
    waited for it; every access to shared memory is ordered behind the writes, copies, products and boxes that it follows, through a `sched.fence_async` where the asynchronous proxy reads stores; registers of products
    are touched outside of them alone; named barriers are reached by the threads that they count; messages are sent before they are received; every tile of work is taken once, its boxes
    lie in one place of the grid, and each box of an output is stored once. Values from memory are guessed in a few ways, the same in all roles: what a mask shows is not known, so
    that a tile that is left out by all roles alike passes, as does one that is not masked (tests/verify/MutationTest.cpp lists what passes; the simulator finds it).

    Order is known by lane, not by warp (passes/analysis/roles/Clock.h): an arrival of one lane, as `sched.release` is, hands on what this lane has read, written or waited for, and of the other lanes what
    they did before the last `sched.sync_lanes` or barrier. Instructions of the whole warp (ldmatrix, wgmma and its waits) are of every lane.

    A release need not stand after the last read of its stage: it suffices that something else orders the read before the next copy. In the overlapped forward loop K's release may move in front of its
    `mma_wait pending 1`: one producer thread fills K and V in turn, with rings of equal depth S, and before it fills K's stage for tile t + S it has waited for V's of tile t - 1, which every consumer warp releases
    after the wait for K's product of tile t. For the first tile's K, which is multiplied before any V, the same edit is refused, as it is wherever no other wait of the producer comes between
    (tests/passes/sched-verify-lanes.mlir, tests/sim/FaultTest.cpp).
    Why here: nothing changes the kernel after this; the printer takes no decision.
    Before: `sched.wait_copies pending 1`, `sched.barrier`, `sched.load_matrix %k_ring[%slot, ...]`
    After: the same; or `reads stage 0 of k_ring, whose copy is still under way; the wait before it leaves 1 group pending`, or
    `releases k_barriers, stage 1, without having waited for it; sched.wait must stand in front`.
  }];
  let options = [Option<"sramBudget", "sram-budget", "int64_t", "0", "bytes of shared memory per block; 0 is the limit of the architecture">];
}

#endif
