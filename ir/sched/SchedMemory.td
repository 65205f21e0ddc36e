//===- SchedMemory.td - Buffers, global memory, asynchronous copies by cp.async ---*- tablegen -*-===//
#ifndef ATTUNE_SCHED_MEMORY
#define ATTUNE_SCHED_MEMORY

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def SharedOp : SchedOp<"shared", [Effects]> {
  let summary = "allocate a buffer in shared memory";
  let description = [{
    The buffer starts `offset` bytes after the start of the block's dynamic shared memory. Buffers whose lifetimes do
    not overlap may have overlapping ranges. A buffer `over` another one may also overlap it: each warpgroup has read
    its own rows of the other buffer before it writes the same rows of this one.

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
  let summary = "allocate a buffer in registers";
  let description = [{
    Each lane holds an array, whose shape and meaning the `#sched.fragment` of the type defines. The array is
    uninitialised.

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
  let summary = "read one element of a lane's register array";
  let description = [{
    `result = buffer[indices...]`, with one index for each dimension of the lane's array. The op reads the buffer.

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
    `buffer[indices...] = value`, with one index for each dimension of the lane's array. The op writes the buffer.

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
    The result is the ring's tile without the axis `stage`. `tile-to-sched` replaces the op by accesses to the ring.

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
  let summary = "store a register tile to a stage of shared memory, to be read by all warps of the role (before expansion)";
  let description = [{
    Each warp of the role writes its own part of the tile, with the axes in the ring's order. If ops of the same
    iteration read the result, `tile-pipeline-stages` inserts a `sched.sync_warps` between the stores and the first read.
    The ring has at least two stages, so no wait is needed before the stores: before a stage is written again, all warps
    have passed the barrier of the next stage's tile, and thus have read the stage's previous tile. If ops of a later
    pipeline stage read the tile, they read a `sched.slot` of the ring instead of the result, and the ring has mbarriers:
    a `sched.acquire` before the stores and a `sched.commit` after them, a `sched.wait` before the reads and a
    `sched.release` after them.

    ```mlir
    %s = sched.exchange %ds into %ring[%stage]
        : <k 128 x q 128, f32, register, ...>, <stage 2 x k 128 x q 128, bf16, shared, ...> -> <k 128 x q 128, bf16, shared, ...>
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
  let summary = "view of a tensor at fixed leading indices";
  let description = [{
    The result drops leading dimensions of `view`; the 64-bit offset of their indices is computed once. Further indices
    shift the origin of the dimensions that the result keeps: index 0 of such a dimension of the result is the given
    index of `view`. Only ops that access several elements (`sched.load_elements`, `sched.store_elements`,
    `sched.store_eights`, `sched.add_elements`) use a view with shifted origins; the addresses of a lane's accesses then
    differ by multiples of a stride.

    ```mlir
    %kh = sched.slice %K[%b, %hk] : !tile.view<4, bf16> -> !tile.view<2, bf16>
    %own = sched.slice %bias[%h, %q, %k] : !tile.view<3, bf16> -> !tile.view<2, bf16>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices);
  let results = (outs ViewType:$result);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view) `->` type($result)";
  let extraClassDeclaration = [{
    /// The number of leading dimensions that the result drops.
    int64_t getDropped() { return getView().getType().getRank() - getResult().getType().getRank(); }
    /// The indices that shift the origin of the result's dimensions.
    ::mlir::OperandRange getBegins() { return getIndices().drop_front(getDropped()); }
  }];
  let hasVerifier = 1;
}

def ExtentOp : SchedOp<"extent", [Pure]> {
  let summary = "the extent of a dimension of a view";
  let description = [{
    The extent is at most 2^31 - 1.

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
    The address of an `optional` operand is null if the launch omits the operand.

    ```mlir
    %0 = sched.is_null %lse : !tile.view<3, f32>
    ```
  }];
  let arguments = (ins ViewType:$view);
  let results = (outs I1:$result);
  let assemblyFormat = "$view attr-dict `:` type($view)";
}

def InPairsOp : SchedOp<"in_pairs", [Pure]> {
  let summary = "whether a view can be accessed in aligned pairs of elements along its last dimension";
  let description = [{
    The result is true if the last stride is 1, and the other strides, the last extent and the address (counted in
    elements) are even: for every even index in range, the next index is in range too, and one aligned access serves
    both elements. With `eights` the other strides, the last extent and the address must be multiples of eight instead,
    for accesses of eight elements. The result is uniform over all threads.

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
  let summary = "load two or four adjacent elements of a view of floats by one access";
  let description = [{
    The results are the elements at an even column and at the next column, widened to float32, or, with `four`, those at
    a column that is a multiple of four and at the next three, of a float32 view. All indices must be in range. The view
    must satisfy `sched.in_pairs`; float32 operands with a fixed last axis, which is a multiple of four for `four`,
    always do. PTX ISA 9.7.9.8, ld.global.v2.f32, ld.global.v4.f32 or ld.global.b32.

    ```mlir
    %0, %1 = sched.load_elements %part_o[%row, %column] : !tile.view<2, f32>
    %2:4 = sched.load_elements four %dq_sums[%block, %place] : !tile.view<2, f32>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices);
  let results = (outs Variadic<F32>:$elements);
  let assemblyFormat = "custom<Adjacent>(type($elements)) `` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def LoadByteOp : SchedOp<"load_byte", [MemoryEffects<[MemRead]>]> {
  let summary = "load one byte of a view of bytes, or two adjacent bytes";
  let description = [{
    The result is the byte, zero-extended. With `pair` the result holds the byte at an even index in the low eight bits
    and the next byte in the high eight bits, loaded by one access; the view's rows must start at even addresses. All
    indices must be in range.

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
    `view[indices...] = value & 255`. All indices must be in range.

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
    `view[indices...] = value`. A float is rounded to nearest even if the view's elements have 16 bits. An integer or
    bool has the type of the view's elements.

    ```mlir
    sched.store_element %x, %lse[%row] : f32, !tile.view<1, f32>
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32, I64, I1]>:$value, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$value `,` $view `[` $indices `]` attr-dict `:` type($value) `,` type($view)";
  let hasVerifier = 1;
}

def StoreElementsOp : SchedOp<"store_elements", [MemoryEffects<[MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "write two or four adjacent elements of a view of floats by one access";
  let description = [{
    `view[indices..., column + n] = values[n]`, rounded to nearest even. There are two values at an even column or, in a
    float32 view, four at a multiple of four. All indices must be in range, and the view must satisfy `sched.in_pairs`;
    float32 operands with a fixed last axis, which is a multiple of four for four values, always do. PTX ISA 9.7.9.11,
    st.global.v2.f32, st.global.v4.f32 or st.global.b32.

    ```mlir
    sched.store_elements %x, %y to %dbias[%row, %column] : !tile.view<2, bf16>
    sched.store_elements %x, %y, %z, %w to %dq_sums[%block, %place] : !tile.view<2, f32>
    ```
  }];
  let arguments = (ins Variadic<F32>:$values, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$values `to` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def StoreEightsOp : SchedOp<"store_eights", [MemoryEffects<[MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "write a row of four accumulator blocks of 8 columns, 16 bytes from each lane of a quad";
  let description = [{
    Each of the lanes 4 g to 4 g + 3 passes the two elements of each of the four blocks that it holds. The four lanes
    exchange these elements, so that lane 4 g + c, whose `quad` is c, has all eight elements of block c. The lane writes
    them, rounded to nearest even, from `view[indices...]` on. All indices must be in range, and the view must satisfy
    `sched.in_pairs eights`. All lanes of the warp execute the op. PTX ISA 9.7.9.11, st.global.v4.b32.

    ```mlir
    sched.store_eights [%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7] quad %c to %dbias[%row, %column] : !tile.view<2, bf16>
    ```
  }];
  let arguments = (ins Variadic<F32>:$values, I32:$quad, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "`[` $values `]` `quad` $quad `to` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def AddElementsOp : SchedOp<"add_elements", [Effects, AttrSizedOperandSegments]> {
  let summary = "add one float, or two or four adjacent floats, to a float32 view atomically";
  let description = [{
    `view[indices..., column + n] += values[n]`, atomically for each element. There is one value or, from sm_90 on, two
    values at an even column, or four at a multiple of four. The order of additions to one element is not defined. PTX
    ISA 9.7.13.6, red.

    ```mlir
    sched.add_elements %x to %dq[%row, %column] : !tile.view<2, f32>
    sched.add_elements %x, %y to %dq[%row, %column] : !tile.view<2, f32>
    sched.add_elements %x, %y, %z, %w to %dq_sums[%block, %place] : !tile.view<2, f32>
    ```
  }];
  let arguments = (ins Variadic<F32>:$values, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$values `to` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def AddIntegerOp : SchedOp<"add_integer", [Effects]> {
  let summary = "add one 32-bit integer to an int64 view atomically";
  let description = [{
    `view[indices...] += value`, atomically, with `value` sign-extended. The sum wraps around, so its value does not
    depend on the order of the additions. PTX ISA 9.7.13.6, red.

    ```mlir
    sched.add_integer %n to %words[%word, %column] : !tile.view<2, i64>
    ```
  }];
  let arguments = (ins I32:$value, ViewType:$view, Variadic<I32>:$indices);
  let assemblyFormat = "$value `to` $view `[` $indices `]` attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def CopyToGlobalOp : SchedOp<"copy_to_global", [Effects]> {
  let summary = "copy 16 bytes from shared to global memory";
  let description = [{
    The 16 bytes from `shared[row, column]` on are copied to `view[view_row, column]` and the following elements.

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
    The tile at `view[indices...]` is copied to a stage of `shared`. Rows at or beyond `limit` and columns beyond the
    view's last extent become zero. All threads of the block copy by cp.async. With `signal` one thread copies by TMA
    instead: the copy completes on the full barrier of the ring's stage, and `limit` must be the view's extent.

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
    The rectangle is that of `tile.window`. One thread executes the op; TMA copies by the tensor map `map` of the view,
    and the copy completes on the full barrier of the ring's stage.

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
  let summary = "store a tile from the registers of several warps to a stage of shared memory (before expansion)";
  let description = [{
    The tile is either a vector in layout `threads`, held by the role's warps after its first warp, or a `c` fragment of
    all warpgroups, which TMA then writes to global memory (`sched.write_tile`). In the second case the stage holds the
    rows of one warpgroup after the rows of another, even if the warpgroups split the columns of the same rows.

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
  let summary = "write a stage of shared memory to global memory by TMA (before expansion)";
  let description = [{
    One thread starts the TMA stores, and waits until TMA has read the stage. With `adds` TMA adds to global memory
    instead of overwriting it. The stage has the layout that `sched.store_tile` writes for a fragment whose columns are
    split over `column_splits` warpgroups. Rows at or beyond `limit`, the extent of the view's axis, are not written.

    ```mlir
    sched.write_tile %dqs[%slot] to %DQ[%b, %h, %q0] limit %Sq column_splits 2 adds
        : !tile.tile<stage 1 x q 128 x d 64, f32, shared, #sched.swizzle<128>>, !tile.view<4, f32>
    ```
  }];
  let hasVerifier = 1;
  let arguments = (ins TileType:$shared, I32:$stage, ViewType:$view, Variadic<I32>:$indices, I32:$limit, I64Attr:$column_splits, UnitAttr:$adds);
  let assemblyFormat = [{
    $shared `[` $stage `]` `to` $view `[` $indices `]` `limit` $limit `column_splits` $column_splits (`adds` $adds^)? attr-dict `:` type($shared) `,` type($view)
  }];
}

def CopyAsyncOp : SchedOp<"copy_async", [Effects]> {
  let summary = "start the asynchronous copy of 16 bytes, or of one element of a vector, from global to shared memory";
  let description = [{
    The op copies 16 bytes, those that start at `view[view_row, column]`, to `shared[stage, row, column]` and the
    following elements. From a view of one dimension the op copies the 4 bytes at `view[view_row]`; a stage is then a
    vector and `row` is 0. If `valid` is false, nothing is read and shared memory is filled with zeros. PTX ISA
    9.7.9.25.3, cp.async.cg with src-size, and .ca for 4 bytes.

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
  let summary = "end the current group of the thread's asynchronous copies";
  let description = [{
    The group contains the `sched.copy_async` ops of the thread since the previous `sched.commit_copies`. PTX ISA
    9.7.9.25.3.2, cp.async.commit_group.

    ```mlir
    sched.commit_copies
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def WaitCopiesOp : SchedOp<"wait_copies", [Effects]> {
  let summary = "wait until at most `pending` groups of the thread's asynchronous copies are incomplete";
  let description = [{
    Groups complete in the order of their commits. Copies of other threads are visible only after a subsequent barrier.
    PTX ISA 9.7.9.25.3.3, cp.async.wait_group.

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
    All accesses to shared memory before the barrier are visible to all threads after the barrier. The barrier has id 0
    (see `sched.sync_warps`).

    ```mlir
    sched.barrier
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif
