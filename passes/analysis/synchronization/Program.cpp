//===- Program.cpp - A kernel's control flow and synchronisation as flat steps ===//

#include "passes/analysis/synchronization/Program.h"

#include "ir/NestedOps.h"
#include "passes/analysis/dataflow/CarriedValues.h"
#include "passes/analysis/synchronization/Events.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace attune;
using namespace attune::synchronization;

namespace {

/// The values that a loop carries. Loops over tiles of work (sched.for_work) count as loops, too.
SmallVector<CarriedValue> carriedByLoop(Operation *op) {
  SmallVector<CarriedValue> result = carriedBy(op);
  if (auto work = dyn_cast<sched::ForWorkOp>(op); work && work.getOrder() != sched::WorkOrder::Grid)
    for (auto [argument, initial, next] : llvm::zip(work.getCarried(), work.getInits(), work.getNextCarried()))
      result.push_back({argument, Value(), initial, next});
  return result;
}

/// A hash that identifies an unknown value by its op and by the parameter that the op reads, so that all warps guess
/// the same number.
uint64_t keyOf(Operation *op) {
  std::string name = op->getName().getStringRef().str();
  for (NamedAttribute attribute : op->getAttrs())
    if (auto number = dyn_cast<IntegerAttr>(attribute.getValue()))
      name += "," + std::to_string(number.getInt());
  for (Operation *root = op; root;) {
    if (auto param = dyn_cast<tile::ParamOp>(root))
      name += "," + param.getName().str();
    root = root->getNumOperands() && isa<tile::ViewType, sched::TensorMapType>(root->getOperand(0).getType())
               ? root->getOperand(0).getDefiningOp()
               : nullptr;
  }
  return llvm::xxh3_64bits(name);
}

class Compiler {
public:
  Compiler(sched::KernelOp kernel, Program &to) : kernel(kernel), to(to) {}

  void run() {
    declare();
    findRows();
    kernel.walk([&](Operation *op) {
      // sched.claim_work takes a tile of work even if nothing uses the tile's number, so this op always runs.
      if (auto claim = dyn_cast<sched::ClaimWorkOp>(op))
        need(claim.getResult());
      if (!isEvent(op))
        return;
      for (const EventValue &value : valuesOf(op))
        if (!value.row || byRows(op))
          need(value.value);
      include(op->getParentOp());
      events.insert(op);
    });
    findVarying();
    compile(kernel.getBody().front());
    flush();
    emit(Action::End, kernel);
    to.slots = slots;
  }

private:
  //===--------------------------------------------------------------------===//
  // Rings, buffers, registers and roles
  //===--------------------------------------------------------------------===//

  void declare() {
    to.kernel = kernel;
    to.warps = int(kernel.getThreads()) / 32;
    int firstWarp = 0;
    kernel.walk([&](Operation *op) {
      if (auto ring = dyn_cast<sched::RingOp>(op)) {
        rings[ring.getResult()] = int(to.rings.size());
        to.rings.push_back(ring);
      } else if (auto shared = dyn_cast<sched::SharedOp>(op)) {
        buffers[shared.getResult()] = int(to.buffers.size());
        to.buffers.push_back(bufferOf(shared));
      } else if (auto product = dyn_cast<sched::MmaAsyncOp>(op)) {
        registerOf(product.getAcc());
        if (!product.getA().getDefiningOp<sched::SharedOp>())
          registerOf(product.getA());
      } else if (auto role = dyn_cast<sched::RoleOp>(op)) {
        to.roles.push_back({role, firstWarp, int(role.getWarps())});
        roles[op] = int(to.roles.size()) - 1;
      } else if (auto work = dyn_cast<sched::ForWorkOp>(op)) {
        to.several |= work.getOrder() != sched::WorkOrder::Grid;
      } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
        to.branches |= branch.elseBlock() && holds<sched::MmaWaitOp>(branch.getElseRegion());
      }
      // Roles are assigned consecutive warps, in program order.
      if (auto role = dyn_cast<sched::RoleOp>(op))
        firstWarp += int(role.getWarps());
    });
  }

