//===- Sample.h - How much of a large grid of cases runs ---------------------===//
#pragma once

#include <cstddef>
#include <cstdlib>

namespace attune::tests {

/// How far apart the cases are that run: `ofSample`, or 1 where ATTUNE_FULL_GRID asks for all (`scripts/test --all`).
inline size_t sampleStep(size_t ofSample) {
  const char *full = std::getenv("ATTUNE_FULL_GRID");
  return full && *full ? 1 : ofSample;
}

} // namespace attune::tests
