//===- TileDialect.cpp - The tile dialect: generated definitions of ops, and the list of them -------===//

#include "ir/RegionText.h"
#include "ir/Terminators.h"
#include "ir/ValueNames.h"
#include "ir/tile/Tile.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune;
using namespace attune::tile;

#include "ir/tile/TileDialect.cpp.inc"
#include "ir/tile/TileEnums.cpp.inc"
#define GET_OP_CLASSES
#include "ir/tile/TileOps.cpp.inc"

void TileDialect::initialize() {
  registerTypesAndAttributes();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/TileOps.cpp.inc"
      >();
  for (StringRef dialect : {"tile", "arith", "math"})
    nameValues(getContext(), dialect);
}
