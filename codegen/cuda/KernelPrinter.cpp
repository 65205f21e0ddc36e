//===- KernelPrinter.cpp - Print the IR blocks and statements of a kernel ----===//

#include "codegen/cuda/KernelPrinter.h"

#include "codegen/cuda/CommentText.h"
#include "codegen/cuda/Primitives.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

void KernelPrinter::fail(Operation *op, const Twine &message) {
  if (error)
    return;
  error.emplace();
  error->message = (op->getName().getStringRef() + " " + message).str();
  if (auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>())
    error->where = {loc.getFilename().str(), loc.getLine(), loc.getColumn()};
}

/// The user's source line of `op` as "file.cpp:12". "" where the location is unknown or lies in MLIR text.
static std::string sourceLine(Operation *op) {
  auto loc = op->getLoc()->findInstanceOf<FileLineColLoc>();
  if (!loc || loc.getLine() == 0)
    return "";
  StringRef file = llvm::sys::path::filename(loc.getFilename().getValue());
  if (file.empty() || file.starts_with("<") || file == "-" || file.ends_with(".mlir"))
    return "";
  return codegen::commentText(file) + ":" + std::to_string(loc.getLine());
}

/// Prints the op's `tile.comment` as a comment line.
void KernelPrinter::comment(Operation *op) {
  if (inFunction && isa<RegistersOp>(op))
    return; // the comment is at the call of the device function
  if (auto comment = op->getAttrOfType<StringAttr>(tile::commentAttr))
    source.comment(codegen::commentText(comment.getValue()));
}

void KernelPrinter::statement(Operation *op, const Twine &text) {
  if (!op->getNumRegions())
    comment(op);
  source.statement(text, sourceLine(op));
}

void KernelPrinter::open(Operation *op, const Twine &text) {
  statement(op, text + " {");
  source.indent();
}

void KernelPrinter::close(const Twine &text) {
  source.dedent();
  line(text);
}

std::string KernelPrinter::nameFor(Operation *op, StringRef fallback) {
  auto name = op->getAttrOfType<StringAttr>(tile::nameAttr);
  return names.take(name ? name.getValue() : fallback);
}

std::string KernelPrinter::nameFor(Operation *op, unsigned i, StringRef fallback) {
  if (auto all = op->getAttrOfType<ArrayAttr>(tile::namesAttr); all && i < all.size())
    if (auto name = dyn_cast<StringAttr>(all[i]))
      return names.take(name.getValue());
  return names.take(fallback);
}

Expr KernelPrinter::primitive(StringRef name, const Twine &templateArguments, ArrayRef<Expr> arguments) {
  assert(codegen::isPrimitive(name) && "no such device function");
  used.insert(name.str());
  return call(name + templateArguments, arguments);
}

/// Prints the ops of an IR block and then calls `atEnd`, which may print further statements while the names declared in
/// the block are still in scope.
void KernelPrinter::printBlock(Block &block, function_ref<void()> atEnd) {
  unsigned writes = 0;
  for (Operation &op : block) {
    writesBefore[&op] = writes;
    if (!isMemoryEffectFree(&op) && !isa<GetOp, LoadSharedOp, RegistersOp, SharedOp>(op))
      ++writes;
  }
  size_t mark = names.open();
  for (Operation &op : block) {
    printOp(&op);
    if (error)
      return;
  }
  if (atEnd)
    atEnd();
  names.close(mark);
}

void KernelPrinter::printOp(Operation *op) {
  /// Longest expression, in characters, that is inlined into its user.
  constexpr size_t longest = 72;
  if (auto constantOp = dyn_cast<arith::ConstantOp>(op)) {
    values[constantOp.getResult()] = constant(constantOp);
    return;
  }
  if (auto param = dyn_cast<tile::ParamOp>(op)) {
    if (isa<ViewType>(param.getResult().getType())) {
      views[param.getResult()] = parameterView(param);
    } else if (Expr expr = parameter(param); expr.level == Primary) {
      values[param.getResult()] = expr;
    } else {
      std::string name = nameFor(op, param.getName());
      statement(op, "const long long " + name + " = " + expr.text + ";");
      values[param.getResult()] = {name};
    }
    return;
  }
  if (auto extent = dyn_cast<tile::AxisExtentOp>(op)) {
    values[extent.getResult()] = extentOf(extent.getAxis());
    return;
  }
  if (isa<BlockIdOp, GridSizeOp>(op)) {
    values[op->getResult(0)] = bitPattern({isa<BlockIdOp>(op) ? "blockIdx.x" : "gridDim.x"});
    return;
  }
  if (std::optional<Expr> expr = expression(op)) {
    if (error)
      return;
    if (isa<ThreadIdOp>(op)) {
      std::string name = nameFor(op, "thread");
      statement(op, "const int " + name + " = threadIdx.x" + (firstThread ? " - " + std::to_string(firstThread) : "") +
                        ";");
      values[op->getResult(0)] = natural({name});
    } else if (expr->text.size() <= longest && canInline(op)) {
      values[op->getResult(0)] = *expr;
    } else {
      declare(op->getOpResult(0), *expr);
    }
    return;
  }
  printStatement(op);
}

void KernelPrinter::printStatement(Operation *op) {
  if (printMemory(op) || printCopy(op) || printBox(op) || printRing(op) || printExchange(op) || printFragment(op) ||
      printControl(op) || printWork(op))
    return;
  if (auto philox = dyn_cast<PhiloxOp>(op))
    return printPhilox(philox);
  if (isa<tile::TileDialect>(op->getDialect()) || isa<SlotOp, CopyTileOp, StoreTileOp, WriteTileOp, CopyWindowOp>(op))
    return fail(op, "is not expanded; run the scheduling passes to their end before printing");
  if (isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
      if (valueName(type).empty())
        return fail(op, "on " + text(type) + " has no printed form; use f32, i32, i64 or i1");
  fail(op, "has no printed form in CUDA; lower it to arith, math, scf and sched ops");
}

} // namespace attune::codegen::cuda
