//===- SchedProducts.td - Fragments, matrix instructions, warp-level functions ---*- tablegen -*-===//
#ifndef ATTUNE_SCHED_PRODUCTS
#define ATTUNE_SCHED_PRODUCTS

//===----------------------------------------------------------------------===//
// Fragments and matrix instructions
//===----------------------------------------------------------------------===//

def LoadMatrixOp : SchedOp<"load_matrix", [Effects, AttrSizedOperandSegments]> {
  let summary = "load four 8 x 8 matrices from shared memory into four registers (ldmatrix)";
  let description = [{
    Each lane passes the address of one matrix row, `shared[stage, row + row_step, column xor column_step]`; the part of
    `column_step` that exceeds a panel advances by whole panels. The registers from `fragment[i, j, ...]` on receive the
    matrices.

    The steps are the same in all lanes, while `row` and `column` differ from lane to lane. The address of a lane is
    then computed once, and each step changes the address by a constant: `row_step` is a multiple of 8 and does not
    change the swizzled chunk, and `column_step` is a multiple of 8 and changes the chunk by an exclusive or. This
    requires that `column` has no bit in common with the part of `column_step` within a panel.

    PTX ISA 9.7.14.5.15, ldmatrix.sync.aligned.m8n8.x4.b16, with `transpose` .trans.

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
  let summary = "load one element from shared memory";
  let description = [{
    A 16-bit element is widened to f32. A tile of one axis counts as one row. Steps are the same in all lanes and change
    the lane's address by a constant, as in `sched.load_matrix`: a step of rows is a multiple of 8; a step of columns is
    a multiple of 16 bytes and has no bit in common with the lane's column.

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
  let summary = "load two adjacent four-byte elements from shared memory by one access";
  let description = [{
    The results are the elements at an even column and at the next column, read by one access of eight bytes. A tile of
    one axis counts as one row.

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
  let summary = "store four or eight bytes to shared memory";
  let description = [{
    The op stores one f32 or i32 element, or a packed pair of 16-bit elements (i32) at an even column, or two f32
    elements at an even column and the next column. A tile of one axis counts as one row. A `step` is added to row and
    column as in `sched.load_matrix`.

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
  let summary = "store four 8 x 8 matrices of 16-bit elements from registers to shared memory (stmatrix)";
  let description = [{
    Lane l passes the address of row l % 8 of matrix l / 8. In each matrix lane l holds the pair of elements at row l /
    4, columns 2 (l % 4) and 2 (l % 4) + 1. A `step` is added to row and column as in `sched.load_matrix`. With
    `transpose` each matrix is stored transposed. PTX ISA 9.7.14.5.16, stmatrix, .trans.

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
  let summary = "multiply 16 bytes of shared memory by a power of two, in place";
  let description = [{
    `shared[stage, row, column + n] *= 2^exponent` for the eight bf16 elements from `column` on, a multiple of eight.
    PTX ISA 9.7.9.8, ld.shared.v4; 9.7.4.4, mul.bf16x2; 9.7.9.11, st.shared.v4.

    ```mlir
    sched.scale_shared %q[%s, %row, %col] exponent -3 : !tile.tile<...>
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage, I32:$row, I32:$column, ConfinedAttr<I64Attr, [IntMinValue<-126>, IntMaxValue<126>]>:$exponent);
  let assemblyFormat = "$shared `[` $stage `,` $row `,` $column `]` `exponent` $exponent attr-dict `:` type($shared)";
  let hasVerifier = 1;
}

def PackOp : SchedOp<"pack", [Pure]> {
  let summary = "round two floats to 16 bits and pack them in one register";
  let description = [{
    `low` is in bits 0 to 15, `high` in bits 16 to 31. With `relu` negative floats become 0, and NaN stays NaN. PTX ISA
    9.7.9.21, cvt.rn{.relu}.bf16x2.f32 or cvt.rn{.relu}.f16x2.f32.

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
  let summary = "extract one of two packed 16-bit floats and widen it to float32";
  let description = [{
    `index` 0 selects bits 0 to 15, `index` 1 selects bits 16 to 31.

    ```mlir
    %0 = sched.unpack %pair[%e] : bf16
    ```
  }];
  let arguments = (ins I32:$pair, I32:$index, TypeAttr:$type);
  let results = (outs F32:$result);
  let assemblyFormat = "$pair `[` $index `]` `:` $type attr-dict";
}

def ColumnsBelowOp : SchedOp<"columns_below", [Pure]> {
  let summary = "bit mask of those columns of a lane's `c` fragment that are below a bound";
  let description = [{
    Bit 2 j + e of the result, for j below 16 and e 0 or 1, is set if 8 j + e is below `bound`; the caller has
    subtracted the lane's first column from `bound`. A mask with one bound for each row thus needs one word for each
    row. The bits of the word become predicates without a comparison for each element.

    ```mlir
    %columns = sched.columns_below %bound
    ```
  }];
  let arguments = (ins I32:$bound);
  let results = (outs I32:$columns);
  let assemblyFormat = "$bound attr-dict";
}

def AfterOp : SchedOp<"after", [Pure]> {
  let summary = "add a dependence on another value, to constrain the device compiler's instruction order";
  let description = [{
    The result equals `value`. Instructions that use the result are issued only after `first` has been computed. Without
    the dependence the device compiler orders independent instructions by its own cost model.

    ```mlir
    %0 = sched.after %value, %first
    ```
  }];
  let arguments = (ins F32:$value, F32:$first);
  let results = (outs F32:$result);
  let assemblyFormat = "$value `,` $first attr-dict";
}

def TestBitOp : SchedOp<"test_bit", [Pure]> {
  let summary = "test one bit of a word";
  let description = [{
    `bit = (word >> index) & 1`; bit 0 is the least significant one.

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
    `big` is `value` rounded to tf32, `small` is the remainder rounded to tf32. The product of two floats, split into
    (big, small) and (b, b'), is big * b + small * b + big * b' with an error of the order of float32's. PTX ISA
    9.7.9.21, cvt.rna.tf32.f32.

    ```mlir
    %big, %small = sched.split_tf32 %x
    ```
  }];
  let arguments = (ins F32:$value);
  let results = (outs I32:$big, I32:$small);
  let assemblyFormat = "$value attr-dict";
}

def MmaOp : SchedOp<"mma", [Effects]> {
  let summary = "multiply and accumulate fragments by one warp-level matrix instruction";
  let description = [{
    `acc[i, j] += a[ai, aj] * b[bi, bj]`, where the indices select fragments in the arrays of a lane. The instruction is
    m16n8k16 for f16 and bf16, and m16n8k8 for tf32 (fragments of i32 that hold tf32 bits). PTX ISA 9.7.14.5.14,
    mma.sync.aligned.

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
  let summary = "start one asynchronous warpgroup-level matrix instruction (wgmma)";
  let description = [{
    `acc = a * b`, or `acc += a * b` if `accumulate` is true, for the warpgroup's 64 rows of `acc`, its columns of
    `acc`, and 16 elements of the contracted axis. `acc` is a `c` fragment with 16 rows for each warp.

    `a` is either an `a` fragment, `a[i, kk]`, or a shared tile, `a[stage, row, column]`, stored as [rows of
    acc][contracted], or with `transpose_left` as [contracted][rows of acc]. `b` is a shared tile, `b[stage, row,
    column]`, stored as [columns of acc][contracted], or with `transpose` as [contracted][columns of acc].

    From the preceding `sched.mma_fence` to the `sched.mma_wait` that completes the instruction, no thread may access
    the registers of `acc` or of a fragment `a`. PTX ISA 9.7.15.5.2, wgmma.mma_async.

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
  let summary = "order the warpgroup's register accesses before the asynchronous matrix instructions that follow";
  let description = [{
    The fence covers the registers of accumulators and of left operands in fragments. PTX ISA 9.7.15.7.1, wgmma.fence.

    ```mlir
    sched.mma_fence
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def MmaCommitOp : SchedOp<"mma_commit", [Effects]> {
  let summary = "end the current group of the warpgroup's asynchronous matrix instructions";
  let description = [{
    The group contains the `sched.mma_async` ops since the previous `sched.mma_commit`. PTX ISA 9.7.15.7.2,
    wgmma.commit_group.

    ```mlir
    sched.mma_commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def MmaWaitOp : SchedOp<"mma_wait", [Effects]> {
  let summary = "wait until at most `pending` groups of the warpgroup's asynchronous matrix instructions are incomplete";
  let description = [{
    `completes` names the accumulators and `a` fragments whose registers may be accessed after the wait. All warps of
    the warpgroup execute the op together, so it must not be in a branch on which the warps can diverge. PTX ISA
    9.7.15.7.3, wgmma.wait_group.

    ```mlir
    sched.mma_wait pending 1 completes(%s) : !tile.tile<...>
    ```
  }];
  let arguments = (ins I64Attr:$pending, Variadic<TileType>:$completes);
  let assemblyFormat = "`pending` $pending (`completes` `(` $completes^ `)` `:` type($completes))? attr-dict";
  let hasVerifier = 1;
}

def ShuffleXorOp : SchedOp<"shuffle_xor", [Pure, TypesMatchWith<"value and result have one type", "value", "result", "$_self">]> {
  let summary = "exchange values between pairs of lanes";
  let description = [{
    Each lane receives the value of the lane with index `lane xor mask`. All lanes of the warp take part. PTX ISA
    9.7.9.6, shfl.sync.bfly.

    ```mlir
    %1 = sched.shuffle_xor %0, 1 : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32, I64]>:$value, I64Attr:$mask);
  let results = (outs AnyTypeOf<[F32, I32, I64]>:$result);
  let assemblyFormat = "$value `,` $mask attr-dict `:` type($value)";
}

def ShuffleOp : SchedOp<"shuffle", [Pure, TypesMatchWith<"value and result have one type", "value", "result", "$_self">]> {
  let summary = "read the value of another lane of the warp";
  let description = [{
    The result is the value of lane `lane`, 0 to 31, which may differ from lane to lane. All lanes of the warp take
    part. PTX ISA 9.7.9.6, shfl.sync.idx.

    ```mlir
    %1 = sched.shuffle %0, %lane : i32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32, I64, I1]>:$value, I32:$lane);
  let results = (outs AnyTypeOf<[F32, I32, I64, I1]>:$result);
  let assemblyFormat = "$value `,` $lane attr-dict `:` type($value)";
}

def UniformOp : SchedOp<"uniform", [Pure]> {
  let summary = "declare a value that is equal in all lanes of the warp to be uniform";
  let description = [{
    The result equals `value`, which must be equal in all lanes. After a loop that lanes may leave one by one the device
    compiler cannot prove a value uniform, and keeps values computed from it in each lane's registers. Values computed
    from the result can use uniform registers and the uniform ALU. All lanes of the warp take part.

    ```mlir
    %1 = sched.uniform %0 : i32
    ```
  }];
  let arguments = (ins I32:$value);
  let results = (outs I32:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def BallotOp : SchedOp<"ballot", [Pure]> {
  let summary = "bit mask of the lanes of the warp in which a condition is true";
  let description = [{
    Bit i of the result belongs to lane i. All lanes of the warp take part, and all get the same word. PTX ISA 9.7.13.8,
    vote.sync.ballot.

    ```mlir
    %1 = sched.ballot %0 : i32
    ```
  }];
  let arguments = (ins I1:$condition);
  let results = (outs I32:$result);
  let assemblyFormat = "$condition attr-dict `:` type($result)";
}

def AnyLaneOp : SchedOp<"any_lane", [Pure]> {
  let summary = "whether a condition is true in at least one lane of the warp";
  let description = [{
    All lanes of the warp take part, and all get the same result. PTX ISA 9.7.13.8, vote.sync.any.

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
  let summary = "four 32-bit random numbers by Philox 4x32 with 7 rounds";
  let description = [{
    The results are a function of the counter and the key alone. Salmon et al., "Parallel random numbers: as easy as 1,
    2, 3" (2011).

    ```mlir
    %r:4 = sched.philox counter %a, %b, %c, %d key %k0, %k1
    ```
  }];
  let arguments = (ins I32:$c0, I32:$c1, I32:$c2, I32:$c3, I32:$k0, I32:$k1);
  let results = (outs I32:$r0, I32:$r1, I32:$r2, I32:$r3);
  let assemblyFormat = "`counter` $c0 `,` $c1 `,` $c2 `,` $c3 `key` $k0 `,` $k1 attr-dict";
}

#endif
