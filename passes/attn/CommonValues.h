//===- CommonValues.h - Values that a gradient region recomputes ----------===//
#pragma once

#include "ir/attn/Attn.h"

namespace attune {

/// Finds the values that the gradient region `gradient` recomputes by the same ops as its forward region `of`. The
/// returned map leads from each such value of `gradient` to the equal value of `of`.
inline llvm::DenseMap<mlir::Value, mlir::Value> valuesInCommon(mlir::Region &gradient, mlir::Region &of) {
  llvm::DenseMap<mlir::Value, mlir::Value> common;
  auto attributes = [](mlir::Operation &op) {
    mlir::NamedAttrList all(op.getDiscardableAttrDictionary());
    all.erase(attn::savedAttr); // only forward regions have this mark
    return all.getDictionary(op.getContext());
  };
  for (auto [own, other] : llvm::zip(gradient.getArguments(), of.getArguments()))
    common[own] = other;
  for (mlir::Operation &op : gradient.front().without_terminator()) {
    if (op.getNumResults() != 1)
      continue;
    for (mlir::Operation &other : of.front().without_terminator()) {
      const bool same = op.getName() == other.getName() && attributes(op) == attributes(other) &&
                        op.getPropertiesAsAttribute() == other.getPropertiesAsAttribute() &&
                        op.getNumOperands() == other.getNumOperands() &&
                        llvm::all_of(llvm::zip(op.getOperands(), other.getOperands()),
                                     [&](auto pair) { return common.lookup(std::get<0>(pair)) == std::get<1>(pair); });
      if (same) {
        common[op.getResult(0)] = other.getResult(0);
        break;
      }
    }
  }
  return common;
}

} // namespace attune
