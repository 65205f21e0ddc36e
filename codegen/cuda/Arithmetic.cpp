//===- Arithmetic.cpp - Print arith and math ops as C++ expressions -----------------===//

#include "codegen/cuda/KernelPrinter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attune::sched;
using llvm::Twine;

namespace attune::codegen::cuda {

Expr KernelPrinter::constant(arith::ConstantOp op) {
  Attribute attribute = op.getValue();
  if (auto number = dyn_cast<FloatAttr>(attribute); number && number.getType().isF32()) {
    APFloat f = number.getValue();
    if (f.isNaN()) {
      used.insert("not_a_number");
      return {"not_a_number"};
    }
    if (f.isInfinity()) {
      used.insert("infinity");
      return f.isNegative() ? Expr{"-infinity", Unary} : Expr{"infinity"};
    }
    return {printFloat(f.convertToFloat()), f.isNegative() ? Unary : Primary};
  }
  if (auto number = dyn_cast<IntegerAttr>(attribute)) {
    if (number.getType().isInteger(1))
      return {number.getValue().isZero() ? "false" : "true"};
    int64_t n = number.getInt();
    if (number.getType().isInteger(32))
      return n == INT32_MIN ? Expr{"-2147483647 - 1", Sum}
                            : natural({std::to_string(n), n < 0 ? Unary : Primary}, n >= 0);
    if (number.getType().isInteger(64))
      return n == INT64_MIN ? Expr{"-9223372036854775807ll - 1", Sum}
                            : natural({std::to_string(n) + "ll", n < 0 ? Unary : Primary}, n >= 0);
  }
  fail(op, "of type " + text(op.getType()) + " has no printed form; use f32, i32, i64 or i1");
  return {"0"};
}

Expr KernelPrinter::compare(arith::CmpIOp op) {
  using P = arith::CmpIPredicate;
  Expr a = value(op.getLhs()), b = value(op.getRhs());
  bool isBool = op.getLhs().getType().isInteger(1), isWide = op.getLhs().getType().isInteger(64);
  P predicate = op.getPredicate();
  bool isEquality = predicate == P::eq || predicate == P::ne;
  bool isUnsigned =
      llvm::is_contained({P::ult, P::ule, P::ugt, P::uge}, predicate) && (isBool || !a.isNatural || !b.isNatural);
  if (isBool && !isEquality && !isUnsigned)
    std::swap(a, b); // true is -1 as a signed i1, so the signed order is the reverse of C++'s order of bool
  else if (isUnsigned && !isBool)
    a = asUnsigned(a, isWide), b = asUnsigned(b, isWide);
  else if (isEquality && (a.isUnsigned || b.isUnsigned))
    a = asUnsigned(a), b = asUnsigned(b);
  else if (!isBool)
    a = asSigned(a), b = asSigned(b);
  StringRef sign = predicate == P::eq                           ? "=="
                   : predicate == P::ne                         ? "!="
                   : predicate == P::slt || predicate == P::ult ? "<"
                   : predicate == P::sle || predicate == P::ule ? "<="
                   : predicate == P::sgt || predicate == P::ugt ? ">"
                                                                : ">=";
  return infix(a, sign, b, isEquality ? Equality : Relation);
}

/// An ordered comparison prints as the C++ operator. An unordered comparison, which is true where an operand is NaN,
/// prints as the negation of the opposite operator: `ult` is `!(a >= b)`.
Expr KernelPrinter::compare(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  Expr a = value(op.getLhs()), b = value(op.getRhs());
  auto plain = [&](StringRef sign) { return infix(a, sign, b, sign == "==" || sign == "!=" ? Equality : Relation); };
  auto negated = [&](StringRef sign) -> Expr { return {"!(" + plain(sign).text + ")", Unary}; };
  auto both = [&](const Expr &x, StringRef sign, const Expr &y) { return infix(x, sign, y, sign == "&&" ? And : Or); };
  Expr isNanA = infix(a, "!=", a, Equality), isNanB = infix(b, "!=", b, Equality);
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return {"false"};
  case P::AlwaysTrue:
    return {"true"};
  case P::OEQ:
    return plain("==");
  case P::OGT:
    return plain(">");
  case P::OGE:
    return plain(">=");
  case P::OLT:
    return plain("<");
  case P::OLE:
    return plain("<=");
  case P::UNE:
    return plain("!=");
  case P::ULE:
    return negated(">");
  case P::ULT:
    return negated(">=");
  case P::UGE:
    return negated("<");
  case P::UGT:
    return negated("<=");
  case P::ONE:
    return both(plain("<"), "||", plain(">"));
  case P::UEQ: {
    Expr different = both(plain("<"), "||", plain(">"));
    return {"!(" + different.text + ")", Unary};
  }
  case P::UNO:
    return both(isNanA, "||", isNanB);
  case P::ORD: {
    Expr unordered = both(isNanA, "||", isNanB);
    return {"!(" + unordered.text + ")", Unary};
  }
  }
  llvm_unreachable("unknown predicate");
}

