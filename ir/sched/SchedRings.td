//===- SchedRings.td - Barriers between roles, and TMA ---*- tablegen -*-===//
#ifndef ATTUNE_SCHED_RINGS
#define ATTUNE_SCHED_RINGS

//===----------------------------------------------------------------------===//
// Rings between roles (mbarrier)
//===----------------------------------------------------------------------===//

def RingOp : SchedOp<"ring", [Effects]> {
  let summary = "the barriers of a ring in shared memory";
  let description = [{
    At `offset` bytes, a multiple of 8: a full and an empty barrier for each stage. A stage is full after `filled_by` arrivals (one by
    each thread that executes `sched.commit` or `sched.expect_bytes`) and the bytes that were expected; it is empty after
    `emptied_by` arrivals (one by each warp that executes `sched.release`, or by each of its lanes).

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
  let summary = "make all stages of a ring empty";
  let description = [{
    By one thread, before any other use; others see it after `sched.fence_init` of that thread and a barrier. PTX ISA
    9.7.13.15.9, mbarrier.init.

    ```mlir
    sched.init_ring %kr : !sched.ring<2>
    ```
  }];
  let arguments = (ins RingType:$ring);
  let assemblyFormat = "$ring attr-dict `:` type($ring)";
}

def FenceInitOp : SchedOp<"fence_init", [Effects]> {
  let summary = "show initialised barriers to TMA";
  let description = [{
    PTX ISA 9.7.13.4, fence.mbarrier_init.

    ```mlir
    sched.fence_init
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def StartNextLaunchOp : SchedOp<"start_next_launch", [Effects, HasParent<"KernelOp">]> {
  let summary = "let the kernel after this one start";
  let description = [{
    Once all blocks have come here, and where multiprocessors have room: its `sched.wait_launch` waits for the end of this one. PTX ISA 9.7.13.13,
    griddepcontrol.launch_dependents.

    ```mlir
    sched.start_next_launch
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def WaitLaunchOp : SchedOp<"wait_launch", [Effects, ParentOneOf<["KernelOp", "ForWorkOp"]>]> {
  let summary = "wait until the kernel before this one has ended";
  let description = [{
    The one in front of it in its `tile.launch`, beside which a kernel with this op may start (programmatic dependent launch): all threads wait here, and what accesses operands or claims work follows. What is read of captured tensors, and computed of that, may stand in front:
    the other kernel runs meanwhile. In work, it is that of a block which has one tile. PTX ISA 9.7.13.13, griddepcontrol.wait.

    ```mlir
    sched.wait_launch
    ```
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

class StageOp<string mnemonic> : SchedOp<mnemonic, [Effects]> {
  let arguments = (ins RingType:$ring, I32:$stage);
  let assemblyFormat = "$ring `[` $stage `]` attr-dict `:` type($ring)";
}
class PhaseOp<string mnemonic> : SchedOp<mnemonic, [Effects]> {
  let arguments = (ins RingType:$ring, I32:$stage, I32:$phase);
  let assemblyFormat = "$ring `[` $stage `]` `phase` $phase attr-dict `:` type($ring)";
}

def AcquireOp : PhaseOp<"acquire"> {
  let summary = "wait until a stage is empty";
  let description = [{
    The writer's side: readers have released what the stage held in the walk before. PTX ISA 9.7.13.15.16, mbarrier.try_wait.

    ```mlir
    sched.acquire %kr[%stage] phase %p : !sched.ring<2>
    ```
  }];
}

def WaitOp : PhaseOp<"wait"> {
  let summary = "wait until a stage is full";
  let description = [{
    The reader's side. PTX ISA 9.7.13.15.16, mbarrier.try_wait.

    ```mlir
    sched.wait %kr[%stage] phase %p : !sched.ring<2>
    ```
  }];
}

def ExpectBytesOp : SchedOp<"expect_bytes", [Effects]> {
  let summary = "arrive as a writer whose copies bring `bytes` bytes";
  let description = [{
    PTX ISA 9.7.13.15.13, mbarrier.arrive.expect_tx.

    ```mlir
    sched.expect_bytes 16384 on %kr[%stage] : !sched.ring<2>
    ```
  }];
  let arguments = (ins I64Attr:$bytes, RingType:$ring, I32:$stage);
  let assemblyFormat = "$bytes `on` $ring `[` $stage `]` attr-dict `:` type($ring)";
  let hasVerifier = 1;
}

def CommitOp : StageOp<"commit"> {
  let summary = "arrive as a writer: what the thread stored to the stage is complete";
  let description = [{
    PTX ISA 9.7.13.15.13, mbarrier.arrive.

    ```mlir
    sched.commit %r[%stage] : !sched.ring<2>
    ```
  }];
}

def ReleaseOp : SchedOp<"release", [Effects]> {
  let summary = "arrive as a reader, once for the warp: it no longer reads the stage";
  let description = [{
    With `by_lanes` each lane arrives, for what it has read itself. PTX ISA 9.7.13.15.13, mbarrier.arrive. Before expansion `reads` are the tiles of the stage:
    products that read them are complete before (`tile-pipeline-stages`).

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
  let summary = "the lanes of a warp wait for each other";
  let description = [{
    What a lane did before is done for all: before a `sched.release` or a `sched.commit` of a stage that the lanes have read or written by
    ordinary instructions. PTX ISA 9.7.13.2, bar.warp.sync.

    ```mlir
    sched.sync_lanes
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def SyncWarpsOp : SchedOp<"sync_warps", [Effects]> {
  let summary = "named barrier: wait until `threads` threads have arrived at or waited for barrier `id`";
  let description = [{
    Ids 1 to 15; 0 is that of `sched.barrier`. PTX ISA 9.7.13.1, barrier.cta.sync.

    ```mlir
    sched.sync_warps %id threads 256
    ```
  }];
  let arguments = (ins I32:$id, I64Attr:$threads);
  let assemblyFormat = "$id `threads` $threads attr-dict";
  let hasVerifier = 1;
}

def ArriveWarpsOp : SchedOp<"arrive_warps", [Effects]> {
  let summary = "named barrier: arrive at barrier `id` without waiting";
  let description = [{
    PTX ISA 9.7.13.1, barrier.cta.arrive.

    ```mlir
    sched.arrive_warps %id threads 256
    ```
  }];
  let arguments = (ins I32:$id, I64Attr:$threads);
  let assemblyFormat = "$id `threads` $threads attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// TMA (TMA)
//===----------------------------------------------------------------------===//

def TensorMapOp : SchedOp<"tensor_map", [Pure]> {
  let summary = "the launch's description of a view for TMA";
  let description = [{
    Boxes of the view's last two dimensions; one of fewer than four counts as having leading dimensions of extent 1. The kernel takes the
    description as a parameter, which the launch makes from the view's address, strides and extents; `swizzle` is that of the shared tiles that it serves. Elements outside the view are zero
    when read and left out when written. PTX ISA 5.5.8, tensor maps.

    That of a captured tensor can be made where its columns lie side by side, its address and its other strides are multiples of 16
    bytes, and its last two dimensions cover the launch's queries, from the first one's position on, and keys: a box then holds at each query
    and key of the sequence what a single load would. Elsewhere the launch starts another kernel (`tile.fallback_of`).

    ```mlir
    %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
    ```
  }];
  let arguments = (ins ViewType:$view, SwizzleAttr:$swizzle);
  let results = (outs TensorMapType:$result);
  let assemblyFormat = "$view `swizzle` $swizzle attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def LoadBoxOp : SchedOp<"load_box", [Effects, AttrSizedOperandSegments]> {
  let summary = "start the copy of one box to shared memory, which completes on a ring's stage";
  let description = [{
    The box at `map[batch, head, row, column]` goes to the panel of `shared[stage]` that starts at `column`; with `from` that is the tensor's
    column. It fills the panel's rows, or those from `shared_row` on: a multiple of 8, but in panels of 128 bytes. One thread executes it. PTX ISA 9.7.9.25.5.2, cp.async.bulk.tensor.

    ```mlir
    sched.load_box %m[%b, %h, %row, %c] to %ks[%stage] signal %kr : ...
    sched.load_box %m[%b, %h, %row, %c] from %k to %bs[%stage] signal %br : ...
    sched.load_box %m[%page, %h, %slot, %c] to %ks[%stage, %r] signal %kr : ...
    ```
  }];
  let arguments = (ins TensorMapType:$map, I32:$batch, I32:$head, I32:$row, I32:$column, TileType:$shared, I32:$stage,
                       RingType:$ring, Optional<I32>:$tensor_column, Optional<I32>:$shared_row);
  let assemblyFormat = [{
    $map `[` $batch `,` $head `,` $row `,` $column `]` (`from` $tensor_column^)? `to` $shared `[` $stage (`,` $shared_row^)? `]` `signal` $ring attr-dict
    `:` type($map) `,` type($shared) `,` type($ring)
  }];
  let hasVerifier = 1;
}

def StoreBoxOp : SchedOp<"store_box", [Effects]> {
  let summary = "start the copy of one box from shared memory, or its addition to what is there";
  let description = [{
    The rows from `shared_row` on of the panel of `shared[stage]` that starts at `column` go to `map[batch, head, row, column]`; with `at` that is the tensor's
    column. With `adds` they are added, float32, each element atomically. One thread executes it, after a `sched.fence_async` of each thread that wrote. PTX ISA 9.7.9.25.5.2, cp.async.bulk.tensor; 9.7.9.25.5.3,
    cp.reduce.async.bulk.tensor.

    ```mlir
    sched.store_box %os[%stage, %r] to %m[%b, %h, %row, %c] : ...
    sched.store_box %sums[%stage, %r] to %m[%b, %h, %row, %c] adds : ...
    sched.store_box %sums[%stage, %r] to %m[%b, %h, %row, %c] at %column adds : ...
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage, I32:$shared_row, TensorMapType:$map, I32:$batch, I32:$head, I32:$row, I32:$column,
                       Optional<I32>:$tensor_column, UnitAttr:$adds);
  let assemblyFormat = [{
    $shared `[` $stage `,` $shared_row `]` `to` $map `[` $batch `,` $head `,` $row `,` $column `]` (`at` $tensor_column^)? (`adds` $adds^)? attr-dict
    `:` type($shared) `,` type($map)
  }];
  let hasVerifier = 1;
}

def AddRowsOp : SchedOp<"add_rows", [Effects]> {
  let summary = "start adding `rows` contiguous rows of a shared float32 tile to global memory";
  let description = [{
    `view[view_row + r, c] += shared[stage, row + r, c]`, each element atomically; the view's rows are contiguous. One thread executes it,
    after a `sched.fence_async` of each thread that wrote. PTX ISA 9.7.9.25.4.2, cp.reduce.async.bulk.

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
  let summary = "close the group of the thread's `store_box` and `add_rows` started so far";
  let description = [{
    PTX ISA 9.7.9.25.6.1, cp.async.bulk.commit_group.

    ```mlir
    sched.commit_boxes
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def WaitBoxesOp : SchedOp<"wait_boxes", [Effects]> {
  let summary = "wait until at most `pending` groups of the thread still read shared memory";
  let description = [{
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
  let summary = "show the thread's stores to shared memory to TMA and the tensor cores";
  let description = [{
    PTX ISA 9.7.13.4, fence.proxy.async.

    ```mlir
    sched.fence_async
    ```
  }];
  let assemblyFormat = "attr-dict";
}

#endif
