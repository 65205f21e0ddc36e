//===- AttnDialect.cpp - The attn dialect: generated definitions, and the list of ops and attributes -------===//

#include "ir/RegionText.h"
#include "ir/ValueNames.h"
#include "ir/attn/Attn.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::attn;

#include "ir/attn/AttnDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/attn/AttnAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "ir/attn/AttnOps.cpp.inc"

void AttnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/attn/AttnAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/attn/AttnOps.cpp.inc"
      >();
  for (StringRef dialect : {"attn", "arith", "math"})
    nameValues(getContext(), dialect);
}
