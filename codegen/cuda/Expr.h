//===- Expr.h - Text of C++ expressions, with operator precedence ---------===//
//
//     infix({"a"}, "*", infix({"b"}, "+", {"c"}, Sum), Product)    a * (b + c)
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace attune::codegen::cuda {

/// Precedence of C++ operators, weakest first.
enum Level { Conditional = 1, Or, And, BitOr, BitXor, BitAnd, Equality, Relation, Shift, Sum, Product, Unary, Primary };

/// The text of a value. An i32 value is an `int`, or an `unsigned` where the value is a bit pattern (`isUnsigned`).
/// `isNatural` says that the value is known not to be negative; unsigned operations on such values print as signed.
struct Expr {
  std::string text;
  Level level = Primary;
  bool isUnsigned = false;
  bool isNatural = false;
};

/// The text of `expr` as an operand, in parentheses if the precedence of `expr` is below `level`.
std::string at(const Expr &expr, Level level);

/// Whether `expr` is a nonnegative integer literal.
bool isNumber(const Expr &expr);

/// `(type)expr`
Expr castTo(llvm::StringRef type, const Expr &expr);

/// `expr`, marked as known not to be negative if `is` holds and `expr` is not `unsigned`.
Expr natural(Expr expr, bool is = true);

/// `expr`, marked as having the C++ type `unsigned`.
Expr bitPattern(Expr expr);

/// `expr` as an `int`, cast if it is `unsigned`.
Expr asSigned(const Expr &expr);

/// `expr` as an `unsigned`, or as an `unsigned long long` if `wide`.
Expr asUnsigned(const Expr &expr, bool wide = false);

/// `a op b`, with parentheses around operands where C++ needs them: around an operand of lower precedence, and around a
/// right operand of the same precedence. An operand of a shift, a bitwise operator or `||` that is itself a binary
/// operation always gets parentheses, for readability.
Expr infix(const Expr &a, llvm::StringRef op, const Expr &b, Level level);

/// `sign x`, with parentheses around an `x` that begins with a minus.
Expr unary(llvm::StringRef sign, const Expr &x);

/// `function(arguments...)`
Expr call(const llvm::Twine &function, llvm::ArrayRef<Expr> arguments);

/// The shortest decimal text that reads back as the same float.
std::string printFloat(float value);

} // namespace attune::codegen::cuda
