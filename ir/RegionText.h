//===- RegionText.h - Regions in the text of an op --------------------------===//
//
//     let assemblyFormat = "$tile `:` type($tile) custom<Region>($body) attr-dict";
//
// MLIR's parser lets an op name a value that a later region defines. A parser that an assembly format generates holds
// the regions of its op in local variables, which are destroyed one after another where the rest of the op does not
// parse: an op elsewhere would then keep a use of a destroyed value, and write to freed memory when it is destroyed
// itself. These directives refuse such a region, so that regions may be destroyed in any order. A parser written by
// hand needs nothing of the kind for regions that it adds to the OperationState, whose uses MLIR drops.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/OpImplementation.h"

namespace attune {

/// A region, which may be empty. An error where an op outside of it uses a value that it defines.
mlir::ParseResult parseRegion(mlir::OpAsmParser &parser, mlir::Region &region);
void printRegion(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Region &region);

/// The same of an op that always has a block: `{}` is an empty one.
mlir::ParseResult parseBody(mlir::OpAsmParser &parser, mlir::Region &body);
void printBody(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Region &body);

} // namespace attune
