//===- TileOps.td - Ops of the tile dialect ----------------------*- tablegen -*-===//
#ifndef ATTUNE_TILE_OPS
#define ATTUNE_TILE_OPS

include "ir/tile/TileDialect.td"
include "ir/attn/AttnDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class TileOp<string mnemonic, list<Trait> traits = []> : Op<TileDialect, mnemonic, traits>;
def TileScalar : AnyTypeOf<[F32, I32, I64, I1]>;

def KernelOp : TileOp<"kernel", [IsolatedFromAbove, Symbol, NoTerminator, SingleBlock]> {
  let summary = "the work of one block"; 
  let description = [{
    There is a block for each point of the `grid`: a tile of each of its axes, of which the last counts fastest. The operands, captured tensors and run-time scalars, in the order of a launch's parameters, stand on the op; the body reads their
    values by `tile.param`. The `dtype` is that of the results' accuracy; the plan is the tiling and schedule that later passes follow.

    ```mlir
    tile.kernel @causal(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, v: in [b, hkv, k, dv 64] bf16,
                        o: out [b, h, q, dv 64] bf16, lse: optional out [b, h, q] f32)
        grid [b, h, q by 128] dtype bf16 plan <tile_q = 128, ...> { ... }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<OperandAttr, "operands">:$operands, TypedArrayAttrBase<AxisAttr, "axes">:$grid,
                       TypeAttr:$dtype, PlanAttr:$plan,
                       DefaultValuedAttr<TypedArrayAttrBase<CapturedTensorAttr, "tensors">, "{}">:$tensors,
                       DefaultValuedAttr<TypedArrayAttrBase<RuntimeScalarAttr, "scalars">, "{}">:$scalars,
                       OptionalAttr<BlockPatternAttr>:$pattern,
                       UnitAttr:$dropout, UnitAttr:$precise, UnitAttr:$q_offset);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `` custom<Operands>($operands) `grid` custom<Grid>($grid) `dtype` $dtype `plan` $plan attr-dict-with-keyword custom<Body>($body)
  }];
  let hasVerifier = 1;
}

def LaunchOp : TileOp<"launch", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the kernels of a module, in the order in which a launch starts them";
  let description = [{
    All take the same parameters: operands, captured tensors and scalars of one name are one. A `dependent` kernel may start before the one in front of
    it has ended, and waits for it itself where it needs its results. The `workspace` operands of all lie in the launch's workspace. A module of one
    kernel needs no `tile.launch`; one without a name is called after its last kernel.

    One with `tile.fallback_of = @other` starts in the place of @other where the launch cannot make a tensor map that @other reads a captured tensor by.

    ```mlir
    tile.launch @split_keys [@partial, @combine dependent]
    tile.launch [@documents_bounds, @documents dependent]
    tile.launch [@bias_elements, @bias]
    ```
  }];
  let arguments = (ins OptionalAttr<SymbolNameAttr>:$sym_name, TypedArrayAttrBase<FlatSymbolRefAttr, "kernels">:$kernels, DenseBoolArrayAttr:$dependent);
  let assemblyFormat = "($sym_name^)? custom<Kernels>($kernels, $dependent) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static bool isOptionalSymbol() { return true; }
    /// The launch's name, or that of its last kernel.
    ::llvm::StringRef getTitle();
  }];
}

def ParamOp : TileOp<"param", [Pure]> {
  let summary = "a launch parameter by name";
  let description = [{
    Views: the kernel's operands by their names, and captured tensors as `tensors.NAME`. Scalars: run-time scalars as
    `scalars.NAME`, and what every launch has: i32 `group` (query heads for each key head) `q_offset` `drop_threshold`, f32 `keep_scale`, i64 `seed`
    `offset`.

    ```mlir
    %0 = tile.param "k" : !tile.view<4, bf16>
    %1 = tile.param "tensors.slopes" : !tile.view<1, f32>
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyTypeOf<[ViewType, TileScalar]>:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The name without the prefix of captured tensors and scalars.
    ::llvm::StringRef getOwnName();
  }];
}

