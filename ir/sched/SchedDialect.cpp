//===- SchedDialect.cpp - The sched dialect: generated attributes and types, and the list of ops -------===//

#include "ir/ValueNames.h"
#include "ir/sched/Sched.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;

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
