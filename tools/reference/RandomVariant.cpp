//===- RandomVariant.cpp - Random variants with matching inputs ---------------===//
#include "tools/reference/RandomVariant.h"

#include "tools/reference/Prepared.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace attune::reference {

namespace {

/// A float expression with what is known about it.
struct Real {
  Expr expr;
  double bound; ///< |value| stays below
  double error; ///< of the float32 value, in units of 2^-24, at worst
};

constexpr double maxBound = 60;
constexpr double maxError = 2000; // 2^-24 * 2000 = 1.2e-4 at worst; typically a hundredth of that

class Generator {
public:
  Generator(uint64_t seed, const RandomOptions &options) : seed(seed), options(options) {}

  RandomCase generate() {
    RandomCase result;
    result.seed = seed;
    Problem &problem = result.problem;
    chooseShapes(problem);
    chooseCaptured();

    auto variant = std::make_shared<Variant>("random_" + std::to_string(seed));
    if (chance(25)) {
      scale *= 0.5 * double(1 + below(3));
      variant->scale(float(scale));
    }
    if (chance(85))
      variant->score([&](Score, Index, Index, Index, Index) { return score(); });
    if (chance(75))
      variant->mask([&](Index, Index, Index, Index) { return mask(); });
    if (chance(10))
      variant->mask([&](Index, Index, Index, Index) { return mask(); });
    if (chance(30)) {
      variant->dropout(std::array{0.1f, 0.5f, 0.25f}[below(3)]);
      problem.seed = bits();
      problem.offset = chance(50) ? bits() : below(100);
    }
    if (chance(20)) {
      variant->qOffset();
      problem.qOffset = int64_t(below(100));
    }
    if (chance(20))
      choosePattern(*variant);
    if (chance(20))
      variant->precise();
    chooseNormaliser(*variant);
    assert(!variant->error() && "random variants are well formed");

    for (const TensorDecl &used : variant->tensors())
      problem.tensors.emplace(used.name, inputs.at(used.name));
    for (const ScalarDecl &used : variant->scalars())
      problem.scalars.emplace(used.name, inputs.at(used.name));
    problem.variant = variant.get();
    result.variant = std::move(variant);
    return result;
  }

private:
  void chooseNormaliser(Variant &variant) {
    if (chance(12)) {
      variant.normaliser(normalisers::sigmoid());
    } else if (chance(12)) {
      variant.normaliser(normalisers::softmaxWithSink("sinks"));
      inputs.emplace("sinks", HostTensor::random(f32, {heads}, bits()));
    }
  }

  //===--- Randomness ---===//
  uint64_t bits() { return randomBits(seed, counter++, 0x52414E44); }
  uint64_t below(uint64_t end) { return bits() % end; }
  bool chance(unsigned percent) { return below(100) < percent; }
  int64_t oneOf(std::initializer_list<int64_t> values) { return values.begin()[below(values.size())]; }

  //===--- Inputs ---===//
  int64_t chooseLength() {
    int64_t length = 1;
    switch (below(6)) {
    case 0:
      break;
    case 1:
      length = 2 + int64_t(below(15));
      break;
    case 2:
      length = 16 * (1 + int64_t(below(8)));
      break;
    case 3:
      length = oneOf({63, 64, 65, 127, 128, 129});
      break;
    default:
      length = 1 + int64_t(below(uint64_t(options.maxLength)));
    }
    return std::min(length, options.maxLength);
  }

  void chooseShapes(Problem &problem) {
    DType dtype = options.dtype ? *options.dtype : std::array{f32, f16, bf16}[below(3)];
    batch = 1 + int64_t(below(2));
    int64_t kvHeads = 1 + int64_t(below(3));
    heads = kvHeads * oneOf({1, 1, 2, 3, 4});
    queryLength = chooseLength();
    keyLength = options.allowEmpty && chance(2) ? 0 : chooseLength();
    auto chooseHeadDim = [&] {
      return 8 * (1 + int64_t(below(uint64_t(std::max<int64_t>(1, options.maxHeadDim / 8)))));
    };
    headDim = chooseHeadDim();
    int64_t headDimV = chance(60) ? headDim : chooseHeadDim();
    problem.q = HostTensor::random(dtype, {batch, heads, queryLength, headDim}, bits());
    problem.k = HostTensor::random(dtype, {batch, kvHeads, keyLength, headDim}, bits());
    problem.v = HostTensor::random(dtype, {batch, kvHeads, keyLength, headDimV}, bits());
    scale = 1 / std::sqrt(double(headDim));
  }

