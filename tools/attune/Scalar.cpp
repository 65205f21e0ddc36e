//===- Scalar.cpp - What --scalar gives ---------------------------------------===//

#include "tools/attune/Scalar.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>

using namespace attune;
using namespace attune::cli;

static bool isWhole(const std::string &text) {
  const size_t first = text.starts_with('-') || text.starts_with('+');
  return text.size() > first &&
         std::all_of(text.begin() + long(first), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

Expected<ScalarFlag> ScalarFlag::parse(const std::string &text) {
  const size_t equals = text.find('=');
  const Error wrong{fmt::format(
      "--scalar {} is not NAME=VALUE or NAME=DTYPE:VALUE; write for example cap=30.5, W=128 or n=i64:128", text)};
  if (equals == std::string::npos || equals == 0)
    return wrong;
  ScalarFlag flag = {.name = text.substr(0, equals)};
  std::string value = text.substr(equals + 1);
  if (const size_t colon = value.find(':'); colon != std::string::npos) {
    flag.dtype = parseDType(value.substr(0, colon));
    if (!flag.dtype || (*flag.dtype != DType::F32 && *flag.dtype != DType::I32 && *flag.dtype != DType::I64 &&
                        *flag.dtype != DType::Bool))
      return Error{fmt::format("--scalar {}: a scalar is f32, i32, i64 or bool, not {}", text, value.substr(0, colon))};
    value.erase(0, colon + 1);
  }
  if (flag.dtype == DType::Bool && (value == "true" || value == "false"))
    value = value == "true" ? "1" : "0";
  char *end = nullptr;
  flag.value = std::strtod(value.c_str(), &end);
  flag.whole = isWhole(value);
  if (value.empty() || *end)
    return wrong;
  if (flag.dtype)
    if (Expected<void> good = flag.fits(*flag.dtype); !good)
      return good.error();
  return flag;
}

Expected<void> ScalarFlag::fits(DType declared) const {
  if (dtype && *dtype != declared)
    return Error{fmt::format("--scalar {}={}:{:g} contradicts the variant, which declares {}; leave out the dtype",
                             name, attune::name(*dtype), value, attune::name(declared))};
  // Doubles hold no more whole numbers of 64 bits.
  constexpr double most64 = double(int64_t(1) << 53);
  const double most = declared == DType::I32   ? double(std::numeric_limits<int32_t>::max())
                      : declared == DType::I64 ? most64
                                               : 1;
  const double least = declared == DType::I32   ? double(std::numeric_limits<int32_t>::min())
                       : declared == DType::I64 ? -most64
                                                : 0;
  if (declared == DType::F32 || (value == std::trunc(value) && value >= least && value <= most))
    return {};
  return Error{fmt::format("--scalar {}={:.17g}: {} is no {}, whose values are whole numbers from {:.0f} to {:.0f}",
                           name, value, name, attune::name(declared), least, most)};
}

namespace {
/// Walks what a variant computes, each node once.
struct Divisions {
  const std::vector<ScalarFlag> &scalars;
  std::set<const Node *> met = {};
  std::set<std::string> found = {};

  void visit(const Node &node) {
    if (!met.insert(&node).second)
      return;
    if (node.op == Op::Div && node.type != DType::F32)
      for (const NodeRef &operand : node.operands)
        if (operand->op == Op::Scalar && isByItsSpelling(operand->name))
          found.insert(operand->name);
    for (const NodeRef &operand : node.operands)
      visit(*operand);
  }

  bool isByItsSpelling(const std::string &name) const {
    const auto flag = std::ranges::find(scalars, name, &ScalarFlag::name);
    return flag != scalars.end() && !flag->dtype && flag->whole;
  }
};
} // namespace

std::vector<std::string> attune::cli::divisionWarnings(const Variant &variant, const std::vector<ScalarFlag> &scalars) {
  Divisions divisions{scalars};
  for (const auto *expression : {&variant.scoreExpr(), &variant.maskExpr()})
    if (*expression)
      divisions.visit((*expression)->node());
  std::vector<std::string> warnings;
  for (const std::string &name : divisions.found) {
    const double value = std::ranges::find(scalars, name, &ScalarFlag::name)->value;
    warnings.push_back(fmt::format("{0} is an i32, as {1:.0f} is, and is divided as integers are, towards 0; write "
                                   "--scalar {0}={1:.1f} for a float, or {0}=i32:{1:.0f} where that is meant",
                                   name, value));
  }
  return warnings;
}
