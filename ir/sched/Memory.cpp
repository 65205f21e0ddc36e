//===- Memory.cpp - Verifiers of buffers, accesses to global memory, and copies by threads ----===//

#include "ir/sched/Sched.h"

using namespace mlir;
using namespace attune::sched;
using attune::tile::MemorySpace;

void SharedOp::build(OpBuilder &builder, OperationState &state, TileType type, StringRef name, Value over) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.name = builder.getStringAttr(name);
  properties.offset = builder.getI64IntegerAttr(0);
  if (over)
    state.addOperands(over);
  state.addTypes(type);
}

LogicalResult SharedOp::verify() {
  if (getResult().getType().getSpace() != MemorySpace::Shared)
    return emitOpError() << "needs a shared tile, got " << getResult().getType();
  if (getOffset() % 128)
    return emitOpError() << "offset " << getOffset() << " is not a multiple of 128, which the swizzle relies on";
  return success();
}

LogicalResult RegistersOp::verify() {
  TileType type = getResult().getType();
  auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
  if (type.getSpace() != MemorySpace::Register || !fragment)
    return emitOpError() << "needs a register tile with a #sched.fragment layout, got " << type;
  if (llvm::is_contained(fragment.laneShape(type), 0))
    return emitOpError() << "the tile " << type << " is smaller than one fragment a warp";
  int64_t columnWarps = fragment.getColumnWarps();
  if (columnWarps > 1 && type.getShape().back() % (8 * columnWarps))
    return emitOpError() << "the columns of " << type << " do not give each of " << columnWarps
                         << " warps a multiple of 8";
  if (auto kernel = (*this)->getParentOfType<KernelOp>();
      kernel && int64_t(kernel.getThreads()) / 32 < fragment.getWarps() * columnWarps)
    return emitOpError() << "the block has " << kernel.getThreads() / 32 << " warps, fewer than the "
                         << fragment.getWarps() * columnWarps << " that hold " << type;
  return success();
}

static LogicalResult verifyLaneAccess(Operation *op, TileType type, OperandRange indices) {
  auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
  if (!fragment)
    return op->emitOpError() << "needs a register buffer with a #sched.fragment layout, got " << type;
  SmallVector<int64_t> shape = fragment.laneShape(type);
  if (shape.size() != indices.size())
    return op->emitOpError() << "a lane's array has " << shape.size() << " dimensions, got " << indices.size()
                             << " indices";
  return success();
}

LogicalResult GetOp::verify() { return verifyLaneAccess(*this, getBuffer().getType(), getIndices()); }
LogicalResult SetOp::verify() { return verifyLaneAccess(*this, getBuffer().getType(), getIndices()); }

LogicalResult SlotOp::verify() {
  TileType ring = getRing().getType();
  if (!ring.hasAxis("stage") || ring.dropAxis("stage") != getResult().getType())
    return emitOpError("gives the ring's tile without its stage axis");
  return success();
}

LogicalResult ExchangeOp::verify() {
  TileType ring = getRing().getType(), tile = getTile().getType(), result = getResult().getType();
  if (!ring.hasAxis("stage") || ring.dropAxis("stage") != result || ring.getSpace() != MemorySpace::Shared)
    return emitOpError("gives the ring's tile without its stage axis");
  if (ring.size("stage") < 2)
    return emitOpError("goes into a ring of one stage, whose readers it does not wait for");
  auto hasIt = [&](StringAttr axis) { return tile.hasAxis(axis) && tile.size(axis) == result.size(axis); };
  if (tile.getSpace() != MemorySpace::Register || tile.rank() != result.rank() ||
      !llvm::all_of(result.getAxes(), hasIt))
    return emitOpError() << "writes " << tile << " to " << result;
  return success();
}

LogicalResult SliceOp::verify() {
  ViewType view = getView().getType(), result = getResult().getType();
  const int64_t indices = int64_t(getIndices().size());
  if (view.getElementType() != result.getElementType() || result.getRank() > view.getRank() || indices < getDropped() ||
      indices > view.getRank())
    return emitOpError("removes one leading dimension for each index, and begins those that it keeps at others");
  if (!getBegins().empty() &&
      !llvm::all_of(getResult().getUsers(),
                    llvm::IsaPred<LoadElementsOp, StoreElementsOp, StoreEightsOp, AddElementsOp>))
    return emitOpError("begins dimensions for what accesses several elements, sched.load_elements, "
                       "sched.store_elements, sched.store_eights and sched.add_elements; give the others their own "
                       "indices");
  return success();
}

