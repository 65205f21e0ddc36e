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

/// How many float32 values an op loads side by side: `four`, or two.
static ParseResult parseAdjacent(OpAsmParser &parser, SmallVectorImpl<Type> &types) {
  const bool isFour = succeeded(parser.parseOptionalKeyword("four"));
  types.assign(isFour ? 4 : 2, parser.getBuilder().getF32Type());
  return success();
}

static void printAdjacent(OpAsmPrinter &printer, Operation *, TypeRange types) {
  if (types.size() == 4)
    printer << "four ";
}

#define GET_OP_CLASSES
#include "ir/sched/SchedOps.cpp.inc"
