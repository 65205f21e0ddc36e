//===- Lanes.h - Which values may differ between the lanes of a warp ------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune::sim {

/// The SSA values of a kernel that may differ between the lanes of a warp (divergence analysis, iterated to a fixed
/// point).
class Lanes {
public:
  explicit Lanes(sched::KernelOp kernel);
  bool operator()(mlir::Value value) const { return set.contains(value); }

private:
  void visit(mlir::Operation *op);
  void add(mlir::ValueRange values) { set.insert(values.begin(), values.end()); }

  llvm::DenseSet<mlir::Value> set;
};

} // namespace attune::sim