  void chooseCaptured() {
    for (uint64_t i = 0, count = below(4); i < count; ++i) {
      DType dtype = std::array{f32, bf16, f16, i32, i64, boolean}[below(6)];
      std::vector<int64_t> shape(below(5));
      int64_t elements = 1;
      for (int64_t &extent : shape) {
        extent = oneOf({1, batch, heads, queryLength, std::max<int64_t>(1, keyLength), 3, 7});
        if (elements * extent > 200000)
          extent = 1;
        elements *= extent;
      }
      std::string label = "t" + std::to_string(i);
      tensors.push_back(captured(label, dtype, rank(int(shape.size()))));
      inputs.emplace(label, HostTensor::random(dtype, shape, bits()));
    }
    for (uint64_t i = 0, count = below(3); i < count; ++i) {
      DType dtype = std::array{f32, i32, i64, boolean}[below(4)];
      std::string label = "c" + std::to_string(i);
      HostTensor value = HostTensor::random(dtype, {}, bits());
      if (dtype == i64 && chance(30))
        value.setInt(0, int64_t(bits()));
      scalars.push_back(ScalarDecl{label, dtype});
      inputs.emplace(label, std::move(value));
    }
  }

  void choosePattern(Variant &variant) {
    int64_t rows = oneOf({16, 32, 64, 128}), columns = oneOf({16, 32, 64, 128});
    std::vector<int64_t> shape;
    if (chance(60))
      shape.push_back(chance(50) ? heads : 1);
    shape.push_back((queryLength + rows - 1) / rows);
    shape.push_back((keyLength + columns - 1) / columns);
    HostTensor blocks = HostTensor::random(boolean, shape, bits());
    variant.blocks(captured("blocks", boolean, rank(int(shape.size()))), int(rows), int(columns));
    inputs.emplace("blocks", std::move(blocks));
  }

  //===--- Leaves ---===//
  static Expr at(Coordinate which) { return coordinate(which); }

  /// An element of `tensor`; each index is the coordinate whose extent it has, or any integer.
  Expr element(const Captured &tensor, int depth) {
    std::vector<Expr> indices;
    const HostTensor &bound = inputs.at(tensor.name());
    for (int64_t extent : bound.shape) {
      if (chance(30))
        indices.push_back(integer(std::min(depth, 2) - 1, chance(80) ? i32 : i64, false));
      else if (extent == keyLength && chance(70))
        indices.push_back(at(Coordinate::K));
      else if (extent == queryLength)
        indices.push_back(at(Coordinate::Q));
      else if (extent == heads)
        indices.push_back(at(Coordinate::H));
      else if (extent == batch)
        indices.push_back(at(Coordinate::B));
      else
        indices.push_back(at(chance(50) ? Coordinate::Q : Coordinate::K) % int32_t(extent));
    }
    return clamped(tensor.at(indices));
  }

  /// A captured vector of positions in ascending order, as of packed documents.
  Captured ascending() {
    if (!inputs.contains("ascending")) {
      std::vector<int64_t> positions(1 + below(9));
      for (int64_t &position : positions)
        position = int64_t(below(uint64_t(std::max(queryLength, keyLength)) + 2));
      std::ranges::sort(positions);
      inputs.emplace("ascending", HostTensor::fromInts(i32, {int64_t(positions.size())}, positions));
    }
    return captured("ascending", i32, rank(1));
  }

  template <typename Accept> const Captured *someTensor(Accept accept) {
    std::vector<const Captured *> fitting;
    for (const Captured &tensor : tensors)
      if (accept(tensor.dtype()))
        fitting.push_back(&tensor);
    return fitting.empty() ? nullptr : fitting[below(fitting.size())];
  }
  const ScalarDecl *someScalar(DType dtype) {
    for (const ScalarDecl &declared : scalars)
      if (declared.dtype == dtype)
        return &declared;
    return nullptr;
  }

