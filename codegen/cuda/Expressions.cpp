//===- Expressions.cpp - Print scalar ops, inlined into their users or as constants ===//

#include "codegen/cuda/KernelPrinter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

Expr KernelPrinter::value(Value value) {
  auto it = values.find(value);
  if (it != values.end())
    return it->second;
  if (!error) {
    Operation *op = value.getDefiningOp() ? value.getDefiningOp() : value.getParentBlock()->getParentOp();
    fail(op, "gives a value that its user cannot take");
  }
  return {"0"};
}

/// Prints `const T name = expr;` and uses `name` for `result` from then on.
void KernelPrinter::declare(OpResult result, const Expr &expr) {
  Operation *op = result.getOwner();
  StringRef type = valueName(result.getType());
  if (type.empty())
    return fail(op, "gives " + text(result.getType()) + ", which has no printed form; lower it to f32, i32, i64 or i1");
  if (expr.isUnsigned)
    type = "unsigned";
  StringRef fallback = llvm::StringSwitch<StringRef>(type)
                           .Case("float", "term")
                           .Case("bool", "condition")
                           .Case("unsigned", "word")
                           .Case("long long", "number64")
                           .Default("number");
  const std::string derived = op->hasAttr(tile::nameAttr) ? "" : derivedName(op, /*depth=*/2);
  std::string name = nameFor(op, derived.empty() ? fallback : StringRef(derived));
  statement(op, "const " + type + " " + name + " = " + expr.text + ";");
  values[result] = {name, Primary, expr.isUnsigned, expr.isNatural};
}

bool KernelPrinter::hasManyTerms(Block *block) {
  constexpr int fewTerms = 24;
  auto [known, isNew] = manyTerms.try_emplace(block, false);
  if (isNew)
    known->second = llvm::count_if(*block, [](Operation &op) {
                      return isa<arith::AndIOp, arith::OrIOp>(op) && op.getResult(0).getType().isInteger(1);
                    }) > fewTerms;
  return known->second;
}

std::optional<Expr> KernelPrinter::expression(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
      .Case([&](ThreadIdOp) { return castTo("int", {"threadIdx.x"}); })
      .Case([&](LaneIdOp) { return natural(castTo("int", {"threadIdx.x % 32", Product})); })
      .Case([&](NonnegativeOp o) { return natural(integer(o.getValue())); })
      .Case([&](GetOp get) {
        Expr expr{element(get.getBuffer(), get.getIndices())};
        auto type = cast<TileType>(get.getBuffer().getType());
        FragmentRole role = cast<FragmentAttr>(type.getLayout()).getRole();
        expr.isUnsigned =
            get.getResult().getType().isInteger(32) && (role == FragmentRole::A || role == FragmentRole::B);
        return expr;
      })
      .Case([&](ExtentOp o) { return natural(primitive("extent", {{views[o.getView()].extents[o.getDim()]}})); })
      .Case([&](UnpackOp o) {
        return primitive(o.getType().isBF16() ? "unpack_bf16" : "unpack_f16",
                         {integer(o.getPair()), value(o.getIndex())});
      })
      .Case([&](tile::MulFiniteOp o) { return call("__fmul_rz", {value(o.getLhs()), value(o.getRhs())}); })
      .Case([&](AfterOp o) { return primitive("after", {value(o.getValue()), value(o.getFirst())}); })
      .Case([&](ColumnsBelowOp o) { return primitive("columns_below", {value(o.getBound())}); })
      .Case([&](TestBitOp o) { return primitive("test_bit", {value(o.getWord()), value(o.getIndex())}); })
      .Case([&](IsNullOp null) { return infix({views[null.getView()].root}, "==", {"nullptr"}, Equality); })
      .Case([&](PackOp pack) -> std::optional<Expr> {
        if (!pack.getType().isBF16() && !pack.getType().isF16())
          return fail(op, "of type " + text(pack.getType()) + " has no printed form; use bf16 or f16"), Expr{"0"};
        StringRef name = pack.getType().isBF16() ? pack.getRelu() ? "pack_relu_bf16" : "pack_bf16"
                         : pack.getRelu()        ? "pack_relu_f16"
                                                 : "pack_f16";
        Expr expr = primitive(name, {value(pack.getLow()), value(pack.getHigh())});
        expr.isUnsigned = true;
        return expr;
      })
      .Default([&](Operation *) -> std::optional<Expr> {
        for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
          if (valueName(type).empty())
            return std::nullopt;
        return arithmetic(op);
      });
}

/// Whether an op prints as an expression, which may be inlined into its user, and not as a statement.
static bool isExpression(Operation *op) {
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
         isa<tile::MulFiniteOp, NonnegativeOp, LaneIdOp, GetOp, IsNullOp, PackOp, UnpackOp, AfterOp, ColumnsBelowOp,
             TestBitOp, ExtentOp>(op);
}

bool KernelPrinter::canInline(Operation *op) {
  Value result = op->getResult(0);
  if (!result.hasOneUse() || op->hasAttr(tile::nameAttr) || op->hasAttr(tile::commentAttr))
    return false;
  Operation *user = *result.getUsers().begin();
  if (user->getBlock() != op->getBlock() || isa<scf::ForOp, ForTilesOp>(user))
    return false; // do not inline into another IR block or into a loop's bound, which C++ evaluates in each iteration
  if (!isa<GetOp>(op))
    return true;
  // An inlined sched.get reads its register in the statement that the expression ends up in. No op between the
  // sched.get and that statement may write to registers or memory.
  while (isExpression(user) && user->getNumResults() == 1 && user->getResult(0).hasOneUse() &&
         (*user->getResult(0).getUsers().begin())->getBlock() == op->getBlock() &&
         !isa<scf::ForOp, ForTilesOp>(*user->getResult(0).getUsers().begin()) && !user->hasAttr(tile::nameAttr) &&
         !user->hasAttr(tile::commentAttr))
    user = *user->getResult(0).getUsers().begin();
  return writesBefore[op] == writesBefore[user];
}

void KernelPrinter::printPhilox(PhiloxOp op) {
  std::string name = nameFor(op, "random");
  SmallVector<Expr> arguments;
  for (Value operand : op->getOperands())
    arguments.push_back(value(operand));
  statement(op, "const uint4 " + name + " = " + primitive("philox", arguments).text + ";");
  for (auto [result, part] : llvm::zip(op->getResults(), StringRef("xyzw")))
    values[result] = {name + "." + part, Primary, true};
}

} // namespace attune::codegen::cuda
