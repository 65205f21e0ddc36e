//===- Cases.h - What the bench measures -------------------------------------===//
//
// One list of cases. `attune-bench --list` prints it, and peers.py runs what it prints, so that both measure the same.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/attune.h"

#include <span>
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
  /// The same for every pair in a tile of `rows` x `columns` that holds a visible one: what the tensor cores do.
  double tileFlops(int64_t rows, int64_t columns) const;
  bool dropout() const { return variant == "dropout"; }
};

/// Row q of O in float64, of head h with this query [D] and these keys and values [S, D]. Without dropout. `weight` is
/// the root of the sum of the squares of the row's weights, which what rounds them leaves a share of.
std::vector<double> exactRow(const Case &one, int64_t h, int64_t q, std::span<const double> query,
                             std::span<const double> keys, std::span<const double> values, double *weight = nullptr);

/// A captured tensor on the host. A large one holds the first elements alone, and repeats them.
struct HostTensor {
  std::vector<int64_t> shape;
  std::vector<char> block;
};

/// The tensor that the variant captures by this name.
HostTensor capturedTensor(const Case &one, const std::string &name);
uint16_t toBf16(float value);

/// The groups of the list, in its order.
std::vector<std::string> groups();
const std::vector<Case> &allCases();

} // namespace bench
