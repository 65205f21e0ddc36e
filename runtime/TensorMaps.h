//===- TensorMaps.h - Descriptors for TMA, made once ------------===//
//
// A kernel with TMA copies takes a tensor map of 128 opaque bytes for each operand and captured tensor that it reads or
// writes by tiles. What a map says is a pure function of address, extents and strides, so that one that was
// encoded once serves every launch with the same three, also after the memory was freed and allocated again.
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

/// What a map is of: elements, dimensions, and where the tensor is among the packed parameters, in bytes.
struct TensorMapPlace {
  DType dtype;
  int rank;
  size_t offset;
  static TensorMapPlace of(const KernelSignature &signature, size_t map);
};

/// What distinguishes the tensor maps of one kernel.
struct TensorMapKey {
  uint64_t map; ///< index in KernelSignature::tensorMaps
  uint64_t address;
  uint64_t dimensions[4]; ///< elements, from the inmost one on; at least 1, and 1 where the tensor has none
  uint64_t strides[3];    ///< bytes, of all but the inmost

  /// `params` with what is packed behind it (attune/LaunchParams.h).
  static TensorMapKey of(const TensorMapPlace &place, size_t map, const LaunchParams &params);
  friend bool operator==(const TensorMapKey &, const TensorMapKey &) = default;
};

/// LaunchParams::mapped for a launch whose tensors are packed behind `params`: a bit for each map of an operand, and of
/// a captured tensor, or the gradient of one, whose boxes hold what its elements do at all of the launch's queries and
/// keys. Its columns lie side by side, its address and other strides are multiples of 16 bytes, and its last two
/// dimensions cover the queries, from qOffset on, and the keys.
int32_t mappedTensors(const KernelSignature &signature, const LaunchParams &params, const LaunchSizes &sizes);

/// The latest tensor maps of one kernel, at most `capacity` of them. Any number of threads may call `get` at once: none
/// waits, one that finds its place taken by another encodes for itself.
class TensorMapCache {
public:
  static constexpr size_t ways = 4, sets = 64, capacity = ways * sets;

  /// Writes the map of `key` to `out`: a held one, or what `encode(key, out)` makes, which is held then if its result
  /// is 0. Returns that result, or 0. Allocates nothing.
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
    TensorMapKey key = {}; ///< dimensions of 0: empty
    std::byte bytes[tensorMapBytes];
  };
  struct alignas(64) Set {
    std::atomic<bool> busy = false; ///< guards the rest
    uint32_t next = 0;
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
