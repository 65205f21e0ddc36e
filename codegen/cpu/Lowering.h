//===- Lowering.h - A tile.kernel on its way to vector code ---------------===//
//
// Storage. A tile is an array in the caller's scratch memory. For a tile of two axes one is the lane axis: the
// axis of S that belongs to the block (q where the kernel loops over k), where the tile has it. Its elements are
// contiguous and fill vectors:
//
//     | tile          | stored as      | vectors run along |
//     |---------------|----------------|-------------------|
//     | S, P (q x k)  | [k][q]         | q                 |
//     | Q (q x d)     | [d][q]         | q                 |
//     | O (q x dv)    | [dv][q]        | q                 |
//     | K (k x d)     | [k][d]         | d                 |
//     | m, l (q)      | [q]            | q                 |
//
// An op that needs the other order of a tile gets a transposed copy, made where the tile is defined.
//
// Steps. The ops of a block are regrouped into steps: element-wise ops and reductions over the same axes run as one
// loop nest, with intermediate values in registers; an accumulator's rescaling is part of the product that adds to
// it. A tile's memory is reused after the last step that reads it.
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

/// Order of a tile's two axes in memory: as the type lists them, or the reverse.
enum Order : unsigned { Listed = 0, Reversed = 1 };

/// Where a tile lies: a scratch offset for each order that exists.
struct Storage {
  TileType type;
  int64_t offset[2] = {-1, -1};
  bool owned = true; ///< freed after the last use
  Value base;        ///< where the listed order lies when that is known at run time only: scratch or global memory
  Value rowStride;   ///< i64, elements; with `base`

  bool has(Order order) const { return offset[order] >= 0; }
  Order any() const { return has(Listed) ? Listed : Reversed; }
};

/// A view's launch parameters.
struct Memory {
  Value base;
  SmallVector<Value> strides, extents; ///< i64, elements
  Type element;
  int64_t columns = -1;    ///< the last extent where it is known
  bool unitStride = false; ///< the last stride is 1
};

/// Ops that run together.
struct Step {
  SmallVector<Operation *> ops;
  bool isGroup = false;
};

inline bool isElementwise(Operation *op) {
  if (isa<MapOp, ConvertOp, DropoutOp, CombineLanesOp, SplatOp, ReduceOp>(op))
    return true;
  return false;
}

/// The tile whose axes an element-wise op or reduction visits.
inline TileType visitedType(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getTile().getType();
  return cast<TileType>(op->getResult(0).getType());
}

/// The lowering of one kernel; its members are defined by topic.
class Lowering : VectorBuilder {
public:
  Lowering(KernelOp kernel, const KernelSignature &signature, ModuleOp module, const HostVectors &host)
      : VectorBuilder(kernel.getLoc(), host), kernel(kernel), signature(signature) {
    b.setInsertionPointToEnd(module.getBody());
  }

  /// Bytes of scratch memory that the code needs.
  Expected<size_t> run();

private:
  using VectorBuilder::bytesOf;

  void fail(Operation *op, const Twine &reason);

  // Layouts: Layouts.cpp.
  /// The axis of S that the kernel does not loop over.
  void findLaneAxis();
  /// Lanes of a vector that divides `size`.
  int64_t lanesFor(int64_t size) const { return std::min<int64_t>(host.lanes, size & -size); }
  /// Position in `type` of the axis that vectors run along; the same axis whatever the order of the type's axes.
  unsigned innerAxis(TileType type) const;
  /// The order in which element-wise code visits a tile of this type.
  Order orderOf(TileType type) const { return orderWithInner(type, innerAxis(type)); }
  static Order orderWithInner(TileType type, unsigned inner);
  void need(Value value, Order order) { needed[value] |= 1u << order; }
  void findNeededOrders();

  // Scratch memory: ScratchMemory.cpp.
  int64_t allocate(int64_t bytes);
  void release(int64_t offset, int64_t bytes) { freeList[llvm::alignTo(bytes, cacheLine)].push_back(offset); }
  void release(Value value);
  int64_t bytesOf(TileType type) { return type.numElements() * bytesOf(storedType(type.getElementType())); }
  /// Address of element `index` of the array at a scratch offset.
  Value scratchAt(int64_t offset, Type element, Value index);
  Value loadScratch(int64_t offset, Type element, Value index, int64_t lanes);
  void storeScratch(Value value, int64_t offset, Type element, Value index, int64_t lanes);
  /// [rows][columns] at `from` becomes [columns][rows] at `to`.
  void transpose(int64_t from, int64_t to, int64_t rows, int64_t columns, Type stored);
  void copy(int64_t from, int64_t to, int64_t bytes);
  /// Registers a tile's memory and makes the other order where an op needs it.
  void define(Value value, int64_t offset, Order order, bool owned = true);
  /// The scratch offset of `value` in `order`.
  int64_t ensure(Value value, Order order);
  /// Memory for a value that the current step writes element by element: the carried tile that it replaces, a tile of
  /// the same shape that the step is the last to read, or fresh memory.
  int64_t allocateResult(Value value, ArrayRef<Operation *> ops);

