//===- BackwardTest.cpp - Gradients on the CPU target against float64 ------------===//

#include "tests/numerics/BackwardRunner.h"
#include "tests/numerics/Cases.h"
#include "tests/numerics/GradientCases.h"

#include <catch2/catch.hpp>

using namespace attune;
using namespace attune::tests;

namespace {

void runGroup(const std::string &name, size_t ofSample = 12) {
  const bool found = forEachCase(
      name,
      [](Case test) {
        if (test.reference) // a normaliser from outside, which may have statistics without a known gradient
          return;
        if (test.variant->keyPages()) // of the forward pass alone
          return;
        test.options.splitKeys = test.options.packGqa = {}; // choices of the forward pass alone
        Verdict verdict = checkBackward(test, Target::cpu());
        INFO(verdict.text);
        CHECK(verdict.pass);
      },
      ofSample);
  if (!found)
    FAIL("no group " + name);
}

} // namespace

TEST_CASE("builtins") { runGroup("builtins"); }
TEST_CASE("lengths") { runGroup("lengths"); }
TEST_CASE("head-dims") { runGroup("head-dims"); }
TEST_CASE("grouped-heads") { runGroup("grouped-heads"); }
TEST_CASE("layouts") { runGroup("layouts"); }
TEST_CASE("hidden") { runGroup("hidden"); }
TEST_CASE("hard-inputs") { runGroup("hard-inputs"); }
TEST_CASE("large-scores") { runGroup("large-scores"); }
TEST_CASE("patterns") { runGroup("patterns"); }
TEST_CASE("head-masks") { runGroup("head-masks"); }
TEST_CASE("bounds") { runGroup("bounds"); }
TEST_CASE("captured") { runGroup("captured"); }
TEST_CASE("scalars") { runGroup("scalars"); }
TEST_CASE("functions") { runGroup("functions", 1); }
TEST_CASE("expressions") { runGroup("expressions"); }
TEST_CASE("dropout") { runGroup("dropout"); }
TEST_CASE("ends") { runGroup("ends"); }
TEST_CASE("packed") { runGroup("packed"); }
TEST_CASE("sequences with lengths of their own") { runGroup("pages"); }
TEST_CASE("wide-heads") { runGroup("wide-heads"); }
TEST_CASE("normalisers") { runGroup("normalisers"); }

TEST_CASE("the gradient of LSE comes in beside that of O") {
  const Shape shape{.batch = 2, .heads = 4, .headsKv = 2, .queries = 113, .keys = 203, .headDim = 64};
  Sample sample(4);
  for (DType dtype : {f32, bf16, f16})
    for (const Variant &variant : {Variant("plain"), Variant("causal").mask(causal()),
                                   Variant("padded").mask(keyPadding(captured("lengths", i32, rank(1)))),
                                   Variant("sink").mask(causal()).normaliser(normalisers::softmaxWithSink("sinks")),
                                   Variant("softcap").score(softcap(5)).dropout(0.1f)}) {
      if (!sample.takes())
        continue;
      Verdict verdict =
          checkBackward(makeCase("dLSE " + variant.name(), variant, dtype, shape, 3), Target::cpu(), {.lse = true});
      INFO(verdict.text);
      CHECK(verdict.pass);
    }
}

TEST_CASE("what the forward pass saves serves the backward pass") {
  const std::vector<std::function<Asked()>> cases = savingCases();
  for (size_t i = 0; i < cases.size(); i += sampleStep(11)) {
    const Asked asked = cases[i]();
    Verdict verdict = checkBackward(asked.test, Target::cpu(), asked.gradients);
    INFO(verdict.text);
    CHECK(verdict.pass);
  }
}

