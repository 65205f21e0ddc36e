//===- Range.cpp - Uniform random elements -----------------------------------===//

#include "tools/attune/Range.h"

#include "tools/reference/Npy.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>

using namespace attune;
using namespace attune::cli;

/// What the ends may be. A draw has 53 bits: ranges of i64 are so narrow that it reaches each integer.
static Range widest(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return {-65504, 65504};
  case DType::F32:
  case DType::BF16: // its largest number is 1 - 2^-8 times that of f32; draws beyond it would round to infinity
    return {-0x1.fep127, 0x1.fep127};
  case DType::I32:
    return {-0x1p31, 0x1p31 - 1};
  case DType::I64:
    return {-0x1p52, 0x1p52 - 1};
  case DType::Bool:
    break;
  }
  return {0, 1};
}

static std::optional<double> number(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) ? std::optional(value)
                                                                                          : std::nullopt;
}

Expected<Range> Range::parse(std::string_view text, DType dtype) {
  const size_t dots = text.find("..");
  const std::optional<double> low = number(text.substr(0, dots));
  const std::optional<double> high = dots == std::string_view::npos ? std::nullopt : number(text.substr(dots + 2));
  if (!low || !high)
    return Error{fmt::format("'{}' is not a range of two numbers, such as -1..1", text)};
  if (*low > *high)
    return Error{fmt::format("the range {} is empty; its lesser end comes first", text)};
  if (!isFloat(dtype) && (*low != std::floor(*low) || *high != std::floor(*high)))
    return Error{fmt::format("the range {} ends at fractions, but {} holds whole numbers", text, name(dtype))};
  if (const Range all = widest(dtype); *low < all.low || *high > all.high)
    return Error{fmt::format("the range {} goes beyond {:.16g}..{:.16g}, the widest of {}", text, all.low, all.high,
                             name(dtype))};
  return Range{*low, *high};
}

double Range::draw(DType dtype, uint64_t seed, uint64_t index) const {
  const double unit = double(reference::randomBits(seed, index) >> 11) * 0x1p-53; // [0, 1)
  return isFloat(dtype) ? low + unit * (high - low) : low + std::floor(unit * (high - low + 1));
}
