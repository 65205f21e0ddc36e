//===- NearestNameTest.cpp - The name that was meant --------------------------===//
#include "dsl/NearestName.h"

#include <catch2/catch.hpp>

using attune::dsl::nearestName;

TEST_CASE("one edit adds, drops, replaces or swaps") {
  for (const char *written : {"softcap", "softcaps", "softcp", "softcab", "sotfcap", "SoftCap"}) {
    INFO(written);
    CHECK(nearestName(written, {"sigmoid", "softcap"}) == "softcap");
  }
}

TEST_CASE("a third of the name's characters may differ, no more") {
  CHECK(nearestName("abcdxx", {"abcdef"}) == "abcdef");
  CHECK(nearestName("abcxxx", {"abcdef"}).empty());
  CHECK(nearestName("abcdefxx", {"abcdef"}) == "abcdef");
  CHECK(nearestName("abcdefxxx", {"abcdef"}).empty());
  CHECK(nearestName("abc", {"abcdef"}).empty());
  // A swap is one edit, and two swaps are two.
  CHECK(nearestName("acb", {"abc"}) == "abc");
  CHECK(nearestName("badcef", {"abcdef"}) == "abcdef");
  CHECK(nearestName("badcfe", {"abcdef"}).empty());
}

TEST_CASE("short names are near another case of themselves alone") {
  CHECK(nearestName("K", {"q", "k"}) == "k");
  CHECK(nearestName("sk", {"Sq", "Sk"}) == "Sk");
  CHECK(nearestName("kk", {"k", "Sk"}).empty());
  CHECK(nearestName("", {"k"}).empty());
}

TEST_CASE("the fewest edits win, then the first name") {
  CHECK(nearestName("cost", {"cosh", "cos", "cost0"}) == "cosh");
  CHECK(nearestName("COSH", {"cos", "cosh"}) == "cosh");
  CHECK(nearestName("x", {}).empty());
}
