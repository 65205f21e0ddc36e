//===- Products.cpp - Matrix instructions and their operands -----------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(tile::ConvertOp op) {
  auto type = cast<TileType>(op.getResult().getType());
  Value buffer = newBuffer(op.getResult());
  buffers.map(op.getResult(), buffer);
  if (layoutOf(buffer).getRole() != FragmentRole::A)
    return op.emitError("only conversions to an a fragment are supported here");
  SmallVector<int64_t> shape = laneShape(buffer);
  if (inShared(op.getTile())) {
    if (type.getElementType().isF32())
      loadLeftFloats(op.getTile(), buffer);
    else
      repeat(shape[1], "kk", [&](Value kk) { loadLeftFragments(op.getTile(), buffer, kk, kk); });
    return success();
  }
  Value source = buffers.lookup(op.getTile());
  repeat(shape[0], "i",
         [&](Value i) { repeat(shape[1], "kk", [&](Value kk) { packBlock(op, source, buffer, i, kk); }); });
  return success();
}

void KernelExpander::packBlock(tile::ConvertOp op, Value source, Value fragment, Value i, Value kk) {
  Type element = cast<TileType>(op.getResult().getType()).getElementType();
  repeat(4, "e", [&](Value e) {
    Value row = rem(e, 2), half = div(e, 2);
    if (element.isF32()) {
      set(get(source, {i, kk, add(mul(row, 2), half)}), fragment, {i, kk, e});
      return;
    }
    Value j = add(mul(kk, 2), half);
    Value low = get(source, {i, j, mul(row, 2)}), high = get(source, {i, j, add(mul(row, 2), 1)});
    set(sched::PackOp::create(builder, loc, builder.getI32Type(), low, high, element), fragment, {i, kk, e});
  });
}

std::pair<Value, Value> KernelExpander::slotOf(Value tile) {
  if (auto scale = tile.getDefiningOp<tile::ScaleOp>())
    tile = scale.getTile();
  auto slot = tile.getDefiningOp<sched::SlotOp>();
  assert(slot && "shared tiles are slots of rings once copies are pipelined");
  return {buffers.lookup(slot.getRing()), mapping.lookup(slot.getStage())};
}

void KernelExpander::loadLeftFragments(Value tile, Value fragment, Value kk, Value to) {
  auto [ring, stage] = slotOf(tile);
  repeat(warpRows / 16, "i", [&](Value i) {
    Value row = add(firstRow, rem(lane, 16)), column = mul(div(lane, 16), 8);
    sched::LoadMatrixOp::create(builder, loc, ring, stage, row, column, mul(i, 16), mul(kk, 16), fragment, i, to,
                                false);
  });
}

Value KernelExpander::leftFloat(Value tile, Value i, Value kk, Value e) {
  auto [ring, stage] = slotOf(tile);
  return loadShared(builder.getF32Type(), ring, stage, rowInTile(i, rem(e, 2)), columnInShare(kk, div(e, 2)));
}

void KernelExpander::loadLeftFloats(Value tile, Value fragment) {
  SmallVector<int64_t> shape = laneShape(fragment);
  repeat(shape[0], "i", [&](Value i) {
    repeat(shape[1], "kk", [&](Value kk) {
      repeat(shape[2], "e", [&](Value e) { set(leftFloat(tile, i, kk, e), fragment, {i, kk, e}); });
    });
  });
}

