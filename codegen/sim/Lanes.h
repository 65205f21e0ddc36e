//===- Lanes.h - Values by lane -------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune::sim {

/// Values on which lanes of a warp may differ: a fixed point over the kernel.
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
