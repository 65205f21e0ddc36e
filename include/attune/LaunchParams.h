//===- LaunchParams.h - What every kernel receives --------------------------===//
//
// All kernels of a module receive the same block of bytes, on the CPU and on every CUDA target. The kernel's signature
// determines the content, in the signature's order:
//
//     | bytes                     | content                                                     |
//     |---------------------------|-------------------------------------------------------------|
//     | sizeof(LaunchParams)      | the fields below                                            |
//     | 8 per axis                | int64 extent of each axis that operands share               |
//     | 8 per scalar              | f32, i32, bool in the low bytes; i64                        |
//     | 8 + 16 * rank per operand | address; int64 strides (elements); int64 extents            |
//     | 8 + 16 * rank per tensor  | the same for the captured tensors                           |
//     | 128 per tensor map        | from the next multiple of 64 on                             |
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// The values that a launch passes in addition to operands, captured tensors and scalars.
struct LaunchParams {
  uint64_t seed;   ///< dropout seed, unless seedPointer is set
  uint64_t offset; ///< dropout offset, unless offsetPointer is set
  const uint64_t *seedPointer;
  const uint64_t *offsetPointer;
  void *workspace;
  int32_t group;          ///< extent of axis h divided by the extent of hkv; 1 if hkv is 0 or missing
  int32_t qOffset;        ///< added to q in expressions (chunked prefill)
  uint32_t dropThreshold; ///< T = min(65535, round(65536 * p_drop)); kept iff the random 16 bits r >= T
  float keepScale;        ///< 65536 / (65536 - T)
  int32_t mapped;         ///< bit n: TMA can read by the signature's n-th tensor map
  int32_t unused;
};

/// Bytes that a tensor of `rank` dimensions takes in the parameters: address, strides and extents.
constexpr size_t packedTensorBytes(int64_t rank) { return 8 + 16 * size_t(rank); }

static_assert(sizeof(LaunchParams) == 5 * 8 + 6 * 4);

/// The number of blocks of a persistent kernel with `tiles` tiles of work (at least 1): one block for each tile if
/// there are enough multiprocessors, else one block for each multiprocessor. If blocks do not claim tiles, and there
/// are fewer than two tiles for each multiprocessor, every block but the last has two tiles. Every block has a tile.
constexpr int64_t persistentBlocks(int64_t tiles, int64_t multiprocessors, bool claims) {
  return tiles <= multiprocessors ? tiles : tiles < 2 * multiprocessors && !claims ? (tiles + 1) / 2 : multiprocessors;
}

/// The number of splits (split-KV) of the `keyTiles` tiles of keys of each of `rowTiles` tiles of rows, with one block
/// for each split, where `slots` blocks are resident at a time. The result is the number with the least predicted time:
/// a block takes the time of its tiles plus `blockTiles` tiles, and blocks run in waves. Of equally good numbers the
/// least is taken.
constexpr int64_t keySplits(int64_t rowTiles, int64_t keyTiles, int64_t slots) {
  constexpr int64_t blockTiles = 2;
  int64_t best = 1, least = 0;
  const int64_t most = rowTiles ? (2 * slots + rowTiles - 1) / rowTiles : 1;
  for (int64_t splits = 1; splits <= most && splits <= keyTiles; ++splits) {
    const int64_t waves = (rowTiles * splits + slots - 1) / slots, each = (keyTiles + splits - 1) / splits;
    const int64_t time = waves * (each + blockTiles);
    if (splits == 1 || time < least) {
      best = splits;
      least = time;
    }
  }
  return best;
}

} // namespace attune
#pragma GCC visibility pop
