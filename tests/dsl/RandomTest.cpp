//===- RandomTest.cpp - Random expressions survive text and JSON ------------===//
#include "attune/attune.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace attune;

namespace {

/// Random expressions of a wanted type, over every operation.
class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  Expr make(DType type, int depth) {
    if (depth == 0 || pick(8) == 0)
      return leaf(type);
    if (pick(6) == 0 && !made[type == f32 ? 0 : type == i32 ? 1 : type == i64 ? 2 : 3].empty())
      return reuse(type);
    Expr result = type == boolean ? condition(depth - 1) : number(type, depth - 1);
    made[type == f32 ? 0 : type == i32 ? 1 : type == i64 ? 2 : 3].push_back(result);
    return result;
  }

private:
  int pick(int count) { return int(random() % unsigned(count)); }
  DType numberType() { return pick(3) == 0 ? i64 : pick(2) == 0 ? i32 : f32; }
  /// A type that promotion turns into `type` beside an operand of `type`.
  DType narrower(DType type) {
    if (type == f32)
      return numberType();
    return type == i64 && pick(2) ? i32 : type;
  }
  Expr reuse(DType type) {
    auto &pool = made[type == f32 ? 0 : type == i32 ? 1 : type == i64 ? 2 : 3];
    return pool[size_t(pick(int(pool.size())))];
  }

  Expr leaf(DType type) {
    if (type == f32) {
      switch (pick(4)) {
      case 0:
        return inputScore();
      case 1:
        return scalar("cap", f32);
      case 2:
        return captured("half", bf16, rank(0))();
      default: {
        float value = std::bit_cast<float>(uint32_t(random()));
        return pick(2) ? Expr(value) : Expr(float(pick(64) - 32) / 8);
      }
      }
    }
    if (type == i32) {
      switch (pick(4)) {
      case 0:
        return coordinate(Coordinate(pick(4)));
      case 1:
        return extent(Extent(pick(4)));
      case 2:
        return scalar("n", i32);
      default:
        return pick(2) ? Expr(int32_t(random())) : Expr(pick(16) - 8);
      }
    }
    if (type == i64)
      return pick(3) == 0 ? scalar("wide", i64)
             : pick(2)    ? Expr(int64_t(uint64_t(random()) << 32 | random()))
                          : Expr(int64_t(pick(16) - 8));
    return pick(2) ? Expr(pick(2) == 0) : scalar("flag", boolean);
  }

  Expr element(Expr load) { return pick(3) == 0 ? clamped(load) : pick(4) == 0 ? broadcast(load) : load; }
  Expr index(int depth) { return make(pick(3) ? i32 : i64, depth); }

  Expr number(DType type, int depth) {
    Expr a = make(type, depth), b = make(narrower(type), depth);
    if (pick(2))
      std::swap(a, b);
    int choice = pick(type == f32 ? 24 : 18);
    switch (choice) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return a / b;
    case 4:
      return min(a, b);
    case 5:
      return max(a, b);
    case 6:
      return -make(type, depth);
    case 7:
      return abs(make(type, depth));
    case 8:
      return select(make(boolean, depth), a, b);
    case 9:
      return cast(make(pick(2) ? boolean : numberType(), depth), type);
    case 10:
      if (type == f32)
        return element(captured("table", f16, rank(2))[index(depth)][index(depth)]);
      return type == i32
                 ? element(captured("ids", i32, rank(1))[index(depth)])
                 : element(captured("big", i64, rank(4))(index(depth), index(depth), index(depth), index(depth)));
    default:
      break;
    }
    if (type != f32) {
      switch (choice) {
      case 11:
        return a % b;
      case 12:
        return a & b;
      case 13:
        return a | b;
      case 14:
        return a ^ b;
      case 15:
        return ~make(type, depth);
      case 16:
        return a << b;
      default:
        return a >> b;
      }
    }
    Expr x = make(numberType(), depth);
    switch (choice) {
    case 11:
      return exp(x);
    case 12:
      return exp2(x);
    case 13:
      return log(x);
    case 14:
      return log2(x);
    case 15:
      return tanh(x);
    case 16:
      return sin(x);
    case 17:
      return cos(x);
    case 18:
      return tan(x);
    case 19:
      return sqrt(x);
    case 20:
      return rsqrt(x);
    case 21:
      return sigmoid(x);
    case 22:
      return pow(x, make(numberType(), depth));
    default:
      return softcap(x, make(f32, depth));
    }
  }

  Expr condition(int depth) {
    DType type = numberType();
    Expr a = make(type, depth), b = make(narrower(type), depth);
    if (pick(2))
      std::swap(a, b);
    switch (pick(12)) {
    case 0:
      return a < b;
    case 1:
      return a <= b;
    case 2:
      return a > b;
    case 3:
      return a >= b;
    case 4:
      return a == b;
    case 5:
      return a != b;
    case 6:
      return make(boolean, depth) && make(boolean, depth);
    case 7:
      return make(boolean, depth) || make(boolean, depth);
    case 8:
      return !make(boolean, depth);
    case 9:
      return make(boolean, depth) == make(boolean, depth);
    case 10:
      return captured("seen", boolean, rank(3))(index(depth), index(depth), index(depth));
    default:
      return cast(a, boolean);
    }
  }

  std::mt19937 random;
  std::vector<Expr> made[4];
};

} // namespace

TEST_CASE("random expressions come back from text and from JSON") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Generator generator(seed);
    Expr expr = generator.make(f32, 2 + int(seed % 6));
    INFO("seed " << seed);
    INFO(text(expr));
    REQUIRE(!expr.error());
    auto variant = Variant("v").score([&](Score, Index, Index, Index, Index) { return expr; });
    REQUIRE(!variant.error());
    auto again = Variant::fromJson(variant.toJson());
    if (!again)
      FAIL(again.error().text());
    REQUIRE(again->canonical() == variant.canonical());
    REQUIRE(again->toJson() == variant.toJson());
  }
}
