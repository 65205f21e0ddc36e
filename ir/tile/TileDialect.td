//===- TileDialect.td - Types and attributes of the tile dialect --*- tablegen -*-===//
#ifndef ATTUNE_TILE_DIALECT
#define ATTUNE_TILE_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def TileDialect : Dialect {
  let name = "tile";
  let cppNamespace = "::attune::tile";
  let summary = "operations on whole tiles, for the work of one thread block";
  let description = [{
    A `tile.kernel` is the work of one block: one tile of queries of one head. Tiles are SSA values. The dimensions of a
    tile are named axes (`q`, `k`, `d`, `dv`), and the tile's type says whether the tile is in registers or in shared
    memory. A vector is a tile with one axis: `!tile.tile<q 128, f32, register>` holds one number for each query row.
    Ops combine tiles by axis name: a `map` over (q, k) and (q) broadcasts the second along k, an `mma` contracts the
    axis that both operands have in common.

    The attribute `tile.name` of an op is the name of its result in the generated CUDA; `tile.names` are the names of
    block arguments. In printed text SSA values have the same names. These SSA names are for readers only: parsing drops
    them, unless the text was written by hand and has no `tile.name` at all.

    The CPU target executes this level; the CUDA targets schedule it into `sched`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerTypesAndAttributes();
  }];
}

class TileTypeDef<string name, string mnemonicName> : TypeDef<TileDialect, name> {
  let mnemonic = mnemonicName;
}

def TileType : TileTypeDef<"Tile", "tile"> {
  let summary = "a tile with named axes in shared memory or registers";
  let description = [{
    The type holds the axes with their sizes, the element type, the memory space and, after `tile-assign-layouts`, a
    layout: a `#sched.fragment` for registers, a `#sched.swizzle` for shared memory.

    ```mlir
    !tile.tile<q 128 x k 64, f32, register>
    !tile.tile<stage 2 x k 64 x d 128, bf16, shared, #sched.swizzle<64>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$axes, ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$elementType, "::attune::tile::MemorySpace":$space,
                        "::mlir::Attribute":$layout);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Position of the axis `name`, or -1.
    int64_t findAxis(::llvm::StringRef name) const;
    bool hasAxis(::llvm::StringRef name) const { return findAxis(name) >= 0; }
    /// Size of the axis `name`, which must exist.
    int64_t size(::llvm::StringRef name) const;
    ::llvm::StringRef axis(unsigned i) const { return getAxes()[i].getValue(); }
    unsigned rank() const { return getShape().size(); }
    int64_t numElements() const;
    /// Bytes of one row (all elements along the last axis), and bytes of the whole tile. Both include padding of the
    /// layout.
    int64_t rowBytes() const;
    int64_t bytes() const;
    TileType withElementType(::mlir::Type type) const;
    TileType withLayout(::mlir::Attribute layout) const;
    TileType withSpace(MemorySpace space) const;
    /// The same type without the axis `name`.
    TileType dropAxis(::llvm::StringRef name) const;
    static TileType make(::mlir::MLIRContext *context,
                         ::llvm::ArrayRef<std::pair<::llvm::StringRef, int64_t>> axes, ::mlir::Type elementType,
                         MemorySpace space, ::mlir::Attribute layout = {});
  }];
}

def ViewType : TileTypeDef<"View", "view"> {
  let summary = "a strided tensor in global memory";
  let description = [{
    The type holds the rank and the element type (i8 for bool). Address, strides and extents are run-time values.

    ```mlir
    !tile.view<4, bf16>
    ```
  }];
  let parameters = (ins "int64_t":$rank, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $rank `,` $elementType `>`";
}

def DomainType : TileTypeDef<"Domain", "domain"> {
  let summary = "an ordered set of tiles along one axis, each full or partial";
  let description = [{
    `tile.domain` creates a domain, and `tile.for_blocks` iterates over its tiles.

    ```mlir
    !tile.domain
    ```
  }];
}

def AxisAttr : AttrDef<TileDialect, "Axis"> {
  let mnemonic = "axis";
  let summary = "a named dimension of an operand or of a kernel's grid";
  let description = [{
    An axis has a fixed extent (`d 64`) or takes its extent from the launch (`q`). In the second case all operands that
    have an axis of that name have the same extent. `by` counts tiles: `q by 128` has ceil(extent of q / 128) tiles. The
    dimensions of captured tensors are axes, too: `tensors.ids.1` is the second dimension of `ids`.

    ```mlir
    #tile.axis<q>
    #tile.axis<d 64>
    #tile.axis<q by 128>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, DefaultValuedParameter<"int64_t", "0">:$size, DefaultValuedParameter<"int64_t", "1">:$by);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isFixed() const { return getSize() != 0; }
  }];
}

