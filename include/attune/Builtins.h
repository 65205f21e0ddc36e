//===- Builtins.h - Masks and scores that users expect ----------------------===//
//
// Each is defined by the public expressions of Expr.h, and its definition is its documentation:
//
//     auto ids     = captured("ids", i32, rank(1));
//     auto slopes  = captured("slopes", f32, rank(1));
//     auto variant = Variant("packed")
//         .mask(causal() && documents(ids))
//         .score(softcap(30) | alibi(slopes));          // alibi sees the capped score
//
//     | mask                 | query q sees key k iff                                  |
//     |----------------------|---------------------------------------------------------|
//     | causal()             | q >= k                                                  |
//     | causalBottomRight()  | k - Sk <= q - Sq                                        |
//     | slidingWindow(l, r)  | -l <= k - q && k - q <= r                               |
//     | prefixLm(n)          | q >= k || k < n                                         |
//     | chunked(n)           | q / n == k / n                                          |
//     | documents(ids)       | ids[q] == ids[k], or ids[b][q] == ids[b][k] for rank 2  |
//     | keyPadding(lengths)  | k < lengths[b]                                          |
//
//     | score                | value                                                   |
//     |----------------------|---------------------------------------------------------|
//     | softcap(c)           | c * tanh(s / c)                                         |
//     | alibi(slopes)        | s + slopes[h] * (k - q)                                 |
//     | relativeBias(table)  | s + table[h][q - k + Sk - 1]                            |
//     | bias(t)              | s + broadcast(t[h][q][k]), or of t[q][k], t[b][h][q][k] |
//
// A mask or score is a function object, so a lambda may call one too: causal()(b, h, q, k).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Variant.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// A condition on (b, h, q, k). Masks combine by &&, || and !. Mask(lambda) makes a mask of a lambda.
class Mask {
public:
  using Function = std::function<Expr(Index b, Index h, Index q, Index k)>;
  explicit Mask(Function function) : function(std::move(function)) {}
  Expr operator()(Index b, Index h, Index q, Index k) const { return function(b, h, q, k); }

private:
  Function function;
};

Mask operator&&(const Mask &a, const Mask &b);
Mask operator||(const Mask &a, const Mask &b);
Mask operator!(const Mask &a);

/// A function from the score s to a new score. `first | second` applies first, then second.
class ScoreModifier {
public:
  using Function = std::function<Expr(Score s, Index b, Index h, Index q, Index k)>;
  explicit ScoreModifier(Function function) : function(std::move(function)) {}
  Expr operator()(Score s, Index b, Index h, Index q, Index k) const { return function(s, b, h, q, k); }

private:
  Function function;
};

ScoreModifier operator|(const ScoreModifier &first, const ScoreModifier &second);

/// q >= k: no query sees a later key.
Mask causal(std::source_location where = std::source_location::current());
/// k - Sk <= q - Sq: causal, aligned so that the last query sees all keys.
Mask causalBottomRight(std::source_location where = std::source_location::current());
/// -l <= k - q && k - q <= r: `left` keys before the query and `right` after it.
Mask slidingWindow(Operand left, Operand right);
/// q >= k || k < n: the first n keys are visible to all. n is an integer or a scalar.
Mask prefixLm(Operand n);
/// prefixLm with n read from a tensor of rank 1, one per batch: n[b].
Mask prefixLm(const Captured &n, std::source_location where = std::source_location::current());
/// q / n == k / n: only keys of the query's own chunk of n.
Mask chunked(Operand n);
/// ids[q] == ids[k]: only keys of the query's own document. ids: [S], or [B, S], in any order. A tile is skipped only
/// if the range of its keys' ids (least to greatest) does not overlap the range of its queries' ids. A launch needs a
/// workspace (Kernel::workspaceBytes).
Mask documents(const Captured &ids, std::source_location where = std::source_location::current());
/// k < lengths[b]: keys past their batch's length are padding. lengths: [B].
Mask keyPadding(const Captured &lengths, std::source_location where = std::source_location::current());

/// c * tanh(s / c) (Gemma 2).
ScoreModifier softcap(Operand c);
/// s + slopes[h] * (k - q) (Press et al. 2022). slopes: [H].
ScoreModifier alibi(const Captured &slopes, std::source_location where = std::source_location::current());
/// s + table[h][q - k + Sk - 1]: a relative-position bias. table: [H, Sq + Sk - 1].
ScoreModifier relativeBias(const Captured &table, std::source_location where = std::source_location::current());
/// s + broadcast(t[h][q][k]). t: [H, Sq, Sk], [Sq, Sk] or [B, H, Sq, Sk]; a dimension of extent 1 is broadcast.
ScoreModifier bias(const Captured &t, std::source_location where = std::source_location::current());

//===----------------------------------------------------------------------===//
// The registry that the command line lists
//===----------------------------------------------------------------------===//

/// A parameter of a built-in variant, such as `--cap 30` on the command line.
struct BuiltinParameter {
  enum class Type { Int, Float };
  std::string name;
  Type type = Type::Int;
  double defaultValue = 0;
  std::string help;
};

/// A variant with a name, made of the functions above.
///
///     const BuiltinVariant *entry = findBuiltin("softcap");
///     Expected<Variant> variant = entry->make({{"cap", 30}});
struct BuiltinVariant {
  std::string name;    ///< "sliding-window"
  std::string summary; ///< one line
  std::vector<BuiltinParameter> parameters;
  std::vector<TensorDecl> tensors; ///< captured tensors that a launch binds

  /// The variant, named like the entry with '_' for '-'. Parameters left out take their default. A tensor of
  /// `declared` with the name of one of `tensors` replaces its dtype and rank (documents: ids of rank 2).
  Expected<Variant> make(const std::map<std::string, double> &values = {},
                         const std::vector<TensorDecl> &declared = {}) const;

  using Arguments = std::map<std::string, double>;
  using Tensors = std::map<std::string, Captured>;
  std::function<Variant(Variant, const Arguments &, const Tensors &)> apply;
};

/// All entries, "plain" first.
const std::vector<BuiltinVariant> &builtinVariants();
/// The entry of that name, or null.
const BuiltinVariant *findBuiltin(std::string_view name);

} // namespace attune
#pragma GCC visibility pop
