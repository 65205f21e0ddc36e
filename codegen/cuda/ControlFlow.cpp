//===- ControlFlow.cpp - Print roles, loops and branches ------------------------===//

#include "codegen/cuda/KernelPrinter.h"

#include "codegen/cuda/CommentText.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

bool mentions(StringRef text, StringRef name) {
  auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  for (size_t at = text.find(name); at != StringRef::npos; at = text.find(name, at + 1))
    if ((at == 0 || (!isWord(text[at - 1]) && text[at - 1] != '.')) &&
        (at + name.size() == text.size() || !isWord(text[at + name.size()])))
      return true;
  return false;
}

/// Prints all roles of the kernel as one if-else chain on threadIdx.x: the threads of a role run that role's branch.
void KernelPrinter::printRoles(RoleOp role) {
  const int64_t threads = kernel.getThreads(),
                atLaunch = std::min<int64_t>(255, 65536 / (threads * kernel.getBlocksPerSm())) / 8 * 8;
  for (bool first = true; role; role = dyn_cast_or_null<RoleOp>(role->getNextNode()), first = false) {
    unsigned end = firstThread + 32 * role.getWarps();
    bool last = !isa_and_nonnull<RoleOp>(role->getNextNode());
    std::string condition = "if (threadIdx.x < " + std::to_string(end) + ") {";
    std::string head = first ? condition : last ? "} else {" : "} else " + condition;
    if (!first)
      source.dedent();
    line(head + "  // " + codegen::commentText(role.getName()));
    source.indent();
    if (std::optional<uint64_t> registers = role.getRegisters())
      line(primitive(int64_t(*registers) < atLaunch ? "decrease_registers" : "increase_registers",
                     "<" + Twine(std::min<uint64_t>(*registers, 256)) + ">", {})
               .text +
           ";");
    printBlock(role.getBody().front());
    firstThread = end;
  }
  firstThread = 0;
  close();
}

void KernelPrinter::printFor(scf::ForOp op) {
  if (llvm::any_of(op.getResultTypes(), [](Type type) { return !type.isInteger(32) && !type.isInteger(64); }))
    return fail(op, "carries values that are not i32 or i64; keep them in sched.registers");
  if (!op.getInductionVar().getType().isInteger(32))
    return fail(op, "counts in " + text(op.getInductionVar().getType()) + "; use i32");
  Expr begin = integer(op.getLowerBound()), end = integer(op.getUpperBound()), step = integer(op.getStep());
  if (!inFunction) // a device function's comment is printed at the call
    comment(op);
  SmallVector<std::string> carried;
  for (auto [init, inside, result] : llvm::zip(op.getInitArgs(), op.getRegionIterArgs(), op.getResults())) {
    carried.push_back(nameFor(op, unsigned(carried.size()), "carried"));
    line(valueName(init.getType()) + " " + carried.back() + " = " + integer(init).text + ";");
    values[inside] = {carried.back()};
    values[result] = {carried.back()};
  }
  // A loop with carried values is a reduction over loaded elements. Unrolling by 4 lets the loads of four iterations be
  // in flight together, which hides their latency.
  if (auto times = op->getAttrOfType<IntegerAttr>(unrollAttr))
    line("#pragma unroll " + std::to_string(times.getInt()));
  else
    line(op->hasAttr(unrollAttr) ? "#pragma unroll" : carried.empty() ? "#pragma unroll 1" : "#pragma unroll 4");
  size_t mark = names.open();
  std::string name = nameFor(op, "i");
  std::string advance = step.text == "1" ? "++" + name : name + " += " + step.text;
  open(op, "for (int " + name + " = " + begin.text + "; " + name + " < " + at(end, Sum) + "; " + advance + ")");
  values[op.getInductionVar()] = natural({name}, begin.isNatural);
  printBlock(*op.getBody());
  if (!carried.empty())
    assignCarried(op, op.getBody()->getTerminator()->getOperands(), carried, /*numbers=*/0);
  close();
  names.close(mark);
}

void KernelPrinter::printIf(scf::IfOp op) {
  if (op.getNumResults())
    return fail(op, "gives values; use arith.select, or sched.registers written in both branches");
  comment(op);
  open(op, "if (" + value(op.getCondition()).text + ")");
  printBlock(*op.thenBlock());
  if (op.elseBlock() && !llvm::hasSingleElement(*op.elseBlock())) {
    close("} else {");
    source.indent();
    printBlock(*op.elseBlock());
  }
  close();
}

/// Assigns the next values to the loop-carried variables, as if all at once: a next value that mentions a variable
/// assigned earlier is copied to a constant first. The first `numbers` variables are unsigned.
void KernelPrinter::assignCarried(Operation *op, ValueRange next, ArrayRef<std::string> carried, size_t numbers) {
  SmallVector<std::string> nexts;
  for (auto [i, value] : llvm::enumerate(next))
    nexts.push_back((i < numbers ? asUnsigned(this->value(value)) : integer(value)).text);
  for (size_t i = 1; i < nexts.size(); ++i)
    if (llvm::any_of(carried.take_front(i), [&](const std::string &name) { return mentions(nexts[i], name); })) {
      std::string name = names.take("next_" + carried[i]);
      line((i < numbers ? "const unsigned" : "const " + valueName(next[i].getType())) + " " + name + " = " + nexts[i] +
           ";");
      nexts[i] = name;
    }
  for (auto [name, value] : llvm::zip(carried, nexts)) {
    StringRef rest = value;
    if (value == name)
      continue;
    if (rest.consume_front(name + " + ") && llvm::all_of(rest, llvm::isDigit))
      statement(op, rest == "1" ? "++" + name + ";" : name + " += " + rest.str() + ";");
    else
      statement(op, name + " = " + value + ";");
  }
}

void KernelPrinter::printForTiles(ForTilesOp op) {
  if (!op.getTiles().empty())
    return fail(op, "carries tiles; run the scheduling passes to their end before printing");
  size_t mark = names.open();
  SmallVector<std::string> carried;
  std::string inits;
  for (auto [i, init] : llvm::enumerate(op.getInits())) {
    carried.push_back(nameFor(op, i, i == 0 ? "tile" : "slot"));
    inits += (i ? ", " : "") + carried.back() + " = " + integer(init).text;
  }
  for (auto [argument, name] : llvm::zip(op.getBody().getArguments(), carried))
    values[argument] = {name};
  comment(op);
  if (op.getKeeps()) {
    line("int " + inits + ";");
    inits.clear();
    for (auto [result, name] : llvm::zip(op.getKept(), carried))
      values[result] = {name};
  } else {
    inits.insert(0, "int ");
  }
  line("#pragma unroll 1");
  open(op, "for (" + inits + "; " + carried[0] + " < " + at(integer(op.getBound()), Sum) + ";)");
  printBlock(op.getBody().front(), [&] { assignCarried(op.getNext(), op.getNext().getValues(), carried); });
  if (error)
    return;
  close();
  if (!op.getKeeps())
    names.close(mark);
}

bool KernelPrinter::printControl(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](RoleOp o) {
        if (!isa_and_nonnull<RoleOp>(o->getPrevNode()))
          printRoles(o);
      })
      .Case([&](scf::ForOp o) {
        if (!printFunction(o))
          printFor(o);
      })
      .Case([&](scf::IfOp o) { printIf(o); })
      .Case([&](ForTilesOp o) { printForTiles(o); })
      .Case([&](scf::YieldOp) {})
      .Case([&](NextOp) {})
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

} // namespace attune::codegen::cuda