/// Prints an integer addition, subtraction or multiplication. With the flag `nsw` (no signed overflow) the op is signed
/// C++ arithmetic; otherwise the op is computed modulo 2^n, on unsigned operands or by a call of the function
/// `wrapping`. On i1, `*` is `&&`, and `+` and `-` are `!=`.
Expr KernelPrinter::overflowing(Operation *op, StringRef sign, Level level, StringRef wrapping) {
  Expr a = value(op->getOperand(0)), b = value(op->getOperand(1));
  if (op->getResult(0).getType().isInteger(1))
    return sign == "*" ? infix(a, "&&", b, And) : infix(a, "!=", b, Equality);
  const bool isWrapping = !cast<arith::ArithIntegerOverflowFlagsInterface>(op).hasNoSignedWrap();
  if ((a.isUnsigned && b.isUnsigned) || (isWrapping && (a.isUnsigned || b.isUnsigned))) {
    a = asUnsigned(a), b = asUnsigned(b);
    Expr result = infix(a, sign, b, level);
    result.isUnsigned = true;
    return result;
  }
  a = asSigned(a), b = asSigned(b);
  if (!isWrapping)
    return natural(infix(a, sign, b, level), sign != "-" && a.isNatural && b.isNatural);
  return primitive(wrapping, {a, b});
}

/// Prints a bitwise op. On i1 the op prints as the operator `logical` (`&&`, `||`, `!=`), unless the IR block has many
/// conditions (hasManyTerms).
Expr KernelPrinter::bitwise(Operation *op, StringRef sign, Level level, StringRef logical, Level logicalLevel) {
  Expr a = value(op->getOperand(0)), b = value(op->getOperand(1));
  if (op->getResult(0).getType().isInteger(1))
    return hasManyTerms(op->getBlock()) ? infix(a, sign, b, level) : infix(a, logical, b, logicalLevel);
  bool isUnsigned = a.isUnsigned || b.isUnsigned;
  if (isUnsigned)
    for (Expr *expr : {&a, &b})
      if (expr->level == Unary || isNumber(*expr))
        *expr = asUnsigned(*expr);
  Expr result = infix(a, sign, b, level);
  result.isUnsigned = isUnsigned;
  return natural(result, sign == "&" ? a.isNatural || b.isNatural : a.isNatural && b.isNatural);
}

/// The result of an operation on unsigned operands: an i32 result stays `unsigned`, an i64 result is cast back to
/// `long long`.
static Expr fromUnsigned(bool isWide, Expr result) {
  if (isWide)
    return castTo("long long", result);
  result.isUnsigned = true;
  return result;
}

