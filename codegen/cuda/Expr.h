//===- Expr.h - Expressions of CUDA C++ as text with a binding strength ---===//
//
//     infix({"a"}, "*", infix({"b"}, "+", {"c"}, Sum), Product)    a * (b + c)
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace attune::codegen::cuda {

/// Binding strength of C++ operators.
enum Level { Conditional = 1, Or, And, BitOr, BitXor, BitAnd, Equality, Relation, Shift, Sum, Product, Unary, Primary };

/// A printed value. i32 values are `int`, or `unsigned` where they are bit patterns. Of a natural one it is known that
/// it is not negative: unsigned operations on it print as signed ones.
struct Expr {
  std::string text;
  Level level = Primary;
  bool isUnsigned = false;
  bool isNatural = false;
};

/// `expr` as an operand that needs at least the given binding strength.
std::string at(const Expr &expr, Level level);

/// Whether `expr` is a literal that is not negative.
bool isNumber(const Expr &expr);

/// `(type)expr`
Expr castTo(llvm::StringRef type, const Expr &expr);

/// `expr`, of which it is known that it is not negative, if `is` and it is no bit pattern.
Expr natural(Expr expr, bool is = true);

/// `expr`, which is of type `unsigned` in C++.
Expr bitPattern(Expr expr);

/// `expr` as an `int`.
Expr asSigned(const Expr &expr);

/// `expr` as a bit pattern, of 64 bits if `wide`.
Expr asUnsigned(const Expr &expr, bool wide = false);

/// `a op b`; what binds equally strongly on the right gets parentheses.
Expr infix(const Expr &a, llvm::StringRef op, const Expr &b, Level level);

/// `sign x`, with parentheses where `x` starts with a sign of its own.
Expr unary(llvm::StringRef sign, const Expr &x);

/// `function(arguments...)`
Expr call(const llvm::Twine &function, llvm::ArrayRef<Expr> arguments);

/// Shortest digits that read back as the same float.
std::string printFloat(float value);

} // namespace attune::codegen::cuda
