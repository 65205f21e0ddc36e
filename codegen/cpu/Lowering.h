//===- Lowering.h - The lowering of one tile.kernel to vector code --------===//
//
// Storage. A tile is an array in the caller's scratch memory. Vectors run along one axis of the tile, and elements
// along that axis are contiguous. The kernel's lane axis is the axis of S that the kernel does not loop over (q in a
// kernel that loops over k). Vectors run along the lane axis in every tile that has it and whose size along it is a
// multiple of the vector length:
//
//     | tile          | stored as      | vectors run along |
//     |---------------|----------------|-------------------|
//     | S, P (q x k)  | [k][q]         | q                 |
//     | Q (q x d)     | [d][q]         | q                 |
//     | O (q x dv)    | [dv][q]        | q                 |
//     | K (k x d)     | [k][d]         | d                 |
//     | m, l (q)      | [q]            | q                 |
//
// For an op that needs a tile in another memory order than the table's, a transposed copy of the tile is made where the
// tile is defined.
//
// Steps. The ops of an IR block are grouped into steps. Element-wise ops and reductions over the same axes become one
// loop nest, with intermediate values in registers. The rescaling of an accumulator is fused into the product that adds
// to the accumulator. A tile's memory is reused after the last step that reads the tile.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/cpu/LowerTile.h"
#include "codegen/cpu/VectorBuilder.h"
#include "ir/sched/Sched.h"
#include "ir/tile/Signature.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <set>

namespace attune::cpu {

using namespace tile;

inline constexpr int64_t cacheLine = 64;

/// Order of a tile's two axes in memory. `Listed`: the order in which the tile's type lists the axes, so that the last
/// listed axis is contiguous. `Reversed`: the other order.
enum Order : unsigned { Listed = 0, Reversed = 1 };

/// The memory of a tile: the scratch offset of its copy in each memory order (Order), or -1 where there is no such
/// copy.
struct Storage {
  TileType type;
  int64_t offset[2] = {-1, -1};
  bool owned = true; ///< whether the memory is freed after the tile's last use
  /// The address of the tile in memory order `Listed` if generated code chooses the address at run time, between a copy
  /// in scratch memory and the tensor itself in global memory (lowerLoad); null for all other tiles.
  Value base;
  Value rowStride; ///< stride of the tile's rows in the memory at `base`: i64, in elements

  bool has(Order order) const { return offset[order] >= 0; }
  Order any() const { return has(Listed) ? Listed : Reversed; }
};

/// A tensor parameter, as read from the launch parameters.
struct Memory {
  Value base;
  SmallVector<Value> strides, extents; ///< i64, in elements
  Type element;
  int64_t columns = -1;    ///< the last extent where it is known at compile time, else -1
  bool unitStride = false; ///< whether the last stride is known to be 1
};

/// Ops that are lowered together: one op, or (isGroup) the element-wise ops and reductions that form one loop nest.
struct Step {
  SmallVector<Operation *> ops;
  bool isGroup = false;
};

inline bool isElementwise(Operation *op) {
  if (isa<MapOp, ConvertOp, DropoutOp, CombineLanesOp, SplatOp, ReduceOp>(op))
    return true;
  return false;
}

/// The type of the tile whose elements an element-wise op or reduction iterates over.
inline TileType visitedType(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getTile().getType();
  return cast<TileType>(op->getResult(0).getType());
}

/// The lowering of one kernel. Comments in the class name the file that defines each group of members.
class Lowering : VectorBuilder {
public:
  Lowering(KernelOp kernel, const KernelSignature &signature, ModuleOp module, const HostVectors &host)
      : VectorBuilder(kernel.getLoc(), host), kernel(kernel), signature(signature) {
    b.setInsertionPointToEnd(module.getBody());
  }

  /// Lowers the kernel and returns the bytes of scratch memory that the code needs.
  Expected<size_t> run();

private:
  using VectorBuilder::bytesOf;

  void fail(Operation *op, const Twine &reason);

