//===- LongAccumulatorTest.cpp - Words of long accumulators, float by float ------===//

#include "passes/attn/LongAccumulator.h"
#include "tests/attn/RegionInterpreter.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

using namespace attune;
using attune::testing::RegionInterpreter;
using attune::testing::Scalar;

namespace {

/// The ops of a long accumulator, evaluated for given numbers.
class Accumulator {
public:
  Accumulator() {
    context.loadDialect<mlir::arith::ArithDialect>();
    mlir::OpBuilder builder(&context);
    const mlir::Location loc = builder.getUnknownLoc();
    builder.setInsertionPointToEnd(&ofFloat);
    x = ofFloat.addArgument(builder.getF32Type(), loc);
    word = accumulator::wordOf(builder, loc, x);
    addend = accumulator::addendOf(builder, loc, x);
    builder.setInsertionPointToEnd(&ofWord);
    count = ofWord.addArgument(builder.getI64Type(), loc);
    index = ofWord.addArgument(builder.getI32Type(), loc);
    value = accumulator::valueOf(builder, loc, count, index);
  }

  /// The word that a float is added to, and what is added.
  std::pair<int64_t, int64_t> split(float of) {
    RegionInterpreter interpreter = evaluate(ofFloat, {{x, Scalar::of(of)}});
    return {interpreter.get(word).integer, interpreter.get(addend).integer};
  }
  float valueOf(int64_t counted, int64_t at) {
    return evaluate(ofWord, {{count, Scalar::of(counted)}, {index, Scalar::of(at)}}).get(value).real;
  }
  /// The words after some floats, and their sum in the order of the words.
  std::vector<int64_t> add(const std::vector<float> &all) {
    std::vector<int64_t> words(accumulator::words);
    for (float each : all) {
      const auto [at, added] = split(each);
      words[size_t(at)] += added;
    }
    return words;
  }
  float sum(const std::vector<float> &all) {
    float total = 0;
    const std::vector<int64_t> words = add(all);
    for (size_t i = 0; i < words.size(); ++i)
      total += valueOf(words[i], int64_t(i));
    return total;
  }

private:
  static RegionInterpreter evaluate(mlir::Block &block, const std::vector<std::pair<mlir::Value, Scalar>> &arguments) {
    RegionInterpreter interpreter([](mlir::Operation *, llvm::ArrayRef<Scalar>) { return Scalar(); });
    for (auto [argument, given] : arguments)
      interpreter.set(argument, given);
    for (mlir::Operation &op : block)
      interpreter.run(op);
    return interpreter;
  }

  mlir::MLIRContext context;
  mlir::Block ofFloat, ofWord;
  mlir::Value x, word, addend, count, index, value;
};

constexpr float infinity = std::numeric_limits<float>::infinity(), notANumber = std::numeric_limits<float>::quiet_NaN();

} // namespace

TEST_CASE("a float is one addend of a long accumulator, whatever its exponent") {
  Accumulator accumulator;
  CHECK(accumulator.split(1.5f) == std::pair<int64_t, int64_t>(31, 0xC00000 << 3));
  CHECK(accumulator.split(-2) == std::pair<int64_t, int64_t>(32, -0x800000));
  CHECK(accumulator.split(0x1p-149f) == std::pair<int64_t, int64_t>(0, 2));
  CHECK(accumulator.split(0).second == 0);
  std::mt19937 random(1);
  for (uint32_t field = 0; field < 255; ++field)
    for (uint32_t fraction : {0u, 1u, 0x7fffffu, uint32_t(random() & 0x7fffff)})
      for (uint32_t sign : {0u, 1u}) {
        const float x = std::bit_cast<float>(sign << 31 | field << 23 | fraction);
        const auto [word, addend] = accumulator.split(x);
        INFO("field " << field << ", fraction " << fraction);
        CHECK(std::ldexp(double(addend), int(4 * word - 150)) == double(x));
        CHECK(std::abs(addend) < 1 << 27);
        CHECK(word < 64);
        CHECK(accumulator.valueOf(addend, word) == x);
      }
}

TEST_CASE("the words of a long accumulator are the same in any order, and lose nothing") {
  Accumulator accumulator;
  std::mt19937 random(2);
  std::vector<float> all;
  double exact = 0;
  for (int i = 0; i < 1000; ++i) {
    all.push_back(std::ldexp(float(int(random() % 2001) - 1000), int(random() % 30)));
    exact += all.back();
  }
  const std::vector<int64_t> words = accumulator.add(all);
  CHECK(accumulator.sum(all) == Approx(exact).epsilon(1e-6));
  for (int i = 0; i < 5; ++i) {
    std::ranges::shuffle(all, random);
    CHECK(accumulator.add(all) == words);
  }
  // Float32 alone would round the small one away.
  CHECK(accumulator.sum({0x1p60f, 1, -0x1p60f}) == 1);
  CHECK(accumulator.sum(std::vector<float>(1000, 0x1.fffffep+110f)) == Approx(1000 * 0x1.fffffep+110));
  CHECK(accumulator.sum(std::vector<float>(1000, 0x1p-149f)) == 1000 * 0x1p-149f);
  CHECK(accumulator.sum({}) == 0);
}

TEST_CASE("infinities and NaN come out of a long accumulator as out of a sum") {
  Accumulator accumulator;
  CHECK(accumulator.sum({1, infinity, 2}) == infinity);
  CHECK(accumulator.sum({infinity, infinity, -0x1p127f}) == infinity);
  CHECK(accumulator.sum({-infinity, 3}) == -infinity);
  CHECK(std::isnan(accumulator.sum({infinity, 1, -infinity})));
  CHECK(std::isnan(accumulator.sum({1, notANumber})));
  CHECK(std::isnan(accumulator.sum({-notANumber, infinity})));
  CHECK(accumulator.sum({0x1.fffffep+127f, 0x1.fffffep+127f}) == infinity);
}
