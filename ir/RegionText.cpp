//===- RegionText.cpp - Parsing of regions in assembly formats --------------===//

#include "ir/RegionText.h"

using namespace mlir;
using namespace attune;

/// Whether `op` is in `region`, at any depth. Region::isAncestor cannot be used: it requires that every region has a
/// parent op, but the regions of an op that is being parsed have no parent op yet.
static bool isWithin(Operation *op, Region &region) {
  for (Region *around = op->getParentRegion(); around && around != &region;) {
    Operation *parent = around->getParentOp();
    around = parent ? parent->getParentRegion() : nullptr;
    if (!around)
      return false;
  }
  return op->getParentRegion() != nullptr;
}

/// An op outside of `region` that uses a value defined inside `region` at any depth; null where there is none.
static Operation *findUserOutside(Region &region) {
  Operation *found = nullptr;
  auto search = [&](ValueRange values) {
    for (Value value : values)
      for (Operation *user : value.getUsers())
        if (!found && !isWithin(user, region))
          found = user;
  };
  region.walk<WalkOrder::PreOrder>([&](Block *block) {
    search(block->getArguments());
    for (Operation &op : *block)
      search(op.getResults());
  });
  return found;
}

ParseResult attune::parseRegion(OpAsmParser &parser, Region &region) {
  const SMLoc at = parser.getCurrentLocation();
  ParseResult parsed = parser.parseRegion(region);
  if (Operation *user = succeeded(parsed) ? findUserOutside(region) : nullptr) {
    InFlightDiagnostic error = parser.emitError(
        at, "region defines a value that an op outside of it uses; define the value in front of that op");
    error.attachNote(user->getLoc()) << "the op is here";
    parsed = error;
  }
  if (failed(parsed))
    for (Block &block : region)
      block.dropAllDefinedValueUses();
  return parsed;
}

void attune::printRegion(OpAsmPrinter &printer, Operation *, Region &region) { printer.printRegion(region); }

ParseResult attune::parseBody(OpAsmParser &parser, Region &body) {
  if (parseRegion(parser, body))
    return failure();
  if (body.empty())
    body.emplaceBlock();
  return success();
}

void attune::printBody(OpAsmPrinter &printer, Operation *, Region &body) { printer.printRegion(body); }
