//===- SchedDialect.td - One architecture's schedule -------------*- tablegen -*-===//
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
    What each thread does, in order: shared buffers with their offsets, register fragments with their lane maps,
    asynchronous copies and the waits that complete them, barriers, one matrix instruction an op. Loops are
    `scf.for` (with `sched.unroll` where it is unrolled, `sched.unroll = 2` where twice), `scf.if` and `sched.for_tiles`; scalar arithmetic is `arith` and
    `math`. Buffers are memory, not values: their ops have effects, and the order of ops is the program.

    Warps may have roles (`sched.role`) that hand tiles to each other through rings. A ring has stages, and a stage two barriers:
    full, on which its readers wait, and empty, on which its writers wait. Any role may write or read any ring:

        writer                                       reader
        sched.acquire %r[%s] phase %p                sched.wait %r[%s] phase %p
        write stage %s: copies, stores               read stage %s
        sched.commit %r[%s] or expect_bytes          sched.release %r[%s]
        next stage; past the last one the first,     next stage, the same
        and the phase flips

    The phase is 0 in the first walk over the stages, then 1, 0, ... for writers and readers alike.

    The CUDA printer pingPong each op into one statement and takes no decision.
  }];
  let dependentDialects = ["::attune::tile::TileDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def RingType : TypeDef<SchedDialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "the barriers of a ring: full and empty, for each stage";
  let description = [{
    ```mlir
    !sched.ring<2>
    ```
  }];
  let parameters = (ins "int64_t":$stages);
  let assemblyFormat = "`<` $stages `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of shared memory: two barriers of eight bytes a stage.
    int64_t bytes() const { return 16 * getStages(); }
  }];
}

def TensorMapType : TypeDef<SchedDialect, "TensorMap"> {
  let mnemonic = "tensor_map";
  let summary = "how TMA reads or writes boxes of a view";
  let description = [{
    A box is `rows` x `columns` elements of one head, stored in shared memory as one panel of a `#sched.swizzle`.

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
    The first axis of an `a` or `c` tile is split over `warps` warps, 16 rows at a time: warp w holds the rows
    `w mod warps * rows / warps` and on; a block with more warps holds the tile more than once. `warps R x C` splits the
    columns of a `c` or `columns` tile as well: warp w holds the columns `w / R * columns / C` and on. With g = lane / 4 and c = lane % 4 a lane holds, per PTX ISA section 9.7.14
    (warp-level matrix instructions, m16n8k16):

        | role    | array of one lane         | element [i][j][e] is at                                          |
        |---------|---------------------------|------------------------------------------------------------------|
        | c       | [rows/16][columns/8][4]   | row 16 i + g + 8 (e / 2), column 8 j + 2 c + e % 2               |
        | a       | [rows/16][columns/16][4]  | pair: row 16 i + g + 8 (e % 2), columns 16 j + 8 (e / 2) + 2 c, +1 |
        | b       | [rows/8][columns/16][2]   | pair: row 8 i + g, columns 16 j + 8 e + 2 c, +1                   |
        | rows    | [rows/16][2]              | row 16 i + g + 8 e, the same in the four lanes of a quad           |
        | columns | [columns/8][2]            | column 8 j + 2 c + e, the same in lanes of equal c                |
        | lanes   | [columns/32], rounded up  | column 32 i + lane, the same in all warps; the last one beyond them |
        | threads | [columns/32/warps], rounded up | column 32 warps i + t in the t-th thread of the warps that follow a role's first |
        | diagonals | [(rows + columns)/8 - 1][2] | rows less columns: rows - 8 (i + 1) + g - 2 c - e, counted from a warp's first row |
        | distances | [columns/32], rounded up | of part `w mod warps` in warp w: element 32 i + 8 c + (g - 2 c) mod 8; anything past the last one |

    A `diagonals` tile of rows and columns is the same along each diagonal: its elements at place (i, j, e) of a `c` fragment are those at
    [j + rows/8 - 1 - 2 i - e / 2][e % 2] of the lane's array.

    Here `rows` and `columns` count one warp's share. With 16 rows a warp the four warps of a warpgroup hold 64 rows, and `c`, `a` and `rows` are
    just how wgmma m64 holds its accumulator and its left operand (PTX ISA section 9.7.15.5). 16-bit `a` and `b` elements are pairs packed in one 32-bit register. f32 (and i32, which holds tf32 bits) `a` and `b`
    tiles are for m16n8k8 (tf32): a is [rows/16][columns/8][4] with e at row 16 i + g + 8 (e % 2), column
    8 j + 2 c + e / 2; b is [rows/8][columns/8][2] with e at row 8 i + g, column 8 j + 2 c + e: the contraction
    visits columns in another order than the instruction numbers them, the same for both operands.

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
    /// Shape of the array that one lane holds for a tile of this layout (the table above).
    ::llvm::SmallVector<int64_t> laneShape(::attune::tile::TileType type) const;
  }];
}

