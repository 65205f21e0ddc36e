//===- CapturedGradientTest.cpp - Gradients of captured tensors against float64 ---===//

#include "tests/numerics/BackwardRunner.h"
#include "tests/numerics/Cases.h"
#include "tests/numerics/GradientCases.h"
#include "tests/numerics/Placement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

namespace {

void check(const Asked &asked) {
  Verdict verdict = checkBackward(asked.test, Target::cpu(), asked.gradients);
  INFO(verdict.text);
  CHECK(verdict.pass);
}

/// Where a difference is left, of the loss sum(dO * O), it has that slope.
void checkDifferences(const Reader &reader, const Shape &shape) {
  const Asked asked = testOf(reader, Variant("differences").score(reader.score).mask(causal()), f32, shape, 5);
  const reference::BackwardProblem problem = backwardProblem(asked.test, asked.gradients);
  const Expected<reference::GradientValues> exact = reference::gradients(problem);
  REQUIRE(exact);
  auto loss = [&](const reference::Problem &forward) {
    const Expected<reference::Output> output = reference::attention(forward);
    double sum = 0;
    for (int64_t i = 0; i < problem.dO.size(); ++i)
      sum += problem.dO.at(i) * output->o[size_t(i)];
    return sum;
  };
  CompileOptions options = optionsOf(asked.test);
  options.gradients = asked.gradients;
  options.backward = true;
  const Expected<Kernel> kernel = compile(*asked.test.variant, options, Target::cpu());
  REQUIRE(kernel);
  const Expected<GradientResults> results = runBackward(*kernel, asked.test, problem, *exact);
  REQUIRE(results);
  for (const std::string &name : asked.gradients.tensors) {
    const HostTensor &actual = results->gradients.at(name);
    for (int64_t i = 0; i < actual.size(); i += std::max<int64_t>(actual.size() / 7, 1)) {
      reference::Problem moved = problem.forward;
      constexpr double step = 1.0 / 64;
      const double value = moved.tensors.at(name).at(i);
      moved.tensors.at(name).set(i, value + step);
      const double above = loss(moved);
      moved.tensors.at(name).set(i, value - step);
      const double slope = (above - loss(moved)) / (2 * step);
      INFO(reader.label << ", element " << i);
      CHECK(actual.at(i) == Approx(slope).margin(2e-4).epsilon(2e-3));
    }
  }
}

} // namespace

TEST_CASE("gradients of all kinds of captured tensors") {
  const std::vector<std::function<Asked()>> cases = gradientCases();
  for (size_t i = 0; i < cases.size(); i += sampleStep(17)) // with each shape and dtype
    check(cases[i]());
}

TEST_CASE("gradients of captured tensors are those of differences") {
  const Shape shape{.batch = 2, .heads = 4, .headsKv = 2, .queries = 9, .keys = 13, .headDim = 8};
  Sample sample(4);
  for (const std::vector<Reader> &readers : {orderedReaders(), scatteredReaders()})
    for (const Reader &reader : readers)
      for (const Learned &tensor : reader.tensors)
        if (tensor.dtype == f32 && sample.takes())
          checkDifferences(reader, shape);
}

TEST_CASE("gradients with an offset of queries, in any layout") {
  Sample sample(5);
  for (const std::vector<Reader> &readers : {orderedReaders(), scatteredReaders()})
    for (const Reader &reader : readers)
      for (int64_t offset : {0, 37}) {
        if (!sample.takes())
          continue;
        // What has an element for each query has one for each position.
        Reader longer = reader;
        for (Learned &tensor : longer.tensors)
          for (int64_t &dim : tensor.dims)
            dim = dim == -3 ? 200 : dim;
        Asked asked = testOf(longer, Variant("offset").qOffset().score(reader.score).mask(causal()), f32,
                             gradientShapes().front(), 11);
        asked.test.problem.qOffset = offset;
        asked.test.layout = {.rowsBeforeHeads = true, .padColumns = 8, .reversedTensors = true};
        check(asked);
      }
}

TEST_CASE("gradients of what other normalisers read") {
  const Shape shape{.batch = 2, .heads = 6, .headsKv = 2, .queries = 113, .keys = 203, .headDim = 32};
  auto t = captured("t", f32, rank(2));
  auto scored = [=](Score s, Index, Index h, Index q, Index) { return s * t[h][q]; };
  for (const Normaliser &normaliser : {normalisers::sigmoid(), normalisers::none()}) {
    Asked asked{
        makeCase(normaliser.name, Variant("v").score(scored).mask(causal()).normaliser(normaliser), f32, shape, 6),
        {.tensors = {"t"}}};
    asked.test.problem.tensors["t"] = HostTensor::random(f32, {6, 113}, 8);
    check(asked);
  }
}

