//===- SchedStructure.td - Kernels, roles, tiles of work, loops, messages ---*- tablegen -*-===//
#ifndef ATTUNE_SCHED_STRUCTURE
#define ATTUNE_SCHED_STRUCTURE

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

def KernelOp : SchedOp<"kernel", [IsolatedFromAbove, Symbol, NoTerminator, SingleBlock]> {
  let summary = "a kernel for one GPU architecture, with its block size, occupancy and shared memory";
  let description = [{
    A block has `threads` threads and `shared_bytes` bytes of dynamic shared memory. At least `blocks_per_sm` blocks are
    resident on a multiprocessor of architecture `arch`. Operands, grid, captured tensors and scalars are those of
    `tile.kernel`.

    ```mlir
    sched.kernel @causal(...) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 2 shared_bytes 65536
        dtype bf16 plan <...> { ... }
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
  let summary = "the program of some warps of the block, which run concurrently with the warps of other roles";
  let description = [{
    Roles take the block's warps in program order: the first role has warps 0 to `warps` - 1, the next role the warps
    after these, and so on. With `registers` each thread of the role has that many registers from its start on, and
    `warps` must be a multiple of four (PTX ISA 9.7.19.5, setmaxnreg). `sched.thread_id` counts from the role's first
    thread. The op has the memory effects of its body.

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
  let summary = "elect one lane of the warp: true in this lane, false in the others";
  let description = [{
    The elected lane acts for its warp, for example to start a copy and to announce the bytes of the copy.

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
  let summary = "loop over the tiles of work of a block";
  let description = [{
    A tile of work has a number (i32, unsigned). The body computes the tile's indices along the axes of the kernel's
    grid from the number, and computes the next number; passes/sched/WorkOrder.h writes this arithmetic.

        | order      | tiles of work of a block                                   | arguments of the body                        |
        |------------|------------------------------------------------------------|----------------------------------------------|
        | grid       | one tile, whose number is the index of the block           | the number                                   |
        | persistent | the tiles from number `from` on while the number is        | the number, and the count of earlier tiles   |
        |            | `below` a bound                                            | of this block (i32)                          |
        | received   | the tiles that another role sends, at least one            | the count alone; `sched.receive` reads the   |
        |            |                                                            | tile's indices along the grid's axes         |

    In the orders persistent and received, i32 values may be carried from one tile to the next, and `sched.next` ends
    the body. The first value of `sched.next` is the next tile's number in order persistent; in order received the value
    is 1 if there is another tile, else 0. The op has the memory effects of its body.

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
    /// Block arguments of the values that are carried from one tile of work to the next.
    ::mlir::Block::BlockArgListType getCarried() { return getBody().getArguments().take_back(getInits().size()); }
    /// The sched.next that ends the body if a block computes several tiles of work (orders persistent and received);
    /// null in order grid.
    NextOp getNext();
    /// The next carried values: the operands of the terminator `getNext` without the first.
    ::mlir::OperandRange getNextCarried();
    /// The number of the tile of work; null in order received, where sched.receive reads the tile from a message.
    ::mlir::Value getNumber() { return getOrder() == WorkOrder::Received ? ::mlir::Value() : getBody().getArgument(0); }
    /// The count of earlier tiles of work of this block; not in order grid, where a block computes one tile of work.
    ::mlir::Value getCount() { return getBody().getArgument(getOrder() == WorkOrder::Received ? 0 : 1); }
  }];
}

def ClaimWorkOp : SchedOp<"claim_work", [Effects, HasParent<"ForWorkOp">]> {
  let summary = "claim the next tile of work from a counter in global memory (dynamic tile scheduler)";
  let description = [{
    All lanes of a warp execute the op, in a `sched.for_work` of order persistent. The first lane receives the number of
    the next unclaimed tile, which may be past the last tile; the result is undefined in other lanes. As the op takes a
    round trip to global memory, the number is distributed to the other lanes by a `sched.shuffle` only where it is
    needed. A block does not claim its first tile, which has the number of the block's index. The first element of
    `counter` is the number of claims so far. `counter` is a workspace operand that an earlier kernel of the launch sets
    to 0.

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
  let summary = "index of the block, read from the special register at this point";
  let description = [{
    The result equals `sched.block_id`, but the op has memory effects for the reason given at `sched.read_thread_id`.

    ```mlir
    %0 = sched.read_block_id : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def OpaqueOp : SchedOp<"opaque", [Effects]> {
  let summary = "an identity that hides its operand from the device compiler's CSE";
  let description = [{
    The result equals `value`, but the device compiler cannot know that. If a value that was computed from `value`
    earlier is computed again from the result, the device compiler cannot merge the two computations, and thus need not
    keep the earlier value in a register.

    ```mlir
    %1 = sched.opaque %number : i32
    ```
  }];
  let arguments = (ins I32:$value);
  let results = (outs I32:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def NonnegativeOp : SchedOp<"nonnegative", [Pure]> {
  let summary = "reinterpret an unsigned number below 2^31 as a signed number that is known to be nonnegative";
  let description = [{
    The bits do not change. Arithmetic on numbers of tiles is unsigned, while indices into tensors are signed. From this
    op on the signed index is known not to be negative, and to be less than `below` where this bound is given.

    ```mlir
    %1 = sched.nonnegative %0 : i32
    %2 = sched.nonnegative %0 below 8388608 : i32
    ```
  }];
  let arguments = (ins I32:$value, OptionalAttr<I64Attr>:$below);
  let results = (outs I32:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$value), [{ build($_builder, $_state, value.getType(), value, {}); }]>];
  let assemblyFormat = "$value (`below` $below^)? attr-dict `:` type($result)";
}

def SendOp : SchedOp<"send", [MemoryEffects<[MemWrite]>]> {
  let summary = "write a message of i32 fields to a stage of a shared tile, for the roles that receive it";
  let description = [{
    One thread writes the message, between acquiring and committing a stage of a ring: the full barrier of this stage
    publishes the message. The tile has 2, 4, 8 or 12 fields; fields after the given values are 0.

    ```mlir
    sched.send %next, %partial to %notes[%s] : !tile.tile<stage 2 x message 1 x field 2, i32, shared>
    ```
  }];
  let arguments = (ins Variadic<I32>:$values, TileType:$shared, I32:$stage);
  let assemblyFormat = "$values `to` $shared `[` $stage `]` attr-dict `:` type($shared)";
  let hasVerifier = 1;
}

def ReceiveOp : SchedOp<"receive", [Effects]> {
  let summary = "read the first fields of a message that another role has sent";
  let description = [{
    The results are the values that `sched.send` wrote. Every thread of the role reads the message, between the wait for
    the ring's stage and the release of the stage.

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
    The body takes the carried i32 values (first the index of the tile; then, if the schedule needs them, the indices of
    the following tiles and stages and phases of rings) and, before expansion, carried tiles. `sched.next` yields the
    next values. The results are the final tiles; with `keeps` the final carried i32 values follow. Canonicalisation
    removes a carried i32 other than the index of the tile if it is loop-invariant or if its only use is to compute its
    own next value. The op has the memory effects of its body.

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
    /// The carried i32 values after the loop, which the op returns if it has the attribute `keeps`.
    ::mlir::ValueRange getKept() { return getResults().drop_front(getTiles().size()); }
  }];
}

def NextOp : SchedOp<"next", [Pure, Terminator, ParentOneOf<["ForTilesOp", "ForWorkOp"]>]> {
  let summary = "end the body of a `sched.for_tiles` or `sched.for_work` with the next carried values";
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
  let summary = "search the first visible tile at or after `from`";
  let description = [{
    The region takes the index of a tile and yields whether the tile is visible and whether it is full. The result
    `tile` is the first visible tile with `from <= tile < bound`, or `bound` if there is none. The lanes of a warp test
    32 tiles at a time, one tile in each lane, and all threads get the same results. The region may also be evaluated
    for tiles after the result.

    The search also returns its last window, the 32 tiles from `origin` on, which contains `tile`: bit i of `visible`
    and `full` belongs to tile `origin + i`, and bits of tiles at or past `bound` are 0. Without a visible tile `origin`
    is `bound`. `seen` passes the window of an earlier search (its `origin`, `visible` and `full`), whose tiles are then
    not tested again; a window that does not contain `from` is ignored.

    `without` lists ranges of tiles that are not visible, as pairs of a begin and an exclusive end, in ascending order.

    With `parts` the region also yields, for each part of the rows, whether the tile is visible to the part. For each
    part the search returns the first tile of the window that is visible to the part, or the tile after the window.

    The `groups` region takes the index n of a group, the tiles from `32 * n` to `32 * (n + 1)`, and yields whether any
    of these tiles may be visible. In a long search the lanes first test 32 groups at a time and then skip the tiles of
    groups without a visible tile.

    `sched-expand-searches` replaces the op by a loop.

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
  let summary = "end a region of `sched.next_visible` with the flags of a tile or of a group of tiles";
  let description = [{
    For a tile the flags are whether it is visible, whether it is full, and, with `parts`, whether it is visible to each
    part of the rows. For a group of tiles the only flag is whether any of the tiles may be visible.

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
    Within a `sched.role` the index counts from the role's first thread, and the op has the attribute `in_role`. The
    attribute prevents CSE from merging the op with one outside the role, which has another value.

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
  let summary = "index of the thread, read from the special register at this point";
  let description = [{
    The result equals `sched.thread_id`, or `sched.thread_id in_role` within a role. The op has memory effects, so that
    CSE does not merge it: values computed from the result have short live ranges around their uses and do not occupy
    registers from the start of the kernel on.

    ```mlir
    %0 = sched.read_thread_id : i32
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

#endif
