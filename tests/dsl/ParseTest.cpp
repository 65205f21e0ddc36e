//===- ParseTest.cpp - The text form: grammar, meaning, errors --------------===//
#include "attune/attune.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace attune;

TEST_CASE("text and C++ give one key") {
  auto slopes = captured("slopes", f32, rank(1));
  auto traced = Variant("gemma_local")
                    .score([&](Score s, Index b, Index h, Index q, Index k) {
                      (void)b;
                      return softcap(s, 50.0f) + slopes[h] * (k - q);
                    })
                    .mask([](Index, Index, Index q, Index k) { return q >= k && q - k < 4096; });
  auto parsed = Variant::parse(
      "gemma_local", {.score = "softcap(s, 50) + slopes[h] * (k - q)", .mask = "q >= k && q - k < 4096"});
  REQUIRE(parsed);
  CHECK(parsed->canonical() == traced.canonical());
  CHECK(text(*traced.scoreExpr()) == "50.0 * tanh(s / 50.0) + slopes[h] * (k - q)");
}
