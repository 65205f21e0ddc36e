//===- RowsKernel.cpp - Values per row of queries: delta and L; dQ from its sums ---===//

#include "passes/attn/NormaliserLaw.h"
#include "passes/attn/backward/Kernels.h"
#include "passes/attn/backward/TileGradients.h"

namespace attune::backward {

static Value divisorOf(KernelFrame &frame, Value lse) {
  return frame.valueOf(frame.op.getDivisor(), atLse(frame, lse));
}

/// Evaluates a gradient region for the incoming gradient g. Returns the value that the region yields or, if `value` is
/// not null, that value of the region.
static Value gradientBy(KernelFrame &frame, Region &region, Value lse, Value g, Value value = {}) {
  SmallVector<Value> arguments = atLse(frame, lse);
  arguments.push_back(g);
  IRMapping mapping;
  mapping.map(region.getArguments(), arguments);
  return cloneFromRegion(frame.builder, frame.op, value ? value : TileWriter::yieldOf(region), mapping);
}

/// delta of a row. The sum of weights receives a gradient from the divisor D, whose incoming gradient is
/// -rowsum(dO * O) / D, and from LSE, whose incoming gradient is dLSE. Each weight of the row receives the same
/// gradient, -delta / D. `row` is rowsum(dO * O), LSE and, if there is one, dLSE.
static Value deltaOf(KernelFrame &frame, ValueRange row) {
  Value lse = row[1], delta = gradientBy(frame, frame.op.getDivisorGrad(), lse, row[0]);
  if (row.size() > 2) {
    Value ofLse = gradientBy(frame, frame.op.getLseGrad(), lse, row[2]);
    delta = frame.subtract(delta, frame.multiply(ofLse, divisorOf(frame, lse)));
  }
  return frame.select(isEmpty(frame, lse), frame.constant(0), delta);
}

/// L = lse(LSE, D), which is LSE + log(D) for softmax; -inf in a row without visible keys.
static Value logDivisorOf(KernelFrame &frame, Value lse) {
  Value divisor = divisorOf(frame, lse);
  if (hasNaturalLse(frame.op))
    return frame.add(lse, math::LogOp::create(frame.builder, divisor));
  return frame.valueOf(frame.op.getLse(), statisticsOf(frame, lse, divisor));
}

/// The value that `add`, in the gradient region of the divisor or of LSE, adds for a row. `row` is rowsum(dO * O), LSE
/// and, if there is one, dLSE.
static Value addedByRow(KernelFrame &frame, attn::AddGradientOp add, ValueRange row) {
  Value lse = row[1], none = isEmpty(frame, lse), g = frame.constant(0);
  if (add->getParentRegion() == &frame.op.getDivisorGrad()) {
    // O is 0 where D is infinite, so D gets no gradient there.
    Value divisor = divisorOf(frame, lse), infinity = frame.constant(-maskedScore);
    Value isInfinite = frame.compare(arith::CmpFPredicate::OEQ, divisor, infinity);
    none = arith::OrIOp::create(frame.builder, none, isInfinite);
    g = arith::NegFOp::create(frame.builder, frame.divide(row[0], divisor));
  } else if (row.size() > 2) {
    g = row[2];
  }
  Value added = gradientBy(frame, *add->getParentRegion(), lse, g, add.getValue());
  return frame.select(none, frame.constant(0), added);
}

/// Sets b and h. Returns the first query of the thread block's tile.
static Value placeRows(KernelFrame &frame) {
  frame.b = frame.blockIndex("b", "b");
  frame.h = frame.blockIndex("h", "h");
  return frame.blockIndex("q", "q0");
}

void writeRowsKernel(KernelFrame &frame) {
  BackwardProgram &program = frame.program;
  Value q0 = placeRows(frame);
  const SmallVector<Value, 3> at{frame.b, frame.h, q0};
  Value sums = program.accumulatesDq() ? frame.sumsOfQueries() : Value();
  auto clearSums = [&] {
    if (!sums)
      return;
    frame.zero = frame.constant(0);
    frame.store(frame.zeros("dq", "q", "d"), sums, at, frame.axisExtent("q", "Sq"));
  };
  if (!program.hasStatistics())
    return clearSums();
  Value o = frame.input("o", {"h", "q", "dv"}), gradient = frame.input("do", {"h", "q", "dv"}),
        lse = frame.rows("lse", OperandRole::In);
  Value ofLse = frame.op.getGradients()->getLse() ? frame.rows("dlse", OperandRole::In) : Value();
  Value delta = frame.rows("delta", OperandRole::Workspace);
  Value logs = program.hasSink() ? frame.rows("log_divisor", OperandRole::Workspace) : Value();
  Value limit = frame.values.Sq = frame.axisExtent("q", "Sq");
  Value oTile = frame.load("o_tile", "q", "dv", o, at, limit, 1);
  Value doTile = frame.load("do_tile", "q", "dv", gradient, at, limit, 1);
  clearSums(); // while O and dO are copied
  Value product = frame.map("o_do", frame.headTile("q", "dv"), {oTile, doTile},
                            [&](ValueRange x) { return frame.multiply(x[0], x[1]); });
  const TileType rows = frame.vectorOf("q");
  SmallVector<Value> inputs{frame.reduce("row_sum", rows, tile::Reduction::Sum, product, "dv"),
                            frame.loadRows("lse", lse, q0)};
  if (ofLse)
    inputs.push_back(frame.loadRows("dlse", ofLse, q0));
  Value keepScale = frame.readKeepScale();
  Value ofLoops = frame.map("delta", rows, inputs, [&](ValueRange row) {
    Value delta = deltaOf(frame, row);
    return program.splitsGradient() ? frame.divide(frame.multiply(delta, frame.constant(2)), keepScale) : delta;
  });
  frame.store(ofLoops, delta, at, limit);
  if (logs)
    frame.store(frame.map("log_divisor", rows, inputs[1], [&](ValueRange x) { return logDivisorOf(frame, x[0]); }),
                logs, at, limit);
  for (const GradientSum &sum : program.sumsOf({&frame.op.getDivisorGrad(), &frame.op.getLseGrad()}, false))
    frame.store(frame.map("added", rows, inputs, [&](ValueRange row) { return addedByRow(frame, sum.add, row); }),
                frame.operand(sum.declaration()), at, limit);
}

void writeSumsKernel(KernelFrame &frame) {
  Value q0 = placeRows(frame);
  const SmallVector<Value, 3> at{frame.b, frame.h, q0};
  Value sums = frame.sumsOfQueries(), dq = frame.output("dq", {"h", "q", "d"}), limit = frame.axisExtent("q", "Sq");
  Value tile = tile::named(tile::LoadOp::create(frame.builder, frame.headTile("q", "d"), sums, at, limit), "dq");
  frame.keepScale = frame.readKeepScale();
  frame.store(frame.scaledBy("dq", tile, gradientScale(frame, /*givesValues=*/true)), dq, at, limit);
}

} // namespace attune::backward