  //===--- Integers: anything goes, they are exact ---===//
  /// Without `loads`, no captured tensors (an index inside an index would nest without end).
  Expr integer(int depth, DType type, bool loads = true) {
    if (depth <= 0)
      return integerLeaf(type, loads);
    Expr a = integer(depth - 1, type, loads);
    auto second = [&] { return integer(depth - 1, type, loads); };
    switch (below(18)) {
    case 0:
      return a + second();
    case 1:
      return a - second();
    case 2:
      return a * second();
    case 3:
      return a / second();
    case 4:
      return a % second();
    case 5:
      return min(a, second());
    case 6:
      return max(a, second());
    case 7:
      return -a;
    case 8:
      return abs(a);
    case 9:
      return a & second();
    case 10:
      return a | second();
    case 11:
      return a ^ second();
    case 12:
      return ~a;
    case 13:
      return a << second();
    case 14:
      return a >> second();
    case 15: {
      Expr which = condition(depth - 1, loads); // before second(): arguments have no order of their own
      return select(which, a, second());
    }
    case 16: // a cast from another type
      if (chance(50))
        return cast(integer(depth - 1, type == i32 ? i64 : i32, loads), type);
      return cast(condition(depth - 1, loads), type);
    default: // a cast from a float that is exact and a quarter away from the next integer
      return cast(cast(a & 1023, f32) * 0.5f + 0.25f, type);
    }
  }

  Expr integerLeaf(DType type, bool loads) {
    switch (below(8)) {
    case 0:
    case 1:
      return cast(at(Coordinate::Q), type);
    case 2:
    case 3:
      return cast(at(Coordinate::K), type);
    case 4:
      return cast(at(chance(50) ? Coordinate::B : Coordinate::H), type);
    case 5:
      return cast(extent(std::array{Extent::B, Extent::H, Extent::Sq, Extent::Sk}[below(4)]), type);
    case 6:
      if (const ScalarDecl *declared = someScalar(type))
        return scalar(declared->name, type);
      if (loads && type == i32 && chance(30))
        return searchsorted(ascending(), at(chance(50) ? Coordinate::Q : Coordinate::K),
                            chance(50) ? SearchSide::Right : SearchSide::Left);
      if (loads)
        if (const Captured *tensor = someTensor([&](DType dtype) { return dtype == type; }))
          return element(*tensor, 1);
      [[fallthrough]];
    default: {
      int32_t literal = int32_t(oneOf({0, 1, 2, 3, 5, 16, 31, 64, -1, -7, 1000, 2147483647}));
      return type == i32 ? Expr(literal) : Expr(int64_t(literal) * (chance(20) ? 1000003 : 1));
    }
    }
  }

  //===--- Conditions ---===//
  Expr compared(const Expr &a, const Expr &b) {
    switch (below(6)) {
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
    default:
      return a != b;
    }
  }

  Expr condition(int depth, bool loads = true) {
    if (depth > 0)
      switch (below(9)) {
      case 0:
        return condition(depth - 1, loads) && condition(depth - 1, loads);
      case 1:
        return condition(depth - 1, loads) || condition(depth - 1, loads);
      case 2:
        return !condition(depth - 1, loads);
      case 3: {
        Expr a = condition(depth - 1, loads);
        Expr b = condition(depth - 1, loads);
        return chance(50) ? a == b : a != b;
      }
      case 4: {
        std::array choices = {condition(depth - 1, loads), condition(depth - 1, loads), condition(depth - 1, loads)};
        return select(choices[0], choices[1], choices[2]);
      }
      case 5:
        return cast(integer(depth - 1, chance(70) ? i32 : i64, loads) & 3, boolean);
      case 6: { // floats that are exact small integers
        Expr a = cast(integer(depth - 1, i32, loads) & 31, f32);
        return chance(20) ? cast(a, boolean) : compared(a, float(below(32)));
      }
      default:
        break;
      }
    if (loads && chance(25))
      if (const Captured *tensor = someTensor([](DType dtype) { return dtype == boolean; }))
        return element(*tensor, depth);
    if (chance(15))
      if (const ScalarDecl *declared = someScalar(boolean))
        return scalar(declared->name, boolean);
    if (chance(3))
      return Expr(chance(50));
    DType type = chance(80) ? i32 : i64;
    Expr a = integer(depth - 1, type, loads);
    return compared(a, integer(depth - 1, type, loads));
  }

  //===--- Floats ---===//
  Real score(int depth) {
    Real inner = real(depth);
    switch (below(4)) {
    case 0:
      return inner;
    case 1:
      return bounded(Real{softcap(input().expr + inner.expr, 20.0f), 20, input().error + inner.error + 60});
    default:
      return bounded(sum(input(), inner));
    }
  }

  Expr score() {
    Expr result = score(int(1 + below(4))).expr;
    if (chance(10))
      return select(condition(2), result, -std::numeric_limits<float>::infinity());
    return result;
  }

  Real input() {
    // q and k are N(0, 1), so that s has standard deviation scale * sqrt(D); seven of those, and float32
    // accumulation.
    double deviation = scale * std::sqrt(double(headDim));
    return {inputScore(), 7 * deviation, 30 * deviation};
  }

