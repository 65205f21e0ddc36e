//===- SchedOps.td - Ops of the sched dialect --------------------*- tablegen -*-===//
#ifndef ATTUNE_SCHED_OPS
#define ATTUNE_SCHED_OPS

include "ir/sched/SchedDialect.td"
include "ir/tile/TileDialect.td"
include "ir/attn/AttnDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class SchedOp<string mnemonic, list<Trait> traits = []> : Op<SchedDialect, mnemonic, traits>;
def Effects : MemoryEffects<[MemRead, MemWrite]>;

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
    `dtype` $dtype `plan` $plan attr-dict-with-keyword $body
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
  let assemblyFormat = "$name `warps` $warps (`registers` $registers^)? attr-dict-with-keyword $body";
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

def ReadAgainOp : SchedOp<"read_again", [Effects]> {
  let summary = "the same number, which the device compiler takes for another";
  let description = [{
    What is computed from the result is computed here, and not kept from where the same was computed from `value`.

    ```mlir
    %1 = sched.read_again %number : i32
    ```
  }];
  let arguments = (ins I32:$value);
  let results = (outs I32:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def NaturalOp : SchedOp<"natural", [Pure]> {
  let summary = "an unsigned number below 2^31, as a signed one";
  let description = [{
    The bits stay the same. Arithmetic of numbers of tiles is unsigned; places in tensors are signed numbers, of which it is known from here on that they are
    not negative.

    ```mlir
    %1 = sched.natural %0 : i32
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
    carried i32 values follow them, as the last `sched.next` left them.

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

def NextVisibleOp : SchedOp<"next_visible", [Effects, SingleBlock]> {
  let summary = "first tile at or after `from` that is visible, and what is known of those around it";
  let description = [{
    The region says of a tile whether it is visible and whether it is full. `tile` is the first visible one, `from <= tile < bound`, or `bound` when there is none.
    The lanes of a warp look at 32 tiles at a time. All threads get the same values. The region may
    be evaluated for tiles up to the last that is not before `from`.

    The answers for the 32 tiles from `origin` on, `tile` among them, come as bits of `visible` and `full`, which are 0 for tiles from `bound` on; without a visible tile `origin` is
    `bound`. With `seen`, these three results of a search before, the tiles of that window are not asked again; a window that does not hold `from` tells nothing.

    With `parts` the region also says of each part of the rows whether the tile shows it something. The search gives the first such tile of the window for each,
    or the one after the window's last.

    Before `sched-expand-searches`, which makes it a loop.

    ```mlir
    %n, %origin, %visible, %full = sched.next_visible from %a below %end {
    ^bb0(%tile: i32):
      ...
      sched.visible %1, %2
    }
    %n1, %origin1, %visible1, %full1 = sched.next_visible from %b below %end seen %origin, %visible, %full { ... }
    %n2, %origin2, %visible2, %full2, %begins:2 = sched.next_visible from %a below %end parts i32, i32 {
    ^bb0(%tile: i32):
      ...
      sched.visible %1, %2 parts %3, %4
    }
    ```
  }];
  let arguments = (ins I32:$from, I32:$bound, Variadic<I32>:$seen);
  let results = (outs I32:$tile, I32:$origin, I32:$visible, I32:$full, Variadic<I32>:$begins);
  let regions = (region SizedRegion<1>:$condition);
  let assemblyFormat = "`from` $from `below` $bound (`seen` $seen^)? (`parts` type($begins)^)? $condition attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ValueRange getWindow() { return getResults().slice(1, 3); }
  }];
}

def VisibleOp : SchedOp<"visible", [Pure, Terminator, ParentOneOf<["NextVisibleOp"]>]> {
  let summary = "what a `sched.next_visible` asks of a tile: whether it is visible, whether it is full, and to which parts of the rows it is visible";
  let description = [{
    ```mlir
    sched.visible %1, %2
    sched.visible %1, %2 parts %3, %4
    ```
  }];
  let arguments = (ins I1:$visible, I1:$full, Variadic<I1>:$parts);
  let assemblyFormat = "$visible `,` $full (`parts` $parts^)? attr-dict";
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

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

def SliceOp : SchedOp<"slice", [Pure]> {
  let summary = "view without its leading dimensions, at the given indices";
  let description = [{
    The 64-bit offset is computed once.

    ```mlir
    %kh = sched.slice %K[%b, %hk] : !tile.view<4, bf16> -> !tile.view<2, bf16>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices);
  let results = (outs ViewType:$result);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view) `->` type($result)";
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
    `signal` by one thread and the copy engine, for which `limit` is the view's extent.

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

def CopyWindowOp : SchedOp<"copy_window", [Effects, AttrSizedOperandSegments]> {
  let summary = "copy a rectangle of a captured tensor to a stage, and arrive (before expansion)";
  let description = [{
    That of `tile.window`. With `by` one thread and the copy engine copy it, where `sched.is_mapped` holds; without, the role's threads from 64 on,
    element by element with clamped indices, and one of them arrives for all.

    ```mlir
    sched.copy_window %bias[%h, %q0, %k0] to %bs[%slot] signal %br by %bm : ...
    sched.copy_window %bias[%h, %q0, %k0] to %bs[%slot] signal %br : ...
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices, TileType:$shared, I32:$stage, RingType:$ring, Optional<TensorMapType>:$map);
  let assemblyFormat = [{
    $view `[` $indices `]` `to` $shared `[` $stage `]` `signal` $ring (`by` $map^ `:` type($map) `,`):(`:`)? type($view) `,` type($shared) `,`
    type($ring) attr-dict
  }];
}

def StoreTileOp : SchedOp<"store_tile", [Effects]> {
  let summary = "store a tile that the threads of warps hold to a stage (before expansion)";
  let description = [{
    Of one axis, in layout `threads`. The warps follow their role's first.

    ```mlir
    sched.store_tile %t to %ts[%slot] : !tile.tile<distance 191, f32, register, #sched.fragment<threads, warps 3>>, ...
    ```
  }];
  let arguments = (ins TileType:$tile, TileType:$shared, I32:$stage);
  let assemblyFormat = "$tile `to` $shared `[` $stage `]` attr-dict `:` type($tile) `,` type($shared)";
  let hasVerifier = 1;
}

def CopyAsyncOp : SchedOp<"copy_async", [Effects]> {
  let summary = "start the asynchronous copy of 16 bytes from global to shared memory";
  let description = [{
    `view[view_row, column]` and on to `shared[stage, row, column]` and on; zeros where `valid` is false, and then
    nothing is read. PTX ISA 9.7.9.25.3, cp.async.cg with src-size.

    ```mlir
    sched.copy_async %kh[%r, %c] to %ring[%s, %row] if %valid : ...
    ```
  }];
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
  let summary = "show initialised barriers to the copy engine";
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

def WaitLaunchOp : SchedOp<"wait_launch", [Effects, HasParent<"KernelOp">]> {
  let summary = "wait until the kernel before this one has ended";
  let description = [{
    The one in front of it in its `tile.launch`, beside which a kernel with this op may start (programmatic dependent launch): all threads wait here, and what reads what the other writes, claims work or writes to global memory follows. PTX ISA 9.7.13.13,
    griddepcontrol.wait.

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
// The copy engine (TMA)
//===----------------------------------------------------------------------===//

def TensorMapOp : SchedOp<"tensor_map", [Pure]> {
  let summary = "the launch's description of a view for the copy engine";
  let description = [{
    Boxes of the view's last two dimensions; one of fewer than four counts as having leading dimensions of extent 1. The kernel takes the
    description as a parameter, which the launch makes from the view's address, strides and extents; `swizzle` is that of the shared tiles that it serves. Elements outside the view are zero
    when read and left out when written. PTX ISA 5.5.8, tensor maps.

    ```mlir
    %m = sched.tensor_map %K swizzle <128> : !tile.view<4, bf16> -> !sched.tensor_map<64 x 64, bf16>
    ```
  }];
  let arguments = (ins ViewType:$view, SwizzleAttr:$swizzle);
  let results = (outs TensorMapType:$result);
  let assemblyFormat = "$view `swizzle` $swizzle attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def IsMappedOp : SchedOp<"is_mapped", [Pure]> {
  let summary = "whether the launch has described a view to the copy engine";
  let description = [{
    Always, for an operand. For a captured tensor, where its columns lie side by side, its address and its other strides are multiples of 16
    bytes, and its last two dimensions cover the launch's queries, from the first one's position on, and keys: a box then holds at each query
    and key of the sequence what a single load would.

    ```mlir
    %0 = sched.is_mapped %m : !sched.tensor_map<128 x 64, bf16>
    ```
  }];
  let arguments = (ins TensorMapType:$map);
  let results = (outs I1:$result);
  let assemblyFormat = "$map attr-dict `:` type($map)";
}

def LoadBoxOp : SchedOp<"load_box", [Effects]> {
  let summary = "start the copy of one box to shared memory, which completes on a ring's stage";
  let description = [{
    The box at `map[batch, head, row, column]` goes to the panel of `shared[stage]` that starts at `column`; with `from` that is the tensor's
    column. One thread executes it. PTX ISA 9.7.9.25.5.2, cp.async.bulk.tensor.

    ```mlir
    sched.load_box %m[%b, %h, %row, %c] to %ks[%stage] signal %kr : ...
    sched.load_box %m[%b, %h, %row, %c] from %k to %bs[%stage] signal %br : ...
    ```
  }];
  let arguments = (ins TensorMapType:$map, I32:$batch, I32:$head, I32:$row, I32:$column, TileType:$shared, I32:$stage,
                       RingType:$ring, Optional<I32>:$tensor_column);
  let assemblyFormat = [{
    $map `[` $batch `,` $head `,` $row `,` $column `]` (`from` $tensor_column^)? `to` $shared `[` $stage `]` `signal` $ring attr-dict
    `:` type($map) `,` type($shared) `,` type($ring)
  }];
  let hasVerifier = 1;
}

def StoreBoxOp : SchedOp<"store_box", [Effects]> {
  let summary = "start the copy of one box from shared memory";
  let description = [{
    The rows from `shared_row` on of the panel of `shared[stage]` that starts at `column` go to `map[batch, head, row, column]`. One
    thread executes it, after a `sched.fence_async` of each thread that wrote. PTX ISA 9.7.9.25.5.2, cp.async.bulk.tensor.

    ```mlir
    sched.store_box %os[%stage, %r] to %m[%b, %h, %row, %c] : ...
    ```
  }];
  let arguments = (ins TileType:$shared, I32:$stage, I32:$shared_row, TensorMapType:$map, I32:$batch, I32:$head, I32:$row, I32:$column);
  let assemblyFormat = [{
    $shared `[` $stage `,` $shared_row `]` `to` $map `[` $batch `,` $head `,` $row `,` $column `]` attr-dict
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
  let summary = "show the thread's stores to shared memory to the copy engine and the tensor cores";
  let description = [{
    PTX ISA 9.7.13.4, fence.proxy.async.

    ```mlir
    sched.fence_async
    ```
  }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Fragments and matrix instructions
//===----------------------------------------------------------------------===//

def LoadMatrixOp : SchedOp<"load_matrix", [Effects, AttrSizedOperandSegments]> {
  let summary = "four 8 x 8 matrices from shared memory into four registers";
  let description = [{
    Each lane gives the address of one row: `shared[stage, row + row_step, column + column_step]`; registers `fragment[i, j, ...]`
    onward receive the matrices. Steps are multiples of 16, the same in all lanes, and let the address be the lane's own
    plus a constant: `row` and `column` then hold what differs from lane to lane (row below 16 but for multiples of 16, column
    0 or 8 but for whole panels), so that a step moves the swizzled chunk by an exclusive or. PTX ISA 9.7.14.5.15,
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

def StoreSharedOp : SchedOp<"store_shared", [MemoryEffects<[MemWrite]>]> {
  let summary = "four bytes to shared memory";
  let description = [{
    An f32 or i32 element, or a packed pair of 16-bit elements (i32) at an even column. A tile of one axis has one row.

    ```mlir
    sched.store_shared %pair, %o[%s, %row, %col] : i32, !tile.tile<...>
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, I32]>:$value, TileType:$shared, I32:$stage, I32:$row, I32:$column);
  let assemblyFormat = "$value `,` $shared `[` $stage `,` $row `,` $column `]` attr-dict `:` type($value) `,` type($shared)";
}

def StoreMatrixOp : SchedOp<"store_matrix", [MemoryEffects<[MemWrite]>]> {
  let summary = "four 8 x 8 matrices of 16-bit elements from registers to shared memory";
  let description = [{
    Lane l gives the place of row l % 8 of matrix l / 8, and holds of each matrix the pair at row l / 4, columns 2 (l % 4) and + 1.
    PTX ISA 9.7.14.5.16, stmatrix.

    ```mlir
    sched.store_matrix %a, %b, %c, %d to %o[%s, %row, %col] : !tile.tile<...>
    ```
  }];
  let arguments = (ins I32:$first, I32:$second, I32:$third, I32:$fourth, TileType:$shared, I32:$stage, I32:$row, I32:$column);
  let assemblyFormat = "$first `,` $second `,` $third `,` $fourth `to` $shared `[` $stage `,` $row `,` $column `]` attr-dict `:` type($shared)";
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
    `low` in bits 0 to 15. PTX ISA 9.7.9.21, cvt.rn.bf16x2.f32 or cvt.rn.f16x2.f32.

    ```mlir
    %0 = sched.pack %a, %b : bf16
    ```
  }];
  let arguments = (ins F32:$low, F32:$high, TypeAttr:$type);
  let results = (outs I32:$result);
  let assemblyFormat = "$low `,` $high `:` $type attr-dict";
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

def BehindOp : SchedOp<"behind", [Pure]> {
  let summary = "a value that the device compiler takes to follow from another one too";
  let description = [{
    The value is `value`. What is computed from it is not issued before `first` is there: a device compiler otherwise orders what does not depend on each other as it
    likes, by its own idea of what each instruction costs.

    ```mlir
    %0 = sched.behind %value, %first
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
    For the warpgroup's 64 rows and all columns of `acc`, 16 of the contracted axis:
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
