//===- SchedProducts.td - Fragments, matrix instructions, dropout ---*- tablegen -*-===//
#ifndef ATTUNE_SCHED_PRODUCTS
#define ATTUNE_SCHED_PRODUCTS

//===----------------------------------------------------------------------===//
// Fragments and matrix instructions
//===----------------------------------------------------------------------===//

def LoadMatrixOp : SchedOp<"load_matrix", [Effects, AttrSizedOperandSegments]> {
  let summary = "four 8 x 8 matrices from shared memory into four registers";
  let description = [{
    Each lane gives the address of one row: `shared[stage, row + row_step, column step column_step]`, a step being an exclusive or within a panel and whole panels further; registers `fragment[i, j, ...]`
    onward receive the matrices. Steps are the same in all lanes, and let the address be the lane's own
    and a constant: `row` and `column` then hold what differs from lane to lane (row below 16 but for multiples of 16, column
    none of the bits of a step within a panel), so that a step of rows, a multiple of 8, leaves the swizzled chunk as it is, and one of columns, a multiple of 8, moves it by an exclusive or. PTX ISA 9.7.14.5.15,
    ldmatrix.sync.aligned.m8n8.x4.b16, with `transpose` .trans.

    ```mlir
    sched.load_matrix %ring[%s, %row, %col] step [%n16, %k16] to %kf[%i, %j] transpose : ...
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage, I32:$row, I32:$column, Optional<I32>:$row_step,
                       Optional<I32>:$column_step, TileType:$fragment, I32:$i, I32:$j, UnitAttr:$transpose);
  let assemblyFormat = [{
    $shared `[` $stage `,` $row `,` $column `]` (`step` `[` $row_step^ `,` $column_step `]`)? `to` $fragment `[` $i `,` $j `]`
    (`transpose` $transpose^)? attr-dict `:` type($shared) `,` type($fragment)
  }];
}

def LoadSharedOp : SchedOp<"load_shared", [MemoryEffects<[MemRead]>, AttrSizedOperandSegments]> {
  let summary = "one element from shared memory";
  let description = [{
    One of 16 bits widens. A tile of one axis has one row. Steps are the same in all lanes, and let the address be the lane's own plus a constant, as in `sched.load_matrix`: that of rows a multiple
    of 8, that of columns of 16 bytes and as many elements as the lane's column is below.

    ```mlir
    %0 = sched.load_shared %q[%s, %row, %col] : !tile.tile<...> -> f32
    %1 = sched.load_shared %b[%s, %row, %col] step [%r8, %k8] : !tile.tile<...> -> f32
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage, I32:$row, I32:$column, Optional<I32>:$row_step, Optional<I32>:$column_step);
  let results = (outs AnyTypeOf<[F32, I32]>:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $shared `[` $stage `,` $row `,` $column `]` (`step` `[` $row_step^ `,` $column_step `]`)? attr-dict `:` type($shared) `->` type($result)
  }];
}

def LoadPairOp : SchedOp<"load_pair", [MemoryEffects<[MemRead]>]> {
  let summary = "two elements of four bytes from shared memory, side by side";
  let description = [{
    Those at an even column and the next, by one access of eight bytes. A tile of one axis has one row.

    ```mlir
    %0, %1 = sched.load_pair %ids[%s, %row, %col] : !tile.tile<...> -> i32, i32
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage, I32:$row, I32:$column);
  let results = (outs AnyTypeOf<[F32, I32]>:$first, AnyTypeOf<[F32, I32]>:$second);
  let hasVerifier = 1;
  let assemblyFormat = "$shared `[` $stage `,` $row `,` $column `]` attr-dict `:` type($shared) `->` type($first) `,` type($second)";
}

def StoreSharedOp : SchedOp<"store_shared", [MemoryEffects<[MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "four or eight bytes to shared memory";
  let description = [{
    An f32 or i32 element, or a packed pair of 16-bit elements (i32) at an even column; or two f32 elements, at an even column and the next. A tile of one axis has one
    row. With a `step` the place is that many rows and columns further on, as for `sched.load_matrix`.

    ```mlir
    sched.store_shared %pair, %o[%s, %row, %col] : i32, !tile.tile<...>
    sched.store_shared %x and %y, %o[%s, %row, %col] : f32, !tile.tile<...>
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32]>:$value, Optional<F32>:$second, TileType:$shared, I32:$stage, I32:$row, I32:$column, Optional<I32>:$row_step,
                       Optional<I32>:$column_step);
  let assemblyFormat = [{
    $value (`and` $second^)? `,` $shared `[` $stage `,` $row `,` $column `]` (`step` `[` $row_step^ `,` $column_step `]`)? attr-dict
    `:` type($value) `,` type($shared)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$shared, "::mlir::Value":$stage, "::mlir::Value":$row, "::mlir::Value":$column),
      [{ build($_builder, $_state, value, {}, shared, stage, row, column, {}, {}); }]>];
  let hasVerifier = 1;
}

