//===- NestedOps.h - What an op holds --------------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"

namespace attune {

/// Whether an op or region holds an `Op`, at any depth, for which `is`.
template <typename Op, typename Scope>
bool holds(Scope &&scope, llvm::function_ref<bool(Op)> is = [](Op) { return true; }) {
  return scope.walk([&](Op op) { return is(op) ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance(); })
      .wasInterrupted();
}

} // namespace attune
