//===- Fragments.cpp - Print register fragments and matrix instructions -----------===//

#include "codegen/cuda/KernelPrinter.h"

#include "codegen/cuda/Primitives.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

std::string KernelPrinter::element(Value buffer, ArrayRef<Expr> indices) {
  std::string text = buffers.lookup(buffer);
  if (text.empty())
    fail(buffer.getDefiningOp() ? buffer.getDefiningOp() : kernel, "is not a sched.registers buffer of this kernel");
  for (const Expr &index : indices)
    text += "[" + index.text + "]";
  return text;
}

std::string KernelPrinter::element(Value buffer, OperandRange indices) {
  SmallVector<Expr> exprs;
  for (Value index : indices)
    exprs.push_back(value(index));
  return element(buffer, exprs);
}

/// Prints `buffer[i] = value;`. Where the value is a sum or product of `buffer[i]` and another operand, prints
/// `buffer[i] += operand;` or `buffer[i] *= operand;`.
void KernelPrinter::printSet(SetOp op) {
  std::string target = element(op.getBuffer(), op.getIndices());
  Expr what = value(op.getValue());
  StringRef sign = "=";
  std::string text = what.text;
  if (Operation *term = op.getValue().getDefiningOp(); term && isa<arith::AddFOp, arith::MulFOp>(term))
    for (StringRef both : {" + ", " * "})
      if (StringRef(text).starts_with(target + both.str()) && both == (isa<arith::AddFOp>(term) ? " + " : " * ")) {
        Expr rest = value(term->getOperand(1));
        if (value(term->getOperand(0)).text == target) {
          sign = both == " + " ? "+=" : "*=";
          text = rest.text;
        }
        break;
      }
  statement(op, target + " " + sign + " " + text + ";");
}

void KernelPrinter::printLoadMatrix(LoadMatrixOp op) {
  auto type = cast<TileType>(op.getFragment().getType());
  auto fragment = dyn_cast_or_null<FragmentAttr>(type.getLayout());
  if (!fragment || arrayElement(type) != "unsigned")
    return fail(op, "needs a fragment of 16-bit elements, got " + describe(type));
  SmallVector<int64_t> shape = fragment.laneShape(type);
  SmallVector<Expr> arguments;
  Expr i = integer(op.getI()), j = integer(op.getJ());
  auto next = [](const Expr &index, int64_t by) -> Expr {
    if (isNumber(index))
      return {std::to_string(std::stoll(index.text) + by)};
    return by ? infix(index, "+", {std::to_string(by)}, Sum) : index;
  };
  // The four registers of ldmatrix go to the lane's array from [i][j][0] on: the last index varies fastest, then j,
  // or i where the array has extent 1 along j.
  for (int64_t r = 0; r < 4; ++r) {
    int64_t step = r / shape[2];
    SmallVector<Expr> indices = {
        next(i, shape[1] == 1 ? step : 0), next(j, shape[1] == 1 ? 0 : step), {std::to_string(r % shape[2])}};
    for (int64_t axis : {0, 1})
      if (isNumber(indices[axis]) && std::stoll(indices[axis].text) >= shape[axis])
        return fail(op, "writes past the lane's array " + arrayShape(type) + " from [" + i.text + "][" + j.text + "]");
    arguments.push_back({element(op.getFragment(), indices)});
  }
  arguments.push_back(steppedAddress(op));
  statement(op, primitive(op.getTranspose() ? "load_matrix_transposed" : "load_matrix", arguments).text + ";");
}

void KernelPrinter::printMma(MmaOp op) {
  Type type = op.getA().getType().getElementType();
  StringRef name = type.isBF16() ? "mma_bf16" : type.isF16() ? "mma_f16" : type.isInteger(32) ? "mma_tf32" : "";
  if (name.empty())
    return fail(op,
                "on " + text(type) + " has no printed form; use bf16, f16, or i32 that hold tf32 (sched.split_tf32)");
  statement(op, primitive(name, {{element(op.getAcc(), {value(op.getI()), value(op.getJ())})},
                                 {element(op.getA(), {value(op.getAi()), value(op.getAj())})},
                                 {element(op.getB(), {value(op.getBi()), value(op.getBj())})}})
                        .text +
                    ";");
}

