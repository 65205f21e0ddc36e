//===- Sample.h - How much of a large grid of cases runs ---------------------===//
#pragma once

#include <cstddef>
#include <cstdlib>

namespace attune::tests {

/// A test runs every n-th case of its grid. n is `ofSample`, and 1 where ATTUNE_FULL_GRID is set (`scripts/test --all`).
inline size_t sampleStep(size_t ofSample) {
  const char *full = std::getenv("ATTUNE_FULL_GRID");
  return full && *full ? 1 : ofSample;
}

} // namespace attune::tests
