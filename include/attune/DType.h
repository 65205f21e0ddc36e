//===- DType.h - Element types ----------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// The largest head dim of Q and K, and of V. It is the head dim of the keys in multi-head latent attention: 512
/// columns of values and 64 columns of positions.
inline constexpr int maxHeadDim = 576;

/// Element type of a tensor or a scalar. Inside expressions f16 and bf16 values are promoted to f32.
enum class DType : uint8_t { F32, F16, BF16, I32, I64, Bool };

inline constexpr DType f32 = DType::F32;
inline constexpr DType f16 = DType::F16;
inline constexpr DType bf16 = DType::BF16;
inline constexpr DType i32 = DType::I32;
inline constexpr DType i64 = DType::I64;
inline constexpr DType boolean = DType::Bool;

/// Bytes of one element in memory (bool is one byte).
constexpr size_t byteSize(DType type) {
  switch (type) {
  case DType::F16:
  case DType::BF16:
    return 2;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::I64:
    return 8;
  case DType::Bool:
    return 1;
  }
  return 0;
}

constexpr bool isFloat(DType type) { return type == DType::F32 || type == DType::F16 || type == DType::BF16; }

/// "f32", "f16", "bf16", "i32", "i64", "bool".
constexpr std::string_view name(DType type) {
  switch (type) {
  case DType::F32:
    return "f32";
  case DType::F16:
    return "f16";
  case DType::BF16:
    return "bf16";
  case DType::I32:
    return "i32";
  case DType::I64:
    return "i64";
  case DType::Bool:
    return "bool";
  }
  return "";
}

constexpr std::optional<DType> parseDType(std::string_view text) {
  for (DType type : {DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64, DType::Bool})
    if (name(type) == text)
      return type;
  return std::nullopt;
}

} // namespace attune
#pragma GCC visibility pop
