//===- CopyOrder.cpp - Verifies waits and barriers of cp.async copies --------===//

#include "passes/analysis/copies/CopyOrder.h"
#include "ir/NestedOps.h"
#include "passes/analysis/dataflow/CarriedValues.h"
#include "passes/analysis/dataflow/IntegerOp.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune;

namespace {

/// One run of a kernel: extents, the number of the executed tile of work among `tiles`, and whether values that are not
/// computed are guessed as large numbers (`choice`) or as 0.
struct Launch {
  int64_t queries, keys, number, tiles;
  bool choice;
};

/// The extent of an axis. Axes other than q and k do not affect the analysis and have extent 1.
int64_t extentOf(StringRef axis, int64_t queries, int64_t keys) {
  return axis == "q" ? queries : axis == "k" ? keys : 1;
}

/// The number of tiles of work in the grid.
int64_t countTiles(sched::KernelOp kernel, int64_t queries, int64_t keys) {
  int64_t tiles = 1;
  for (auto axis : kernel.getGrid().getAsRange<tile::AxisAttr>())
    tiles *= llvm::divideCeil(axis.isFixed() ? axis.getSize() : extentOf(axis.getName(), queries, keys), axis.getBy());
  return tiles;
}

//===----------------------------------------------------------------------===//
// State of shared memory
//===----------------------------------------------------------------------===//

/// The state of shared memory: for each range of bytes, the last copy or store that wrote the range and the last read.
/// Each stage of a shared buffer is a list of such ranges.
class SharedState {
public:
  explicit SharedState(sched::KernelOp kernel) {
    SmallVector<std::pair<int64_t, int64_t>> ranges;
    SmallVector<int64_t> bounds;
    kernel.walk([&](sched::SharedOp buffer) {
      tile::TileType type = buffer.getResult().getType();
      int64_t stages = type.hasAxis("stage") ? type.size("stage") : 1, bytes = type.bytes() / stages;
      firstPlace[buffer.getResult()] = places.size();
      for (int64_t stage = 0; stage < stages; ++stage) {
        int64_t begin = int64_t(buffer.getOffset()) + stage * bytes;
        places.push_back({buffer, stage, stages, {}});
        ranges.push_back({begin, begin + bytes});
        bounds.append({begin, begin + bytes});
      }
    });
    llvm::sort(bounds);
    bounds.erase(llvm::unique(bounds), bounds.end());
    for (auto [place, range] : llvm::zip(places, ranges))
      for (auto [cell, begin] : llvm::enumerate(bounds))
        if (range.first <= begin && begin < range.second)
          place.cells.push_back(cell);
    cellCount = bounds.size();
    reset();
  }

  void reset() {
    cells.assign(cellCount, Cell{});
    openGroup = completeGroups = barriers = 0;
    completedAt.clear();
    lastWait = {};
  }

  void commit() { ++openGroup; }

  void wait(sched::WaitCopiesOp op) {
    int64_t complete = int64_t(openGroup) - int64_t(op.getPending());
    for (; int64_t(completeGroups) < complete; ++completeGroups)
      completedAt.push_back(barriers);
    lastWait = op;
    groupsAtWait = openGroup;
  }

  void barrier() { ++barriers; }

  LogicalResult read(Operation *op, Value buffer, int64_t stage) {
    FailureOr<unsigned> at = find(op, "reads", buffer, stage);
    if (failed(at))
      return failure();
    for (unsigned index : places[*at].cells) {
      Cell &cell = cells[index];
      if (!cell.write)
        return error(op, "reads", *at) << ", which nothing has written";
      if (cell.writer != *at)
        return error(op, "reads", *at) << ", whose bytes hold " << name(cell.writer);
      if (StringRef fault = pending(cell); !fault.empty())
        return explain(error(op, "reads", *at), cell, fault);
      cell.reader = *at;
      cell.readAt = barriers;
    }
    return success();
  }

