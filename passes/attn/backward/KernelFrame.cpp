//===- KernelFrame.cpp - One kernel of the backward pass that is being written ---===//

#include "passes/attn/backward/KernelFrame.h"

#include "passes/attn/TileSize.h"

namespace attune::backward {

/// The head dims D and Dv, padded to the sizes of a kernel's tiles. Warpgroups split the columns of dQ only in a loop
/// over queries that has producer and consumer roles and also computes dQ; splits need more padding.
static LoopColumns paddedColumns(BackwardProgram &program, attn::PlanAttr plan, Work work) {
  attn::AttentionOp op = program.op;
  const bool splits = work == Work::LoopOverQueries && program.hasRoles(plan) && program.accumulatesDq();
  return columnsOfQueryLoop(op.getHeadDim(), op.getHeadDimV(), program.granularity,
                            splits ? columnSplitsOf(plan.getTileQ(), plan.getWarps()) : 1);
}

/// The plan of a kernel. A `Rows` kernel takes at most 64 rows where Dv is above 64, so that several blocks fit on a
/// multiprocessor: while one waits for its copies, another computes.
static attn::PlanAttr planOfKernel(BackwardProgram &program, Work work) {
  if (work != Work::Rows)
    return work == Work::LoopOverQueries ? program.keysPlan : program.queriesPlan;
  const Plan ofLoop = planOf(program.queriesPlan);
  Plan plan;
  plan.tileQ = program.op.getHeadDimV() > 64 ? std::min(ofLoop.tileQ, 64) : ofLoop.tileQ;
  plan.tileK = ofLoop.tileK;
  plan.warps = ofLoop.warps > 1 ? plan.tileQ / 16 : 1; // plans for the CPU have one warp
  plan.stages = 1;
  plan.blocksPerSm = ofLoop.blocksPerSm;
  return planAttr(program.queriesPlan.getContext(), plan);
}

KernelFrame::KernelFrame(BackwardProgram &program, const Twine &suffix, ArrayRef<StringRef> axes, Work work)
    : TileWriter(program.op), program(program), plan(planOfKernel(program, work)),
      columns(paddedColumns(program, plan, work)) {
  SmallVector<Attribute> grid;
  for (StringRef each : axes)
    grid.push_back(axis(each, 0, each == "q" || each == "k" ? tileOf(each) : 1));
  kernel = createKernel(op.getSymName() + suffix, grid, plan, plan.getWarps());
  if (Attribute remarks = op->getAttr(tile::remarksAttr); remarks && work == Work::LoopOverQueries)
    kernel->setAttr(tile::remarksAttr, remarks);
  if (work != Work::Rows && program.hasRoles(plan)) {
    kernel->setAttr(sched::rolesAttr, sched::rolesOf(kernel.getContext(), plan.getProducerWarps(), plan.getWarps()));
    if (plan.getStageBiases())
      kernel->setAttr(sched::stageBiasesAttr, builder.getUnitAttr());
    if (plan.getOverlap())
      kernel->setAttr(sched::overlapAttr, builder.getUnitAttr());
    if (plan.getPersistent() && work == Work::LoopOverQueries)
      kernel->setAttr(sched::persistentAttr, builder.getUnitAttr());
  }
}

void KernelFrame::finish() {
  for (const BoundsTable &table : tables)
    operands.push_back(table.declaration());
  kernel.setOperandsAttr(builder.getArrayAttr(operands));
}

Value KernelFrame::operand(tile::OperandAttr declared) {
  operands.push_back(declared);
  return param(declared);
}

Value KernelFrame::operand(StringRef name, OperandRole role, Type element, ArrayRef<StringRef> axes) {
  SmallVector<tile::AxisAttr> all{axis("b")};
  for (StringRef each : axes)
    all.push_back(axis(each, each == "d" ? op.getHeadDim() : each == "dv" ? op.getHeadDimV() : 0));
  return operand(name, role, element, all);
}

Value KernelFrame::operand(StringRef name, OperandRole role, Type element, ArrayRef<tile::AxisAttr> axes) {
  return operand(
      tile::OperandAttr::get(op.getContext(), builder.getStringAttr(name), role, /*optional=*/false, axes, element));
}

Value KernelFrame::sumsOfQueries() {
  constexpr StringRef name = "dq_sums";
  if (!program.addsFromRegisters())
    return operand(name, OperandRole::Workspace, f32, ArrayRef<StringRef>{"h", "q", "d"});
  const int64_t headDim = op.getHeadDim();
  const SmallVector<tile::AxisAttr> axes{axis("b"), axis("h"), axis("q", 0, tile::blockRows),
                                         axis("place", tile::blockRows * headDim)};
  Value blocks = operand(name, OperandRole::Workspace, f32, axes);
  return tile::named(tile::BlockedRowsOp::create(builder, blocks, headDim), "dq_rows");
}

void KernelFrame::readLaunch() {
  auto saved = [&](StringRef what) {
    return op.saves(what) ? operand(savedDeclaration(op, what, OperandRole::In)) : Value();
  };
  savedDropout = saved("dropout");
  savedScore = saved("score");
  values.Sq = axisExtent("q", "Sq");
  values.Sk = axisExtent("k", "Sk");
  values.B = axisExtent("b", "B");
  values.H = axisExtent("h", "H");
  readQueryOffset();
  values.qOffset = qOffset;
  values.tileQ = plan.getTileQ();
  values.tileK = plan.getTileK();
  values.mayFollow = op.getSequences().has_value();
  if (plan != program.keysPlan)
    values.tables = "_queries";
  if (op.getDropout())
    dropout = readDropout(*this);
  keepScale = readKeepScale();
  zero = constant(0);
}

void KernelFrame::setHead(Value head) {
  values.h = h = head;
  if (op.getDropout())
    dropout.head = headNumber(*this, values.H);
}

VisibleTiles KernelFrame::visibleTiles() {
  auto domain = buildDomain(builder, op, values, tables).getDefiningOp<tile::DomainOp>();
  return {domain, splitMask(builder, op, values, tables)};
}

Value KernelFrame::rowsRead(const BlockValues &block, MaskAxis axis) {
  Value end = emitEndOf(builder, op, block, axis);
  return end ? end : axis == MaskAxis::Keys ? values.Sk : values.Sq;
}

} // namespace attune::backward
