//===- Scalar.h - What --scalar gives ----------------------------------------===//
//
//     --scalar cap=30.5          f32
//     --scalar W=128             i32, as a whole number has no point and no exponent
//     --scalar n=i64:128         the dtype that is named: f32, i32, i64 or bool
//
// Where the variant declares the scalar, as a JSON file does, its dtype counts, and the value has to be one of it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/attune.h"

#include <optional>
#include <string>
#include <vector>

namespace attune::cli {

struct ScalarFlag {
  std::string name;
  std::optional<DType> dtype = {}; ///< where it is named
  double value = 0;
  bool whole = false; ///< written as a whole number

  static Expected<ScalarFlag> parse(const std::string &text);
  /// In an expression of text.
  DType type() const { return dtype.value_or(whole ? DType::I32 : DType::F32); }
  /// Whether a scalar that is declared as `declared` can have it.
  Expected<void> fits(DType declared) const;
};

/// Divisions of integers in the variant's text of which one is a scalar that is i32 for its spelling alone: `1 / W` with
/// W=128 is 0. One warning each scalar.
std::vector<std::string> divisionWarnings(const Variant &variant, const std::vector<ScalarFlag> &scalars);

} // namespace attune::cli