  LogicalResult write(Operation *op, Value buffer, int64_t stage, bool asynchronous) {
    FailureOr<unsigned> at = find(op, "writes", buffer, stage);
    if (failed(at))
      return failure();
    for (unsigned index : places[*at].cells) {
      Cell &cell = cells[index];
      auto over = [&](unsigned other) -> InFlightDiagnostic {
        InFlightDiagnostic diagnostic = error(op, "writes", *at);
        return other == *at ? std::move(diagnostic) : std::move(diagnostic << " over " << name(other));
      };
      if (cell.reader && cell.readAt == barriers)
        return over(*cell.reader) << ", which other threads may still read; a barrier must follow the reads";
      bool part = cell.write && cell.writer == *at && cell.asynchronous == asynchronous &&
                  (asynchronous ? cell.group == openGroup : true);
      if (StringRef fault = cell.write && !part ? pending(cell) : StringRef(); !fault.empty())
        return explain(over(cell.writer), cell, fault);
      cell.writer = *at;
      cell.write = op;
      cell.asynchronous = asynchronous;
      cell.group = openGroup;
      cell.storedAt = barriers;
    }
    return success();
  }

  /// Checks that a wait has completed every copy before the tile of work ends.
  LogicalResult finish() {
    for (const Cell &cell : cells)
      if (cell.write && cell.asynchronous && cell.group >= completeGroups)
        return cell.write->emitOpError() << "starts a copy into " << name(cell.writer)
                                         << " that no wait completes before the tile of work ends";
    return success();
  }

private:
  struct Place {
    sched::SharedOp buffer;
    int64_t stage, stages;
    SmallVector<unsigned> cells;
  };
  struct Cell {
    unsigned writer = 0; ///< index of the Place that `write` wrote
    Operation *write = nullptr;
    bool asynchronous = false;
    unsigned group = 0;    ///< number of the copy group, if the write is an asynchronous copy
    unsigned storedAt = 0; ///< number of barriers before the store
    std::optional<unsigned> reader;
    unsigned readAt = 0; ///< number of barriers before the last read
  };

  std::string name(unsigned place) const {
    sched::SharedOp buffer = places[place].buffer;
    if (places[place].stages == 1)
      return buffer.getName().str();
    return "stage " + std::to_string(places[place].stage) + " of " + buffer.getName().str();
  }

  InFlightDiagnostic error(Operation *op, StringRef verb, unsigned place) const {
    return op->emitOpError() << verb << " " << name(place);
  }

  FailureOr<unsigned> find(Operation *op, StringRef verb, Value buffer, int64_t stage) const {
    auto first = firstPlace.find(buffer);
    if (first == firstPlace.end())
      return op->emitOpError() << verb << " a shared tile that is not the result of sched.shared";
    const Place &place = places[first->second];
    if (stage < 0 || stage >= place.stages)
      return op->emitOpError() << verb << " stage " << stage << " of " << sched::SharedOp(place.buffer).getName()
                               << ", which has " << place.stages;
    return first->second + unsigned(stage);
  }

  /// Why the content of `cell` is not visible to all threads yet; "" if it is visible.
  StringRef pending(const Cell &cell) const {
    if (!cell.asynchronous)
      return cell.storedAt == barriers ? "stored" : "";
    if (cell.group == openGroup)
      return "open";
    if (cell.group >= completeGroups)
      return "copying";
    return completedAt[cell.group] == barriers ? "complete" : "";
  }

  LogicalResult explain(InFlightDiagnostic diagnostic, const Cell &cell, StringRef fault) const {
    if (fault == "stored")
      return diagnostic << ", which other threads have just stored; a barrier must follow the stores";
    if (fault == "open")
      return diagnostic << ", whose copy is in no group; sched.commit_copies must follow it";
    if (fault == "complete")
      return diagnostic << ", whose copy other threads may not have completed; a barrier must follow the wait";
    diagnostic << ", whose copy is still under way; ";
    if (!lastWait || cell.group >= groupsAtWait)
      return diagnostic << "no wait follows the copy";
    uint64_t left = sched::WaitCopiesOp(lastWait).getPending();
    return diagnostic << "the wait before it leaves " << left << (left == 1 ? " group pending" : " groups pending");
  }

