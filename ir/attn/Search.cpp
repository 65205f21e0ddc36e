//===- Search.cpp - attn.search, which searches a captured vector ---------===//
#include "ir/attn/Search.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace attune::attn;

#define GET_OP_CLASSES
#include "ir/attn/AttnSearch.cpp.inc"

LogicalResult SearchOp::verify() {
  auto attention = (*this)->getParentOfType<AttentionOp>();
  if (!attention)
    return emitOpError("must be inside attn.attention");
  CapturedTensorAttr tensor = attention.findTensor(getName());
  if (!tensor)
    return emitOpError() << "unknown captured tensor '" << getName() << "'";
  if (tensor.getRank() != 1)
    return emitOpError() << "searches a captured tensor of rank 1, but '" << getName() << "' has rank "
                         << tensor.getRank();
  if (valueType(tensor.getElementType()) != getX().getType())
    return emitOpError() << "elements of '" << getName() << "' are " << valueType(tensor.getElementType())
                         << ", but x is " << getX().getType();
  return success();
}
