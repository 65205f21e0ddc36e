//===- FromVariantTest.cpp - Variants as attn regions -------------------------===//

#include "ir/attn/FromVariant.h"
#include "ir/attn/Attn.h"
#include "tests/attn/RegionInterpreter.h"

#include "attune/Builtins.h"
#include "mlir/IR/Verifier.h"
#include "tools/reference/Program.h"
#include "tools/reference/RandomVariant.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace attune;
using attune::testing::RegionInterpreter;
using attune::testing::Scalar;

namespace {

mlir::OwningOpRef<mlir::ModuleOp> build(mlir::MLIRContext &context, const Variant &variant, DType dtype = bf16,
                                        int headDim = 64, int headDimV = 64) {
  auto module = buildAttention(context, variant, dtype, headDim, headDimV);
  if (!module)
    FAIL(module.error().text());
  REQUIRE(mlir::succeeded(mlir::verify(**module)));
  return std::move(*module);
}

attn::AttentionOp attentionOf(mlir::ModuleOp module) { return *module.getOps<attn::AttentionOp>().begin(); }

std::string text(mlir::Operation *op) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  op->print(stream);
  return result;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

std::string failure(const Variant &variant, DType dtype, int headDim, int headDimV) {
  mlir::MLIRContext context;
  auto module = buildAttention(context, variant, dtype, headDim, headDimV);
  REQUIRE_FALSE(module);
  return module.error().message;
}

/// The value of attn.load, attn.search (of integers), attn.scalar and attn.extent, as the reference defines them.
Scalar leaf(const reference::Problem &problem, mlir::Operation *op, llvm::ArrayRef<Scalar> indices) {
  auto element = [&](const reference::HostTensor &tensor, int64_t offset) {
    return isFloat(tensor.dtype) ? Scalar::of(float(tensor.at(offset))) : Scalar::of(tensor.intAt(offset));
  };
  if (auto extent = mlir::dyn_cast<attn::ExtentOp>(op)) {
    llvm::StringRef which = extent.getName();
    return Scalar::of(which == "B"    ? problem.q.shape[0]
                      : which == "H"  ? problem.q.shape[1]
                      : which == "Sq" ? problem.q.shape[2]
                                      : problem.k.shape[2]);
  }
  if (auto scalar = mlir::dyn_cast<attn::ScalarOp>(op))
    return element(problem.scalars.at(scalar.getName().str()), 0);
  if (auto search = mlir::dyn_cast<attn::SearchOp>(op)) {
    const reference::HostTensor &vector = problem.tensors.at(search.getName().str());
    REQUIRE(!isFloat(vector.dtype));
    int64_t count = 0;
    for (int64_t i = 0; i < vector.size(); ++i)
      count += vector.intAt(i) < indices[0].integer + search.getRight();
    return Scalar::of(count);
  }
  auto load = mlir::cast<attn::LoadOp>(op);
  const reference::HostTensor &tensor = problem.tensors.at(load.getName().str());
  if (!tensor.size())
    return {};
  int64_t offset = 0;
  for (auto [extent, index] : llvm::zip_equal(tensor.shape, indices))
    offset = offset * extent + std::clamp<int64_t>(index.integer, 0, extent - 1);
  return element(tensor, offset);
}

} // namespace

TEST_CASE("the op carries the variant's declaration") {
  mlir::MLIRContext context;
  auto slopes = captured("slopes", bf16, rank(1));
  auto blocks = captured("pattern", boolean, rank(3));
  auto cap = scalar("cap", f32);
  Variant variant =
      Variant("gemma")
          .scale(0.125f)
          .score([&](Score s, Index, Index h, Index q, Index k) { return softcap(s, cap) + slopes[h] * (k - q); })
          .mask(causal())
          .dropout(0.1f)
          .blocks(blocks, 64, 128)
          .precise()
          .qOffset();
  auto module = build(context, variant, f16, 128, 72);
  std::string printed = text(attentionOf(*module));
  CHECK(contains(printed, "attn.attention @gemma dtype f16 head_dim 128 x 72 scale 1.250000e-01"));
  CHECK(contains(printed, "dropout"));
  CHECK(contains(printed, "precise"));
  CHECK(contains(printed, "q_offset"));
  CHECK(contains(printed, "#attn.tensor<slopes, bf16, rank 1>"));
  CHECK(contains(printed, "#attn.tensor<pattern, i8, rank 3>"));
  CHECK(contains(printed, "#attn.scalar<cap, f32>"));
  CHECK(contains(printed, "#attn.blocks<pattern, 64x128>"));
  CHECK(contains(printed, "attn.load \"slopes\"[%h] : (i32) -> f32"));
}

