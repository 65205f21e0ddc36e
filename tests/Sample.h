//===- Sample.h - How much of a large grid of cases runs ---------------------===//
#pragma once

#include <cstddef>
#include <cstdlib>

namespace attune::tests {

/// Whether ATTUNE_FULL_GRID is set (`scripts/test --all`).
inline bool isFullGrid() {
  const char *full = std::getenv("ATTUNE_FULL_GRID");
  return full && *full;
}

/// A test runs every n-th case of its grid. n is `ofSample`, and 1 with isFullGrid().
inline size_t sampleStep(size_t ofSample) { return isFullGrid() ? 1 : ofSample; }

/// The same for a grid in nested loops: which of its cases run.
///
///     Sample sample(4);
///     for (...)
///       for (...)
///         if (sample.takes())
///           check(...);
class Sample {
public:
  /// Of every `ofSample` cases the one at `first` runs.
  explicit Sample(size_t ofSample, size_t first = 0) : step(sampleStep(ofSample)), first(first % step) {}
  /// Whether the next case of the grid runs.
  bool takes() { return count++ % step == first; }
  /// The number of the case that takes() was last called for, from 0.
  size_t number() const { return count - 1; }

private:
  size_t step, first, count = 0;
};

} // namespace attune::tests
