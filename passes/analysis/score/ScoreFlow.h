//===- ScoreFlow.h - Propagates a scaling or shift of scores through a softmax -===//
//
// A pass may change all scores of a row, by a positive factor or by a shift, if the pass compensates for the change
// later. Such a change keeps the order of the scores, so the change passes through these ops of a softmax:
//
//     mask: select(visible, x, -inf)      the result changes as x does
//     m = max(x), over rows and tiles     m changes as x does, also where a loop carries m
//     guard: m == -inf ? 0 : m            the result changes as m does
//     exp(x - m) and all other maps       the pass decides: here it can compensate for the change
//
//     ScoreFlow flow(unchanged);                        // which constants the change maps to themselves, e.g. -inf
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
  /// What a map does with a changed input: its result changes in the same way, the pass compensates for the change in
  /// the map, or the map makes the change impossible.
  enum class Step { Carries, Ends, Refuses };
  using OnMap = llvm::function_ref<Step(tile::MapOp, mlir::OpOperand &)>;

  /// `unchanged` returns whether the scaling or shift of the scores maps a constant to itself. Such constants are the
  /// initial values of loops and the constants that scores are compared with.
  explicit ScoreFlow(bool (*unchanged)(float)) : unchanged(unchanged) {}

  /// Follows the scaling or shift of `source` through all uses. Returns false if this change is impossible: at a
  /// reduction other than max, at a use that is not in the table at the top of this file, at a map for which `onMap`
  /// returns Refuses, or if a value of require() does not change.
  bool follow(mlir::Value source, OnMap onMap);
  /// Requires that the change of the scores also reaches `values`; follow() returns false otherwise.
  void require(mlir::ValueRange values) { llvm::append_range(required, values); }
  /// Whether `map` returns either its input `use` or a constant (0 or an infinity), selected by comparisons whose
  /// outcome the scaling or shift of the scores does not affect.
  bool onlySelects(tile::MapOp map, mlir::OpOperand &use) const;
  /// Whether `value` is scaled or shifted like the scores; known after follow().
  bool reaches(mlir::Value value) const { return changed.contains(value); }

private:
  /// Whether `user` compares `input` with a constant that the scaling or shift of the scores maps to itself. The
  /// outcome of the comparison then stays the same.
  bool comparesUnchanged(mlir::Operation *user, mlir::Value input) const;
  /// Whether `map` uses its input `use` only in comparisons whose outcome the scaling or shift of the scores does not
  /// affect. `use` is not the first input, which a conditional map also returns as its result.
  bool onlyCompares(tile::MapOp map, mlir::OpOperand &use) const;
  bool visit(mlir::OpOperand &use, OnMap onMap);

  bool (*unchanged)(float);
  llvm::SetVector<mlir::Value> changed;
  mlir::SmallVector<mlir::Value> required;
};

} // namespace attune