Expr KernelPrinter::matrixDescriptor(Operation *op, Value shared, Value stage, Value row, Value column,
                                     bool transpose) {
  auto type = cast<TileType>(shared.getType());
  int64_t panel = cast<SwizzleAttr>(type.getLayout()).getPanel();
  // With `transpose` the tile's rows are the contracted axis (MN-major), and the leading byte offset is the distance
  // from one panel of columns to the next. K-major swizzled layouts do not use the leading byte offset.
  int64_t leading = transpose ? type.getShape()[1] * panel : 16;
  SharedPlace place = sharedPlace(op, shared, stage, row, column);
  return primitive("matrix_descriptor", "<" + Twine(panel) + ", " + Twine(leading) + ", " + Twine(8 * panel) + ">",
                   {place.base, place.offset});
}

void KernelPrinter::printMmaAsync(MmaAsyncOp op) {
  TileType acc = op.getAcc().getType(), a = op.getA().getType();
  bool leftShared = a.getSpace() == tile::MemorySpace::Shared;
  SmallVector<Value> at(op.getAIndices());
  Expr left = leftShared ? matrixDescriptor(op, op.getA(), at[0], at[1], at[2], op.getTransposeLeft())
                         : Expr{element(op.getA(), {value(at[0]), value(at[1])})};
  Expr right = matrixDescriptor(op, op.getB(), op.getStage(), op.getRow(), op.getColumn(), op.getTranspose());
  const auto kind = !leftShared             ? codegen::LeftOperand::Registers
                    : op.getTransposeLeft() ? codegen::LeftOperand::SharedColumns
                                            : codegen::LeftOperand::Shared;
  const int64_t columns = acc.getShape()[1] / cast<sched::FragmentAttr>(acc.getLayout()).getColumnWarps();
  std::string name = codegen::mmaAsyncName(elementName(a.getElementType()), int(columns), kind);
  statement(op, primitive(name, op.getTranspose() ? "<1>" : "<0>",
                          {{element(op.getAcc(), ArrayRef<Expr>{{"0"}})}, left, right, value(op.getAccumulate())})
                        .text +
                    ";");
}

bool KernelPrinter::printFragment(Operation *op) {
  bool isKnown = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](RegistersOp o) {
        TileType type = o.getResult().getType();
        StringRef element = arrayElement(type);
        if (element.empty())
          return fail(op, "of " + describe(type) + " has no printed form; use f32, or 16 bits in a fragment a or b");
        if (!inFunction && functionWithBuffer(o))
          return; // the device function declares the buffer
        std::string name = names.take(o.getName());
        buffers[o.getResult()] = name;
        statement(op, element + " " + name + arrayShape(type) + ";  // " + describe(type));
      })
      .Case([&](SetOp o) { printSet(o); })
      .Case([&](LoadMatrixOp o) { printLoadMatrix(o); })
      .Case([&](StoreMatrixOp o) {
        SmallVector<Expr> arguments{steppedAddress(o)};
        for (Value matrix : {o.getFirst(), o.getSecond(), o.getThird(), o.getFourth()})
          arguments.push_back(asUnsigned(value(matrix)));
        statement(op, primitive(o.getTranspose() ? "store_matrix_transposed" : "store_matrix", arguments).text + ";");
      })
      .Case([&](SplitTf32Op o) {
        std::string big = nameFor(op, 0, "big"), small = nameFor(op, 1, "small");
        statement(op, "unsigned " + big + ", " + small + ";");
        statement(op, primitive("split_tf32", {value(o.getValue()), {big}, {small}}).text + ";");
        values[o.getBig()] = {big, Primary, true};
        values[o.getSmall()] = {small, Primary, true};
      })
      .Case([&](MmaOp o) { printMma(o); })
      .Case([&](MmaAsyncOp o) { printMmaAsync(o); })
      .Case([&](MmaFenceOp) { statement(op, primitive("mma_fence", {}).text + ";"); })
      .Case([&](MmaCommitOp) { statement(op, primitive("mma_commit", {}).text + ";"); })
      .Case([&](MmaWaitOp o) {
        SmallVector<Expr> complete;
        for (Value tile : o.getCompletes())
          complete.push_back({element(tile, ArrayRef<Expr>{{"0"}})});
        statement(op, primitive("mma_wait", "<" + Twine(o.getPending()) + ">", complete).text + ";");
      })
      .Default([&](Operation *) { isKnown = false; });
  return isKnown;
}

} // namespace attune::codegen::cuda
