//===- Expr.cpp - Text of C++ expressions, with operator precedence -------===//

#include "codegen/cuda/Expr.h"

#include "llvm/ADT/StringExtras.h"

#include <charconv>

using llvm::ArrayRef, llvm::StringRef, llvm::Twine;

namespace attune::codegen::cuda {

std::string at(const Expr &expr, Level level) { return expr.level >= level ? expr.text : "(" + expr.text + ")"; }

bool isNumber(const Expr &expr) { return !expr.text.empty() && llvm::all_of(expr.text, llvm::isDigit); }

Expr castTo(StringRef type, const Expr &expr) { return {("(" + type + ")").str() + at(expr, Unary), Unary}; }

Expr natural(Expr expr, bool is) {
  expr.isNatural = is && !expr.isUnsigned;
  return expr;
}

Expr bitPattern(Expr expr) {
  expr.isUnsigned = true;
  expr.isNatural = false;
  return expr;
}

Expr asSigned(const Expr &expr) { return expr.isUnsigned ? castTo("int", expr) : expr; }

Expr asUnsigned(const Expr &expr, bool wide) {
  if (expr.isUnsigned)
    return expr;
  StringRef digits = expr.text;
  bool isNegative = digits.consume_front("-");
  int64_t number;
  bool isLiteral = !digits.getAsInteger(10, number); // false for an i64 literal, which ends in `ll`
  Expr result = !isLiteral   ? castTo(wide ? "unsigned long long" : "unsigned", expr)
                : isNegative ? Expr{"0x" + llvm::utohexstr(uint32_t(-number), true) + "u"}
                             : Expr{expr.text + "u"};
  result.isUnsigned = true;
  return result;
}

Expr infix(const Expr &a, StringRef op, const Expr &b, Level level) {
  bool bits = level == Shift || level == BitAnd || level == BitXor || level == BitOr;
  Level left = bits || level == Or ? Unary : level, right = bits || level == Or ? Unary : Level(level + 1);
  if (level == Equality || level == Relation)
    left = right = Sum;
  return {at(a, left) + " " + op.str() + " " + at(b, right), level};
}

Expr unary(StringRef sign, const Expr &x) {
  return {sign.str() + at(x, x.text.front() == '-' ? Primary : Unary), Unary};
}

Expr call(const Twine &function, ArrayRef<Expr> arguments) {
  std::string text = function.str() + "(";
  llvm::interleave(arguments, [&](const Expr &argument) { text += argument.text; }, [&] { text += ", "; });
  return {text + ")"};
}

std::string printFloat(float value) {
  char buffer[48];
  char *end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text + "f";
}

} // namespace attune::codegen::cuda