  // Vector axes and memory orders of tiles (Layouts.cpp).
  /// Sets laneAxis, along which vectors run, to the axis of the score tile (q or k) that the kernel does not loop over.
  void findLaneAxis();
  /// The number of lanes of the longest vector whose length divides `size`.
  int64_t lanesFor(int64_t size) const { return std::min<int64_t>(host.lanes, size & -size); }
  /// Index in `type` of the axis that vectors run along. The choice does not depend on the order of the type's axes.
  unsigned innerAxis(TileType type) const;
  /// The memory order in which element-wise code accesses a tile of this type: the axis of the vectors is contiguous.
  Order orderOf(TileType type) const { return orderWithInner(type, innerAxis(type)); }
  static Order orderWithInner(TileType type, unsigned inner);
  void need(Value value, Order order) { needed[value] |= 1u << order; }
  void findNeededOrders();

  // Allocation of scratch memory (ScratchMemory.cpp).
  int64_t allocate(int64_t bytes);
  void release(int64_t offset, int64_t bytes) { freeList[llvm::alignTo(bytes, cacheLine)].push_back(offset); }
  void release(Value value);
  int64_t bytesOf(TileType type) { return type.numElements() * bytesOf(storedType(type.getElementType())); }
  /// The address of element `index` of the array at a scratch offset.
  Value scratchAt(int64_t offset, Type element, Value index);
  Value loadScratch(int64_t offset, Type element, Value index, int64_t lanes);
  void storeScratch(Value value, int64_t offset, Type element, Value index, int64_t lanes);
  /// Transposes [rows][columns] at scratch offset `from` to [columns][rows] at `to`.
  void transpose(int64_t from, int64_t to, int64_t rows, int64_t columns, Type stored);
  void copy(int64_t from, int64_t to, int64_t bytes);
  /// Records that the tile `value` is stored at `offset` in memory order `order`, and makes a copy in the other memory
  /// order where an op needs that order.
  void define(Value value, int64_t offset, Order order, bool owned = true);
  /// The scratch offset of the tile `value` in memory order `order`. Makes a transposed copy if the tile is not stored
  /// in this order yet.
  int64_t ensure(Value value, Order order);
  /// Scratch memory for a tile `value` that the current step writes element by element: the memory of the loop-carried
  /// tile whose next value `value` is, the memory of a tile of the same shape that this step is the last to read, or
  /// new memory.
  int64_t allocateResult(Value value, ArrayRef<Operation *> ops);

  // Reading launch parameters (LaunchArguments.cpp).
  Value field(Type type, int64_t offset) { return loadAt(offsetBytes(params, offset), type, bytesOf2(type)); }
  int64_t bytesOf2(Type type) { return isa<LLVM::LLVMPointerType>(type) ? 8 : bytesOf(type); }
  /// Calls `write` with the insertion point at the function's start, where all parameters are read.
  template <typename F> void atStart(F write) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(paramEnd.getDefiningOp());
    write();
  }
  Value scalarParam(ParamOp op);
  Value axisExtent(AxisExtentOp op);
  Value readScalar(StringRef name, Type type);
  const Memory &memoryOf(Value view);
  Memory readMemory(StringRef name, Type type);
  /// Emits code that redirects an empty tensor to a zero in scratch memory, with strides of 0, so that a read at any
  /// index gives 0.
  void readAsZeroIfEmpty(Memory &memory);
  /// The address of element [indices..., 0, ...] of a tensor.
  Value addressOf(const Memory &memory, ValueRange indices);
  /// The address of the row that is `i` rows after the row at `indices`. The view is a parameter, the query rows of all
  /// query heads of one key head (GroupRowsOp), or the rows of a paged K or V (PagedRowsOp).
  Value rowAddress(Value view, ValueRange indices, Value i);
  Value pagedRowAddress(PagedRowsOp rows, ValueRange indices, Value i);

