//===- SchedDialect.td - Types and attributes of the sched dialect --*- tablegen -*-===//
#ifndef ATTUNE_SCHED_DIALECT
#define ATTUNE_SCHED_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "ir/tile/TileInterfaces.td"

def SchedDialect : Dialect {
  let name = "sched";
  let cppNamespace = "::attune::sched";
  let summary = "a kernel scheduled for one GPU architecture";
  let description = [{
    The dialect describes what each thread does, in order: shared buffers with their offsets, register fragments with
    their lane maps, asynchronous copies and the waits that complete them, barriers, and one op for each matrix
    instruction. Control flow is `scf.for` (unrolled in full with `sched.unroll`, by two with `sched.unroll = 2`),
    `scf.if` and `sched.for_tiles`; scalar arithmetic is `arith` and `math`. Buffers are memory, not SSA values: ops on
    buffers have memory effects, and the order of ops is the program. Some ops still process whole tiles ("before
    expansion"); the pass `tile-to-sched` expands them into ops of single instructions.

    Warps may have roles (`sched.role`) that pass tiles to each other through rings. A ring has stages, and each stage
    has two barriers: readers wait on the full barrier, writers wait on the empty barrier. Any role may write or read
    any ring:

        writer                                       reader
        sched.acquire %r[%s] phase %p                sched.wait %r[%s] phase %p
        write stage %s: copies, stores               read stage %s
        sched.commit %r[%s] or expect_bytes          sched.release %r[%s]
        advance to the next stage; after the last    advance in the same way
        stage wrap to stage 0 and flip the phase

    The phase is 0 in the first pass over the stages, then 1, 0, ... for writers and readers alike.

    The CUDA printer prints each op as one statement and makes no decisions.
  }];
  let dependentDialects = ["::attune::tile::TileDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def RingType : TypeDef<SchedDialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "the mbarriers of a ring: a full and an empty barrier for each stage";
  let description = [{
    ```mlir
    !sched.ring<2>
    ```
  }];
  let parameters = (ins "int64_t":$stages);
  let assemblyFormat = "`<` $stages `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of shared memory of the ring's barriers: two mbarriers of eight bytes for each stage.
    int64_t bytes() const { return 16 * getStages(); }
  }];
}