def GroupRowsOp : TileOp<"group_rows", [Pure, AllTypesMatch<["view", "result"]>]> {
  let summary = "the queries of all query heads of a key head as rows of one view";
  let description = [{
    Of a view of [b, h, q, ...] the result is one of [b, hkv, row, ...]:

        result[b, hkv, r, ...] = view[b, hkv * group + r % group, r / group, ...]

    A tile of few queries so has a row for each query head that reads the same keys. What is read are tiles in registers or copied row by row to shared memory, what is written tiles in registers.

    ```mlir
    %rows = tile.group_rows %Q by %group : !tile.view<4, bf16>
    %q = tile.load %rows[%b, %kv_head, %row0] limit %row : !tile.view<4, bf16> -> !tile.tile<q 64 x d 128, f32, register>
    ```
  }];
  let arguments = (ins ViewType:$view, I32:$group);
  let results = (outs ViewType:$result);
  let assemblyFormat = "$view `by` $group attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def PagedRowsOp : TileOp<"paged_rows", [Pure, AllTypesMatch<["view", "result"]>]> {
  let summary = "the rows of sequences that lie in pages as those of one view";
  let description = [{
    Of a view of pages [page, h, slot, ...], of `size` slots each, and a table of their numbers the result is one of [b, h, row, ...]:

        result[b, h, r, ...] = view[table[b, r / size], h, r % size, ...]

    A number out of range counts as the nearest page, a column beyond the table as its last. Tiles are read of it, not written.

    ```mlir
    %keys = tile.paged_rows %K by %table size 64 : !tile.view<4, bf16>, !tile.view<2, i32>
    %k = tile.load %keys[%b, %kv_head, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 128 x d 128, bf16, shared>
    ```
  }];
  let arguments = (ins ViewType:$view, ViewType:$table, ConfinedAttr<I64Attr, [IntPositive]>:$size);
  let results = (outs ViewType:$result);
  let assemblyFormat = "$view `by` $table `size` $size attr-dict `:` type($view) `,` type($table)";
  let hasVerifier = 1;
}

