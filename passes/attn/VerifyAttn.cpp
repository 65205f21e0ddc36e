//===- VerifyAttn.cpp - Checks across attn ops, after all passes on the attn dialect ---===//
//
// Checks that regions hold only ops that every target supports, and that no captured tensor or scalar is declared
// twice.
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

#include "ir/attn/Attn.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSet.h"

namespace attune {
#define GEN_PASS_DEF_VERIFYATTN
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

LogicalResult verifyNames(attn::AttentionOp op) {
  llvm::StringSet<> names;
  auto declare = [&](StringRef kind, StringRef name) -> LogicalResult {
    if (!names.insert(name).second)
      return op.emitOpError() << kind << " '" << name << "' is declared twice";
    return success();
  };
  for (auto tensor : op.getTensors().getAsRange<attn::CapturedTensorAttr>())
    if (failed(declare("captured tensor", tensor.getName())))
      return failure();
  for (auto scalar : op.getScalars().getAsRange<attn::RuntimeScalarAttr>())
    if (failed(declare("run-time scalar", scalar.getName())))
      return failure();
  llvm::StringSet<> statistics;
  for (auto statistic : op.getStatistics().getAsRange<attn::RowStatisticAttr>())
    if (!statistics.insert(statistic.getName()).second)
      return op.emitOpError() << "row statistic '" << statistic.getName().getValue() << "' is declared twice";
  return success();
}

LogicalResult verifyScalarOp(Operation *op) {
  bool known =
      isa<attn::LoadOp, attn::SearchOp, attn::ScalarOp, attn::ExtentOp, attn::AddGradientOp, attn::YieldOp>(op) ||
      isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
  if (!known)
    return op->emitOpError(
        "is not known in a score or mask; use arith, math, attn.load, attn.search, attn.scalar and attn.extent");
  for (Type type : op->getResultTypes())
    if (!type.isF32() && !type.isInteger(1) && !type.isInteger(32) && !type.isInteger(64))
      return op->emitOpError() << "gives " << type << "; scores and masks compute with f32, i32, i64 and i1";
  return success();
}

struct VerifyAttn : attune::impl::VerifyAttnBase<VerifyAttn> {
  using VerifyAttnBase::VerifyAttnBase;

  void runOnOperation() override {
    for (Operation &op : getOperation().getOps()) {
      auto attention = dyn_cast<attn::AttentionOp>(op);
      if (!attention) {
        op.emitOpError("is not known here; at attn a module holds attn.attention ops only");
        return signalPassFailure();
      }
      bool good = succeeded(verifyNames(attention));
      for (Region &region : attention->getRegions())
        for (Operation &inner : region.getOps())
          good = good && succeeded(verifyScalarOp(&inner));
      if (!good)
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace
