//===- Elements.h - Elements of a tensor as expressions see them ------------===//
#pragma once

#include "attune/Tensor.h"
#include "dsl/Arithmetic.h"

namespace attune::dsl {

/// The element at `offset` (in elements) of a tensor of f32, f16 or bf16.
inline float realAt(const Tensor &tensor, int64_t offset) {
  return tensor.dtype == DType::F32   ? tensor.as<float>()[offset]
         : tensor.dtype == DType::F16 ? fromF16(tensor.as<uint16_t>()[offset])
                                      : fromBf16(tensor.as<uint16_t>()[offset]);
}

/// The element at `offset` (in elements) of a tensor of i32, i64 or bool.
inline int64_t integerAt(const Tensor &tensor, int64_t offset) {
  return tensor.dtype == DType::I32   ? tensor.as<int32_t>()[offset]
         : tensor.dtype == DType::I64 ? tensor.as<int64_t>()[offset]
                                      : tensor.as<uint8_t>()[offset] != 0;
}

} // namespace attune::dsl