def AxisExtentOp : TileOp<"axis_extent", [Pure]> {
  let summary = "the extent of an axis in this launch";
  let description = [{
    An axis without a fixed extent that an operand of the kernel has.

    ```mlir
    %Sk = tile.axis_extent "k" : i32
    ```
  }];
  let arguments = (ins StrAttr:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def BlockIndexOp : TileOp<"block_index", [Pure]> {
  let summary = "where the block's tile starts along an axis of the grid";
  let description = [{
    A multiple of what the grid counts the axis by.

    ```mlir
    %q0 = tile.block_index "q" : i32
    ```
  }];
  let arguments = (ins StrAttr:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Which of the grid's axes it is.
    unsigned getPosition();
  }];
}

def WarpgroupRowOp : TileOp<"warpgroup_row", [Pure]> {
  let summary = "first query row of the part of the tile that a group of warps holds";
  let description = [{
    The queries of the tile that starts at `origin` are held in parts of `rows` by groups of warps, each of which runs the loop over keys by itself. What follows
    from this row is a number of the group: it may decide when a `tile.map` is done, and which tiles of keys the group visits. The row may lie at or
    past Sq.

    ```mlir
    %row = tile.warpgroup_row %q0 by 64 : i32
    ```
  }];
  let arguments = (ins I32:$origin, ConfinedAttr<I64Attr, [IntPositive]>:$rows);
  let results = (outs I32:$result);
  let assemblyFormat = "$origin `by` $rows attr-dict `:` type($result)";
}

def DomainOp : TileOp<"domain", [Pure, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "the tiles along an axis that a loop visits";
  let description = [{
    Ordered segments of tile indices `[begin, end)`; tile `n` covers rows `n * step` to `(n + 1) * step`. In a tile of a `partial`
    segment the maps that are `only_if` the loop's partial flag decide; in a `full` one they would hide nothing. Empty segments
    (begin >= end) are skipped. The region of `where` takes the index of one of the segments' tiles and says whether it is visited,
    and whether it is full where its segment is; it has no effects, and is asked in any order and as often as one likes. That of
    `groups` takes the index of a group, tiles `32 * n` to `32 * (n + 1)`, and says whether any of them may be visited: whoever
    searches may leave out all of a group for which it says no, and any program may go without it. `reverse` visits the last tile
    first. With `times` the segments are visited so many times over, in rounds: a tile of keys meets the tiles of queries of each
    head of its group. Regions that take the round, too, say of each round which tiles it visits.

    ```mlir
    %dom = tile.domain k by 64 [%a, %b) partial [%b, %c) full [%c, %d) partial
    %of_heads = tile.domain q by 64 [%a, %b) full times %group
    %by_head = tile.domain q by 64 [%a, %b) full times %group where {
    ^bb0(%n: i32, %round: i32):
      ...
      tile.yield %visible, %full : i1, i1
    }
    %sparse = tile.domain k by 64 [%a, %b) full where {
    ^bb0(%n: i32):
      ...
      tile.yield %visible, %full : i1, i1
    } groups {
    ^bb0(%group: i32):
      ...
      tile.yield %any : i1
    }
    ```
  }];
  let arguments = (ins StrAttr:$axis, I64Attr:$step, Variadic<I32>:$begins, Variadic<I32>:$ends, Optional<I32>:$times,
                       DenseBoolArrayAttr:$full, UnitAttr:$reverse);
  let results = (outs DomainType:$result);
  let regions = (region MaxSizedRegion<1>:$where, MaxSizedRegion<1>:$groups);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  /// One segment, full.
  let builders = [OpBuilder<(ins "::llvm::StringRef":$axis, "int64_t":$step, "::mlir::Value":$begin, "::mlir::Value":$end)>];
  let extraClassDeclaration = [{
    /// Tiles of a group: as many as the lanes of a warp ask for at a time.
    static constexpr int64_t groupTiles = 32;
    /// What the region yields of a tile; null without a region.
    ::mlir::Value getVisible();
    ::mlir::Value getFullWhere();
    /// What the region yields of a group; null without a region.
    ::mlir::Value getAnyVisible();
    /// Whether some tiles of the segments may be left out.
    bool skips();
    /// Whether a region takes the round.
    bool takesIteration();
  }];
}

def FirstVisibleOp : TileOp<"first_visible", [Pure]> {
  let summary = "index of the first tile that a domain visits; the end of its last segment where it visits none";
  let description = [{
    ```mlir
    %own = tile.domain k by 64 [%a, %b) partial where { ... }
    %begin = tile.first_visible %own : i32
    tile.for_blocks (%k0, %partial) in %dom within [%begin, %end) { ... }
    ```
  }];
  let arguments = (ins DomainType:$domain);
  let results = (outs I32:$result);
  let assemblyFormat = "$domain attr-dict `:` type($result)";
}

def TouchesOp : TileOp<"touches", [Pure]> {
  let summary = "whether a tile touches a set block of a block pattern";
  let description = [{
    The last two indices are the tile's first row and key, multiples of its sides: its `tile_rows` rows and `tile_columns` keys touch blocks of `rows` x
    `columns`, each with a flag in the view's last two dimensions. Blocks beyond the view count as not set.

    ```mlir
    %0 = tile.touches %pattern[%h, %q0, %k0] tile 128 x 64 blocks 64 x 64 : !tile.view<3, i8>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices, I64Attr:$tile_rows, I64Attr:$tile_columns, I64Attr:$rows,
                       I64Attr:$columns);
  let results = (outs I1:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` `tile` $tile_rows `x` $tile_columns `blocks` $rows `x` $columns attr-dict `:` type($view)
  }];
  let hasVerifier = 1;
}

def ForBlocksOp : TileOp<"for_blocks", [SingleBlockImplicitTerminator<"YieldOp">, AttrSizedOperandSegments, RecursiveMemoryEffects]> {
  let summary = "loop over the tiles of a domain";
  let description = [{
    The body takes the tile's first row (i32), whether the tile is partial (i1), the round (i32) where the domain has rounds, and
    the values carried from tile to tile; it yields their next values. Tiles outside `within`, two tile indices, show no key to the rows of a part (`tile.warpgroup_row`), and are nothing to it.

    ```mlir
    %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%m = %m0 : !tile.tile<q 128, f32, register>) { ... }
    tile.for_blocks (%k0, %partial) in %dom within [%begin, %end) { ... }
    tile.for_blocks (%q0, %partial, %round) in %of_heads { ... }
    ```
  }];
  let arguments = (ins DomainType:$domain, Variadic<I32>:$within, Variadic<AnyType>:$inits);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$domain, "::mlir::ValueRange":$within, "::mlir::ValueRange":$inits)>];
  let extraClassDeclaration = [{
    ::mlir::Value getOrigin() { return getBody().getArgument(0); }
    ::mlir::Value getPartial() { return getBody().getArgument(1); }
    /// Which round of the domain it is; null where the domain has none.
    ::mlir::Value getIteration();
    ::mlir::ValueRange getCarried();
    YieldOp getYield();
  }];
}

