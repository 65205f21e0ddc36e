//===- TensorMaps.h - A cache of TMA descriptors ----------------------------===//
//
// A kernel with TMA copies takes a tensor map of 128 opaque bytes for each operand and captured tensor that the kernel
// reads or writes by tiles. A tensor map depends only on address, extents and strides. An encoded map is therefore
// valid for every launch with equal values, even after the memory was freed and allocated again.
//
//     TensorMapCache cache;
//     int code = cache.get(TensorMapKey::of(place, 0, params), out, [&](const TensorMapKey &key, std::byte *to) {
//       return cuda->cuTensorMapEncodeTiled(to, ...);          // 0 is success
//     });
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>

namespace attune {

inline constexpr size_t tensorMapBytes = 128;
struct LaunchSizes;

/// The tensor that a map describes: dtype, rank, and the byte offset of the tensor's address, strides and extents in
/// the packed parameters.
struct TensorMapPlace {
  DType dtype;
  int rank;
  size_t offset;
  static TensorMapPlace of(const KernelSignature &signature, size_t map);
};

/// The cache key of a tensor map, among the maps of one kernel.
struct TensorMapKey {
  uint64_t map; ///< index in KernelSignature::tensorMaps
  uint64_t address;
  uint64_t dimensions[4]; ///< extents in elements, innermost first, each at least 1; dimensions past the rank are 1
  uint64_t strides[3];    ///< strides in bytes, from the second innermost dimension outwards

  /// The key of map number `map` in a launch. The packed tensors follow `params` in memory (attune/LaunchParams.h).
  static TensorMapKey of(const TensorMapPlace &place, size_t map, const LaunchParams &params);
  friend bool operator==(const TensorMapKey &, const TensorMapKey &) = default;
};

/// LaunchParams::mapped for a launch whose tensors are packed after `params`: bit n is set if TMA can access the tensor
/// of map n. The bit of a captured tensor's map, or of its gradient's map, is set if the last dimension has stride 1,
/// if the address and the other strides are multiples of 16 bytes, if no stride is negative or too large for TMA, and
/// if the last two dimensions cover the launch's queries (from qOffset on) and keys. A TMA box then holds the same
/// elements as loads of single elements. The bits of all other maps are always set.
int32_t mappedTensors(const KernelSignature &signature, const LaunchParams &params, const LaunchSizes &sizes);

/// A set-associative cache of the latest tensor maps of one kernel, at most `capacity` of them. Any number of threads
/// may call `get` at once. No thread waits: a thread that finds its set in use by another encodes the map itself.
class TensorMapCache {
public:
  static constexpr size_t ways = 4, sets = 64, capacity = ways * sets;

  /// Writes the map of `key` to `out`: the cached map, else the map that `encode(key, out)` writes. The cache keeps an
  /// encoded map if `encode` returned 0. Returns 0 for a cached map, else the result of `encode`. Allocates nothing.
  template <typename Encode> int get(const TensorMapKey &key, std::byte *out, Encode &&encode) {
    Set &set = all[hash(key) % sets];
    if (set.busy.exchange(true, std::memory_order_acquire))
      return encode(key, out);
    int code = 0;
    if (const Entry *held = set.find(key)) {
      std::memcpy(out, held->bytes, tensorMapBytes);
    } else if (code = encode(key, out); code == 0) {
      Entry &oldest = set.entries[set.next++ % ways];
      oldest.key = key;
      std::memcpy(oldest.bytes, out, tensorMapBytes);
    }
    set.busy.store(false, std::memory_order_release);
    return code;
  }

private:
  struct Entry {
    TensorMapKey key = {}; ///< an unused entry has dimensions of 0, which no real key has
    std::byte bytes[tensorMapBytes];
  };
  struct alignas(64) Set {
    std::atomic<bool> busy = false; ///< a try-lock that guards the other fields
    uint32_t next = 0;              ///< next % ways is the entry to replace next
    std::array<Entry, ways> entries = {};

    const Entry *find(const TensorMapKey &key) const {
      for (const Entry &entry : entries)
        if (entry.key == key)
          return &entry;
      return nullptr;
    }
  };

  static uint64_t hash(const TensorMapKey &key);

  std::array<Set, sets> all;
};

} // namespace attune