  SmallVector<Place> places;
  llvm::DenseMap<Value, unsigned> firstPlace;
  size_t cellCount = 0;
  SmallVector<Cell> cells;
  unsigned openGroup = 0;      ///< number of the open copy group (groups closed so far)
  unsigned completeGroups = 0; ///< copy groups of this thread that a wait has completed
  unsigned barriers = 0;
  SmallVector<unsigned> completedAt; ///< for each group, the number of barriers before the wait that completed it
  sched::WaitCopiesOp lastWait;
  unsigned groupsAtWait = 0; ///< groups closed before `lastWait`
};

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

bool isCopyEvent(Operation *op) {
  return isa<sched::CopyAsyncOp, sched::CommitCopiesOp, sched::WaitCopiesOp, sched::BarrierOp, sched::LoadMatrixOp,
             sched::LoadSharedOp, sched::LoadPairOp, sched::StoreSharedOp, sched::CopyToGlobalOp>(op);
}

/// Whether all threads of the thread block must execute `op`.
bool isCollective(Operation *op) { return isa<sched::CommitCopiesOp, sched::WaitCopiesOp, sched::BarrierOp>(op); }

bool isControl(Operation *op) { return isa<sched::ForWorkOp, sched::ForTilesOp, scf::ForOp, scf::IfOp>(op); }

/// The stage operand of a copy event; null for sched.copy_to_global, which reads stage 0.
Value stageOf(Operation *op) {
  return TypeSwitch<Operation *, Value>(op)
      .Case<sched::CopyAsyncOp, sched::LoadMatrixOp, sched::LoadSharedOp, sched::LoadPairOp, sched::StoreSharedOp>(
          [](auto event) { return event.getStage(); })
      .Default(Value());
}

Value sharedOf(Operation *op) {
  return TypeSwitch<Operation *, Value>(op)
      .Case<sched::CopyAsyncOp, sched::LoadMatrixOp, sched::LoadSharedOp, sched::LoadPairOp, sched::StoreSharedOp,
            sched::CopyToGlobalOp>([](auto event) { return event.getShared(); })
      .Default(Value());
}

/// Whether `value` may differ between the threads of a thread block.
bool variesByThread(Value value, llvm::SmallDenseSet<Value> &visited) {
  if (!visited.insert(value).second)
    return false;
  auto varies = [&](auto &&values) {
    return llvm::any_of(values, [&](Value v) { return variesByThread(v, visited); });
  };
  Operation *op = value.getDefiningOp();
  if (!op) {
    op = value.getParentBlock()->getParentOp();
    if (isa<sched::ForWorkOp>(op))
      return false;
    for (const CarriedValue &carried : carriedBy(op))
      if (carried.inside == value)
        return variesByThread(carried.initial, visited) || variesByThread(carried.next, visited);
    return varies(op->getOperands());
  }
  // All warps of a thread block vote on the same tiles, so sched.ballot gives the same result in each of them.
  if (isa<sched::BallotOp, sched::UniformOp, tile::ParamOp, tile::AxisExtentOp>(op))
    return false;
  if (isa<sched::ThreadIdOp, sched::LaneIdOp, sched::ReadThreadIdOp, sched::ElectOp, sched::GetOp, sched::LoadSharedOp,
          sched::LoadPairOp, sched::ShuffleXorOp, sched::ShuffleOp, sched::AnyLaneOp>(op))
    return true;
  if (varies(op->getOperands()))
    return true;
  for (Region &region : op->getRegions())
    if (!region.empty() && region.front().mightHaveTerminator() &&
        varies(region.front().getTerminator()->getOperands()))
      return true;
  return false;
}

/// The kernel reduced to copy events, control flow and the integers that control flow and stages depend on. Each SSA
/// value has a number, which indexes `values`.
class Skeleton {
public:
  explicit Skeleton(sched::KernelOp kernel) : kernel(kernel), state(kernel) {
    kernel.walk([&](Operation *op) {
      if (!isCopyEvent(op))
        return;
      if (Value stage = stageOf(op))
        need(stage);
      include(op->getParentOp());
    });
    compile(kernel.getBody().front(), program);
    values.assign(slots.size(), 0);
  }

  /// Checks that barriers, waits and commits are under no condition that differs between threads.
  LogicalResult verifyCollectives() {
    LogicalResult result = success();
    kernel.walk([&](Operation *op) {
      if (!isCollective(op) || failed(result))
        return;
      for (Operation *parent = op->getParentOp(); parent != kernel; parent = parent->getParentOp()) {
        SmallVector<Value> control;
        if (auto branch = dyn_cast<scf::IfOp>(parent))
          control = {branch.getCondition()};
        else if (auto loop = dyn_cast<scf::ForOp>(parent))
          control = {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()};
        else if (auto tiles = dyn_cast<sched::ForTilesOp>(parent))
          control = {tiles.getBody().getArgument(0), tiles.getBound()};
        llvm::SmallDenseSet<Value> visited;
        if (llvm::any_of(control, [&](Value value) { return variesByThread(value, visited); })) {
          result =
              op->emitOpError("stands under a condition that differs from thread to thread; all threads must come by");
          return;
        }
      }
    });
    return result;
  }