def AtAttr : AttrDef<SchedDialect, "At"> {
  let mnemonic = "at";
  let summary = "when an op of a block loop runs, as the attribute `sched.at`";
  let description = [{
    Ops of `stage` 1 work on the tile before the one that ops of stage 0 work on: beside them, one pass of the loop later; those of stage 2 on the tile before that, and so on to stage 7. Within a pass ops run by `order`,
    those of one order as they are written. Ops with `ping_pong` of one name, the first to the last of them, run in one warpgroup at a time.

    `tile.load` stands for the wait for its tile, so that its order says where warps wait that have others copy for them. A product that is
    marked `sched.async` starts where it stands; what waits for it follows (`tile-pipeline-stages`). What is 0, or no name, is left out. An op without the attribute
    is of stage 0 and of the order of the next op that has one; behind the last that has one it comes last. What an op reads of its own stage runs before it, whatever its order.

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
  let summary = "how many tiles of an op shared memory holds, and which warps bring them, as the attribute `sched.ring`";
  let description = [{
    On what gives a shared tile: `tile.load`, `tile.window`, and `tile.convert` of what is computed. The warps are those of a role of the kernel (`sched.roles`), counted from
    its first; without them the warps that compute bring the tile themselves. For a conversion of theirs with two stages or more they synchronize once a tile, in front of what reads it:
    the stage that it writes was read in the tile before last.

    On `tile.accumulate` and `tile.store` in a loop the ring is that of a tile on its way to memory: the warps that compute fill a stage, and the warp that is named empties it by
    way of TMA.

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
  let summary = "warps of a block that do one thing, among a kernel's `sched.roles`";
  let description = [{
    In the order of their warps: one that fills rings, and one that computes. `registers` are those of a thread; without them the pass that assigns roles shares them out.

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
  let summary = "panels of a shared tile, with 16-byte chunks exchanged so that eight rows never share a bank";
  let description = [{
    The tile's last axis is cut into panels of `panel` bytes (32, 64 or 128); a panel stores its rows one after the other.
    The last panel is whole, too: what rows lack of it holds anything. Rows of 144 columns of bf16 are five panels of 64
    bytes, of which the last has 16 columns.
    Within a row the 16-byte chunk c is stored at chunk `c xor ((row / (128 / panel)) mod (panel / 16))`:

        | panel | rows in 128 bytes | chunk of (row, c)          |
        |-------|-------------------|----------------------------|
        | 128   | 1                 | c xor (row mod 8)          |
        | 64    | 2                 | c xor (row / 2 mod 4)      |
        | 32    | 4                 | c xor (row / 4 mod 2)      |

    so that the eight rows of 16 bytes that `ldmatrix` reads at once lie in eight different groups of four banks.

    ```mlir
    #sched.swizzle<128>
    ```
  }];
  let parameters = (ins "int64_t":$panel);
  let assemblyFormat = "`<` $panel `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// With the widest panel that divides `bytes`, a multiple of 32.
    static SwizzleAttr widest(::mlir::MLIRContext *context, int64_t bytes);
    /// For rows of `bytes` bytes that TMA brings: wide panels, whose last one may be half empty.
    static SwizzleAttr forBoxes(::mlir::MLIRContext *context, int64_t bytes, bool singleRows = false);
  }];
}

#endif
