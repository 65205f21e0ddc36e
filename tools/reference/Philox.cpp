//===- Philox.cpp - Philox 4x32 and the dropout pattern ----------------------===//
#include "tools/reference/Philox.h"

#include <algorithm>
#include <cmath>

namespace attune::reference {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key, unsigned rounds) {
  for (unsigned round = 0; round < rounds; ++round) {
    uint64_t first = uint64_t{0xD2511F53} * counter[0];
    uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {uint32_t(second >> 32) ^ counter[1] ^ key[0], uint32_t(second),
               uint32_t(first >> 32) ^ counter[3] ^ key[1], uint32_t(first)};
    key[0] += 0x9E3779B9; // golden ratio
    key[1] += 0xBB67AE85; // sqrt(3) - 1
  }
  return counter;
}

uint32_t dropThreshold(double probability) { return std::min(65535u, uint32_t(std::lround(65536.0 * probability))); }

uint32_t dropoutBits(uint64_t seed, uint64_t offset, int64_t heads, int64_t b, int64_t h, int64_t q, int64_t k) {
  std::array<uint32_t, 2> key = {uint32_t(seed), uint32_t(seed >> 32) ^ uint32_t(offset >> 32)};
  std::array<uint32_t, 4> counter = {uint32_t((q >> 4) * 8 + (q & 7)), uint32_t((k >> 4) * 4 + ((k & 7) >> 1)),
                                     uint32_t(b * heads + h), uint32_t(offset)};
  uint32_t word = philox4x32(counter, key, 7)[size_t(2 * (k & 1) + ((k >> 3) & 1))];
  return ((q >> 3) & 1) ? word >> 16 : word & 0xFFFF;
}

} // namespace attune::reference