TEST_CASE("a saved value of another launch's shape, and values that cannot be saved") {
  const Variant variant = Variant("dropped").mask(causal()).dropout(0.3f);
  CompileOptions options{.headDim = 64, .gradients = Gradients{.saving = {.save = {"dropout"}}}};
  Expected<Kernel> kernel = compile(variant, options, Target::cpu());
  REQUIRE(kernel);
  const std::vector<uint16_t> elements(2 * 40 * 64);
  std::vector<std::byte> bytes(4096);
  auto tensor = [&](int64_t rows) { return Tensor::contiguous(elements.data(), bf16, {1, 2, rows, 64}); };
  LaunchArgs args{.q = tensor(40), .k = tensor(33), .v = tensor(33), .o = tensor(40)};
  args.operands = {{"saved.dropout", Tensor::contiguous(bytes.data(), DType::Bool, {1, 2, 3, 2, 32})}};
  CHECK(kernel->launch(nullptr, args).error().message ==
        "saved.dropout has 2 blocks in dimension 3, required is 3: ceil(33 / 16), as k has 33 of k; savedShape() gives "
        "its shape");
  args.operands = {};
  CHECK(!kernel->launch(nullptr, args));
  CHECK(savedShape(savedOperand("dropout", OperandRole::In), 1, 2, 40, 33) == std::array<int64_t, 5>{1, 2, 3, 3, 32});

  auto refused = [&](const char *value, bool save, const Variant &of) {
    options.gradients->saving = save ? Saving{.save = {value}} : Saving{.recompute = {value}};
    Expected<KernelImage> image = compileImage(of, options, Target::cpu());
    return image ? std::string() : image.error().message;
  };
  CHECK(refused("p", true, variant) ==
        "the forward pass knows p against a maximum of the keys so far alone, so that it cannot be saved; save score, "
        "from which p follows by one exponential");
  CHECK(refused("mask", true, variant) ==
        "the mask's words would have to be there for tiles that the forward pass leaves out, so that they cannot be "
        "saved; save score, or let the mask be recomputed");
  CHECK(refused("lse", false, variant) ==
        "lse is an output of the forward pass and is not recomputed; leave the choice out");
  CHECK(refused("dropout", true, Variant("plain")) ==
        "what dropout keeps is to be saved, but the variant has no dropout");
  options.gradients->saving = Saving{.save = {"score"}, .recompute = {"score"}};
  CHECK(compileImage(variant, options, Target::cpu()).error().message ==
        "score is to be saved and to be recomputed; leave one of the two out");
  CHECK(refused("x", true, variant) ==
        "'x' is no value of the backward pass; those are o, lse, score, p, mask and dropout");
}

TEST_CASE("gradients of normalisers of one's own") {
  for (DType dtype : {f32, bf16})
    for (const Asked &asked : definedCases(dtype)) {
      Verdict verdict = checkBackward(asked.test, Target::cpu(), asked.gradients);
      INFO(verdict.text);
      CHECK(verdict.pass);
    }
}

TEST_CASE("the forward pass of normalisers of one's own gives their LSE") {
  for (Asked &asked : definedCases(f32)) {
    Case &test = asked.test;
    INFO(test.describe());
    const Expected<reference::GradientValues> exact = exactGradients(test, backwardProblem(test));
    const Expected<Kernel> kernel = compile(*test.variant, optionsOf(test), Target::cpu());
    REQUIRE((exact && kernel));
    const Expected<Results> results = run(*kernel, test);
    REQUIRE(results);
    int64_t wrong = 0;
    for (int64_t row = 0; row < results->lse.size(); ++row) {
      const double lse = exact->forward.lse[size_t(row)];
      wrong += !(results->lse.at(row) == lse || std::fabs(results->lse.at(row) - lse) < 1e-4);
    }
    CHECK(wrong == 0);
    test.layout.withoutLse = true;
    CHECK(check(test, Target::cpu()).pass);
  }
}

