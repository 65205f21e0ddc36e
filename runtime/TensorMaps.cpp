#include "runtime/TensorMaps.h"

#include <algorithm>
#include <bit>
#include <optional>

using namespace attune;

namespace {

/// A captured tensor as it is packed.
struct PackedTensor {
  DType dtype;
  int rank;
  uint64_t address;
  int64_t strides[4], extents[4];
};

/// The parameter that a map is of; null for q, k, v and o.
const TensorParam *capturedParam(const KernelSignature &signature, size_t map) {
  for (const TensorParam &tensor : signature.tensors)
    if (tensor.name == signature.tensorMaps[map].tensor)
      return &tensor;
  return nullptr;
}

std::optional<PackedTensor> capturedBy(const KernelSignature &signature, size_t map, const LaunchParams &params) {
  const TensorParam *captured = capturedParam(signature, map);
  if (!captured)
    return std::nullopt;
  const auto *cursor =
      reinterpret_cast<const std::byte *>(&params) + sizeof(LaunchParams) + 8 * signature.scalars.size();
  for (const TensorParam *before = signature.tensors.data(); before != captured; ++before)
    cursor += packedTensorBytes(before->rank);
  PackedTensor packed = {.dtype = captured->dtype, .rank = captured->rank, .address = 0, .strides = {}, .extents = {}};
  const size_t bytes = 8 * size_t(captured->rank);
  std::memcpy(&packed.address, cursor, 8);
  std::memcpy(packed.strides, cursor + 8, bytes);
  std::memcpy(packed.extents, cursor + 8 + bytes, bytes);
  return packed;
}

bool isMapped(const PackedTensor &tensor, const LaunchParams &params) {
  constexpr int64_t greatest = (int64_t(1) << 40) - 1; // of a stride in bytes
  const int64_t bytes = int64_t(byteSize(tensor.dtype)), queries = tensor.extents[tensor.rank - 2],
                keys = tensor.extents[tensor.rank - 1];
  if (tensor.address % 16 || tensor.strides[tensor.rank - 1] != 1 || params.keyLength > keys || params.qOffset < 0 ||
      int64_t(params.qOffset) + params.queryLength > queries)
    return false;
  return std::all_of(tensor.strides, tensor.strides + tensor.rank - 1, [&](int64_t stride) {
    return stride >= 0 && stride <= greatest / bytes && stride * bytes % 16 == 0;
  });
}

} // namespace

bool attune::isCaptured(const KernelSignature &signature, size_t map) { return capturedParam(signature, map); }

DType attune::elementOf(const KernelSignature &signature, size_t map) {
  const TensorParam *captured = capturedParam(signature, map);
  return captured ? captured->dtype : signature.dtype;
}

int32_t attune::mappedTensors(const KernelSignature &signature, const LaunchParams &params) {
  uint32_t mapped = 0;
  for (size_t map = 0; map < signature.tensorMaps.size(); ++map) {
    const std::optional<PackedTensor> captured = capturedBy(signature, map, params);
    if (!captured || isMapped(*captured, params))
      mapped |= 1u << map;
  }
  return int32_t(mapped);
}

TensorMapKey TensorMapKey::of(const KernelSignature &signature, size_t map, const LaunchParams &params) {
  TensorMapKey key = {.map = map, .address = 0, .dimensions = {1, 1, 1, 1}, .strides = {}};
  int64_t strides[3] = {}; // elements, from the row's on
  int64_t bytes = 2;
  if (const std::optional<PackedTensor> captured = capturedBy(signature, map, params)) {
    bytes = int64_t(byteSize(captured->dtype));
    key.address = captured->address;
    for (int i = 0; i < captured->rank; ++i)
      key.dimensions[i] = uint64_t(captured->extents[captured->rank - 1 - i]);
    for (int i = 1; i < captured->rank; ++i)
      strides[i - 1] = captured->strides[captured->rank - 1 - i];
  } else {
    const char which = signature.tensorMaps[map].tensor.front();
    const bool keys = which == 'k' || which == 'v';
    const int64_t *stride = which == 'q'   ? params.qStride
                            : which == 'k' ? params.kStride
                            : which == 'v' ? params.vStride
                                           : params.oStride;
    const void *address = which == 'q' ? params.q : which == 'k' ? params.k : which == 'v' ? params.v : params.o;
    const int64_t extents[] = {which == 'v' || which == 'o' ? signature.headDimV : signature.headDim,
                               keys ? params.keyLength : params.queryLength, keys ? params.kvHeads : params.heads,
                               params.batch};
    key.address = reinterpret_cast<uint64_t>(address);
    for (int i = 0; i < 4; ++i)
      key.dimensions[i] = uint64_t(std::max<int64_t>(extents[i], 1));
    for (int i = 0; i < 3; ++i)
      strides[i] = stride[2 - i];
  }
  // The stride of a dimension of one element is never used, but must be valid.
  for (int i = 0; i < 3; ++i)
    key.strides[i] =
        key.dimensions[i + 1] == 1 ? (bytes * key.dimensions[0] + 15) / 16 * 16 : uint64_t(bytes * strides[i]);
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
