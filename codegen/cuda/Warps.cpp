//===- Warps.cpp - Print communication of lanes and warps: barriers, shuffles, votes, messages ===//

#include "codegen/cuda/KernelPrinter.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

bool KernelPrinter::printExchange(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](BarrierOp) { statement(op, "__syncthreads();"); })
      .Case([&](SyncLanesOp) { statement(op, primitive("sync_lanes", {}).text + ";"); })
      .Case([&](SyncWarpsOp o) {
        statement(op, primitive("sync_warps", {integer(o.getId()), {std::to_string(o.getThreads())}}).text + ";");
      })
      .Case([&](ArriveWarpsOp o) {
        statement(op, primitive("arrive_warps", {integer(o.getId()), {std::to_string(o.getThreads())}}).text + ";");
      })
      .Case([&](SendOp o) {
        std::string fields;
        for (Value value : o.getValues())
          fields += (fields.empty() ? "" : ", ") + integer(value).text;
        std::string message = "Message<" + std::to_string(o.getShared().getType().getShape()[2]) + ">{" + fields + "}";
        statement(op,
                  primitive("send", {sharedAddress(op, o.getShared(), o.getStage(), {}, {}), {message}}).text + ";");
      })
      .Case([&](ReceiveOp o) {
        std::string fields = "<" + std::to_string(o.getShared().getType().getShape()[2]) + ">";
        std::string name = names.take(o.getShared().getDefiningOp<SharedOp>().getName().str() + "_message");
        Expr message = primitive("receive", fields, {sharedAddress(op, o.getShared(), o.getStage(), {}, {})});
        statement(op, "const Message" + fields + " " + name + " = " + message.text + ";");
        for (auto [i, result] : llvm::enumerate(o.getResults()))
          values[result] = natural({name + ".field[" + std::to_string(i) + "]"});
      })
      .Case([&](ShuffleXorOp o) {
        declare(cast<OpResult>(o.getResult()),
                primitive("shuffle_xor", {value(o.getValue()), {std::to_string(o.getMask())}}));
      })
      // Shuffles and votes are never inlined, although they have no side effects: all lanes must execute them, and C++
      // may skip an operand of `&&`, `||` or `?:`.
      .Case([&](ShuffleOp o) {
        declare(cast<OpResult>(o.getResult()), primitive("shuffle", {value(o.getValue()), integer(o.getLane())}));
      })
      .Case([&](UniformOp o) { declare(cast<OpResult>(o.getResult()), primitive("uniform", {integer(o.getValue())})); })
      .Case([&](BallotOp o) {
        declare(cast<OpResult>(o.getResult()), bitPattern(primitive("ballot", {value(o.getCondition())})));
      })
      .Case([&](AnyLaneOp o) {
        declare(cast<OpResult>(o.getResult()), primitive("any_lane", {value(o.getCondition())}));
      })
      .Case([&](ElectOp o) { declare(cast<OpResult>(o.getResult()), primitive("elect_one", {})); })
      .Case([&](ReadThreadIdOp o) {
        std::string name = nameFor(op, "thread");
        statement(op, "const int " + name + " = " + primitive("read_thread_id", {}).text +
                          (firstThread ? " - " + std::to_string(firstThread) : "") + ";");
        values[o.getResult()] = natural({name});
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

} // namespace attune::codegen::cuda