TEST_CASE("the gradient of a temperature through LSE is its finite difference") {
  const Asked asked = definedCases(f32).front();
  const Case &test = asked.test;
  const Gradients gradients{.tensors = {"temperature"}, .lse = true};
  const reference::BackwardProblem problem = backwardProblem(test, gradients);
  CompileOptions options = optionsOf(test);
  options.gradients = gradients;
  options.backward = true;
  const Expected<reference::GradientValues> exact = exactGradients(test, problem);
  const Expected<Kernel> kernel = compile(*test.variant, options, Target::cpu());
  REQUIRE((exact && kernel));
  const Expected<GradientResults> results = runBackward(*kernel, test, problem, *exact);
  REQUIRE(results);
  // sum(dO * O) + sum(dLSE * LSE), with the LSE of softmax2.
  auto loss = [&](const reference::Problem &forward) {
    const Expected<reference::Output> output = reference::attention(forward);
    const reference::HostTensor &temperature = forward.tensors.at("temperature");
    double sum = 0;
    for (int64_t i = 0; i < problem.dO.size(); ++i)
      sum += problem.dO.at(i) * output->o[size_t(i)];
    for (int64_t row = 0; row < problem.dLse->size(); ++row)
      if (const double lse = output->lse[size_t(row)]; std::isfinite(lse))
        sum += problem.dLse->at(row) * lse * temperature.at(row / 70 % temperature.size()) / std::log(2.0);
    return sum;
  };
  for (int64_t h = 0; h < 4; ++h) {
    reference::Problem moved = problem.forward;
    constexpr double step = 1.0 / 256;
    const double value = moved.tensors.at("temperature").at(h);
    moved.tensors.at("temperature").set(h, value + step);
    const double above = loss(moved);
    moved.tensors.at("temperature").set(h, value - step);
    CHECK(results->gradients.at("temperature").at(h) ==
          Approx((above - loss(moved)) / (2 * step)).margin(2e-3).epsilon(2e-3));
  }
}