TEST_CASE("without declarations the regions are empty and the scale is 1 / sqrt(head dim)") {
  mlir::MLIRContext context;
  auto module = build(context, Variant("plain"), f32, 64, 32);
  attn::AttentionOp op = attentionOf(*module);
  CHECK(op.getScore().empty());
  CHECK(op.getMask().empty());
  CHECK(op.getScale().convertToFloat() == 0.125f);
  CHECK(!op.getPattern());
  CHECK(op.getTensors().empty());
}

TEST_CASE("softmax leaves no trace in the op, another normaliser its regions") {
  mlir::MLIRContext context;
  auto plain = build(context, Variant("plain").normaliser(normalisers::softmax()));
  attn::AttentionOp softmax = attentionOf(*plain);
  CHECK(!softmax.getNormaliser());
  CHECK(softmax.hasLse());
  for (mlir::Region *region : softmax.normaliserRegions())
    CHECK(region->empty());
  CHECK(!contains(text(softmax), "normaliser"));

  auto module = build(context, Variant("sink").normaliser(normalisers::softmaxWithSink("sinks")));
  attn::AttentionOp sink = attentionOf(*module);
  CHECK(sink.getNormaliser() == "softmax_sink");
  CHECK(sink.hasLse());
  std::string printed = text(sink);
  CHECK(contains(printed, "statistics = [#attn.statistic<m, max, 0xFF800000 : f32>, #attn.statistic<l, sum, "
                          "0.000000e+00 : f32>]"));
  CHECK(contains(printed, "^bb0(%b: i32, %h: i32, %m: f32, %l: f32, %base: f32)"));
  CHECK(contains(printed, "^bb0(%b: i32, %h: i32, %x: f32, %base: f32)"));
  CHECK(contains(printed, "attn.load \"sinks\"[%h] : (i32) -> f32"));

  auto pointwise = build(context, Variant("sigmoid").normaliser(normalisers::sigmoid()));
  attn::AttentionOp sigmoid = attentionOf(*pointwise);
  CHECK(!sigmoid.hasLse());
  CHECK(sigmoid.getStatistics().empty());
  CHECK(sigmoid.getDivisor().empty());
  RegionInterpreter interpreter([](mlir::Operation *, llvm::ArrayRef<Scalar>) { return Scalar(); });
  mlir::Block &p = sigmoid.getP().front();
  for (float x : {0.0f, 2.0f, -1.5f, -std::numeric_limits<float>::infinity()}) {
    interpreter.set(p.getArgument(2), Scalar::of(x));
    CHECK(interpreter.run(p).real == Approx(1 / (1 + std::exp(-x))));
  }
}

TEST_CASE("what softmax is written out as computes it") {
  mlir::MLIRContext context;
  auto module = build(context, Variant("plain"));
  attn::AttentionOp op = attentionOf(*module);
  writeSoftmax(op);
  REQUIRE(mlir::succeeded(mlir::verify(*module)));
  RegionInterpreter interpreter([](mlir::Operation *, llvm::ArrayRef<Scalar>) { return Scalar(); });
  auto value = [&](mlir::Region &region, std::vector<float> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i)
      interpreter.set(region.getArgument(unsigned(i) + 2), Scalar::of(arguments[i]));
    return interpreter.run(region.front()).real;
  };
  const float hidden = -std::numeric_limits<float>::infinity();
  CHECK(value(op.getBase(), {hidden, 0}) == 0);
  CHECK(value(op.getBase(), {3, 1}) == 3);
  CHECK(value(op.getRescale(), {1, 1, 3}) == Approx(std::exp(-2.0)));
  CHECK(value(op.getP(), {hidden, 0}) == 0);
  CHECK(value(op.getDivisor(), {3, 2}) == 2);
  CHECK(value(op.getLse(), {3, 2}) == Approx(3 + std::log(2.0)));
  CHECK(value(op.getLse(), {hidden, 0}) == hidden);
}

TEST_CASE("operations carry the user's line") {
  mlir::MLIRContext context;
  unsigned line = __LINE__ + 1;
  auto module = build(context, Variant("located").mask([](Index, Index, Index q, Index k) { return q - k < 7; }));
  for (mlir::Operation &op : attentionOf(*module).getMask().front().without_terminator()) {
    auto loc = mlir::dyn_cast<mlir::FileLineColLoc>(op.getLoc());
    REQUIRE(loc);
    CHECK(loc.getLine() == line);
    CHECK(loc.getFilename().getValue().ends_with("FromVariantTest.cpp"));
  }
}