  /// Executes one launch and reports the first error. Sets `guessed` if the run depended on a guessed value.
  LogicalResult run(const Launch &of) {
    launch = of;
    guessed = stopped = false;
    steps = 0;
    state.reset();
    if (failed(run(program)))
      return failure();
    return stopped || hasWork ? success() : state.finish();
  }

  bool guessed = false;

private:
  struct Step;
  using Steps = std::vector<Step>;

  /// One op. Operands and results are indices of `values`, or -1 for none.
  struct Step {
    explicit Step(Operation *op) : op(op) {}

    Operation *op;
    SmallVector<int, 3> operands;
    int result = -1; ///< index of a scalar op's result
    unsigned resultNumber = 0;
    std::optional<int64_t> constant;
    std::optional<IntegerOp> integer; ///< how to evaluate a scalar op
    /// Values that a control op carries or returns. For loops: (inside, outside, initial, next). For branches: (then,
    /// result, else, unused).
    SmallVector<std::array<int, 4>> carried;
    int counter = -1;           ///< induction variable of an scf.for, if it is needed
    bool everyIteration = true; ///< whether iterations of an scf.for may differ; if not, two are executed
    std::vector<Steps> bodies;
  };

  //===--------------------------------------------------------------------===//
  // Selecting the relevant ops
  //===--------------------------------------------------------------------===//

  /// Marks `value`, on which control flow or a stage depends, and all values that `value` depends on as needed.
  void need(Value value) {
    if (!value || !slots.try_emplace(value, int(slots.size())).second)
      return;
    Operation *op = value.getDefiningOp();
    Operation *holder = op ? op : value.getParentBlock()->getParentOp();
    if (isControl(holder)) {
      include(holder);
      for (const CarriedValue &carried : carriedBy(holder))
        if (value == carried.inside || value == carried.outside) {
          need(carried.inside);
          need(carried.initial);
          need(carried.next);
        }
      if (auto branch = dyn_cast<scf::IfOp>(holder); branch && op) {
        unsigned i = cast<OpResult>(value).getResultNumber();
        need(branch.thenYield()->getOperand(i));
        need(branch.elseYield()->getOperand(i));
      }
      return;
    }
    for (Value operand : operandsOf(op))
      need(operand);
  }

  /// Marks the control op `op` and the ops around it as executed, and their conditions and bounds as needed.
  void include(Operation *op) {
    if (op == kernel || !included.insert(op).second)
      return;
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      need(branch.getCondition());
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      need(loop.getLowerBound());
      need(loop.getUpperBound());
      need(loop.getStep());
    } else if (auto tiles = dyn_cast<sched::ForTilesOp>(op)) {
      need(tiles.getBody().getArgument(0));
      need(tiles.getBound());
    }
    include(op->getParentOp());
  }

  /// The operands of a scalar integer op. Empty for all other ops, whose results are guessed or given by the launch
  /// (block index, extents).
  static SmallVector<Value, 3> operandsOf(Operation *op) {
    return IntegerOp::of(op) ? SmallVector<Value, 3>(op->getOperands()) : SmallVector<Value, 3>();
  }

  int slot(Value value) const {
    auto found = value ? slots.find(value) : slots.end();
    return found == slots.end() ? -1 : found->second;
  }

