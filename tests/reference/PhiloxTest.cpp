#include "tools/reference/Philox.h"

#include <catch2/catch.hpp>

#include <set>

using namespace attune::reference;

namespace {

using Words = std::array<uint32_t, 4>;
constexpr uint32_t ones = 0xFFFFFFFF;

/// Digits of pi, as in Random123's kat_vectors.
constexpr Words piCounter = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};

} // namespace

TEST_CASE("Philox 4x32 gives the published vectors") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}, 10) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}, 10) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32(piCounter, {0xa4093822, 0x299f31d0}, 10) == Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}, 7) == Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}, 7) == Words{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
  CHECK(philox4x32(piCounter, {0xa4093822, 0x299f31d0}, 7) == Words{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a});
}

TEST_CASE("zero rounds of Philox are the counter") { CHECK(philox4x32(piCounter, {1, 2}, 0) == piCounter); }

TEST_CASE("the drop threshold is 65536 * p, rounded, and never drops all") {
  CHECK(dropThreshold(0) == 0);
  CHECK(dropThreshold(0.5) == 32768);
  CHECK(dropThreshold(0.1) == 6554);
  CHECK(dropThreshold(0.9999999) == 65535);
}

TEST_CASE("a dropout number is the word and half that the layout says") {
  uint64_t seed = 0x1122334455667788, offset = 0x99AABBCCDDEEFF00;
  std::array<uint32_t, 2> key = {0x55667788, 0x11223344 ^ 0x99AABBCC};
  // b = 1, h = 2 of 5 heads, q = 16 * 3 + 8 + 5, k = 16 * 2 + 8 + 2 * 3 + 1
  Words words = philox4x32({3 * 8 + 5, 2 * 4 + 3, 1 * 5 + 2, 0xDDEEFF00}, key, 7);
  CHECK(dropoutBits(seed, offset, 5, 1, 2, 61, 47) == words[3] >> 16);
  CHECK(dropoutBits(seed, offset, 5, 1, 2, 53, 47) == (words[3] & 0xFFFF));
  CHECK(dropoutBits(seed, offset, 5, 1, 2, 53, 46) == (words[1] & 0xFFFF));
  CHECK(dropoutBits(seed, offset, 5, 1, 2, 53, 39) == (words[2] & 0xFFFF));
  CHECK(dropoutBits(seed, offset, 5, 1, 2, 61, 38) == words[0] >> 16);
}

TEST_CASE("every element of a 16 x 16 block has a number of its own") {
  std::set<std::pair<uint32_t, uint32_t>> seen;
  // Two seeds make a pair: two numbers of 16 bits collide by chance, pairs do not.
  for (int64_t q = 0; q < 16; ++q)
    for (int64_t k = 0; k < 16; ++k)
      seen.emplace(dropoutBits(1, 0, 1, 0, 0, q, k), dropoutBits(2, 0, 1, 0, 0, q, k));
  CHECK(seen.size() == 256);
}
