//===- FloatRangeTest.cpp - Bounds of functions against their values --------===//
#include "dsl/FloatRange.h"
#include "attune/attune.h"
#include "dsl/Program.h"
#include "dsl/Ranges.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace attune;
using dsl::FloatRange;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), notANumber = std::numeric_limits<float>::quiet_NaN(),
                largest = std::numeric_limits<float>::max();

/// Numbers in ascending order.
const std::vector<float> grid = {-inf,   -largest, -1e30f, -200.0f, -88.0f, -3.0f, -1.0f,   -0.5f,
                                 -1e-3f, -1e-30f,  -0.0f,  0.0f,    1e-30f, 1e-3f, 0.5f,    0.7f,
                                 1.0f,   1.6f,     3.0f,   88.0f,   200.0f, 1e30f, largest, inf};

struct Function {
  std::string name;
  int parameters;
  Op op;
  float (*value)(float x, float y);
};

/// The functions of the table that are operations, and the operators.
const std::vector<Function> operations = {
#define ATTUNE_FUNCTION1(op, name, value, ...)                                                                         \
  {#name, 1, Op::op, [](float x, [[maybe_unused]] float y) -> float { return value; }},
#define ATTUNE_FUNCTION2(op, name, value, ...) {#name, 2, Op::op, [](float x, float y) -> float { return value; }},
#define ATTUNE_EXPANDED1(op, name, value, ...)                                                                         \
  {#name, 1, Op::op, [](float x, [[maybe_unused]] float y) -> float { return value; }},
#include "attune/Functions.def"
    {"abs", 1, Op::Abs, [](float x, float) { return std::fabs(x); }},
    {"neg", 1, Op::Neg, [](float x, float) { return -x; }},
    {"add", 2, Op::Add, [](float x, float y) { return x + y; }},
    {"sub", 2, Op::Sub, [](float x, float y) { return x - y; }},
    {"mul", 2, Op::Mul, [](float x, float y) { return x * y; }},
    {"div", 2, Op::Div, [](float x, float y) { return x / y; }},
    {"min", 2, Op::Min, [](float x, float y) { return std::fmin(x, y); }},
    {"max", 2, Op::Max, [](float x, float y) { return std::fmax(x, y); }},
};

bool holds(FloatRange range, float value) {
  return std::isnan(value) ? range.mayBeNan : value >= range.low && value <= range.high;
}

/// Ranges between numbers of the grid, and those with NaN.
std::vector<FloatRange> rangesOf(size_t step) {
  std::vector<FloatRange> all;
  for (size_t low = 0; low < grid.size(); low += step)
    for (size_t high = low; high < grid.size(); high += step)
      for (bool mayBeNan : {false, true})
        all.push_back({grid[low], grid[high], mayBeNan});
  return all;
}

/// The numbers of the grid in a range, and NaN.
std::vector<float> valuesIn(FloatRange range) {
  std::vector<float> values;
  for (float value : grid)
    if (value >= range.low && value <= range.high)
      values.push_back(value);
  if (range.mayBeNan)
    values.push_back(notANumber);
  return values;
}

/// What lies outside of the stated bounds of a function: "exp of 1 is 2.7, outside of [0, 1]".
std::string outside(const Function &function) {
  for (FloatRange x : rangesOf(1))
    for (FloatRange y : function.parameters == 2 ? rangesOf(3) : std::vector<FloatRange>{{}}) {
      const FloatRange range = dsl::rangeOf(function.op, x, y);
      for (float a : valuesIn(x))
        for (float c : function.parameters == 2 ? valuesIn(y) : std::vector<float>{0.0f})
          if (const float value = function.value(a, c); !holds(range, value))
            return function.name + " of " + std::to_string(a) + ", " + std::to_string(c) + " is " +
                   std::to_string(value) + ", outside of its bounds [" + std::to_string(range.low) + ", " +
                   std::to_string(range.high) + "]" + (range.mayBeNan ? " or NaN" : "") + "; correct Functions.def";
    }
  return "";
}

/// The range of a score for elements `values` of the captured tensor "t".
FloatRange rangeOfScore(const Expr &score, std::vector<float> values) {
  const Variant variant = Variant("v").score([&](Score, Index, Index, Index, Index) { return score; });
  dsl::Bindings bindings;
  bindings.tensors["t"] = Tensor::contiguous(values.data(), f32, {int64_t(values.size())});
  bindings.extents = {1, 1, 1, int64_t(values.size())};
  const dsl::Program program(variant, bindings);
  return dsl::Ranges(program, {dsl::Range{0, 0}, {0, 0}, {0, 0}, {0, int64_t(values.size()) - 1}})
      .ofFloat(program.score);
}

} // namespace

TEST_CASE("bounds of functions hold for every value of the operands' ranges") {
  for (const Function &function : operations)
    CHECK(outside(function) == "");
}

TEST_CASE("bounds of functions are as narrow as their definitions say") {
  const FloatRange any, number{-inf, inf, false};
  auto within = [](FloatRange range, double low, double high) {
    INFO("[" << range.low << ", " << range.high << "]");
    CHECK(range.low >= low);
    CHECK(range.high <= high);
  };
  within(dsl::rangeOf(Op::Sigmoid, any), 0, 1.00001);
  within(dsl::rangeOf(Op::Tanh, any), -1.00001, 1.00001);
  within(dsl::rangeOf(Op::Erf, any), -1.00001, 1.00001);
  within(dsl::rangeOf(Op::Sin, any), -1.00001, 1.00001);
  within(dsl::rangeOf(Op::Cos, any), -1.00001, 1.00001);
  within(dsl::rangeOf(Op::Atan, any), -1.5708, 1.5708);
  within(dsl::rangeOf(Op::Atan2, any, any), -3.14160, 3.14160);
  within(dsl::rangeOf(Op::Exp, any), 0, inf);
  within(dsl::rangeOf(Op::Exp, {-inf, 0, false}), 0, 1.01);
  within(dsl::rangeOf(Op::Log, {1, 8, false}), -0.001, 2.1);
  within(dsl::rangeOf(Op::Sqrt, {4, 9, false}), 1.98, 3.02);
  within(dsl::rangeOf(Op::Rsqrt, {4, 16, false}), 0.249, 0.51);
  within(dsl::rangeOf(Op::Pow, {1, 2, false}, any), 0, inf);
  within(dsl::rangeOf(Op::CopySign, {-2, 1, false}, any), -2, 2);
  within(dsl::rangeOf(Op::CopySign, {-2, 1, false}, {1, 2, false}), 0, 2);
  within(dsl::rangeOf(Op::Abs, {-2, 1, false}), 0, 2);
  within(dsl::rangeOf(Op::Min, number, {0, 3, false}), -inf, 3);
  within(dsl::rangeOf(Op::Max, any, {0, 3, false}), 0, inf);
  CHECK(!dsl::rangeOf(Op::Sigmoid, number).mayBeNan);
  CHECK(!dsl::rangeOf(Op::Sin, {-5, 5, false}).mayBeNan);
  CHECK(dsl::rangeOf(Op::Sin, number).mayBeNan);
  CHECK(dsl::rangeOf(Op::Sqrt, number).mayBeNan);
  CHECK(!dsl::rangeOf(Op::Max, any, {0, 3, false}).mayBeNan);
}

TEST_CASE("bounds of composite functions follow from their definitions") {
  const auto t = captured("t", f32, rank(1));
  auto of = [&](auto function, std::vector<float> values) {
    return rangeOfScore(function(t[coordinate(Coordinate::K)]), std::move(values));
  };
  auto check = [&](auto function, double (*value)(double)) {
    for (float low : grid)
      for (float high : grid)
        if (low <= high) {
          const FloatRange range = of(function, {low, high});
          for (float x : valuesIn({low, high, false}))
            if (const float y = float(value(x)); !std::isnan(y)) // nan_to_num and the like have a range of their own
              CHECK(holds(range, y));
        }
  };
  check([](Expr x) { return gelu(x); }, [](double x) { return 0.5 * x * (1 + std::erf(x * 0.70710678)); });
  check([](Expr x) { return logsigmoid(x); },
        [](double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x))); });
  check([](Expr x) { return softcap(x, 20.0f); }, [](double x) { return 20 * std::tanh(x / 20); });
  CHECK(of([](Expr x) { return softcap(x, 20.0f); }, {-1e30f, 1e30f}).within(-20.001, 20.001));
  CHECK(of([](Expr x) { return nan_to_num(x); }, {-1.0f, notANumber}).low >= -largest);
  CHECK(of([](Expr x) { return lerp(x, 2.0f, 0.5f); }, {0.0f, 4.0f}).within(-2.001, 6.001));
  CHECK(of([](Expr x) { return logaddexp(x, 0.0f); }, {-1.0f, 1.0f}).within(-0.51, 2.5));
}

