//===- Decoder.cpp - Steps, slots and declarations ------------------------===//

#include "codegen/sim/Decoder.h"

using namespace mlir;
using namespace attune;
using namespace attune::sim;

static std::optional<Element> elementOf(Type type) {
  if (type.isF32())
    return Element::F32;
  if (type.isBF16())
    return Element::BF16;
  if (type.isF16())
    return Element::F16;
  if (type.isInteger(32))
    return Element::I32;
  if (type.isInteger(64))
    return Element::I64;
  if (type.isInteger(1) || type.isInteger(8))
    return Element::Bool;
  return std::nullopt;
}

int64_t sim::widthOf(Type type) { return type.isInteger(1) ? 1 : type.isInteger(32) || type.isF32() ? 4 : 8; }

void Decoder::fail(uint32_t op, const std::string &what) {
  if (!error)
    error = Error{"'" + program->ops[op].name + "' op " + what, program->ops[op].where};
}

uint32_t Decoder::opIndex(Operation *op) {
  auto [entry, isNew] = opsAt.try_emplace(op, uint32_t(program->ops.size()));
  if (isNew) {
    sim::Op described{op->getName().getStringRef().str(), {}};
    if (auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>(); loc && loc.getLine())
      described.where = {loc.getFilename().str(), loc.getLine(), loc.getColumn()};
    program->ops.push_back(std::move(described));
  }
  return entry->second;
}

Slot Decoder::allocate(Type type, bool varies) {
  Slot slot{uint32_t(program->valueBytes), varies};
  program->valueBytes += varies ? size_t(widthOf(type)) * lanes : 8;
  return slot;
}

Slot Decoder::slot(Value value) {
  auto [entry, isNew] = slots.try_emplace(value);
  if (isNew)
    entry->second = allocate(value.getType(), varies(value));
  return entry->second;
}

Step &Decoder::emit(Operation *op, Run run, ValueRange in, ArrayRef<int> at, ArrayRef<int64_t> number, bool flag) {
  Step &step = program->steps.emplace_back();
  step.run = run;
  step.op = opIndex(op);
  step.flag = flag;
  for (Value value : in)
    take(step, value);
  if (op->getNumRegions() == 0 && op->getNumResults() <= step.out.size())
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (isa<IntegerType, FloatType, tile::ViewType>(result.getType()))
        step.out[i] = slot(result);
  llvm::copy(at, step.at.begin());
  llvm::copy(number, step.number.begin());
  return step;
}

int Decoder::find(Value value, const llvm::DenseMap<Value, int> &in, Operation *op, StringRef what) {
  auto entry = in.find(value);
  if (entry != in.end())
    return entry->second;
  fail(opIndex(op), "takes " + what.str() + " that is not one of this kernel");
  return 0;
}

void Decoder::constant(arith::ConstantOp op) {
  std::optional<Element> element = elementOf(op.getType());
  sim::Constant constant{slot(op.getResult()), element.value_or(Element::I32), 0};
  if (auto number = dyn_cast<FloatAttr>(op.getValue()); number && op.getType().isF32())
    constant.bits = number.getValue().bitcastToAPInt().getZExtValue();
  else if (auto number = dyn_cast<IntegerAttr>(op.getValue()); number && element)
    constant.bits = op.getType().isInteger(1) ? int64_t(number.getValue().getZExtValue()) : number.getInt();
  else
    return fail(opIndex(op), "has a type that the simulator lacks; use f32, i32, i64 or i1");
  program->constants.push_back(constant);
}

void Decoder::view(Value value, sim::View view) {
  viewsAt[value] = int(program->views.size());
  program->views.push_back(view);
}

void Decoder::parameter(tile::ParamOp op) {
  auto type = dyn_cast<tile::ViewType>(op.getResult().getType());
  if (!type) {
    program->parameters.push_back({slot(op.getResult()), op.getName().str(), tile::findScalar(signature, op.getName()),
                                   *elementOf(op.getResult().getType())});
    return;
  }
  std::optional<Element> element = elementOf(type.getElementType());
  if (!element)
    return fail(opIndex(op), "is a view of a type that the simulator lacks");
  sim::Tensor tensor{op.getName().str(), *element, int(type.getRank()),
                     tile::findView(signature, op.getName())->offset};
  view(op.getResult(), {int(program->tensors.size()), 0});
  program->tensors.push_back(tensor);
  program->constants.push_back({slot(op.getResult()), Element::I64, 0});
}