LogicalResult KernelExpander::expandOp(tile::MmaOp op) {
  auto lhs = cast<TileType>(op.getLhs().getType()), rhs = cast<TileType>(op.getRhs().getType());
  // The right operand is read as stored when its last axis is contracted (K), transposed when its first is (V).
  bool transpose = lhs.hasAxis(rhs.axis(0));
  if (!inShared(op.getRhs()) || lhs.axis(1) != rhs.axis(transpose ? 0 : 1))
    return op.emitError("needs a right operand in shared memory and a left operand contracted along its second axis");
  Value acc = op.getAcc() ? bufferFor(op, op.getResult(), op.getAcc()) : newBuffer(op.getResult());
  buffers.map(op.getResult(), acc);
  if (plan.getCopyWarps()) {
    if (op.getAcc())
      copyBuffer(buffers.lookup(op.getAcc()), acc);
    multiplyAsync(op, acc, transpose);
    return success();
  }
  if (op.getAcc())
    copyBuffer(buffers.lookup(op.getAcc()), acc);
  else
    fillBuffer(f32(0), acc);
  if (lhs.getElementType().isF32())
    multiplyTf32(op, acc, transpose);
  else
    multiply16(op, acc, transpose);
  return success();
}

void KernelExpander::multiplyAsync(tile::MmaOp op, Value acc, bool transpose) {
  auto lhs = cast<TileType>(op.getLhs().getType());
  auto [ring, stage] = slotOf(op.getRhs());
  bool leftShared = inShared(op.getLhs());
  Value isTrue = arith::ConstantIntOp::create(builder, loc, 1, 1);
  sched::MmaFenceOp::create(builder, loc);
  repeat(lhs.getShape()[1] / 16, "kk", [&](Value kk) {
    Value along = mul(kk, 16), left;
    SmallVector<Value> at;
    if (leftShared) {
      auto [leftRing, leftStage] = slotOf(op.getLhs());
      left = queryBuffer = leftRing;
      at = {leftStage, warpgroupRow(), along};
    } else {
      left = buffers.lookup(op.getLhs());
      at = {i32(0), kk};
    }
    Value more =
        op.getAcc() ? isTrue : Value(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, kk, i32(0)));
    Value zero = i32(0);
    sched::MmaAsyncOp::create(builder, loc, acc, left, at, ring, stage, transpose ? along : zero,
                              transpose ? zero : along, more, transpose);
  });
  sched::MmaCommitOp::create(builder, loc);
  if (!op->hasAttr(sched::asyncAttr))
    sched::MmaWaitOp::create(builder, loc, 0,
                             leftShared ? ValueRange(acc) : ValueRange({acc, buffers.lookup(op.getLhs())}));
}

LogicalResult KernelExpander::expandOp(sched::MmaWaitOp op) {
  SmallVector<Value> complete;
  for (Value tile : op.getCompletes())
    complete.push_back(buffers.lookup(tile));
  sched::MmaWaitOp::create(builder, loc, op.getPending(), complete);
  return success();
}

void KernelExpander::multiply16(tile::MmaOp op, Value acc, bool transpose) {
  auto lhs = cast<TileType>(op.getLhs().getType()), rhs = cast<TileType>(op.getRhs().getType());
  auto [ring, stage] = slotOf(op.getRhs());
  // The warp's share of the columns starts with a panel: the swizzle of a step from there is an exclusive or.
  auto accType = cast<TileType>(acc.getType());
  int64_t columns = accType.getShape()[1] / layoutOf(acc).getColumnWarps();
  Value first = firstColumn(accType);
  bool leftShared = inShared(op.getLhs());
  std::string name = tile::nameOf(op.getRhs()).take_until([](char c) { return c == '_'; }).str();
  if (name.empty())
    name = transpose ? "v" : "k";
  Value left = leftShared ? registers("q_fragment", fragmentType({{"q", plan.getTileQ()}, {"d", 16}},
                                                                 lhs.getElementType(), FragmentRole::A, rowWarps))
                          : buffers.lookup(op.getLhs());
  Value right =
      registers(name + "_fragment", fragmentType({{"n", 16}, {"d", 16}}, rhs.getElementType(), FragmentRole::B, 1));
  repeat(lhs.getShape()[1] / 16, "kk", [&](Value kk) {
    if (leftShared)
      loadLeftFragments(op.getLhs(), left, kk, i32(0));
    repeat(columns / 16, "nn", [&](Value nn) {
      // Rows and columns of the four 8 x 8 matrices: see ldmatrix; r0 r1 are the first eight columns, r2 r3 the next.
      Value low = rem(lane, 8), second = rem(div(lane, 8), 2), upper = div(lane, 16);
      Value row = add(mul(transpose ? second : upper, 8), low), column = mul(transpose ? upper : second, 8);
      if (first)
        (transpose ? column : row) = add(first, transpose ? column : row);
      sched::LoadMatrixOp::create(builder, loc, ring, stage, row, column, mul(transpose ? kk : nn, 16),
                                  mul(transpose ? nn : kk, 16), right, i32(0), i32(0), transpose);
      repeat(2, "n", [&](Value n) {
        repeat(warpRows / 16, "i", [&](Value i) {
          sched::MmaOp::create(builder, loc, acc, i, add(mul(nn, 2), n), left, i, leftShared ? i32(0) : kk, right, n,
                               i32(0));
        });
      });
    });
  });
}

