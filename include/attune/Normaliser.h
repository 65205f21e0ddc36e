//===- Normaliser.h - How the scores of a row become weights ---------------===//
//
// A normaliser defines how the scores x of a row become weights p, and which statistics a row carries from one block of
// keys to the next. A normaliser is data: names, initial values, and expressions in the text form of Variant.h.
// Softmax, sigmoid and none (below) are defined like any other normaliser:
//
//     const Normaliser softmax = {
//         .name = "softmax",
//         .statistics = {{"m", Reduction::Max, -INFINITY}, {"l", Reduction::Sum, 0}},
//         .base = "m == -inf ? 0 : m",
//         .rescale = "exp(m - base)",
//         .p = "exp(x - base)",
//         .divisor = "l",
//         .lse = "l == 0 ? -inf : m + log(l)",
//     };
//     variant.normaliser(softmax);
//
// Each row begins with O = 0 and the statistics at their initial values. For each block of keys, one after another:
//
//     1. each statistic of Reduction::Max becomes the maximum of itself and the block's x
//     2. base is computed from the new maxima
//     3. rescale is computed from the statistics before the block and from base
//        O and each statistic of Reduction::Sum are multiplied by rescale
//     4. p is computed for each x, from x and base
//     5. the sum of the block's p is added to each statistic of Reduction::Sum, the sum of dropout(p) * V is added to O
//
// At the end O is divided by divisor (O is 0 where divisor is 0), and LSE is the value of lse; both are computed from
// the final statistics. An expression may be empty: without `rescale` nothing is multiplied, without `divisor` O is not
// divided, and without `lse` the kernel has no LSE. The compiler chooses how keys are split into blocks, so apart from
// rounding the result must not depend on the split.
//
//     | expression | may use, in addition to b h B H Sq Sk, tensors, scalars   |
//     |------------|-----------------------------------------------------------|
//     | base       | the statistics of Max                                     |
//     | rescale    | all statistics, and base                                  |
//     | p          | x, and base                                               |
//     | divisor    | all statistics                                            |
//     | lse        | all statistics                                            |
//
// A masked key has x = -inf and must have p = 0. exp(x - base) is 0 there by itself; another p needs a case for it,
// such as `x == -inf ? 0 : x`. parseExpressions() rejects a p that is not 0 at x = -inf.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "attune/Expr.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// How a block of keys changes a row statistic.
enum class Reduction : uint8_t {
  Max, ///< maximum with the block's x
  Sum  ///< sum with the block's p, before dropout
};

/// "max", "sum".
std::string_view name(Reduction reduction);

/// A float32 that each row carries from one block of keys to the next.
struct RowStatistic {
  std::string name; ///< an identifier, but not x, base, or a reserved name of captured tensors (Expr.h)
  Reduction reduction = Reduction::Sum;
  float initial = 0;
  bool operator==(const RowStatistic &) const = default;
};

/// The definition of a normaliser, as described at the top.
struct Normaliser {
  std::string name; ///< an identifier
  std::vector<RowStatistic> statistics = {};
  std::string base = {}, rescale = {};
  std::string p = {}; ///< required
  std::string divisor = {}, lse = {};
  std::vector<TensorDecl> tensors = {}; ///< captured tensors that the expressions read
  std::vector<ScalarDecl> scalars = {}; ///< run-time scalars that the expressions read

  bool operator==(const Normaliser &) const = default;
};

/// The parsed expressions of a normaliser. In the expressions, x, base and the statistics are run-time scalars of f32.
struct NormaliserExpressions {
  std::optional<Expr> base, rescale, p, divisor, lse;
};

/// Reads and checks the expressions. Errors name the definition and the expression, with a caret in its text.
Expected<NormaliserExpressions> parseExpressions(const Normaliser &definition);

/// The normalisers that come with attune.
namespace normalisers {

/// p = exp(x) / sum exp(x), by the online softmax (Milakov and Gimelshein, 2018). The default.
Normaliser softmax();
/// p = exp(x) / (exp(sinks[h]) + sum exp(x)): each head has a sink logit that occurs only in the denominator. `sinks`
/// is the name of a captured tensor of f32 [H]. The LSE does not include the sink. A row without a visible key gives O
/// = 0.
Normaliser softmaxWithSink(std::string sinks);
/// p = 1 / (1 + exp(-x)). No LSE.
Normaliser sigmoid();
/// p = x: the variant's score function computes the weight, such as s > 0 ? s * s : 0. No LSE.
Normaliser none();

/// The normaliser with the name "softmax", "sigmoid" or "none". If `sinks` is not empty, softmax has this sink. Errors:
/// any other name; sinks with sigmoid or none.
Expected<Normaliser> named(std::string_view name, const std::string &sinks = {});

} // namespace normalisers

} // namespace attune
#pragma GCC visibility pop
