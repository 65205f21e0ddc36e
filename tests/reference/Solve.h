//===- Solve.h - The reference's results, where there is no error -----------===//
#pragma once

#include "tools/reference/Reference.h"

#include <catch2/catch.hpp>

namespace attune::tests {

inline reference::Output solve(const reference::Problem &problem) {
  Expected<reference::Output> output = reference::attention(problem);
  if (!output)
    FAIL(output.error().message);
  return *output;
}

inline reference::Output solvePlain(const reference::Problem &problem) {
  Expected<reference::Output> output = reference::plainLowPrecision(problem);
  if (!output)
    FAIL(output.error().message);
  return *output;
}

} // namespace attune::tests
