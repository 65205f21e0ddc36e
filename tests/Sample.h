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

} // namespace attune::tests
