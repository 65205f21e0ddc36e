//===- Philox.h - Philox 4x32 and the dropout pattern ------------------------===//
//
// The counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011), and attune's dropout pattern built on it. Written from the paper and DESIGN.md,
// apart from the compiler's own copy, so that each checks the other.
//
//     philox4x32({0, 0, 0, 0}, {0, 0}, 10)  ->  {6627e8d5 e169c58d bc57ac4c 9b00dbd8}
//
// Dropout draws one 16-bit number r per (b, h, q, k) and keeps the element iff r >= T:
//
//     key     = (seed_lo, seed_hi ^ offset_hi)
//     counter = ((q >> 4) * 8 + (q & 7), (k >> 4) * 4 + ((k & 7) >> 1), b * H + h, offset_lo)
//     word    = 2 * (k & 1) + ((k >> 3) & 1)      half = (q >> 3) & 1   (0 = low 16 bits)
//
// q and k count within the sequence and are not shifted by qOffset.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <cstdint>

namespace attune::reference {

/// `rounds` rounds of Philox 4x32 (10 in the paper's default, 7 for attune's dropout).
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key, unsigned rounds);

/// T = min(65535, round(65536 * probability)); 0 drops nothing.
uint32_t dropThreshold(double probability);

/// The 16-bit number of element (b, h, q, k).
uint32_t dropoutBits(uint64_t seed, uint64_t offset, int64_t heads, int64_t b, int64_t h, int64_t q, int64_t k);

} // namespace attune::reference