TEST_CASE("a shared subexpression is built once") {
  mlir::MLIRContext context;
  auto module = build(context, Variant("shared").score([](Score s, Index, Index, Index q, Index k) {
    Expr x = s * s;
    for (int i = 0; i < 60; ++i)
      x = x + x;
    return x + (q - k) + (q - k);
  }));
  auto count = [&](llvm::StringRef name) {
    return llvm::count_if(attentionOf(*module).getScore().front(),
                          [&](mlir::Operation &op) { return op.getName().getStringRef() == name; });
  };
  CHECK(count("arith.mulf") == 1);
  CHECK(count("arith.addf") == 62);
  CHECK(count("arith.subi") == 1);
}

TEST_CASE("head dims and dtypes that attn lacks are errors") {
  Variant variant("v");
  CHECK(failure(variant, bf16, 100, 100) == "head_dim 100 is not a multiple of 8; pad the last dimension to 104");
  CHECK(failure(variant, bf16, 128, 20) == "head_dim_v 20 is not a multiple of 8; pad the last dimension to 24");
  CHECK(failure(variant, bf16, 0, 64) == "head_dim 0 is not positive; use a multiple of 8 from 8 to 576");
  CHECK(failure(variant, bf16, 584, 64) == "head_dim 584 is larger than 576; use a multiple of 8 from 8 to 576");
  CHECK(failure(variant, i32, 64, 64) == "dtype i32 is not f16, bf16 or f32; convert q, k and v");
  Variant wrong = Variant("w").mask([](Index, Index, Index q, Index) { return q; });
  CHECK(failure(wrong, bf16, 64, 64) == wrong.error()->message);
}

TEST_CASE("integer arithmetic and casts are total and agree with the reference") {
  mlir::MLIRContext context;
  auto values = captured("values", i32, rank(1));
  auto wide = captured("wide", i64, rank(1));
  auto floats = captured("floats", f32, rank(1));
  constexpr int32_t lowest = std::numeric_limits<int32_t>::min();
  constexpr int64_t lowest64 = std::numeric_limits<int64_t>::min();
  std::vector<int64_t> edges = {0, 1, -1, 2, -7, 31, 32, 33, 63, 64, 100, INT32_MAX, lowest, lowest + 1};
  std::vector<int64_t> edges64 = edges;
  edges64.insert(edges64.end(), {INT64_MAX, lowest64, lowest64 + 1, int64_t(1) << 32});
  std::vector<double> reals = {0,      -0.0,    0.5,      -0.9,        1.5,          -2.5,     0x1p31,    -0x1p31,
                               0x1p63, -0x1p63, 0x1.8p62, 2147483520., -2147483904., INFINITY, -INFINITY, NAN};
  auto variant = [&](auto f) {
    return Variant("total").score([&](Score s, Index, Index, Index q, Index k) { return s + f(q, k); });
  };
  std::vector<Variant> variants = {
      variant([&](Index q, Index k) { return values[q] / values[k]; }),
      variant([&](Index q, Index k) { return values[q] % values[k]; }),
      variant([&](Index q, Index k) { return wide[q] / wide[k]; }),
      variant([&](Index q, Index k) { return wide[q] % wide[k]; }),
      variant([&](Index q, Index k) { return values[q] << values[k]; }),
      variant([&](Index q, Index k) { return wide[q] >> wide[k]; }),
      variant([&](Index q, Index) { return (values[q] << 35) + (values[q] >> -1) + values[q] / 0 + values[q] % 0; }),
      variant([&](Index q, Index) { return values[q] / -1 + values[q] % -1 + values[q] / 7 + values[q] % -7; }),
      variant([&](Index q, Index k) { return (values[q] * values[k]) ^ ~(values[q] - values[k]); }),
      variant([&](Index q, Index k) { return abs(values[q]) + (-values[k]) + (values[q] & values[k]); }),
      variant([&](Index q, Index k) { return cast(wide[q], i32) + cast(cast(values[k], boolean), i32); }),
      variant([&](Index q, Index) { return cast(floats[q], i32); }),
      variant([&](Index q, Index) { return cast(floats[q], i64); }),
      variant([&](Index q, Index) { return cast(cast(floats[q], boolean), f32); }),
      variant([&](Index q, Index k) { return select(min(floats[q], floats[k]) < max(floats[q], 1.0f), 1, 2); }),
      variant([&](Index q, Index k) { return select((floats[q] != floats[k]) ^ (floats[q] >= 0.0f), 1.0f, 2.0f); }),
  };
  reference::Problem problem;
  problem.q = problem.k = problem.v = reference::HostTensor::zeros(f32, {1, 1, 18, 8});
  problem.tensors = {{"values", reference::HostTensor::fromInts(i32, {int64_t(edges.size())}, edges)},
                     {"wide", reference::HostTensor::fromInts(i64, {int64_t(edges64.size())}, edges64)},
                     {"floats", reference::HostTensor::fromDoubles(f32, {int64_t(reals.size())}, reals)}};
  for (Variant &v : variants) {
    INFO(attune::text(*v.scoreExpr()));
    auto module = build(context, v);
    mlir::Block &block = attentionOf(*module).getScore().front();
    reference::Bindings bindings{&problem.tensors, &problem.scalars, 1, 1, 18, 18};
    auto program = reference::Program::compile(*v.scoreExpr(), bindings);
    REQUIRE(program);
    reference::RowInterpreter row(*program);
    RegionInterpreter region([&](mlir::Operation *op, llvm::ArrayRef<Scalar> x) { return leaf(problem, op, x); });
    std::vector<float> scores(18, 0.0f);
    for (int64_t q = 0; q < 18; ++q) {
      row.startRow(0, 0, q);
      row.run(0, 18, scores.data());
      for (int64_t k = 0; k < 18; ++k) {
        std::array<Scalar, 5> point = {Scalar::of(0.0f), Scalar{}, Scalar{}, Scalar::of(q), Scalar::of(k)};
        for (auto [argument, value] : llvm::zip_equal(block.getArguments(), point))
          region.set(argument, value);
        INFO("q " << q << " k " << k);
        CHECK(region.run(block).real == row.floats()[k]);
      }
    }
  }
}

