//===- TileBuffers.h - The registers that hold tiles -------------------------===//
//
// A register tile is an SSA value. The array of fragments that holds a tile is a buffer, which ops write in place. An
// op reuses the buffer of an operand that has no later reader. Or it writes directly to the buffer where the op's
// result will be needed: the buffer of a tile that a loop carries, or of the tile that a branch's other region yields.
//
//     m = reduce(s, init m_old)     m_old has no later reader: m reuses its buffer,
//     next(m)                       which is also the buffer of the carried tile
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/IRMapping.h"
#include "passes/sched/expand/Lanes.h"

namespace attune::expansion {

class TileBuffers : public Lanes {
public:
  using Lanes::Lanes;

  /// The element of `tile` for the lane's element (i, r, j, c) of a `c` fragment: row 16 i + 8 r and column 8 j + c,
  /// counted from the lane's first. If `tile` is a vector, its element for that row, column or diagonal.
  Value element(Value tile, Value i, Value r, Value j, Value c);
  /// The element of column 8 j + 2 (lane % 4) + c of a vector that is spread over lanes, read by a shuffle before the
  /// loops over rows.
  Value columnElement(Value tile, Value j, Value c);
  /// Whether a vector is spread over the lanes of a warp: each lane has one element of every 32 columns.
  bool isSpread(Value vector);
  /// Whether an op after `op` reads `value`. If `op` is in one region of a branch, readers in the other region do not
  /// count. An op of a ProbabilityChain reads its operands where the chain is expanded, at the chain's last op.
  bool isReadAfter(Value value, Operation *op);
  /// Whether nothing reads `value` after `op`, so that `op` may overwrite its buffer.
  bool diesAt(Value value, Operation *op);
  /// Registers for `result` of `op`: the buffer of a tile in `reusable` that has the same type and no later reader,
  /// preferably the buffer to which `result` will be moved (destination); otherwise a new buffer.
  Value bufferFor(Operation *op, Value result, ValueRange reusable);
  /// The buffer that `result` will be moved to, if the buffer's current content has no later reader: the buffer of the
  /// carried tile whose next value is `result`, or of the tile that the other region of a branch yields. Else null.
  Value destination(Value result);
  /// The buffer of `value`. Null if the result of `op` has another type, or if an op after `op` reads `value` or a tile
  /// that has reused the buffer.
  Value unlessRead(Value value, Operation *op);
  Value newBuffer(Value result);
  /// The type of the 32-bit words in which a lane holds an i1 tile of `type`. Each 16 x 16 block (i, jj) of the tile
  /// takes 8 bits, or 16 bits if rows are keys, so that a word holds four or two adjacent blocks. The element in half r
  /// of the rows, half n of the columns, column e of the pair has bit 4 e + 2 n + r of its block; if rows are keys, bit
  /// 8 e + 2 r + n.
  static TileType bitWordsOf(TileType type);
  Value bitsOf(Value tile, Value i, Value jj);
  /// ORs `bits`, the lane's bits of the 16 x 16 block (i, jj), into the buffer of `tile`, where these bits must be 0
  /// before.
  void addBits(Value bits, Value tile, Value i, Value jj);
  Value bitAt(Value tile, Value i, Value r, Value j, Value e);
  /// Moves the i-th of `tiles` to the buffer `to[i]`, as if all moves happened at the same time: a tile whose buffer an
  /// earlier move overwrites is copied first.
  void moveAll(ValueRange tiles, ArrayRef<Value> to);
  void fillBuffer(Value value, Value buffer);
  /// Copies the registers of a tile, or only the range `within` of the column pairs of an accumulator.
  void copyBuffer(Value from, Value to, std::optional<Range> within = {});
  /// Copies a left operand word by word; a word is one float32 or two 16-bit elements.
  void copyLeftOperand(Value from, Value to);
  /// The range of a lane's column pairs (one in each 8 columns) that a map computes; nullopt if that is all columns.
  static std::optional<Range> pairsOf(tile::MapOp map);
  /// If `map` computes only a range of columns, copies the columns outside of that range from its first input to `to`.
  void copyOtherColumns(tile::MapOp map, Value to);

protected:
  IRMapping buffers;                  ///< maps each tile to its buffer
  llvm::DenseMap<Value, Value> heirs; ///< maps each reused buffer to the last tile that reused it
  llvm::DenseMap<Operation *, Operation *>
      chainEnds; ///< maps each earlier op of a probability chain to the chain's last op, where the chain is expanded
};

} // namespace attune::expansion
