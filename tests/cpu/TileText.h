//===- TileText.h - tile.kernel text for a test case ------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace attune::test {

/// An attention variant and its tiling.
struct Case {
  std::string dtype = "f32";
  int headDim = 64, headDimV = 64;
  int tileQ = 64, tileK = 64;
  bool causal = false;
  bool alibi = false;   ///< s + slopes[h] * (k - q)
  bool softcap = false; ///< cap * tanh(s / cap), `cap` a run-time scalar
  bool bias = false;    ///< s + bias[h, q, k], f32, may be -inf
  bool keep = false;    ///< bool tensor keep[q, k] as a mask
  bool dropout = false;
  bool pattern = false; ///< blocks of tileQ x tileK
  bool reverse = false;
  bool skipRescale = false; ///< rescale O only when a maximum changed

  int batch = 1, heads = 2, group = 1, queries = 64, keys = 64;
  int gap = 0; ///< elements between the rows of Q, K, V and O

  float scale() const;
};

/// The kernel's text in the tile dialect.
std::string tileText(const Case &test);

} // namespace attune::test
