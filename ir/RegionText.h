//===- RegionText.h - Parsing of regions in assembly formats ----------------===//
//
//     let assemblyFormat = "$tile `:` type($tile) custom<Region>($body) attr-dict";
//
// MLIR's parser lets an op use a value that a later region defines. A parser generated from an assembly format holds
// the regions of its op in local variables. When the rest of the op fails to parse, the regions are destroyed one after
// another: an op elsewhere would keep a use of a destroyed value, and would write to freed memory when that op is
// destroyed. The directives in this file reject such a region, so that regions can be destroyed in any order. Custom
// parsers that add their regions to the OperationState do not need the directives, as MLIR drops the uses there.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/OpImplementation.h"

namespace attune {

/// Parses a region, which may be empty. Fails where an op outside of the region uses a value that the region defines.
mlir::ParseResult parseRegion(mlir::OpAsmParser &parser, mlir::Region &region);
void printRegion(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Region &region);

/// Parses the region of an op that always has one IR block. The text `{}` gives an empty block.
mlir::ParseResult parseBody(mlir::OpAsmParser &parser, mlir::Region &body);
void printBody(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Region &body);

} // namespace attune
