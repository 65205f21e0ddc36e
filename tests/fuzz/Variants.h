//===- Variants.h - What holds of every variant that was read -----------------===//
#pragma once

#include "attune/Variant.h"
#include "tests/fuzz/Fuzz.h"

namespace attune::tests {

/// An error says something, and its text form can be made.
inline void requireDescribed(const Error &error) {
  require(!error.message.empty(), "an error has a message", error.text(), "");
}

/// The variant's JSON reads back as the same variant and prints as the same JSON.
inline void requireRoundTrip(const Variant &variant) {
  require(!variant.error(), "a variant that was read has no error", variant.error() ? variant.error()->text() : "", "");
  std::string json = variant.toJson();
  Expected<Variant> again = Variant::fromJson(json);
  require(bool(again), "the JSON of a variant is read back", json, again ? "" : again.error().text());
  requireEqual(variant.canonical(), again->canonical(), "JSON keeps the canonical form");
  requireEqual(json, again->toJson(), "JSON that was read prints the same");
}

} // namespace attune::tests
