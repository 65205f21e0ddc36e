//===- Boxes.cpp - From global to shared memory by the copy engine -----------===//
//
// A tile is boxes of rows x a panel. One box a panel where the tile's rows lie in one piece and end where the tensor does, as
// the engine fills what lies outside with zeros. Pages break the rows into pieces, and a limit before the tensor's end is
// something that the engine does not know: there what a box must not bring is read from outside.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/expand/KernelExpander.h"

#include <numeric>

namespace attune::expansion {

Value KernelExpander::tensorMap(Value view, int64_t rows, sched::SwizzleAttr swizzle) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&kernelBody());
  return sched::describe(builder, loc, tile::parameterOf(view), rows, swizzle);
}

bool KernelExpander::endsWithAxis(Value view, Value limit) {
  tile::OperandAttr operand = tile::operandOf(view);
  auto extent = limit.getDefiningOp<tile::AxisExtentOp>();
  return operand && extent && extent.getAxis() == operand.getAxes()[operand.getAxes().size() - 2].getName();
}

void KernelExpander::loadBoxRow(Value map, const BoxPlace &from, Value column0, const BoxTarget &to, Value sharedRow) {
  const int64_t columns = cast<sched::TensorMapType>(map.getType()).getColumns(),
                all = cast<TileType>(to.buffer.getType()).getShape()[2];
  for (int64_t column = 0; column < all; column += columns)
    sched::LoadBoxOp::create(builder, loc, map, from.batch, from.head, from.row, i32(column), to.buffer, to.stage,
                             to.ring, column0 ? add(column0, column) : Value(), sharedRow);
}

void KernelExpander::expectTile(const BoxTarget &to) {
  auto type = cast<TileType>(to.buffer.getType());
  sched::ExpectBytesOp::create(builder, loc, type.bytes() / type.getShape()[0], to.ring, to.stage);
}

KernelExpander::BoxPlace KernelExpander::boxPlace(sched::CopyTileOp op, Value row, Value inside) {
  Value batch = mapping.lookup(op.getIndices()[0]), outside;
  if (auto pages = op.getView().getDefiningOp<tile::PagedRowsOp>()) {
    auto [page, slot] = pagePlace(pages, batch, row);
    batch = page;
    row = slot;
    outside = i32(int64_t(pages.getSize()));
  } else if (inside) {
    outside = sched::ExtentOp::create(builder, loc, builder.getI32Type(), mapping.lookup(op.getView()), 2);
  }
  if (inside)
    row = arith::SelectOp::create(builder, loc, inside, row, outside);
  return {batch, mapping.lookup(op.getIndices()[1]), row};
}

LogicalResult KernelExpander::copyByEngine(sched::CopyTileOp op, Value buffer, Value stage) {
  auto type = cast<TileType>(buffer.getType());
  auto swizzle = cast<sched::SwizzleAttr>(type.getLayout());
  const int64_t rows = type.getShape()[1];
  const BoxTarget to{buffer, stage, mapping.lookup(op.getRing())};
  auto pages = op.getView().getDefiningOp<tile::PagedRowsOp>();
  const int64_t together = pages ? std::gcd(rows, int64_t(pages.getSize())) : rows;
  Value row0 = mapping.lookup(op.getIndices()[2]), limit = mapping.lookup(op.getLimit());
  Value map = tensorMap(op.getView(), together, swizzle);
  expectTile(to);
  if (!pages && endsWithAxis(op.getView(), op.getLimit())) {
    loadBoxRow(map, boxPlace(op, row0, {}), {}, to, {});
    return success();
  }
  auto wholeTile = [&] {
    for (int64_t row = 0; row < rows; row += together)
      loadBoxRow(map, boxPlace(op, add(row0, row), {}), {}, to, together < rows ? i32(row) : Value());
  };
  Value ends = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, add(row0, rows), limit);
  either(ends, wholeTile, [&] { copyLastTile(op, to, row0, limit); });
  return success();
}

void KernelExpander::copyLastTile(sched::CopyTileOp op, const BoxTarget &to, Value row0, Value limit) {
  constexpr int64_t group = 16;
  auto type = cast<TileType>(to.buffer.getType());
  auto swizzle = cast<sched::SwizzleAttr>(type.getLayout());
  // The keys of all pages are whole groups.
  const bool endsWithGroup =
      op.getView().getDefiningOp<tile::PagedRowsOp>() && op.getLimit().getDefiningOp<tile::AxisExtentOp>();
  Value groups = tensorMap(op.getView(), group, swizzle),
        single = endsWithGroup ? Value() : tensorMap(op.getView(), 1, swizzle);
  auto loopOver = [&](int64_t end, int64_t step, StringRef name, function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(builder, loc, i32(0), i32(end), i32(step));
    loop->setAttr(tile::nameAttr, builder.getStringAttr(name));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  };
  loopOver(type.getShape()[1], group, "tile_row", [&](Value tileRow) {
    Value row = add(row0, tileRow), begins = below(row, limit);
    auto wholeGroup = [&] { loadBoxRow(groups, boxPlace(op, row, begins), {}, to, tileRow); };
    if (endsWithGroup)
      return wholeGroup();
    Value ends = below(limit, add(row, group));
    either(
        arith::AndIOp::create(builder, loc, begins, ends),
        [&] {
          loopOver(group, 1, "group_row", [&](Value groupRow) {
            Value at = add(row, groupRow);
            loadBoxRow(single, boxPlace(op, at, below(at, limit)), {}, to, add(tileRow, groupRow));
          });
        },
        wholeGroup);
  });
}

} // namespace attune::expansion
