//===- Sequences.h - Packed sequences as a batch with lengths -------------------===//
//
// The reference computes packed sequences as the batch that they are by definition: sequence b in rows of its own, with
// its own numbers of queries and keys.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/reference/Gradients.h"

namespace attune::reference {

/// Where sequences begin among rows that follow each other, and how long the longest is.
class PackedRows {
public:
  PackedRows() = default;
  /// `bounds` is i32 [B + 1]; numbers that are no rows, or decrease, are clamped.
  PackedRows(const HostTensor &bounds, int64_t rows);

  int64_t sequences() const { return int64_t(begins.size()) - 1; }
  int64_t longest() const;
  /// i32 [B], at most those of `most` [B] where that is given.
  HostTensor lengths(const HostTensor *most = nullptr) const;

  /// [1, H, rows, ...] as [B, H, longest, ...], with 0 after a sequence's end.
  HostTensor unpack(const HostTensor &packed) const;
  /// [B, H, longest, n] as [1, H, rows, n], with `outside` in the rows of no sequence.
  template <typename T>
  std::vector<T> pack(const std::vector<T> &batch, int64_t heads, int64_t columns, T outside) const;

private:
  std::vector<int64_t> begins;
  int64_t all = 0;
};

/// A problem whose variant has packed sequences, as a batch.
struct Unpacked {
  Variant variant;
  Problem problem; ///< `variant` is set by whoever has this in its place
  PackedRows queries;
  std::optional<PackedRows> keys; ///< nothing where K and V are of a batch
};
/// Nothing where the variant has a batch. Errors: bounds that are missing or of another dtype or rank, a batch of q or k
/// other than 1.
Expected<std::optional<Unpacked>> unpacked(const Problem &problem);

/// The results of the batch as those of packed sequences.
Output packed(const Unpacked &from, Output batch);
GradientOf packed(const PackedRows &rows, GradientOf batch);

} // namespace attune::reference