  // Scalar ops and the regions of maps (Scalars.cpp).
  /// The lowered value of a scalar, or of a value inside a map's region.
  Value lookup(Value value);
  /// Reads `view[indices]`, each index clamped to the view's extent. Vector indices become a gather.
  Value readElement(const Memory &memory, ArrayRef<Value> indices);
  /// The number of elements before `x` in a sorted tensor of one dimension, by bisection. With `right`, elements equal
  /// to `x` count. If `x` is a vector, all its lanes are searched for at once, and each step of the bisection is a
  /// gather.
  Value searchVector(const Memory &memory, Value x, bool right, int64_t tileRows);
  /// Lowers a scf.for that carries scalars only.
  void lowerCountedLoop(scf::ForOp counted);
  /// Lowers one scalar op; the op becomes a vector op where one of its operands was lowered to a vector.
  void lowerScalarOp(Operation *op);
  /// Lowers an arith or math op; operands are broadcast to vectors of `lanes`.
  void lowerArithmetic(Operation *op, SmallVector<Value> &operands, int64_t lanes);
  /// Lowers the region of a tile.map for the given elements and coordinates (vectors or scalars); returns its result.
  Value lowerMapBody(MapOp map, ArrayRef<Value> elements, ArrayRef<Value> coordinates);
  /// tile.touches: whether a tile overlaps a block of scores that the block-sparse pattern marks as visible.
  Value lowerTouches(TouchesOp op);

  // Grouping ops into steps (Steps.cpp).
  /// Groups the ops of an IR block into steps (see "Steps" in the file header).
  SmallVector<Step> schedule(Block &block);
  static bool sameAxes(TileType a, TileType b);
  /// The op directly in the IR block `block` that contains `op`, or null.
  static Operation *ancestorIn(Block *block, Operation *op) { return block->findAncestorOpInBlock(*op); }
  /// Fills `deferred` with the element-wise maps that rescale accumulators. The only use of a deferred map is as the
  /// accumulator operand of a product in the same IR block; the lowering of that product evaluates the map.
  void findDeferred(Block &block);
  void lowerBlock(Block &block);
  /// Whether the tile `next` can be written to the memory of the loop-carried tile `carried`: the step must read each
  /// element of `carried` only before it writes the same element of `next`.
  bool overwrites(const Step &step, Value next, Value carried);
  void lowerStep(const Step &step);

  // Loop nests over a tile's elements (Elementwise.cpp).
  /// A position in a loop nest over a tile: `lanes` consecutive elements along the inner axis.
  struct Position {
    TileType type;       ///< type of the tile that the loop nest iterates over
    unsigned innerIndex; ///< index in `type` of the inner axis, along which vectors run
    Value outer, inner;  ///< i64 indices; `outer` is null for a tile of one axis
    int64_t lanes;
  };
  /// Loads the element(s) of a tile at a position.
  Value readTile(Value value, const Position &at);
  Value coordinateAt(StringRef axis, Value origin, const Position &at);
  Value evaluateMap(MapOp map, const Position &at, function_ref<Value(Value)> read);
  Value identityOf(Reduction kind, Type type);
  /// One step of a reduction. A float maximum replaces the accumulator only where `value` compares greater (a minimum:
  /// less), so a NaN element is ignored.
  Value combine(Reduction kind, Value accumulator, Value value);
  /// Element-wise ops and reductions that become one loop nest.
  struct Group {
    Position at;
    DenseSet<Operation *> members;
    DenseMap<Operation *, int64_t> random;   ///< key: dropout op; value: scratch offset of its random numbers
    llvm::MapVector<Value, int64_t> outputs; ///< key: value that is used outside of the group; value: scratch offset
    SmallVector<ReduceOp> reductions, innerReductions; ///< reductions along the outer axis, and along the inner axis
    SmallVector<Value> lines;                          ///< input tiles whose only axis is the inner axis
  };
  Group makeGroup(ArrayRef<Operation *> ops);
  /// Initialises the accumulators of reductions along the inner axis, which are kept in scratch memory.
  void initReductions(Group &group);
  /// Combines an element into its accumulator. The accumulator of a reduction along the outer axis is a value in
  /// `next`; that of a reduction along the inner axis is in scratch memory.
  void reduceElement(Group &group, ReduceOp reduce, Value element, SmallVectorImpl<Value> &next);
  /// The result of the element-wise op `op` at the current position of the loop nest that `group`, a set of fused
  /// element-wise ops, becomes. `read` loads an operand.
  Value evaluate(Group &group, Operation *op, function_ref<Value(Value)> read);
  void lowerGroup(ArrayRef<Operation *> ops);
  /// Lowers tile.any: whether the condition is true for any element of the tile.
  void lowerAny(AnyOp op);
  /// Lowers tile.bits: computes the condition once for each bit.
  void lowerBits(BitsOp op);
  void lowerSumDiagonals(SumDiagonalsOp op);
  /// Reduces a vector along its lanes and combines the result into the accumulator of the row in memory.
  void reduceLanes(ReduceOp reduce, Value value, int64_t offset, const Position &at);

