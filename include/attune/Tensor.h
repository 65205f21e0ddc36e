//===- Tensor.h - A view of memory that the caller owns ---------------------===//
//
//     Tensor q = Tensor::contiguous(pointer, bf16, {B, H, S, D}, Device::cuda(0));
//     Tensor q = Tensor::contiguous(pointer, bf16, {B, S, H, D}, Device::cuda(0)).permuted({0, 2, 1, 3});
//     Expected<Tensor> q = fromDLPack(managed);      // from PyTorch, JAX, CuPy, NumPy
//
// A view never owns, allocates or copies. The memory has to outlive every launch that uses the view,
// which for a CUDA stream means: until the work on the stream is done. A Tensor is a plain value; copies
// are independent and may be used from any thread.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/Error.h"

#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// The device on which a tensor lies.
struct Device {
  enum class Kind : uint8_t { Cpu, Cuda };

  Kind kind = Kind::Cpu;
  int ordinal = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int ordinal = 0) { return {Kind::Cuda, ordinal}; }

  /// "cpu" or "cuda:0".
  std::string text() const;

  friend constexpr bool operator==(const Device &, const Device &) = default;
};

/// A strided view. Strides count elements, may be 0 (a broadcast dimension) or negative, and are ignored
/// along a dimension of extent 1. Const memory may be viewed: a launch writes only to outputs, such as `o` and `lse`.
struct Tensor {
  static constexpr int maxRank = 8;

  void *data = nullptr;
  DType dtype = DType::F32;
  int rank = 0;
  Device device = {};
  int64_t shape[maxRank] = {};
  int64_t strides[maxRank] = {};

  /// A row-major view: the last dimension has stride 1. At most maxRank dimensions.
  static Tensor contiguous(const void *data, DType dtype, std::span<const int64_t> shape, Device device = {});
  static Tensor contiguous(const void *data, DType dtype, std::initializer_list<int64_t> shape, Device device = {}) {
    return contiguous(data, dtype, std::span<const int64_t>(shape.begin(), shape.size()), device);
  }

  /// A view with the given strides, in elements; as many as dimensions.
  static Tensor strided(const void *data, DType dtype, std::span<const int64_t> shape, std::span<const int64_t> strides,
                        Device device = {});
  static Tensor strided(const void *data, DType dtype, std::initializer_list<int64_t> shape,
                        std::initializer_list<int64_t> strides, Device device = {}) {
    return strided(data, dtype, std::span<const int64_t>(shape.begin(), shape.size()),
                   std::span<const int64_t>(strides.begin(), strides.size()), device);
  }

  /// The same memory with its dimensions reordered: dimension i of the result is dimension order[i] of
  /// this view. {0, 2, 1, 3} turns [B, S, H, D] into [B, H, S, D].
  Tensor permuted(std::initializer_list<int> order) const;

  /// The same memory repeated `extent` times along dimension `dim`, whose extent must be 1.
  Tensor broadcast(int dim, int64_t extent) const;

  /// Product of the extents (1 for rank 0).
  int64_t elements() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i)
      count *= shape[i];
    return count;
  }

  template <typename T> T *as() const { return static_cast<T *>(data); }

  /// "bf16[2, 8, 1024, 128] on cuda:0".
  std::string text() const;
};

/// The view that a DLPack `DLManagedTensor` describes (version 0.x ABI; the capsule "dltensor"). Does not
/// take ownership and does not call the deleter. Errors: null, an element type attune has no name for,
/// more than one lane, a device that is neither CPU nor CUDA, more than maxRank dimensions.
Expected<Tensor> fromDLPack(const void *managedTensor);

/// As fromDLPack for a `DLManagedTensorVersioned` (DLPack 1.x; the capsule "dltensor_versioned"). A major
/// version other than 1 is an error.
Expected<Tensor> fromDLPackVersioned(const void *managedTensor);

} // namespace attune
#pragma GCC visibility pop
