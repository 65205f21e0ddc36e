//===- TensorMaps.h - A cache of TMA descriptors ----------------------------===//
//
// A kernel with TMA copies takes a tensor map of 128 opaque bytes for each operand and captured tensor that the kernel
// reads or writes by tiles. A tensor map depends only on address, extents and strides. An encoded map is therefore
// valid for every launch with equal values, even after the memory was freed and allocated again.
//
//     TensorMapCache cache;
//     int code = cache.get(key, out, [&](const map_key &key, void *to) {
//       return launcher_encode(cuda, map, &key, to, nullptr);          // 0 is success
//     });
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Launcher.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace attune {

/// A set-associative cache of the latest tensor maps of one kernel, at most `capacity` of them. Any number of threads
/// may call `get` at once. No thread waits: a thread that finds its set in use by another encodes the map itself.
class TensorMapCache {
public:
  static constexpr size_t ways = 4, sets = 64, capacity = ways * sets;

  /// Writes the map of `key` to `out`: the cached map, else the map that `encode(key, out)` writes. The cache keeps an
  /// encoded map if `encode` returned 0. Returns 0 for a cached map, else the result of `encode`. Allocates nothing.
  template <typename Encode> int get(const map_key &key, void *out, Encode &&encode) {
    Set &set = all[hash(key) % sets];
    if (set.busy.exchange(true, std::memory_order_acquire))
      return encode(key, out);
    int code = 0;
    if (const Entry *held = set.find(key)) {
      std::memcpy(out, held->bytes, tensor_map_bytes);
    } else if (code = encode(key, out); code == 0) {
      Entry &oldest = set.entries[set.next++ % ways];
      oldest.key = key;
      std::memcpy(oldest.bytes, out, tensor_map_bytes);
    }
    set.busy.store(false, std::memory_order_release);
    return code;
  }

private:
  struct Entry {
    map_key key = {}; ///< an unused entry has dimensions of 0, which no real key has
    std::byte bytes[tensor_map_bytes];
  };
  struct alignas(64) Set {
    std::atomic<bool> busy = false; ///< a try-lock that guards the other fields
    uint32_t next = 0;              ///< next % ways is the entry to replace next
    std::array<Entry, ways> entries = {};

    const Entry *find(const map_key &key) const {
      for (const Entry &entry : entries)
        if (std::memcmp(&entry.key, &key, sizeof key) == 0)
          return &entry;
      return nullptr;
    }
  };

  static uint64_t hash(const map_key &key) {
    // In a product of 64 bits the upper half depends on all bits of the factors, the lower half does not. The shift
    // mixes the upper half into the lower half before the next word.
    uint64_t mixed = 0;
    for (uint64_t word : std::bit_cast<std::array<uint64_t, sizeof key / 8>>(key)) {
      mixed = (mixed ^ word) * 0x9e3779b97f4a7c15u;
      mixed ^= mixed >> 32;
    }
    return mixed;
  }

  std::array<Set, sets> all;
};

} // namespace attune