TEST_CASE("random variants agree with the reference's interpreter") {
  mlir::MLIRContext context;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    reference::RandomCase random = reference::randomCase(seed, {.dtype = f32, .maxLength = 24, .maxHeadDim = 8});
    INFO(random.describe());
    const reference::Problem &problem = random.problem;
    const Variant &variant = *random.variant;
    auto module = build(context, variant);
    attn::AttentionOp op = attentionOf(*module);
    int64_t heads = problem.q.shape[1], queries = problem.q.shape[2], keys = problem.k.shape[2];
    if (!keys)
      continue;
    reference::Bindings bindings{&problem.tensors, &problem.scalars, problem.q.shape[0], heads, queries, keys};
    RegionInterpreter region([&](mlir::Operation *op, llvm::ArrayRef<Scalar> x) { return leaf(problem, op, x); });
    std::vector<float> scores(keys);
    for (int64_t k = 0; k < keys; ++k)
      scores[k] = 3 * std::sin(float(k + seed));
    int64_t b = problem.q.shape[0] - 1, h = heads - 1;
    for (mlir::Region *body : {&op.getScore(), &op.getMask()}) {
      bool mask = body == &op.getMask();
      if (body->empty())
        continue;
      auto program = reference::Program::compile(mask ? *variant.maskExpr() : *variant.scoreExpr(), bindings);
      REQUIRE(program);
      reference::RowInterpreter row(*program);
      for (int64_t q : {int64_t(0), queries / 2, queries - 1}) {
        row.startRow(b, h, q + problem.qOffset);
        row.run(0, keys, mask ? nullptr : scores.data());
        for (int64_t k = 0; k < keys; ++k) {
          auto arguments = body->getArguments();
          if (!mask)
            region.set(arguments[0], Scalar::of(scores[k]));
          std::array<int64_t, 4> point = {b, h, q + problem.qOffset, k};
          for (auto [argument, value] : llvm::zip_equal(arguments.take_back(4), point))
            region.set(argument, Scalar::of(value));
          Scalar result = region.run(body->front());
          if (mask) {
            CHECK(result.integer == row.ints()[k]);
          } else if (float expected = row.floats()[k]; result.real != expected) {
            CHECK(std::isnan(result.real) == std::isnan(expected));
            if (!std::isnan(expected))
              CHECK(result.real == Approx(expected).epsilon(1e-4).margin(1e-4));
          }
        }
      }
    }
  }
}
