//===- GradientCases.h - Scores that read captured tensors in many ways ----------===//
#pragma once

#include "tests/numerics/Runner.h"

namespace attune::tests {

/// A captured tensor of a case; dims may name the shape's extents by -1 (B), -2 (H), -3 (Sq), -4 (Sk).
struct Learned {
  std::string name;
  DType dtype;
  std::vector<int64_t> dims;
};

using ScoreFunction = std::function<Expr(Score, Index, Index, Index, Index)>;

/// A score that reads tensors, of which the gradients of all that are floats are asked for.
struct Reader {
  std::string label;
  std::vector<Learned> tensors;
  ScoreFunction score;
};

/// Whose gradients are sums in one order.
std::vector<Reader> orderedReaders();
/// Whose gradients are added atomically, to float32 or to long accumulators.
std::vector<Reader> scatteredReaders();

/// A case, and the gradients that are asked for.
struct Asked {
  Case test;
  Gradients gradients;
};
/// `variant`, which has the reader's score, with random tensors.
Asked testOf(const Reader &reader, Variant variant, DType dtype, const Shape &shape, uint64_t seed);
/// With a sink, whose logits are normal ones times `scale`.
Asked sinkCase(DType dtype, double scale);

/// Normalisers of one's own with row statistics, and gradients of what they read: each with a variant of softmax that
/// has the same weights. Some rows see no key.
std::vector<Asked> definedCases(DType dtype);
/// One of them: softmax to the base of 2, with a temperature for each head.
Normaliser softmax2();

/// Lengths of 1, ragged and whole; groups of 1, 2 and 3 heads.
std::vector<Shape> gradientShapes();
/// All readers and shapes, without a mask and with one and dropout; and sinks.
std::vector<std::function<Asked()>> gradientCases();

/// Forward passes that save what dropout keeps and values of scores, of all kinds and shapes.
std::vector<std::function<Asked()>> savingCases();

} // namespace attune::tests
