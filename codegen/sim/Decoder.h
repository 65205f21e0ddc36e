//===- Decoder.h - Translates the ops of a sched.kernel to steps ----------===//
//
// Decoder.cpp allocates slots and handles declarations (shared tiles, rings, ...). DecodeControl.cpp handles control
// flow, DecodeOps.cpp all other ops.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/sim/Lanes.h"
#include "codegen/sim/Machine.h"
#include "ir/sched/LaunchMaps.h"
#include "ir/tile/Signature.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace attune::sim {

/// Bytes that the simulator stores for one value of this type.
int64_t widthOf(mlir::Type type);

/// Translates one kernel to a Program, the list of steps that the simulator runs.
class Decoder {
  using Block = mlir::Block;
  using Operation = mlir::Operation;
  using StringRef = llvm::StringRef;
  using Type = mlir::Type;
  using Value = mlir::Value;
  using ValueRange = mlir::ValueRange;
  template <typename T> using ArrayRef = llvm::ArrayRef<T>;

public:
  Decoder(sched::KernelOp kernel, const KernelSignature &signature, const sched::LaunchMaps &maps)
      : kernel(kernel), signature(signature), maps(maps), varies(kernel) {}

  Expected<std::shared_ptr<const Program>> run();

private:
  void block(Block &block);
  void op(Operation *op);
  // Each function decodes `op` and returns true if `op` is of the kind in the function's name; else it returns false.
  bool declaration(Operation *op);
  bool valueOp(Operation *op);
  bool elementOp(Operation *op);
  bool copyOp(Operation *op);
  bool boxOp(Operation *op);
  bool sharedOp(Operation *op);
  /// Adds two inputs to `step`: the row step and the column step, by which the shared-memory access `op` advances its
  /// address. A step that `op` lacks is 0.
  template <typename Access> void takeSteps(Step &step, Access op);
  bool productOp(Operation *op);
  void count(mlir::scf::ForOp op);
  void tiles(sched::ForTilesOp op);
  void role(sched::RoleOp op);
  void work(sched::ForWorkOp op);
  void branch(mlir::scf::IfOp op);
  /// Emits a loop that runs while arguments[0] < bound. `advance` emits the moves that set the arguments for the next
  /// iteration.
  void loop(Operation *op, ValueRange inits, ValueRange arguments, Value bound, Block &body,
            llvm::function_ref<void()> advance);
  void moveAll(Operation *op, ValueRange from, ValueRange to);

  void constant(mlir::arith::ConstantOp op);
  void parameter(tile::ParamOp op);
  void shared(sched::SharedOp op);
  void registers(sched::RegistersOp op);
  void ring(sched::RingOp op);
  void tensorMap(sched::TensorMapOp op);
  void view(Value value, sim::View view);

  /// Appends a step that executes `op` by the function `run`, with inputs `in` and the op's results as outputs. `at`,
  /// `number` and `flag` become the fields of Step that have these names.
  Step &emit(Operation *op, Run run, ValueRange in = {}, ArrayRef<int> at = {}, ArrayRef<int64_t> number = {},
             bool flag = false);
  void take(Step &step, Value value) {
    if (step.inputs < step.in.size())
      step.in[step.inputs++] = slot(value);
    else
      fail(step.op, "has more operands than the simulator takes");
  }
  Slot slot(Value value);
  Slot allocate(Type type, bool varies);
  int find(Value value, const llvm::DenseMap<Value, int> &in, Operation *op, StringRef what);
  int sharedOf(Operation *op, Value value) { return find(value, sharedAt, op, "a shared tile"); }
  int registersOf(Operation *op, Value value) { return find(value, registersAt, op, "a register buffer"); }
  int ringOf(Operation *op, Value value) { return find(value, ringsAt, op, "a ring"); }
  int mapOf(Operation *op, Value value) { return find(value, mapsAt, op, "a tensor map"); }
  int viewOf(Operation *op, Value value) { return find(value, viewsAt, op, "a view"); }
  uint32_t opIndex(Operation *op);
  void fail(uint32_t op, const std::string &what);

  sched::KernelOp kernel;
  KernelSignature signature;
  const sched::LaunchMaps &maps; ///< tensor maps of the launch
  Lanes varies;
  std::shared_ptr<Program> program = std::make_shared<Program>();
  llvm::DenseMap<Value, Slot> slots;
  llvm::DenseMap<Value, int> sharedAt, registersAt, ringsAt, mapsAt, viewsAt;
  llvm::DenseMap<Operation *, uint32_t> opsAt;
  std::optional<Error> error;
};

} // namespace attune::sim
