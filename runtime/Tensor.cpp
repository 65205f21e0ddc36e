#include "attune/Tensor.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

using namespace attune;

std::string Device::text() const { return kind == Kind::Cpu ? "cpu" : fmt::format("cuda:{}", ordinal); }

Tensor Tensor::contiguous(const void *data, DType dtype, std::span<const int64_t> shape, Device device) {
  assert(shape.size() <= maxRank && "a tensor has at most 8 dimensions");
  Tensor tensor;
  tensor.data = const_cast<void *>(data);
  tensor.dtype = dtype;
  tensor.rank = int(shape.size());
  tensor.device = device;
  int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return tensor;
}

Tensor Tensor::strided(const void *data, DType dtype, std::span<const int64_t> shape, std::span<const int64_t> strides,
                       Device device) {
  assert(shape.size() == strides.size() && "a tensor has as many strides as dimensions");
  Tensor tensor = contiguous(data, dtype, shape, device);
  std::copy(strides.begin(), strides.end(), tensor.strides);
  return tensor;
}

Tensor Tensor::permuted(std::initializer_list<int> order) const {
  assert(int(order.size()) == rank && "a permutation names every dimension once");
  Tensor result = *this;
  int to = 0;
  for (int from : order) {
    assert(from >= 0 && from < rank);
    result.shape[to] = shape[from];
    result.strides[to] = strides[from];
    ++to;
  }
  return result;
}

Tensor Tensor::broadcast(int dim, int64_t extent) const {
  assert(dim >= 0 && dim < rank && shape[dim] == 1 && "only a dimension of extent 1 broadcasts");
  Tensor result = *this;
  result.shape[dim] = extent;
  result.strides[dim] = 0;
  return result;
}

std::string Tensor::text() const {
  return fmt::format("{}[{}] on {}", attune::name(dtype), fmt::join(shape, shape + rank, ", "), device.text());
}

//===----------------------------------------------------------------------===//
// Conversion from DLPack tensors
//===----------------------------------------------------------------------===//

// The structs and enumerators of dlpack.h, https://dmlc.github.io/dlpack/latest/c_api.html
namespace {
struct DLTensor {
  void *data;
  int32_t deviceType;
  int32_t deviceId;
  int32_t ndim;
  uint8_t typeCode;
  uint8_t bits;
  uint16_t lanes;
  const int64_t *shape;
  const int64_t *strides; // in elements; null means dense row-major
  uint64_t byteOffset;
};

struct DLManagedTensor {
  DLTensor tensor;
  void *context;
  void (*deleter)(DLManagedTensor *);
};

struct DLManagedTensorVersioned {
  uint32_t major;
  uint32_t minor;
  void *context;
  void (*deleter)(DLManagedTensorVersioned *);
  uint64_t flags;
  DLTensor tensor;
};

enum DLDeviceType { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLCUDAManaged = 13 };
enum DLTypeCode { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6 };
} // namespace

static std::optional<DType> dtypeOf(int code, int bits) {
  switch (code) {
  case kDLInt:
    return bits == 32 ? std::optional(DType::I32) : bits == 64 ? std::optional(DType::I64) : std::nullopt;
  case kDLFloat:
    return bits == 32 ? std::optional(DType::F32) : bits == 16 ? std::optional(DType::F16) : std::nullopt;
  case kDLBfloat:
    return bits == 16 ? std::optional(DType::BF16) : std::nullopt;
  case kDLBool:
    return bits == 8 ? std::optional(DType::Bool) : std::nullopt;
  default:
    return std::nullopt;
  }
}

static std::string dlpackTypeName(int code, int bits) {
  switch (code) {
  case kDLInt:
    return fmt::format("int{}", bits);
  case kDLUInt:
    return fmt::format("uint{}", bits);
  case kDLFloat:
    return fmt::format("float{}", bits);
  case kDLBfloat:
    return fmt::format("bfloat{}", bits);
  case kDLComplex:
    return fmt::format("complex{}", bits);
  case kDLBool:
    return fmt::format("bool{}", bits);
  default:
    return fmt::format("of type code {} with {} bits", code, bits);
  }
}

static Expected<Tensor> viewOf(const DLTensor &from) {
  Device device;
  switch (from.deviceType) {
  case kDLCPU:
  case kDLCUDAHost:
    device = Device::cpu();
    break;
  case kDLCUDA:
  case kDLCUDAManaged:
    device = Device::cuda(from.deviceId);
    break;
  default:
    return Error{fmt::format("the DLPack tensor is on a device of type {}; move it to the CPU or a CUDA device",
                             from.deviceType)};
  }
  if (from.lanes != 1)
    return Error{fmt::format("the DLPack tensor has {} lanes, required is 1; add a dimension instead", from.lanes)};
  std::optional<DType> dtype = dtypeOf(from.typeCode, from.bits);
  if (!dtype)
    return Error{fmt::format("the DLPack tensor is {}; convert it to f32, f16, bf16, i32, i64 or bool",
                             dlpackTypeName(from.typeCode, from.bits))};
  if (from.ndim < 0 || from.ndim > Tensor::maxRank)
    return Error{
        fmt::format("the DLPack tensor has {} dimensions, the most is {}; reshape it", from.ndim, Tensor::maxRank)};
  if (from.ndim > 0 && !from.shape)
    return Error{"the DLPack tensor has dimensions but no shape; it was not filled in by its producer"};
  const void *data = from.data ? static_cast<const char *>(from.data) + from.byteOffset : nullptr;
  std::span<const int64_t> shape(from.shape, size_t(from.ndim));
  if (!from.strides)
    return Tensor::contiguous(data, *dtype, shape, device);
  return Tensor::strided(data, *dtype, shape, std::span<const int64_t>(from.strides, size_t(from.ndim)), device);
}

Expected<Tensor> attune::fromDLPack(const void *managedTensor) {
  if (!managedTensor)
    return Error{"the DLPack tensor is null; pass the pointer that the capsule holds"};
  return viewOf(static_cast<const DLManagedTensor *>(managedTensor)->tensor);
}

Expected<Tensor> attune::fromDLPackVersioned(const void *managedTensor) {
  if (!managedTensor)
    return Error{"the DLPack tensor is null; pass the pointer that the capsule holds"};
  const auto *managed = static_cast<const DLManagedTensorVersioned *>(managedTensor);
  if (managed->major != 1)
    return Error{fmt::format("the DLPack tensor has version {}.{}, required is 1.x; ask its producer for that version",
                             managed->major, managed->minor)};
  return viewOf(managed->tensor);
}
