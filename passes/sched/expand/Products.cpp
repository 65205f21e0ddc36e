//===- Products.cpp - Matrix instructions and their operands -----------------===//

#include "passes/sched/expand/Products.h"

namespace attune::expansion {

LogicalResult Products::expandOp(tile::ConvertOp op) {
  auto type = cast<TileType>(op.getResult().getType());
  if (inShared(op.getResult()) || layoutOf(op.getResult()).getRole() != FragmentRole::A)
    return exchange(op);
  Value buffer = newBuffer(op.getResult());
  buffers.map(op.getResult(), buffer);
  SmallVector<int64_t> shape = laneShape(buffer);
  if (inShared(op.getTile())) {
    if (op.getRelu())
      return op.emitError("makes negative floats 0 where it packs a register tile, not what is loaded packed");
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

void Products::packBlock(tile::ConvertOp op, Value source, Value fragment, Value i, Value kk) {
  Type element = cast<TileType>(op.getResult().getType()).getElementType();
  repeat(4, "e", [&](Value e) {
    Value row = rem(e, 2), half = div(e, 2);
    if (element.isF32()) {
      set(get(source, {i, kk, add(mul(row, 2), half)}), fragment, {i, kk, e});
      return;
    }
    Value j = add(mul(kk, 2), half);
    Value low = get(source, {i, j, mul(row, 2)}), high = get(source, {i, j, add(mul(row, 2), 1)});
    set(sched::PackOp::create(builder, loc, builder.getI32Type(), low, high, element, op.getRelu()), fragment,
        {i, kk, e});
  });
}

void Products::loadLeftFragments(Value tile, Value fragment, Value kk, Value to) {
  auto [ring, stage] = slotOf(tile);
  Value row0 = firstRowOf(cast<TileType>(fragment.getType()));
  if (isStoredByColumns(tile, fragment)) {
    // ldmatrix loads the four quarters of the fragment, each transposed. A warp's rows may start anywhere in a swizzle
    // panel. Further addresses can thus not be computed as steps from the lane's first address: each is computed anew.
    Value along, across;
    std::tie(along, across) = transposedPlace(row0);
    repeat(laneShape(fragment)[0], "i", [&](Value i) {
      sched::LoadMatrixOp::create(builder, loc, ring, stage, add(along, mul(kk, 16)), add(across, mul(i, 16)), Value(),
                                  Value(), fragment, i, to, true);
    });
    return;
  }
  repeat(laneShape(fragment)[0], "i", [&](Value i) {
    Value row = add(row0, rem(lane, 16)), column = mul(div(lane, 16), 8);
    sched::LoadMatrixOp::create(builder, loc, ring, stage, row, column, mul(i, 16), mul(kk, 16), fragment, i, to,
                                false);
  });
}

bool Products::isExchanged(Value tile) {
  auto slot = tile.getDefiningOp<sched::SlotOp>();
  return tile.getDefiningOp<sched::ExchangeOp>() ||
         (slot && llvm::any_of(slot.getRing().getUsers(), llvm::IsaPred<sched::ExchangeOp>));
}

bool Products::isStoredByColumns(Value tile, Value fragment) {
  return cast<TileType>(tile.getType()).axis(0) != cast<TileType>(fragment.getType()).axis(0);
}

Value Products::leftFloat(Value tile, Value fragment, Value i, Value kk, Value e) {
  auto [ring, stage] = slotOf(tile);
  SteppedIndex row = {laneRowOf(fragment), rowStep(i, rem(e, 2))}, column = {add(laneColumn, div(e, 2)), mul(kk, 8)};
  if (isStoredByColumns(tile, fragment)) {
    std::swap(row, column);
    // If the warp's number of rows is a power of two, steps change only index bits below the bits of the warp's first
    // row.
    column.isAligned = llvm::isPowerOf2_64(uint64_t(laneShape(fragment)[0]));
  }
  return loadFloat(ring, stage, row, column);
}

Value Products::loadFloat(Value shared, Value stage, const SteppedIndex &row, const SteppedIndex &column) {
  const bool steps =
      isa_and_nonnull<sched::SwizzleAttr>(cast<TileType>(shared.getType()).getLayout()) && column.isAligned;
  return steps
             ? loadShared(builder.getF32Type(), shared, stage, row.base, column.base, row.step, column.step)
             : loadShared(builder.getF32Type(), shared, stage, add(row.base, row.step), add(column.base, column.step));
}

void Products::loadLeftFloats(Value tile, Value fragment) {
  SmallVector<int64_t> shape = laneShape(fragment);
  repeat(shape[0], "i", [&](Value i) {
    repeat(shape[1], "kk", [&](Value kk) {
      repeat(shape[2], "e", [&](Value e) { set(leftFloat(tile, fragment, i, kk, e), fragment, {i, kk, e}); });
    });
  });
}

LogicalResult Products::expandOp(tile::MmaOp op) {
  auto lhs = cast<TileType>(op.getLhs().getType()), rhs = cast<TileType>(op.getRhs().getType());
  // The right operand is read as it is stored if its last axis is contracted (K), and transposed if its first axis is
  // contracted (V).
  bool transpose = lhs.hasAxis(rhs.axis(0));
  if (!inShared(op.getRhs()) || !lhs.hasAxis(op.getResult().getType().axis(0)))
    return op.emitError("needs a right operand in shared memory and a left operand that has the result's rows");
  Value acc = op.getAcc() ? bufferFor(op, op.getResult(), op.getAcc()) : newBuffer(op.getResult());
  buffers.map(op.getResult(), acc);
  if (specialized) {
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

void Products::multiplyAsync(tile::MmaOp op, Value acc, bool transpose) {
  auto lhs = cast<TileType>(op.getLhs().getType()), type = cast<TileType>(acc.getType());
  auto [ring, stage] = slotOf(op.getRhs());
  Value ownColumn = warpgroupColumn(type), column = ownColumn ? ownColumn : i32(0);
  bool leftShared = inShared(op.getLhs());
  Value isTrue = arith::ConstantIntOp::create(builder, loc, 1, 1);
  const bool byColumns = leftShared && isStoredByColumns(op.getLhs(), op.getResult());
  rightBuffers.insert(ring);
  sched::MmaFenceOp::create(builder, loc);
  repeat(lhs.getShape()[byColumns ? 0 : 1] / 16, "kk", [&](Value kk) {
    Value along = mul(kk, 16), left;
    SmallVector<Value> at;
    if (leftShared) {
      auto [leftRing, leftStage] = slotOf(op.getLhs());
      left = leftRing;
      // An output may reuse the left operand's buffer only if each warpgroup reads no other rows than its own: not if
      // the operand is stored by columns or exchanged between warps.
      if (!byColumns && !isExchanged(op.getLhs()))
        leftBuffers.insert(leftRing);
      at = {leftStage, warpgroupRow(type), along};
      if (byColumns)
        std::swap(at[1], at[2]);
    } else {
      left = buffers.lookup(op.getLhs());
      at = {i32(0), kk};
    }
    Value more =
        op.getAcc() ? isTrue : Value(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, kk, i32(0)));
    sched::MmaAsyncOp::create(builder, loc, acc, left, at, ring, stage, transpose ? along : column,
                              transpose ? column : along, more, transpose, byColumns);
  });
  sched::MmaCommitOp::create(builder, loc);
  if (!op->hasAttr(sched::asyncAttr))
    sched::MmaWaitOp::create(builder, loc, 0,
                             leftShared ? ValueRange(acc) : ValueRange({acc, buffers.lookup(op.getLhs())}));
}

LogicalResult Products::expandOp(sched::MmaWaitOp op) {
  SmallVector<Value> complete;
  for (Value tile : op.getCompletes())
    complete.push_back(buffers.lookup(tile));
  sched::MmaWaitOp::create(builder, loc, op.getPending(), complete);
  return success();
}

/// The name of the fragments of a shared left operand: the tile's name, or else the name of its row axis.
static StringRef leftNameOf(Value tile, StringRef rows) {
  StringRef name = tile::nameOf(tile).take_until([](char c) { return c == '_'; });
  return name.empty() ? rows : name;
}

void Products::multiply16(tile::MmaOp op, Value acc, bool transpose) {
  auto lhs = cast<TileType>(op.getLhs().getType()), rhs = cast<TileType>(op.getRhs().getType());
  auto [ring, stage] = slotOf(op.getRhs());
  // The warp's first column starts a swizzle panel: adding a column step to a swizzled address is then an exclusive or.
  auto accType = cast<TileType>(acc.getType());
  int64_t columns = accType.getShape()[1] / layoutOf(acc).getColumnWarps();
  Value first = firstColumn(accType);
  bool leftShared = inShared(op.getLhs());
  std::string name = tile::nameOf(op.getRhs()).take_until([](char c) { return c == '_'; }).str();
  if (name.empty())
    name = transpose ? "v" : "k";
  const StringRef rows = accType.axis(0), along = rhs.axis(transpose ? 0 : 1);
  std::string leftName = (leftNameOf(op.getLhs(), rows) + "_fragment").str();
  Value left = leftShared
                   ? registers(leftName, fragmentType({{rows, accType.getShape()[0]}, {along, 16}},
                                                      lhs.getElementType(), FragmentRole::A, layoutOf(acc).getWarps()))
                   : buffers.lookup(op.getLhs());
  Value right =
      registers(name + "_fragment", fragmentType({{"n", 16}, {"d", 16}}, rhs.getElementType(), FragmentRole::B, 1));
  repeat(lhs.size(along) / 16, "kk", [&](Value kk) {
    if (leftShared)
      loadLeftFragments(op.getLhs(), left, kk, i32(0));
    repeat(columns / 16, "nn", [&](Value nn) {
      // Row and column whose address the lane passes to ldmatrix for four 8 x 8 matrices of the right operand.
      // Registers r0 and r1 of the result hold the first eight columns, r2 and r3 the next eight.
      Value low = rem(lane, 8), second = rem(div(lane, 8), 2), upper = div(lane, 16);
      Value row = add(mul(transpose ? second : upper, 8), low), column = mul(transpose ? upper : second, 8);
      if (first)
        (transpose ? column : row) = add(first, transpose ? column : row);
      sched::LoadMatrixOp::create(builder, loc, ring, stage, row, column, mul(transpose ? kk : nn, 16),
                                  mul(transpose ? nn : kk, 16), right, i32(0), i32(0), transpose);
      repeat(2, "n", [&](Value n) {
        repeat(laneShape(acc)[0], "i", [&](Value i) {
          sched::MmaOp::create(builder, loc, acc, i, add(mul(nn, 2), n), left, i, leftShared ? i32(0) : kk, right, n,
                               i32(0));
        });
      });
    });
  });
}

void Products::multiplyTf32(tile::MmaOp op, Value acc, bool transpose) {
  auto lhs = cast<TileType>(op.getLhs().getType()), rhs = cast<TileType>(op.getRhs().getType());
  auto [ring, stage] = slotOf(op.getRhs());
  auto accType = cast<TileType>(acc.getType());
  int64_t columns = accType.getShape()[1] / layoutOf(acc).getColumnWarps();
  Value first = firstColumn(accType);
  Type bits = builder.getI32Type();
  const StringRef rows = accType.axis(0), along = rhs.axis(transpose ? 0 : 1);
  const int64_t rowSplit = layoutOf(acc).getWarps();
  TileType leftType = fragmentType({{rows, accType.getShape()[0]}, {along, 8}}, bits, FragmentRole::A, rowSplit);
  TileType rightType = fragmentType({{"n", 8}, {"d", 8}}, bits, FragmentRole::B, 1);
  Value leftBig = registers("a_big", leftType), leftSmall = registers("a_small", leftType);
  Value rightBig = registers("b_big", rightType), rightSmall = registers("b_small", rightType);
  Value partial = registers(
      "partial", fragmentType({{rows, 16 * rowSplit}, {"n", 8}}, builder.getF32Type(), FragmentRole::C, rowSplit));
  Value zero = f32(0);
  auto split = [&](Value value, Value big, Value small, ValueRange at) {
    auto parts = sched::SplitTf32Op::create(builder, loc, bits, bits, value);
    set(parts.getBig(), big, at);
    set(parts.getSmall(), small, at);
  };
  // A step along the contracted axis takes three products and splits both operands. ptxas moves the loads of all
  // unrolled steps to the front. If all steps were unrolled, these loads would take more registers than a thread has;
  // two unrolled steps suffice to hide the latency of the loads. If the left operand is in registers, all steps must be
  // unrolled, because a step indexes these registers.
  constexpr int64_t stepsTogether = 2;
  const bool leftShared = inShared(op.getLhs());
  auto step = [&](Value kk) {
    repeat(laneShape(acc)[0], "i", [&](Value i) {
      repeat(4, "e", [&](Value e) {
        Value value =
            leftShared ? leftFloat(op.getLhs(), leftBig, i, kk, e) : get(buffers.lookup(op.getLhs()), {i, kk, e});
        split(value, leftBig, leftSmall, {i, i32(0), e});
      });
    });
    repeat(columns / 8, "nn", [&](Value nn) {
      repeat(2, "e", [&](Value e) {
        SteppedIndex across = {laneRow, mul(nn, 8)}, depth = {add(laneColumn, e), mul(kk, 8)};
        if (first)
          across = {add(first, laneRow), mul(nn, 8), /*isAligned=*/columns * 4 % 128 == 0};
        Value value = loadFloat(ring, stage, transpose ? depth : across, transpose ? across : depth);
        split(value, rightBig, rightSmall, {i32(0), i32(0), e});
      });
      repeat(laneShape(acc)[0], "i", [&](Value i) {
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
  };
  repeat(lhs.size(along) / 8, "kk", step, leftShared ? std::optional(stepsTogether) : std::nullopt);
}

} // namespace attune::expansion
