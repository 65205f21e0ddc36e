#include "runtime/TensorMaps.h"

#include <algorithm>
#include <bit>

using namespace attune;

TensorMapKey TensorMapKey::of(const KernelSignature &signature, size_t map, const LaunchParams &params) {
  const char which = signature.tensorMaps[map].tensor.front();
  const bool keys = which == 'k' || which == 'v';
  const int64_t *stride = which == 'q' ? params.qStride : which == 'k' ? params.kStride : which == 'v' ? params.vStride : params.oStride;
  const void *address = which == 'q' ? params.q : which == 'k' ? params.k : which == 'v' ? params.v : params.o;
  const int64_t extent[] = {which == 'v' || which == 'o' ? signature.headDimV : signature.headDim,
                            keys ? params.keyLength : params.queryLength, keys ? params.kvHeads : params.heads, params.batch};
  TensorMapKey key = {.map = map, .address = reinterpret_cast<uint64_t>(address), .dimensions = {}, .strides = {}};
  for (int i = 0; i < 4; ++i)
    key.dimensions[i] = uint64_t(std::max<int64_t>(extent[i], 1));
  // The stride of a dimension of one element is never used, but must be valid.
  for (int i = 0; i < 3; ++i)
    key.strides[i] = key.dimensions[i + 1] == 1 ? (2 * key.dimensions[0] + 15) / 16 * 16 : uint64_t(2 * stride[2 - i]);
  return key;
}

uint64_t TensorMapCache::hash(const TensorMapKey &key) {
  // The bits of a product's upper half depend on all bits below: each word is mixed in before the next multiplication.
  const auto words = std::bit_cast<std::array<uint64_t, sizeof(TensorMapKey) / 8>>(key);
  uint64_t mixed = 0;
  for (uint64_t word : words) {
    mixed = (mixed ^ word) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 32;
  }
  return mixed;
}
