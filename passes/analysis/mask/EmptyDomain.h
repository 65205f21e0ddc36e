//===- EmptyDomain.h - Makes a domain of tiles empty by a condition ----------===//
#pragma once

#include "ir/tile/Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace attune {

/// Makes `domain` visit no tile where `holds`, a value that dominates the domain, is false: each segment then ends where
/// it begins.
inline void emptyUnless(mlir::OpBuilder &builder, tile::DomainOp domain, mlir::Value holds) {
  mlir::OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(domain);
  const llvm::SmallVector<mlir::Value> begins(domain.getBegins()), ends(domain.getEnds());
  mlir::Value first; // begin of the first of several adjacent segments; if `holds` is false, all of them end there
  for (auto [i, begin, end] : llvm::enumerate(begins, ends)) {
    if (i > 0 && begin == ends[i - 1])
      domain.getBeginsMutable()[i].set(domain.getEnds()[i - 1]);
    else
      first = begin;
    domain.getEndsMutable()[i].set(mlir::arith::SelectOp::create(builder, domain.getLoc(), holds, end, first));
  }
}

} // namespace attune