  // Dropout and its random numbers (Dropout.cpp).
  /// For each element at the position: whether dropout keeps the element. An element is kept if its random number is at
  /// least the threshold.
  Value keeps(DropoutOp op, int64_t random, int64_t innerSize, const Position &at);
  Value drop(DropoutOp op, Value value, Value keep, const Position &at);
  /// Writes 16 random bits for each element to scratch memory, in the tile's memory order, and returns their scratch
  /// offset. One Philox counter (g, c) gives the bits of eight elements of a 16 x 16 block: query rows g and g + 8, key
  /// columns 2c, 2c + 1, 2c + 8 and 2c + 9. One call of philox() takes 16 counters, one per vector lane: g = 0..7 for
  /// some c in lanes 0-7, and for c + 1 in lanes 8-15. Two calls of philox() fill a block.
  int64_t randomNumbers(DropoutOp op);

  // Loads and stores between global and scratch memory (Transfers.cpp).
  /// The number of the tile's rows that are below `limit`: limit - firstRow, clamped to [0, rows].
  Value validRows(Value limit, Value firstRow, int64_t rows);
  /// Calls `body` until the columns [begin, end) are covered: with vectors of full width first, and for the rest with
  /// shorter vectors whose lengths are powers of two.
  void forSteps(int64_t begin, int64_t end, function_ref<void(Value column, int64_t lanes)> body);
  void lowerLoad(tile::LoadOp op);
  /// Whether a load needs no copy to scratch memory: the loaded tile consists of whole f32 rows of a parameter, and all
  /// its readers are products that broadcast the tile's elements.
  bool readsInPlace(tile::LoadOp op, const Memory &memory);
  /// Whether all products that read the loaded tile contract the tile's columns, and so read along the tile's rows.
  bool runsAlongRows(tile::LoadOp op);
  /// Copies the first `valid` rows of a tile from a view to scratch memory. Other rows, and columns that the view
  /// lacks, are filled with zeros.
  void copyRows(tile::LoadOp op, const Memory &memory, ValueRange indices, Value valid, int64_t offset);
  /// Converts a bool in memory (i8) to i1; returns other elements unchanged.
  Value widenElement(Value value, Type element);
  /// Whether a product reads `value` as the operand that is broadcast, one element at a time. For such a product any
  /// memory order of `value` will do.
  bool usedInAnyOrder(Value value);
  void lowerStore(Operation *op, Value tileValue, Value view, ValueRange indexOperands, Value limit, bool optional,
                  bool atomic);
  void lowerScatter(ScatterOp op);

  // Loads and stores of tiles that are saved in blocks of 16 x 16 elements (Blocks.cpp).
  void lowerLoadBlocks(LoadBlocksOp op);
  void lowerStoreBlocks(StoreBlocksOp op);
  /// Calls `body(place, element, address)` for each element of the tile whose 16 x 16 block is inside the view. `place`
  /// is the element's index (0 to 7) in a GPU lane's fragment. `element` is the element's index in the tile: row *
  /// columns + column, in the type's order of axes. `address` is the element's address in memory. Of elements that are
  /// single bits, the eight of a GPU lane share one byte, and `address` is the address of that byte.
  template <typename BlocksOp>
  void forEachInBlocks(BlocksOp op, TileType type, function_ref<void(int64_t, Value, Value)> body);