LogicalResult ExtentOp::verify() {
  if (int64_t(getDim()) < 0 || int64_t(getDim()) >= getView().getType().getRank())
    return emitOpError() << "asks for dimension " << getDim() << " of " << getView().getType();
  return success();
}

/// Verifies that `op` has one index for each dimension of its view, and that the view is of f32, or of i64 if
/// `isInteger`. `does` is the verb in the error text.
template <typename ElementsOp> static LogicalResult verifyPlace(ElementsOp op, StringRef does, bool isInteger = false) {
  ViewType view = op.getView().getType();
  const Type element = view.getElementType();
  if (view.getRank() != int64_t(op.getIndices().size()) || !(isInteger ? element.isInteger(64) : element.isF32()))
    return op.emitOpError() << does << " a view of " << (isInteger ? "i64" : "f32")
                            << " with one index for each dimension, got " << view << " and " << op.getIndices().size();
  return success();
}

/// Whether the elements of `view` are floats, which can be accessed in pairs.
static bool hasFloats(ViewType view) {
  const Type element = view.getElementType();
  return element.isF32() || element.isBF16() || element.isF16();
}

LogicalResult InPairsOp::verify() {
  ViewType view = getView().getType();
  if (!hasFloats(view) || view.getRank() == 0)
    return emitOpError() << "asks for pairs of f32, bf16 or f16 along a last dimension, got " << view;
  return success();
}

/// Verifies that `op` accesses two elements of a view of floats, or four of float32. `does` is the verb in the error
/// text.
template <typename AdjacentOp> static LogicalResult verifyAdjacent(AdjacentOp op, StringRef does, size_t count) {
  ViewType view = op.getView().getType();
  const bool isCount = count == 2 || (count == 4 && view.getElementType().isF32());
  if (!hasFloats(view) || view.getRank() == 0 || view.getRank() != int64_t(op.getIndices().size()) || !isCount)
    return op.emitOpError() << does << " two elements of f32, bf16 or f16, or four of f32, with one index for each "
                            << "dimension, got " << count << " of " << view << " and " << op.getIndices().size();
  return success();
}

LogicalResult LoadElementsOp::verify() { return verifyAdjacent(*this, "reads", getElements().size()); }

LogicalResult StoreElementsOp::verify() { return verifyAdjacent(*this, "writes", getValues().size()); }

/// Whether the elements of `view` are 16-bit floats, of which one access of 16 bytes covers eight.
static bool hasHalves(ViewType view) { return view.getElementType().isBF16() || view.getElementType().isF16(); }

LogicalResult StoreEightsOp::verify() {
  const ViewType view = getView().getType();
  if (!hasHalves(view) || view.getRank() == 0 || view.getRank() != int64_t(getIndices().size()) ||
      getValues().size() != 8)
    return emitOpError() << "writes eight values to a view of bf16 or f16 with one index for each dimension, got "
                         << getValues().size() << ", " << view << " and " << getIndices().size();
  return success();
}

LogicalResult StoreElementOp::verify() {
  if (getView().getType().getRank() != int64_t(getIndices().size()))
    return emitOpError("needs one index for each dimension of the view");
  if (attn::valueType(getView().getType().getElementType()) != getValue().getType())
    return emitOpError() << "writes " << getValue().getType() << " to " << getView().getType();
  return success();
}

/// Verifies that `op` accesses one element of a view of bytes.
template <typename ByteOp> static LogicalResult verifyByte(ByteOp op) {
  ViewType view = op.getView().getType();
  if (view.getRank() != int64_t(op.getIndices().size()) || !view.getElementType().isInteger(8))
    return op.emitOpError() << "takes a view of i8 with one index for each dimension, got " << view << " and "
                            << op.getIndices().size();
  return success();
}

LogicalResult LoadByteOp::verify() { return verifyByte(*this); }
LogicalResult StoreByteOp::verify() { return verifyByte(*this); }

LogicalResult AddElementsOp::verify() {
  if (failed(verifyPlace(*this, "adds to")))
    return failure();
  if (!llvm::is_contained({1, 2, 4}, getValues().size()))
    return emitOpError() << "adds one value, or two or four side by side, got " << getValues().size();
  return success();
}