def TensorMapType : TypeDef<SchedDialect, "TensorMap"> {
  let mnemonic = "tensor_map";
  let summary = "how TMA reads or writes boxes of a view";
  let description = [{
    The launch creates the tensor map. TMA copies boxes of `rows` x `columns` elements of one head; shared memory holds
    a box as one panel of a `#sched.swizzle`.

    ```mlir
    !sched.tensor_map<64 x 64, bf16>
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $rows `x` $columns `,` $elementType `>`";
  let genVerifyDecl = 1;
}

def FragmentRole : I32EnumAttr<"FragmentRole", "what a register fragment holds",
    [I32EnumAttrCase<"A", 0, "a">, I32EnumAttrCase<"B", 1, "b">, I32EnumAttrCase<"C", 2, "c">,
     I32EnumAttrCase<"Rows", 3, "rows">, I32EnumAttrCase<"Columns", 4, "columns">, I32EnumAttrCase<"Lanes", 5, "lanes">,
     I32EnumAttrCase<"Diagonals", 6, "diagonals">, I32EnumAttrCase<"Threads", 7, "threads">,
     I32EnumAttrCase<"Distances", 8, "distances">]> {
  let cppNamespace = "::attune::sched";
  let genSpecializedAttr = 0;
}

def FragmentAttr : AttrDef<SchedDialect, "Fragment"> {
  let mnemonic = "fragment";
  let summary = "how the lanes of the warps hold a register tile (mma.sync m16n8)";
  let description = [{
    The first axis of an `a` or `c` tile is split over `warps` warps, 16 rows at a time: the rows of warp w start at `w
    mod warps * rows / warps`. A block with more warps holds several copies of the tile. `warps R x C` also splits the
    columns of a `c` or `columns` tile: the columns of warp w start at `w / R * columns / C`. With g = lane / 4 and c =
    lane % 4, a lane holds these elements, per PTX ISA section 9.7.14 (warp-level matrix instructions, m16n8k16):

        | role    | array of one lane         | element [i][j][e] is at                                          |
        |---------|---------------------------|------------------------------------------------------------------|
        | c       | [rows/16][columns/8][4]   | row 16 i + g + 8 (e / 2), column 8 j + 2 c + e % 2               |
        | a       | [rows/16][columns/16][4]  | pair: row 16 i + g + 8 (e % 2), columns 16 j + 8 (e / 2) + 2 c, +1 |
        | b       | [rows/8][columns/16][2]   | pair: row 8 i + g, columns 16 j + 8 e + 2 c, +1                   |
        | rows    | [rows/16][2]              | row 16 i + g + 8 e, the same in the four lanes of a quad           |
        | columns | [columns/8][2]            | column 8 j + 2 c + e, the same in lanes of equal c                |
        | lanes   | [columns/32], rounded up  | column 32 i + lane, the same in all warps; past the end the last column |
        | threads | [columns/32/warps], rounded up | column 32 warps i + t in the t-th thread of the role's warps after its first warp |
        | diagonals | [(rows + columns)/8 - 1][2] | diagonal, row minus column: rows - 8 (i + 1) + g - 2 c - e, rows counted from the warp's first |
        | distances | [columns/32], rounded up | of part `w mod warps` in warp w: element 32 i + 8 c + (g - 2 c) mod 8; undefined past the end |

    A `diagonals` tile has equal elements along each diagonal: the element at (i, j, e) of a `c` fragment of the same
    rows and columns is at [j + rows/8 - 1 - 2 i - e / 2][e % 2] of the lane's array.

    In the table `rows` and `columns` count the rows and columns of one warp. With 16 rows for each warp the four warps
    of a warpgroup hold 64 rows, and `c`, `a` and `rows` are the layouts in which wgmma m64 holds its accumulator and
    its left operand (PTX ISA section 9.7.15.5). 16-bit `a` and `b` elements are pairs packed in one 32-bit register.
    f32 (and i32, which holds tf32 bits) `a` and `b` tiles are for m16n8k8 (tf32): a is [rows/16][columns/8][4] with e
    at row 16 i + g + 8 (e % 2), column 8 j + 2 c + e / 2; b is [rows/8][columns/8][2] with e at row 8 i + g, column 8 j
    + 2 c + e. The contraction visits columns in another order than the instruction numbers them; the order is the same
    for both operands.

    ```mlir
    #sched.fragment<c, warps 4>
    #sched.fragment<c, warps 4 x 2>
    ```
  }];
  let parameters = (ins "::attune::sched::FragmentRole":$role, "int64_t":$warps, "int64_t":$column_warps);
  let builders = [AttrBuilder<(ins "::attune::sched::FragmentRole":$role, "int64_t":$warps, CArg<"int64_t", "1">:$columnWarps), [{
    return $_get($_ctxt, role, warps, columnWarps);
  }]>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Shape of the register array that one lane holds for a tile of `type` in this layout.
    ::llvm::SmallVector<int64_t> laneShape(::attune::tile::TileType type) const;
  }];
}

def AtAttr : AttrDef<SchedDialect, "At"> {
  let mnemonic = "at";
  let summary = "pipeline stage and order of an op in a loop over tiles, as the attribute `sched.at`";
  let description = [{
    Stage. An op of `stage` N (0 to 7) works on the tile N loop iterations before the tile of stage 0. Ops of stage 1
    thus run in the same iteration as the next tile's ops of stage 0 and overlap with them.

    Order. Within an iteration ops run in ascending `order`; ops of equal order run in program order. An op always runs
    after the ops of its own stage whose results it reads, whatever their orders. An op without the attribute has stage
    0 and the order of the next op with the attribute; after the last op with the attribute it runs last. Text omits a
    stage or order of 0 and an absent `ping_pong`.

    Ping-pong. The ops from the first to the last op with the same `ping_pong` name run in one warpgroup at a time.

    For a `tile.load` whose tile other warps copy, the attribute places the wait for the tile, not the copy. A product
    that is marked `sched.async` only starts at its place; `tile-pipeline-stages` inserts the wait before the first use
    of the result.

    ```mlir
    %s = tile.mma %q, %k {sched.async, sched.at = #sched.at<order 0, ping_pong "products">} : ...
    %o = tile.mma %p, %v add %acc {sched.async, sched.at = #sched.at<order 1, stage 1, ping_pong "products">} : ...
    ```
  }];
  let parameters = (ins "int64_t":$stage, "int64_t":$order, "::mlir::StringAttr":$ping_pong);
  let extraClassDeclaration = [{
    static constexpr int64_t lastStage = 7;
  }];
  let builders = [AttrBuilder<(ins "int64_t":$stage, "int64_t":$order, CArg<"::mlir::StringAttr", "{}">:$ping_pong), [{
    return $_get($_ctxt, stage, order, ping_pong);
  }]>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def RingAttr : AttrDef<SchedDialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "stages of the ring of a shared tile and the warps that fill it, as the attribute `sched.ring`";
  let description = [{
    On `tile.load`, `tile.window` and `tile.convert`, whose result is a shared tile: `stages` is the number of tiles
    that shared memory holds at a time. The attribute names the warps of a role (`sched.roles`), counted from the role's
    first warp, that fill the ring. Without a role the consumer warps fill the ring themselves. If such a ring of a
    `tile.convert` has two or more stages, the consumer warps synchronise only once for each tile, before the first
    read: the stage that is overwritten was last read two tiles earlier.

    On `tile.accumulate` and `tile.store` in a loop the ring holds tiles on their way to global memory: the consumer
    warps fill a stage, and the named warp empties the stage by TMA.

    ```mlir
    %k = tile.load %K[%b, %h, %k0] limit %Sk {sched.ring = #sched.ring<stages 3, "producer" warp 0>} : ...
    %bias = tile.convert %b {sched.ring = #sched.ring<stages 2, "producer" warps 1 to 3>} : ...
    %ds = tile.convert %d {sched.ring = #sched.ring<stages 2>} : ...
    tile.accumulate %dq, %DQ[%b, %h, %q0] limit %Sq {sched.ring = #sched.ring<stages 1, "producer" warp 1>} : ...
    ```
  }];
  let parameters = (ins "int64_t":$stages, "::mlir::StringAttr":$role, "int64_t":$first_warp, "int64_t":$warps);
  let builders = [AttrBuilder<(ins "int64_t":$stages, CArg<"::mlir::StringAttr", "{}">:$role, CArg<"int64_t", "0">:$firstWarp, CArg<"int64_t", "1">:$warps), [{
    return $_get($_ctxt, stages, role, firstWarp, warps);
  }]>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def RoleAttr : AttrDef<SchedDialect, "Role"> {
  let mnemonic = "role";
  let summary = "a role of warps in a warp-specialised kernel, as an entry of the attribute `sched.roles`";
  let description = [{
    `sched.roles` lists the roles in the order of their warps: first the producer role, which fills rings, then the
    consumer role, which computes. `registers` is the number of registers of each thread; without this field
    `tile-assign-roles` splits the block's registers between the roles.

    ```mlir
    tile.kernel @k(...) ... attributes {sched.roles = [#sched.role<"producer", warps 4, registers 24>, #sched.role<"consumer", warps 8, registers 240>]}
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$warps, DefaultValuedParameter<"int64_t", "0">:$registers);
  let assemblyFormat = "`<` $name `,` `warps` $warps (`,` `registers` $registers^)? `>`";
  let genVerifyDecl = 1;
}

def SwizzleAttr : AttrDef<SchedDialect, "Swizzle", [DeclareAttrInterfaceMethods<SharedLayoutInterface>]> {
  let mnemonic = "swizzle";
  let summary = "layout of a shared tile in panels, swizzled so that eight consecutive rows have no bank conflicts";
  let description = [{
    The tile's last axis is cut into panels of `panel` bytes (32, 64 or 128); a panel stores its rows one after the
    other. The last panel has full width, too; its bytes past the end of a row are undefined. Rows of 144 bf16 columns
    have five panels of 64 bytes, and the last panel holds 16 columns. Within a row the 16-byte chunk c is stored at
    chunk `c xor ((row / (128 / panel)) mod (panel / 16))`:

        | panel | rows in 128 bytes | chunk of (row, c)          |
        |-------|-------------------|----------------------------|
        | 128   | 1                 | c xor (row mod 8)          |
        | 64    | 2                 | c xor (row / 2 mod 4)      |
        | 32    | 4                 | c xor (row / 4 mod 2)      |

    The eight rows of 16 bytes that `ldmatrix` reads at once are thus in eight different groups of four banks.

    ```mlir
    #sched.swizzle<128>
    ```
  }];
  let parameters = (ins "int64_t":$panel);
  let assemblyFormat = "`<` $panel `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The swizzle with the widest panel (32, 64 or 128 bytes) that divides the row's `bytes`, a multiple of 32.
    static SwizzleAttr widest(::mlir::MLIRContext *context, int64_t bytes);
    /// The swizzle for rows of `bytes` bytes that TMA copies. Its panels are those
    /// of panelForBoxes (SwizzledLayout.h): the last panel of a row may be partly unused.
    static SwizzleAttr forBoxes(::mlir::MLIRContext *context, int64_t bytes);
  }];
}

#endif
