//===- NestedOps.h - Search for a nested op --------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"

namespace attune {

/// Whether `scope`, an op or a region, contains at any depth an op `op` of type `Op` for which `is(op)` returns true.
template <typename Op, typename Scope>
bool holds(Scope &&scope, llvm::function_ref<bool(Op)> is = [](Op) { return true; }) {
  return scope.walk([&](Op op) { return is(op) ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance(); })
      .wasInterrupted();
}

} // namespace attune
