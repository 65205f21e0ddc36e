//===- Driver.h - What tests of the driver share ------------------------------===//
#pragma once

#include "attune/attune.h"

#include <catch2/catch.hpp>

namespace attune::tests {

/// The value of what has to succeed.
template <typename T> T must(Expected<T> value) {
  INFO((value ? "" : value.error().message));
  REQUIRE(value);
  return std::move(*value);
}

inline Variant causalVariant(const char *name = "causal") {
  return Variant(name).mask([](Index, Index, Index q, Index k) { return q >= k; });
}

} // namespace attune::tests
