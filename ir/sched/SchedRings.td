//===- SchedRings.td - Rings between roles, named barriers, TMA ---*- tablegen -*-===//
#ifndef ATTUNE_SCHED_RINGS
#define ATTUNE_SCHED_RINGS

//===----------------------------------------------------------------------===//
// Rings between roles (mbarrier)
//===----------------------------------------------------------------------===//

def RingOp : SchedOp<"ring", [Effects]> {
  let summary = "allocate the mbarriers of a ring in shared memory";
  let description = [{
    The barriers start at `offset` bytes, a multiple of 8: a full and an empty barrier for each stage. A stage is full
    after `filled_by` arrivals (one by each thread that executes `sched.commit` or `sched.expect_bytes`, or by each warp
    that executes `sched.commit` with `by_warp`) and after all expected bytes have been copied. A stage is empty after
    `emptied_by` arrivals (one by each warp that executes `sched.release`, or by each of its lanes with `by_lanes`).

    ```mlir
    %kr = sched.ring "k" at 98304 filled_by 1 emptied_by 8 : !sched.ring<2>
    ```
  }];
  let arguments = (ins StrAttr:$name, ConfinedAttr<I64Attr, [IntNonNegative]>:$offset, I64Attr:$filled_by, I64Attr:$emptied_by);
  let results = (outs RingType:$result);
  let assemblyFormat = "$name `at` $offset `filled_by` $filled_by `emptied_by` $emptied_by attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def InitRingOp : SchedOp<"init_ring", [Effects]> {
  let summary = "initialise the mbarriers of a ring, with all stages empty";
  let description = [{
    One thread executes the op before any other use of the ring. The initialisation is visible to other threads after a
    `sched.fence_init` of that thread and a barrier. PTX ISA 9.7.13.15.9, mbarrier.init.

    ```mlir
    sched.init_ring %kr : !sched.ring<2>
    ```
  }];
  let arguments = (ins RingType:$ring);
  let assemblyFormat = "$ring attr-dict `:` type($ring)";
}