def StoreMatrixOp : SchedOp<"store_matrix", [MemoryEffects<[MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "four 8 x 8 matrices of 16-bit elements from registers to shared memory";
  let description = [{
    Lane l gives the place of row l % 8 of matrix l / 8, and holds of each matrix the pair at row l / 4, columns 2 (l % 4) and + 1. With a `step` the places are that many rows
    and columns further on, as for `sched.load_matrix`. With `transpose` each matrix is stored transposed. PTX ISA 9.7.14.5.16, stmatrix, .trans.

    ```mlir
    sched.store_matrix %a, %b, %c, %d to %o[%s, %row, %col] : !tile.tile<...>
    sched.store_matrix %a, %b, %c, %d to %o[%s, %row, %col] step [%r16, %c0] transpose : !tile.tile<...>
    ```
  }];
  let arguments = (ins I32:$first, I32:$second, I32:$third, I32:$fourth, TileType:$shared, I32:$stage, I32:$row, I32:$column, Optional<I32>:$row_step,
                       Optional<I32>:$column_step, UnitAttr:$transpose);
  let assemblyFormat = [{
    $first `,` $second `,` $third `,` $fourth `to` $shared `[` $stage `,` $row `,` $column `]` (`step` `[` $row_step^ `,` $column_step `]`)?
    (`transpose` $transpose^)? attr-dict
    `:` type($shared)
  }];
}

def ScaleSharedOp : SchedOp<"scale_shared", [Effects]> {
  let summary = "16 bytes of shared memory times a power of two";
  let description = [{
    In place: the eight bf16 elements from a column that is a multiple of eight on. PTX ISA 9.7.9.8, ld.shared.v4; 9.7.4.4, mul.bf16x2; 9.7.9.11,
    st.shared.v4.

    ```mlir
    sched.scale_shared %q[%s, %row, %col] exponent -3 : !tile.tile<...>
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage, I32:$row, I32:$column, ConfinedAttr<I64Attr, [IntMinValue<-126>, IntMaxValue<126>]>:$exponent);
  let assemblyFormat = "$shared `[` $stage `,` $row `,` $column `]` `exponent` $exponent attr-dict `:` type($shared)";
  let hasVerifier = 1;
}

def PackOp : SchedOp<"pack", [Pure]> {
  let summary = "two floats rounded to 16 bits and packed";
  let description = [{
    `low` in bits 0 to 15. With `relu`, what is negative becomes 0, and NaN stays. PTX ISA 9.7.9.21, cvt.rn{.relu}.bf16x2.f32 or
    cvt.rn{.relu}.f16x2.f32.

    ```mlir
    %0 = sched.pack %a, %b : bf16
    %1 = sched.pack %a, %b relu : bf16
    ```
  }];
  let arguments = (ins F32:$low, F32:$high, TypeAttr:$type, UnitAttr:$relu);
  let results = (outs I32:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$low, "::mlir::Value":$high, "::mlir::Type":$type),
                            [{ build($_builder, $_state, result, low, high, type, false); }]>];
  let assemblyFormat = "$low `,` $high (`relu` $relu^)? `:` $type attr-dict";
}

def UnpackOp : SchedOp<"unpack", [Pure]> {
  let summary = "one of two packed 16-bit floats, widened";
  let description = [{
    That in bits 0 to 15 where `index` is 0, in bits 16 to 31 where it is 1.

    ```mlir
    %0 = sched.unpack %pair[%e] : bf16
    ```
  }];
  let arguments = (ins I32:$pair, I32:$index, TypeAttr:$type);
  let results = (outs F32:$result);
  let assemblyFormat = "$pair `[` $index `]` `:` $type attr-dict";
}

def ColumnsBelowOp : SchedOp<"columns_below", [Pure]> {
  let summary = "which of a lane's columns of a `c` fragment are below a bound, as the bits of a word";
  let description = [{
    Bit 2 j + e, for 16 fragments of 8 columns, is whether 8 j + e is below `bound`, from which the lane's own first column has been taken. Of a mask with a
    bound for each row this leaves one word a row, whose bits become predicates without a comparison each.

    ```mlir
    %columns = sched.columns_below %bound
    ```
  }];
  let arguments = (ins I32:$bound);
  let results = (outs I32:$columns);
  let assemblyFormat = "$bound attr-dict";
}

def AfterOp : SchedOp<"after", [Pure]> {
  let summary = "a value that the device compiler takes to follow from another one too";
  let description = [{
    The value is `value`. What is computed from it is not issued before `first` is there: a device compiler otherwise orders what does not depend on each other as it
    likes, by its own idea of what each instruction costs.

    ```mlir
    %0 = sched.after %value, %first
    ```
  }];
  let arguments = (ins F32:$value, F32:$first);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `,` $first attr-dict";
}

def TestBitOp : SchedOp<"test_bit", [Pure]> {
  let summary = "a bit of a word";
  let description = [{
    Bit 0 is the least.

    ```mlir
    %0 = sched.test_bit %word[%index]
    ```
  }];
  let arguments = (ins I32:$word, I32:$index);
  let results = (outs I1:$bit);
  let assemblyFormat = "$word `[` $index `]` attr-dict";
}

def SplitTf32Op : SchedOp<"split_tf32", [Pure]> {
  let summary = "a float as the sum of two tf32 numbers";
  let description = [{
    `big` is the float rounded to tf32, `small` the rounded remainder: big * b + small * b + big * b' of two such splits has
    float32-class error. PTX ISA 9.7.9.21, cvt.rna.tf32.f32.

    ```mlir
    %big, %small = sched.split_tf32 %x
    ```
  }];
  let arguments = (ins F32:$value);
  let results = (outs I32:$big, I32:$small);
  let assemblyFormat = "$value attr-dict";
}

def MmaOp : SchedOp<"mma", [Effects]> {
  let summary = "one warp-level matrix instruction";
  let description = [{
    `acc[i, j] += a[ai, aj] * b[bi, bj]` on the fragments of one lane. m16n8k16 for f16 and bf16, m16n8k8 for tf32
    (fragments of i32 that hold tf32 bits). PTX ISA 9.7.14.5.14, mma.sync.aligned.

    ```mlir
    sched.mma %s[%i, %j], %qf[%i, %kk], %kf[%n, %zero] : ...
    ```
  }];
  let arguments = (ins TileType:$acc, I32:$i, I32:$j, TileType:$a, I32:$ai, I32:$aj, TileType:$b, I32:$bi, I32:$bj);
  let assemblyFormat = [{
    $acc `[` $i `,` $j `]` `,` $a `[` $ai `,` $aj `]` `,` $b `[` $bi `,` $bj `]` attr-dict `:` type($acc) `,` type($a) `,` type($b)
  }];
  let hasVerifier = 1;
}

def MmaAsyncOp : SchedOp<"mma_async", [Effects]> {
  let summary = "start one warpgroup-level matrix instruction";
  let description = [{
    For the warpgroup's 64 rows and its columns of `acc`, 16 of the contracted axis:
    `acc = a * b`, plus `acc` where `accumulate` holds. `acc` is a `c` fragment of 16 rows a warp. `a` is an `a` fragment, `a[i, kk]`, or a
    shared tile, `a[stage, row, column]`, stored as [rows of acc][contracted], or with `transpose_left` as [contracted][rows of acc]. `b` is a shared tile, `b[stage, row, column]`, stored as [columns of acc][contracted], or with
    `transpose` as [contracted][columns of acc]. Between `sched.mma_fence` and the `sched.mma_wait` that completes it, `acc` and a
    fragment `a` must not be touched. PTX ISA 9.7.15.5.2, wgmma.mma_async.

    ```mlir
    sched.mma_async %s, %q[%zero, %row, %d], %k[%stage, %zero, %d] accumulate %more : ...
    sched.mma_async %o, %p[%zero, %kk], %v[%stage, %k16, %zero] accumulate %true transpose : ...
    ```
  }];
  let arguments = (ins TileType:$acc, TileType:$a, Variadic<I32>:$a_indices, TileType:$b, I32:$stage, I32:$row, I32:$column,
                       I1:$accumulate, UnitAttr:$transpose, UnitAttr:$transpose_left);
  let assemblyFormat = [{
    $acc `,` $a `[` $a_indices `]` `,` $b `[` $stage `,` $row `,` $column `]` `accumulate` $accumulate (`transpose` $transpose^)?
    (`transpose_left` $transpose_left^)?
    attr-dict `:` type($acc) `,` type($a) `,` type($b)
  }];
  let hasVerifier = 1;
}

def MmaFenceOp : SchedOp<"mma_fence", [Effects]> {
  let summary = "order the warpgroup's register accesses before the asynchronous MMAs that follow";
  let description = [{
    PTX ISA 9.7.15.7.1, wgmma.fence.

    ```mlir
    sched.mma_fence
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def MmaCommitOp : SchedOp<"mma_commit", [Effects]> {
  let summary = "close the group of the warpgroup's MMAs started so far";
  let description = [{
    PTX ISA 9.7.15.7.2, wgmma.commit_group.

    ```mlir
    sched.mma_commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def MmaWaitOp : SchedOp<"mma_wait", [Effects]> {
  let summary = "wait until at most `pending` groups of the warpgroup's MMAs are under way";
  let description = [{
    `completes` names the accumulators and `a` fragments that may be touched from here on. All warps of the warpgroup wait together: it stands in no branch that
    they may take apart. PTX ISA 9.7.15.7.3, wgmma.wait_group.

    ```mlir
    sched.mma_wait pending 1 completes(%s) : !tile.tile<...>
    ```
  }];
  let arguments = (ins I64Attr:$pending, Variadic<TileType>:$completes);
  let assemblyFormat = "`pending` $pending (`completes` `(` $completes^ `)` `:` type($completes))? attr-dict";
  let hasVerifier = 1;
}

def ShuffleXorOp : SchedOp<"shuffle_xor", [Pure, TypesMatchWith<"value and result have one type", "value", "result", "$_self">]> {
  let summary = "the value that the lane at `lane xor mask` holds";
  let description = [{
    ```mlir
    %1 = sched.shuffle_xor %0, 1 : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32, I64]>:$value, I64Attr:$mask);
  let results = (outs AnyTypeOf<[F32, I32, I64]>:$result);
  let assemblyFormat = "$value `,` $mask attr-dict `:` type($value)";
}

def ShuffleOp : SchedOp<"shuffle", [Pure, TypesMatchWith<"value and result have one type", "value", "result", "$_self">]> {
  let summary = "the value that another lane holds";
  let description = [{
    Lane `lane` of the warp, 0 to 31, which may differ from lane to lane. All lanes take part. PTX ISA 9.7.9.6, shfl.sync.idx.

    ```mlir
    %1 = sched.shuffle %0, %lane : i32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32, I64, I1]>:$value, I32:$lane);
  let results = (outs AnyTypeOf<[F32, I32, I64, I1]>:$result);
  let assemblyFormat = "$value `,` $lane attr-dict `:` type($value)";
}

def UniformOp : SchedOp<"uniform", [Pure]> {
  let summary = "a value that all lanes of the warp hold, known to be the same";
  let description = [{
    The value itself. A device compiler that cannot prove as much, after loops that lanes may leave one by one, keeps what follows from it in
    each lane; from here on it may use the warp's own registers and ALU. All lanes take part.

    ```mlir
    %1 = sched.uniform %0 : i32
    ```
  }];
  let arguments = (ins I32:$value);
  let results = (outs I32:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def BallotOp : SchedOp<"ballot", [Pure]> {
  let summary = "in which lanes of the warp the condition holds, as the bits of a word";
  let description = [{
    Bit i for lane i. All lanes take part, and get the same word. PTX ISA 9.7.13.8, vote.sync.ballot.

    ```mlir
    %1 = sched.ballot %0 : i32
    ```
  }];
  let arguments = (ins I1:$condition);
  let results = (outs I32:$result);
  let assemblyFormat = "$condition attr-dict `:` type($result)";
}

def AnyLaneOp : SchedOp<"any_lane", [Pure]> {
  let summary = "whether the condition holds in a lane of the warp";
  let description = [{
    PTX ISA 9.7.13.8, vote.sync.any.

    ```mlir
    %1 = sched.any_lane %0
    ```
  }];
  let arguments = (ins I1:$condition);
  let results = (outs I1:$result);
  let assemblyFormat = "$condition attr-dict";
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

def PhiloxOp : SchedOp<"philox", [Pure]> {
  let summary = "Philox 4x32 with 7 rounds";
  let description = [{
    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).

    ```mlir
    %r:4 = sched.philox counter %a, %b, %c, %d key %k0, %k1
    ```
  }];
  let arguments = (ins I32:$c0, I32:$c1, I32:$c2, I32:$c3, I32:$k0, I32:$k1);
  let results = (outs I32:$r0, I32:$r1, I32:$r2, I32:$r3);
  let assemblyFormat = "`counter` $c0 `,` $c1 `,` $c2 `,` $c3 `key` $k0 `,` $k1 attr-dict";
}

#endif
