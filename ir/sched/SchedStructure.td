//===- SchedStructure.td - Kernels, roles, work, loops and branches ---*- tablegen -*-===//
#ifndef ATTUNE_SCHED_STRUCTURE
#define ATTUNE_SCHED_STRUCTURE

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

def KernelOp : SchedOp<"kernel", [IsolatedFromAbove, Symbol, NoTerminator, SingleBlock]> {
  let summary = "a scheduled kernel";
  let description = [{
    `threads` threads a block, at least `blocks_per_sm` blocks resident on a multiprocessor, `shared_bytes` bytes of
    dynamic shared memory, for architecture `arch`. The signature is that of `tile.kernel`.

    ```mlir
    sched.kernel @causal(...) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536 dtype bf16 plan <...> { ... }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<OperandAttr, "operands">:$operands, TypedArrayAttrBase<AxisAttr, "axes">:$grid, StrAttr:$arch, I64Attr:$threads,
                       I64Attr:$blocks_per_sm, ConfinedAttr<I64Attr, [IntNonNegative]>:$shared_bytes, TypeAttr:$dtype, PlanAttr:$plan,
                       DefaultValuedAttr<TypedArrayAttrBase<CapturedTensorAttr, "tensors">, "{}">:$tensors,
                       DefaultValuedAttr<TypedArrayAttrBase<RuntimeScalarAttr, "scalars">, "{}">:$scalars,
                       OptionalAttr<BlockPatternAttr>:$pattern,
                       UnitAttr:$dropout, UnitAttr:$precise, UnitAttr:$q_offset);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `` custom<Operands>($operands) `grid` custom<Grid>($grid) `arch` $arch `threads` $threads `blocks_per_sm` $blocks_per_sm `shared_bytes` $shared_bytes
    `dtype` $dtype `plan` $plan attr-dict-with-keyword custom<Body>($body)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def RoleOp : SchedOp<"role", [NoTerminator, SingleBlock, RecursiveMemoryEffects,
                              ParentOneOf<["KernelOp", "::attune::tile::KernelOp"]>]> {
  let summary = "what some warps of the block do, beside the other roles";
  let description = [{
    Roles take the block's warps in the order in which they stand: the first one warps 0 to `warps` - 1, and so on. With
    `registers` each thread of the role has that many registers from then on, and `warps` is a multiple of four (PTX ISA
    9.7.19.5, setmaxnreg). `sched.thread_id` counts from the role's first thread.

    ```mlir
    sched.role "producer" warps 4 registers 24 { ... }
    sched.role "consumer" warps 8 registers 240 { ... }
    ```
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$warps, OptionalAttr<I64Attr>:$registers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name `warps` $warps (`registers` $registers^)? attr-dict-with-keyword custom<Body>($body)";
  let hasVerifier = 1;
}

def ElectOp : SchedOp<"elect", [Effects]> {
  let summary = "true in one lane of the warp, false in the others";
  let description = [{
    For what one lane does for its warp: start copies, count their bytes.

    ```mlir
    %one = sched.elect
    ```
  }];
  let results = (outs I1:$result);
  let assemblyFormat = "attr-dict";
}

def WorkOrder : I32EnumAttr<"WorkOrder", "how tiles of work reach the blocks",
    [I32EnumAttrCase<"Grid", 0, "grid">, I32EnumAttrCase<"Persistent", 1, "persistent">, I32EnumAttrCase<"Received", 2, "received">]> {
  let cppNamespace = "::attune::sched";
  let genSpecializedAttr = 0;
}
def WorkOrderAttr : EnumAttr<SchedDialect, WorkOrder, "work">;

def ForWorkOp : SchedOp<"for_work", [NoTerminator, SingleBlock, RecursiveMemoryEffects, AttrSizedOperandSegments]> {
  let summary = "the tiles of work of a block";
  let description = [{
    The body takes the number of a tile of work (i32, as an unsigned number). Where that tile lies along the axes of the kernel's grid is arithmetic in the
    body (passes/sched/WorkOrder.h writes it), as is which number follows.

        | order      | tiles of a block                                                                                          |
        |------------|-----------------------------------------------------------------------------------------------------------|
        | grid       | one: the body takes its number, which is that of the block                                                |
        | persistent | from number `from` on while the number is `below` a bound: the body takes the number, and how many tiles came before (i32) |
        | received   | those that another role sends, at least one: the body takes the count alone, and reads where its tile is by `sched.receive` |

    Where a block has several tiles, i32 values may be carried from one to the next. `sched.next` ends the body then; its first value is the next tile's number
    in order persistent, and in order received whether there is another tile: 1 or 0.

    ```mlir
    sched.for_work grid (%number) { ... }
    sched.for_work persistent from %block below %tiles carries (%zero, %zero) (%number, %count, %stage, %phase) {
      ...
      sched.next %next_number, %stage1, %phase1 : i32, i32, i32
    }
    sched.for_work received carries (%zero) (%count, %stage) {
      %work:4 = sched.receive from %tasks[%stage] : !tile.tile<stage 2 x message 1 x field 4, i32, shared> -> i32, i32, i32, i32
      ...
      sched.next %work#3, %stage1 : i32, i32
    }
    ```
  }];
  let arguments = (ins WorkOrderAttr:$order, Optional<I32>:$first, Optional<I32>:$bound, Variadic<I32>:$inits);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::attune::sched::WorkOrder":$order, CArg<"::mlir::Value", "{}">:$first, CArg<"::mlir::Value", "{}">:$bound,
                                 CArg<"::mlir::ValueRange", "{}">:$inits)>];
  let extraClassDeclaration = [{
    /// The carried values in the body.
    ::mlir::Block::BlockArgListType getCarried() { return getBody().getArguments().take_back(getInits().size()); }
    /// What ends the body where a block has several tiles, else null.
    NextOp getNext();
    /// The values of `getNext` for the carried ones.
    ::mlir::OperandRange getNextCarried();
    /// The number of the tile; null in order received.
    ::mlir::Value getNumber() { return getOrder() == WorkOrder::Received ? ::mlir::Value() : getBody().getArgument(0); }
    /// How many tiles of work came before, where a block has several.
    ::mlir::Value getCount() { return getBody().getArgument(getOrder() == WorkOrder::Received ? 0 : 1); }
  }];
}

def ClaimWorkOp : SchedOp<"claim_work", [Effects, HasParent<"ForWorkOp">]> {
  let summary = "number of the next tile of work that no block has taken, in the first lane";
  let description = [{
    In a `sched.for_work` of order persistent, for a whole warp: its first lane gets the number, which may be past the last tile; what the others
    get is undefined. A round trip to global memory: take the number to the other lanes by `sched.shuffle` where it is needed. The numbers after those of the
    grid's blocks are counted in the first element of `counter`, a workspace operand that a kernel before this one sets to 0.

    ```mlir
    %counter = tile.param "claimed" : !tile.view<1, i32>
    %number = sched.claim_work %counter : !tile.view<1, i32>
    ```
  }];
  let arguments = (ins ViewType:$counter);
  let results = (outs I32:$result);
  let assemblyFormat = "$counter attr-dict `:` type($counter)";
  let hasVerifier = 1;
}

def BlockIdOp : SchedOp<"block_id", [Pure]> {
  let summary = "index of the block within the grid";
  let description = [{
    The grid has one dimension. PTX ISA 10, %ctaid.x.

    ```mlir
    %0 = sched.block_id : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def GridSizeOp : SchedOp<"grid_size", [Pure]> {
  let summary = "how many blocks the grid has";
  let description = [{
    PTX ISA 10, %nctaid.x.

    ```mlir
    %0 = sched.grid_size : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def ReadBlockIdOp : SchedOp<"read_block_id", [Effects]> {
  let summary = "index of the block, read again here";
  let description = [{
    The value of `sched.block_id`, with an effect, as `sched.read_thread_id`.

    ```mlir
    %0 = sched.read_block_id : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def OpaqueOp : SchedOp<"opaque", [Effects]> {
  let summary = "the same number, which the device compiler takes for another";
  let description = [{
    What is computed from the result is computed here, and not kept from where the same was computed from `value`.

    ```mlir
    %1 = sched.opaque %number : i32
    ```
  }];
  let arguments = (ins I32:$value);
  let results = (outs I32:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def NonnegativeOp : SchedOp<"nonnegative", [Pure]> {
  let summary = "an unsigned number below 2^31, as a signed one";
  let description = [{
    The bits stay the same. Arithmetic of numbers of tiles is unsigned; places in tensors are signed numbers, of which it is known from here on that they are
    not negative.

    ```mlir
    %1 = sched.nonnegative %0 : i32
    ```
  }];
  let arguments = (ins I32:$value);
  let results = (outs I32:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def SendOp : SchedOp<"send", [MemoryEffects<[MemWrite]>]> {
  let summary = "a message of i32 fields into a stage of a shared tile, for the roles that receive it";
  let description = [{
    One thread sends, and publishes the message with the ring whose stage it acquired. The tile has 2, 4, 8 or 12 fields; those beyond the values are 0.

    ```mlir
    sched.send %next, %partial to %notes[%s] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
    ```
  }];
  let arguments = (ins Variadic<I32>:$values, TileType:$shared, I32:$stage);
  let assemblyFormat = "$values `to` $shared `[` $stage `]` attr-dict `:` type($shared)";
  let hasVerifier = 1;
}

def ReceiveOp : SchedOp<"receive", [Effects]> {
  let summary = "the first fields of a message that another role sent";
  let description = [{
    What `sched.send` put there; every thread reads it, between the wait for the stage and its release.

    ```mlir
    %m:2 = sched.receive from %notes[%s] : !tile.tile<stage 2 x message 1 x field 2, i32, shared> -> i32, i32
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage);
  let results = (outs Variadic<I32>:$values);
  let assemblyFormat = "`from` $shared `[` $stage `]` attr-dict `:` type($shared) `->` type($values)";
  let hasVerifier = 1;
}

def ForTilesOp : SchedOp<"for_tiles", [SingleBlockImplicitTerminator<"NextOp">, AttrSizedOperandSegments, RecursiveMemoryEffects]> {
  let summary = "loop while the first carried value is below a bound";
  let description = [{
    The body takes the carried i32 values (first the tile index; then, where the schedule needs them, the tiles after
    it and ring slots) and, before expansion, tiles; `sched.next` gives their next values. Results are the tiles; with `keeps` the
    carried i32 values follow them, as the last `sched.next` left them. Canonicalisation drops an i32 behind the tile index that stays what it was, or that only its own
    next value follows from.

    ```mlir
    sched.for_tiles (%n, %slot) = (%begin, %zero) below %end { ... sched.next %n1, %slot1 : i32, i32 }
    %last:2 = sched.for_tiles (%n, %slot) = (%begin, %zero) below %end keeps { ... }
    ```
  }];
  let arguments = (ins Variadic<I32>:$inits, I32:$bound, Variadic<TileType>:$tiles, UnitAttr:$keeps);
  let results = (outs Variadic<AnyTypeOf<[TileType, I32]>>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$inits, "::mlir::Value":$bound, "::mlir::ValueRange":$tiles,
                                 CArg<"bool", "false">:$keeps)>];
  let extraClassDeclaration = [{
    NextOp getNext();
    /// The carried i32 values after the loop, with `keeps`.
    ::mlir::ValueRange getKept() { return getResults().drop_front(getTiles().size()); }
  }];
}

def NextOp : SchedOp<"next", [Pure, Terminator, ParentOneOf<["ForTilesOp", "ForWorkOp"]>]> {
  let summary = "next values of a `sched.for_tiles` or `sched.for_work`";
  let description = [{
    ```mlir
    sched.next %n1, %slot1 : i32, i32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange{}); }]>];
}

def NextVisibleOp : SchedOp<"next_visible", [Effects, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "first tile at or after `from` that is visible, and what is known of those around it";
  let description = [{
    The region says of a tile whether it is visible and whether it is full. `tile` is the first visible one, `from <= tile < bound`, or `bound` when there is none.
    The lanes of a warp look at 32 tiles at a time. All threads get the same values. The region may
    be evaluated for tiles up to the last that is not before `from`.

    The answers for the 32 tiles from `origin` on, `tile` among them, come as bits of `visible` and `full`, which are 0 for tiles from `bound` on; without a visible tile `origin` is
    `bound`. With `seen`, these three results of a search before, the tiles of that window are not asked again; a window that does not hold `from` tells nothing.

    Tiles `without` are not visible: of each two ends, ascending, those from the first to before the second.

    With `parts` the region also says of each part of the rows whether the tile shows it something. The search gives the first such tile of the window for each,
    or the one after the window's last.

    The region of `groups` says of a group, tiles `32 * n` to `32 * (n + 1)`, whether any of them may be visible. Where a search has far to go, the lanes look at 32 groups at a
    time, and at no tile of a group that shows nothing.

    Before `sched-expand-searches`, which makes it a loop.

    ```mlir
    %n, %origin, %visible, %full = sched.next_visible from %a below %end {
    ^bb0(%tile: i32):
      ...
      sched.visible %1, %2
    }
    %n1, %origin1, %visible1, %full1 = sched.next_visible from %b below %end seen %origin, %visible, %full { ... }
    %n2, %origin2, %visible2, %full2, %begins:2 = sched.next_visible from %a below %end without %c, %d parts i32, i32 {
    ^bb0(%tile: i32):
      ...
      sched.visible %1, %2 parts %3, %4
    }
    %n3, %origin3, %visible3, %full3 = sched.next_visible from %a below %end {
    ^bb0(%tile: i32):
      ...
      sched.visible %1, %2
    } groups {
    ^bb0(%group: i32):
      ...
      sched.visible %3
    }
    ```
  }];
  let arguments = (ins I32:$from, I32:$bound, Variadic<I32>:$seen, Variadic<I32>:$gaps);
  let results = (outs I32:$tile, I32:$origin, I32:$visible, I32:$full, Variadic<I32>:$begins);
  let regions = (region SizedRegion<1>:$condition, MaxSizedRegion<1>:$groups);
  let assemblyFormat = [{
    `from` $from `below` $bound (`seen` $seen^)? (`without` $gaps^)? (`parts` type($begins)^)? custom<Body>($condition)
    (`groups` custom<Body>($groups)^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ValueRange getWindow() { return getResults().slice(1, 3); }
  }];
}

def VisibleOp : SchedOp<"visible", [Pure, Terminator, ParentOneOf<["NextVisibleOp"]>, AttrSizedOperandSegments]> {
  let summary = "what a `sched.next_visible` asks of a tile: whether it is visible, whether it is full, and to which parts of the rows it is visible";
  let description = [{
    Of a group it asks whether any of its tiles may be visible.

    ```mlir
    sched.visible %1, %2
    sched.visible %1, %2 parts %3, %4
    sched.visible %1
    ```
  }];
  let arguments = (ins I1:$visible, Optional<I1>:$full, Variadic<I1>:$parts);
  let assemblyFormat = "$visible (`,` $full^)? (`parts` $parts^)? attr-dict";
}

def ThreadIdOp : SchedOp<"thread_id", [Pure]> {
  let summary = "index of the thread within its block, or within its role";
  let description = [{
    Within a role it is `in_role`: another value than the block's, which is why it says so.

    ```mlir
    %0 = sched.thread_id : i32
    %1 = sched.thread_id in_role : i32
    ```
  }];
  let arguments = (ins UnitAttr:$in_role);
  let results = (outs I32:$result);
  let assemblyFormat = "(`in_role` $in_role^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins)>];
}

def LaneIdOp : SchedOp<"lane_id", [Pure]> {
  let summary = "index of the thread within its warp";
  let description = [{
    ```mlir
    %0 = sched.lane_id : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def ReadThreadIdOp : SchedOp<"read_thread_id", [Effects]> {
  let summary = "index of the thread, read again here";
  let description = [{
    The value of `sched.thread_id`, within a role of `sched.thread_id in_role`, but with an effect, so that what is computed from it lives only around its use instead of
    in registers since the start of the kernel.

    ```mlir
    %0 = sched.read_thread_id : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

#endif