void KernelExpander::multiplyTf32(tile::MmaOp op, Value acc, bool transpose) {
  auto lhs = cast<TileType>(op.getLhs().getType());
  auto [ring, stage] = slotOf(op.getRhs());
  auto accType = cast<TileType>(acc.getType());
  int64_t columns = accType.getShape()[1] / layoutOf(acc).getColumnWarps();
  Value first = firstColumn(accType);
  Type bits = builder.getI32Type();
  TileType leftType = fragmentType({{"q", plan.getTileQ()}, {"d", 8}}, bits, FragmentRole::A, rowWarps);
  TileType rightType = fragmentType({{"n", 8}, {"d", 8}}, bits, FragmentRole::B, 1);
  Value leftBig = registers("a_big", leftType), leftSmall = registers("a_small", leftType);
  Value rightBig = registers("b_big", rightType), rightSmall = registers("b_small", rightType);
  Value partial = registers(
      "partial", fragmentType({{"q", 16 * rowWarps}, {"n", 8}}, builder.getF32Type(), FragmentRole::C, rowWarps));
  Value zero = f32(0);
  auto split = [&](Value value, Value big, Value small, ValueRange at) {
    auto parts = sched::SplitTf32Op::create(builder, loc, bits, bits, value);
    set(parts.getBig(), big, at);
    set(parts.getSmall(), small, at);
  };
  repeat(lhs.getShape()[1] / 8, "kk", [&](Value kk) {
    repeat(warpRows / 16, "i", [&](Value i) {
      repeat(4, "e", [&](Value e) {
        Value value =
            inShared(op.getLhs()) ? leftFloat(op.getLhs(), i, kk, e) : get(buffers.lookup(op.getLhs()), {i, kk, e});
        split(value, leftBig, leftSmall, {i, i32(0), e});
      });
    });
    repeat(columns / 8, "nn", [&](Value nn) {
      repeat(2, "e", [&](Value e) {
        Value across = add(mul(nn, 8), laneRow), along = columnInShare(kk, e);
        if (first)
          across = add(first, across);
        Value row = transpose ? along : across, column = transpose ? across : along;
        Value value = loadShared(builder.getF32Type(), ring, stage, row, column);
        split(value, rightBig, rightSmall, {i32(0), i32(0), e});
      });
      repeat(warpRows / 16, "i", [&](Value i) {
        repeat(4, "e", [&](Value e) { set(zero, partial, {i32(0), i32(0), e}); });
        for (auto [a, b] :
             {std::pair(leftBig, rightSmall), std::pair(leftSmall, rightBig), std::pair(leftBig, rightBig)})
          sched::MmaOp::create(builder, loc, partial, i32(0), i32(0), a, i, i32(0), b, i32(0), i32(0));
        repeat(4, "e", [&](Value e) {
          Value sum = arith::AddFOp::create(builder, loc, get(acc, {i, nn, e}), get(partial, {i32(0), i32(0), e}));
          set(sum, acc, {i, nn, e});
        });
      });
    });
  });
}

} // namespace attune::expansion
