//===- FunctionGradients.h - Gradients of functions, written as formulas ---===//
//
// Emits the gradients of include/attune/Functions.def as MLIR ops: each operator and function on a Term creates one op.
//
//     const Term g{builder, loc, gradient}, x{builder, loc, operand}, r{builder, loc, result};
//     Term ofTanh = g * (1.0f - r * r);      // arith.mulf, arith.subf, arith.mulf
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"

#include "llvm/ADT/TypeSwitch.h"

#include <numbers>

namespace attune::gradient {

/// A value, with the builder and location for ops that use the value.
struct Term {
  mlir::OpBuilder *builder = nullptr;
  mlir::Location loc;
  mlir::Value value;

  template <typename Op, typename... Operands> Term make(Operands... operands) const {
    return {builder, loc, Op::create(*builder, loc, operands...)};
  }
  Term constant(float number) const { return make<mlir::arith::ConstantOp>(builder->getF32FloatAttr(number)); }
};

/// The gradient formula of an operand that receives no gradient.
struct NoGradient {};
inline constexpr NoGradient None;

inline constexpr float ln2 = std::numbers::ln2_v<float>;

inline Term operator*(Term a, Term b) { return a.make<mlir::arith::MulFOp>(a.value, b.value); }
inline Term operator/(Term a, Term b) { return a.make<mlir::arith::DivFOp>(a.value, b.value); }
inline Term operator+(Term a, Term b) { return a.make<mlir::arith::AddFOp>(a.value, b.value); }
inline Term operator-(Term a, Term b) { return a.make<mlir::arith::SubFOp>(a.value, b.value); }
inline Term operator-(Term a) { return a.make<mlir::arith::NegFOp>(a.value); }
inline Term operator*(Term a, float b) { return a * a.constant(b); }
inline Term operator+(float a, Term b) { return b.constant(a) + b; }
inline Term operator-(float a, Term b) { return b.constant(a) - b; }
inline Term operator-(Term a, float b) { return a - a.constant(b); }

inline Term compare(mlir::arith::CmpFPredicate predicate, Term a, float b) {
  return a.make<mlir::arith::CmpFOp>(predicate, a.value, a.constant(b).value);
}
inline Term operator==(Term a, float b) { return compare(mlir::arith::CmpFPredicate::OEQ, a, b); }
inline Term operator>=(Term a, float b) { return compare(mlir::arith::CmpFPredicate::OGE, a, b); }
inline Term operator&&(Term a, Term b) { return a.make<mlir::arith::AndIOp>(a.value, b.value); }
inline Term select(Term condition, float a, Term b) {
  return b.make<mlir::arith::SelectOp>(condition.value, b.constant(a).value, b.value);
}

inline Term sin(Term x) { return x.make<mlir::math::SinOp>(x.value); }
inline Term cos(Term x) { return x.make<mlir::math::CosOp>(x.value); }
inline Term exp(Term x) { return x.make<mlir::math::ExpOp>(x.value); }
inline Term log(Term x) { return x.make<mlir::math::LogOp>(x.value); }
inline Term pow(Term x, Term y) { return x.make<mlir::math::PowFOp>(x.value, y.value); }
inline Term copysign(float x, Term y) { return y.make<mlir::math::CopySignOp>(y.constant(x).value, y.value); }

/// Calls `add(operand, gradient)` for each operand of `op` that receives a gradient, where `g` is the gradient of the
/// result of `op`; calling `gradient` creates the ops. Returns false if `op` is not one of the functions in
/// Functions.def.
using AddGradient = llvm::function_ref<void(mlir::Value, llvm::function_ref<mlir::Value()>)>;
inline bool addGradients(mlir::Operation *op, Term g, AddGradient add) {
  namespace math = mlir::math;
  auto to = [&](mlir::Value operand, auto gradient) {
    if constexpr (std::is_same_v<decltype(gradient()), Term>)
      add(operand, [&] { return gradient().value; });
  };
  [[maybe_unused]] const Term r{g.builder, g.loc, op->getResult(0)};
  auto term = [&](unsigned i) { return Term{g.builder, g.loc, op->getOperand(i)}; };
  return llvm::TypeSwitch<mlir::Operation *, bool>(op)
#define ATTUNE_FUNCTION1(op, name, host, mlir, cuda, quick, costs, gradient, ...)                                      \
  .Case([&](mlir) {                                                                                                    \
    [[maybe_unused]] const Term x = term(0);                                                                           \
    to(x.value, [&] { return gradient; });                                                                             \
    return true;                                                                                                       \
  })
#define ATTUNE_FUNCTION2(op, name, host, mlir, cuda, costs, gradientOfX, gradientOfY, ...)                             \
  .Case([&](mlir) {                                                                                                    \
    [[maybe_unused]] const Term x = term(0), y = term(1);                                                              \
    to(x.value, [&] { return gradientOfX; });                                                                          \
    to(y.value, [&] { return gradientOfY; });                                                                          \
    return true;                                                                                                       \
  })
#include "attune/Functions.def"
      .Default(false);
}

} // namespace attune::gradient