def LoadOp : TileOp<"load", [Pure]> {
  let summary = "tile of a view, zero outside it";
  let description = [{
    Rows `row .. row + size` of `view[indices...]`, where the last index is the first row of the tile's first axis and
    the tile's second axis covers the view's last dimension from 0. Rows at or beyond `limit` and columns beyond
    the view's last extent are zero and are not read.

    ```mlir
    %k = tile.load %K[%b, %hk, %k0] limit %Sk : !tile.view<4, bf16> -> !tile.tile<k 64 x d 128, bf16, shared>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices, I32:$limit);
  let results = (outs TileType:$result);
  let assemblyFormat = "$view `[` $indices `]` `limit` $limit attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def WindowOp : TileOp<"window", [Pure]> {
  let summary = "rectangle of a captured tensor, limited to its extents";
  let description = [{
    Element (i, j) is `view[leading..., row + i, column + j]`, where `indices` are the leading ones, row and column; each is clamped to the
    view's extents first, as in `tile.element`.

    ```mlir
    %w = tile.window %bias[%h, %q0, %k0] : !tile.view<3, bf16> -> !tile.tile<q 128 x k 64, bf16, shared>
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<I32>:$indices);
  let results = (outs TileType:$result);
  let assemblyFormat = "$view `[` $indices `]` attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}

def StoreOp : TileOp<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "write a tile's rows below a limit to a view";
  let description = [{
    The inverse of `tile.load`; f32 tiles are rounded to the view's element type. With `optional`, a view whose
    address is null is left alone.

    ```mlir
    tile.store %o, %O[%b, %h, %q0] limit %Sq : !tile.tile<q 128 x dv 64, f32, register>, !tile.view<4, bf16>
    ```
  }];
  let arguments = (ins TileType:$tile, ViewType:$view, Variadic<I32>:$indices, I32:$limit, UnitAttr:$optional);
  let assemblyFormat = [{
    $tile `,` $view `[` $indices `]` `limit` $limit (`optional` $optional^)? attr-dict `:` type($tile) `,` type($view)
  }];
  let hasVerifier = 1;
}

def AccumulateOp : TileOp<"accumulate", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "add a tile's rows below a limit to a float32 view";
  let description = [{
    Adds atomically, element by element; the order of the additions is not defined. From registers by vector reductions, from shared memory, as
    `tile.convert` leaves a tile there, by bulk reductions of whole rows, where the architecture has them (sm_90 and above).

    ```mlir
    tile.accumulate %dq, %DQ[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 64, f32, register>, !tile.view<4, f32>
    ```
  }];
  let arguments = (ins TileType:$tile, ViewType:$view, Variadic<I32>:$indices, I32:$limit);
  let assemblyFormat = "$tile `,` $view `[` $indices `]` `limit` $limit attr-dict `:` type($tile) `,` type($view)";
  let hasVerifier = 1;
}

