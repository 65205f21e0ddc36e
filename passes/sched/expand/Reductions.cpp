//===- Reductions.cpp - Maxima, sums and votes of a row ----------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

LogicalResult KernelExpander::expandOp(tile::AnyOp op) {
  Value buffer = buffers.lookup(op.getTile());
  Value any = arith::ConstantIntOp::create(builder, loc, 0, 1);
  // A vector over rows is short: its places are written out, not looped over.
  SmallVector<int64_t> shape = laneShape(buffer);
  if (layoutOf(buffer).getRole() != FragmentRole::Rows)
    return op.emitError("only vectors over q are supported here");
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t r = 0; r < shape[1]; ++r) {
      IRMapping inner = mappingFor(op.getBody());
      inner.map(op.getBody().getArgument(0), get(buffer, {i32(i), i32(r)}));
      for (Operation &nested : op.getBody().front().without_terminator())
        builder.clone(nested, inner);
      Value flag = inner.lookupOrDefault(cast<tile::YieldOp>(op.getBody().front().getTerminator()).getValues().front());
      any = arith::OrIOp::create(builder, loc, any, flag);
    }
  mapping.map(op.getResult(), tile::named(sched::AnyLaneOp::create(builder, loc, builder.getI1Type(), any),
                                          tile::nameOf(op.getResult())));
  return success();
}

Value KernelExpander::combine(tile::Reduction kind, Value a, Value b) {
  if (kind == tile::Reduction::Max)
    return arith::MaxNumFOp::create(builder, loc, a, b);
  return arith::AddFOp::create(builder, loc, a, b);
}

Value KernelExpander::combineQuad(tile::Reduction kind, Value value) {
  for (int64_t mask : {1, 2})
    value = combine(kind, value, sched::ShuffleXorOp::create(builder, loc, value.getType(), value, mask));
  return value;
}

LogicalResult KernelExpander::expandOp(tile::ReduceOp op) {
  if (op.getAxis() != "k" || layoutOf(buffers.lookup(op.getTile())).getRole() != FragmentRole::C)
    return op.emitError("only reductions over k of an accumulator are supported here");
  bool isMax = op.getKind() == tile::Reduction::Max;
  Value source = buffers.lookup(op.getTile());
  Value buffer = bufferFor(op, op.getResult(), op.getInit() ? ValueRange(op.getInit()) : ValueRange());
  int64_t columns = laneShape(source)[1];
  forEachPlace(buffer, [&](Value i, Value r, Value, Value, SmallVector<Value> at) {
    // A sum over all lanes takes its initial value once: after the lanes are combined.
    bool initFirst = op.getInit() && (isMax || op.getPerLane());
    Value init = op.getInit() ? get(buffers.lookup(op.getInit()), at) : Value();
    Value neutral = f32(isMax ? -std::numeric_limits<float>::infinity() : 0.0f);
    set(initFirst ? init : neutral, buffer, at);
    // A column pair first, then the running value: half as long a chain of dependent ops.
    repeat(columns, "j", [&](Value j) {
      Value first = get(source, {i, j, mul(r, 2)}), second = get(source, {i, j, add(mul(r, 2), 1)});
      set(combine(op.getKind(), get(buffer, at), combine(op.getKind(), first, second)), buffer, at);
    });
    if (op.getPerLane())
      return;
    Value total = combineQuad(op.getKind(), get(buffer, at));
    if (init && !initFirst)
      total = combine(op.getKind(), total, init);
    set(total, buffer, at);
  });
  buffers.map(op.getResult(), buffer);
  return success();
}

LogicalResult KernelExpander::expandOp(tile::CombineLanesOp op) {
  Value buffer = bufferFor(op, op.getResult(), op.getTile()), source = buffers.lookup(op.getTile());
  forEachPlace(buffer, [&](Value, Value, Value, Value, SmallVector<Value> at) {
    set(combineQuad(op.getKind(), get(source, at)), buffer, at);
  });
  buffers.map(op.getResult(), buffer);
  return success();
}

} // namespace attune::expansion
