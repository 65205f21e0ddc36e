//===- SchedMemory.td - Buffers, global memory, asynchronous copies by threads ---*- tablegen -*-===//
#ifndef ATTUNE_SCHED_MEMORY
#define ATTUNE_SCHED_MEMORY

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def SharedOp : SchedOp<"shared", [Effects]> {
  let summary = "a buffer in shared memory";
  let description = [{
    At `offset` bytes from the start of the block's dynamic shared memory. Buffers whose lifetimes do not overlap may have
    overlapping ranges; so may a buffer `over` another one, whose rows each warpgroup has read before it writes its own.

    ```mlir
    %k = sched.shared "k_ring" at 16384 : !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
    %o = sched.shared "o_tile" at 0 over %q : <stage 1 x q 128 x d 64, ...> , ...
    ```
  }];
  let arguments = (ins StrAttr:$name, ConfinedAttr<I64Attr, [IntNonNegative]>:$offset, Optional<TileType>:$over);
  let results = (outs TileType:$result);
  let assemblyFormat = "$name `at` $offset (`over` $over^ `:` type($over) `,`):(`:`)? type($result) attr-dict";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::attune::tile::TileType":$type, "::llvm::StringRef":$name,
                                 CArg<"::mlir::Value", "{}">:$over)>];
  let hasVerifier = 1;
}

def RegistersOp : SchedOp<"registers", [Effects]> {
  let summary = "a buffer in registers";
  let description = [{
    Each lane holds the array that the type's `#sched.fragment` layout gives; not initialised.

    ```mlir
    %s = sched.registers "s" : !tile.tile<q 128 x k 64, f32, register, #sched.fragment<c, warps 4>>
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs TileType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def GetOp : SchedOp<"get", [MemoryEffects<[MemRead]>]> {
  let summary = "one element of a lane's register array";
  let description = [{
    ```mlir
    %0 = sched.get %s[%i, %j, %e] : !tile.tile<...> -> f32
    ```
  }];
  let arguments = (ins TileType:$buffer, Variadic<I32>:$indices);
  let results = (outs AnyTypeOf<[F32, I32, I64, I1]>:$result);
  let assemblyFormat = "$buffer `[` $indices `]` attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def SetOp : SchedOp<"set", [MemoryEffects<[MemWrite]>]> {
  let summary = "write one element of a lane's register array";
  let description = [{
    ```mlir
    sched.set %0, %s[%i, %j, %e] : f32, !tile.tile<...>
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32, I64, I1]>:$value, TileType:$buffer, Variadic<I32>:$indices);
  let assemblyFormat = "$value `,` $buffer `[` $indices `]` attr-dict `:` type($value) `,` type($buffer)";
  let hasVerifier = 1;
}

def SlotOp : SchedOp<"slot", [Pure]> {
  let summary = "one stage of a ring as a tile (before expansion)";
  let description = [{
    ```mlir
    %k = sched.slot %ring[%s] : !tile.tile<stage 2 x k 64 x d 64, bf16, shared> -> !tile.tile<k 64 x d 64, bf16, shared>
    ```
  }];
  let arguments = (ins TileType:$ring, I32:$stage);
  let results = (outs TileType:$result);
  let assemblyFormat = "$ring `[` $stage `]` attr-dict `:` type($ring) `->` type($result)";
  let hasVerifier = 1;
}