  static SharedBuffer bufferOf(sched::SharedOp op) {
    tile::TileType type = op.getResult().getType();
    SharedBuffer buffer{op};
    const bool staged = type.hasAxis("stage");
    buffer.stages = staged ? type.size("stage") : 1;
    ArrayRef<int64_t> shape = type.getShape().drop_front(staged);
    buffer.rows = shape.size() > 1 ? shape[0] : 1;
    buffer.blocks = llvm::divideCeil(buffer.rows, buffer.rowsAtOnce());
    return buffer;
  }

  /// Finds the shared buffers whose accesses are tracked for groups of rows. These are the buffers that one role both
  /// writes and reads, where the role's warps may be at different rows at the same time, and all buffers whose bytes
  /// overlap such a buffer.
  void findRows() {
    llvm::DenseMap<std::pair<int, Operation *>, unsigned> uses;
    kernel.walk([&](Operation *op) {
      const Action action = actionOf(op);
      auto use = [&](Value shared, unsigned how) {
        if (auto found = buffers.find(shared); found != buffers.end())
          uses[{found->second, op->getParentOfType<sched::RoleOp>()}] |= how;
      };
      constexpr unsigned reads = 1, writes = 2;
      if (action == Action::Write || action == Action::Copy)
        use(sharedOf(op), isa<sched::ScaleSharedOp>(op) ? reads | writes : writes);
      else if (action == Action::Read || action == Action::StoreBox || action == Action::AddRows)
        use(sharedOf(op), reads);
      if (auto product = dyn_cast<sched::MmaAsyncOp>(op)) {
        use(product.getA(), reads);
        use(product.getB(), reads);
      }
    });
    rowsMatter.assign(to.buffers.size(), false);
    for (auto [where, how] : uses)
      if (how == 3)
        for (size_t other = 0; other < to.buffers.size(); ++other)
          if (overlap(to.buffers[size_t(where.first)].op, to.buffers[other].op))
            rowsMatter[other] = true;
  }

  static bool overlap(sched::SharedOp a, sched::SharedOp b) {
    const int64_t aBegin = a.getOffset(), bBegin = b.getOffset();
    return aBegin < bBegin + b.getResult().getType().bytes() && bBegin < aBegin + a.getResult().getType().bytes();
  }

  bool byRows(Operation *op) const {
    auto found = buffers.find(sharedOf(op));
    return found != buffers.end() && rowsMatter[size_t(found->second)];
  }

  int registerOf(Value value) {
    auto [found, added] = registers.try_emplace(value, int(to.registers.size()));
    if (added)
      to.registers.push_back(value);
    return found->second;
  }

  //===--------------------------------------------------------------------===//
  // Values and ops that have to run
  //===--------------------------------------------------------------------===//

  /// Marks `value` and its operands as needed, so that steps compute them. A value is needed if a branch, a loop bound,
  /// the number of a ring's stage, or the row of an access depends on it.
  void need(Value value) {
    if (!value || !needed.insert(value).second)
      return;
    order.push_back(value);
    Operation *op = value.getDefiningOp();
    Operation *holder = op ? op : value.getParentBlock()->getParentOp();
    if (isControl(holder))
      return needCarried(holder, value);
    for (Value operand : operandsOf(op))
      need(operand);
  }

  void needCarried(Operation *holder, Value value) {
    include(holder);
    for (const CarriedValue &carried : carriedByLoop(holder))
      if (value == carried.inside || value == carried.outside) {
        need(carried.inside);
        need(carried.initial);
        need(carried.next);
      }
    if (auto branch = dyn_cast<scf::IfOp>(holder); branch && value.getDefiningOp()) {
      unsigned i = cast<OpResult>(value).getResultNumber();
      need(branch.thenYield()->getOperand(i));
      need(branch.elseYield()->getOperand(i));
    }
  }

