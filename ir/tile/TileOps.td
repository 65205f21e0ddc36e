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
  let summary = "a kernel, given by the work of one thread block"; 
  let description = [{
    The launch starts one block for each point of the `grid`. A point selects a tile along each axis of the grid; the
    last axis varies fastest. The op lists operands, captured tensors and run-time scalars in the order of a launch's
    parameters; the body reads their values by `tile.param`. `dtype` is the type to whose accuracy results are computed.
    `plan` holds the tile sizes and warps that later passes follow; without it `tile-plan-kernels` chooses a plan.
    ```mlir
    tile.kernel @causal(q: in [b, h, q, d 64] bf16, k: in [b, hkv, k, d 64] bf16, v: in [b, hkv, k, dv 64] bf16,
                        o: out [b, h, q, dv 64] bf16, lse: optional out [b, h, q] f32)
        grid [b, h, q by 128] dtype bf16 plan <q 128, ...> { ... }
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
    $sym_name `` custom<Operands>($operands) `grid` custom<Grid>($grid) `dtype` $dtype custom<PlanClause>($plan) attr-dict-with-keyword custom<Body>($body)
  }];
  let hasVerifier = 1;
}

def LaunchOp : TileOp<"launch", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the kernels of a module, in the order in which a launch starts them";
  let description = [{
    All kernels of a launch take the same parameters: operands, captured tensors and scalars of one name are the same
    parameter. A `dependent` kernel may start before the previous kernel has ended (programmatic dependent launch); the
    dependent kernel itself waits before it reads results of the previous one. The launch allocates one workspace for
    the `workspace` operands of all kernels. A module with one kernel needs no `tile.launch`. A launch without a name
    has the name of its last kernel.

    A kernel with `tile.fallback_of = @other` is the fallback of @other: the launch starts the fallback instead of
    @other if it cannot create a tensor map by which @other accesses a captured tensor.

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
  let summary = "read a launch parameter by name";
  let description = [{
    Parameters of type view are the kernel's operands, by their names, and captured tensors, as `tensors.NAME`. Scalar
    parameters are run-time scalars, as `scalars.NAME`, and the parameters of every launch: i32 `group` (query heads for
    each key head), `q_offset` and `drop_threshold`, f32 `keep_scale`, i64 `seed` and `offset`. The op has no memory
    effects.

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
    The view [b, h, q, ...] becomes a view [b, hkv, row, ...] (packed GQA):

        result[b, hkv, r, ...] = view[b, hkv * group + r % group, r / group, ...]

    Even with few queries a tile then has many rows, one for each query head that reads the same keys. Tiles of the
    result can be loaded to registers, or row by row to shared memory, and stored from registers.

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

def BlockedRowsOp : TileOp<"blocked_rows", [Pure, AllTypesMatch<["view", "result"]>]> {
  let summary = "rows of a workspace in which the elements of a lane are adjacent";
  let description = [{
    The view [..., block, place] of float32, with blocks of 16 rows and 16 * `columns` places in each, becomes a view
    [..., row, column]:

        result[..., r, c] = view[..., r / 16, 128 * (c / 8) + 4 * lane + 2 * (r / 8 % 2) + c % 2]
        lane = 4 * (r % 8) + c % 8 / 2

    The four elements that a lane holds of 16 rows x 8 columns of an accumulator (mma.m16n8) are adjacent, and those of
    a warp are 512 bytes: one access for each lane, where 16 rows of 8 columns take two or four accesses with gaps.
    Tiles of the result are loaded to registers, and stored and accumulated from them. They begin at a multiple of 16 rows.
    A store or an accumulation writes blocks of 16 rows: rows from the limit on are written, too, if the block has an earlier row. A load fills
    them with zeros.

    ```mlir
    %sums = tile.blocked_rows %DQ_SUMS columns 64 : !tile.view<4, f32>    // dq_sums: workspace [b, h, q by 16, place 1024] f32
    tile.accumulate %dq, %sums[%b, %h, %q0] limit %Sq : !tile.tile<q 128 x d 64, f32, register>, !tile.view<4, f32>
    ```
  }];
  let arguments = (ins ViewType:$view, ConfinedAttr<I64Attr, [IntPositive]>:$columns);
  let results = (outs ViewType:$result);
  let assemblyFormat = "$view `columns` $columns attr-dict `:` type($view)";
  let hasVerifier = 1;
}

def PagedRowsOp : TileOp<"paged_rows", [Pure, AllTypesMatch<["view", "result"]>]> {
  let summary = "the rows of paged sequences as rows of one view";
  let description = [{
    The view [page, h, slot, ...], with `size` slots in each page, and the page table become a view [b, h, row, ...]:

        result[b, h, r, ...] = view[table[b, r / size], h, r % size, ...]

    A page number out of range is clamped to the nearest page, a column past the end of the table to the last column.
    Tiles of the result can be loaded, not stored.

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
    The axis has no fixed extent: it is an axis of an operand of the kernel, a derived axis, or a dimension of a
    captured tensor.

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
  let summary = "index of the first element of the block's tile along an axis of the grid";
  let description = [{
    The index is a multiple of the axis's `by` in the grid: with `q by 128` it is 0, 128, 256, ...

    ```mlir
    %q0 = tile.block_index "q" : i32
    ```
  }];
  let arguments = (ins StrAttr:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Position of the axis within the grid.
    unsigned getPosition();
  }];
}

def WarpgroupRowOp : TileOp<"warpgroup_row", [Pure]> {
  let summary = "first query row that the executing warpgroup holds";
  let description = [{
    The tile of queries that starts at `origin` is split over warpgroups, `rows` rows each, and each warpgroup runs the
    loop over tiles of keys by itself. The result is uniform within a warpgroup and differs between warpgroups. Values
    computed from the result may decide whether a `tile.map` is executed (`only_if`) and which tiles of keys the
    warpgroup visits (`within`). The row may be at or past Sq.

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
    A domain is an ordered list of segments of tile indices `[begin, end)`. Tile `n` covers the positions from `n *
    step` to `(n + 1) * step`. Segments with begin >= end are empty and are skipped. In the tiles of a `partial` segment
    the loop's partial flag is true, so that maps that are `only_if` this flag apply the mask. In the tiles of a `full`
    segment the mask would hide no element. `reverse` visits the last tile first.

    The `where` region takes a tile index within a segment and yields whether the tile is visited, and whether the tile
    is full. The second flag matters only in full segments, as all tiles of a partial segment are partial. The `groups`
    region takes the index n of a group, the tiles from `32 * n` to `32 * (n + 1)`, and yields whether any tile of the
    group may be visited. A search may skip all tiles of a group for which the region yields false; `groups` only
    accelerates searches and does not change the set of visited tiles. Both regions have no memory effects and may be
    evaluated in any order and any number of times.

    With `times` the loop iterates over all segments that many times, for example over the tiles of queries once for
    each query head of a group. A `where` or `groups` region that takes the iteration as second argument can select
    other tiles in each iteration.

    ```mlir
    %dom = tile.domain k by 64 [%a, %b) partial [%b, %c) full [%c, %d) partial
    %of_heads = tile.domain q by 64 [%a, %b) full times %group
    %by_head = tile.domain q by 64 [%a, %b) full times %group where {
    ^bb0(%n: i32, %iteration: i32):
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
  /// Builds a domain of the tiles [begin, end), all of which are full (have no masked element).
  let builders = [OpBuilder<(ins "::llvm::StringRef":$axis, "int64_t":$step, "::mlir::Value":$begin, "::mlir::Value":$end)>];
  let extraClassDeclaration = [{
    /// Tiles of a group: one for each lane of a warp, as the search for visible tiles tests one tile in each lane.
    static constexpr int64_t groupTiles = 32;
    /// The flags that the `where` region, which tests a tile, yields: whether the tile is visited, and whether the mask
    /// hides none of its elements. Null without the region.
    ::mlir::Value getVisible();
    ::mlir::Value getFullWhere();
    /// The flag that the `groups` region, which tests 32 tiles at once, yields: whether any of these tiles may be
    /// visible. Null without the region.
    ::mlir::Value getAnyVisible();
    /// Whether the `where` region may skip tiles of the domain's segments.
    bool skips();
    /// Whether a region takes as its second argument the iteration over the domain, which is visited `times` times.
    bool takesIteration();
  }];
}

def FirstVisibleOp : TileOp<"first_visible", [Pure]> {
  let summary = "index of the first tile that a domain visits";
  let description = [{
    If the domain visits no tile, the result is the end of the domain's last segment. The result serves as the lower
    bound in the `within` range of a `tile.for_blocks`.

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
  let summary = "whether a tile overlaps a block whose flag in a block pattern is set";
  let description = [{
    The last two indices are the tile's first row and first key, multiples of `tile_rows` and `tile_columns`. The tile
    has `tile_rows` rows and `tile_columns` keys. The block pattern has blocks of `rows` x `columns`, and the view's
    last two dimensions hold one flag for each block. Blocks outside the view count as not set.

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
    The body takes the first position of the tile (i32), whether the tile is partial (i1), the iteration (i32) where the
    domain has `times`, and the values carried from tile to tile. The body yields the next carried values. `within` is a
    range of tile indices that may differ between warpgroups (`tile.warpgroup_row`): outside this range all keys are
    masked for the rows of the warpgroup, which skips these tiles. The loop has the memory effects of its body.

    ```mlir
    %r = tile.for_blocks (%k0, %partial) in %dom iter_args(%m = %m0 : !tile.tile<q 128, f32, register>) { ... }
    tile.for_blocks (%k0, %partial) in %dom within [%begin, %end) { ... }
    tile.for_blocks (%q0, %partial, %iteration) in %of_heads { ... }
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
    /// The number of the iteration over the domain, which is visited `times` times; null in a domain without `times`.
    ::mlir::Value getIteration();
    ::mlir::ValueRange getCarried();
    YieldOp getYield();
  }];
}

def LoadOp : TileOp<"load", [Pure]> {
  let summary = "load a tile from global memory, with zeros outside the view";
  let description = [{
    The tile has the rows `row .. row + size` of `view[indices...]`. The last index is the first row, along the tile's
    first axis; the tile's second axis covers the view's last dimension from 0. Rows at or beyond `limit` and columns
    beyond the view's last extent are not read and become zero. The op is modelled as free of memory effects.

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
  let summary = "copy a rectangle of a captured tensor to shared memory";
  let description = [{
    Element (i, j) of the tile is `view[leading..., row + i, column + j]`, where `indices` are the leading indices, row
    and column. Every index is clamped to the view's extents, as in `tile.element`. The op has no memory effects, as
    captured tensors are constant during a launch.

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
  let summary = "write those rows of a tile that are below a limit to a view";
  let description = [{
    `view[indices..., row + i, j] = tile[i, j]` where row + i < `limit` and j is below the view's last extent, the
    inverse of `tile.load`. f32 tiles are rounded to the view's element type. With `optional` nothing is written to a
    view whose address is null. The op writes memory.

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
  let summary = "add those rows of a tile that are below a limit to a float32 view";
  let description = [{
    `view[indices..., row + i, j] += tile[i, j]`, atomically for each element; the order of the additions is not
    defined. A tile in registers is added by vector reductions. A tile in shared memory, the result of a `tile.convert`,
    is added by bulk reductions of whole rows where the architecture has these (sm_90 and above). The op reads and
    writes memory.

    ```mlir
    tile.accumulate %dq, %DQ[%b, %h, %q0] limit %Sq : !tile.tile<q 64 x d 64, f32, register>, !tile.view<4, f32>
    ```
  }];
  let arguments = (ins TileType:$tile, ViewType:$view, Variadic<I32>:$indices, I32:$limit);
  let assemblyFormat = "$tile `,` $view `[` $indices `]` `limit` $limit attr-dict `:` type($tile) `,` type($view)";
  let hasVerifier = 1;
}

def ScatterOp : TileOp<"scatter", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "write or add each element of a tile to a view element with computed indices";
  let description = [{
    For each element e of the tile, `view[indices of e...] = tile[e]`, or with `add` `view[indices of e...] += tile[e]`.
    There is one index for each dimension of the view: a scalar, a tile of indices with the axes of the tile, or a
    vector of indices along one of its axes. An element with an index that is negative or not below the view's extent is
    skipped.

    Additions are atomic. f32 tiles are added to f32 views in undefined order; i32 tiles are added to i64 views, which
    wrap around, so that the result does not depend on the order. Without `add` no two elements may have the same
    indices. `merge`, on the result of a `tile.sum_diagonals`, is a hint that neighbouring elements often have the same
    indices: if all elements that a warp holds have the same indices, the warp sums them and adds to memory once. A tile
    of bf16 or f16 in shared memory is written unchanged to a view of the same element type. The op reads and writes
    memory.

    ```mlir
    tile.scatter %ds, %bias[%h, %rows, %keys]
        : !tile.tile<q 64 x k 64, f32, register>, !tile.view<3, bf16> (i32, !tile.tile<q 64 x k 64, i32, register>, !tile.tile<q 64 x k 64, i32, register>)
    tile.scatter add %ds, %table[%h, %bucket] : !tile.tile<q 64 x k 64, f32, register>, !tile.view<2, f32> (i32, !tile.tile<q 64 x k 64, i32, register>)
    tile.scatter add merge %sums, %table[%h, %buckets]
        : !tile.tile<part 4 x distance 80, f32, register>, !tile.view<2, f32> (i32, !tile.tile<part 4 x distance 80, i32, register>)
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
  let summary = "tile whose elements all equal one scalar";
  let description = [{
    `result[...] = value`, with the axes of the result type. The op has no memory effects.

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
    Operand and result have the same axes and sizes; a tile of two axes may change their order. Floats are rounded to
    nearest even. A conversion to shared memory in a loop writes a stage of a ring. In a kernel with producer warps,
    these warps compute and convert a vector that depends on no other tile, ahead of the consumers. With `relu` negative
    floats become 0 and NaN stays NaN; the result must be the left operand of a product, with 16-bit elements in
    registers (an `a` fragment). The op has no memory effects.

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
  let summary = "multiply a shared tile by a power of two, in place";
  let description = [{
    `result = tile * 2^exponent`, for bf16 elements: a product of a bf16 number and a power of two is exact unless the
    product is subnormal. The result overwrites the tile in shared memory, so the tile must have no other use.

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
    `result[x, y] = acc[x, y] + sum_z a[x, z] * b[y, z]`. Axes are matched by name, so the order of the axes in memory
    does not matter. The op accumulates in float32 and has no memory effects.

    ```mlir
    %s = tile.mma %q, %k : !tile.tile<q 128 x d 64, bf16, shared>, !tile.tile<k 64 x d 64, bf16, shared> -> !tile.tile<q 128 x k 64, f32, register>
    %o = tile.mma %p, %v add %acc
        : !tile.tile<q 128 x dv 64, f32, register>, !tile.tile<q 128 x k 64, bf16, register>, !tile.tile<k 64 x dv 64, bf16, shared> -> !tile.tile<q 128 x dv 64, f32, register>
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
  let summary = "compute a tile element by element";
  let description = [{
    The region computes one element of the result. The region's arguments are the inputs' elements at the same named
    coordinates, and one coordinate for each entry of `at`. An input that lacks an axis of the result is broadcast along
    that axis. A coordinate is the position along its axis, counted from the given origin, as i32 or, with an f32
    origin, as f32; an axis may have both. 16-bit elements of an input in shared memory are widened to f32. The op has
    the memory effects of its region.

    With `only_if` and a false flag the result is the first input, unchanged. A map with `only_if` and no inputs gives a
    vector: with a false flag the vector is undefined, and only maps with the same flag may read it. `columns` restricts
    the map to a range of columns of its result, a tile of two axes; begin and end of the range are multiples of 16, and
    in all other columns the result is the first input. A map with the attribute `interleaved` orders its special
    functions: the functions of 16 columns start only after the first element of the previous 16 columns is complete.

    An input whose only axis is `distance` holds a value for each distance between a row and a key of a q x k tile, in
    ascending order (relative position). The input has q + k - 1 elements. For row i and key j the region gets the
    input's element i - j + k - 1:

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
    /// Whether the region computes every element of the result: the map has neither `only_if` nor `columns`.
    bool isWhole() { return !getOnlyIf() && !getColumns(); }
    /// Region argument of input `i`, and of the i32 coordinate along `axis` (null where the region takes none).
    ::mlir::BlockArgument getElement(unsigned i) { return getBody().getArgument(i); }
    ::mlir::BlockArgument getCoordinate(::llvm::StringRef axis);
    /// The origin of a coordinate of the region.
    ::mlir::Value originOf(::mlir::BlockArgument coordinate) {
      return getOrigins()[coordinate.getArgNumber() - getInputs().size()];
    }
    /// Adds a coordinate along `axis`, counted from `origin`, and returns its region argument.
    ::mlir::BlockArgument addCoordinate(::llvm::StringRef axis, ::mlir::Value origin);
    /// Adds an input after the present ones and returns the region argument of its element, of type `element`.
    ::mlir::BlockArgument addInput(::mlir::Value input, ::mlir::Type element);
    YieldOp getYield();
  }];
}

def MulFiniteOp : TileOp<"mul_finite", [Pure]> {
  let summary = "product of two floats that does not overflow";
  let description = [{
    If both factors are finite and their product overflows, the result is the largest finite float with the product's
    sign. Otherwise the result is the product, rounded to one of the two neighbouring floats. On a GPU the product is
    rounded toward zero, which takes one instruction.

    ```mlir
    %0 = tile.mul_finite %a, %b
    ```
  }];
  let arguments = (ins F32:$lhs, F32:$rhs);
  let results = (outs F32:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict";
}

def AnyOp : TileOp<"any", [SingleBlockImplicitTerminator<"YieldOp">, RecursiveMemoryEffects]> {
  let summary = "whether any of the elements that a warp holds of a tile satisfies a condition";
  let description = [{
    The region takes an element and yields i1. The result is uniform over a warp: true in every lane if the region
    yields true for an element that any lane of the warp holds. Results of other warps may differ. On the CPU the result
    covers the whole tile. The op has the memory effects of its region.

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

def BitsOp : TileOp<"bits", [SingleBlockImplicitTerminator<"YieldOp">, Pure]> {
  let summary = "an i32 whose bits are a condition's values for the numbers 0, 1, ...";
  let description = [{
    The region takes a number i and yields an i1, which is bit i of the result for 0 <= i < `count`. The other bits are
    not specified. On the GPU each lane of a warp computes the condition of one number. The region's ops have no memory
    effects.

    ```mlir
    %parts = tile.bits 4 {
    ^bb0(%i: i32):
      %0 = arith.cmpi slt, %i, %n : i32
      tile.yield %0 : i1
    }
    ```
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntMinValue<1>, IntMaxValue<32>]>:$count);
  let results = (outs I32:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count custom<Body>($body) attr-dict";
  let hasVerifier = 1;
}

def Reduction : I32EnumAttr<"Reduction", "how elements combine",
    [I32EnumAttrCase<"Max", 0, "max">, I32EnumAttrCase<"Min", 1, "min">, I32EnumAttrCase<"Sum", 2, "sum">]> {
  let cppNamespace = "::attune::tile";
  let genSpecializedAttr = 0;
}
def ReductionAttr : EnumAttr<TileDialect, Reduction, "reduction">;

def ReduceOp : TileOp<"reduce", [Pure]> {
  let summary = "reduce a tile along one axis by maximum, minimum or sum";
  let description = [{
    `result[x] = init[x] op (op over axis of tile[x, .])`, for floats or signed integers. `max` and `min` ignore NaN.
    The result lacks the reduced axis. With `per_lane` a sum stays split over the lanes that hold a row: each lane has a
    partial sum of its own elements, and adds to it the partial sum `init` that the same lane holds. A later
    `tile.combine_lanes` completes the reduction. The op has no memory effects.

    ```mlir
    %m1 = tile.reduce max %y over "k" init %m
        : !tile.tile<q 128, f32, register>, !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128, f32, register>
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
  let summary = "the sums along the diagonals of a tile, for each part of its rows separately";
  let description = [{
    The rows of a float32 tile with C columns are split into P equal parts of R rows. Element [p, e] of the result is
    the sum of all `tile[p R + r, c]` with `r - c = e - C`, in undefined order; the first element of each part is 0. The
    result has the axes `part` (P) and `distance` (R + C). A part is the rows of an accumulator that one warp holds, as
    the lanes of the warp add up their own elements; `tile-assign-layouts` rejects other parts.

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
  let summary = "complete a reduction that a `tile.reduce ... per_lane` has left split over lanes";
  let description = [{
    Each row of the result is the sum, maximum or minimum of the partial results of the lanes that hold the row. The op
    is the identity where each element is held once, as on the CPU. The op has no memory effects.

    ```mlir
    %l = tile.combine_lanes sum %part : !tile.tile<q 128, f32, register>
    ```
  }];
  let arguments = (ins ReductionAttr:$kind, TileType:$tile);
  let results = (outs TileType:$result);
  let assemblyFormat = "$kind $tile attr-dict `:` type($result)";
}

def LoadBlocksOp : TileOp<"load_blocks", [MemoryEffects<[MemRead]>]> {
  let summary = "load a tile of queries and keys that a `tile.store_blocks` has written";
  let description = [{
    The layout of the view is that of `tile.store_blocks`. Elements of blocks outside the view are zero. The tile may
    have the axes in the order q, k or k, q. The op reads memory.

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
  let summary = "write a tile of queries and keys to a view of 16 x 16 blocks";
  let description = [{
    The view is [b, h, q by 16, k by 16, n]. Each block of 16 x 16 elements is contiguous, in the order in which the
    lanes hold the accumulator of a matrix instruction. Element (q, k) of a block has this lane, and this place among
    the lane's eight elements:

        lane  = 4 (q & 7) + ((k & 7) >> 1)          place = 4 (k & 1) + 2 (k >> 3) + (q >> 3)

    An f32 element is number 32 place + lane of its block (n = 256). An i1 element is bit `place` of byte 8 ((q & 7) >>
    1) + 2 ((k & 7) >> 1) + (q & 1) of its block (n = 32). That byte holds the eight bits of a lane, which one call of
    dropout's generator decides. The bytes of queries q and q + 1, q even, are adjacent: a lane that holds a transposed
    tile (axes k, q) needs bits of both bytes, and reads them by one access. q0 and k0 are multiples of 16. Blocks
    outside the view are skipped. The op writes memory.

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

    where head = b * H + h, and q and k are positions within the sequence. One call of Philox serves the eight elements
    that a lane holds of a 16 x 16 block of an mma accumulator. The op does not scale kept elements. Dropped elements
    become zero. With `negates` dropped elements are negated instead: in a tile without negative elements the sign then
    marks dropped elements, and their values are preserved. The optional second result is i1 for each element: whether
    the element is kept. The op has no memory effects.

    ```mlir
    %d = tile.dropout %p at(%q0, %k0) head %bh seed %seed offset %offset threshold %t
        : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
    %s = tile.dropout %p at(%q0, %k0) head %bh seed %seed offset %offset threshold %t negates
        : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>
    %p1, %kept = tile.dropout %p at(%q0, %k0) head %bh seed %seed offset %offset threshold %t
        : !tile.tile<q 128 x k 64, f32, register> -> !tile.tile<q 128 x k 64, f32, register>, !tile.tile<q 128 x k 64, i1, register>
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
  let summary = "read one element of a captured tensor";
  let description = [{
    The result is `view[indices]`, widened as by `attn.load`. An index whose entry in `in_range` is false is clamped to
    the view's extent. A true entry asserts that the index is in range, which an earlier pass has proved. The op has no
    memory effects, as captured tensors are constant during a launch.

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

def SearchOp : TileOp<"search", [Pure]> {
  let summary = "count the elements of a captured vector that come before a number";
  let description = [{
    The op is `attn.search` on a view of rank 1: the number of elements that are < x, or with `right` <= x.
    The elements are widened as by `tile.element`. The op has no memory effects, as captured tensors are constant during
    a launch.

    With `tiles n`, element i of the i32 vector counts as element / n + i. If the elements are the first rows of packed
    sequences, that is the number of the sequence's first tile of n rows, and the sequence of tile t is the number of
    elements <= t, minus 1: a sequence of r rows has r / n + 1 numbers at least, and needs ceil(r / n) of them. All threads
    of a block search for the same tile.

    ```mlir
    %0 = tile.search %offsets, %q right : !tile.view<1, i32>, i32
    %1 = tile.search %begins, %tile right tiles 128 : !tile.view<1, i32>, i32
    ```
  }];
  let arguments = (ins ViewType:$view, AnyTypeOf<[F32, I32, I64]>:$x, UnitAttr:$right, OptionalAttr<I64Attr>:$tiles);
  let results = (outs I32:$result);
  let assemblyFormat = "$view `,` $x (`right` $right^)? (`tiles` $tiles^)? attr-dict `:` type($view) `,` type($x)";
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$view, "::mlir::Value":$x, "bool":$right),
                            [{ build($_builder, $_state, type, view, x, right, ::mlir::IntegerAttr()); }]>];
  let hasVerifier = 1;
}

def YieldOp : TileOp<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["ForBlocksOp", "MapOp", "AnyOp", "BitsOp", "DomainOp"]>]> {
  let summary = "end a region with its results";
  let description = [{
    The op yields the element of a `tile.map`, the next carried values of a `tile.for_blocks`, the condition of a
    `tile.any` or `tile.bits`, or the flags of a tile or group in a `tile.domain`.

    ```mlir
    tile.yield %0 : f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange{}); }]>];
}

#endif