TEST_CASE("a normaliser that breaks a law of the backward pass is refused and the values are named") {
  auto refused = [](const std::function<void(Normaliser &)> &change, Gradients gradients = {}) -> std::string {
    Normaliser normaliser = softmax2();
    normaliser.tensors.push_back({"sinks", f32, 1});
    change(normaliser);
    CompileOptions options{.headDim = 64, .gradients = std::move(gradients), .backward = true};
    Expected<KernelImage> image = compileImage(Variant("v").normaliser(normaliser), options, Target::cpu());
    if (image)
      return "";
    const std::string start = "normaliser \"softmax2\" has no gradients: ", message = image.error().message;
    return message.starts_with(start) ? message.substr(start.size()) : message;
  };
  const std::string at = "(x = -0.6895, top = 1.722, total = 4.937, temperature[7] = 2.698); ",
                    lse = "write lse = total == 0 ? -inf : top + log(total) for p = exp(x - base), or total == 0 ? "
                          "-inf : top + t * log2(total) for p = exp2((x - base) / t)",
                    rescale = "write p with top in the place of x, such as exp(top - base) for p = exp(x - base)",
                    divisor = "write total, or add terms that change as p does, such as total + exp(sinks[h] - top) "
                              "for p = exp(x - base)";
  CHECK(refused([](Normaliser &) {}, {.tensors = {"temperature"}, .lse = true}) == "");
  CHECK(refused([](Normaliser &n) { n.rescale = "exp2(top - base)"; }) ==
        "rescale must be the factor by which p changes where top grows, but is 0.09625, and p changes by 0.4199 where "
        "top grows to 5.099 " +
            at + rescale);
  CHECK(refused([](Normaliser &n) { n.p = "x == -inf ? 0 : exp2((x - 0.999 * base) / temperature[h])"; }) ==
        "rescale must be the factor by which p changes where top grows, but is 0.4199, and p changes by 0.4203 where "
        "top grows to 5.099 (x = -0.6895, top = 1.722, total = 4.939, temperature[7] = 2.698); " +
            rescale);
  CHECK(refused([](Normaliser &n) { n.divisor = "total + 1"; }) ==
        "divisor must change by the same factor as p where top grows, but changes from 5.937 to 3.073, and p by the "
        "factor 0.4199, where top grows to 5.099 " +
            at + divisor);
  CHECK(refused([](Normaliser &n) { n.divisor = "total * total"; }) ==
        "divisor must change by the same factor as p where top grows, but changes from 24.38 to 4.299, and p by the "
        "factor 0.4199, where top grows to 5.099 " +
            at + divisor);
  CHECK(refused([](Normaliser &n) { n.divisor = "total + top"; }) ==
        "divisor must change by the same factor as p where top grows, but changes from 6.659 to 7.172, and p by the "
        "factor 0.4199, where top grows to 5.099 " +
            at + divisor);
  CHECK(refused([](Normaliser &n) { n.divisor = ""; }) ==
        "divisor must change by the same factor as p where top grows, but changes from 1 to 1, and p by the factor "
        "0.4199, where top grows to 5.099 " +
            at + divisor);
  CHECK(refused([](Normaliser &n) { n.lse = "total == 0 ? -inf : 0.693147181 * top + log(total)"; }) ==
        "lse must be the top for which the weights of a row sum to 1, but p is 0.409 for top = lse = 2.79, and p / "
        "total is 0.109 " +
            at + lse);
  CHECK(refused([](Normaliser &n) {
          // The same weights for top and top + 100.
          n.base = "top == -inf ? 0 : select(top < 50, top, top - 100)";
          n.rescale = "exp2((top - base) / temperature[h])";
          n.lse = "total == 0 ? -inf : top + temperature[h] * log2(total) + select(top > 0, 100, 0)";
        }) ==
        "lse must not change where top grows, but changes from 5.428 to 105.4 where top grows to 0.04181 and total "
        "changes with p (x = -0.1686, top = -0.06561, total = 3.6, temperature[0] = 2.973); " +
            lse);
  CHECK(refused([](Normaliser &n) { n.lse = "total == 0 ? 0 : top + temperature[h] * log2(total)"; }) ==
        "lse must be -inf in a row without a visible key, but is 0 for top = -inf, total = 0; " + lse);
  CHECK(refused([](Normaliser &n) { n.lse = ""; }) ==
        "it has no lse, from which the backward pass recomputes the weights; " + lse);
  CHECK(refused([](Normaliser &n) { n.p = "x == -inf ? 0 : -exp2((x - base) / temperature[h])"; }) ==
        "p must not be negative, but is -0.5382 (x = -0.6895, top = 1.722, total = -4.937, temperature[7] = 2.698); "
        "write a p >= 0");
  CHECK(refused([](Normaliser &n) { n.lse = "log(-total)"; }) ==
        "p, divisor or lse is 0, infinite or NaN for most finite scores, so that it cannot be checked; write "
        "expressions with finite values");
  const std::string statistics = "its row statistics are not one maximum and one sum; use one of each";
  CHECK(refused([](Normaliser &n) { n.statistics.push_back({"more", Reduction::Sum, 0}); }) == statistics);
  CHECK(
      refused([](Normaliser &n) { n.statistics[1].initial = 1; }) ==
      "total starts from 1, but must start from 0; add a constant weight to divisor, such as total + exp(-top) for p = "
      "exp(x - base)");
  CHECK(refused([](Normaliser &n) {
          n.statistics.erase(n.statistics.begin());
          n.base = n.rescale = "";
          n.p = "x == -inf ? 0 : exp(x)";
          n.lse = "log(total)";
        }) == statistics);
  CHECK(refused(
            [](Normaliser &n) {
              n.base = "top == -inf ? 0 : top / temperature[h]";
              n.rescale = "exp2(top / temperature[h] - base)";
              n.p = "x == -inf ? 0 : exp2(x / temperature[h] - base)";
            },
            {.tensors = {"temperature"}}) ==
        "base reads \"temperature\", whose gradient is requested; read \"temperature\" in p and rescale alone, or "
        "leave it out of the gradients");
  CHECK(refused([](Normaliser &n) { n.divisor = "total + exp2((sinks[h] - top) / temperature[h])"; },
                {.tensors = {"temperature"}}) ==
        "p reads \"temperature\", whose gradient is known only for divisor = total; apply "
        "\"temperature\" in the score, or leave it out of the gradients");
}

