//===- Rings.cpp - Print rings of full and empty barriers -----------------------===//

#include "codegen/cuda/KernelPrinter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

Expr KernelPrinter::barrier(Value ring, Value stage, bool full) {
  std::string text = rings[ring];
  if (!full)
    text += " + " + std::to_string(8 * cast<RingType>(ring.getType()).getStages());
  Expr at = integer(stage);
  if (isNumber(at) ? at.text != "0" : true)
    text += " + " + (isNumber(at) ? std::to_string(8 * std::stoll(at.text)) : cuda::at(at, Product) + " * 8");
  return {text, Sum};
}

bool KernelPrinter::printRing(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](RingOp o) {
        used.insert("shared_address");
        std::string name = names.take(o.getName());
        rings[o.getResult()] = name;
        statement(op, "const unsigned " + name + " = shared_base + " + std::to_string(o.getOffset()) +
                          ";  // full and empty, " + std::to_string(o.getResult().getType().getStages()) + " each");
      })
      .Case([&](InitRingOp o) {
        auto ring = o.getRing().getDefiningOp<RingOp>();
        statement(
            op, primitive(
                    "init_ring", "<" + Twine(o.getRing().getType().getStages()) + ">",
                    {{rings[o.getRing()]}, {std::to_string(ring.getFilledBy())}, {std::to_string(ring.getEmptiedBy())}})
                        .text +
                    ";");
      })
      .Case([&](FenceInitOp) { statement(op, primitive("fence_init", {}).text + ";"); })
      .Case([&](AcquireOp o) {
        // All stages are empty at first. A fresh mbarrier counts as having completed the phase of parity 1. The wait is
        // for the parity opposite to the ring's phase, so it returns at once in the first pass over the stages.
        Expr phase = infix(integer(o.getPhase()), "^", {"1"}, BitXor);
        statement(op, primitive("wait_barrier", {barrier(o.getRing(), o.getStage(), false), phase}).text + ";");
      })
      .Case([&](WaitOp o) {
        statement(op,
                  primitive("wait_barrier", {barrier(o.getRing(), o.getStage(), true), integer(o.getPhase())}).text +
                      ";");
      })
      .Case([&](ExpectBytesOp o) {
        statement(
            op,
            primitive("expect_bytes", {barrier(o.getRing(), o.getStage(), true), {std::to_string(o.getBytes())}}).text +
                ";");
      })
      .Case([&](CommitOp o) {
        statement(
            op,
            primitive(o.getByWarp() ? "arrive_as_warp" : "arrive", {barrier(o.getRing(), o.getStage(), true)}).text +
                ";");
      })
      .Case([&](ReleaseOp o) {
        statement(
            op,
            primitive(o.getByLanes() ? "arrive" : "arrive_as_warp", {barrier(o.getRing(), o.getStage(), false)}).text +
                ";");
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

} // namespace attune::codegen::cuda
