#include "tools/reference/Program.h"

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::reference;

namespace {

constexpr int32_t lowest32 = std::numeric_limits<int32_t>::min();
constexpr int64_t lowest64 = std::numeric_limits<int64_t>::min();

/// The bindings of every test here: B 2, H 3, Sq 5, Sk 7.
struct Bound {
  std::map<std::string, HostTensor> tensors, scalars;
  Bindings bindings{&tensors, &scalars, 2, 3, 5, 7};
};

/// Calls use(interpreter) after evaluating `expr` at b 1, h 2, q 3 and keys 4 to 6, with s = 10 * k.
template <typename Use> auto evaluate(const Expr &expr, const Bound &bound, Use use) {
  Expected<Program> program = Program::compile(expr, bound.bindings);
  if (!program)
    FAIL(program.error().message);
  RowInterpreter row(*program);
  row.startRow(1, 2, 3);
  float scores[] = {40, 50, 60};
  row.run(4, 3, scores);
  return use(row);
}

/// The value at k = 5, s = 50.
double floatOf(const Expr &expr, const Bound &bound = {}) {
  return evaluate(expr, bound, [](auto &row) { return row.floats()[1]; });
}
int64_t intOf(const Expr &expr, const Bound &bound = {}) {
  return evaluate(expr, bound, [](auto &row) { return row.ints()[1]; });
}

/// A literal that the expression builder cannot fold away.
Expr opaque32(int32_t value) { return select(coordinate(Coordinate::K) >= 0, value, 0); }
Expr opaque64(int64_t value) { return select(coordinate(Coordinate::K) >= 0, value, int64_t(0)); }

} // namespace

TEST_CASE("coordinates, extents and the score") {
  CHECK(intOf(coordinate(Coordinate::B)) == 1);
  CHECK(intOf(coordinate(Coordinate::H)) == 2);
  CHECK(intOf(coordinate(Coordinate::Q)) == 3);
  CHECK(intOf(coordinate(Coordinate::K)) == 5);
  CHECK(intOf(extent(Extent::B)) == 2);
  CHECK(intOf(extent(Extent::H)) == 3);
  CHECK(intOf(extent(Extent::Sq)) == 5);
  CHECK(intOf(extent(Extent::Sk)) == 7);
  CHECK(floatOf(inputScore()) == 50);
  CHECK(floatOf(inputScore() + coordinate(Coordinate::K) * coordinate(Coordinate::H)) == 60);
}

TEST_CASE("int32 arithmetic wraps and truncates") {
  CHECK(intOf(opaque32(2147483647) + 1) == lowest32);
  CHECK(intOf(opaque32(lowest32) - 1) == 2147483647);
  CHECK(intOf(opaque32(65536) * 65536) == 0);
  CHECK(intOf(opaque32(46341) * opaque32(46341)) == -2147479015);
  CHECK(intOf(-opaque32(lowest32)) == lowest32);
  CHECK(intOf(abs(opaque32(lowest32))) == lowest32);
  CHECK(intOf(opaque32(-7) / 2) == -3);
  CHECK(intOf(opaque32(-7) % 2) == -1);
  CHECK(intOf(opaque32(7) % -2) == 1);
  CHECK(intOf(opaque32(7) / opaque32(0)) == 0);
  CHECK(intOf(opaque32(7) % opaque32(0)) == 0);
  CHECK(intOf(opaque32(lowest32) / opaque32(-1)) == lowest32);
  CHECK(intOf(opaque32(lowest32) % opaque32(-1)) == 0);
  CHECK(intOf(opaque32(1) << opaque32(31)) == lowest32);
  CHECK(intOf(opaque32(1) << opaque32(33)) == 2);
  CHECK(intOf(opaque32(1) << opaque32(-1)) == lowest32);
  CHECK(intOf(opaque32(-8) >> opaque32(1)) == -4);
  CHECK(intOf(opaque32(-8) >> opaque32(34)) == -2);
  CHECK(intOf(~opaque32(0)) == -1);
  CHECK(intOf(opaque32(12) & 10) == 8);
  CHECK(intOf(opaque32(12) | 10) == 14);
  CHECK(intOf(opaque32(12) ^ 10) == 6);
  CHECK(intOf(min(opaque32(-3), 2)) == -3);
  CHECK(intOf(max(opaque32(-3), 2)) == 2);
}

