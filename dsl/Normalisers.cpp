//===- Normalisers.cpp - The normalisers that come with attune --------------===//
#include "attune/Normaliser.h"

#include <fmt/format.h>
#include <limits>

namespace attune {

std::string_view name(Reduction reduction) { return reduction == Reduction::Max ? "max" : "sum"; }

namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

} // namespace

/// As long as all keys of a row are masked, m is -inf. `base` is then 0, so that exponents do not become NaN, and l = 0
/// marks the row as one without a visible key.
Normaliser normalisers::softmax() {
  return {.name = "softmax",
          .statistics = {{"m", Reduction::Max, hidden}, {"l", Reduction::Sum, 0}},
          .base = "m == -inf ? 0 : m",
          .rescale = "exp(m - base)",
          .p = "exp(x - base)",
          .divisor = "l",
          .lse = "l == 0 ? -inf : m + log(l)"};
}

/// A row without a visible key (l = 0) has no sink term in its divisor: the exponential of the sink alone may be too
/// small to divide by. In a row with a visible key l is at least 1. If the exponential of the sink is infinite, O is 0,
/// which is the correct limit.
Normaliser normalisers::softmaxWithSink(std::string sinks) {
  Normaliser result = softmax();
  result.name = "softmax_sink";
  result.divisor = fmt::format("l + exp({}[h] - (l == 0 ? inf : m))", sinks);
  result.tensors = {{std::move(sinks), f32, 1}};
  return result;
}

Normaliser normalisers::sigmoid() { return {.name = "sigmoid", .p = "sigmoid(x)"}; }

Normaliser normalisers::none() { return {.name = "none", .p = "x == -inf ? 0 : x"}; }

Expected<Normaliser> normalisers::named(std::string_view name, const std::string &sinks) {
  if (!sinks.empty() && name != "softmax")
    return Error{fmt::format("normaliser {} has no sink; leave out \"{}\", or use softmax", name, sinks)};
  if (name == "softmax")
    return sinks.empty() ? softmax() : softmaxWithSink(sinks);
  if (name == "sigmoid")
    return sigmoid();
  if (name == "none")
    return none();
  return Error{fmt::format("normaliser \"{}\" is not one of softmax, sigmoid and none", name)};
}

} // namespace attune
