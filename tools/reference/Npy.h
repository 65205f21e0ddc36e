//===- Npy.h - Tensors on the host and NumPy's file format -------------------===//
//
// HostTensor is a dense row-major tensor of any attune dtype; readNpy and writeNpy move it to and from
// NumPy's .npy files, so that anyone can make inputs and check outputs in Python.
//
//     HostTensor q = HostTensor::random(bf16, {1, 2, 128, 64}, /*seed=*/1);
//     if (auto written = writeNpy("q.npy", q); !written)     // widened to '<f4'
//       return report(written.error());
//     Expected<HostTensor> slopes = readNpy("slopes.npy");
//
// | .npy descr         | dtype when read | written from                      |
// |--------------------|-----------------|-----------------------------------|
// | '<f4'              | f32             | f32; f16 and bf16 by default      |
// | '<f2'              | f16             | f16 with NarrowFloats::Keep       |
// | '<f8'              | f32 (rounded)   | writeNpy of doubles               |
// | '<i4', '<i8'       | i32, i64        | i32, i64                          |
// | '|b1'              | bool            | bool                              |
// | '|V2', '<V2', 'V2' | bf16 (on demand)| bf16 with NarrowFloats::Keep      |
//
// Format versions 1.0, 2.0 and 3.0, C order, little endian; anything else is an error that says what
// to do in NumPy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/Error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace attune::reference {

/// `value` rounded to nearest even in one step, as the bits of `type` (f16 or bf16).
uint16_t narrowBits(DType type, double value);
/// The exact value of f16 or bf16 bits.
float widenBits(DType type, uint16_t bits);
/// `value` rounded to `type` (f32, f16 or bf16) and widened again.
float roundTo(DType type, float value);

/// As std::allocator, but what a vector grows by is left as memory has it: pages of gigabytes are first touched by the
/// threads that fill them.
template <typename T> struct UninitializedAllocator : std::allocator<T> {
  template <typename U> struct rebind {
    using other = UninitializedAllocator<U>;
  };
  template <typename U> void construct(U *at) { ::new (static_cast<void *>(at)) U; }
  template <typename U, typename... Arguments> void construct(U *at, Arguments &&...arguments) {
    ::new (static_cast<void *>(at)) U(std::forward<Arguments>(arguments)...);
  }
};

/// A dense row-major tensor in host memory. bool elements are bytes 0 or 1. Rank 0 holds one element.
struct HostTensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<std::byte, UninitializedAllocator<std::byte>> data;

  static HostTensor zeros(DType dtype, std::vector<int64_t> shape);
  /// For what is written as a whole afterwards.
  static HostTensor uninitialized(DType dtype, std::vector<int64_t> shape);
  /// Floats are rounded to nearest even, integers truncated, bool is value != 0.
  /// Precondition: values.size() is the product of `shape`.
  static HostTensor fromDoubles(DType dtype, std::vector<int64_t> shape, std::span<const double> values);
  static HostTensor fromInts(DType dtype, std::vector<int64_t> shape, std::span<const int64_t> values);
  /// N(0, 1) for floats, uniform 0 to 7 for integers, fair for bool. Element i depends on (seed, i)
  /// alone and uses only operations that IEEE 754 defines exactly: the same bits on every machine. On all cores, some
  /// nanoseconds an element and core.
  static HostTensor random(DType dtype, std::vector<int64_t> shape, uint64_t seed);

  /// The number of elements.
  int64_t size() const;
  size_t bytes() const { return data.size(); }

  /// Element i in row-major order; integers and bool convert to double.
  double at(int64_t i) const;
  /// Element i as an integer; floats truncate. Exact for i64.
  int64_t intAt(int64_t i) const;
  void set(int64_t i, double value);
  void setInt(int64_t i, int64_t value);

  std::vector<double> doubles() const;
  std::vector<float> floats() const;
  /// The same values in another dtype, rounded as in fromDoubles.
  HostTensor converted(DType to) const;

  template <typename T> T *as() { return reinterpret_cast<T *>(data.data()); }
  template <typename T> const T *as() const { return reinterpret_cast<const T *>(data.data()); }
};

/// A well-mixed 64-bit number from (seed, index), Philox4x32-10; what `random` is made from.
uint64_t randomBits(uint64_t seed, uint64_t index, uint32_t stream = 0);

/// What 2-byte void elements ('V2') mean.
enum class VoidElements : uint8_t { Reject, BFloat16 };
/// Whether float64 is rounded to f32, or an error where no more than f32 is meant.
enum class DoubleElements : uint8_t { Round, Reject };
/// Whether f16 and bf16 are written as float32 or as they are ('<f2', '|V2').
enum class NarrowFloats : uint8_t { Widen, Keep };

/// The tensor in `bytes`; `name` stands for the file in errors.
Expected<HostTensor> parseNpy(std::span<const std::byte> bytes, const std::string &name,
                              VoidElements voids = VoidElements::Reject,
                              DoubleElements doubles = DoubleElements::Round);
Expected<HostTensor> readNpy(const std::string &path, VoidElements voids = VoidElements::Reject,
                             DoubleElements doubles = DoubleElements::Round);

/// The bytes of a version 1.0 file (2.0 where the header does not fit).
std::vector<std::byte> formatNpy(const HostTensor &tensor, NarrowFloats narrow = NarrowFloats::Widen);

} // namespace attune::reference