TEST_CASE("int64 arithmetic wraps at 64 bits") {
  CHECK(intOf(opaque64(std::numeric_limits<int64_t>::max()) + 1) == lowest64);
  CHECK(intOf(opaque64(lowest64) / opaque64(-1)) == lowest64);
  CHECK(intOf(opaque64(lowest64) % opaque64(-1)) == 0);
  CHECK(intOf(abs(opaque64(lowest64))) == lowest64);
  CHECK(intOf(opaque64(5) / opaque64(0)) == 0);
  CHECK(intOf(opaque64(1) << opaque64(63)) == lowest64);
  CHECK(intOf(opaque64(1) << opaque64(64)) == 1);
  CHECK(intOf(opaque64(2147483647) + opaque32(1)) == 2147483648);
  CHECK(intOf(cast(opaque64(int64_t{1} << 32 | 7), i32)) == 7);
}

TEST_CASE("casts between floats, integers and bool") {
  Expr s = inputScore();
  CHECK(intOf(cast(s * -0.055f, i32)) == -2);
  CHECK(intOf(cast(s * 1e20f, i32)) == 2147483647);
  CHECK(intOf(cast(s * -1e20f, i32)) == lowest32);
  CHECK(intOf(cast(s * -1e30f, i64)) == lowest64);
  CHECK(intOf(cast(s * 1e30f, i64)) == std::numeric_limits<int64_t>::max());
  CHECK(intOf(cast(log(-s), i32)) == 0);
  CHECK(intOf(cast(s - 50.0f, boolean)) == 0);
  CHECK(intOf(cast(log(-s), boolean)) == 1);
  CHECK(intOf(cast(opaque32(-5), boolean)) == 1);
  CHECK(floatOf(cast(s > 0.0f, f32)) == 1);
  CHECK(floatOf(cast(opaque32(-5), f32)) == -5);
}

TEST_CASE("float functions") {
  Expr s = inputScore() * 0.01f; // 0.01f * 50
  float x = 50 * 0.01f;
  CHECK(floatOf(exp(s)) == std::exp(x));
  CHECK(floatOf(exp2(s)) == std::exp2(x));
  CHECK(floatOf(log(s)) == std::log(x));
  CHECK(floatOf(log2(s)) == std::log2(x));
  CHECK(floatOf(tanh(s)) == std::tanh(x));
  CHECK(floatOf(sin(s)) == std::sin(x));
  CHECK(floatOf(cos(s)) == std::cos(x));
  CHECK(floatOf(tan(s)) == std::tan(x));
  CHECK(floatOf(sqrt(s)) == std::sqrt(x));
  CHECK(floatOf(rsqrt(s)) == 1 / std::sqrt(x));
  CHECK(floatOf(pow(s, 3.0f)) == std::pow(x, 3.0f));
  CHECK(floatOf(sigmoid(s)) == Approx(1 / (1 + std::exp(-x))).epsilon(1e-6));
  CHECK(floatOf(softcap(inputScore(), 20.0f)) == 20 * std::tanh(2.5f));
  CHECK(floatOf(log1p(s)) == std::log1p(x));
  CHECK(floatOf(atan(-s)) == std::atan(-x));
  CHECK(floatOf(erf(s)) == std::erf(x));
  CHECK(floatOf(atan2(s, -s)) == std::atan2(x, -x));
  CHECK(floatOf(copysign(s, -s)) == -x);
  CHECK(floatOf(copysign(-s, -s)) == -x);
  CHECK(floatOf(gelu(s)) == Approx(0.5 * x * std::erfc(-x / std::sqrt(2.0))).epsilon(1e-6));
  CHECK(floatOf(gelu(inputScore() * -1.0f)) == 0);
  CHECK(floatOf(logsigmoid(inputScore() * -4.0f)) == -200);
  CHECK(floatOf(logsigmoid(s)) == Approx(-std::log(1 + std::exp(-x))).epsilon(1e-6));
  CHECK(floatOf(logaddexp(s, inputScore() * 4.0f)) == 200);
  CHECK(floatOf(logaddexp(s, s)) == Approx(x + std::log(2.0)).epsilon(1e-6));
  CHECK(floatOf(logaddexp(log(s * 0.0f), log(s * 0.0f))) == -std::numeric_limits<double>::infinity());
  CHECK(floatOf(lerp(s, 2.5f, 0.25f)) == Approx(x + 0.25 * (2.5 - x)).epsilon(1e-6));
  CHECK(floatOf(nan_to_num(log(-s))) == 0);
  CHECK(floatOf(nan_to_num(log(s * 0.0f))) == -std::numeric_limits<float>::max());
  CHECK(floatOf(nan_to_num(s / 0.0f)) == std::numeric_limits<float>::max());
  CHECK(floatOf(nan_to_num(s)) == x);
  CHECK(floatOf(-abs(-s)) == -x);
  CHECK(floatOf(min(log(-s), 2.0f)) == 2);
  CHECK(floatOf(max(3.0f, log(-s))) == 3);
}

