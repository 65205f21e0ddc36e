//===- LaunchMaps.cpp - The tensor maps of a launch --------------------------===//

#include "ir/sched/LaunchMaps.h"

#include <algorithm>

using namespace attune;
using namespace attune::sched;

static TensorMapParam launchMap(TensorMapOp map) {
  const TensorMapType type = map.getResult().getType();
  auto view = map.getView().getDefiningOp<tile::ParamOp>();
  return {view.getOwnName().str(),
          int(type.getRows()),
          int(type.getColumns()),
          int(map.getSwizzle().getPanel()),
          bool(tile::capturedTensorOf(map.getView())),
          map.getLimited()};
}

LaunchMaps::LaunchMaps(llvm::ArrayRef<KernelOp> kernels) {
  for (KernelOp kernel : kernels)
    kernel->walk([&](TensorMapOp map) {
      if (TensorMapParam param = launchMap(map); !llvm::is_contained(maps, param))
        maps.push_back(std::move(param));
    });
}

unsigned LaunchMaps::numberOf(TensorMapOp map) const {
  return unsigned(llvm::find(maps, launchMap(map)) - maps.begin());
}

int32_t LaunchMaps::optional(KernelOp kernel) const {
  uint32_t bits = 0;
  kernel->walk([&](TensorMapOp map) {
    if (launchMap(map).isOptional())
      bits |= 1u << numberOf(map);
  });
  return int32_t(bits);
}

MapCondition LaunchMaps::conditionOf(KernelOp kernel) const {
  KernelOp replaced = mlir::dyn_cast_or_null<KernelOp>(tile::fallbackOf(kernel));
  return {optional(kernel), replaced ? optional(replaced) : 0};
}
