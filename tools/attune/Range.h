//===- Range.h - Uniform random elements -------------------------------------===//
#pragma once

#include "attune/DType.h"
#include "attune/Error.h"

#include <cstdint>
#include <string_view>

namespace attune::cli {

/// The LO..HI of --tensor bias=f32[8]:-1..1: each real number between the ends is as likely, of integers and bools both
/// ends, too.
struct Range {
  double low = 0, high = 0;

  /// Ends that `dtype` holds, in order. Errors say what is wrong with the text: "the range 3..1 is empty".
  static Expected<Range> parse(std::string_view text, DType dtype);

  /// Element `index` of the tensor with that seed: the same on every machine, before it is rounded to `dtype`.
  double draw(DType dtype, uint64_t seed, uint64_t index) const;
};

} // namespace attune::cli