TEST_CASE("comparisons and logic") {
  Expr s = inputScore(), k = coordinate(Coordinate::K), q = coordinate(Coordinate::Q);
  CHECK(intOf(q < k) == 1);
  CHECK(intOf(k <= 4) == 0);
  CHECK(intOf(k > 4 && !(q == 3)) == 0);
  CHECK(intOf(k > 5 || q != 4) == 1);
  CHECK(intOf((q < k) == (k < q)) == 0);
  CHECK(intOf((q < k) != (k < q)) == 1);
  CHECK(intOf(s >= 50.0f) == 1);
  Expr nan = log(-s);
  CHECK(intOf(nan == nan) == 0);
  CHECK(intOf(nan != nan) == 1);
  CHECK(intOf(nan < 1.0f) == 0);
  CHECK(floatOf(select(q < k, s, 0.0f)) == 50);
  CHECK(intOf(select(q < k, q < 0, k > 0)) == 0);
}

TEST_CASE("captured tensors of every dtype, indices clamped per dimension") {
  Bound bound;
  bound.tensors = {
      {"table", HostTensor::fromDoubles(f32, {2, 3}, std::vector<double>{0, 1, 2, 10, 11, 12})},
      {"half", HostTensor::fromDoubles(f16, {1}, std::vector<double>{0.1})},
      {"brain", HostTensor::fromDoubles(bf16, {}, std::vector<double>{0.1})},
      {"big", HostTensor::fromInts(i64, {1}, std::vector<int64_t>{int64_t{1} << 62 | 1})},
      {"flags", HostTensor::fromInts(boolean, {3}, std::vector<int64_t>{0, 0, 1})},
      {"empty", HostTensor::zeros(f32, {0})},
      {"ids", HostTensor::fromInts(i32, {8}, std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3, 3})},
  };
  Expr b = coordinate(Coordinate::B), h = coordinate(Coordinate::H), k = coordinate(Coordinate::K);
  Captured table = captured("table", f32, rank(2));
  CHECK(floatOf(table(b, h), bound) == 12);
  CHECK(floatOf(table(b, k), bound) == 12);
  CHECK(floatOf(table(k, -k), bound) == 10);
  CHECK(floatOf(table(-1, 1), bound) == 1);
  CHECK(floatOf(table(opaque64(lowest64), opaque64(int64_t{1} << 40)), bound) == 2);
  CHECK(floatOf(captured("half", f16, rank(1))(0), bound) == double(widenBits(f16, 0x2E66)));
  CHECK(floatOf(captured("brain", bf16, rank(0))(), bound) == double(widenBits(bf16, 0x3DCD)));
  CHECK(intOf(captured("big", i64, rank(1))(k), bound) == (int64_t{1} << 62 | 1));
  CHECK(intOf(captured("flags", boolean, rank(1))(h), bound) == 1);
  CHECK(floatOf(captured("empty", f32, rank(1))(k), bound) == 0);
  CHECK(intOf(captured("ids", i32, rank(1))(captured("ids", i32, rank(1))(k)), bound) == 1);
}