  /// Marks `op` and the ops around it as part of the program that the analysis executes.
  void include(Operation *op) {
    if (op == kernel || !included.insert(op).second)
      return;
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      need(branch.getCondition());
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (Value value : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
        need(value);
    } else if (auto tiles = dyn_cast<sched::ForTilesOp>(op)) {
      need(tiles.getBody().getArgument(0));
      need(tiles.getBound());
    } else if (auto work = dyn_cast<sched::ForWorkOp>(op); work && work.getOrder() != sched::WorkOrder::Grid) {
      for (Value value : {Value(work.getFirst()), Value(work.getBound()), work.getNext().getValues().front()})
        need(value);
    }
    include(op->getParentOp());
  }

  /// The operands whose values a step needs to compute `op`.
  static SmallVector<Value, 3> operandsOf(Operation *op) {
    if (auto element = dyn_cast<tile::ElementOp>(op))
      return SmallVector<Value, 3>(element.getIndices());
    if (IntegerOp::of(op) || isa<sched::BallotOp, sched::AnyLaneOp, sched::ShuffleOp, sched::ShuffleXorOp>(op))
      return SmallVector<Value, 3>(op->getOperands());
    return {};
  }

  //===--------------------------------------------------------------------===//
  // Values that may differ between the lanes of a warp
  //===--------------------------------------------------------------------===//

  void findVarying() {
    for (bool changed = true; changed;) {
      changed = false;
      for (Value value : order)
        if (!varying.contains(value) && varies(value)) {
          varying.insert(value);
          changed = true;
        }
    }
    for (Value value : order) {
      const bool byLane = varying.contains(value);
      places[value] = {slots, byLane};
      slots += byLane ? 32 : 1;
    }
    // The result of a loop is kept in the same slot as the loop-carried value.
    for (Value value : order)
      if (Operation *op = value.getDefiningOp())
        for (const CarriedValue &carried : carriedByLoop(op))
          if (value == carried.outside)
            places[value] = places[carried.inside];
  }

