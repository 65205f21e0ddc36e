//===- Normaliser.h - How the scores of a row become weights ---------------===//
//
// A normaliser says what p is of a row's scores x, and what a row carries from one block of keys to the next to know
// it. It is data: names, initial values, and expressions in the text form of Variant.h. Softmax, sigmoid and none
// (below) are written as any other:
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
// For each row, with O and all statistics at their initial values (O at 0), and for each block of keys in turn:
//
//     1. a statistic of Max becomes the maximum of itself and the block's x
//     2. base    from the maxima as they are now
//     3. rescale from the statistics before the block and base: O and each statistic of Sum are multiplied by it
//     4. p       of each x, and base
//     5. a statistic of Sum gains the sum of the block's p; O gains the sum of dropout(p) * V
//
// and in the end O = O / divisor, 0 where the divisor is 0, and LSE = lse, of the statistics as they then are. What is
// left empty is not there: without `rescale` nothing is multiplied, without `divisor` O is not divided, and without
// `lse` the kernel has no LSE. How keys are split into blocks is the compiler's choice, so the result must not depend
// on it, but for rounding.
//
//     | expression | sees, beside b h B H Sq Sk, `tensors` and `scalars`       |
//     |------------|-----------------------------------------------------------|
//     | base       | the statistics of Max                                     |
//     | rescale    | all statistics, and base                                  |
//     | p          | x, and base                                               |
//     | divisor    | all statistics                                            |
//     | lse        | all statistics                                            |
//
// A hidden key has x = -inf, and its p has to be 0: where -inf does not lead there by itself, as in exp(x - base), p
// says so: `x == -inf ? 0 : x`. parseExpressions() refuses others.
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

/// How a row statistic is made of a block of keys.
enum class Reduction : uint8_t {
  Max, ///< of x
  Sum  ///< of p, before dropout
};

/// "max", "sum".
std::string_view name(Reduction reduction);

/// A float32 that each row carries from one block of keys to the next.
struct RowStatistic {
  std::string name; ///< an identifier, and neither x, base nor a word that captured tensors may not have
  Reduction reduction = Reduction::Sum;
  float initial = 0;
  bool operator==(const RowStatistic &) const = default;
};

/// A definition, as described at the top.
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

/// The expressions of a definition. x, base and the statistics are run-time scalars of f32 in them.
struct NormaliserExpressions {
  std::optional<Expr> base, rescale, p, divisor, lse;
};

/// Reads and checks the expressions. Errors name the definition and the expression, with a caret in its text.
Expected<NormaliserExpressions> parseExpressions(const Normaliser &definition);

/// The normalisers that come with attune.
namespace normalisers {

/// p = exp(x) / sum exp(x), by the online softmax (Milakov and Gimelshein, 2018). The default.
Normaliser softmax();
/// p = exp(x) / (exp(sinks[h]) + sum exp(x)): each head has a logit that takes part in the denominator alone, `sinks` a
/// captured tensor of f32 [H]. LSE leaves it out. A row without a visible key gives O = 0.
Normaliser softmaxWithSink(std::string sinks);
/// p = 1 / (1 + exp(-x)). No LSE.
Normaliser sigmoid();
/// p = x: the score is any map of a score to a weight, such as s > 0 ? s * s : 0. No LSE.
Normaliser none();

/// softmax, sigmoid or none by its name, and softmax with a sink where `sinks` names one. Errors: another name, or
/// sinks beside a normaliser that has none.
Expected<Normaliser> named(std::string_view name, const std::string &sinks = {});

} // namespace normalisers

} // namespace attune
#pragma GCC visibility pop
