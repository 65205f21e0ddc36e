//===- SchedOps.cpp - The sched dialect: generated definitions of ops -------===//
//
// The definitions of ops are not in SchedDialect.cpp, because each of the two files takes long to compile.
//
//===----------------------------------------------------------------------===//

#include "ir/RegionText.h"
#include "ir/sched/Sched.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune::sched;

#define GET_OP_CLASSES
#include "ir/sched/SchedOps.cpp.inc"
