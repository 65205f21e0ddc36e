//===- AttnDialect.td - The attn dialect: a variant's formulas ----*- tablegen -*-===//
#ifndef ATTUNE_ATTN_DIALECT
#define ATTUNE_ATTN_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def AttnDialect : Dialect {
  let name = "attn";
  let cppNamespace = "::attune::attn";
  let summary = "an attention variant: what it computes, for one dtype and head dim";
  let description = [{
    One `attn.attention` op holds a variant: its shapes and dtypes, a `score` region and a `mask` region made of `arith`
    and `math` ops plus the loads below, dropout, block pattern and normaliser. The dialect says what is computed, not
    how: it has no tiles, memory or threads.

    Integers are int32 (int64 where a captured tensor or a cast says so) and wrap. Division by zero and shift counts are
    guarded where the region is built, so that `arith` ops here never have undefined results.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

class AttnAttr<string name, string mnemonicName, list<Trait> traits = []>
    : AttrDef<AttnDialect, name, traits> {
  let mnemonic = mnemonicName;
}

def CapturedTensorAttr : AttnAttr<"CapturedTensor", "tensor"> {
  let summary = "a captured tensor of the kernel's signature";
  let description = [{
    A captured tensor is a tensor other than Q, K and V that a variant reads, such as `slopes` if its score adds
    `slopes[h]`. The attribute holds the tensor's name, its element type in memory (f32, f16, bf16, i32, i64, or i8 for
    bool) and its rank, 0 to 4.

    ```mlir
    #attn.tensor<slopes, f32, rank 1>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::Type":$elementType, "int64_t":$rank);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def RuntimeScalarAttr : AttnAttr<"RuntimeScalar", "scalar"> {
  let summary = "a run-time scalar of the kernel's signature";
  let description = [{
    The attribute holds the scalar's name and type (f32, i32, i64 or i1). A launch with another value does not
    recompile.

    ```mlir
    #attn.scalar<cap, f32>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::Type":$type);
  let hasCustomAssemblyFormat = 1;
}

def BlockPatternAttr : AttnAttr<"BlockPattern", "blocks"> {
  let summary = "an explicit mask of blocks, as in the FlashAttention paper's Algorithm 5";
  let description = [{
    The captured bool tensor `name` (rank 2, or 3 with a head dimension first) holds one flag for each block of `rows`
    queries x `columns` keys; a false flag masks the whole block.

    ```mlir
    #attn.blocks<pattern, 64 x 64>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$rows, "int64_t":$columns);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def KeyPagesAttr : AttnAttr<"KeyPages", "pages"> {
  let summary = "a paged KV cache: the page table and the number of keys in a page";
  let description = [{
    K and V are [page, hkv, size, ...]. The captured i32 tensor `name` is the page table: key k of sequence b is row k %
    size of page `name[b, k / size]`. The number of keys is `size` times the number of columns of the page table.

    ```mlir
    #attn.pages<table, 64>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def SequencesAttr : AttnAttr<"Sequences", "sequences"> {
  let summary = "packed sequences: the captured vectors of where each begins";
  let description = [{
    Q, O and LSE are [1, h, row, ...], K and V [1, hkv, row, ...], with the rows of all sequences one after another.
    Sequence b of B consists of the rows of Q from `queries[b]` to `queries[b + 1]` and the rows of K and V from `keys[b]`
    to `keys[b + 1]`, where both are captured i32 tensors [B + 1]. Positions, Sq and Sk count within a sequence. Without
    `keys` the rows of K and V are those of a batch, or in pages.

    ```mlir
    #attn.sequences<cu_q, cu_k>
    #attn.sequences<cu_q>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$queries, OptionalParameter<"::mlir::StringAttr">:$keys);
  let hasCustomAssemblyFormat = 1;
}

def RowStatisticAttr : AttnAttr<"RowStatistic", "statistic"> {
  let summary = "a float32 statistic of each row, such as its running maximum, updated with each block of keys";
  let description = [{
    The attribute holds the statistic's name, whether the statistic is the maximum of the scores or the sum of the
    weights p, and its initial value.

    ```mlir
    #attn.statistic<m, max, 0xFF800000 : f32>
    #attn.statistic<l, sum, 0.000000e+00 : f32>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "bool":$isMax, "::mlir::FloatAttr":$initial);
  let hasCustomAssemblyFormat = 1;
}

def GradientsAttr : AttnAttr<"Gradients", "gradients"> {
  let summary = "the gradients that the backward pass of an attention computes";
  let description = [{
    The backward pass computes the gradients of Q, K and V, and of the listed captured float tensors. With `lse` the
    backward pass takes the gradient of LSE in addition to that of O. With `deterministic` every sum has the same bits
    in every launch: terms are added in a fixed order, or by atomic additions whose result does not depend on the order.
    Atomic additions are used for a captured tensor whose indices combine q and k, as in `table[h, q - k + n]`.

    ```mlir
    #attn.gradients<["slopes"], lse, deterministic>
    #attn.gradients<[]>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$tensors, "bool":$lse, "bool":$deterministic);
  let hasCustomAssemblyFormat = 1;
}

def AttnPlanAttr : AttnAttr<"Plan", "plan"> {
  let summary = "tile sizes and schedule, chosen by the cost model or given by the user";
  let description = [{
    An attention carries its plan as the attribute `attn.plan`. `attn-to-tile` transfers the plan to the kernel: sizes
    and warps become the kernel's `#tile.plan`, all other fields become annotations
    ([scheduling.md](../../inside/scheduling.md)).

    Copies. The K and V rings have `stages` stages, the ring of Q has `q_stages`; in a backward
    pass's loop over queries `stages` is of Q and dO, and `q_stages` of K and V. In a loop of the backward pass the ring of the tiles that only dP reads has `dp_stages`, if that is not 0. `q_registers` keeps the fragments of Q
    in registers; otherwise the fragments are read from shared memory for each K tile. With `producer_warps` that many
    additional warps copy tiles for the others by TMA, and products are warpgroup-level; with 0, the default, all warps
    copy and products are warp-level. With `stage_biases` producer warps copy dense biases (bias[h, q, k]) to shared
    memory together with the K tile; otherwise each lane loads its elements.

    Tiles of work. `longest_first` starts with the last query tile, a loop over queries of the backward pass with the
    first key tile. A `persistent` block computes several query tiles in
    sequence: the copies for the next tile overlap with the end of the current one, so O has a shared buffer of its own
    and Q has a ring. With `pack_gqa` the rows of a tile are the queries of all query heads of a key head, so that K and
    V are read once for all of them. With `split_keys` several blocks split the keys of a tile of rows (split-KV), and a
    second kernel combines their partial results.

    Overlap. With `overlap` the product with V of a tile overlaps with the softmax of the next tile within each consumer
    warpgroup, which waits for the V tile directly before that product. In a loop of the backward pass that adds dQ to
    memory, the product dS K of a tile overlaps with the softmax of the next tile. With `ping_pong` the warpgroups alternate: the
    products of one overlap with the softmax of another. With both, under lazy rescaling, the first half of a softmax's
    exponentials also overlaps with the warpgroup's own product with V, and these exponentials occupy registers in
    addition to those of P. With neither, warpgroups run without synchronisation between them.

    ```mlir
    #attn.plan<tile_q = 128, tile_k = 64, warps = 4, stages = 1, q_registers = false, blocks_per_sm = 2, longest_first = true>
    #attn.plan<tile_q = 64, tile_k = 16, warps = 8, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = true, dv_warps = 2>
    ```
  }];
  let parameters = (ins "int64_t":$tile_q, "int64_t":$tile_k, "int64_t":$warps, "int64_t":$stages,
                        "bool":$q_registers, "int64_t":$blocks_per_sm, "bool":$longest_first,
                        DefaultValuedParameter<"int64_t", "1">:$dv_warps, DefaultValuedParameter<"int64_t", "0">:$producer_warps,
                        DefaultValuedParameter<"bool", "false">:$persistent, DefaultValuedParameter<"int64_t", "1">:$q_stages,
                        DefaultValuedParameter<"bool", "false">:$ping_pong, DefaultValuedParameter<"bool", "false">:$overlap,
                        DefaultValuedParameter<"bool", "false">:$stage_biases,
                        DefaultValuedParameter<"bool", "false">:$pack_gqa, DefaultValuedParameter<"bool", "false">:$split_keys,
                        DefaultValuedParameter<"int64_t", "0">:$dp_stages);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def VariantAttr : AttnAttr<"Variant", "variant"> {
  let summary = "the variant from which a module was built, as JSON";
  let description = [{
    A module carries its variant as the attribute `attn.variant`, which is the output of `--emit dsl`. When the module's
    text is run, the variant is the reference for checking the results; the kernel itself is compiled from the ops
    alone. The JSON consists of objects, strings, numbers, true and false. Strings are escaped as in MLIR, and a number
    with an exponent has a decimal point.

    ```mlir
    #variant = #attn.variant<{
      "name": "gemma",
      "score": "50 * tanh(s / 50) + slopes[h] * (k - q)",
      "mask": "q >= k && q - k < 4096",
      "tensors": {"slopes": {"dtype": "f32", "rank": 1}}
    }>
    module attributes {attn.variant = #variant} { ... }
    ```
  }];
  let parameters = (ins StringRefParameter<"what Variant::toJson gives">:$json);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let genMnemonicAlias = 1;
}

#endif