std::optional<Expr> KernelPrinter::integerArithmetic(Operation *op) {
  auto operand = [&](unsigned i) { return value(op->getOperand(i)); };
  const bool isWide = op->getResult(0).getType().isInteger(64);
  auto areNatural = [&] { return operand(0).isNatural && operand(1).isNatural; };
  auto integers = [&](StringRef sign, Level level) {
    return natural(infix(asSigned(operand(0)), sign, asSigned(operand(1)), level), areNatural());
  };
  auto bits = [&](unsigned i) { return asUnsigned(operand(i), isWide); };
  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
      .Case([&](arith::AddIOp) { return overflowing(op, "+", Sum, "wrap_add"); })
      .Case([&](arith::SubIOp) { return overflowing(op, "-", Sum, "wrap_sub"); })
      .Case([&](arith::MulIOp) { return overflowing(op, "*", Product, "wrap_mul"); })
      .Case([&](arith::DivSIOp) { return integers("/", Product); })
      .Case([&](arith::RemSIOp) { return integers("%", Product); })
      .Case([&](arith::DivUIOp) {
        return areNatural() ? integers("/", Product) : fromUnsigned(isWide, infix(bits(0), "/", bits(1), Product));
      })
      .Case([&](arith::RemUIOp) {
        return areNatural() ? integers("%", Product) : fromUnsigned(isWide, infix(bits(0), "%", bits(1), Product));
      })
      .Case([&](arith::CeilDivUIOp) {
        Expr more = bits(0), by = bits(1), less = infix(by, "-", {"1"}, Sum);
        StringRef digits = by.text;
        if (uint64_t number; digits.consume_back("u") && !digits.getAsInteger(10, number))
          less = {std::to_string(number - 1) + "u"};
        return fromUnsigned(isWide, infix({"(" + infix(more, "+", less, Sum).text + ")"}, "/", by, Product));
      })
      .Case([&](arith::FloorDivSIOp) { return primitive("floor_div", {asSigned(operand(0)), asSigned(operand(1))}); })
      .Case([&](arith::CeilDivSIOp) { return primitive("ceil_div", {asSigned(operand(0)), asSigned(operand(1))}); })
      .Case([&](arith::MinSIOp) {
        return natural(call("min", {asSigned(operand(0)), asSigned(operand(1))}), areNatural());
      })
      .Case([&](arith::MaxSIOp) {
        return natural(call("max", {asSigned(operand(0)), asSigned(operand(1))}),
                       operand(0).isNatural || operand(1).isNatural);
      })
      .Case([&](arith::MinUIOp) { return fromUnsigned(isWide, call("min", {bits(0), bits(1)})); })
      .Case([&](arith::MaxUIOp) { return fromUnsigned(isWide, call("max", {bits(0), bits(1)})); })
      .Case([&](math::CountTrailingZerosOp) -> std::optional<Expr> {
        if (isWide)
          return std::nullopt;
        return natural(primitive("trailing_zeros", {bits(0)}));
      })
      .Case([&](math::AbsIOp) { return primitive("wrap_abs", {asSigned(operand(0))}); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Expr> KernelPrinter::bitArithmetic(Operation *op) {
  auto operand = [&](unsigned i) { return value(op->getOperand(i)); };
  const bool isBool = op->getResult(0).getType().isInteger(1), isWide = op->getResult(0).getType().isInteger(64);
  auto bits = [&](unsigned i) { return asUnsigned(operand(i), isWide); };
  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
      .Case([&](arith::AndIOp) { return bitwise(op, "&", BitAnd, "&&", And); })
      .Case([&](arith::OrIOp) { return bitwise(op, "|", BitOr, "||", Or); })
      .Case([&](arith::XOrIOp) -> std::optional<Expr> {
        if (isBool && operand(1).text == "true")
          return unary("!", operand(0));
        if (APInt mask; matchPattern(op->getOperand(1), m_ConstantInt(&mask)) && mask.isAllOnes())
          return unary("~", operand(0));
        return bitwise(op, "^", BitXor, "!=", Equality);
      })
      .Case([&](arith::ShLIOp o) {
        if (bitEnumContainsAny(o.getOverflowFlags(), arith::IntegerOverflowFlags::nsw) && operand(0).isNatural)
          return natural(infix(operand(0), "<<", operand(1), Shift));
        return fromUnsigned(isWide, infix(bits(0), "<<", operand(1), Shift));
      })
      .Case([&](arith::ShRUIOp) {
        if (operand(0).isNatural)
          return natural(infix(operand(0), ">>", operand(1), Shift));
        return fromUnsigned(isWide, infix(bits(0), ">>", operand(1), Shift));
      })
      .Case([&](arith::ShRSIOp) {
        return natural(infix(asSigned(operand(0)), ">>", operand(1), Shift), operand(0).isNatural);
      })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Expr> KernelPrinter::choice(Operation *op) {
  auto operand = [&](unsigned i) { return value(op->getOperand(i)); };
  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
      .Case([&](arith::CmpIOp o) { return compare(o); })
      .Case([&](arith::CmpFOp o) { return compare(o); })
      .Case([&](arith::SelectOp) {
        Expr a = operand(1), b = operand(2);
        if (a.isUnsigned != b.isUnsigned)
          a = asSigned(a), b = asSigned(b);
        Expr result{at(operand(0), Or) + " ? " + at(a, Or) + " : " + at(b, Or), Conditional};
        result.isUnsigned = a.isUnsigned;
        return natural(result, a.isNatural && b.isNatural);
      })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Expr> KernelPrinter::conversion(Operation *op) {
  auto operand = [&](unsigned i) { return value(op->getOperand(i)); };
  Type type = op->getResult(0).getType();
  const bool isBool = type.isInteger(1), isWide = type.isInteger(64);
  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
      .Case([&](arith::ExtSIOp) -> std::optional<Expr> {
        if (op->getOperand(0).getType().isInteger(1))
          return unary("-", castTo(valueName(type), operand(0)));
        return castTo(valueName(type), asSigned(operand(0)));
      })
      .Case([&](arith::ExtUIOp) -> std::optional<Expr> {
        if (op->getOperand(0).getType().isInteger(1) || operand(0).isNatural)
          return natural(castTo(valueName(type), operand(0)));
        return castTo(valueName(type), asUnsigned(operand(0)));
      })
      .Case([&](arith::TruncIOp) -> std::optional<Expr> {
        if (isBool)
          return infix({"(" + infix(operand(0), "&", {"1"}, BitAnd).text + ")"}, "!=", {"0"}, Equality);
        return castTo("int", operand(0));
      })
      .Case([&](arith::SIToFPOp) -> std::optional<Expr> {
        if (op->getOperand(0).getType().isInteger(1))
          return unary("-", castTo("float", operand(0)));
        return castTo("float", asSigned(operand(0)));
      })
      .Case([&](arith::UIToFPOp) -> std::optional<Expr> {
        Type from = op->getOperand(0).getType();
        return castTo("float", from.isInteger(1) ? operand(0) : asUnsigned(operand(0), from.isInteger(64)));
      })
      .Case([&](arith::FPToSIOp) { return primitive(isWide ? "float_to_int64" : "float_to_int", {operand(0)}); })
      .Case([&](arith::BitcastOp) -> std::optional<Expr> {
        Type from = op->getOperand(0).getType();
        if (from.isF32() && type.isInteger(32))
          return call("__float_as_int", {operand(0)});
        if (from.isInteger(32) && type.isF32())
          return operand(0).isUnsigned ? call("__uint_as_float", {operand(0)}) : call("__int_as_float", {operand(0)});
        return from == type ? std::optional(operand(0)) : std::nullopt;
      })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Expr> KernelPrinter::floatArithmetic(Operation *op) {
  auto operand = [&](unsigned i) { return value(op->getOperand(i)); };
  auto function = [&](StringRef name) -> Expr {
    SmallVector<Expr> arguments;
    for (Value value : op->getOperands())
      arguments.push_back(this->value(value));
    return call(name, arguments);
  };
  auto floats = [&](StringRef sign, Level level) { return infix(operand(0), sign, operand(1), level); };
  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
      .Case([&](arith::AddFOp) { return floats("+", Sum); })
      .Case([&](arith::SubFOp) { return floats("-", Sum); })
      .Case([&](arith::MulFOp) { return floats("*", Product); })
      .Case([&](arith::DivFOp) {
        return isPrecise ? floats("/", Product) : primitive("fast_divide", {operand(0), operand(1)});
      })
      .Case([&](arith::RemFOp) { return function("fmodf"); })
      .Case([&](arith::NegFOp) { return unary("-", operand(0)); })
      .Case([&](arith::MaximumFOp) { return primitive("max_nan", {operand(0), operand(1)}); })
      .Case([&](arith::MinimumFOp) { return primitive("min_nan", {operand(0), operand(1)}); })
      .Case([&](arith::MaxNumFOp) { return function("fmaxf"); })
      .Case([&](arith::MinNumFOp) { return function("fminf"); })
      .Case([&](math::FmaOp) { return function("fmaf"); })
      .Case([&](math::AbsFOp) { return function("fabsf"); })
      .Case([&](math::FloorOp) { return function("floorf"); })
      .Case([&](math::CeilOp) { return function("ceilf"); })
      .Case([&](math::TruncOp) { return function("truncf"); })
      .Case([&](math::RoundOp) { return function("roundf"); })
      .Case([&](math::RoundEvenOp) { return function("rintf"); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Expr> KernelPrinter::mathFunction(Operation *op) {
  SmallVector<Expr> operands;
  for (Value value : op->getOperands())
    operands.push_back(this->value(value));
  const bool isBF16 = kernel.getDtype().isBF16();
  // `quick` is the device function that approximates `name`. Where `quick` is empty, every kernel calls CUDA's precise
  // function: near the zeros of such a function, approximations bound the absolute error only, not the relative error.
  auto function = [&](StringRef name, StringRef quick) {
    return isPrecise || quick.empty() ? call(name, operands) : primitive(quick, {operands[0]});
  };
  return llvm::TypeSwitch<Operation *, std::optional<Expr>>(op)
#define ATTUNE_FUNCTION1(op, name, value, mlir, cuda, quick, ...) .Case([&](mlir) { return function(cuda, quick); })
#define ATTUNE_FUNCTION2(op, name, value, mlir, cuda, ...) .Case([&](mlir) { return function(cuda, ""); })
#include "attune/Functions.def"
      .Case([&](math::ExpM1Op) { return function("expm1f", ""); })
      .Case([&](math::Log10Op) { return function("log10f", ""); })
      .Default([](Operation *) { return std::nullopt; });
}

std::optional<Expr> KernelPrinter::arithmetic(Operation *op) {
  if (op->getNumResults() != 1)
    return std::nullopt;
  for (auto kind : {&KernelPrinter::integerArithmetic, &KernelPrinter::bitArithmetic, &KernelPrinter::choice,
                    &KernelPrinter::conversion, &KernelPrinter::floatArithmetic, &KernelPrinter::mathFunction})
    if (std::optional<Expr> expr = (this->*kind)(op))
      return expr;
  return std::nullopt;
}

} // namespace attune::codegen::cuda
