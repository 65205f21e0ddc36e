//===- DifferentiateTest.cpp - Derivatives against finite differences ------------===//

#include "ir/attn/FromVariant.h"
#include "passes/Pipeline.h"
#include "tests/attn/RegionInterpreter.h"
#include "tools/reference/RandomVariant.h"

#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace attune;
using attune::testing::RegionInterpreter;
using attune::testing::Scalar;

namespace {

/// A score beside its gradient, evaluated element by element. Captured tensors hold one element.
class Differentiated {
public:
  Differentiated(const std::string &score, const std::vector<std::string> &tensors = {}) {
    std::string json = R"({"name": "v", "score": ")" + score + R"(", "tensors": {)";
    for (const std::string &name : tensors)
      json += (name == tensors.front() ? "\"" : ", \"") + name + R"(": {"dtype": "f32", "rank": 0})";
    Expected<Variant> variant = Variant::fromJson(json + "}}");
    if (!variant)
      FAIL(variant.error().text());
    auto built = buildAttention(context, *variant, bf16, 64, 64);
    REQUIRE(built);
    module = std::move(*built);
    op = *module->getOps<attn::AttentionOp>().begin();
    llvm::SmallVector<mlir::StringAttr> names;
    for (const std::string &name : tensors)
      names.push_back(mlir::StringAttr::get(&context, name));
    op.setGradientsAttr(attn::GradientsAttr::get(&context, names, false, false));
    mlir::PassManager passes(&context);
    addDifferentiate(passes);
    REQUIRE(mlir::succeeded(passes.run(*module)));
  }

  double value(float s) { return evaluate(op.getScore(), s); }
  /// The gradient of s; those of the tensors are left in `added`.
  double gradient(float s, float g) {
    added.clear();
    return evaluate(op.getScoreGrad(), s, g);
  }

  std::map<std::string, double> elements, added;

private:
  double evaluate(mlir::Region &region, float s, float g = 0) {
    RegionInterpreter interpreter([&](mlir::Operation *leaf, llvm::ArrayRef<Scalar> operands) {
      if (auto load = mlir::dyn_cast<attn::LoadOp>(leaf))
        return Scalar::of(float(elements.at(load.getName().str())));
      added[mlir::cast<attn::AddGradientOp>(leaf).getName().str()] += operands.front().real;
      return Scalar();
    });
    mlir::Block &block = region.front();
    interpreter.set(block.getArgument(0), Scalar::of(s));
    const int64_t coordinates[] = {1, 2, 7, 4}; // b, h, q, k
    for (int i = 0; i < 4; ++i)
      interpreter.set(block.getArgument(unsigned(i + 1)), Scalar::of(coordinates[i]));
    if (block.getNumArguments() > 5)
      interpreter.set(block.getArgument(5), Scalar::of(g));
    return interpreter.run(block).real;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  attn::AttentionOp op;
};

/// Of fourth order: float32 values leave about 1e-5 of noise.
double slope(const std::function<double(double)> &f, double at) {
  const double h = 1.0 / 64;
  return (8 * (f(at + h) - f(at - h)) - (f(at + 2 * h) - f(at - 2 * h))) / (12 * h);
}

} // namespace

TEST_CASE("the derivative of every operation is its finite difference") {
  const char *scores[] = {"s",
                          "2 * s",
                          "s * s",
                          "s - 3 * s * s",
                          "1 / s",
                          "s / (1 + s * s)",
                          "-s",
                          "abs(s)",
                          "min(s, 0.3)",
                          "max(s, 0.3)",
                          "min(s, s * s)",
                          "exp(s)",
                          "exp2(s)",
                          "log(s * s + 1)",
                          "log2(s * s + 1)",
                          "tanh(s)",
                          "sin(s)",
                          "cos(s)",
                          "tan(s)",
                          "sqrt(s * s + 1)",
                          "rsqrt(s * s + 1)",
                          "pow(s * s + 1, 1.7)",
                          "pow(2, s)",
                          "pow(s, 2)",
                          "sigmoid(s)",
                          "5 * tanh(s / 5)",
                          "select(q >= k, s * s, 3)",
                          "select(q < k, s * s, s)",
                          "s + f32(k - q) * 0.5",
                          "s * f32(i32(s))",
                          "sin(cos(s)) + tan(s / 2)",
                          "exp(-abs(s)) * tanh(2 * s) + s / (2 + cos(s))"};
  for (const char *text : scores) {
    Differentiated score(text);
    for (float s : {-1.37f, -0.61f, 0.17f, 0.83f, 1.21f}) {
      INFO(text << " at " << s);
      const double expected = 1.5 * slope([&](double at) { return score.value(float(at)); }, s);
      CHECK(score.gradient(s, 1.5f) == Approx(expected).margin(2e-3).epsilon(2e-3));
    }
  }
}

TEST_CASE("kinks have PyTorch's slopes") {
  CHECK(Differentiated("abs(s)").gradient(0, 1) == 0);
  CHECK(Differentiated("max(s, 0)").gradient(0, 1) == 0.5);
  CHECK(Differentiated("min(s, 0)").gradient(0, 1) == 0.5);
  CHECK(Differentiated("max(s, -s)").gradient(0, 1) == 0); // half each, of opposite sign
  CHECK(Differentiated("pow(s, 2)").gradient(0, 1) == 0);
  CHECK(Differentiated("select(s > 0, s, 0)").gradient(0, 1) == 0);
}

TEST_CASE("the logistic function is differentiable where its exponential is infinite") {
  for (float s : {-200.0f, -100.0f, 100.0f, 200.0f})
    CHECK(Differentiated("sigmoid(s)").gradient(s, 1) == 0);
}

TEST_CASE("gradients of captured tensors are their finite differences") {
  for (const char *text :
       {"s * a() + c()", "tanh(s * a()) * c() + a()", "select(q >= k, a(), c()) * s", "a() / c() - c()"}) {
    Differentiated score(text, {"a", "c"});
    score.elements = {{"a", 0.7}, {"c", -1.3}};
    for (float s : {-0.9f, 0.4f})
      for (const char *name : {"a", "c"}) {
        INFO(text << " by " << name << " at " << s);
        const double at = score.elements.at(name), expected = slope(
                                                       [&](double value) {
                                                         score.elements.at(name) = value;
                                                         return score.value(s);
                                                       },
                                                       at);
        score.elements.at(name) = at;
        score.gradient(s, 1);
        CHECK(score.added[name] == Approx(expected).margin(2e-3));
      }
  }
}
