//===- TileDialect.td - Logical tiles ----------------------------*- tablegen -*-===//
#ifndef ATTUNE_TILE_DIALECT
#define ATTUNE_TILE_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def TileDialect : Dialect {
  let name = "tile";
  let cppNamespace = "::attune::tile";
  let summary = "logical tile operations of one block of work";
  let description = [{
    A `tile.kernel` is the work of one block: one tile of queries of one head. Tiles are values whose dimensions
    are named axes (`q`, `k`, `d`, `dv`) and whose type says where they live. A vector is a tile with one axis:
    `!tile.tile<q 128, f32, register>` holds one number for each query row. Ops combine tiles by axis name: a
    `map` over (q, k) and (q) broadcasts the second along k, an `mma` contracts the axis that both operands share.

    `tile.name` on an op is what CUDA calls its result, `tile.names` what it calls arguments. Text is printed with values
    named after them; these names are for readers, and parsing drops them.

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
    Axes with their sizes, element type, memory space and, once scheduled, a layout: a `#sched.fragment` for
    registers, a `#sched.swizzle` for shared memory.

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
    /// Bytes from a row along the last axis to the next, and of the whole tile, with what its layout leaves free.
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
    Rank and element type (i8 for bool); address, strides and extents are run-time values.

    ```mlir
    !tile.view<4, bf16>
    ```
  }];
  let parameters = (ins "int64_t":$rank, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $rank `,` $elementType `>`";
}

def DomainType : TileTypeDef<"Domain", "domain"> {
  let summary = "an ordered set of tiles along one axis, each full or partial";
}

def AxisAttr : AttrDef<TileDialect, "Axis"> {
  let mnemonic = "axis";
  let summary = "a named dimension of an operand or of a kernel's grid";
  let description = [{
    With a fixed extent (`d 64`), or with one that the launch gives, the same for all operands that have an axis of that name (`q`). `by` counts
    tiles: `q by 128` has ceil(extent of q / 128) of them. The dimensions of captured tensors are axes too: `tensors.ids.1` is the second of `ids`.

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
  let summary = "a tensor in global memory that a kernel declares";
  let description = [{
    What the kernel does with it, its axes from the outermost on, and its element type. An `optional` one may be left out of a launch. One whose last
    axis has a fixed extent is *tiled*: that axis has unit stride, the address and other strides are multiples of 16 bytes.

        | role       | the kernel                                                         |
        |------------|--------------------------------------------------------------------|
        | in         | reads it                                                           |
        | out        | writes all of it                                                   |
        | accumulate | adds to what is there                                              |
        | workspace  | keeps intermediate values there, for itself or kernels that follow |

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
    /// The type by which a kernel reads it.
    ViewType getViewType() const;
    /// `q: in [b, h, q, d 64] bf16`, as it stands among a kernel's operands.
    static OperandAttr parseBare(::mlir::AsmParser &parser);
    void printBare(::mlir::AsmPrinter &printer) const;
  }];
}

def DerivedAxisAttr : AttrDef<TileDialect, "DerivedAxis"> {
  let mnemonic = "derived";
  let summary = "an axis whose extent a launch computes from those of operands";
  let description = [{
    An entry of a kernel's `tile.derived`. Its grid and its workspace operands may have the axis; the kernels of a launch derive the same ones.

        | rule      | extent |
        |-----------|--------|
        | rows      | queries of all query heads of a key head: that of q times `group` |
        | pages     | keys of pages: that of dimension `of` of a captured tensor, the table of pages, times `by`, the keys of a page |
        | slots     | blocks that run at a time, `blocks_per_sm` on each multiprocessor |
        | splits    | into how many shares the keys of a tile of rows are divided, tiles of `by` keys, one share to a block, for as many blocks as multiprocessors have room for, `blocks_per_sm` each (keySplits, attune/LaunchParams.h) |
        | work_items | of the work of sequences whose lengths memory tells, at most: a block for each that runs at a time, `blocks_per_sm` on each multiprocessor, by the grid's other axes, and one for each tile of `by` rows of each sequence; rows are those of axis `of` |
        | tile_rows | rows of a tile: that of axis `of`, at most `by` |

    ```mlir
    #tile.derived<name = "row", rule = "rows">
    #tile.derived<name = "split", rule = "splits", by = 64, blocks_per_sm = 2>
    #tile.derived<name = "k", rule = "pages", by = 64, of = "tensors.table.1">
    #tile.derived<name = "piece", rule = "work_items", by = 64, blocks_per_sm = 2, of = "row">
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::StringAttr":$rule, DefaultValuedParameter<"int64_t", "1">:$by,
                        DefaultValuedParameter<"int64_t", "1">:$blocks_per_sm, OptionalParameter<"::mlir::StringAttr">:$of);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def ExtentBoundAttr : AttrDef<TileDialect, "ExtentBound"> {
  let mnemonic = "bound";
  let summary = "an extent that is at least 1, and at most another one";
  let description = [{
    An entry of a kernel's `tile.skipped_if`: a launch whose sizes keep all of them leaves the kernel out, as it has nothing to do. `most` is an axis,
    too; without it the extent is 1.

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
  let summary = "sizes of tiles, and how warps share them";
  let description = [{
    `tile_q` x `tile_k` is the tile of S; `warps` share its rows, and `blocks_per_sm` blocks a multiprocessor: the occupancy that the register budget aims at. What else a
    schedule says stands on the kernel and on its ops ([scheduling.md](../scheduling.md)).

    `dv_warps` (1 unless it is given) warps share the same rows and split the columns of V and O: each computes S for
    all keys of the tile and accumulates its own Dv / dv_warps columns of O, so that wide head dims fit the registers.
    Warp w has share `w mod (warps / dv_warps)` of the rows and share `w / (warps / dv_warps)` of the columns:

        | tile_q 64, Dv 512, warps 8, dv_warps 2 | columns 0 - 255 | columns 256 - 511 |
        |----------------------------------------|-----------------|-------------------|
        | rows 0 - 15                            | warp 0          | warp 4            |
        | rows 16 - 31                           | warp 1          | warp 5            |
        | rows 32 - 47                           | warp 2          | warp 6            |
        | rows 48 - 63                           | warp 3          | warp 7            |

    ```mlir
    #tile.plan<tile_q = 128, tile_k = 64, warps = 4, blocks_per_sm = 2>
    #tile.plan<tile_q = 64, tile_k = 16, warps = 8, blocks_per_sm = 1, dv_warps = 2>
    ```
  }];
  let parameters = (ins "int64_t":$tile_q, "int64_t":$tile_k, "int64_t":$warps, "int64_t":$blocks_per_sm,
                        DefaultValuedParameter<"int64_t", "1">:$dv_warps);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Warps that split the rows of the tile.
    int64_t getRowWarps() const { return getWarps() / getDvWarps(); }
    /// Those that split `rows` of a register tile, 16 each or a multiple: as many as can. The others hold it once more.
    int64_t getWarpsOfRows(int64_t rows) const {
      int64_t split = getRowWarps();
      while (split > 1 && (getRowWarps() % split || rows % (16 * split)))
        --split;
      return split;
    }
  }];
}

#endif