def OperandAttr : AttrDef<TileDialect, "Operand"> {
  let mnemonic = "operand";
  let summary = "a tensor in global memory that a kernel reads or writes";
  let description = [{
    The attribute holds the operand's name, its role, its axes from the outermost to the innermost, and its element
    type. A launch may omit an `optional` operand. An operand whose last axis has a fixed extent is *tiled*: that axis
    has unit stride, and the address and the other strides are multiples of 16 bytes.

        | role       | the kernel                                                                     |
        |------------|--------------------------------------------------------------------------------|
        | in         | reads the operand                                                              |
        | out        | writes every element                                                           |
        | accumulate | adds to the present values                                                     |
        | workspace  | stores intermediate values, for itself or for later kernels of the same launch |

    ```mlir
    #tile.operand<q: in [b, h, q, d 64] bf16>
    #tile.operand<lse: optional out [b, h, q] f32>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::attune::tile::OperandRole":$role, "bool":$optional,
                        ArrayRefParameter<"::attune::tile::AxisAttr">:$axes, "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isTiled() const { return !getAxes().empty() && getAxes().back().isFixed(); }
    /// The fixed extent of the last axis; 0 where it has none.
    int64_t getColumns() const { return isTiled() ? getAxes().back().getSize() : 0; }
    bool isWritten() const { return getRole() != OperandRole::In; }
    /// The type of the view that `tile.param` reads for the operand.
    ViewType getViewType() const;
    /// Parse and print `q: in [b, h, q, d 64] bf16`: the form in a kernel's list of operands, without angle brackets.
    static OperandAttr parseBare(::mlir::AsmParser &parser);
    void printBare(::mlir::AsmPrinter &printer) const;
  }];
}

def DerivedAxisAttr : AttrDef<TileDialect, "DerivedAxis"> {
  let mnemonic = "derived";
  let summary = "an axis whose extent the launch computes from other extents by a named rule";
  let description = [{
    The attribute is an entry of a kernel's `tile.derived`. The kernel's grid and its workspace operands may have a
    derived axis. All kernels of a launch derive an axis of one name by the same rule.

        | rule          | extent                                                                                           |
        |---------------|--------------------------------------------------------------------------------------------------|
        | rows          | queries of all query heads of a key head: the extent of q times `group`                          |
        | pages         | keys in all pages of a sequence: the extent of `of`, a dimension of the page table, times `by`   |
        |               | keys                                                                                             |
        | slots         | blocks that run at a time: multiprocessors times `blocks_per_sm`                                 |
        | splits        | splits of the keys of a tile of rows (split-KV), one split per block; a split has whole tiles of |
        |               | `by` keys, and the number of splits is chosen for the blocks that can run at a time,             |
        |               | `blocks_per_sm` on each multiprocessor (keySplits, attune/LaunchParams.h)                        |
        | work_items    | upper bound of the number of work items at each index of the grid's other axes, where the        |
        |               | lengths of sequences are in device memory: the blocks that run at a time (`blocks_per_sm` on     |
        |               | each multiprocessor) divided by the number of tiles along the other axes, plus one for each tile |
        |               | of `by` rows of each sequence; the extent of the axis `of` is the number of rows of a sequence   |
        | tile_rows     | rows of a tile: the extent of the axis `of`, at most `by`                                        |
        | sequences     | packed sequences: the extent of `of`, the dimension of a vector of their first rows and the end, |
        |               | minus 1                                                                                          |
        | sequence_rows | rows where each packed sequence begins at a multiple of `by` rows: `by` times the sum of the     |
        |               | extent of the axis `of` divided by `by`, the number of sequences, and 2 for the rows before the  |
        |               | first and after the last sequence; 0 without rows                                                |

    ```mlir
    #tile.derived<name = "row", rule = "rows">
    #tile.derived<name = "split", rule = "splits", by = 64, blocks_per_sm = 2>
    #tile.derived<name = "k", rule = "pages", by = 64, of = "tensors.table.1">
    #tile.derived<name = "work_item", rule = "work_items", by = 64, blocks_per_sm = 2, of = "row">
    #tile.derived<name = "b", rule = "sequences", of = "tensors.begins.0">
    #tile.derived<name = "q_by_128", rule = "sequence_rows", by = 128, of = "q">
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::StringAttr":$rule, DefaultValuedParameter<"int64_t", "1">:$by,
                        DefaultValuedParameter<"int64_t", "1">:$blocks_per_sm, OptionalParameter<"::mlir::StringAttr">:$of);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def ExtentBoundAttr : AttrDef<TileDialect, "ExtentBound"> {
  let mnemonic = "bound";
  let summary = "a bound on the extent of an axis, under which a launch skips a kernel";
  let description = [{
    The attribute is an entry of a kernel's `tile.skipped_if`. The bound holds if the extent of the axis is at least 1
    and at most the extent of the axis `most`; without `most` the extent must be 1. A launch whose sizes satisfy all
    bounds of a kernel skips the kernel, which has nothing to compute then.

    ```mlir
    #tile.bound<"h" most "tensors.bias.0">
    #tile.bound<"b">
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$axis, OptionalParameter<"::mlir::StringAttr">:$most);
  let assemblyFormat = "`<` $axis (`most` $most^)? `>`";
}

def PlanAttr : AttrDef<TileDialect, "Plan"> {
  let mnemonic = "plan";
  let summary = "tile sizes, warps and occupancy of a kernel";
  let description = [{
    A tile of the plan has a size along each axis that the kernel divides: of S, `q 128 x k 64`. An axis without a size
    is not divided. `warps` warps split the rows of a register tile. `blocks_per_sm` blocks run on a multiprocessor at a
    time; this occupancy determines the register budget of a thread. All other parts of a schedule are attributes of the
    kernel and of its ops ([scheduling.md](../../inside/scheduling.md)).

    Groups of `dv_warps` warps (1 by default) hold the same rows and split the columns of V and O: each warp computes S
    for all keys of the tile and accumulates its own Dv / dv_warps columns of O, so that wide head dims fit the
    registers. Warp w has part `w mod (warps / dv_warps)` of the rows and part `w / (warps / dv_warps)` of the columns:

        | q 64, Dv 512, warps 8, dv_warps 2 | columns 0 - 255 | columns 256 - 511 |
        |-----------------------------------|-----------------|-------------------|
        | rows 0 - 15                       | warp 0          | warp 4            |
        | rows 16 - 31                      | warp 1          | warp 5            |
        | rows 32 - 47                      | warp 2          | warp 6            |
        | rows 48 - 63                      | warp 3          | warp 7            |

    An open plan (`PlanAttr::open`) has zeros: the text of its kernel has no `plan`, and `tile-plan-kernels` chooses one.

    ```mlir
    #tile.plan<q 128 x k 64, warps = 4, blocks_per_sm = 2>
    #tile.plan<q 64 x k 16, warps = 8, blocks_per_sm = 1, dv_warps = 2>
    #tile.plan<warps = 8, blocks_per_sm = 1>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$axes, ArrayRefParameter<"int64_t">:$sizes, "int64_t":$warps,
                        "int64_t":$blocks_per_sm, "int64_t":$dv_warps);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The plan of a kernel for which no plan is chosen yet: no tile sizes and 0 warps.
    static PlanAttr open(::mlir::MLIRContext *context) { return make(context, {}, 0, 0); }
    static PlanAttr make(::mlir::MLIRContext *context, ::llvm::ArrayRef<::std::pair<::llvm::StringRef, int64_t>> sizes, int64_t warps,
                         int64_t blocksPerSm, int64_t dvWarps = 1);
    /// The tile's size along `axis`; 0 if the kernel does not divide the axis into tiles.
    int64_t getSize(::llvm::StringRef axis) const;
    /// The sizes in order, with `between` between them: "128 x 64".
    ::std::string sizesText(::llvm::StringRef between = " x ") const;
    bool isOpen() const { return getWarps() == 0; }
    /// Warps that split the rows of the tile.
    int64_t getRowWarps() const { return getWarps() / getDvWarps(); }
    /// The number of warps over which a register tile of `rows` rows is split: as many as possible that get equal
    /// multiples of 16 rows each. The remaining warps hold copies of the tile.
    int64_t getWarpsOfRows(int64_t rows) const {
      int64_t split = getRowWarps();
      while (split > 1 && (getRowWarps() % split || rows % (16 * split)))
        --split;
      return split;
    }
  }];
}

#endif