TEST_CASE("gradients of what is no tensor of floats are refused") {
  auto refused = [](const Variant &variant, Gradients gradients) {
    CompileOptions options{.headDim = 64, .gradients = std::move(gradients), .backward = true};
    Expected<KernelImage> image = compileImage(variant, options, Target::cpu());
    return image ? "" : image.error().message;
  };
  const Variant variant = Variant("docs").mask(documents(captured("ids", i32, rank(1))));
  CHECK(refused(variant, {.tensors = {"slopes"}}) ==
        "the gradient of 'slopes' is asked for, which is no captured tensor of variant 'docs'");
  CHECK(refused(variant, {.tensors = {"ids"}}) ==
        "the gradient of 'ids' is asked for, whose elements are i32; only tensors of floats have one");
  CHECK(refused(Variant("v").normaliser(normalisers::sigmoid()), {.lse = true}) ==
        "the gradient of LSE is taken, but normaliser \"sigmoid\" gives no LSE; leave it out");
}

TEST_CASE("forward and backward come from one compile, and dropout's probability is the handle's") {
  const Case test =
      dropoutCase(f32, {.batch = 1, .heads = 2, .headsKv = 1, .queries = 70, .keys = 90, .headDim = 32}, 0.3f, 5);
  CompileOptions options = optionsOf(test);
  CHECK(!compile(*test.variant, options, Target::cpu())->backward().valid());
  options.gradients = Gradients();
  Expected<Kernel> forward = compile(*test.variant, options, Target::cpu());
  REQUIRE(forward);
  CHECK(run(*forward, test));
  const reference::BackwardProblem problem = backwardProblem(test);
  Expected<reference::GradientValues> exact = reference::gradients(problem);
  REQUIRE(exact);
  Verdict verdict = judgeBackward(test, *exact, runBackward(forward->backward(), test, problem, *exact));
  INFO(verdict.text);
  CHECK(verdict.pass);
}

TEST_CASE("gradients have the same bits in every launch") {
  const Shape shape{.batch = 2, .heads = 6, .headsKv = 2, .queries = 200, .keys = 330, .headDim = 64};
  for (DType dtype : {f32, bf16}) {
    Verdict verdict = checkRepeats(dropoutCase(dtype, shape, 0.1f, 8), Target::cpu(), 20);
    INFO(verdict.text);
    CHECK(verdict.pass);
  }
}

TEST_CASE("the backward pass starts from the text of each stage, and is the same") {
  auto ids = captured("ids", i32, rank(1));
  const Variant variant = Variant("v").score(softcap(20)).mask(causal() && documents(ids)).dropout(0.1f);
  const CompileOptions options{.headDim = 64, .gradients = Gradients{.lse = true}, .backward = true};
  const Target target = Target::cuda("sm_90");
  Expected<std::string> direct = emit(variant, options, target, Stage::Cuda);
  REQUIRE(direct);
  for (Stage stage : {Stage::Attn, Stage::Tile, Stage::Sched}) {
    INFO(name(stage));
    Expected<std::string> text = emit(variant, options, target, stage);
    REQUIRE(text);
    const IrText source{*text, "backward.mlir"};
    Expected<IrSummary> summary = describeText(source);
    REQUIRE(summary);
    CHECK(!summary->variantJson.empty());
    Expected<std::string> fromText = emitFromText(source, {}, target, Stage::Cuda);
    REQUIRE(fromText);
    CHECK(*fromText == *direct);
    CompileOptions again{.gradients = Gradients()};
    Expected<KernelImage> refused = compileImageFromText(source, again, Target::cpu());
    REQUIRE(!refused);
    CHECK(refused.error().message == "backward.mlir holds the pass that it is, and gradients are asked for; compile "
                                     "them from the variant");
  }
}