TEST_CASE("hidden and infinite elements give nothing to a gradient") {
  const Shape shape{.batch = 2, .heads = 2, .headsKv = 1, .queries = 130, .keys = 150, .headDim = 32};
  for (DType dtype : dtypes) {
    // Every seventh element is -inf.
    Asked dense{
        makeCase("bias", Variant("bias").score(bias(captured("bias", f32, rank(3)))).mask(causal()), dtype, shape, 2),
        {.tensors = {"bias"}}};
    check(dense);
    Asked blocks{makeCase("blocks",
                          Variant("blocks")
                              .score(alibi(captured("slopes", f32, rank(1))))
                              .blocks(captured("pattern", boolean, rank(3)), 64, 64)
                              .mask(documents(captured("ids", i32, rank(1)))),
                          dtype, {.batch = 2, .heads = 2, .headsKv = 1, .queries = 150, .keys = 150, .headDim = 32}, 3),
                 {.tensors = {"slopes"}}};
    check(blocks);
  }
}

TEST_CASE("rows past the end of the queries give nothing to a gradient, however great their weights") {
  Sample sample(4);
  for (const std::vector<Reader> &readers : {orderedReaders(), scatteredReaders()})
    for (const Reader &reader : readers) {
      if (!sample.takes())
        continue;
      Asked asked = testOf(reader, Variant("great").score(reader.score), f32, gradientShapes().front(), 12);
      // exp(s) overflows where LSE is taken as 0.
      for (const std::string &name : asked.gradients.tensors) {
        HostTensor &values = asked.test.problem.tensors.at(name);
        for (int64_t i = 0; i < values.size(); ++i)
          values.set(i, 200);
      }
      check(asked);
    }
}

TEST_CASE("gradients of empty sequences and of no batches are zeros") {
  const std::vector<std::string> labels = {"t[h] * (k - q)", "clamped t[k]", "t[k, q, h] larger", "clamped t[q - k]"};
  for (const std::vector<Reader> &readers : {orderedReaders(), scatteredReaders()})
    for (const Reader &reader : readers) {
      if (std::ranges::find(labels, reader.label) == labels.end())
        continue;
      for (auto [batch, queries, keys] : {std::tuple(2, 0, 50), std::tuple(2, 50, 0), std::tuple(0, 50, 50)}) {
        const Shape shape{.batch = batch, .heads = 2, .headsKv = 1, .queries = queries, .keys = keys, .headDim = 16};
        check(testOf(reader, Variant("empty").score(reader.score), f32, shape, 3));
      }
    }
}

