//===- Rings.cpp - Verifiers of rings, barriers, and copies by TMA ---------===//

#include "ir/sched/Sched.h"

using namespace mlir;
using namespace attune::sched;
using attune::tile::MemorySpace;

LogicalResult WaitLaunchOp::verify() {
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (!kernel)
    return emitOpError("must be inside sched.kernel");
  if (!tile::isDependent(kernel))
    return emitOpError("is in a kernel that no tile.launch starts while another one runs");
  auto work = dyn_cast<ForWorkOp>((*this)->getParentOp());
  if (work && work.getOrder() != WorkOrder::Grid)
    return emitOpError("is in work that a block repeats; move it in front of that");
  for (Operation *at = *this; at != kernel; at = at->getParentOp())
    for (Operation *before = at->getPrevNode(); before; before = before->getPrevNode())
      if (isa<RoleOp, ForWorkOp>(before) || accessesOperands(before))
        return emitOpError("comes after ")
               << before->getName()
               << ", which may read what the kernel before writes; move it in front of all roles, work and accesses of "
                  "operands";
  return success();
}

LogicalResult RingOp::verify() {
  if (getOffset() % 8)
    return emitOpError() << "offset " << getOffset() << " is not a multiple of 8, the size of a barrier";
  if (int64_t(getFilledBy()) < 1 || int64_t(getEmptiedBy()) < 1)
    return emitOpError("needs at least one arrival to fill a stage and one to empty it");
  return success();
}

LogicalResult ExpectBytesOp::verify() {
  if (int64_t(getBytes()) < 16 || getBytes() % 16)
    return emitOpError() << getBytes() << " bytes is not a positive multiple of 16";
  return success();
}

static LogicalResult verifyNamedBarrier(Operation *op, uint64_t threads) {
  if (threads < 32 || threads > 1024 || threads % 32)
    return op->emitOpError() << threads << " threads is not a multiple of 32 up to 1024";
  return success();
}
LogicalResult SyncWarpsOp::verify() { return verifyNamedBarrier(*this, getThreads()); }
LogicalResult ArriveWarpsOp::verify() { return verifyNamedBarrier(*this, getThreads()); }

LogicalResult TensorMapOp::verify() {
  TensorMapType map = getResult().getType();
  const int64_t rank = getView().getType().getRank();
  if (rank < 2 || rank > 4 || getView().getType().getElementType() != map.getElementType())
    return emitOpError() << "needs a view of two to four dimensions, rows and columns last, of "
                         << map.getElementType();
  int64_t bytes = map.getColumns() * map.getElementType().getIntOrFloatBitWidth() / 8;
  if (bytes != getSwizzle().getPanel())
    return emitOpError() << "boxes are " << bytes << " bytes wide, panels " << getSwizzle().getPanel();
  return success();
}

/// Verifies that a TMA box of `map` is as wide as a panel (swizzled slice of the rows) of `shared`, and has as many
/// rows as the panel. Unless `wholePanel`, the number of rows of the box may also be a divisor of the panel's.
static LogicalResult verifyBox(Operation *op, TensorMapType map, TileType shared, bool wholePanel) {
  auto swizzle = dyn_cast_or_null<SwizzleAttr>(shared.getLayout());
  if (shared.getSpace() != MemorySpace::Shared || !swizzle || shared.rank() != 3 || shared.axis(0) != "stage" ||
      shared.getElementType() != map.getElementType())
    return op->emitOpError() << "needs a swizzled shared tile of stages, rows and columns of " << map.getElementType()
                             << ", got " << shared;
  int64_t rows = shared.getShape()[1], bytes = map.getColumns() * map.getElementType().getIntOrFloatBitWidth() / 8;
  if (bytes != swizzle.getPanel() || (wholePanel ? map.getRows() != rows : rows % map.getRows() != 0))
    return op->emitOpError() << "boxes of " << map.getRows() << " x " << map.getColumns() << " are not the panels of "
                             << shared;
  return success();
}
/// Verifies that a copy has a limit where its map is limited, and only there.
template <typename Op> static LogicalResult verifyLimit(Op op) {
  auto map = op.getMap().template getDefiningOp<TensorMapOp>();
  if (map && map.getLimited() != bool(op.getLimit()))
    return op.emitOpError() << (map.getLimited() ? "has no limit, which its tensor map needs"
                                                 : "has a limit, but its tensor map is not limited");
  return success();
}

LogicalResult LoadBoxOp::verify() {
  if (failed(verifyLimit(*this)))
    return failure();
  return verifyBox(*this, getMap().getType(), getShared().getType(), !getSharedRow());
}
LogicalResult StoreBoxOp::verify() {
  if (getAdds() && !getMap().getType().getElementType().isF32())
    return emitOpError() << "adds " << getMap().getType().getElementType() << ", where only f32 is added";
  if (getAdds() && getLimit())
    return emitOpError("adds rows up to a limit, where only whole boxes are added");
  if (failed(verifyLimit(*this)))
    return failure();
  return verifyBox(*this, getMap().getType(), getShared().getType(), false);
}

LogicalResult AddRowsOp::verify() {
  TileType shared = getShared().getType();
  if (shared.getSpace() != MemorySpace::Shared || shared.rank() != 3 || !shared.getElementType().isF32() ||
      shared.getLayout() || !getView().getType().getElementType().isF32())
    return emitOpError("adds rows of an f32 tile of stages, rows and columns, without a swizzle, to a view of f32");
  return success();
}

LogicalResult WaitBoxesOp::verify() {
  if (int64_t(getPending()) < 0)
    return emitOpError("pending must not be negative");
  return success();
}
