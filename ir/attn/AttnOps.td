//===- AttnOps.td - Ops of the attn dialect ----------------------*- tablegen -*-===//
#ifndef ATTUNE_ATTN_OPS
#define ATTUNE_ATTN_OPS

include "ir/attn/AttnDialect.td"
include "mlir/IR/BuiltinAttributes.td"

class AttnOp<string mnemonic, list<Trait> traits = []> : Op<AttnDialect, mnemonic, traits>;

def AttentionOp : AttnOp<"attention", [IsolatedFromAbove, Symbol]> {
  let summary = "one attention variant";
  let description = [{
    For each batch b, head h, query q and key k:

        s  = scale * <Q[b,h,q,:], K[b,h/group,k,:]>        float32
        s' = score(s, b, h, q, k)
        x  = mask(b, h, q, k) ? s' : -inf
        p  = normaliser over k of x
        p' = dropout ? (keep(b,h,q,k) ? p / (1 - p_drop) : 0) : p
        O[b,h,q,:] = sum_k p' * V[b,h/group,k,:]
        LSE[b,h,q] = log sum_k exp(x)

    Q is [B, H, Sq, head_dim], K [B, Hkv, Sk, head_dim], V [B, Hkv, Sk, head_dim_v], all of `dtype`. The score
    region takes (s : f32, b, h, q, k : i32) and yields f32; the mask region takes (b, h, q, k : i32) and yields
    i1. An empty region is the identity, or "all visible". With `q_offset` the q of both regions is the row plus
    a run-time offset.

    With `key_lengths` sequence b has as many keys as that captured i32 tensor [B] says, in [0, Sk]; the extent Sk of the regions is that of all
    sequences. `query_lengths` says the same of its queries; rows behind them are not written. With `key_pages` K and V lie in pages.

    The normaliser is softmax where none is named. Else `normaliser` names it, `statistics` are what each row carries
    from one block of keys to the next, and regions say the rest. Each takes (b, h : i32) and what the table lists, all
    f32, and yields f32. O, from 0, and the statistics change with each block of keys:

    | region    | takes                               | what it gives                                           |
    |-----------|-------------------------------------|---------------------------------------------------------|
    | `base`    | the statistics; those of max are new, those of sum must not be read | a row's base            |
    | `rescale` | the statistics before the block, and base | a factor of O and of the statistics of sum        |
    | `p`       | x, and base                         | the weight of a key; 0 of x = -inf                      |
    | `divisor` | the statistics at the end           | what O is divided by; where it is 0, O is 0             |
    | `lse`     | the statistics at the end           | LSE; without it there is none                           |

    Only `p` has to be there; without `base` no region takes it.

    With `gradients` it is the backward pass of the attention: of dO, and of dLSE where asked for, it gives dQ, dK, dV and the gradients of captured tensors.
    `attn-differentiate` writes what that takes beside the formula: regions that take what theirs takes and, behind it, g (f32), the gradient of what
    theirs gives. They yield the gradient of one of its arguments and add those of captured tensors by `attn.add_gradient`.

    | region         | of        | yields the gradient of                  |
    |----------------|-----------|-----------------------------------------|
    | `score_grad`   | `score`   | s                                       |
    | `p_grad`       | `p`       | x                                       |
    | `divisor_grad` | `divisor` | the statistic of sum                    |
    | `lse_grad`     | `lse`     | the statistic of sum                    |

    `saves` names what the forward pass leaves for the backward pass beside O and LSE, and what that reads where it would compute it again (`attn-recompute`):
    "dropout", a bit for each query and key, whether it is kept; "score", a float32 for each: what the op of the score region that is marked `attn.saved`
    gives, or else s'.

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
                       OptionalAttr<StrAttr>:$query_lengths, OptionalAttr<KeyPagesAttr>:$key_pages, OptionalAttr<StrAttr>:$normaliser,
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
    /// Whether it gives an LSE: softmax does.
    bool hasLse() { return !getNormaliser() || !getLse().empty(); }
    static constexpr size_t regionCount = 11;
    /// base, rescale, p, divisor and lse.
    ::std::array<::mlir::Region *, 5> normaliserRegions();
    /// score_grad, p_grad, divisor_grad and lse_grad, each behind the region that it is of.
    ::std::array<::std::pair<::mlir::Region *, ::mlir::Region *>, 4> gradientRegions();
    /// Whether the forward pass leaves "dropout" or "score" for the backward pass.
    bool saves(::llvm::StringRef what);
    /// The value of the score region that is left for it: of the op that is marked, or what the region yields; null where
    /// it is empty, or none is left.
    ::mlir::Value getSavedScore();
    /// What argument `i` of one of them is called.
    ::std::string normaliserArgument(::mlir::Region &region, size_t i);
  }];
}

def LoadOp : AttnOp<"load", [Pure]> {
  let summary = "element of a captured tensor";
  let description = [{
    `name[indices]`, one i32 or i64 index a dimension; f16 and bf16 elements are widened to f32, bool gives i1. An
    index out of range is clamped to the nearest valid one.

    ```mlir
    %0 = attn.load "slopes"[%h] : (i32) -> f32
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<AnyTypeOf<[I32, I64]>>:$indices);
  let results = (outs AnyTypeOf<[F32, I32, I64, I1]>:$result);
  let assemblyFormat = "$name `[` $indices `]` attr-dict `:` functional-type($indices, $result)";
  let hasVerifier = 1;
}

def AddGradientOp : AttnOp<"add_gradient", [MemoryEffects<[MemWrite]>]> {
  let summary = "add to the gradient of a captured tensor's element";
  let description = [{
    The gradient of `name[indices]`, an index out of range clamped as `attn.load` has it, grows by `value`: for every (b, h, q, k) that the mask shows in
    `score_grad` and `p_grad`, for every (b, h, q) in the others.

    ```mlir
    attn.add_gradient %0, "slopes"[%h] : (i32)
    ```
  }];
  let arguments = (ins F32:$value, StrAttr:$name, Variadic<AnyTypeOf<[I32, I64]>>:$indices);
  let assemblyFormat = "$value `,` $name `[` $indices `]` attr-dict `:` `(` type($indices) `)`";
  let hasVerifier = 1;
}

def ScalarOp : AttnOp<"scalar", [Pure]> {
  let summary = "value of a run-time scalar";
  let description = [{
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
  let summary = "one of the run-time extents B, H, Sq, Sk";
  let description = [{
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
  let summary = "value of a region";
  let description = [{
    ```mlir
    attn.yield %0 : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I1]>:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

#endif