  // Launch parameters: LaunchArguments.cpp.
  Value field(Type type, int64_t offset) { return loadAt(offsetBytes(params, offset), type, bytesOf2(type)); }
  int64_t bytesOf2(Type type) { return isa<LLVM::LLVMPointerType>(type) ? 8 : bytesOf(type); }
  /// Runs `write` with the builder among the parameter reads at the function's start.
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
  /// A captured tensor without elements reads as one zero.
  void readAsZeroIfEmpty(Memory &memory);
  /// Address of `view[indices...]` with the later dimensions at 0.
  Value addressOf(const Memory &memory, ValueRange indices);
  /// The address of row `i` behind the last of `indices`, of a view that is read or of a group's or pages' rows of one.
  Value rowAddress(Value view, ValueRange indices, Value i);
  Value pagedRowAddress(PagedRowsOp rows, ValueRange indices, Value i);

  // Scalars and the regions of maps: Scalars.cpp.
  /// The lowered form of a scalar, or of a value inside a map.
  Value lookup(Value value);
  /// A read of `view[indices]`, each index limited to the view.
  Value readElement(ElementOp op, ArrayRef<Value> indices);
  /// A loop over scalars.
  void lowerCountedLoop(scf::ForOp counted);
  /// Lowers one op on scalars; some operands may have become vectors.
  void lowerScalarOp(Operation *op);
  /// An op of arith or math, on vectors where an operand is one.
  void lowerArithmetic(Operation *op, SmallVector<Value> &operands, int64_t lanes);
  /// A map's value for the given elements and coordinates, `lanes` at a time (or one for all).
  Value lowerMapBody(MapOp map, ArrayRef<Value> elements, ArrayRef<Value> coordinates);
  /// Whether any block of the pattern that the tile touches is set.
  Value lowerTouches(TouchesOp op);

  // Steps: Steps.cpp.
  /// Regroups a block's ops: see "Steps" at the top.
  SmallVector<Step> schedule(Block &block);
  static bool sameAxes(TileType a, TileType b);
  /// The op of `block` that contains `op`, or null.
  static Operation *ancestorIn(Block *block, Operation *op) { return block->findAncestorOpInBlock(*op); }
  /// Marks maps that only rescale the accumulator of a product in the same block.
  void findDeferred(Block &block);
  void lowerBlock(Block &block);
  /// Whether the step reads `carried` only at the position where it then writes `next`.
  bool overwrites(const Step &step, Value next, Value carried);
  void lowerStep(const Step &step);

  // Loop nests over a tile's elements: Elementwise.cpp.
  /// Evaluates the element-wise ops of one position. `outer` and `inner` are the position, `at` gives an input's value.
  struct Position {
    TileType type;       ///< the tile that is visited
    unsigned innerIndex; ///< which of its axes is the inner one
    Value outer, inner;  ///< i64; `outer` is null for one axis
    int64_t lanes;
  };
  /// Element(s) of `value` at a position, from memory.
  Value readTile(Value value, const Position &at);
  Value coordinateAt(StringRef axis, Value origin, const Position &at);
  Value evaluateMap(MapOp map, const Position &at, function_ref<Value(Value)> read);
  Value identityOf(Reduction kind, Type type);
  /// `max` keeps the accumulator where the element is NaN, and takes the element where the accumulator is.
  Value combine(Reduction kind, Value accumulator, Value value);
  /// Element-wise ops and reductions that run as one loop nest.
  struct Group {
    Position at;
    DenseSet<Operation *> members;
    DenseMap<Operation *, int64_t> random;   ///< random numbers of dropout ops
    llvm::MapVector<Value, int64_t> outputs; ///< memory for every value that is used beyond the group
    SmallVector<ReduceOp> reductions, innerReductions;
    SmallVector<Value> lines; ///< one-axis inputs along the inner axis
  };
  Group makeGroup(ArrayRef<Operation *> ops);
  /// Sums along the lanes accumulate in memory.
  void initReductions(Group &group);
  /// Adds an element to its accumulator: among `next`, or in memory.
  void reduceElement(Group &group, ReduceOp reduce, Value element, SmallVectorImpl<Value> &next);
  /// The element of an element-wise op.
  Value evaluate(Group &group, Operation *op, function_ref<Value(Value)> read);
  void lowerGroup(ArrayRef<Operation *> ops);
  /// Whether an element of the whole tile meets the condition.
  void lowerAny(AnyOp op);
  void lowerSumDiagonals(SumDiagonalsOp op);
  /// Combines one vector into the element of its row.
  void reduceLanes(ReduceOp reduce, Value value, int64_t offset, const Position &at);

  // Dropout: Dropout.cpp.
  /// Whether the random numbers are not below the threshold.
  Value keeps(DropoutOp op, int64_t random, int64_t innerSize, const Position &at);
  Value drop(DropoutOp op, Value value, Value keep, const Position &at);
  /// Writes each element's 16 random bits, in the order of the tile. Lanes 0-7 and 8-15 of a Philox call hold g = 0..7
  /// of two neighbouring pairs of keys (c, c + 1), so two calls fill a 16 x 16 block.
  int64_t randomNumbers(DropoutOp op);