  // Matrix products (Products.cpp).
  /// The operand of a product whose elements are broadcast to vectors: its base address, and strides along its row axis
  /// and the contracted axis.
  struct Broadcast {
    Value base, rowStride, depthStride;
  };
  Broadcast broadcastOperand(Value rowOperand, StringRef rowName);
  /// Memory for a product's result: the memory of the loop-carried tile whose next value the result is, or the memory
  /// of the accumulator operand unless a deferred map rescales it (`isScaled`), or new memory.
  int64_t allocateProduct(MmaOp op, bool isScaled);
  /// Memory for the result of a product that is the last reader of its accumulator operand: the accumulator's memory if
  /// the accumulator owns memory and is stored there in the result's memory order, else new memory.
  int64_t allocateAccumulator(MmaOp op);
  /// The map that rescales the product's accumulator operand and is lowered with the product (`deferred`), or null.
  MapOp scalingOf(MmaOp op);
  /// The initial value of a product's accumulator registers: the accumulator operand, rescaled by the map `scaling` if
  /// `scaling` is not null; zero for a product without an accumulator operand.
  Value accumulatorAt(MmaOp op, MapOp scaling, const Position &at);
  /// Computes result[r][c] = acc[r][c] + sum over z of a[r][z] * b[z][c]. Elements of a are broadcast to vectors; the
  /// vectors of b and of the result run along c. The loop over z keeps the sums of several rows and vectors in
  /// registers.
  void lowerMma(MmaOp op);

  // Loops over the tiles of a domain (BlockLoops.cpp).
  void lowerForBlocks(ForBlocksOp op);
  /// Provides memory for loop-carried tile `i` of the loop `op` and copies the initial value there. Where the loop is
  /// the initial value's last reader, the carried tile reuses the memory of the initial value without a copy.
  void carryTile(ForBlocksOp op, unsigned i);
  /// Emits the loops over the segments (ranges of tiles) of `domain` and over the tiles of each segment; returns the
  /// loop-carried scalars after the loops.
  SmallVector<Value> lowerSegments(ForBlocksOp op, DomainOp domain, ValueRange scalars, ArrayRef<unsigned> scalarIndex);
  /// Emits the loop body inside a branch on the domain's `where` region, which tests whether tile `n` has any visible
  /// element.
  SmallVector<Value> lowerVisited(ForBlocksOp op, DomainOp domain, Value n, Value first, Value partial,
                                  ValueRange inner, ArrayRef<unsigned> scalarIndex);
  SmallVector<Value> lowerIteration(ForBlocksOp op, Value first, Value partial, ValueRange scalars,
                                    ArrayRef<unsigned> scalarIndex);
  /// Copies the yielded tiles to the memory of the carried tiles, and returns the yielded scalars. The copies take
  /// effect all at once: a source that another copy overwrites is first copied to temporary memory.
  SmallVector<Value> moveCarried(ForBlocksOp op);

  KernelOp kernel;
  const KernelSignature &signature; ///< signature of the launch
  Block *entry = nullptr;
  Value params, blockId, scratch, paramEnd;
  StringRef laneAxis;
  std::string problem;

  DenseMap<Value, unsigned> needed; ///< bit mask of the memory orders in which ops read a tile
  DenseMap<Value, Storage> storage; ///< memory of the tiles that are alive
  DenseMap<Value, Value> values;    ///< lowered scalars, and lowered values inside regions of maps
  llvm::StringMap<Value> scalarParams;
  llvm::StringMap<Value> extents;
  std::map<std::string, Memory, std::less<>> memories;
  DenseSet<Operation *> deferred;             ///< maps that a product evaluates when it reads its accumulator
  SmallVector<Value> dyingNow;                ///< tiles that the current step is the last to read
  DenseMap<Value, Value> target;              ///< key: result of the current step; value: carried tile to overwrite
  std::set<int64_t> taken;                    ///< scratch offsets, of tiles in `dyingNow`, that a result already reuses
  SmallVector<std::pair<Value, Order>> moved; ///< tiles of `dyingNow` whose memory a result reuses: not to be freed
  std::map<int64_t, SmallVector<int64_t>> freeList;
  int64_t scratchEnd = 0, emptyTensor = -1;
};

} // namespace attune::cpu
