//===- WorkLoops.cpp - Loops over tiles of work ---------------------------===//

#include "codegen/cuda/KernelPrinter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

/// The tile of work that a persistent block takes in a round.
Expr KernelPrinter::workNumber(ForWorkOp op, Expr round) {
  return primitive("work_number", op.getLongestFirst() ? "<true>" : "<false>", {std::move(round), workTiles(op)});
}

/// How many tiles of work there are: a variable of persistent blocks.
Expr KernelPrinter::workTiles(ForWorkOp op) {
  if (auto total = workTotals.find(op); total != workTotals.end())
    return {total->second};
  return primitive("work_tiles", "<" + Twine(op.getTileQ()) + ">", {extentOf("q"), extentOf("h"), extentOf("b")});
}

/// Where the tile of work with this number is.
Expr KernelPrinter::gridTile(ForWorkOp op, Expr number) {
  StringRef order = !op.getLongestFirst()                    ? "first_first"
                    : op.getOrder() == WorkOrder::Persistent ? "both_ends"
                                                             : "last_first";
  if (op.getOrder() == WorkOrder::Claimed)
    return primitive("claimed_tile", "<" + Twine(op.getTileQ()) + ", " + order + ">",
                     {std::move(number), {claimedHeads}, extentOf("q"), extentOf("h"), extentOf("b")});
  if (op.getAcrossBatches()) {
    Expr ofBatch = primitive("work_tiles", "<" + Twine(op.getTileQ()) + ">", {extentOf("q"), extentOf("h"), {"1"}});
    number = primitive("across_batches", order == "both_ends" ? "<2>" : "<1>",
                       {std::move(number), std::move(ofBatch), extentOf("b")});
  }
  return primitive("grid_tile", "<" + Twine(op.getTileQ()) + ", " + order + ">",
                   {std::move(number), extentOf("q"), extentOf("h")});
}

/// The place of the tile with this number: the first three arguments of the loop's body.
void KernelPrinter::printTile(ForWorkOp op, const std::string &number) {
  std::string tile = names.take("work");
  statement(op, "const GridTile " + tile + " = " + gridTile(op, {number}).text + ";");
  std::string position;
  for (auto [i, argument] : llvm::enumerate(op.getBody().getArguments().take_front(3))) {
    if (argument.use_empty())
      continue;
    constexpr StringRef fallback[] = {"b", "h", "q0"}, member[] = {".batch", ".head", ".row"};
    std::string name = nameFor(op, i, fallback[i]);
    position += (position.empty() ? "const int " : ", ") + name + " = " + tile + member[i].str();
    values[argument] = natural({name});
  }
  if (!position.empty())
    line(position + ";");
}

void KernelPrinter::breakIf(const std::string &condition) {
  line("if (" + condition + ") {");
  line("  break;");
  line("}");
}

void KernelPrinter::printForWork(ForWorkOp op) {
  const bool persistent = op.getOrder() == WorkOrder::Persistent, received = op.getOrder() == WorkOrder::Received,
             claimed = op.getOrder() == WorkOrder::Claimed;
  if (op.getOrder() == WorkOrder::Split)
    return fail(op, "in order 'split' has no printed form; use grid, persistent, claimed or received");
  size_t mark = names.open();
  SmallVector<std::string> carried;
  std::string number = "blockIdx.x";
  comment(op);
  if (op.getOrder() != WorkOrder::Grid) {
    size_t first = cast<BlockArgument>(op.getCount()).getArgNumber();
    std::string count = nameFor(op, first, "count"), total, inits;
    values[op.getCount()] = natural({count});
    if (!received) {
      total = names.take("work_tiles"), number = names.take("number");
      line("const unsigned " + total + " = " + workTiles(op).text + ";");
    }
    if (claimed) {
      claimedHeads = names.take("heads_together");
      line("const unsigned " + claimedHeads + " = " +
           primitive("claimed_heads", "<" + Twine(op.getTileQ()) + ">", {extentOf("h"), extentOf("b")}).text + ";");
      carried.push_back(number);
      inits += ", " + number + " = int(blockIdx.x)";
      number = "(unsigned)" + number;
    }
    for (auto [i, init] : llvm::enumerate(op.getInits())) {
      carried.push_back(nameFor(op, first + 1 + i, "carried"));
      inits += ", " + carried.back() + " = " + integer(init).text;
      values[op.getCarried()[i]] = {carried.back()};
    }
    line("#pragma unroll 1");
    open(op, "for (int " + count + " = 0" + inits + ";" + (claimed ? " " + number + " < " + total : "") + "; ++" +
                 count + ")");
    if (!received)
      workTotals[op] = total;
    if (persistent) {
      line("const unsigned " + number + " = " + workNumber(op, {count}).text + ";");
      breakIf(number + " >= " + total);
    }
  }
  // The way of a claim to memory and back is longer than what says where the tile is.
  for (auto claim : op.getBody().getOps<ClaimWorkOp>())
    declare(cast<OpResult>(claim.getResult()), primitive("claim_work", {{"p.workspace"}}));
  if (!received)
    printTile(op, number);
  printBlock(op.getBody().front(), [&] {
    if (received)
      breakIf(at(value(op.getNext().getValues().front()), Equality) + " == 0");
    if (op.getNext())
      assignCarried(op.getNext(), claimed ? op.getNext().getValues() : op.getNextCarried(), carried);
  });
  if (error || op.getOrder() == WorkOrder::Grid)
    return;
  close();
  names.close(mark);
}

void KernelPrinter::printReadWork(ReadWorkOp op) {
  auto work = cast<ForWorkOp>(op->getParentOp());
  std::string tile = names.take("work");
  Expr number = work.getOrder() == WorkOrder::Grid
                    ? primitive("read_block_id", {})
                    : workNumber(work, primitive("read_again", {value(work.getBody().getArgument(3))}));
  statement(op, "const GridTile " + tile + " = " + gridTile(work, number).text + ";");
  constexpr StringRef member[] = {".batch", ".head", ".row"};
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    values[result] = natural({tile + member[i].str()});
}

bool KernelPrinter::printWork(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](ForWorkOp o) { printForWork(o); })
      .Case([&](ReadWorkOp o) { printReadWork(o); })
      .Case([&](MoreWorkOp o) {
        auto work = cast<ForWorkOp>(o->getParentOp());
        Expr next = o.getNumber() ? asUnsigned(value(o.getNumber()))
                                  : workNumber(work, infix(value(work.getCount()), "+", {"1"}, Sum));
        declare(o->getResult(0), {at(next, Relation) + " < " + workTiles(work).text + " ? 1 : 0", Conditional});
      })
      .Case([&](WaitBoundsOp) { statement(op, primitive("wait_launch", {}).text + ";"); })
      .Case([&](ClaimWorkOp) {}) // the loop over work has printed it
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

} // namespace attune::codegen::cuda
