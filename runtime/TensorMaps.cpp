#include "runtime/TensorMaps.h"
#include "runtime/Launch.h"

#include <algorithm>
#include <bit>
#include <cassert>

using namespace attune;

namespace {

/// A tensor read back from the packed parameters. Tensors with a map have at most four dimensions; reading the metadata
/// checks that.
struct PackedTensor {
  DType dtype = DType::F32;
  int rank = 0;
  uint64_t address = 0;
  int64_t strides[4] = {}, extents[4] = {};
};

PackedTensor packedTensor(const TensorMapPlace &place, const LaunchParams &params) {
  PackedTensor packed;
  packed.dtype = place.dtype;
  packed.rank = place.rank;
  const auto *cursor = reinterpret_cast<const std::byte *>(&params) + place.offset;
  const size_t bytes = 8 * size_t(place.rank);
  std::memcpy(&packed.address, cursor, 8);
  std::memcpy(packed.strides, cursor + 8, bytes);
  std::memcpy(packed.extents, cursor + 8 + bytes, bytes);
  return packed;
}

bool isMapped(const PackedTensor &tensor, const LaunchParams &params, const LaunchSizes &sizes) {
  constexpr int64_t greatest = (int64_t(1) << 40) - 1; // the greatest stride of a tensor map, in bytes
  const int64_t bytes = int64_t(byteSize(tensor.dtype)), queries = tensor.extents[tensor.rank - 2],
                keys = tensor.extents[tensor.rank - 1];
  if (tensor.address % 16 || tensor.strides[tensor.rank - 1] != 1 || sizes.keyLength > keys || params.qOffset < 0 ||
      params.qOffset + sizes.queryLength > queries)
    return false;
  return std::all_of(tensor.strides, tensor.strides + tensor.rank - 1, [&](int64_t stride) {
    return stride >= 0 && stride <= greatest / bytes && stride * bytes % 16 == 0;
  });
}

} // namespace

TensorMapPlace TensorMapPlace::of(const KernelSignature &signature, size_t map) {
  const TensorMapParam &param = signature.tensorMaps[map];
  for (size_t i = 0; i < signature.operands.size(); ++i)
    if (const OperandParam &operand = signature.operands[i]; !param.captured && operand.name == param.tensor)
      return {operand.dtype, operand.rank(), signature.operandOffset(i)};
  for (size_t i = 0; i < signature.tensors.size(); ++i)
    if (const TensorParam &tensor = signature.tensors[i]; param.captured && tensor.name == param.tensor)
      return {tensor.dtype, tensor.rank, signature.tensorOffset(i)};
  assert(false && "a tensor map is of an operand or a captured tensor");
  return {};
}

int32_t attune::mappedTensors(const KernelSignature &signature, const LaunchParams &params, const LaunchSizes &sizes) {
  uint32_t mapped = 0;
  for (size_t map = 0; map < signature.tensorMaps.size(); ++map)
    if (!signature.tensorMaps[map].isOptional() ||
        isMapped(packedTensor(TensorMapPlace::of(signature, map), params), params, sizes))
      mapped |= 1u << map;
  return int32_t(mapped);
}

TensorMapKey TensorMapKey::of(const TensorMapPlace &place, size_t map, const LaunchParams &params) {
  const PackedTensor tensor = packedTensor(place, params);
  const int64_t bytes = int64_t(byteSize(tensor.dtype));
  TensorMapKey key = {.map = map, .address = tensor.address, .dimensions = {1, 1, 1, 1}, .strides = {}};
  for (int i = 0; i < tensor.rank; ++i)
    key.dimensions[i] = uint64_t(std::max<int64_t>(tensor.extents[tensor.rank - 1 - i], 1));
  for (int i = 0; i < 3; ++i)
    // A dimension of extent 1 has no meaningful stride, but cuTensorMapEncodeTiled requires a valid one.
    key.strides[i] = key.dimensions[i + 1] == 1 ? (bytes * key.dimensions[0] + 15) / 16 * 16
                                                : uint64_t(bytes * tensor.strides[tensor.rank - 2 - i]);
  return key;
}

uint64_t TensorMapCache::hash(const TensorMapKey &key) {
  // In a product of 64 bits the upper half depends on all bits of the factors, the lower half does not. The shift mixes
  // the upper half into the lower half before the next word.
  const auto words = std::bit_cast<std::array<uint64_t, sizeof(TensorMapKey) / 8>>(key);
  uint64_t mixed = 0;
  for (uint64_t word : words) {
    mixed = (mixed ^ word) * 0x9e3779b97f4a7c15u;
    mixed ^= mixed >> 32;
  }
  return mixed;
}