  void compileControl(Operation *op, Steps &to) {
    Step step(op);
    for (Value operand : op->getOperands())
      step.operands.push_back(slot(operand));
    for (const CarriedValue &carried : carriedBy(op))
      if (slot(carried.inside) >= 0)
        step.carried.push_back(
            {slot(carried.inside), slot(carried.outside), slot(carried.initial), slot(carried.next)});
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      step.counter = slot(loop.getInductionVar());
      step.everyIteration = step.counter >= 0 || !step.carried.empty() || holds<Operation *>(loop, isCollective);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      for (auto [i, result] : llvm::enumerate(branch.getResults()))
        if (slot(result) >= 0)
          step.carried.push_back(
              {slot(branch.thenYield()->getOperand(i)), slot(result), slot(branch.elseYield()->getOperand(i)), -1});
    } else if (isa<sched::ForWorkOp>(op)) {
      hasWork = true;
    }
    for (Region &region : op->getRegions()) {
      step.bodies.emplace_back();
      if (!region.empty())
        compile(region.front(), step.bodies.back());
    }
    to.push_back(std::move(step));
  }

  void compile(Block &block, Steps &to) {
    for (Operation &op : block) {
      if (isControl(&op)) {
        if (included.contains(&op))
          compileControl(&op, to);
        continue;
      }
      if (isCopyEvent(&op)) {
        Step step(&op);
        step.operands.push_back(slot(stageOf(&op)));
        to.push_back(std::move(step));
      }
      for (Value result : op.getResults()) {
        if (slot(result) < 0)
          continue;
        Step step(&op);
        step.result = slot(result);
        step.resultNumber = cast<OpResult>(result).getResultNumber();
        for (Value operand : operandsOf(&op))
          step.operands.push_back(slot(operand));
        APInt constant;
        if (matchPattern(result, m_ConstantInt(&constant)))
          step.constant = constant.getBitWidth() == 1 ? int64_t(constant.getZExtValue()) : constant.getSExtValue();
        else if (isa<sched::ThreadIdOp, sched::LaneIdOp, sched::ReadThreadIdOp>(op))
          step.constant = 0;
        step.integer = IntegerOp::of(&op);
        to.push_back(std::move(step));
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Execution
  //===--------------------------------------------------------------------===//

  LogicalResult run(const Steps &body) {
    for (const Step &step : body) {
      if (stopped)
        return success();
      // Loop bounds may be guessed and huge, so the number of steps is limited.
      if (++steps > maxSteps) {
        stopped = true;
        return success();
      }
      if (step.result >= 0)
        values[step.result] = step.constant ? *step.constant : evaluate(step);
      else if (failed(isControl(step.op) ? control(step) : event(step)))
        return failure();
    }
    return success();
  }

  LogicalResult event(const Step &step) {
    Operation *op = step.op;
    int64_t stage = step.operands[0] >= 0 ? values[step.operands[0]] : 0;
    if (isa<sched::CopyAsyncOp>(op))
      return state.write(op, sharedOf(op), stage, /*asynchronous=*/true);
    if (isa<sched::StoreSharedOp>(op))
      return state.write(op, sharedOf(op), stage, /*asynchronous=*/false);
    if (auto wait = dyn_cast<sched::WaitCopiesOp>(op))
      state.wait(wait);
    else if (isa<sched::CommitCopiesOp>(op))
      state.commit();
    else if (isa<sched::BarrierOp>(op))
      state.barrier();
    else
      return state.read(op, sharedOf(op), stage);
    return success();
  }

  /// Runs the body for the launch's tile of work. For a persistent block two tiles of work are executed: the second
  /// starts with the state of shared memory that the first left.
  LogicalResult runWork(sched::ForWorkOp work, const Step &step) {
    bool several = work.getOrder() == sched::WorkOrder::Persistent;
    for (int64_t count = 0; count < (several ? 2 : 1) && !stopped; ++count) {
      if (int at = slot(work.getNumber()); at >= 0)
        values[at] = launch.number;
      if (int at = several ? slot(work.getCount()) : -1; at >= 0)
        values[at] = count;
      if (failed(run(step.bodies[0])) || (!stopped && failed(state.finish())))
        return failure();
    }
    return success();
  }

  /// Runs one iteration of a loop, and gives the carried values their next values.
  LogicalResult runIteration(const Step &step) {
    if (failed(run(step.bodies[0])))
      return failure();
    SmallVector<int64_t> following;
    for (auto &carried : step.carried)
      following.push_back(values[carried[3]]);
    for (auto [carried, value] : llvm::zip(step.carried, following))
      values[carried[0]] = value;
    return success();
  }

  LogicalResult runFor(const Step &step) {
    int64_t begin = values[step.operands[0]], end = values[step.operands[1]], by = values[step.operands[2]];
    for (int64_t i = begin, iterations = 0; i < end && !stopped && by > 0 && (step.everyIteration || iterations < 2);
         i += by, ++iterations) {
      if (step.counter >= 0)
        values[step.counter] = i;
      if (failed(runIteration(step)))
        return failure();
    }
    return success();
  }

  LogicalResult runTiles(sched::ForTilesOp tiles, const Step &step) {
    int index = slot(tiles.getBody().getArgument(0)), bound = slot(tiles.getBound());
    while (!stopped && values[index] < values[bound]) {
      int64_t before = values[index];
      if (failed(runIteration(step)))
        return failure();
      if (values[index] > before || values[index] >= values[bound] || stopped)
        continue;
      if (!guessed)
        return tiles.emitOpError() << "goes from tile " << before << " to tile " << values[index] << " and never ends";
      stopped = true;
    }
    return success();
  }

  LogicalResult control(const Step &step) {
    if (auto work = dyn_cast<sched::ForWorkOp>(step.op))
      return runWork(work, step);
    if (isa<scf::IfOp>(step.op)) {
      bool taken = values[step.operands[0]];
      if (failed(run(step.bodies[taken ? 0 : 1])))
        return failure();
      for (auto [yes, result, no, unused] : step.carried)
        values[result] = values[taken ? yes : no];
      return success();
    }
    for (auto [inside, outside, initial, next] : step.carried)
      values[inside] = values[initial];
    auto tiles = dyn_cast<sched::ForTilesOp>(step.op);
    if (failed(tiles ? runTiles(tiles, step) : runFor(step)))
      return failure();
    for (auto [inside, outside, initial, next] : step.carried)
      if (outside >= 0)
        values[outside] = values[inside];
    return success();
  }

  /// A guess for a value that the kernel reads from memory or registers: 0 or, with `choice`, a large number.
  int64_t guess(Type type) {
    guessed = true;
    return !launch.choice ? 0 : type.isInteger(1) ? 1 : launch.keys;
  }

  int64_t parameter(tile::ParamOp op) { return op.getName() == "group" ? 1 : guess(op.getResult().getType()); }

  int64_t evaluate(const Step &step) {
    Operation *op = step.op;
    Type type = op->getResult(step.resultNumber).getType();
    if (auto param = dyn_cast<tile::ParamOp>(op))
      return parameter(param);
    if (auto axis = dyn_cast<tile::AxisExtentOp>(op))
      return extentOf(axis.getAxis(), launch.queries, launch.keys);
    if (isa<sched::BlockIdOp, sched::ReadBlockIdOp>(op))
      return launch.number;
    if (isa<sched::GridSizeOp>(op))
      return launch.tiles;
    if (isa<sched::BallotOp>(op)) {
      // The vote of a search: either all tiles are visible, or only every second tile.
      guessed = true;
      return launch.choice ? int32_t(0xaaaaaaaa) : -1;
    }
    SmallVector<int64_t, 3> operands;
    for (int operand : step.operands)
      operands.push_back(values[operand]);
    std::optional<int64_t> result = step.integer ? step.integer->apply(operands) : std::nullopt;
    return result ? *result : guess(type);
  }

  static constexpr unsigned maxSteps = 1 << 18;

  sched::KernelOp kernel;
  SharedState state;
  llvm::DenseMap<Value, int> slots;
  llvm::SmallPtrSet<Operation *, 32> included;
  Steps program;
  bool hasWork = false, stopped = false;
  std::vector<int64_t> values;
  Launch launch{};
  unsigned steps = 0;
};

} // namespace

LogicalResult attune::verifyCopyOrder(sched::KernelOp kernel) {
  Skeleton skeleton(kernel);
  if (failed(skeleton.verifyCollectives()))
    return failure();
  int64_t tileQ = kernel.getPlan().getTileQ(), tileK = kernel.getPlan().getTileK(), stages = sched::deepestRing(kernel);
  for (int64_t keys : {int64_t(0), int64_t(1), tileK, tileK + 1, (2 * stages + 1) * tileK}) {
    // Masks that compare q with k may give tiles of queries different control flow. The launch thus has at least two
    // tiles of queries, and more queries than keys.
    int64_t queries = std::max(tileQ, keys) + 1, tiles = countTiles(kernel, queries, keys);
    SmallVector<int64_t> numbers{0, tiles / 2, tiles - 1};
    numbers.erase(llvm::unique(numbers), numbers.end());
    for (int64_t number : tiles ? numbers : SmallVector<int64_t>())
      for (bool choice : {false, true}) {
        if (choice && !skeleton.guessed)
          continue;
        bool failedHere;
        {
          ScopedDiagnosticHandler where(kernel.getContext(), [&](Diagnostic &diagnostic) {
            diagnostic.attachNote() << "with Sq " << queries << " and Sk " << keys << ", in tile of work " << number;
            return failure();
          });
          failedHere = failed(skeleton.run({queries, keys, number, tiles, choice}));
        }
        if (failedHere)
          return failure();
      }
  }
  return success();
}
