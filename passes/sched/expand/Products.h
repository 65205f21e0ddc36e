//===- Products.h - Matrix instructions and their operands -----------------===//
//
// A product becomes wgmma in kernels with producer warps, and mma.sync in other kernels. mma.sync multiplies 16-bit
// floats in one instruction. Each float32 is split into a sum of two tf32 numbers, so that a product of float32 takes
// three instructions. The left operand is an `a` fragment, packed from a register tile or loaded from shared memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/sched/expand/Boxes.h"

namespace attune::expansion {

class Products : public Boxes {
public:
  using Boxes::Boxes;

protected:
  LogicalResult expandOp(tile::MmaOp op);
  LogicalResult expandOp(sched::MmaWaitOp op);
  LogicalResult expandOp(tile::ConvertOp op);
  /// Converts 16 rows, those of block i, from an accumulator (`c` fragment) to a left operand (`a` fragment): the 16
  /// columns from 16 kk on (for f32, the 8 columns from 8 kk on).
  void packBlock(tile::ConvertOp op, Value source, Value fragment, Value i, Value kk);

  /// Each warpgroup runs wgmma m64nNk16: one instruction for each 16 of the contracted axis, for all columns at once.
  /// `transpose`: the contracted axis runs along the rows of the right operand, as in P V.
  void multiplyAsync(tile::MmaOp op, Value acc, bool transpose);
  /// Each warp runs mma.sync m16n8k16: for each 16 of the contracted axis it loads the left fragments, then 16 columns
  /// of the right operand at a time. `transpose`: the contracted axis runs along the right operand's rows, as in P V.
  void multiply16(tile::MmaOp op, Value acc, bool transpose);
  /// Splits each float32 into a big and a small tf32 number and runs three m16n8k8 products: big x small, small x big,
  /// big x big. The instruction truncates when it accumulates. Therefore the three products start from zero for each 8
  /// of the contracted axis, and their sum is added to the accumulator by a float32 addition, which rounds.
  /// `transpose`: the contracted axis runs along the rows of the right operand, as in P V.
  void multiplyTf32(tile::MmaOp op, Value acc, bool transpose);

  /// Loads by ldmatrix the warp's rows of a left operand, stored by rows or by columns: the 16 columns from 16 kk on,
  /// into fragment column `to`.
  void loadLeftFragments(Value tile, Value fragment, Value kk, Value to);
  /// Whether the warps of the role exchange the shared `tile`: each warp writes a part of it and reads other parts.
  static bool isExchanged(Value tile);
  /// Whether each row of a shared tile in memory is a column of the operand that `fragment` holds.
  static bool isStoredByColumns(Value tile, Value fragment);
  /// The float of a shared left operand at fragment index (i, kk, e) of the `a` fragment.
  Value leftFloat(Value tile, Value fragment, Value i, Value kk, Value e);
  void loadLeftFloats(Value tile, Value fragment);
  /// An index along one axis of a shared tile: a base, which differs from lane to lane, plus a step that is the same
  /// for all lanes, a multiple of 8 rows or of 8 columns of four bytes. `isAligned`: step and base have no bit in
  /// common.
  struct SteppedIndex {
    Value base, step;
    bool isAligned = true;
  };
  /// Loads the float at a row and a column of a shared tile. If the layout is swizzled and the column is aligned, the
  /// steps are applied to the lane's swizzled address: all loads of the lane are at constant distances from that
  /// address, which is in one register. Otherwise each load has its own address, which ptxas computes before the loop
  /// and spills.
  Value loadFloat(Value shared, Value stage, const SteppedIndex &row, const SteppedIndex &column);
};

} // namespace attune::expansion
