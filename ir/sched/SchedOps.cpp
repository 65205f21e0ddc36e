//===- SchedOps.cpp - The generated definitions of the ops of the sched dialect -------===//
//
// They compile as long as the rest of the dialect, and beside it: Sched.cpp, which registers the ops, instantiates MLIR's
// models of them.
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
