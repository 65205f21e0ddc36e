//===- TileBuffers.h - The registers that hold tiles -------------------------===//
//
// A register tile is a value, the array of fragments that holds it a buffer, which ops write in place. An op takes over
// the buffer of an operand that dies with it, or writes straight to where its result goes: the carried tile of a loop,
// or what a branch yields on its other side.
//
//     m = reduce(s, init m_old)     m_old is read no more: its buffer is m's
//     next(m)                       and lies where the loop carries it
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/IRMapping.h"
#include "passes/sched/expand/Lanes.h"

namespace attune::expansion {

class TileBuffers : public Lanes {
public:
  using Lanes::Lanes;

  /// The element of `tile` that belongs to place (i, r, j, c) of a `c` fragment.
  Value element(Value tile, Value i, Value r, Value j, Value c);
  /// Element of column 8 j + 2 (lane % 4) + c of a vector that is spread over lanes; outside the loops over rows.
  Value columnElement(Value tile, Value j, Value c);
  /// Whether a vector has an element of every 32 columns in each lane.
  bool isSpread(Value vector);
  /// Whether something reads `value` behind `op`. What stands on the other side of a branch around `op` does not; a
  /// chain reads where it ends.
  bool isReadAfter(Value value, Operation *op);
  /// Whether nothing reads `value` after `op`, so that `op` may overwrite its buffer.
  bool diesAt(Value value, Operation *op);
  /// A buffer for `result` of `op`: that of an operand that dies here and has the same type, first of one that lies where
  /// the result goes, else a new one.
  Value bufferFor(Operation *op, Value result, ValueRange reusable);
  /// Where `result` goes, if nothing reads what lies there any more: to the loop's carried tile whose next value it is,
  /// or to what a branch yields on its other side.
  Value destination(Value result);
  /// The buffer of `value`, unless it is of another type than the result of `op`, or read behind `op` as that of
  /// `value` or of a tile that has taken it over.
  Value unlessRead(Value value, Operation *op);
  Value newBuffer(Value result);
  /// A tile of i1 lies in a lane as words, of eight bits for each 16 x 16 block (i, jj), or where rows are keys of sixteen,
  /// four or two blocks along a row in one word. The bit of the element of half r of the rows, half n of the columns, e of
  /// a pair is 4 e + 2 n + r of them; where rows are keys 8 e + 2 r + n.
  static TileType bitWordsOf(TileType type);
  Value bitsOf(Value tile, Value i, Value jj);
  /// Adds the bits of a block to words that are 0 there.
  void addBits(Value bits, Value tile, Value i, Value jj);
  Value bitAt(Value tile, Value i, Value r, Value j, Value e);
  /// Each tile to its buffer, all at once: one whose buffer is another's is read before that is written.
  void moveAll(ValueRange tiles, ArrayRef<Value> to);
  void fillBuffer(Value value, Value buffer);
  /// All of it, or the column pairs `within` of an accumulator.
  void copyBuffer(Value from, Value to, std::optional<Range> within = {});
  /// A left operand, word by word: one float32, or two elements of 16 bits.
  void copyLeftOperand(Value from, Value to);
  /// Column pairs of a lane that a map computes; nothing where these are all.
  static std::optional<Range> pairsOf(tile::MapOp map);
  /// What `map` leaves as its first input has it, if it computes columns alone.
  void copyOtherColumns(tile::MapOp map, Value to);

protected:
  IRMapping buffers;                                  ///< tiles to the buffers that hold them
  llvm::DenseMap<Value, Value> heirs;                 ///< buffers to the last tile that took them over from another
  llvm::DenseMap<Operation *, Operation *> chainEnds; ///< of the other parts of chains: where they are written
};

} // namespace attune::expansion
