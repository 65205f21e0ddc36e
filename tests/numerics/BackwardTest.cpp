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
      [](const Case &test) {
        if (test.reference) // a normaliser from outside, which may have statistics without a known gradient
          return;
        if (test.variant->keyLengths() || test.variant->queryLengths() ||
            test.variant->keyPages()) // of the forward pass alone
          return;
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
        "saved; save score, or let the mask be computed again");
  CHECK(refused("lse", false, variant) ==
        "lse is an output of the forward pass and is not computed again; leave the choice out");
  CHECK(refused("dropout", true, Variant("plain")) ==
        "what dropout keeps is to be saved, but the variant has no dropout");
  options.gradients->saving = Saving{.save = {"score"}, .recompute = {"score"}};
  CHECK(compileImage(variant, options, Target::cpu()).error().message ==
        "score is to be saved and to be computed again; leave one of the two out");
  CHECK(refused("x", true, variant) ==
        "'x' is no value of the backward pass; those are o, lse, score, p, mask and dropout");
}

TEST_CASE("a normaliser whose statistics have no known gradient is refused") {
  Normaliser doubled = normalisers::softmax();
  doubled.name = "doubled";
  doubled.divisor = "2 * l + 1";
  CompileOptions options{.headDim = 64, .gradients = Gradients(), .backward = true};
  Expected<KernelImage> image = compileImage(Variant("v").normaliser(doubled), options, Target::cpu());
  REQUIRE(!image);
  CHECK(image.error().message == "normaliser \"doubled\" keeps statistics of a row in a way whose gradient is not "
                                 "known; use softmax, with or without "
                                 "a sink, or a normaliser without statistics");
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