  static Real sum(const Real &a, const Real &b) {
    return {a.expr + b.expr, a.bound + b.bound, a.error + b.error + a.bound + b.bound};
  }

  /// `value` scaled down where it got large, a leaf where it got inaccurate.
  Real bounded(Real value) {
    if (value.bound > maxBound) {
      double factor = std::exp2(std::floor(std::log2(8 / value.bound)));
      value = {value.expr * float(factor), value.bound * factor, value.error * factor};
    }
    return value.error <= maxError ? value : realLeaf();
  }

  Real realLeaf() {
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
      return input();
    case 3:
      if (const ScalarDecl *declared = someScalar(f32))
        return {scalar(declared->name, f32), std::fabs(inputs.at(declared->name).at(0)) + 0.1, 0};
      [[fallthrough]];
    case 4:
    case 5:
    case 6:
      if (const Captured *tensor = someTensor([](DType dtype) { return isFloat(dtype); }))
        return {element(*tensor, 2), 7, 0};
      [[fallthrough]];
    default: {
      float literal = 0.125f * float(int64_t(below(65)) - 32);
      return {Expr(literal), std::fabs(literal) + 0.01, 0};
    }
    }
  }

  Real real(int depth) {
    if (depth <= 0)
      return realLeaf();
    Real a = real(depth - 1);
    const uint64_t kind = below(26);
    if (kind < 6)
      return arithmetic(kind, a, real(depth - 1));
    if (kind < 20)
      return function(kind, a);
    if (kind < 22)
      return selection(kind, a, real(depth - 1), depth);
    if (kind == 22) { // a product of distance and slope, as in ALiBi
      Expr distance = at(Coordinate::K) - at(Coordinate::Q);
      double longest = double(queryLength + keyLength + 100);
      return bounded(Real{a.expr + distance * 0.0625f, a.bound + longest / 16, a.error + a.bound + longest / 16});
    }
    if (kind == 23)
      return rareFunction(a, depth);
    // Small integers as floats.
    DType type = chance(70) ? i32 : i64;
    Expr small = chance(50) ? integer(depth - 1, type) % 16 : integer(depth - 1, type) & 15;
    return bounded(Real{a.expr + (chance(50) ? small : cast(small, f32)) * 0.25f, a.bound + 4, a.error + a.bound + 4});
  }

  Real arithmetic(uint64_t kind, const Real &a, const Real &b) {
    switch (kind) {
    case 0:
      return bounded(sum(a, b));
    case 1:
      return bounded(Real{a.expr - b.expr, a.bound + b.bound, a.error + b.error + a.bound + b.bound});
    case 2:
      return bounded(
          Real{a.expr * b.expr, a.bound * b.bound, a.error * b.bound + b.error * a.bound + a.bound * b.bound});
    case 3:
      return bounded(Real{a.expr / (abs(b.expr) + 0.5f), 2 * a.bound,
                          2 * a.error + 4 * a.bound * (b.error + b.bound + 1) + 2 * a.bound});
    default: {
      bool smaller = chance(50);
      return bounded(Real{smaller ? min(a.expr, b.expr) : max(a.expr, b.expr), std::max(a.bound, b.bound),
                          std::max(a.error, b.error)});
    }
    }
  }

  /// `expr` is f(a) with |f'| <= slope and |f| <= bound; a function may be off by a few units itself.
  Real applied(const Real &a, Expr expr, double bound, double slope) {
    return bounded(Real{std::move(expr), bound, a.error * slope + a.bound * slope + 4 * bound});
  }

  Real function(uint64_t kind, const Real &a) {
    switch (kind) {
    case 6:
      return {-a.expr, a.bound, a.error};
    case 7:
      return {abs(a.expr), a.bound, a.error};
    case 8:
      return applied(a, exp(min(a.expr, 2.0f)), 7.5, 7.5);
    case 9:
      return applied(a, exp2(min(a.expr, 3.0f)), 8, 5.6);
    case 10:
      return applied(a, log(abs(a.expr) + 1.0f), std::log(a.bound + 1), 1);
    case 11:
      return applied(a, log2(abs(a.expr) + 1.0f), std::log2(a.bound + 1), 1.5);
    case 12:
      return applied(a, tanh(a.expr), 1, 1);
    case 13:
      return applied(a, sin(a.expr), 1, 1);
    case 14:
      return applied(a, cos(a.expr), 1, 1);
    case 15: // tan stays away from its poles
      return applied(a, tan(sin(a.expr)), 1.6, 3.5);
    case 16:
      return applied(a, sqrt(abs(a.expr) + 0.25f), std::sqrt(a.bound + 0.25), 1);
    case 17:
      return applied(a, rsqrt(abs(a.expr) + 0.5f), 1.5, 1.5);
    case 18: {
      static constexpr std::array exponents = {-1.0f, 0.5f, 2.0f, 1.5f};
      float exponent = exponents[below(exponents.size())];
      double largest = std::max(std::pow(a.bound + 0.5, double(exponent)), std::pow(0.5, double(exponent)));
      double slope = std::max({4.0, 2 * (a.bound + 0.5)});
      return applied(a, pow(abs(a.expr) + 0.5f, exponent), largest, slope);
    }
    default:
      return applied(a, sigmoid(a.expr), 1, 1);
    }
  }