def ExchangeOp : SchedOp<"exchange", [Effects]> {
  let summary = "a register tile in one stage of shared memory, for all warps of the role (before expansion)";
  let description = [{
    All write it, with its axes in the ring's order; a `sched.sync_warps` stands in front of what reads it (`tile-pipeline-stages`). Nothing waits for readers of what lay there before: they are done with it when
    all have met for the stage after.

    ```mlir
    %s = sched.exchange %ds into %ring[%stage] : <k 128 x q 128, f32, register, ...>, <stage 2 x k 128 x q 128, bf16, shared, ...> -> <k 128 x q 128, bf16, shared, ...>
    ```
  }];
  let arguments = (ins TileType:$tile, TileType:$ring, I32:$stage);
  let results = (outs TileType:$result);
  let assemblyFormat = "$tile `into` $ring `[` $stage `]` attr-dict `:` type($tile) `,` type($ring) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

def SliceOp : SchedOp<"slice", [Pure]> {
  let summary = "view without its leading dimensions, at the given indices";
  let description = [{
    The 64-bit offset is computed once. Indices of dimensions that it keeps are where these begin: an index of 0 of the result is that one. What
    accesses such a view are several elements (`sched.load_elements`, `sched.store_elements`); the addresses of a lane's are one and a multiple of a stride.

    ```mlir
    %kh = sched.slice %K[%b, %hk] : !tile.view<4, bf16> -> !tile.view<2, bf16>
    %own = sched.slice %bias[%h, %q, %k] : !tile.view<3, bf16> -> !tile.view<2, bf16>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices);
  let results = (outs ViewType:$result);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view) `->` type($result)";
  let extraClassDeclaration = [{
    /// How many dimensions the result has not.
    int64_t getDropped() { return getView().getType().getRank() - getResult().getType().getRank(); }
    /// Where dimensions of the result begin.
    ::mlir::OperandRange getBegins() { return getIndices().drop_front(getDropped()); }
  }];
  let hasVerifier = 1;
}

def ExtentOp : SchedOp<"extent", [Pure]> {
  let summary = "how many indices a dimension of a view has";
  let description = [{
    At most 2^31 - 1.

    ```mlir
    %0 = sched.extent %bias, 1 : !tile.view<3, bf16>
    ```
  }];
  let arguments = (ins ViewType:$view, I64Attr:$dim);
  let results = (outs I32:$result);
  let assemblyFormat = "$view `,` $dim attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def IsNullOp : SchedOp<"is_null", [Pure]> {
  let summary = "whether a view's address is null";
  let description = [{
    ```mlir
    %0 = sched.is_null %lse : !tile.view<3, f32>
    ```
  }];
  let arguments = (ins ViewType:$view);
  let results = (outs I1:$result);
  let assemblyFormat = "$view attr-dict `:` type($view)";
}

def InPairsOp : SchedOp<"in_pairs", [Pure]> {
  let summary = "whether elements at an even index of a view's last dimension and the next lie side by side, each pair at a multiple of its size";
  let description = [{
    The last stride is 1, the other strides and the last extent are even, and so is the address, counted in elements: an even index in range then has a next
    one, and one access serves both. With `eights` the same of eight elements in the place of two. The same for all threads.

    ```mlir
    %0 = sched.in_pairs %bias : !tile.view<3, bf16>
    %1 = sched.in_pairs eights %bias : !tile.view<3, bf16>
    ```
  }];
  let arguments = (ins ViewType:$view, UnitAttr:$eights);
  let results = (outs I1:$result);
  let assemblyFormat = "(`eights` $eights^)? $view attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def LoadElementsOp : SchedOp<"load_elements", [MemoryEffects<[MemRead]>]> {
  let summary = "two elements of a view of floats, side by side";
  let description = [{
    Those at an even column and the next, widened to float32, by one access; all indices are in range. The view is `sched.in_pairs`, as operands of float32 with
    a fixed last axis always are. PTX ISA 9.7.9.8, ld.global.v2.f32 or ld.global.b32.

    ```mlir
    %0, %1 = sched.load_elements %part_o[%row, %column] : !tile.view<2, f32>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices);
  let results = (outs F32:$first, F32:$second);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def LoadByteOp : SchedOp<"load_byte", [MemoryEffects<[MemRead]>]> {
  let summary = "eight bits of a view of bytes, or sixteen";
  let description = [{
    All indices are in range. With `pair` the byte at an even index and, as the higher eight bits, the next one, by one access; the view's rows begin at
    even addresses.

    ```mlir
    %0 = sched.load_byte %bits[%block, %lane] : !tile.view<2, i8>
    %1 = sched.load_byte pair %bits[%block, %even] : !tile.view<2, i8>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices, UnitAttr:$pair);
  let results = (outs I32:$result);
  let assemblyFormat = "(`pair` $pair^)? $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def StoreByteOp : SchedOp<"store_byte", [MemoryEffects<[MemWrite]>]> {
  let summary = "write the low eight bits of a number to a view of bytes";
  let description = [{
    ```mlir
    sched.store_byte %word, %bits[%block, %lane] : !tile.view<2, i8>
    ```
  }];
  let arguments = (ins I32:$value, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$value `,` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def StoreElementOp : SchedOp<"store_element", [MemoryEffects<[MemWrite]>]> {
  let summary = "write one element of a view";
  let description = [{
    Floats are rounded to nearest even; integers and bools are of the view's type.

    ```mlir
    sched.store_element %x, %lse[%row] : f32, !tile.view<1, f32>
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32, I64, I1]>:$value, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$value `,` $view `[` $indices `]` attr-dict `:` type($value) `,` type($view)";
  let hasVerifier = 1;
}

def StoreElementsOp : SchedOp<"store_elements", [MemoryEffects<[MemWrite]>]> {
  let summary = "write two elements of a view of floats, side by side";
  let description = [{
    At an even column and the next, rounded to nearest even, by one access; all indices are in range, and the view is `sched.in_pairs`. PTX ISA 9.7.9.11,
    st.global.v2.f32 or st.global.b32.

    ```mlir
    sched.store_elements %x, %y, %dbias[%row, %column] : !tile.view<2, bf16>
    ```
  }];
  let arguments = (ins F32:$first, F32:$second, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$first `,` $second `,` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def StoreEightsOp : SchedOp<"store_eights", [MemoryEffects<[MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "write what the lanes of a quad hold of four blocks of 8 columns to a view's row: 16 bytes a lane";
  let description = [{
    Lanes 4 g to 4 g + 3 each give the two elements that they hold of each block, and exchange them: lane 4 g + c, whose `quad` is c, writes block c of them, rounded
    to nearest even, from `view[indices...]` on. All indices are in range, and the view is `sched.in_pairs eights`. For the whole warp. PTX ISA 9.7.9.11,
    st.global.v4.b32.

    ```mlir
    sched.store_eights [%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7] quad %c to %dbias[%row, %column] : !tile.view<2, bf16>
    ```
  }];
  let arguments = (ins Variadic<F32>:$values, I32:$quad, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "`[` $values `]` `quad` $quad `to` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def AddElementsOp : SchedOp<"add_elements", [Effects, AttrSizedOperandSegments]> {
  let summary = "add one float, or several side by side, to a float32 view";
  let description = [{
    `view[indices..., column + n] += values[n]`, each atomically: one value, or, from sm_90 on, two at an even column. The order of additions to one
    element is not defined. PTX ISA 9.7.13.6, red.

    ```mlir
    sched.add_elements %x to %dq[%row, %column] : !tile.view<2, f32>
    sched.add_elements %x, %y to %dq[%row, %column] : !tile.view<2, f32>
    ```
  }];
  let arguments = (ins Variadic<F32>:$values, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$values `to` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def AddIntegerOp : SchedOp<"add_integer", [Effects]> {
  let summary = "add one 32-bit integer to an int64 view";
  let description = [{
    `view[indices...] += value`, atomically, with the sign of `value`. The sum wraps around; no order of the additions changes it. PTX ISA 9.7.13.6, red.

    ```mlir
    sched.add_integer %n to %words[%word, %column] : !tile.view<2, i64>
    ```
  }];
  let arguments = (ins I32:$value, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$value `to` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def CopyToGlobalOp : SchedOp<"copy_to_global", [Effects]> {
  let summary = "16 bytes from shared to global memory";
  let description = [{
    The elements of `shared[row, column]` and on go to `view[view_row, column]` and on.

    ```mlir
    sched.copy_to_global %os[%r, %c] to %O[%row, %c] : ...
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$row, I32:$column, ViewType:$view, I32:$view_row);
  let assemblyFormat = "$shared `[` $row `,` $column `]` `to` $view `[` $view_row `]` attr-dict `:` type($shared) `,` type($view)";
}

//===----------------------------------------------------------------------===//
// Asynchronous copies (cp.async)
//===----------------------------------------------------------------------===//

def CopyTileOp : SchedOp<"copy_tile", [Effects, AttrSizedOperandSegments]> {
  let summary = "start the asynchronous copy of a tile (before expansion)";
  let description = [{
    Rows at or beyond `limit` and columns beyond the view's last extent become zero. By the threads of the block (cp.async), or with
    `signal` by one thread and TMA, for which `limit` is the view's extent.

    ```mlir
    sched.copy_tile %K[%b, %hk, %k0] limit %Sk to %ks[%slot] : ...
    sched.copy_tile %K[%b, %hk, %k0] limit %Sk to %ks[%slot] signal %kr : ...
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices, I32:$limit, TileType:$shared, I32:$stage, Optional<RingType>:$ring);
  let assemblyFormat = [{
    $view `[` $indices `]` `limit` $limit `to` $shared `[` $stage `]` (`signal` $ring^ `:` type($ring) `,`):(`:`)? type($view) `,`
    type($shared) attr-dict
  }];
}

def CopyWindowOp : SchedOp<"copy_window", [Effects]> {
  let summary = "copy a rectangle of a captured tensor to a stage (before expansion)";
  let description = [{
    That of `tile.window`. One thread executes it; TMA copies, by the map of the view.

    ```mlir
    sched.copy_window %bias[%h, %q0, %k0] to %bs[%slot] signal %br by %bm : ...
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices, TileType:$shared, I32:$stage, RingType:$ring, TensorMapType:$map);
  let assemblyFormat = [{
    $view `[` $indices `]` `to` $shared `[` $stage `]` `signal` $ring `by` $map `:` type($map) `,` type($view) `,` type($shared) `,` type($ring) attr-dict
  }];
}

def StoreTileOp : SchedOp<"store_tile", [Effects]> {
  let summary = "store a tile that the threads of warps hold to a stage (before expansion)";
  let description = [{
    Of one axis, in layout `threads`: the warps follow their role's first. Or a `c` fragment of all warpgroups, for TMA (`sched.write_tile`): the
    stage has the rows of one warpgroup behind those of another, also where these share the columns.

    ```mlir
    sched.store_tile %t to %ts[%slot] : !tile.tile<distance 191, f32, register, #sched.fragment<threads, warps 3>>, ...
    sched.store_tile %dq to %dqs[%slot] : !tile.tile<q 64 x d 128, f32, register, #sched.fragment<c, warps 4 x 2>>, ... // stage 1 x q 128 x d 64
    ```
  }];
  let arguments = (ins TileType:$tile, TileType:$shared, I32:$stage);
  let assemblyFormat = "$tile `to` $shared `[` $stage `]` attr-dict `:` type($tile) `,` type($shared)";
  let hasVerifier = 1;
}

def WriteTileOp : SchedOp<"write_tile", [Effects]> {
  let summary = "one thread has TMA write a stage to global memory, and waits until it has read it (before expansion)";
  let description = [{
    With `adds` it adds to what is there. The stage is what `sched.store_tile` makes of a fragment whose columns `column_splits` warpgroups split. Rows at or beyond `limit`,
    the end of the view's axis, are left out.

    ```mlir
    sched.write_tile %dqs[%slot] to %DQ[%b, %h, %q0] limit %Sq column_splits 2 adds : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<4, f32>
    ```
  }];
  let hasVerifier = 1;
  let arguments = (ins TileType:$shared, I32:$stage, ViewType:$view, Variadic<I32>:$indices, I32:$limit, I64Attr:$column_splits, UnitAttr:$adds);
  let assemblyFormat = [{
    $shared `[` $stage `]` `to` $view `[` $indices `]` `limit` $limit `column_splits` $column_splits (`adds` $adds^)? attr-dict `:` type($shared) `,` type($view)
  }];
}

def CopyAsyncOp : SchedOp<"copy_async", [Effects]> {
  let summary = "start the asynchronous copy of 16 bytes, or of an element of a vector, from global to shared memory";
  let description = [{
    `view[view_row, column]` and on to `shared[stage, row, column]` and on, 16 bytes; of a view of one dimension the 4 bytes at `view[view_row]`, the stage
    being a vector and `row` 0. Zeros where `valid` is false, and then nothing is read. PTX ISA 9.7.9.25.3, cp.async.cg with src-size, and .ca for 4 bytes.

    ```mlir
    sched.copy_async %kh[%r, %c] to %ring[%s, %row] if %valid : ...
    ```
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{ int64_t getBytes() { return getView().getType().getRank() == 1 ? 4 : 16; } }];
  let arguments = (ins ViewType:$view, I32:$view_row, I32:$column, TileType:$shared, I32:$stage, I32:$row, I1:$valid);
  let assemblyFormat = [{
    $view `[` $view_row `,` $column `]` `to` $shared `[` $stage `,` $row `]` `if` $valid attr-dict
    `:` type($view) `,` type($shared)
  }];
}

def CommitCopiesOp : SchedOp<"commit_copies", [Effects]> {
  let summary = "close the group of the thread's copies started so far";
  let description = [{
    PTX ISA 9.7.9.25.3.2, cp.async.commit_group.

    ```mlir
    sched.commit_copies
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def WaitCopiesOp : SchedOp<"wait_copies", [Effects]> {
  let summary = "wait until at most `pending` groups of the thread's copies are under way";
  let description = [{
    PTX ISA 9.7.9.25.3.3, cp.async.wait_group. Other threads' copies are visible only after a barrier that follows.

    ```mlir
    sched.wait_copies pending 1
    ```
  }];
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "`pending` $pending attr-dict";
  let hasVerifier = 1;
}

def BarrierOp : SchedOp<"barrier", [Effects]> {
  let summary = "barrier of all threads of the block";
  let description = [{
    ```mlir
    sched.barrier
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif
