//===- AttnDialect.td - What a variant computes ------------------*- tablegen -*-===//
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
    One `attn.attention` op holds a variant: its shapes and dtypes, a `score` region and a `mask` region made
    of `arith` and `math` ops plus the loads below, dropout, block pattern and normaliser. Nothing here says
    how: no tiles, no memory, no threads.

    Integers are int32 (int64 where a captured tensor or a cast says so) and wrap. Division by zero and shift
    counts are guarded where the region is built, so that `arith` ops here never have undefined results.
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
    Name, element type in memory (f32, f16, bf16, i32, i64, or i8 for bool) and rank 0 to 4.

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
    Name and type (f32, i32, i64 or i1). Changing its value does not recompile.

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
    The captured bool tensor `name` (rank 2, or 3 with a head dimension first) holds one flag for each block of
    `rows` queries x `columns` keys; a false flag hides the block.

    ```mlir
    #attn.blocks<pattern, 64 x 64>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$rows, "int64_t":$columns);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def KeyPagesAttr : AttnAttr<"KeyPages", "pages"> {
  let summary = "pages of keys";
  let description = [{
    K and V are [page, hkv, size, ...]: key k of sequence b is row k % size of the page whose number the captured i32 tensor `name` holds at
    [b, k / size]. There are size times as many keys as the tensor has columns.

    ```mlir
    #attn.pages<table, 64>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def RowStatisticAttr : AttnAttr<"RowStatistic", "statistic"> {
  let summary = "a float32 that each row carries from one block of keys to the next";
  let description = [{
    Name, whether it is the maximum of the scores or the sum of the weights p, and where it starts.

    ```mlir
    #attn.statistic<m, max, 0xFF800000 : f32>
    #attn.statistic<l, sum, 0.000000e+00 : f32>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "bool":$isMax, "::mlir::FloatAttr":$initial);
  let hasCustomAssemblyFormat = 1;
}

def GradientsAttr : AttnAttr<"Gradients", "gradients"> {
  let summary = "what the backward pass of an attention gives";
  let description = [{
    The gradients of Q, K and V, and of these captured tensors of floats. With `lse` that of LSE is given beside that of O. With `deterministic` all sums are
    the same bits in every launch: in one order, or exact where their order is not defined, as that of additions to a captured tensor by an index of both q and k.

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
    The attribute `attn.plan` of an attention, which `attn-to-tile` spells out in the kernel: sizes and warps as its `#tile.plan`, all else as annotations
    ([scheduling.md](../scheduling.md)).

    K and V rings have `stages` stages, Q's `q_stages`; `q_registers` keeps the fragments of Q in registers instead of reading them
    from shared memory for each K tile; `longest_first` starts with the last query tile. With `producer_warps` that many more warps copy tiles for the others, by the copy
    engine, and products are warpgroup-level; with 0, the default, all warps copy and products are warp-level. `persistent` blocks
    take one query tile after another: copies for the next one run beside the end of the one before, for which O has a place of its own and Q
    a ring. With `overlap` the product with V of a tile runs beside the softmax of the next in each warpgroup of the
    consumers, which then wait for V before they read it; with `pingPong` the warpgroups start their products one after another, and one's products
    run beside another's softmax; with both the first half of the exponentials of a softmax whose maximum is held runs beside its warpgroup's own product with V as well, in
    registers beside P's; with neither they do as they come. With `stage_biases`
    producer warps bring dense biases (bias[h, q, k]) to shared memory with the K tile; without, each lane loads its elements.
    With `pack_gqa` the rows of a tile are the queries of all query heads of a key head, so that K and V are read once for all of them; with `split_keys` several blocks
    share the keys of a tile of rows, and a second kernel combines what they leave.

    ```mlir
    #attn.plan<tile_q = 128, tile_k = 64, warps = 4, stages = 1, q_registers = false, blocks_per_sm = 2, longest_first = true>
    #attn.plan<tile_q = 64, tile_k = 16, warps = 8, stages = 1, q_registers = false, blocks_per_sm = 1, longest_first = true, dv_warps = 2>
    ```
  }];
  let parameters = (ins "int64_t":$tile_q, "int64_t":$tile_k, "int64_t":$warps, "int64_t":$stages,
                        "bool":$q_registers, "int64_t":$blocks_per_sm, "bool":$longest_first,
                        DefaultValuedParameter<"int64_t", "1">:$dv_warps, DefaultValuedParameter<"int64_t", "0">:$producer_warps,
                        DefaultValuedParameter<"bool", "false">:$persistent, DefaultValuedParameter<"int64_t", "1">:$q_stages,
                        DefaultValuedParameter<"bool", "false">:$pingPong, DefaultValuedParameter<"bool", "false">:$overlap,
                        DefaultValuedParameter<"bool", "false">:$stage_biases,
                        DefaultValuedParameter<"bool", "false">:$pack_gqa, DefaultValuedParameter<"bool", "false">:$split_keys);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def VariantAttr : AttnAttr<"Variant", "variant"> {
  let summary = "the variant that a module was made from, as JSON";
  let description = [{
    The module's attribute `attn.variant`: what `--emit dsl` prints, of objects, strings, numbers, true and false. It checks runs of the text; what the
    kernel computes stands in its ops alone. Strings escape as MLIR's do, and a number with an exponent has a point.

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