def ScatterOp : TileOp<"scatter", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "write or add each element of a tile to a place of its own";
  let description = [{
    `view[indices...]` becomes an element of the tile, or, with `add`, grows by it: one index for each dimension of the view: a number, a tile with the axes of
    the tile that holds one for each element, or a vector along one of the axes. An element of which an index is negative, or not below the view's extent, goes nowhere. Additions are atomic, of f32 to f32
    views, whose order is not defined, and of i32 to i64 views, which wrap around and are the same in any order; without `add` no two elements may have one place.
    `merge` says that neighbours often have one place: a warp whose sums of diagonals all go to one adds them up first.
    A tile of bf16 or f16 in shared memory goes to a view of the same as it is.

    ```mlir
    tile.scatter %ds, %bias[%h, %rows, %keys] : !tile.tile<q 64 x k 64, f32, register>, !tile.view<3, bf16> (i32, !tile.tile<q 64 x k 64, i32, register>, !tile.tile<q 64 x k 64, i32, register>)
    tile.scatter add %ds, %table[%h, %bucket] : !tile.tile<q 64 x k 64, f32, register>, !tile.view<2, f32> (i32, !tile.tile<q 64 x k 64, i32, register>)
    tile.scatter add merge %sums, %table[%h, %buckets] : !tile.tile<part 4 x distance 80, f32, register>, !tile.view<2, f32> (i32, !tile.tile<part 4 x distance 80, i32, register>)
    tile.scatter add %hits, %counts[%bucket] : !tile.tile<q 64 x k 64, i32, register>, !tile.view<1, i64> (!tile.tile<q 64 x k 64, i32, register>)
    ```
  }];
  let arguments = (ins TileType:$tile, ViewType:$view, Variadic<AnyTypeOf<[I32, TileType]>>:$indices, UnitAttr:$add, UnitAttr:$merge);
  let builders = [OpBuilder<(ins "::mlir::Value":$tile, "::mlir::Value":$view, "::mlir::ValueRange":$indices, "bool":$add), [{
    build($_builder, $_state, tile, view, indices, add, /*merge=*/false);
  }]>];
  let assemblyFormat = [{
    (`add` $add^)? (`merge` $merge^)? $tile `,` $view `[` $indices `]` attr-dict `:` type($tile) `,` type($view) `(` type($indices) `)`
  }];
  let hasVerifier = 1;
}

