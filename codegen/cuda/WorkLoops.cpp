//===- WorkLoops.cpp - Print loops over tiles of work ---------------------------===//

#include "codegen/cuda/KernelPrinter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

/// Prints a loop over tiles of work. The number of the tile is unsigned; all other carried values are signed.
void KernelPrinter::printForWork(ForWorkOp op) {
  comment(op);
  if (op.getOrder() == WorkOrder::Grid) {
    values[op.getNumber()] = bitPattern({"blockIdx.x"});
    return printBlock(op.getBody().front());
  }
  const bool received = op.getOrder() == WorkOrder::Received;
  size_t mark = names.open();
  SmallVector<std::string> carried;
  const size_t first = cast<BlockArgument>(op.getCount()).getArgNumber();
  std::string condition, count = nameFor(op, first, "count"), inits;
  values[op.getCount()] = natural({count});
  if (!received) {
    carried.push_back(nameFor(op, 0, "number"));
    values[op.getNumber()] = bitPattern({carried.front()});
    line("unsigned " + carried.front() + " = " + value(op.getFirst()).text + ";");
    condition = " " + carried.front() + " < " + at(asUnsigned(value(op.getBound())), Sum);
  }
  for (auto [i, init] : llvm::enumerate(op.getInits())) {
    carried.push_back(nameFor(op, first + 1 + i, "carried"));
    inits += ", " + carried.back() + " = " + integer(init).text;
    values[op.getCarried()[i]] = {carried.back()};
  }
  line("#pragma unroll 1");
  open(op, "for (int " + count + " = 0" + inits + ";" + condition + "; ++" + count + ")");
  printBlock(op.getBody().front(), [&] {
    NextOp next = op.getNext();
    if (received) {
      line("if (" + at(value(next.getValues().front()), Equality) + " == 0) {");
      line("  break;");
      line("}");
    }
    assignCarried(next, next.getValues().drop_front(received), carried, /*numbers=*/!received);
  });
  if (error)
    return;
  close();
  names.close(mark);
}

bool KernelPrinter::printWork(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ForWorkOp o) { printForWork(o); })
      .Case([&](ReadBlockIdOp o) { declare(o->getResult(0), bitPattern(primitive("read_block_id", {}))); })
      .Case([&](OpaqueOp o) { declare(o->getResult(0), bitPattern(primitive("opaque", {value(o.getValue())}))); })
      .Case(
          [&](ClaimWorkOp o) { declare(o->getResult(0), primitive("claim_work", {{views[o.getCounter()].pointer}})); })
      .Case([&](StartNextLaunchOp) { statement(op, primitive("start_next_launch", {}).text + ";"); })
      .Case([&](WaitLaunchOp) { statement(op, primitive("wait_launch", {}).text + ";"); })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

} // namespace attune::codegen::cuda