LogicalResult AddIntegerOp::verify() { return verifyPlace(*this, "adds to", /*isInteger=*/true); }

LogicalResult CopyAsyncOp::verify() {
  const TileType shared = getShared().getType();
  const int64_t rank = getView().getType().getRank(), axes = shared.rank() - (shared.axis(0) == "stage");
  if (rank != axes || rank > 2)
    return emitOpError() << "copies rows of two dimensions, or a vector of one, got a view of rank " << rank << " for "
                         << shared;
  const unsigned bits = shared.getElementType().getIntOrFloatBitWidth();
  if (rank == 1 && bits != 32)
    return emitOpError() << "copies elements of a vector of 32 bits each, got " << bits;
  return success();
}

LogicalResult WaitCopiesOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("pending must not be negative");
  return success();
}

/// Verifies the shared tile to which an accumulator (a fragment of role `c`) is stored. If n warpgroups split the
/// columns of the accumulator, the shared tile has the n column slices one below the other: n times the rows and 1 / n
/// of the columns.
static LogicalResult verifyStored(StoreTileOp op, FragmentAttr fragment, TileType shared) {
  TileType tile = op.getTile().getType();
  const int64_t shares = fragment.getColumnWarps();
  if (!isa_and_nonnull<SwizzleAttr>(shared.getLayout()) || shared.rank() != 3 || shared.axis(1) != tile.axis(0) ||
      shared.axis(2) != tile.axis(1) || shared.getShape()[1] != tile.getShape()[0] * shares ||
      shared.getShape()[2] * shares != tile.getShape()[1])
    return op.emitOpError() << "stores " << tile << " to swizzled stages of " << tile.getShape()[0] * shares
                            << " rows of " << tile.getShape()[1] / shares << ", got " << shared;
  const Type element = shared.getElementType();
  if (element != tile.getElementType() && !(tile.getElementType().isF32() && (element.isBF16() || element.isF16())))
    return op.emitOpError() << "stores " << tile.getElementType() << " to stages of " << element
                            << "; it rounds f32 to bf16 or f16, and converts nothing else";
  return success();
}

LogicalResult StoreTileOp::verify() {
  TileType tile = getTile().getType(), shared = getShared().getType();
  auto fragment = dyn_cast_or_null<FragmentAttr>(tile.getLayout());
  const FragmentRole wanted = tile.rank() == 2 ? FragmentRole::C : FragmentRole::Threads;
  if (tile.rank() > 2 || !fragment || fragment.getRole() != wanted)
    return emitOpError() << "stores a tile of one axis in layout threads, or of two in layout c, got " << tile;
  if (shared.getSpace() != MemorySpace::Shared || !shared.hasAxis("stage"))
    return emitOpError() << "stores to stages of the same tile, got " << shared;
  if (tile.rank() == 2)
    return verifyStored(*this, fragment, shared);
  if (shared.getLayout() || shared.rank() != 2 || shared.axis(1) != tile.axis(0) ||
      shared.getShape()[1] != tile.getShape()[0] || shared.getElementType() != tile.getElementType())
    return emitOpError() << "stores to stages of the same tile, got " << shared;
  return success();
}

LogicalResult WriteTileOp::verify() {
  TileType shared = getShared().getType();
  if (shared.rank() != 3 || !shared.hasAxis("stage") || !isa_and_nonnull<SwizzleAttr>(shared.getLayout()) ||
      shared.getShape()[1] % 64)
    return emitOpError() << "writes swizzled stages of 64 rows a warpgroup, got " << shared;
  const int64_t groups = shared.getShape()[1] / 64, shares = getColumnSplits();
  if (shares < 1 || groups % shares)
    return emitOpError() << shares << " shares of columns are not those of " << groups << " warpgroups";
  if (getView().getType().getRank() != 4 || getIndices().size() != 3)
    return emitOpError() << "writes to a view of four dimensions at three indices, got " << getView().getType()
                         << " at " << getIndices().size();
  if (shared.getElementType() != getView().getType().getElementType())
    return emitOpError() << "writes " << shared.getElementType() << " to " << getView().getType()
                         << "; TMA converts nothing";
  if (getAdds() && !shared.getElementType().isF32())
    return emitOpError() << "adds " << shared.getElementType() << ", where TMA adds f32";
  return success();
}
