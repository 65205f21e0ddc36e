//===- Normalisers.cpp - The normalisers that come with attune --------------===//
#include "attune/Normaliser.h"

#include <fmt/format.h>
#include <limits>

namespace attune {

std::string_view name(Reduction reduction) { return reduction == Reduction::Max ? "max" : "sum"; }

namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

} // namespace

/// A row whose keys are all hidden so far has m = -inf: its exponents must not become NaN, and l = 0 says that it has
/// seen no key.
Normaliser normalisers::softmax() {
  return {.name = "softmax",
          .statistics = {{"m", Reduction::Max, hidden}, {"l", Reduction::Sum, 0}},
          .base = "m == -inf ? 0 : m",
          .rescale = "exp(m - base)",
          .p = "exp(x - base)",
          .divisor = "l",
          .lse = "l == 0 ? -inf : m + log(l)"};
}

/// A row without a key leaves the sink out, whose exponential alone may be too small to divide by. With one, l is at
/// least 1. The exponential may be infinite: then O is 0, as it has to be.
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
