//===- LaunchParams.h - What every kernel receives --------------------------===//
//
// One block of bytes serves the CPU and every CUDA target: LaunchParams, then one 8-byte slot per
// run-time scalar, then per captured tensor its address, `rank` strides and `rank` extents, then the same
// of the bounds of tensors, which lie in the workspace, all in the order of the kernel's signature:
//
//     | bytes                    | content                                          |
//     |--------------------------|--------------------------------------------------|
//     | sizeof(LaunchParams)     | the fields below                                 |
//     | 8 per scalar             | f32, i32, bool in the low bytes; i64             |
//     | 8 + 16 * rank per tensor | address; int64 strides (elements); int64 extents |
//     | 8 + 16 * rank per bounds | address; int64 strides (elements); int64 extents |
//     | 128 per tensor map       | from the next multiple of 64 on                  |
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// The fixed part of a kernel's parameters. Strides count elements; the head-dim stride is 1.
struct LaunchParams {
  const void *q;      ///< [B, H, Sq, D]
  const void *k;      ///< [B, Hkv, Sk, D]
  const void *v;      ///< [B, Hkv, Sk, Dv]
  void *o;            ///< [B, H, Sq, Dv]
  float *lse;         ///< [B, H, Sq], natural log; null when not wanted
  int64_t qStride[3]; ///< batch, head, row
  int64_t kStride[3];
  int64_t vStride[3];
  int64_t oStride[3];
  int64_t lseStride[3];
  uint64_t seed;   ///< dropout seed, unless seedPointer is set
  uint64_t offset; ///< dropout offset, unless offsetPointer is set
  const uint64_t *seedPointer;
  const uint64_t *offsetPointer;
  void *workspace;
  int32_t batch;          ///< B
  int32_t heads;          ///< H
  int32_t kvHeads;        ///< Hkv
  int32_t group;          ///< H / Hkv
  int32_t queryLength;    ///< Sq, at most 2^30
  int32_t keyLength;      ///< Sk, at most 2^30
  int32_t qOffset;        ///< added to q in expressions (chunked prefill)
  uint32_t dropThreshold; ///< T = min(65535, round(65536 * p_drop)); kept iff r >= T
  float keepScale;        ///< 65536 / (65536 - T)
  int32_t mapped;         ///< bit n: the copy engine can read by the signature's n-th tensor map
};

/// Bytes that a captured tensor of `rank` dimensions takes in the parameters, and the bounds of one: address, strides
/// and extents.
constexpr size_t packedTensorBytes(int64_t rank) { return 8 + 16 * size_t(rank); }

/// A kernel with bounds of tensors has a second entry point that makes them, with this after the first one's name. It
/// takes the same parameters, and a warp makes the bounds of one tile. Where blocks claim tiles of work, the workspace
/// begins with the counter of the claims, in front of the bounds: that entry point sets it to 0. Where the kernel waits
/// for its bounds itself, it may start beside that entry point.
inline constexpr char boundsEntrySuffix[] = "_bounds";
inline constexpr int boundsBlockThreads = 256;
inline constexpr int workCounterBytes = 16;

static_assert(sizeof(LaunchParams) == 40 + 15 * 8 + 5 * 8 + 10 * 4);

/// Blocks in the grid of a persistent kernel with so many tiles of work (at least 1) on so many multiprocessors: a
/// block for each tile where there are as many multiprocessors, else one for each of them; but where blocks do not
/// claim tiles, at least two tiles for each block but the last. Every block has a tile.
constexpr int64_t persistentBlocks(int64_t tiles, int64_t multiprocessors, bool claims) {
  return tiles <= multiprocessors ? tiles : tiles < 2 * multiprocessors && !claims ? (tiles + 1) / 2 : multiprocessors;
}

} // namespace attune
#pragma GCC visibility pop