  Real rareFunction(const Real &a, int depth) {
    switch (below(5)) {
    case 0:
      return applied(a, log1p(abs(a.expr)), std::log1p(a.bound), 1);
    case 1:
      return applied(a, atan(a.expr), 1.6, 1);
    case 2:
      return applied(a, erf(a.expr), 1, 1.2);
    case 3: // its sign jumps where the second is 0, which is exact
      return applied(a, copysign(a.expr, at(Coordinate::Q) - at(Coordinate::K)), a.bound, 1);
    default: { // away from 0, 0, where the angle jumps
      Real b = real(depth - 1);
      return bounded(
          Real{atan2(a.expr, abs(b.expr) + 0.5f), 1.6, 2 * (a.error + a.bound) + b.error + b.bound + 4 * 1.6});
    }
    }
  }

  Real selection(uint64_t kind, const Real &a, const Real &b, int depth) {
    if (kind == 20)
      return bounded(
          Real{select(condition(depth - 1), a.expr, b.expr), std::max(a.bound, b.bound), std::max(a.error, b.error)});
    // Float comparisons whose branches agree where they switch.
    std::array<Expr, 4> forms = {select(a.expr < b.expr, a.expr, b.expr), select(a.expr <= b.expr, b.expr, a.expr),
                                 select(a.expr > b.expr, a.expr - b.expr, b.expr - a.expr),
                                 select(a.expr >= b.expr, a.expr, b.expr)};
    return bounded(Real{forms[below(4)], a.bound + b.bound, a.error + b.error + a.bound + b.bound});
  }

  //===--- Masks ---===//
  Expr mask() {
    Expr q = at(Coordinate::Q), k = at(Coordinate::K);
    switch (below(7)) {
    case 0:
      return q >= k;
    case 1: {
      Expr window(int32_t(1 + below(60)));
      return k - q <= window && q - k <= int32_t(below(60));
    }
    case 2:
      return q >= k || k < int32_t(below(40));
    case 3: {
      Expr size(int32_t(1 + below(50)));
      return q / size == k / size;
    }
    case 4:
      return k - extent(Extent::Sk) <= q - extent(Extent::Sq) && condition(1);
    default: // a random condition is often false everywhere: half of them let every third key through
      if (chance(50))
        return condition(int(1 + below(3))) || (k - q) % 3 == 0;
      return condition(int(1 + below(3)));
    }
  }

  uint64_t seed;
  RandomOptions options;
  uint64_t counter = 0;
  int64_t batch = 1, heads = 1, queryLength = 1, keyLength = 1, headDim = 8;
  double scale = 1;
  std::vector<Captured> tensors;
  std::vector<ScalarDecl> scalars;
  std::map<std::string, HostTensor> inputs;
};

} // namespace

RandomCase randomCase(uint64_t seed, const RandomOptions &options) { return Generator(seed, options).generate(); }

std::string RandomCase::describe() const {
  std::string text = "seed " + std::to_string(seed) + ": q " + shapeText(problem.q) + ", k " + shapeText(problem.k) +
                     ", v " + shapeText(problem.v);
  for (const auto &[label, tensor] : problem.tensors)
    text += ", " + label + " " + shapeText(tensor);
  for (const auto &[label, value] : problem.scalars)
    text +=
        ", " + label + " = " + (isFloat(value.dtype) ? std::to_string(value.at(0)) : std::to_string(value.intAt(0)));
  if (variant->hasDropout())
    text += ", dropout seed " + std::to_string(problem.seed) + " offset " + std::to_string(problem.offset);
  if (variant->hasQOffset())
    text += ", q offset " + std::to_string(problem.qOffset);
  return text + "\n" + variant->toJson();
}

} // namespace attune::reference