  // Global memory: Transfers.cpp.
  /// Rows of the tile that lie below the limit.
  Value validRows(Value limit, Value firstRow, int64_t rows);
  /// Columns [begin, begin + lanes) in pieces of the vector width and then of smaller powers of two.
  void forSteps(int64_t begin, int64_t end, function_ref<void(Value column, int64_t lanes)> body);
  void lowerLoad(tile::LoadOp op);
  /// Whether every reader is a product that takes single elements of whole f32 rows.
  bool readsInPlace(tile::LoadOp op, const Memory &memory);
  /// Whether products sum over the columns of `op`'s tile.
  bool runsAlongRows(tile::LoadOp op);
  /// The first `valid` rows of a view's tile to scratch memory, and zeros below and right of them.
  void copyRows(tile::LoadOp op, const Memory &memory, ValueRange indices, Value valid, int64_t offset);
  /// i8 in memory is a bool where the tile says i1.
  Value widenElement(Value value, Type element);
  /// Whether a product reads `value` one element at a time.
  bool usedInAnyOrder(Value value);
  void lowerStore(Operation *op, Value tileValue, Value view, ValueRange indexOperands, Value limit, bool optional,
                  bool atomic);
  void lowerScatter(ScatterOp op);

  // Blocks of 16 x 16 in global memory: Blocks.cpp.
  void lowerLoadBlocks(LoadBlocksOp op);
  void lowerStoreBlocks(StoreBlocksOp op);
  /// Calls `body(place, element, address)` for each element of the tile's blocks that the view has: its place of eight in
  /// a lane, its index in the tile, in the order of the type, and where it lies; a bit's byte.
  template <typename BlocksOp>
  void forEachInBlocks(BlocksOp op, TileType type, function_ref<void(int64_t, Value, Value)> body);

  // Products: Products.cpp.
  /// Where the elements of a product's operand lie that fill whole vectors: base, and strides along its axes.
  struct Broadcast {
    Value base, rowStride, depthStride;
  };
  Broadcast broadcastOperand(Value rowOperand, StringRef rowName);
  /// Memory for a product: the carried tile that it replaces, its accumulator's, or fresh memory.
  int64_t allocateProduct(MmaOp op, bool isScaled);
  /// The accumulator's own memory where this product is its last reader.
  int64_t allocateAccumulator(MmaOp op);
  /// The map that rescales the accumulator as part of the product, or null.
  MapOp scalingOf(MmaOp op);
  /// What a product adds to: its accumulator, rescaled where `scaling` is given, or zero.
  Value accumulatorAt(MmaOp op, MapOp scaling, const Position &at);
  /// result[r][c] = acc[r][c] + sum_z broadcast[r, z] * lanes[z][c], in register tiles of `rows` x `vectors`.
  void lowerMma(MmaOp op);

  // Loops over a domain: BlockLoops.cpp.
  void lowerForBlocks(ForBlocksOp op);
  /// Memory for a carried tile, which holds its initial value.
  void carryTile(ForBlocksOp op, unsigned i);
  /// One round of the domain; gives the carried scalars' next values.
  SmallVector<Value> lowerSegments(ForBlocksOp op, DomainOp domain, ValueRange scalars, ArrayRef<unsigned> scalarIndex);
  /// The iteration under the domain's own condition.
  SmallVector<Value> lowerVisited(ForBlocksOp op, DomainOp domain, Value n, Value first, Value partial,
                                  ValueRange inner, ArrayRef<unsigned> scalarIndex);
  SmallVector<Value> lowerIteration(ForBlocksOp op, Value first, Value partial, ValueRange scalars,
                                    ArrayRef<unsigned> scalarIndex);
  /// The next values take the place of the carried ones; a carried tile that moves to another place is saved first.
  /// Gives the next scalars.
  SmallVector<Value> moveCarried(ForBlocksOp op);

  KernelOp kernel;
  const KernelSignature &signature; ///< of the launch
  Block *entry = nullptr;
  Value params, blockId, scratch, paramEnd;
  StringRef laneAxis;
  std::string problem;

  DenseMap<Value, unsigned> needed; ///< orders that ops need, as bits
  DenseMap<Value, Storage> storage; ///< tiles in memory
  DenseMap<Value, Value> values;    ///< scalars, and elements inside maps
  llvm::StringMap<Value> scalarParams;
  llvm::StringMap<Value> extents;
  std::map<std::string, Memory, std::less<>> memories;
  DenseSet<Operation *> deferred;             ///< maps evaluated where a product reads its accumulator
  SmallVector<Value> dyingNow;                ///< tiles that the current step is the last to read
  DenseMap<Value, Value> target;              ///< results of the current step that overwrite a carried tile
  std::set<int64_t> taken;                    ///< memory that the current step's results took over
  SmallVector<std::pair<Value, Order>> moved; ///< tiles whose memory that was
  std::map<int64_t, SmallVector<int64_t>> freeList;
  int64_t scratchEnd = 0, emptyTensor = -1;
};

} // namespace attune::cpu