def SplatOp : TileOp<"splat", [Pure]> {
  let summary = "tile whose elements are one scalar";
  let description = [{
    ```mlir
    %m = tile.splat %c : f32 -> !tile.tile<q 128, f32, register>
    ```
  }];
  let arguments = (ins TileScalar:$value);
  let results = (outs TileType:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def ConvertOp : TileOp<"convert", [Pure]> {
  let summary = "the same tile in another element type, memory space or layout";
  let description = [{
    Floats are rounded to nearest even. Same axes and sizes, of two axes in either order. In a loop, what becomes shared is staged: with producer warps, computed by one of
    them ahead of those that read it. With `relu`, floats below 0 become 0 and NaN stays: of what is packed to 16 bits in a left operand's fragment.

    ```mlir
    %pa = tile.convert %p : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, bf16, register>
    ```
  }];
  let arguments = (ins TileType:$tile, UnitAttr:$relu);
  let results = (outs TileType:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$tile), [{ build($_builder, $_state, result, tile, false); }]>];
  let assemblyFormat = "$tile (`relu` $relu^)? attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

def ScaleOp : TileOp<"scale", [Pure, SameOperandsAndResultType]> {
  let summary = "a shared tile times a power of two";
  let description = [{
    Of bf16 elements, whose products with powers of two are exact as long as these are not subnormal. Nothing else reads the tile: the product
    takes its place in memory.

    ```mlir
    %eighth = tile.scale %q exponent -3 : !tile.tile<q 128 x d 64, bf16, shared>
    ```
  }];
  let arguments = (ins TileType:$tile, ConfinedAttr<I64Attr, [IntMinValue<-126>, IntMaxValue<126>]>:$exponent);
  let results = (outs TileType:$result);
  let assemblyFormat = "$tile `exponent` $exponent attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

def MmaOp : TileOp<"mma", [Pure]> {
  let summary = "matrix product over the axis that both operands share";
  let description = [{
    `result[x, y] = acc[x, y] + sum_z a[x, z] * b[y, z]`: axes are matched by name, so the order of the axes in
    memory does not matter. Accumulates in float32.

    ```mlir
    %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
    %o = tile.mma %p, %v add %acc : !tile.tile<q 128 x dv 64, f32, register>, !tile.tile<q 128 x k 64, bf16, register>, !tile.tile<k 64 x dv 64, bf16, shared> -> !tile.tile<q 128 x dv 64, f32, register>
    ```
  }];
  let arguments = (ins TileType:$lhs, TileType:$rhs, Optional<TileType>:$acc);
  let results = (outs TileType:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`add` $acc^ `:` type($acc) `,`):(`:`)? type($lhs) `,` type($rhs) `->` type($result) attr-dict
  }];
  let hasVerifier = 1;
}

def MapOp : TileOp<"map", [SingleBlockImplicitTerminator<"YieldOp">, AttrSizedOperandSegments, RecursiveMemoryEffects]> {
  let summary = "tile computed element by element";
  let description = [{
    For each element of the result the region takes the inputs' elements at the same named coordinates (an input may
    lack axes of the result: it is broadcast), then one value for each entry of `at`: the coordinate along that
    axis, counted from the given origin, as i32 or, with an origin of f32, as f32 (an axis may have both). With `only_if` and a
    false flag the result is the first input unchanged; a vector without inputs then holds nothing, and only maps under the same flag take it.
    With `columns` the same holds of the other columns of a tile of two axes: multiples of 16, from one to before the other. A `{interleaved}` map's special function is not
    computed of 16 columns before the first element of the 16 before them is there.

    Elements of 16 bits in shared memory widen to f32.

    An input whose one axis is `distance` holds a value for each distance between a row and a key of a q x k tile, from the least on:
    row i and key j read its element i - j + k - 1 of q + k - 1.

        q 3 x k 3     j 0  1  2
                i 0   [2][1][0]
                i 1   [3][2][1]
                i 2   [4][3][2]

    ```mlir
    %y = tile.map(%x, %r : !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128, f32, register>)
           at(q = %q0, k = %k0, k = %distance : f32) only_if %partial -> !tile.tile<q 128 x k 64, f32, register> {
    ^bb0(%x1: f32, %r1: f32, %q: i32, %k: i32, %d: f32):
      ...
      tile.yield %2 : f32
    }
    %t = tile.map() at(distance = %first) -> !tile.tile<distance 191, f32, register> { ... }
    %c = tile.map() at(k = %k0) only_if %partial -> !tile.tile<k 64, i32, register> { ... }
    %h = tile.map(%x, %r : ...) columns 0 to 32 -> !tile.tile<q 128 x k 64, f32, register> { ... }
    ```
  }];
  let arguments = (ins Variadic<TileType>:$inputs, Variadic<AnyTypeOf<[I32, F32]>>:$origins, StrArrayAttr:$axes, Optional<I1>:$only_if,
      OptionalAttr<DenseI64ArrayAttr>:$columns, UnitAttr:$interleaved);
  let results = (outs TileType:$result);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasFolder = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::ValueRange":$inputs,
      "::llvm::ArrayRef<std::pair<::llvm::StringRef, ::mlir::Value>>":$coordinates, CArg<"::mlir::Value", "{}">:$onlyIf)>];
  let extraClassDeclaration = [{
    /// Whether the region says all elements of the result.
    bool isWhole() { return !getOnlyIf() && !getColumns(); }
    /// Region argument of input `i`, and of the i32 coordinate along `axis` (null when not taken).
    ::mlir::BlockArgument getElement(unsigned i) { return getBody().getArgument(i); }
    ::mlir::BlockArgument getCoordinate(::llvm::StringRef axis);
    /// The origin of a coordinate of the region.
    ::mlir::Value originOf(::mlir::BlockArgument coordinate) {
      return getOrigins()[coordinate.getArgNumber() - getInputs().size()];
    }
    /// A new coordinate of the region along `axis`, counted from `origin`.
    ::mlir::BlockArgument addCoordinate(::llvm::StringRef axis, ::mlir::Value origin);
    /// A new last input, and the region argument of its element, of type `element`.
    ::mlir::BlockArgument addInput(::mlir::Value input, ::mlir::Type element);
    YieldOp getYield();
  }];
}

