//===- Sched.cpp - The sched dialect, and the attributes that it puts on ops -------===//

#include "ir/sched/Sched.h"
#include "ir/RegionText.h"
#include "ir/ValueNames.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using attune::tile::MemorySpace;

#include "ir/sched/SchedDialect.cpp.inc"
#include "ir/sched/SchedEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/sched/SchedAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/sched/SchedTypes.cpp.inc"

void SchedDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/sched/SchedAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/sched/SchedTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/sched/SchedOps.cpp.inc"
      >();
  for (StringRef dialect : {"sched", "scf"})
    nameValues(getContext(), dialect);
}

static LogicalResult verifyRoles(Operation *op, Attribute value) {
  auto roles = dyn_cast<ArrayAttr>(value);
  if (!isa<attune::tile::KernelOp>(op) || !roles || !llvm::all_of(roles, llvm::IsaPred<RoleAttr>))
    return op->emitOpError()
           << "has sched.roles of " << value
           << "; they stand on a tile.kernel, as [#sched.role<\"producer\", warps 4, registers 24>, ...]";
  llvm::StringSet<> names;
  for (auto role : roles.getAsRange<RoleAttr>())
    if (!names.insert(role.getName().getValue()).second)
      return op->emitOpError() << "has two roles of the name " << role.getName();
  return success();
}

LogicalResult SchedDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == atAttr && !isa<AtAttr>(attribute.getValue()))
    return op->emitOpError() << "has a sched.at of " << attribute.getValue()
                             << ", which does not say when it runs; write #sched.at<order 1>";
  auto hasRing = [&] {
    auto type = op->getNumResults() == 1 ? dyn_cast<TileType>(op->getResult(0).getType()) : TileType();
    return isa<attune::tile::AccumulateOp, attune::tile::StoreOp>(op) ||
           (isa<attune::tile::LoadOp, attune::tile::WindowOp, attune::tile::ConvertOp>(op) &&
            type.getSpace() == MemorySpace::Shared);
  };
  if (attribute.getName() == ringAttr && !isa<RingAttr>(attribute.getValue()))
    return op->emitOpError() << "has a sched.ring of " << attribute.getValue()
                             << ", which does not say how deep it is; write #sched.ring<stages 2>";
  if (attribute.getName() == ringAttr && !hasRing())
    return op->emitOpError("has a sched.ring, but gives no tile in shared memory, and takes none to memory");
  if (attribute.getName() == rolesAttr)
    return verifyRoles(op, attribute.getValue());
  const bool isMark = llvm::is_contained({persistentAttr, longestFirstAttr, pingPongAttr, overlapAttr, stageBiasesAttr},
                                         attribute.getName().getValue());
  if (isMark && (!isa<attune::tile::KernelOp, KernelOp>(op) || !isa<UnitAttr>(attribute.getValue())))
    return op->emitOpError() << "has " << attribute.getName() << ", which is a mark of a kernel";
  if (isMark && attribute.getName() != longestFirstAttr && isa<attune::tile::KernelOp>(op) && !fillingWarps(op))
    return op->emitOpError() << "has " << attribute.getName()
                             << ", which is for kernels with producer warps; give sched.roles";
  if (attribute.getName() == functionAttr && (!isa<scf::ForOp>(op) || !isa<StringAttr>(attribute.getValue())))
    return op->emitOpError("has a sched.function, which is a name, a string, on an scf.for");
  if (attribute.getName() == asyncAttr && !isa<tile::MmaOp>(op))
    return op->emitOpError("is marked sched.async, but only products start and are waited for later");
  return success();
}
