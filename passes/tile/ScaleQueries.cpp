//===- ScaleQueries.cpp - Scale Q by a power of two, so that biases are divided by at least 1 ---===//
//
//     before                                     after, a = 2^e * a', 1 <= a' < 2
//     --------------------------------------     -------------------------------------------
//     q = load Q                                 q = scale (load Q) exponent e
//     s = mma q, k                               s = mma q, k
//     x = map(s) { s * a + t }                   x = map(s) { s * 2^-e * a + t }
//
// FoldFactors adds a bias t from shared memory to the unscaled product, where the addition is free (AccumulateBias).
// For that, t is divided by the score's factor. Division by a factor below 1 would make large finite biases infinite,
// such as the least finite float that masks keys. Therefore the power of two of the factor is applied to Q, once per
// tile of queries. The remaining factor is 1 or more; where the remaining factor is 1, as at D 64, no division is
// needed.
//
// The pass applies to bf16 only, whose exponent range suffices: only subnormal products, below 2^-126, become inexact.
// f16 lacks the range and keeps the formula.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/dataflow/Constants.h"
#include "passes/analysis/score/Distances.h"

#include <cmath>

namespace attune {
#define GEN_PASS_DEF_SCALEQUERIES
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

/// The factor by which `op` multiplies `value`, where the factor is a constant.
std::optional<float> factorOn(Operation *op, Value value) {
  if (auto division = dyn_cast<arith::DivFOp>(op))
    if (std::optional<float> divisor = constantFloat(division.getRhs()); divisor && division.getLhs() == value)
      return 1 / *divisor;
  auto [other, factor] = isa<arith::MulFOp>(op) ? splitFactor(op->getResult(0)) : std::pair<Value, float>();
  return other == value ? std::optional(factor) : std::nullopt;
}

/// The constant factor of `element`, if the map adds a bias in shared memory to factor * `element` (and perhaps to
/// other terms), and computes nothing else from `element`.
std::optional<float> factorOfBiasedScore(tile::MapOp map, Value element) {
  float factor = 1;
  bool isSum = false;
  for (Value value = element; value.hasOneUse();) {
    Operation *user = *value.getUsers().begin();
    if (auto sum = dyn_cast<arith::AddFOp>(user)) {
      isSum = true;
      if (isStaged(sum.getLhs() == value ? sum.getRhs() : sum.getLhs(), map))
        return factor;
    } else if (std::optional<float> by = factorOn(user, value); by && !isSum) {
      factor *= *by;
    } else {
      return std::nullopt;
    }
    value = user->getResult(0);
  }
  return std::nullopt;
}

struct ScaleQueries : attune::impl::ScaleQueriesBase<ScaleQueries> {
  using ScaleQueriesBase::ScaleQueriesBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::hasAsyncProducts(kernel) || !kernel.getDtype().isBF16() || kernel.getPrecise())
        continue;
      SmallVector<tile::MapOp> maps;
      kernel.walk([&](tile::MapOp map) { maps.push_back(map); });
      for (tile::MapOp map : maps)
        scaleQueries(map);
    }
  }

  static void scaleQueries(tile::MapOp map) {
    auto product = map.getInputs().empty() ? nullptr : map.getInputs().front().getDefiningOp<tile::MmaOp>();
    auto queries = product && !product.getAcc() && product.getResult().hasOneUse()
                       ? product.getLhs().getDefiningOp<tile::LoadOp>()
                       : nullptr;
    // A tile of queries that is loaded anew for each tile of keys is not scaled: the scaling would be repeated for each
    // tile of keys.
    if (!queries || !queries.getResult().hasOneUse() || !map.isWhole() || queries->getBlock() == map->getBlock())
      return;
    BlockArgument element = map.getElement(0);
    std::optional<float> factor = factorOfBiasedScore(map, element);
    if (!factor || !(*factor < 1) || *factor < 0x1p-60f)
      return;
    const int exponent = std::ilogb(*factor);
    OpBuilder builder(queries);
    builder.setInsertionPointAfter(queries);
    auto scaled = tile::ScaleOp::create(builder, queries.getLoc(), queries.getType(), queries, exponent);
    tile::named(scaled.getResult(), tile::nameOf(queries.getResult()));
    tile::explain(scaled, "a power of two of the score's factor, so that a bias is divided by 1 or more");
    product.getLhsMutable().assign(scaled);
    builder.setInsertionPointToStart(&map.getBody().front());
    Value back = arith::ConstantOp::create(builder, map.getLoc(), builder.getF32FloatAttr(std::ldexp(1.0f, -exponent)));
    auto unscaled = arith::MulFOp::create(builder, map.getLoc(), element, back);
    element.replaceAllUsesExcept(unscaled, unscaled);
  }
};

} // namespace