def MulFiniteOp : TileOp<"mul_finite", [Pure]> {
  let summary = "product of two floats that does not overflow";
  let description = [{
    The greatest finite float of its sign where both factors are finite and their product is beyond; else the product, rounded to a neighbour. (On a GPU it is rounded toward
    zero, which is one instruction.)

    ```mlir
    %0 = tile.mul_finite %a, %b
    ```
  }];
  let arguments = (ins F32:$lhs, F32:$rhs);
  let results = (outs F32:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict";
}

def AnyOp : TileOp<"any", [SingleBlockImplicitTerminator<"YieldOp">, RecursiveMemoryEffects]> {
  let summary = "whether an element meets a condition, agreed by those that share its tile's rows";
  let description = [{
    The region takes an element and yields i1. Uniform over a warp: true in every lane of a warp if it is true for an element
    that one of them holds. Other warps may differ. On the CPU, over the whole tile.

    ```mlir
    %f = tile.any %alpha : !tile.tile<q 128, f32, register> {
    ^bb0(%a: f32):
      %0 = arith.cmpf une, %a, %one : f32
      tile.yield %0 : i1
    }
    ```
  }];
  let arguments = (ins TileType:$tile);
  let results = (outs I1:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$tile `:` type($tile) custom<Body>($body) attr-dict";
  let hasVerifier = 1;
}

def Reduction : I32EnumAttr<"Reduction", "how elements combine",
    [I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Min", 1, "min">, I32EnumAttrCase<"Sum", 2, "sum">]> {
  let cppNamespace = "::attune::tile";
  let genSpecializedAttr = 0;
}
def ReductionAttr : EnumAttr<TileDialect, Reduction, "reduction">;

def ReduceOp : TileOp<"reduce", [Pure]> {
  let summary = "combine the elements along one axis";
  let description = [{
    `result[x] = init[x] op (op over axis of tile[x, .])`, of floats or signed integers. `max` and `min` ignore NaN. With `per_lane` the result stays split
    over the lanes that share a row: each holds its own part, `init` is added to the part of the lane that holds it,
    and a later `tile.combine_lanes` completes the reduction.

    ```mlir
    %m1 = tile.reduce max %y over "k" init %m : !tile.tile<q 128, f32, register>, !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register>
    ```
  }];
  let arguments = (ins ReductionAttr:$kind, TileType:$tile, StrAttr:$axis, Optional<TileType>:$init, UnitAttr:$per_lane);
  let results = (outs TileType:$result);
  let assemblyFormat = [{
    $kind $tile `over` $axis (`init` $init^ `:` type($init) `,`):(`:`)? type($tile) `->` type($result) (`per_lane` $per_lane^)? attr-dict
  }];
  let hasVerifier = 1;
}

def SumDiagonalsOp : TileOp<"sum_diagonals", [Pure]> {
  let summary = "the sums along the diagonals of a tile, part by part of its rows";
  let description = [{
    Of a float32 tile of rows and C columns, whose rows are split into P equal parts of R: element [p, e] of the result is the sum of all
    `tile[p R + r, c]` with `r - c = e - C`, in no defined order; the first of each part is 0. A part is what one warp holds of an accumulator, whose lanes add up
    what they hold; `tile-assign-layouts` refuses other parts.

    ```mlir
    %sums = tile.sum_diagonals %ds : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<part 8 x distance 80, f32, register>
    ```
  }];
  let arguments = (ins TileType:$tile);
  let results = (outs TileType:$result);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($result)";
  let hasVerifier = 1;
}

def CombineLanesOp : TileOp<"combine_lanes", [Pure, SameOperandsAndResultType]> {
  let summary = "complete a reduction that `tile.reduce ... per_lane` left split over lanes";
  let description = [{
    The identity where one element has one holder, as on the CPU.

    ```mlir
    %l = tile.combine_lanes sum %part : !tile.tile<q 128, f32, register>
    ```
  }];
  let arguments = (ins ReductionAttr:$kind, TileType:$tile);
  let results = (outs TileType:$result);
  let assemblyFormat = "$kind $tile attr-dict `:` type($result)";
}

def LoadBlocksOp : TileOp<"load_blocks", [MemoryEffects<[MemRead]>]> {
  let summary = "tile of queries and keys that `tile.store_blocks` has left in a view";
  let description = [{
    Zero where the view has no block. In either order of the axes.

    ```mlir
    %x = tile.load_blocks %saved[%b, %h, %q0, %k0] : !tile.view<5, f32> -> !tile.tile<q 128 x k 64, f32, register>
    ```
  }];
  let arguments = (ins ViewType:$view, I32:$b, I32:$h, I32:$q0, I32:$k0);
  let results = (outs TileType:$result);
  let assemblyFormat = "$view `[` $b `,` $h `,` $q0 `,` $k0 `]` attr-dict `:` type($view) `->` type($result)";
  let hasVerifier = 1;
}
def StoreBlocksOp : TileOp<"store_blocks", [MemoryEffects<[MemWrite]>]> {
  let summary = "write a tile of queries and keys to a view of blocks";
  let description = [{
    The view is [b, h, q by 16, k by 16, n]: blocks of 16 x 16 elements, each in one piece, in the order in which the lanes of a matrix instruction's
    accumulator hold them. Element (q, k) of a block is that of lane and place

        lane  = 4 (q & 7) + ((k & 7) >> 1)          place = 4 (k & 1) + 2 (k >> 3) + (q >> 3)

    Of f32 it is the number at 32 place + lane (n = 256). Of i1 it is bit `place` of the byte at 8 ((q & 7) >> 1) + 2 ((k & 7) >> 1) + (q & 1) (n = 32):
    the eight bits of a lane, which one call of dropout's generator decides, and beside them those of the next query, so that a lane whose rows are keys
    reads its own by one access. q0 and k0 are multiples of 16. Blocks that the view does not have are left out.

    ```mlir
    tile.store_blocks %x, %saved[%b, %h, %q0, %k0] : !tile.tile<q 128 x k 64, f32, register>, !tile.view<5, f32>
    tile.store_blocks %kept, %bits[%b, %h, %q0, %k0] : !tile.tile<q 128 x k 64, i1, register>, !tile.view<5, i8>
    ```
  }];
  let arguments = (ins TileType:$tile, ViewType:$view, I32:$b, I32:$h, I32:$q0, I32:$k0);
  let assemblyFormat = "$tile `,` $view `[` $b `,` $h `,` $q0 `,` $k0 `]` attr-dict `:` type($tile) `,` type($view)";
  let hasVerifier = 1;
}
def DropoutOp : TileOp<"dropout", [Pure]> {
  let summary = "zero or negate the elements that dropout drops";
  let description = [{
    Element (q, k) is kept iff its 16-bit random number r >= threshold. r comes from Philox 4x32 with 7 rounds:

        key     = (seed_lo, seed_hi ^ offset_hi)
        counter = ((q >> 4) * 8 + (q & 7),  (k >> 4) * 4 + ((k & 7) >> 1),  head,  offset_lo)
        word    = 2 * (k & 1) + ((k >> 3) & 1)          half = (q >> 3) & 1   (0 = low 16 bits)

    where head = b * H + h and q, k count within the sequence: one call serves the eight elements that a lane holds of
    a 16 x 16 block of an mma accumulator. Kept elements are not scaled here. Dropped ones are zero; with `negates` they change
    their sign, so that a tile without negative elements says which it were, and what they were. A second result says of each element whether it is kept.

    ```mlir
    %d = tile.dropout %p at(%q0, %k0) head %bh seed %seed offset %offset threshold %t : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
    %s = tile.dropout %p at(%q0, %k0) head %bh seed %seed offset %offset threshold %t negates : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
    %p1, %kept = tile.dropout %p at(%q0, %k0) head %bh seed %seed offset %offset threshold %t : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128 x k 64, i1, register>
    ```
  }];
  let arguments = (ins TileType:$tile, I32:$q0, I32:$k0, I32:$head, I64:$seed, I64:$offset, I32:$threshold, UnitAttr:$negates);
  let results = (outs TileType:$result, Optional<TileType>:$kept);
  let assemblyFormat = [{
    $tile `at` `(` $q0 `,` $k0 `)` `head` $head `seed` $seed `offset` $offset `threshold` $threshold (`negates` $negates^)? attr-dict `:` type($tile) `->` type($result) (`,` type($kept)^)?
  }];
  let hasVerifier = 1;
}

def ElementOp : TileOp<"element", [Pure]> {
  let summary = "element of a captured tensor";
  let description = [{
    `view[indices]`, widened as `attn.load`. A dimension whose entry in `in_range` is false is clamped to the view's
    extent first; a true entry is a proof that the index lies within it.

    ```mlir
    %0 = tile.element %slopes[%h] in_range [true] : !tile.view<1, f32> (i32) -> f32
    ```
  }];
  let arguments = (ins ViewType:$view, Variadic<AnyTypeOf<[I32, I64]>>:$indices, DenseBoolArrayAttr:$in_range);
  let results = (outs TileScalar:$result);
  let assemblyFormat = [{
    $view `[` $indices `]` `in_range` $in_range attr-dict `:` type($view) functional-type($indices, $result)
  }];
  let hasVerifier = 1;
}

def YieldOp : TileOp<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["ForBlocksOp", "MapOp", "AnyOp", "DomainOp"]>]> {
  let summary = "values of a map element, the next values of a block loop, or what a domain says of a tile";
  let description = [{
    ```mlir
    tile.yield %0 : f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange{}); }]>];
}

#endif
