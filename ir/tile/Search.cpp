//===- Search.cpp - tile.search, which searches a captured vector ---------===//
#include "ir/tile/Search.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune;
using namespace attune::tile;

#define GET_OP_CLASSES
#include "ir/tile/TileSearch.cpp.inc"

LogicalResult SearchOp::verify() {
  ViewType view = getView().getType();
  if (view.getRank() != 1)
    return emitOpError() << "searches a view of rank 1, got " << view;
  if (attn::valueType(view.getElementType()) != getX().getType())
    return emitOpError() << "elements of " << view << " are " << attn::valueType(view.getElementType()) << ", but x is "
                         << getX().getType();
  return success();
}
