//===- Prepared.h - A checked problem ------------------------------------------===//
//
// What the loops of the forward and the backward reference read of a problem.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/reference/Program.h"
#include "tools/reference/Reference.h"

#include <limits>

namespace attune::reference {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// f32[2, 3, 64, 64], as messages say it.
std::string shapeText(const HostTensor &tensor);

/// What p is of a row's scores.
enum class Weights { Softmax, Sigmoid, None };

/// A checked problem: extents, the programs, and what dropout does.
struct Prepared {
  const Problem *problem = nullptr;
  int64_t batch = 0, heads = 0, kvHeads = 0, queryLength = 0, keyLength = 0, headDim = 0, headDimV = 0;
  double scale = 1;
  uint32_t threshold = 0; ///< T
  std::optional<Program> score, mask;
  const HostTensor *pattern = nullptr;
  int64_t patternRows = 0, patternColumns = 0;
  Weights weights = Weights::Softmax;
  const HostTensor *sinks = nullptr; ///< of softmax: [H], or null

  const HostTensor *keyLengths = nullptr, *queryLengths = nullptr; ///< [B], or null

  /// How many keys sequence b has.
  int64_t keysOf(int64_t b) const { return reference::keysOf(keyLengths, b, keyLength); }

  /// How many queries sequence b has.
  int64_t queriesOf(int64_t b) const { return reference::keysOf(queryLengths, b, queryLength); }

  /// What mask, whose interpreter has just run keys of sequence b from `begin` on, and pattern show of the i-th of them.
  bool shows(const std::optional<RowInterpreter> &run, const uint8_t *blocks, int64_t b, int64_t begin,
             int64_t i) const {
    return begin + i < keysOf(b) && (!run || run->ints()[i]) && (!blocks || blocks[(begin + i) / patternColumns]);
  }

  int64_t kvHead(int64_t h) const { return h / (heads / kvHeads); }

  /// The blocks of a row, one byte each; null without a pattern.
  const uint8_t *blocksOf(int64_t b, int64_t h, int64_t q) const {
    if (!pattern)
      return nullptr;
    size_t rank = pattern->shape.size();
    int64_t columns = pattern->shape[rank - 1], rows = pattern->shape[rank - 2];
    int64_t headExtent = rank > 2 ? pattern->shape[rank - 3] : 1, batchExtent = rank > 3 ? pattern->shape[0] : 1;
    int64_t plane = (batchExtent == 1 ? 0 : b) * headExtent + (headExtent == 1 ? 0 : h);
    return pattern->as<uint8_t>() + (plane * rows + q / patternRows) * columns;
  }
};

/// With `maskAlone` without what gives and weighs scores.
Expected<Prepared> prepare(const Problem &problem, bool maskAlone = false);

/// What a kernel's operations may err by, as standard deviations.
struct Accuracy {
  double unit;     ///< relative, of a rounding to the dtype
  double smallest; ///< absolute, of rounding a subnormal of the dtype
  double score;    ///< of s, in units of scale * |q| * |k|
  double function; ///< relative, of a function in the score; at worst
  double sum;      ///< of P'V, in units of sum_k p' * |v|
};

/// Of kernels of that dtype.
Accuracy accuracyOf(DType dtype, bool precise);

} // namespace attune::reference
