//===- AttnOps.td - Ops of the attn dialect ----------------------*- tablegen -*-===//
#ifndef ATTUNE_ATTN_OPS
#define ATTUNE_ATTN_OPS

include "ir/attn/AttnDialect.td"
include "mlir/IR/BuiltinAttributes.td"

class AttnOp<string mnemonic, list<Trait> traits = []> : Op<AttnDialect, mnemonic, traits>;

def AttentionOp : AttnOp<"attention", [IsolatedFromAbove, Symbol]> {
  let summary = "the attention of a variant: scores, mask, normaliser, dropout and the product with V, given as formulas";
  let description = [{
    For each batch b, head h, query q and key k:

        s  = scale * <Q[b,h,q,:], K[b,h/group,k,:]>        float32
        s' = score(s, b, h, q, k)
        x  = mask(b, h, q, k) ? s' : -inf
        p  = normaliser over k of x
        p' = dropout ? (keep(b,h,q,k) ? p / (1 - p_drop) : 0) : p
        O[b,h,q,:] = sum_k p' * V[b,h/group,k,:]
        LSE[b,h,q] = log sum_k exp(x)

    Q is [B, H, Sq, head_dim], K [B, Hkv, Sk, head_dim], V [B, Hkv, Sk, head_dim_v], all of `dtype`. The score region
    takes (s : f32, b, h, q, k : i32) and yields f32; the mask region takes (b, h, q, k : i32) and yields i1. An empty
    score region is the identity; an empty mask region means that all keys are visible. With `q_offset` the q of both
    regions is the row plus a run-time offset.

    With `key_lengths` sequence b has `key_lengths[b]` keys, an element of a captured i32 tensor [B] in the range [0,
    Sk]; `attn.extent "Sk"` is nevertheless the same for all sequences. `query_lengths` gives the number of queries of
    each sequence in the same way; rows past a sequence's last query are not written. With `key_pages` K and V are
    paged.

    Without the attribute `normaliser` the normaliser is softmax. Otherwise `normaliser` is its name, `statistics` are
    the running statistics of a row, and five regions define the normaliser. Each region takes (b, h : i32) and the
    values in the table, all f32, and yields f32. The base of a row is the number relative to which the row's weights
    are computed: for softmax the running maximum, or 0 where the maximum is -inf. O starts from 0. O and the statistics
    are updated with each block of keys:

    | region    | takes                                     | yields                                                 |
    |-----------|-------------------------------------------|--------------------------------------------------------|
    | `base`    | the statistics: maxima include the new block, sums must not be read | the row's base               |
    | `rescale` | the statistics before the block, and base | the factor that multiplies O and the sum statistics    |
    | `p`       | x, and base                               | the weight of a key; 0 for x = -inf                    |
    | `divisor` | the final statistics                      | the divisor of O; where the divisor is 0, O is 0       |
    | `lse`     | the final statistics                      | LSE; without this region the attention has no LSE      |

    Only `p` is mandatory. Without `base` the regions `rescale` and `p` take no base.

    With `gradients` the op is the backward pass of the attention: from dO, and from dLSE if `gradients` has `lse`, the
    backward pass computes dQ, dK, dV and the gradients of captured tensors. `attn-differentiate` adds a gradient region
    for each region that O depends on. A gradient region takes the arguments of its primal region and, last, g (f32),
    the gradient of the primal region's result. A gradient region yields the gradient of one primal argument and adds to
    the gradients of captured tensors by `attn.add_gradient`.

    | region         | primal region | yields the gradient of                  |
    |----------------|---------------|-----------------------------------------|
    | `score_grad`   | `score`       | s                                       |
    | `p_grad`       | `p`           | x                                       |
    | `divisor_grad` | `divisor`     | the sum statistic                       |
    | `lse_grad`     | `lse`         | the sum statistic                       |

    `saves` names the values that the forward pass stores in addition to O and LSE, so that the backward pass loads them
    instead of recomputing them (`attn-recompute`). "dropout" is a bit for each query and key: whether the weight is
    kept. "score" is a float32 for each query and key: the result of the op in the score region that is marked
    `attn.saved`, or s' where no op is marked.

    ```mlir
    attn.attention @sigmoid dtype bf16 head_dim 64 x 64 scale 0.125 attributes {normaliser = "sigmoid"} score {
    } mask {
    } p {
    ^bb0(%b: i32, %h: i32, %x: f32):
      %one = arith.constant 1.0 : f32
      %0 = arith.negf %x : f32
      %1 = math.exp %0 : f32
      %2 = arith.addf %one, %1 : f32
      %3 = arith.divf %one, %2 : f32
      attn.yield %3 : f32
    }
    ```

    ```mlir
    attn.attention @causal dtype bf16 head_dim 128 x 128 scale 0.125 score {
    } mask {
    ^bb0(%b: i32, %h: i32, %q: i32, %k: i32):
      %0 = arith.cmpi sge, %q, %k : i32
      attn.yield %0 : i1
    }
    ```

    ```mlir
    attn.attention @doubled dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>, ...} score {
    ^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32):
      %0 = arith.addf %s, %s : f32
      attn.yield %0 : f32
    } mask {
    } ... score_grad {
    ^bb0(%s: f32, %b: i32, %h: i32, %q: i32, %k: i32, %g: f32):
      %0 = arith.addf %g, %g : f32
      attn.yield %0 : f32
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$dtype, I64Attr:$head_dim, I64Attr:$head_dim_v,
                       F32Attr:$scale, DefaultValuedAttr<TypedArrayAttrBase<CapturedTensorAttr, "tensors">, "{}">:$tensors,
                       DefaultValuedAttr<TypedArrayAttrBase<RuntimeScalarAttr, "scalars">, "{}">:$scalars,
                       OptionalAttr<BlockPatternAttr>:$pattern, OptionalAttr<StrAttr>:$key_lengths,
                       OptionalAttr<StrAttr>:$query_lengths, OptionalAttr<SequencesAttr>:$sequences, OptionalAttr<KeyPagesAttr>:$key_pages, OptionalAttr<StrAttr>:$normaliser,
                       DefaultValuedAttr<TypedArrayAttrBase<RowStatisticAttr, "row statistics">, "{}">:$statistics,
                       UnitAttr:$dropout, UnitAttr:$precise, UnitAttr:$q_offset, OptionalAttr<GradientsAttr>:$gradients,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$saves);
  let regions = (region MaxSizedRegion<1>:$score, MaxSizedRegion<1>:$mask, MaxSizedRegion<1>:$base,
                     MaxSizedRegion<1>:$rescale, MaxSizedRegion<1>:$p, MaxSizedRegion<1>:$divisor,
                     MaxSizedRegion<1>:$lse, MaxSizedRegion<1>:$score_grad, MaxSizedRegion<1>:$p_grad,
                     MaxSizedRegion<1>:$divisor_grad, MaxSizedRegion<1>:$lse_grad);
  let assemblyFormat = [{
    $sym_name `dtype` $dtype `head_dim` $head_dim `x` $head_dim_v `scale` $scale
    attr-dict-with-keyword `score` custom<Region>($score) `mask` custom<Region>($mask) (`base` custom<Region>($base)^)?
    (`rescale` custom<Region>($rescale)^)? (`p` custom<Region>($p)^)? (`divisor` custom<Region>($divisor)^)? (`lse` custom<Region>($lse)^)?
    (`score_grad` custom<Region>($score_grad)^)? (`p_grad` custom<Region>($p_grad)^)?
    (`divisor_grad` custom<Region>($divisor_grad)^)? (`lse_grad` custom<Region>($lse_grad)^)?
  }];
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 0;
  let extraClassDeclaration = [{
    /// The declaration of the captured tensor or run-time scalar `name`, or null.
    CapturedTensorAttr findTensor(::llvm::StringRef name);
    RuntimeScalarAttr findScalar(::llvm::StringRef name);
    /// Whether the attention computes an LSE. Softmax does; another normaliser does if it has an lse region.
    bool hasLse() { return !getNormaliser() || !getLse().empty(); }
    /// Whether K and V are the rows of packed sequences, one after another.
    bool packsKeys() { return getSequences() && getSequencesAttr().getKeys(); }
    static constexpr size_t regionCount = 11;
    /// The regions of the normaliser: base, rescale, p, divisor and lse.
    ::std::array<::mlir::Region *, 5> normaliserRegions();
    /// Pairs of a gradient region and the region whose derivative it computes, for score_grad, p_grad, divisor_grad and
    /// lse_grad.
    ::std::array<::std::pair<::mlir::Region *, ::mlir::Region *>, 4> gradientRegions();
    /// Whether the forward pass saves `what`, "dropout" or "score", for the backward pass.
    bool saves(::llvm::StringRef what);
    /// The value of the score region that is saved for the backward pass: the result of the op marked `attn.saved`,
    /// else the value that the region yields. Null where the region is empty or no score is saved.
    ::mlir::Value getSavedScore();
    /// The name of argument `i` of a normaliser region, such as "x", "base" or a statistic's name.
    ::std::string normaliserArgument(::mlir::Region &region, size_t i);
  }];
}

def LoadOp : AttnOp<"load", [Pure]> {
  let summary = "read one element of a captured tensor";
  let description = [{
    The result is `name[indices]`, with one i32 or i64 index for each dimension. f16 and bf16 elements are widened to
    f32; a bool element is an i1. An index out of range is clamped to the nearest valid one. The op has no memory
    effects, as captured tensors are constant during a launch.

    ```mlir
    %0 = attn.load "slopes"[%h] : (i32) -> f32
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<AnyTypeOf<[I32, I64]>>:$indices);
  let results = (outs AnyTypeOf<[F32, I32, I64, I1]>:$result);
  let assemblyFormat = "$name `[` $indices `]` attr-dict `:` functional-type($indices, $result)";
  let hasVerifier = 1;
}

def SearchOp : AttnOp<"search", [Pure]> {
  let summary = "count the elements of a captured vector that come before a number";
  let description = [{
    The result is the number of elements of `name`, a captured tensor of rank 1 in ascending order, that are < x, or
    with `right` <= x. NaN comes after all numbers. The elements are compared as `attn.load` reads them, and x has their
    type. If the elements are in another order, the result is the index at which bisection ends, a number in [0,
    extent]. The op has no memory effects, as captured tensors are constant during a launch.

    ```mlir
    %0 = attn.search "offsets", %q right : i32
    ```
  }];
  let arguments = (ins StrAttr:$name, AnyTypeOf<[F32, I32, I64]>:$x, UnitAttr:$right);
  let results = (outs I32:$result);
  let assemblyFormat = "$name `,` $x (`right` $right^)? attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def AddGradientOp : AttnOp<"add_gradient", [MemoryEffects<[MemWrite]>]> {
  let summary = "add to the gradient of a captured tensor's element";
  let description = [{
    `gradient of name[indices] += value`, where an index out of range is clamped as in `attn.load`. In `score_grad` and
    `p_grad` the addition is done for every visible (b, h, q, k), in `divisor_grad` and `lse_grad` for every (b, h, q).
    The op writes memory.

    ```mlir
    attn.add_gradient %0, "slopes"[%h] : (i32)
    ```
  }];
  let arguments = (ins F32:$value, StrAttr:$name, Variadic<AnyTypeOf<[I32, I64]>>:$indices);
  let assemblyFormat = "$value `,` $name `[` $indices `]` attr-dict `:` `(` type($indices) `)`";
  let hasVerifier = 1;
}

def ScalarOp : AttnOp<"scalar", [Pure]> {
  let summary = "read a run-time scalar";
  let description = [{
    The result is the launch's value of the scalar `name`. The op has no memory effects.

    ```mlir
    %0 = attn.scalar "cap" : f32
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyTypeOf<[F32, I32, I64, I1]>:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def ExtentOp : AttnOp<"extent", [Pure]> {
  let summary = "read one of the run-time extents B, H, Sq, Sk";
  let description = [{
    B is the batch size, H the number of query heads, Sq the number of queries, Sk the number of keys. The op has no
    memory effects.

    ```mlir
    %0 = attn.extent "Sk" : i32
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs I32:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def YieldOp : AttnOp<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["AttentionOp"]>]> {
  let summary = "end a region of `attn.attention` with the region's result";
  let description = [{
    The mask region yields i1, all other regions yield f32.

    ```mlir
    attn.yield %0 : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I1]>:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif
