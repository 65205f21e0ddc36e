//===- TileSequence.h - The tiles of a domain, one after the other ----------===//
//
// What a schedule needs of a domain: its first tile, the one after a tile, and where it ends.
//
//     FailureOr<TileSequence> sequence = TileSequence::create(domain);
//     for (n = sequence->first(builder); n < sequence->bound; n = sequence->next(builder, n))
//       sequence->origin(builder, n)          first key of tile n
//       sequence->partial(builder, n)         whether the mask decides within it
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

#include "mlir/IR/IRMapping.h"

namespace attune {

/// The tiles that a domain visits, as a sequence of tile indices.
struct TileSequence {
  tile::DomainOp domain;
  mlir::Value bound;
  int64_t perLane = 1; ///< tiles that a lane asks for at a time

  static mlir::FailureOr<TileSequence> create(tile::DomainOp domain) {
    for (unsigned i = 1; i < domain.getBegins().size(); ++i)
      if (domain.getBegins()[i] != domain.getEnds()[i - 1])
        return domain.emitError("segments that are not contiguous are not supported; start each where the one before ends");
    if (domain.getReverse())
      return domain.emitError("a reversed domain is not supported by this schedule; visit it forward");
    return TileSequence{domain, domain.getEnds().back()};
  }

  /// Whether the next tile follows from a search.
  bool searches() { return domain.skips(); }

  mlir::Value first(mlir::OpBuilder &builder) { return visibleFrom(builder, domain.getBegins().front()); }

  /// The first visited tile at or after `index`.
  mlir::Value visibleFrom(mlir::OpBuilder &builder, mlir::Value index) {
    if (!searches())
      return index;
    auto search = sched::NextVisibleOp::create(builder, domain.getLoc(), index.getType(), index, bound, perLane);
    mlir::OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&search.getCondition(), {}, index.getType(), domain.getLoc());
    mlir::Value visible = ask(builder, search.getCondition().getArgument(0), domain.getVisible());
    sched::VisibleOp::create(builder, domain.getLoc(), visible);
    return tile::named(search.getResult(), "next_tile");
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
    if (mlir::Value full = domain.getFullWhere(); full && llvm::is_contained(domain.getFull(), true)) {
      mlir::Value one = mlir::arith::ConstantIntOp::create(builder, loc, 1, 1);
      mlir::Value mixed = mlir::arith::XOrIOp::create(builder, loc, ask(builder, index, full), one);
      partial = mlir::arith::OrIOp::create(builder, loc, partial, mixed);
    }
    return tile::named(partial, "partial");
  }

private:
  /// What the domain's region makes of `value` for tile `index`.
  mlir::Value ask(mlir::OpBuilder &builder, mlir::Value index, mlir::Value value) {
    mlir::Block &body = domain.getWhere().front();
    mlir::IRMapping mapping;
    mapping.map(body.getArgument(0), index);
    for (mlir::Operation &op : body.without_terminator())
      if (isNeededFor(value, &op))
        builder.clone(op, mapping);
    return mapping.lookupOrDefault(value);
  }

  static bool isNeededFor(mlir::Value value, mlir::Operation *op) {
    mlir::Operation *definition = value.getDefiningOp();
    if (!definition || definition->getBlock() != op->getBlock())
      return false;
    return definition == op || llvm::any_of(definition->getOperands(), [&](mlir::Value operand) { return isNeededFor(operand, op); });
  }
};

} // namespace attune