TEST_CASE("gradients of captured tensors in sums have the same bits in every launch") {
  auto slopes = captured("slopes", f32, rank(1)), pos = captured("pos", f32, rank(1));
  auto dense = captured("dense", f32, rank(2));
  const Variant variant = Variant("v").dropout(0.1f).score(
      [=](Score s, Index, Index h, Index q, Index k) { return s * slopes[h] + pos[k] + dense[q][k]; });
  const Shape shape{.batch = 2, .heads = 6, .headsKv = 2, .queries = 200, .keys = 330, .headDim = 64};
  Case test = makeCase("repeats", variant, bf16, shape, 3);
  test.problem.tensors["slopes"] = HostTensor::random(f32, {6}, 1);
  test.problem.tensors["pos"] = HostTensor::random(f32, {330}, 2);
  test.problem.tensors["dense"] = HostTensor::random(f32, {200, 330}, 3);
  Verdict verdict = checkRepeats(test, Target::cpu(), 10, {"slopes", "pos", "dense"});
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("gradients of tables have the same bits in every launch") {
  const Shape shape{.batch = 2, .heads = 4, .headsKv = 2, .queries = 150, .keys = 230, .headDim = 16};
  Sample sample(4);
  for (const Reader &reader : scatteredReaders()) {
    if (!sample.takes())
      continue;
    const uint64_t seed = sample.number() + 2;
    const DType dtype = dtypes[seed % 3];
    const Variant variant = Variant("v").score(reader.score).dropout(0.1f);
    const Asked asked = testOf(reader, variant, dtype, shape, seed);
    Verdict verdict = checkRepeats(asked.test, Target::cpu(), 8, asked.gradients.tensors);
    INFO(verdict.text);
    CHECK(verdict.pass);
  }
}

TEST_CASE("deterministic gradients of tables") {
  Sample sample(7);
  uint64_t seed = 20;
  for (const Reader &reader : scatteredReaders())
    for (const Shape &shape : gradientShapes()) {
      ++seed;
      if (!sample.takes())
        continue;
      Asked asked = testOf(reader, Variant("plain").score(reader.score).mask(causal()), dtypes[seed % 3], shape, seed);
      asked.gradients.deterministic = true;
      check(asked);
    }
  // Rows of the gradient of which each is far from the others, and a tensor of as many dimensions as there may be.
  auto t = captured("t", f32, rank(4));
  const Shape shape{.batch = 2, .heads = 4, .headsKv = 2, .queries = 70, .keys = 90, .headDim = 16};
  for (float factor : {1e-25f, 1.0f, 1e25f}) {
    const Variant variant = Variant("scaled").score(
        [=](Score s, Index b, Index h, Index q, Index k) { return s + factor * clamped(t[b][h % 2][q / 8][q - k]); });
    Asked asked{makeCase("scaled", variant, f32, shape, ++seed), {.tensors = {"t"}, .deterministic = true}};
    asked.test.problem.tensors["t"] = HostTensor::zeros(f32, {2, 2, 9, 64});
    check(asked);
  }
}

TEST_CASE("what is infinite or NaN of a deterministic gradient is so by the formula") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Shape shape{.batch = 1, .heads = 1, .headsKv = 1, .queries = 40, .keys = 30, .headDim = 8};
  auto t = captured("t", f32, rank(1));
  const Variant variant =
      Variant("v").normaliser(normalisers::none()).score([=](Score s, Index, Index, Index q, Index k) {
        return s + t[q - k + keyLength()];
      });
  for (float second : {infinity, -infinity}) {
    Case test = makeCase("infinite", variant, f32, shape, 3);
    test.problem.tensors["t"] = HostTensor::random(f32, {80}, 4);
    const Gradients asked{.tensors = {"t"}, .deterministic = true};
    reference::BackwardProblem problem = backwardProblem(test, asked);
    // Each key's value gives its addend the sign; the rows meet in most elements.
    problem.dO.set(10 * 8, infinity);
    problem.dO.set(17 * 8, second);
    const Expected<reference::GradientValues> exact = reference::gradients(problem);
    CompileOptions options = optionsOf(test);
    options.gradients = asked;
    options.backward = true;
    const Expected<Kernel> kernel = compile(*test.variant, options, Target::cpu());
    REQUIRE((exact && kernel));
    const Expected<GradientResults> results = runBackward(*kernel, test, problem, *exact);
    REQUIRE(results);
    int infinite = 0, none = 0;
    for (int64_t i = 0; i < 80; ++i) {
      const double actual = results->gradients.at("t").at(i), expected = exact->tensors.at("t").values[size_t(i)];
      INFO("element " << i << ": " << actual << ", not " << expected);
      CHECK(std::isnan(actual) == std::isnan(expected));
      CHECK((std::isnan(expected) || std::isinf(expected) ? std::isnan(expected) || actual == expected
                                                          : actual == Approx(expected).margin(1e-4)));
      infinite += std::isinf(expected);
      none += std::isnan(expected);
    }
    CHECK(infinite > 10);
    CHECK(none > 5);
  }
}

TEST_CASE("what is added to in the workspace is cleared in every launch") {
  const Shape shape{.batch = 1, .heads = 2, .headsKv = 2, .queries = 64, .keys = 64, .headDim = 16};
  const Asked asked = testOf(scatteredReaders()[2], Variant("v").score(scatteredReaders()[2].score), f32, shape, 3);
  CompileOptions options = optionsOf(asked.test);
  options.gradients = asked.gradients;
  options.backward = true;
  for (bool deterministic : {false, true}) {
    options.gradients->deterministic = deterministic;
    const Expected<KernelImage> image = compileImage(*asked.test.variant, options, Target::cpu());
    REQUIRE(image);
    for (const KernelEntry &entry : image->entries)
      CHECK(!entry.preparation);
  }
}

