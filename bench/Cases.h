//===- Cases.h - What the bench measures -------------------------------------===//
//
// One list of cases. `attune-bench --list` prints it, and peers.py runs what it prints, so that both measure the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/attune.h"

#include <functional>
#include <string>
#include <vector>

namespace bench {

/// Keys [begin, end) that a query sees.
struct KeyRange {
  int64_t begin = 0, end = 0;
};

/// One row of the table. Self-attention of `length` queries and keys in bf16.
struct Case {
  std::string name;    ///< "plain/causal/d64/s1024"
  std::string group;   ///< one of groups()
  std::string variant; ///< a key of the list in Cases.cpp
  int64_t batch = 1, heads = 1, headsKv = 1, length = 1;
  int headDim = 64;
  int visibleBlocks = 0; ///< variant "blocks": in each row of the pattern

  attune::Variant make() const;
  /// The keys that a query sees, ascending and disjoint.
  std::vector<KeyRange> visible(int64_t query) const;
  /// 4 * B * H * D for each visible pair of query and key; causal counts as half of all.
  double flops() const;
  /// The same for every pair in a tile that holds a visible one: what the tensor cores do.
  double tileFlops(int64_t tileQ, int64_t tileK) const;
  bool dropout() const { return variant == "dropout"; }
};

/// The score that `one` gives (h, q, k), in float64, for spot checks.
double scoreOf(const Case &one, double s, int64_t h, int64_t q, int64_t k);

// The captured tensors' values.
float slopeOf(const Case &one, int64_t h);
float tableOf(int64_t i);
inline int32_t documentOf(int64_t q) { return int32_t(q / 1000); }
/// A dense bias; `i` counts the elements of [H, S, S]. Repeats after biasPeriod elements.
inline constexpr int64_t biasPeriod = 31;
float biasOf(int64_t i);
/// A block pattern of `blocks` rows and columns of blockSide x blockSide: `one.visibleBlocks` of a row, evenly spread, in another place in
/// the next row.
inline constexpr int64_t blockSide = 128;
bool patternOf(const Case &one, int64_t row, int64_t column);

/// The groups of the list, in its order.
std::vector<std::string> groups();
const std::vector<Case> &allCases();

} // namespace bench