  bool varies(Value value) const {
    auto has = [&](Value v) { return varying.contains(v); };
    Operation *op = value.getDefiningOp(), *holder = op ? op : value.getParentBlock()->getParentOp();
    for (const CarriedValue &carried : carriedByLoop(holder))
      if (value == carried.inside || value == carried.outside)
        return has(carried.inside) || has(carried.initial) || has(carried.next);
    if (!op)
      return false;
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      unsigned i = cast<OpResult>(value).getResultNumber();
      return has(branch.getCondition()) || has(branch.thenYield()->getOperand(i)) ||
             has(branch.elseYield()->getOperand(i));
    }
    if (isa<sched::ThreadIdOp, sched::LaneIdOp, sched::ReadThreadIdOp, sched::ElectOp, sched::ClaimWorkOp,
            sched::ShuffleXorOp>(op))
      return true;
    if (isa<sched::BallotOp, sched::AnyLaneOp, sched::UniformOp>(op))
      return false;
    if (auto shuffle = dyn_cast<sched::ShuffleOp>(op))
      return has(shuffle.getLane());
    return llvm::any_of(operandsOf(op), has);
  }

  //===--------------------------------------------------------------------===//
  // Translation of ops to steps
  //===--------------------------------------------------------------------===//

  Slot slot(Value value) const {
    auto found = value ? places.find(value) : places.end();
    return found == places.end() ? Slot() : found->second;
  }

  int here() const { return int(to.steps.size()); }

  /// Appends a step and returns its index. (A reference would dangle when the vector of steps grows.)
  int emit(Action action, Operation *op, ArrayRef<Slot> in = {}, ArrayRef<Slot> out = {}) {
    Step step;
    step.action = action;
    step.op = op;
    step.in.assign(in.begin(), in.end());
    step.out.assign(out.begin(), out.end());
    to.steps.push_back(std::move(step));
    return here() - 1;
  }

  void land(int step) { to.steps[step].target = here(); }

  /// Emits one parallel assignment for the pairs (from, to) whose target is a needed value.
  void move(Operation *op, ArrayRef<std::pair<Value, Value>> fromTo) {
    SmallVector<Slot> in, out;
    for (auto [from, into] : fromTo)
      if (Slot place = slot(into); place.at >= 0) {
        in.push_back(slot(from));
        out.push_back(place);
      }
    if (!in.empty())
      emit(Action::Move, op, in, out);
  }
  void moveCarried(Operation *op, bool next) {
    SmallVector<std::pair<Value, Value>> fromTo;
    for (const CarriedValue &carried : carriedByLoop(op))
      fromTo.push_back({next ? carried.next : carried.initial, carried.inside});
    move(op, fromTo);
  }

  /// Records that `op` accesses the register buffer `value` by ordinary instructions, if products use the buffer.
  /// flush() emits one Touch step for all recorded accesses.
  void touch(Value value, Operation *op) {
    auto found = registers.find(value);
    if (found != registers.end() && llvm::none_of(touched, [&](auto &each) { return each.first == found->second; }))
      touched.push_back({found->second, op});
  }
  void flush() {
    if (touched.empty())
      return;
    Step &step = to.steps[emit(Action::Touch, touched.front().second)];
    for (auto [which, op] : touched) {
      step.registers.push_back(which);
      step.touching.push_back(op);
    }
    touched.clear();
  }
  void touchAll(Operation *op) {
    op->walk([&](Operation *inner) {
      if (isa<sched::GetOp, sched::SetOp, sched::MmaOp, sched::LoadMatrixOp>(inner))
        for (Value operand : inner->getOperands())
          touch(operand, inner);
      else if (auto made = dyn_cast<sched::RegistersOp>(inner))
        touch(made.getResult(), inner);
    });
  }

  void compile(Block &block) {
    for (Operation &op : block) {
      if (isControl(&op) && included.contains(&op)) {
        flush();
        control(&op);
        continue;
      }
      touchAll(&op);
      if (events.contains(&op)) {
        if (!isa<sched::LoadMatrixOp>(op))
          flush();
        event(&op);
      }
      for (Value result : op.getResults())
        if (op.getNumRegions() == 0 && slot(result).at >= 0 && !isa<sched::ReceiveOp>(op))
          scalar(&op, result);
    }
    flush();
  }

  void scalar(Operation *op, Value result) {
    const Action action =
        !extentAxis(op).empty()
            ? Action::Extent
            : TypeSwitch<Operation *, Action>(op)
                  .Case<sched::ThreadIdOp, sched::ReadThreadIdOp>([](auto) { return Action::ThreadId; })
                  .Case([](sched::LaneIdOp) { return Action::LaneId; })
                  .Case([](sched::ElectOp) { return Action::Elect; })
                  .Case<sched::BlockIdOp, sched::ReadBlockIdOp>([](auto) { return Action::BlockId; })
                  .Case([](sched::GridSizeOp) { return Action::GridSize; })
                  .Case([](tile::ElementOp) { return Action::Element; })
                  .Case([](sched::BallotOp) { return Action::Ballot; })
                  .Case([](sched::AnyLaneOp) { return Action::AnyLane; })
                  .Case([](sched::ShuffleOp) { return Action::Shuffle; })
                  .Case([](sched::ShuffleXorOp) { return Action::ShuffleXor; })
                  .Case([](sched::ClaimWorkOp) { return Action::ClaimWork; })
                  .Default([](Operation *) { return Action::Guess; });
    SmallVector<Slot> in;
    for (Value operand : operandsOf(op))
      in.push_back(slot(operand));
    Step &step = to.steps[emit(action, op, in, slot(result))];
    APInt constant;
    if (matchPattern(result, m_ConstantInt(&constant))) {
      step.action = Action::Constant;
      step.number = constant.getBitWidth() == 1 ? int64_t(constant.getZExtValue()) : constant.getSExtValue();
    } else if ((step.integer = IntegerOp::of(op))) {
      step.action = Action::Integer;
    } else if (auto param = dyn_cast<tile::ParamOp>(op); param && param.getName() == "group") {
      step.action = Action::Constant;
      step.number = 1;
    } else if (auto xored = dyn_cast<sched::ShuffleXorOp>(op)) {
      step.number = int64_t(xored.getMask());
    }
    if (step.action == Action::Guess || step.action == Action::Element)
      step.number = int64_t(keyOf(op) >> 1);
    to.loads |= step.action == Action::Element;
    to.guesses |= step.action == Action::Guess || step.action == Action::Element;
    to.claims |= step.action == Action::ClaimWork;
  }

  void event(Operation *op) {
    SmallVector<Slot> in;
    for (const EventValue &value : valuesOf(op))
      in.push_back(value.row && !byRows(op) ? Slot() : slot(value.value));
    Step &step = to.steps[emit(actionOf(op), op, in)];
    step.number = numberOf(op);
    if (Value ring = ringOf(op))
      step.ring = rings.lookup(ring);
    if (Value shared = sharedOf(op))
      step.shared = buffers.lookup(shared);
    if (auto product = dyn_cast<sched::MmaAsyncOp>(op)) {
      step.registers.push_back(registerOf(product.getAcc()));
      if (auto left = buffers.find(product.getA()); left != buffers.end())
        step.left = left->second;
      else
        step.registers.push_back(registerOf(product.getA()));
    } else if (auto wait = dyn_cast<sched::MmaWaitOp>(op)) {
      for (Value value : wait.getCompletes())
        if (auto found = registers.find(value); found != registers.end())
          step.registers.push_back(found->second);
    } else if (auto receive = dyn_cast<sched::ReceiveOp>(op)) {
      for (Value value : receive.getValues())
        step.out.push_back(slot(value));
    } else if (auto load = dyn_cast<sched::LoadBoxOp>(op)) {
      placeInGrid(step, load.getMap(), 1);
    } else if (auto store = dyn_cast<sched::StoreBoxOp>(op)) {
      placeInGrid(step, store.getMap(), 2);
    }
  }

  /// Records which inputs of the step give the position of its TMA box along the axes of the kernel's grid. The inputs
  /// from `first` on are batch, head and row of the box: the coordinates along all axes of the tensor but the last.
  void placeInGrid(Step &step, Value map, unsigned first) {
    auto described = map.getDefiningOp<sched::TensorMapOp>();
    auto view = described ? described.getView().getDefiningOp<tile::ParamOp>() : nullptr;
    for (auto operand : kernel.getOperands().getAsRange<tile::OperandAttr>()) {
      if (!view || operand.getName() != view.getName())
        continue;
      ArrayRef<tile::AxisAttr> axes = operand.getAxes().drop_back();
      for (auto [i, axis] : llvm::enumerate(axes))
        for (auto [g, along] : llvm::enumerate(kernel.getGrid().getAsRange<tile::AxisAttr>()))
          if (along.getName() == axis.getName() && axes.size() <= 3)
            step.grid.push_back({first + 3 - unsigned(axes.size() - i), unsigned(g), along.getBy()});
    }
  }

  //===--------------------------------------------------------------------===//
  // Control flow
  //===--------------------------------------------------------------------===//

  void control(Operation *op) {
    TypeSwitch<Operation *>(op)
        .Case([&](sched::RoleOp role) {
          int begin = emit(Action::RoleBegin, role);
          to.steps[begin].number = roles.lookup(role);
          compile(role.getBody().front());
          land(begin);
        })
        .Case([&](scf::IfOp branch) { compileBranch(branch); })
        .Case([&](scf::ForOp loop) { compileLoop(loop); })
        .Case([&](sched::ForTilesOp tiles) { compileTiles(tiles); })
        .Case([&](sched::ForWorkOp work) { compileWork(work); });
  }

  void compileBranch(scf::IfOp branch) {
    const Slot condition = slot(branch.getCondition());
    auto side = [&](Region &region) {
      if (region.empty())
        return;
      compile(region.front());
      SmallVector<std::pair<Value, Value>> fromTo;
      for (auto [value, result] : llvm::zip(region.front().getTerminator()->getOperands(), branch.getResults()))
        fromTo.push_back({value, result});
      move(branch, fromTo);
    };
    int skip = emit(condition.varies ? Action::MaskIf : Action::SkipUnless, branch, condition);
    side(branch.getThenRegion());
    int past = emit(condition.varies ? Action::MaskElse : Action::Jump, branch, condition);
    to.steps[skip].target = condition.varies ? past : here();
    side(branch.getElseRegion());
    land(past);
    if (condition.varies)
      emit(Action::MaskEnd, branch);
  }

  void compileLoop(scf::ForOp loop) {
    moveCarried(loop, false);
    Slot counter = slot(loop.getInductionVar());
    if (counter.at < 0)
      counter = {slots++, false};
    const Slot begin = slot(loop.getLowerBound()), end = slot(loop.getUpperBound()), by = slot(loop.getStep());
    emit(Action::Move, loop, begin, counter);
    int test = emit(Action::Below, loop, {counter, end});
    compile(*loop.getBody());
    moveCarried(loop, true);
    bool carries =
        llvm::any_of(carriedByLoop(loop), [&](const CarriedValue &carried) { return slot(carried.inside).at >= 0; });
    Step &turn = to.steps[emit(Action::Turn, loop, {counter, end, by}, counter)];
    turn.number = carries || needed.contains(loop.getInductionVar()) || synchronises(loop);
    turn.target = test + 1;
    land(test);
  }

  void compileTiles(sched::ForTilesOp tiles) {
    moveCarried(tiles, false);
    const Slot index = slot(tiles.getBody().getArgument(0)), bound = slot(tiles.getBound());
    int test = emit(Action::Below, tiles, {index, bound});
    compile(tiles.getBody().front());
    emit(Action::Advance, tiles, {index, slot(tiles.getNext().getValues().front()), bound});
    moveCarried(tiles, true);
    to.steps[emit(Action::Jump, tiles)].target = test;
    land(test);
  }

  void compileWork(sched::ForWorkOp work) {
    if (work.getOrder() == sched::WorkOrder::Grid) {
      emit(Action::BlockId, work, {}, slot(work.getNumber()));
      return compile(work.getBody().front());
    }
    const bool received = work.getOrder() == sched::WorkOrder::Received;
    const Slot count = slot(work.getCount()), number = received ? Slot() : slot(work.getNumber());
    moveCarried(work, false);
    int begin = received
                    ? emit(Action::ReceiveBegin, work, {}, count)
                    : emit(Action::WorkBegin, work, {slot(work.getFirst()), slot(work.getBound())}, {number, count});
    int body = here();
    compile(work.getBody().front());
    // The number of the next tile of work is copied before the carried values move, because the number may be a carried
    // value.
    const Slot next = slot(work.getNext().getValues().front()), kept{slots, next.varies};
    slots += next.varies ? 32 : 1;
    emit(Action::Move, work, next, kept);
    moveCarried(work, true);
    int again = received ? emit(Action::ReceiveNext, work, kept, count)
                         : emit(Action::WorkNext, work, {kept, slot(work.getBound())}, {number, count});
    to.steps[again].target = body;
    land(begin);
  }

  sched::KernelOp kernel;
  Program &to;
  llvm::DenseMap<Value, int> rings, buffers, registers;
  std::vector<bool> rowsMatter; ///< for each shared buffer: whether accesses are tracked for groups of rows
  llvm::DenseMap<Operation *, int> roles;
  llvm::DenseSet<Value> needed;
  SmallVector<Value> order; ///< the values of `needed` in a deterministic order
  llvm::DenseSet<Value> varying;
  llvm::DenseMap<Value, Slot> places;
  llvm::SmallPtrSet<Operation *, 32> included;
  llvm::DenseSet<Operation *> events;
  SmallVector<std::pair<int, Operation *>> touched;
  int slots = 0;
};

} // namespace

StringRef synchronization::extentAxis(Operation *op) {
  if (auto extent = dyn_cast<tile::AxisExtentOp>(op))
    return extent.getAxis();
  auto ofView = dyn_cast<sched::ExtentOp>(op);
  tile::OperandAttr operand = ofView ? tile::operandOf(ofView.getView()) : tile::OperandAttr();
  return operand ? operand.getAxes()[ofView.getDim()].getName().getValue() : StringRef();
}

Program Program::of(sched::KernelOp kernel) {
  Program program;
  Compiler(kernel, program).run();
  return program;
}