void Decoder::shared(sched::SharedOp op) {
  auto type = op.getResult().getType();
  std::optional<Element> element = elementOf(type.getElementType());
  bool hasStages = type.axis(0) == "stage";
  ArrayRef<int64_t> shape = type.getShape().drop_front(hasStages);
  if (shape.empty() || shape.size() > 2 || !element)
    return fail(opIndex(op), "is no shared tile of one or two axes after the stage");
  sim::SharedBuffer buffer{op.getName().str(),
                           int64_t(op.getOffset()),
                           hasStages ? type.getShape()[0] : 1,
                           shape.size() == 1 ? 1 : shape[0],
                           shape.back(),
                           0,
                           *element};
  if (auto swizzle = dyn_cast_or_null<sched::SwizzleAttr>(type.getLayout()))
    buffer.panel = swizzle.getPanel();
  if (buffer.offset < 0 || buffer.offset + buffer.stages * buffer.stageBytes() > int64_t(kernel.getSharedBytes()))
    return fail(opIndex(op), "ends past shared_bytes");
  sharedAt[op.getResult()] = int(program->shared.size());
  program->shared.push_back(buffer);
}

void Decoder::registers(sched::RegistersOp op) {
  auto type = op.getResult().getType();
  std::optional<Element> element = elementOf(type.getElementType());
  auto fragment = cast<sched::FragmentAttr>(type.getLayout());
  if (!element)
    return fail(opIndex(op), "has elements that the simulator lacks");
  SmallVector<int64_t> shape = fragment.laneShape(type);
  sim::RegisterBuffer buffer{op.getName().str(),
                             {shape.begin(), shape.end()},
                             int64_t(program->registerWords / lanes),
                             *element == Element::I64 ? 2 : 1,
                             *element};
  program->registerWords += buffer.size() * buffer.words * lanes;
  registersAt[op.getResult()] = int(program->registers.size());
  emit(op, sim::registers, {}, {int(program->registers.size())});
  program->registers.push_back(std::move(buffer));
}

void Decoder::ring(sched::RingOp op) {
  sim::Ring ring{op.getName().str(),
                 int64_t(op.getOffset()),
                 op.getResult().getType().getStages(),
                 int64_t(op.getFilledBy()),
                 int64_t(op.getEmptiedBy()),
                 program->agents,
                 false};
  ring.released = llvm::any_of(op->getUsers(), [](Operation *user) { return isa<sched::ReleaseOp>(user); });
  if (ring.offset < 0 || ring.offset + 16 * ring.stages > int64_t(kernel.getSharedBytes()))
    return fail(opIndex(op), "ends past shared_bytes");
  program->agents += int(ring.stages);
  ringsAt[op.getResult()] = int(program->rings.size());
  program->rings.push_back(ring);
}

void Decoder::tensorMap(sched::TensorMapOp op) {
  auto type = op.getResult().getType();
  int view = find(op.getView(), viewsAt, op, "a view");
  if (error)
    return;
  mapsAt[op.getResult()] = int(program->maps.size());
  program->maps.push_back(
      {program->views[view].tensor, maps.numberOf(op), type.getRows(), type.getColumns(), op.getSwizzle().getPanel()});
}

Expected<std::shared_ptr<const Program>> Decoder::run() {
  program->name = kernel.getSymName().str();
  program->warps = int(kernel.getThreads() / lanes);
  program->agents = program->warps * agentsOfWarp;
  program->sharedBytes = kernel.getSharedBytes();
  for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>())
    program->grid.push_back({tile::findExtent(signature, axis.getName()), axis.getSize(), axis.getBy()});
  for (tile::ExtentBoundAttr bound : tile::skippedIf(kernel))
    program->skippedIf.push_back({{tile::findExtent(signature, bound.getAxis())},
                                  bound.getMost() ? Axis{tile::findExtent(signature, bound.getMost())} : Axis{{}, 1}});
  program->mapped = maps.conditionOf(kernel);
  block(kernel.getBody().front());
  emit(kernel, sim::finishWarp);
  if (error)
    return *error;
  if (!program->hasWork)
    return Error{"the kernel has no sched.for_work; the simulator runs whole kernels"};
  program->valueBytes = (program->valueBytes + 7) / 8 * 8;
  return std::shared_ptr<const Program>(program);
}
