//===- KernelProperties.cpp - What passes and printers look up about kernels and schedules ----===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"

using namespace mlir;
using namespace attune::sched;

Value attune::sched::describe(OpBuilder &builder, Location loc, tile::ParamOp view, int64_t rows, SwizzleAttr swizzle,
                              bool limited) {
  auto type = cast<ViewType>(view.getResult().getType());
  const int64_t columns = swizzle.getPanel() * 8 / type.getElementType().getIntOrFloatBitWidth();
  auto mapType = TensorMapType::get(builder.getContext(), rows, columns, type.getElementType());
  Value parameter = tile::ParamOp::create(builder, loc, type, view.getName());
  return tile::named(TensorMapOp::create(builder, loc, mapType, parameter, swizzle, limited),
                     (view.getOwnName() + "_map").str());
}

AtAttr attune::sched::earliestPlace(Value read, Block &block) {
  Operation *first = nullptr;
  auto stageOf = [](Operation *op) { return placeOf(op) ? placeOf(op).getStage() : 0; };
  for (Operation *user : read.getUsers()) {
    Operation *op = block.findAncestorOpInBlock(*user);
    if (!first || stageOf(op) < stageOf(first) || (stageOf(op) == stageOf(first) && op->isBeforeInBlock(first)))
      first = op;
  }
  return first ? placeOf(first) : AtAttr();
}

LongTiles attune::sched::longTilesOf(Operation *kernel) {
  Attribute mark = kernel->getAttr(longestFirstAttr);
  return !mark ? LongTiles::None : isa<StringAttr>(mark) ? LongTiles::First : LongTiles::Last;
}

void attune::sched::setLongTiles(Operation *kernel, LongTiles longest) {
  MLIRContext *context = kernel->getContext();
  kernel->removeAttr(longestFirstAttr);
  if (longest == LongTiles::First)
    kernel->setAttr(longestFirstAttr, StringAttr::get(context, firstTiles));
  else if (longest == LongTiles::Last)
    kernel->setAttr(longestFirstAttr, UnitAttr::get(context));
}

ArrayAttr attune::sched::rolesOf(MLIRContext *context, int64_t producerWarps, int64_t consumerWarps) {
  auto role = [&](StringRef name, int64_t warps) -> Attribute {
    return RoleAttr::get(context, StringAttr::get(context, name), warps, /*registers=*/0);
  };
  return ArrayAttr::get(context, {role("producer", producerWarps), role("consumer", consumerWarps)});
}

int64_t attune::sched::producerWarps(Operation *kernel) {
  int64_t warps = 0;
  if (auto roles = kernel->getAttrOfType<ArrayAttr>(rolesAttr); roles && !roles.empty())
    for (Attribute role : roles.getValue().drop_back())
      warps += cast<RoleAttr>(role).getWarps();
  return warps;
}

int64_t attune::sched::firstWarpOf(Operation *kernel, RingAttr ring) {
  int64_t before = 0;
  if (auto roles = kernel->getAttrOfType<ArrayAttr>(rolesAttr); roles && ring.getRole())
    for (auto role : roles.getAsRange<RoleAttr>()) {
      if (role.getName() == ring.getRole())
        break;
      before += role.getWarps();
    }
  return before + ring.getFirstWarp();
}

bool attune::sched::isByOtherWarps(tile::ConvertOp staged) {
  RingAttr ring = ringOf(staged);
  return tile::isRelative(staged.getResult().getType()) ||
         (ring && firstWarpOf(staged->getParentOfType<tile::KernelOp>(), ring) > 0);
}

int64_t attune::sched::deepestRing(KernelOp kernel) {
  int64_t stages = 1;
  for (auto shared : kernel.getBody().getOps<SharedOp>())
    if (TileType type = shared.getResult().getType(); type.hasAxis("stage"))
      stages = std::max(stages, type.size("stage"));
  return stages;
}

bool attune::sched::isPersistent(KernelOp kernel) {
  return holds<ForWorkOp>(kernel, [](ForWorkOp work) { return work.getOrder() != WorkOrder::Grid; });
}

bool attune::sched::claimsWork(KernelOp kernel) { return holds<ClaimWorkOp>(kernel); }

bool attune::sched::waitsForLaunch(KernelOp kernel) { return holds<WaitLaunchOp>(kernel); }

bool attune::sched::accessesOperands(Operation *op) {
  auto isPlace = [](Type type) { return isa<ViewType, TensorMapType>(type); };
  return op
      ->walk([&](Operation *inner) {
        if (isa<InPairsOp>(inner) || llvm::any_of(inner->getResultTypes(), isPlace))
          return WalkResult::advance();
        for (Value operand : inner->getOperands())
          if (isPlace(operand.getType()) && !tile::capturedTensorOf(operand))
            return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}
