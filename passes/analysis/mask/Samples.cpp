//===- Samples.cpp - Samples a condition of a mask in a few tiles ---------===//

#include "passes/analysis/mask/Visibility.h"

#include <random>

using namespace mlir;
using namespace attune;
using namespace attune::mask;

namespace {

/// Constant-folds values of the mask region for one element (q, k).
class Element {
public:
  /// `left` is the number of values that may still be computed; each computed value decrements it.
  Element(Region &region, int64_t q, int64_t k, int64_t &left) : left(left) {
    const Type type = region.getArgument(2).getType();
    values[region.getArgument(2)] = IntegerAttr::get(type, q);
    values[region.getArgument(3)] = IntegerAttr::get(type, k);
  }

  /// The constant that `value` has at the element (q, k), or null if `value` depends on more than q and k.
  Attribute get(Value value) {
    if (auto known = values.find(value); known != values.end())
      return known->second;
    --left;
    Operation *definition = value.getDefiningOp();
    SmallVector<Attribute> operands;
    bool isKnown = definition;
    for (Value operand : isKnown ? ValueRange(definition->getOperands()) : ValueRange()) {
      operands.push_back(get(operand));
      isKnown &= bool(operands.back());
    }
    SmallVector<OpFoldResult> results;
    Attribute result;
    if (isKnown && succeeded(definition->fold(operands, results)) && results.size() == 1) {
      result = dyn_cast<Attribute>(results[0]);
      // The operation folded to one of its operands.
      if (auto operand = dyn_cast<Value>(results[0]))
        result = get(operand);
    }
    return values[value] = result;
  }

private:
  int64_t &left;
  llvm::DenseMap<Value, Attribute> values;
};

} // namespace

Visibility::Hides Visibility::hidesTiles(const Conjunct &conjunct) {
  constexpr int tiles = 32, elements = 256;
  constexpr int64_t most = 1 << 16;
  Region &region = op.getMask();
  std::minstd_rand random;
  auto below = [&](int64_t end) { return int64_t(random() % uint64_t(end)); };
  const int64_t tileQ = axisOf(2).tile, tileK = axisOf(3).tile;
  for (int tile = 0; tile < tiles; ++tile) {
    const int64_t q0 = below(most / tileQ) * tileQ, k0 = below(most / tileK) * tileK;
    bool isMaskedOut = true;
    for (int element = 0; element < elements && isMaskedOut; ++element) {
      if (valuesLeft <= 0)
        return Hides::Untried;
      auto value = dyn_cast_or_null<IntegerAttr>(
          Element(region, q0 + below(tileQ), k0 + below(tileK), valuesLeft).get(conjunct.first));
      if (!value)
        return Hides::Some;
      isMaskedOut = value.getValue().isZero() != conjunct.second;
    }
    if (isMaskedOut)
      return Hides::Some;
  }
  return Hides::None;
}
