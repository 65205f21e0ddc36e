//===- ScoreFlow.h - Where a change of all scores of a row arrives ----------===//
//
// A change that keeps the order of a row's scores, a positive factor or a shift, passes through what the softmax does
// to them:
//
//     mask: select(visible, x, -inf)      the change of x
//     m = max(x), over rows and tiles     the same change, through the loop that carries m
//     guard: m == -inf ? 0 : m            the same change
//     exp(x - m) and all other maps       here it ends: the pass decides how
//
//     ScoreFlow flow(unchanged);                        // constants that the change leaves as they are
//     bool all = flow.follow(score, [&](tile::MapOp map, OpOperand &use) {
//       return flow.onlySelects(map, use) ? ScoreFlow::Step::Carries : ScoreFlow::Step::Ends;
//     });
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/Tile.h"

#include "llvm/ADT/SetVector.h"

namespace attune {

class ScoreFlow {
public:
  /// What a map does with a changed input.
  enum class Step { Carries, Ends, Refuses };
  using OnMap = llvm::function_ref<Step(tile::MapOp, mlir::OpOperand &)>;

  /// `unchanged` says of a constant, a loop's start or one that scores are compared with, whether the change leaves it
  /// as it is.
  explicit ScoreFlow(bool (*unchanged)(float)) : unchanged(unchanged) {}

  /// Follows all uses of `source`. False where the change cannot pass: a reduction other than max, another use than
  /// those above, a map that refuses, or a required value that it does not reach.
  bool follow(mlir::Value source, OnMap onMap);
  /// The change must reach `values` too.
  void require(mlir::ValueRange values) { llvm::append_range(required, values); }
  /// Whether `map` returns its input `use`, 0 or an infinity, and chooses by comparisons that the change leaves as they
  /// are.
  bool onlySelects(tile::MapOp map, mlir::OpOperand &use) const;
  /// Whether the change reaches `value`.
  bool reaches(mlir::Value value) const { return changed.contains(value); }

private:
  /// Whether `user` compares `input` with a constant that the change leaves as it is.
  bool comparesUnchanged(mlir::Operation *user, mlir::Value input) const;
  /// Whether `map` does nothing with its input `use` but compare it, in a way that the change leaves as it is. (The first
  /// input may be the result as well.)
  bool onlyCompares(tile::MapOp map, mlir::OpOperand &use) const;
  bool visit(mlir::OpOperand &use, OnMap onMap);

  bool (*unchanged)(float);
  llvm::SetVector<mlir::Value> changed;
  mlir::SmallVector<mlir::Value> required;
};

} // namespace attune
