//===- Products.h - Matrix instructions and their operands -----------------===//
//
// A product is wgmma where the kernel has producer warps, else mma.sync of 16-bit floats, or three products of tf32
// halves for float32. The left operand is an `a` fragment, packed from a register tile or loaded from shared memory.
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
  /// Converts the 16 columns from 16 kk on (for f32, 8 columns from 8 kk on) of rows i from a `c` to an `a` fragment.
  void packBlock(tile::ConvertOp op, Value source, Value fragment, Value i, Value kk);

  /// Each warpgroup runs m64nNk16: one instruction for each 16 of the contracted axis, for all columns at once.
  void multiplyAsync(tile::MmaOp op, Value acc, bool transpose);
  /// Each warp runs m16n8k16: for each 16 of the contracted axis it loads the left fragments, then 16 columns of the
  /// right operand at a time.
  void multiply16(tile::MmaOp op, Value acc, bool transpose);
  /// Three m16n8k8 products of tf32 halves: big x small, small x big, big x big. The instruction truncates when it
  /// accumulates, so that each eight products are summed separately, and added to the accumulator with rounding.
  void multiplyTf32(tile::MmaOp op, Value acc, bool transpose);

  /// Loads by ldmatrix the warp's rows of a left operand, stored by rows or by columns: the 16 columns from 16 kk on,
  /// into fragment column `to`.
  void loadLeftFragments(Value tile, Value fragment, Value kk, Value to);
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
  /// Loads the float at a row and a column of a shared tile. With steps, the lane's swizzled address is one register,
  /// and all loads of the lane are at constant distances from that address. Without steps each load has its own
  /// address, which ptxas computes before the loop and spills.
  Value loadFloat(Value shared, Value stage, const SteppedIndex &row, const SteppedIndex &column);
};

} // namespace attune::expansion