def FenceInitOp : SchedOp<"fence_init", [Effects]> {
  let summary = "make initialised mbarriers visible to TMA";
  let description = [{
    The thread that executed `sched.init_ring` executes the fence. PTX ISA 9.7.13.4, fence.mbarrier_init.

    ```mlir
    sched.fence_init
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def StartNextLaunchOp : SchedOp<"start_next_launch", [Effects, HasParent<"KernelOp">]> {
  let summary = "allow the next, dependent kernel of the launch to start (programmatic dependent launch)";
  let description = [{
    The next kernel starts when all blocks of this kernel have executed the op and multiprocessors have room. The
    `sched.wait_launch` of the next kernel waits for the end of this kernel. PTX ISA 9.7.13.13,
    griddepcontrol.launch_dependents.

    ```mlir
    sched.start_next_launch
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def WaitLaunchOp : SchedOp<"wait_launch", [Effects, ParentOneOf<["KernelOp", "ForWorkOp"]>]> {
  let summary = "wait until the previous kernel of the launch has ended (programmatic dependent launch)";
  let description = [{
    A kernel with this op may start while the previous kernel of its `tile.launch` still runs. All threads wait at the
    op. Ops that access operands or claim tiles of work come after the op. Reads of captured tensors, and computations
    on their values, may come before the op and then overlap with the previous kernel. The op may be in a
    `sched.for_work` only if a block has one tile of work. PTX ISA 9.7.13.13, griddepcontrol.wait.

    ```mlir
    sched.wait_launch
    ```
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

class PhaseOp<string mnemonic> : SchedOp<mnemonic, [Effects]> {
  let arguments = (ins RingType:$ring, I32:$stage, I32:$phase);
  let assemblyFormat = "$ring `[` $stage `]` `phase` $phase attr-dict `:` type($ring)";
}

def AcquireOp : PhaseOp<"acquire"> {
  let summary = "wait, as a writer, until a stage of a ring is empty";
  let description = [{
    The op waits until the readers have released the stage's content of the previous pass over the ring. PTX ISA
    9.7.13.15.16, mbarrier.try_wait.

    ```mlir
    sched.acquire %kr[%stage] phase %p : !sched.ring<2>
    ```
  }];
}

def WaitOp : PhaseOp<"wait"> {
  let summary = "wait, as a reader, until a stage of a ring is full";
  let description = [{
    The op waits until the writers have arrived and all expected bytes have been copied. PTX ISA 9.7.13.15.16,
    mbarrier.try_wait.

    ```mlir
    sched.wait %kr[%stage] phase %p : !sched.ring<2>
    ```
  }];
}

def ExpectBytesOp : SchedOp<"expect_bytes", [Effects]> {
  let summary = "arrive, as a writer, at a stage's full barrier and announce the bytes of its copies";
  let description = [{
    The stage becomes full only after TMA has copied `bytes` bytes to it. PTX ISA 9.7.13.15.13,
    mbarrier.arrive.expect_tx.

    ```mlir
    sched.expect_bytes 16384 on %kr[%stage] : !sched.ring<2>
    ```
  }];
  let arguments = (ins I64Attr:$bytes, RingType:$ring, I32:$stage);
  let assemblyFormat = "$bytes `on` $ring `[` $stage `]` attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def CommitOp : SchedOp<"commit", [Effects]> {
  let summary = "arrive, as a writer, at a stage's full barrier after the thread's stores to the stage";
  let description = [{
    The stores of the thread to the stage are visible to readers after their `sched.wait`. With `by_warp` one lane
    arrives for its warp: a `sched.sync_lanes` after the stores of the other lanes makes theirs visible too. PTX ISA
    9.7.13.15.13, mbarrier.arrive.

    ```mlir
    sched.commit %r[%stage] : !sched.ring<2>
    sched.commit %r[%stage] by_warp : !sched.ring<2>
    ```
  }];
  let arguments = (ins RingType:$ring, I32:$stage, UnitAttr:$by_warp);
  let assemblyFormat = "$ring `[` $stage `]` (`by_warp` $by_warp^)? attr-dict `:` type($ring)";
}

def ReleaseOp : SchedOp<"release", [Effects]> {
  let summary = "arrive, as a reader, at a stage's empty barrier after the last read of the stage";
  let description = [{
    One lane arrives for the warp. With `by_lanes` each lane arrives for its own reads. Before expansion `reads` lists
    the tiles of the stage: `tile-pipeline-stages` places the release after the completion of all products that read
    these tiles. PTX ISA 9.7.13.15.13, mbarrier.arrive.

    ```mlir
    sched.release %kr[%stage] : !sched.ring<2>
    sched.release %kr[%stage] by_lanes : !sched.ring<2>
    sched.release %kr[%stage] : !sched.ring<2> reads %k : !tile.tile<k 64 x d 64, bf16, shared>
    ```
  }];
  let arguments = (ins RingType:$ring, I32:$stage, UnitAttr:$by_lanes, Variadic<TileType>:$reads);
  let assemblyFormat = "$ring `[` $stage `]` (`by_lanes` $by_lanes^)? attr-dict `:` type($ring) (`reads` $reads^ `:` type($reads))?";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$ring, "::mlir::Value":$stage, CArg<"bool", "false">:$byLanes, CArg<"::mlir::ValueRange", "{}">:$reads), [{
    $_state.addOperands({ring, stage});
    $_state.addOperands(reads);
    if (byLanes)
      $_state.getOrAddProperties<Properties>().by_lanes = $_builder.getUnitAttr();
  }]>];
}

def SyncLanesOp : SchedOp<"sync_lanes", [Effects]> {
  let summary = "synchronise the lanes of a warp";
  let description = [{
    Memory accesses of all lanes before the op are complete for all lanes after the op. The op is required before a
    `sched.release` or `sched.commit` by one lane if the other lanes have read or written the stage by ordinary
    instructions. PTX ISA 9.7.13.2, bar.warp.sync.

    ```mlir
    sched.sync_lanes
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def SyncWarpsOp : SchedOp<"sync_warps", [Effects]> {
  let summary = "wait at a named barrier until `threads` threads have arrived at it or wait at it";
  let description = [{
    The barrier `id` is 1 to 15; id 0 is the barrier of `sched.barrier`. PTX ISA 9.7.13.1, barrier.cta.sync.

    ```mlir
    sched.sync_warps %id threads 256
    ```
  }];
  let arguments = (ins I32:$id, I64Attr:$threads);
  let assemblyFormat = "$id `threads` $threads attr-dict";
  let hasVerifier = 1;
}

def ArriveWarpsOp : SchedOp<"arrive_warps", [Effects]> {
  let summary = "arrive at a named barrier without waiting";
  let description = [{
    The barrier `id` is 1 to 15, and `threads` counts waiting and arriving threads, as for `sched.sync_warps`. PTX ISA
    9.7.13.1, barrier.cta.arrive.

    ```mlir
    sched.arrive_warps %id threads 256
    ```
  }];
  let arguments = (ins I32:$id, I64Attr:$threads);
  let assemblyFormat = "$id `threads` $threads attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Copies by TMA
//===----------------------------------------------------------------------===//

def TensorMapOp : SchedOp<"tensor_map", [Pure]> {
  let summary = "the tensor map of a view, by which TMA copies boxes";
  let description = [{
    A box covers a part of the view's last two dimensions. A view of fewer than four dimensions is treated as having
    leading dimensions of extent 1. Boxes of a `limited` map end at a row that each copy gives, where a sequence ends
    before the tensor does. The tensor map is a kernel parameter, which the launch creates from the view's
    address, strides and extents. `swizzle` is the layout of the shared tiles that the boxes fill. Elements outside the
    view are zero when read and skipped when written. PTX ISA 5.5.8, tensor maps.

    The launch can create a tensor map of a captured tensor if the last stride is 1, the address and the other strides
    are multiples of 16 bytes, and the last two dimensions cover all queries (at their positions in the sequence) and
    all keys of the launch. A box then has the same elements as clamped single loads. Otherwise the launch starts the
    kernel's fallback (`tile.fallback_of`).

    ```mlir
    %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
    %n = sched.tensor_map %K swizzle <128> limited : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
    ```
  }];
  let arguments = (ins ViewType:$view, SwizzleAttr:$swizzle, UnitAttr:$limited);
  let results = (outs TensorMapType:$result);
  let assemblyFormat = "$view `swizzle` $swizzle (`limited` $limited^)? attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def LoadBoxOp : SchedOp<"load_box", [Effects, AttrSizedOperandSegments]> {
  let summary = "start the copy of one box by TMA to shared memory";
  let description = [{
    The box at `map[batch, head, row, column]` is copied to the panel of `shared[stage]` that starts at `column`. With
    `from` the box starts at column `tensor_column` of the tensor instead. Rows of the tensor from `limit` on, which is
    given exactly if the map is limited, is above `row` and at most the number of rows, are read as zeros. The box fills
    the panel's rows, or the rows from `shared_row` on; `shared_row` must be a multiple of 8 unless panels have 128 bytes.
    The copy completes on the full barrier of the ring's stage. One thread executes the op. PTX ISA 9.7.9.25.5.2,
    cp.async.bulk.tensor.

    ```mlir
    sched.load_box %m[%b, %h, %row, %c] to %ks[%stage] signal %kr : ...
    sched.load_box %m[%b, %h, %row, %c] limit %end to %ks[%stage] signal %kr : ...
    sched.load_box %m[%b, %h, %row, %c] from %k to %bs[%stage] signal %br : ...
    sched.load_box %m[%page, %h, %slot, %c] to %ks[%stage, %r] signal %kr : ...
    ```
  }];
  let arguments = (ins TensorMapType:$map, I32:$batch, I32:$head, I32:$row, I32:$column, TileType:$shared, I32:$stage,
                       RingType:$ring, Optional<I32>:$tensor_column, Optional<I32>:$shared_row, Optional<I32>:$limit);
  let assemblyFormat = [{
    $map `[` $batch `,` $head `,` $row `,` $column `]` (`limit` $limit^)? (`from` $tensor_column^)? `to` $shared `[` $stage (`,` $shared_row^)? `]` `signal` $ring attr-dict
    `:` type($map) `,` type($shared) `,` type($ring)
  }];
  let hasVerifier = 1;
}

def StoreBoxOp : SchedOp<"store_box", [Effects, AttrSizedOperandSegments]> {
  let summary = "start the copy or the addition of one box by TMA from shared to global memory";
  let description = [{
    The box is the rows from `shared_row` on of the panel of `shared[stage]` that starts at `column`. TMA copies the box
    to `map[batch, head, row, column]`. With `at` the box goes to column `tensor_column` of the tensor instead. Rows of
    the tensor from `limit` on, given as in `sched.load_box`, are not written. With `adds` TMA adds float32 elements, each atomically. One thread executes the op, after a `sched.fence_async` of each
    thread that wrote to the box and a barrier with these threads. PTX ISA 9.7.9.25.5.2, cp.async.bulk.tensor;
    9.7.9.25.5.3, cp.reduce.async.bulk.tensor.

    ```mlir
    sched.store_box %os[%stage, %r] to %m[%b, %h, %row, %c] : ...
    sched.store_box %sums[%stage, %r] to %m[%b, %h, %row, %c] adds : ...
    sched.store_box %sums[%stage, %r] to %m[%b, %h, %row, %c] at %column adds : ...
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage, I32:$shared_row, TensorMapType:$map, I32:$batch, I32:$head, I32:$row, I32:$column,
                       Optional<I32>:$tensor_column, Optional<I32>:$limit, UnitAttr:$adds);
  let assemblyFormat = [{
    $shared `[` $stage `,` $shared_row `]` `to` $map `[` $batch `,` $head `,` $row `,` $column `]` (`limit` $limit^)? (`at` $tensor_column^)? (`adds` $adds^)? attr-dict
    `:` type($shared) `,` type($map)
  }];
  let hasVerifier = 1;
}

def AddRowsOp : SchedOp<"add_rows", [Effects]> {
  let summary = "start adding `rows` contiguous rows of a shared float32 tile to global memory";
  let description = [{
    `view[view_row + r, c] += shared[stage, row + r, c]`, atomically for each element. The view's rows are contiguous.
    One thread executes the op, after a `sched.fence_async` of each thread that wrote to the rows and a barrier with
    these threads. PTX ISA 9.7.9.25.4.2, cp.reduce.async.bulk.

    ```mlir
    sched.add_rows 64 of %dq[%stage, %row] to %acc[%view_row] : ...
    ```
  }];
  let arguments = (ins I64Attr:$rows, TileType:$shared, I32:$stage, I32:$row, ViewType:$view, I32:$view_row);
  let assemblyFormat = [{
    $rows `of` $shared `[` $stage `,` $row `]` `to` $view `[` $view_row `]` attr-dict `:` type($shared) `,` type($view)
  }];
  let hasVerifier = 1;
}

def CommitBoxesOp : SchedOp<"commit_boxes", [Effects]> {
  let summary = "end the current group of the thread's `sched.store_box` and `sched.add_rows` ops";
  let description = [{
    The group contains these ops of the thread since the previous `sched.commit_boxes`. PTX ISA 9.7.9.25.6.1,
    cp.async.bulk.commit_group.

    ```mlir
    sched.commit_boxes
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def WaitBoxesOp : SchedOp<"wait_boxes", [Effects]> {
  let summary = "wait until at most `pending` groups of `sched.commit_boxes` of the thread still read shared memory";
  let description = [{
    Shared memory of the other groups may be overwritten afterwards; their writes to global memory need not be complete.
    PTX ISA 9.7.9.25.6.2, cp.async.bulk.wait_group.read.

    ```mlir
    sched.wait_boxes pending 0
    ```
  }];
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "`pending` $pending attr-dict";
  let hasVerifier = 1;
}

def FenceAsyncOp : SchedOp<"fence_async", [Effects]> {
  let summary = "make the thread's stores to shared memory visible to TMA and to asynchronous matrix instructions";
  let description = [{
    TMA and warpgroup-level matrix instructions access shared memory through the asynchronous proxy. PTX ISA 9.7.13.4,
    fence.proxy.async.

    ```mlir
    sched.fence_async
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif
