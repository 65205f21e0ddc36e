//===- TileSequence.h - The tiles of a domain, one after the other ----------===//
//
// What a schedule needs of a domain: its first tile, the one after a tile, and where it ends.
//
//     FailureOr<TileSequence> sequence = TileSequence::create(domain, builder);
//     for (n = sequence->first; n < sequence->bound; n = sequence->next(builder, n))
//       sequence->origin(builder, n)          first key of tile n
//       sequence->partial(builder, n)         whether the mask decides within it
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

/// The tiles that a domain visits, as a sequence of tile indices.
struct TileSequence {
  tile::DomainOp domain;
  mlir::Value first, bound;

  static mlir::FailureOr<TileSequence> create(tile::DomainOp domain, mlir::OpBuilder &builder) {
    for (unsigned i = 1; i < domain.getBegins().size(); ++i)
      if (domain.getBegins()[i] != domain.getEnds()[i - 1])
        return domain.emitError("segments that are not contiguous are not supported; start each where the one before ends");
    if (domain.getReverse())
      return domain.emitError("a reversed domain is not supported by this schedule; visit it forward");
    TileSequence sequence{domain, domain.getBegins().front(), domain.getEnds().back()};
    sequence.first = sequence.visibleFrom(builder, sequence.first);
    return sequence;
  }

  /// The first visited tile at or after `index`.
  mlir::Value visibleFrom(mlir::OpBuilder &builder, mlir::Value index) {
    if (!domain.getPattern())
      return index;
    return tile::named(sched::NextVisibleOp::create(builder, domain.getLoc(), index.getType(), domain.getPattern(),
                                                    domain.getPatternIndices(), index, bound, *domain.getTileRows(),
                                                    domain.getStep(), *domain.getPatternRows(),
                                                    *domain.getPatternColumns()),
                       "next_tile");
  }

  mlir::Value next(mlir::OpBuilder &builder, mlir::Value index) {
    mlir::Location loc = domain.getLoc();
    mlir::Value one = mlir::arith::ConstantIntOp::create(builder, loc, 1, 32);
    mlir::Value following = tile::named(mlir::arith::AddIOp::create(builder, loc, index, one), "next_tile");
    return visibleFrom(builder, following);
  }

  mlir::Value origin(mlir::OpBuilder &builder, mlir::Value index) {
    mlir::Value step = mlir::arith::ConstantIntOp::create(builder, domain.getLoc(), domain.getStep(), 32);
    return tile::named(mlir::arith::MulIOp::create(builder, domain.getLoc(), index, step), "k0");
  }

  /// Whether the mask decides within tile `index`.
  mlir::Value partial(mlir::OpBuilder &builder, mlir::Value index) {
    mlir::Location loc = domain.getLoc();
    mlir::Value partial = mlir::arith::ConstantIntOp::create(builder, loc, 1, 1);
    for (auto [begin, end, full] : llvm::zip(domain.getBegins(), domain.getEnds(), domain.getFull())) {
      if (!full)
        continue;
      // Nothing is visited before the first segment or after the last.
      mlir::Value outside;
      if (begin != domain.getBegins().front())
        outside = mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::slt, index, begin);
      if (end != domain.getEnds().back()) {
        mlir::Value after = mlir::arith::CmpIOp::create(builder, loc, mlir::arith::CmpIPredicate::sge, index, end);
        outside = outside ? mlir::Value(mlir::arith::OrIOp::create(builder, loc, outside, after)) : after;
      }
      if (!outside)
        outside = mlir::arith::ConstantIntOp::create(builder, loc, 0, 1);
      partial = mlir::arith::AndIOp::create(builder, loc, partial, outside);
    }
    return tile::named(partial, "partial");
  }
};

} // namespace attune