TEST_CASE("comparisons and casts of ranges") {
  CHECK(dsl::isLess({0, 1, false}, {2, 3, false}, true) == true);
  CHECK(dsl::isLess({0, 2, false}, {2, 3, false}, true) == std::nullopt);
  CHECK(dsl::isLess({0, 2, false}, {2, 3, false}, false) == true);
  CHECK(dsl::isLess({2, 3, true}, {0, 2, false}, true) == false);
  CHECK(dsl::isLess({0, 1, true}, {2, 3, false}, true) == std::nullopt);
  auto cast = [](FloatRange x, DType type) {
    const dsl::Range range = dsl::truncated(x, type);
    return std::pair(range.low, range.high);
  };
  CHECK(cast({-1.9, 7.9, false}, i32) == std::pair<int64_t, int64_t>(-1, 7));
  CHECK(cast({2.5, 7.9, true}, i32) == std::pair<int64_t, int64_t>(0, 7));
  CHECK(cast({}, i32) == std::pair<int64_t, int64_t>(INT32_MIN, INT32_MAX));
  CHECK(cast({}, i64) == std::pair<int64_t, int64_t>(INT64_MIN, INT64_MAX));
}

TEST_CASE("an index that a bounded function gives lies within its tensor") {
  auto rangeOfIndex = [](const std::string &index) {
    std::vector<float> t(8);
    auto variant = Variant::parse("v", {.score = "s + t[" + index + "]", .scalars = {{"c", f32}}});
    REQUIRE(variant);
    dsl::Bindings bindings;
    bindings.tensors["t"] = Tensor::contiguous(t.data(), f32, {8});
    bindings.scalars["c"] = std::bit_cast<uint32_t>(3.0f);
    bindings.extents = {1, 1, 64, 64};
    const dsl::Program program(*variant, bindings);
    int load = 0;
    while (program[load].node->op != Op::Load)
      ++load;
    const dsl::Range range =
        dsl::Ranges(program, {dsl::Range{0, 0}, {0, 0}, {0, 63}, {0, 63}}).of(program[load].operands[0]);
    return std::pair(range.low, range.high);
  };
  using Ends = std::pair<int64_t, int64_t>;
  CHECK(rangeOfIndex("i32(7.0 * sigmoid(s))") == Ends(0, 7));
  CHECK(rangeOfIndex("i32(3.5 + 3.0 * tanh(s / c))") == Ends(0, 6));
  CHECK(rangeOfIndex("i32(min(max(log2(f32(q - k)), 0.0), 7.0))") == Ends(0, 6));
  CHECK(rangeOfIndex("i32(c)") == Ends(3, 3));
  CHECK(rangeOfIndex("i32(exp(s))") == Ends(0, INT32_MAX));
}