TEST_CASE("a gradient of a captured tensor that cannot be formed is refused") {
  auto refused = [](const Variant &variant, Gradients gradients) {
    CompileOptions options{.headDim = 64, .gradients = std::move(gradients), .backward = true};
    Expected<KernelImage> image = compileImage(variant, options, Target::cpu());
    return image ? "" : image.error().message;
  };
  auto t = captured("t", f32, rank(1)), scalar = captured("t", f32, rank(0));
  CHECK(refused(Variant("v").mask([=](Index, Index, Index q, Index k) { return t[q] > t[k]; }), {.tensors = {"t"}}) ==
        "nothing depends on captured tensor \"t\" in a way that has a gradient; leave it out of the gradients");
  CHECK(refused(Variant("v").score([=](Score s, Index, Index, Index, Index) { return s + scalar(); }),
                {.tensors = {"t"}}) ==
        "the gradient of captured tensor \"t\" is asked for, which has rank 0; capture it with rank 1, of one element, "
        "and read its element 0");
}

TEST_CASE("a launch refuses gradients of another shape, and dense tensors that are smaller than the sequences") {
  const Shape shape{.batch = 1, .heads = 2, .headsKv = 2, .queries = 40, .keys = 50, .headDim = 16};
  auto t = captured("t", f32, rank(3));
  const Variant variant = Variant("v").score(bias(t));
  auto launch = [&](std::vector<int64_t> dims, std::vector<int64_t> given) {
    Case test = makeCase("launch", variant, f32, shape, 1);
    test.problem.tensors["t"] = HostTensor::random(f32, dims, 2);
    CompileOptions options = optionsOf(test);
    options.gradients = Gradients{.tensors = {"t"}};
    options.backward = true;
    const Expected<Kernel> kernel = compile(variant, options, Target::cpu());
    REQUIRE(kernel);
    auto view = [](const HostTensor &tensor) {
      return Tensor::contiguous(tensor.data.data(), tensor.dtype, tensor.shape, Device::cpu());
    };
    const HostTensor &q = test.problem.q, &k = test.problem.k, &v = test.problem.v;
    const HostTensor lse = HostTensor::zeros(f32, {1, 2, 40}), gradient = HostTensor::zeros(f32, given);
    LaunchArgs args{.q = view(q), .k = view(k), .v = view(v), .o = view(q), .lse = view(lse)};
    args.tensors.push_back({"t", view(test.problem.tensors["t"])});
    for (auto [name, tensor] : {std::pair("do", &q), std::pair("dq", &q), std::pair("dk", &k), std::pair("dv", &v)})
      args.operands.push_back({name, view(*tensor)});
    args.operands.push_back({"grads.t", view(gradient)});
    const Expected<void> checked = kernel->check(args);
    return checked ? "" : checked.error().message;
  };
  CHECK(launch({2, 40, 50}, {2, 40, 49}) ==
        "grads.t has shape [2, 40, 49], captured tensor 't' has [2, 40, 50]; allocate it in the tensor's shape");
  CHECK(launch({2, 40, 50}, {80, 50}) ==
        "grads.t has shape [80, 50], captured tensor 't' has [2, 40, 50]; allocate it in the tensor's shape");
  CHECK(launch({2, 1, 50}, {2, 1, 50}) ==
        "captured tensor 't' has 1 element in dimension 1 and is indexed by q, but Sq is 40; pass at least 40: each "
        "index has an element of its own");
}

TEST_CASE("gradients of captured tensors start from the text of each stage, and are the same") {
  auto slopes = captured("slopes", f32, rank(1)), table = captured("table", bf16, rank(2));
  auto pos = captured("pos", f16, rank(1));
  const Variant variant = Variant("v")
                              .score([=](Score s, Index, Index h, Index q, Index k) {
                                return s * slopes[h] + pos[k] + clamped(table[h][q - k]);
                              })
                              .score(bias(captured("bias", bf16, rank(3))))
                              .mask(causal());
  CompileOptions options{
      .headDim = 64, .gradients = Gradients{.tensors = {"slopes", "pos", "table", "bias"}}, .backward = true};
  for (auto [target, deterministic] :
       {std::pair(Target::cuda("sm_80"), false), {Target::cuda("sm_80"), true}, {Target::cuda("sm_90a"), false}}) {
    options.gradients->deterministic = deterministic;
    Expected<std::string> direct = emit(variant, options, target, Stage::Cuda);
    REQUIRE(direct);
    for (Stage stage : {Stage::Attn, Stage::Tile, Stage::Sched}) {
      INFO(target.arch << " " << name(stage));
      Expected<std::string> text = emit(variant, options, target, stage);
      REQUIRE(text);
      Expected<std::string> fromText = emitFromText({*text, "gradients.mlir"}, {}, target, Stage::Cuda);
      REQUIRE(fromText);
      CHECK(*fromText == *direct);
    }
  }
}