TEST_CASE("run-time scalars") {
  Bound bound;
  bound.scalars = {{"cap", HostTensor::fromDoubles(f32, {}, std::vector<double>{0.1})},
                   {"window", HostTensor::fromInts(i64, {}, std::vector<int64_t>{lowest64})},
                   {"on", HostTensor::fromInts(boolean, {}, std::vector<int64_t>{1})}};
  CHECK(floatOf(scalar("cap", f32), bound) == double(0.1f));
  CHECK(intOf(scalar("window", i64), bound) == lowest64);
  CHECK(intOf(scalar("on", boolean), bound) == 1);
}

TEST_CASE("every operation rounds to float32") {
  CHECK(floatOf(inputScore() + 1e8f) == 100000048); // steps of 8
  CHECK(floatOf((inputScore() + 1e10f) - 1e10f) == 0);
}

TEST_CASE("what is not bound, or bound to something else, is an error") {
  Bound bound;
  bound.tensors = {{"t", HostTensor::zeros(f32, {2, 2})}};
  bound.scalars = {{"c", HostTensor::zeros(i32, {})}};
  auto messageOf = [&](const Expr &expr) {
    Expected<Program> program = Program::compile(expr, bound.bindings);
    return program ? "compiled" : program.error().message;
  };
  CHECK(messageOf(captured("u", f32, rank(1))(0)) == "tensor u is not bound");
  CHECK(messageOf(captured("t", f32, rank(1))(0)) == "tensor t is bound to f32[2, 2], but declared f32 of rank 1");
  CHECK(messageOf(captured("t", f16, rank(2))(0, 0)) == "tensor t is bound to f32[2, 2], but declared f16 of rank 2");
  CHECK(messageOf(scalar("d", f32)) == "scalar d is not bound");
  CHECK(messageOf(scalar("c", f32)) == "scalar c is bound to i32[], but declared f32");
  CHECK(messageOf(coordinate(Coordinate::Q) + (coordinate(Coordinate::Q) < 1)) != "compiled");
}

TEST_CASE("searchsorted counts the elements before a number") {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Bound bound;
  bound.tensors["offsets"] = HostTensor::fromInts(i32, {5}, std::array<int64_t, 5>{0, 2, 5, 5, 9});
  bound.tensors["levels"] = HostTensor::fromDoubles(f16, {4}, std::array{-inf, 0.5, 50.0, nan});
  bound.tensors["none"] = HostTensor::zeros(i64, {0});
  const Captured offsets = captured("offsets", i32, rank(1)), levels = captured("levels", f16, rank(1)),
                 none = captured("none", i64, rank(1));
  const Index k = coordinate(Coordinate::K); // 5
  CHECK(intOf(searchsorted(offsets, k), bound) == 2);
  CHECK(intOf(searchsorted(offsets, k, SearchSide::Right), bound) == 4);
  CHECK(intOf(searchsorted(offsets, k - 6), bound) == 0);
  CHECK(intOf(searchsorted(offsets, k + 60, SearchSide::Right), bound) == 5);
  CHECK(intOf(searchsorted(levels, inputScore()), bound) == 2);
  CHECK(intOf(searchsorted(levels, inputScore(), SearchSide::Right), bound) == 3);
  CHECK(intOf(searchsorted(levels, inputScore() * std::numeric_limits<float>::quiet_NaN()), bound) == 3);
  CHECK(intOf(searchsorted(levels, inputScore() * std::numeric_limits<float>::quiet_NaN(), SearchSide::Right), bound) ==
        4);
  CHECK(intOf(searchsorted(none, cast(k, i64), SearchSide::Right), bound) == 0);
}
