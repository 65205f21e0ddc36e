//===- NormaliserCases.cpp - Sinks, sigmoid, none, and definitions from outside ---===//

#include "tests/numerics/Cases.h"

#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

namespace {

/// Normalisers, with scores that they are used with.
std::vector<Variant> normalised() {
  auto squaredRelu = [](Score s, Index, Index, Index, Index) { return select(s > 0, s * s, 0.0f); };
  auto silu = [](Score s, Index, Index, Index, Index) { return s * sigmoid(s) / keyLength(); };
  return {Variant("sink").normaliser(normalisers::softmaxWithSink("sinks")),
          Variant("sigmoid").normaliser(normalisers::sigmoid()),
          Variant("sigmoid_bias")
              .score([](Score s, Index, Index, Index, Index) { return s - 4.5f; })
              .normaliser(normalisers::sigmoid()),
          Variant("squared_relu").score(squaredRelu).normaliser(normalisers::none()),
          Variant("silu").score(silu).normaliser(normalisers::none())};
}

/// All, each masked in a way of its own where `masked`.
void addMasks(Group &group, const Variant &variant, uint64_t &seed) {
  const Shape shape{.batch = 2, .heads = 4, .headsKv = 2, .queries = 113, .keys = 203, .headDim = 64};
  const std::pair<const char *, Mask> masks[] = {{"causal", causal()},
                                                 {"bottom right", causalBottomRight()},
                                                 {"window", slidingWindow(40, 11)},
                                                 {"documents", documents(captured("ids", i32, rank(1)))},
                                                 {"lengths", keyPadding(captured("lengths", i32, rank(1)))}};
  for (const auto &[label, mask] : masks)
    for (DType dtype : dtypes)
      for (bool dropped : {false, true}) {
        Variant masked = Variant(variant).mask(mask);
        if (dropped)
          masked.dropout(0.2f);
        group.cases.push_back([=, label = variant.name() + " " + label, number = ++seed] {
          return makeCase(label, masked, dtype, shape, number);
        });
      }
}

void addShapes(Group &group, const Variant &variant, bool gpu, uint64_t &seed) {
  auto add = [&](const Variant &each, DType dtype, const Shape &shape, std::function<void(Case &)> change = {}) {
    group.cases.push_back([=, number = ++seed] {
      Case test = makeCase(each.name(), each, dtype, shape, number);
      if (change)
        change(test);
      return test;
    });
  };
  std::vector<std::pair<int, int>> dims = {{8, 8}, {40, 72}, {72, 40}, {128, 128}};
  if (!gpu)
    dims.push_back({200, 256});
  for (auto [dim, dimV] : dims)
    for (DType dtype : dtypes)
      add(variant, dtype, {.queries = 130, .keys = 150, .headDim = dim, .headDimV = dimV});
  for (auto [queries, keys] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 77}, {77, 1}, {129, 65}, {70, 0}, {64, 128}})
    add(Variant(variant).mask(causalBottomRight()), bf16, {.queries = queries, .keys = keys, .headDim = 64});
  const Shape shape{.batch = 2, .heads = 4, .headsKv = 2, .queries = 113, .keys = 203, .headDim = 64};
  auto hides = [](Index, Index, Index q, Index k) { return q % 3 != 0 && k <= q; };
  auto hidesByScore = [](Score s, Index, Index, Index q, Index k) {
    return select(q < k || q % 5 == 0, -std::numeric_limits<float>::infinity(), s);
  };
  for (DType dtype : dtypes) {
    add(Variant(variant).mask(hides), dtype, shape);
    add(Variant(variant).score(hidesByScore), dtype, shape);
    add(Variant(variant).mask([](Index, Index, Index, Index k) { return k < 0; }), dtype, shape);
    add(Variant(variant).precise().mask(causal()), dtype, shape);
    add(Variant(variant).blocks(captured("pattern", boolean, rank(3)), 64, 32), dtype, shape);
    add(variant, dtype, shape, [](Case &test) { test.layout = {.rowsBeforeHeads = true, .padColumns = 8}; });
  }
}

/// Sinks that are alone, that nothing stands beside, and that stand beside large scores.
void addSinks(Group &group, uint64_t &seed) {
  struct Level {
    double sink, score;
  };
  constexpr Level levels[] = {{3e38, 0},  {-3e38, 0}, {1e4, 0},     {-1e4, 0},    {88, 0},
                              {-88, 0},   {104, 0},   {-104, 0},    {3e38, 1e30}, {1e3, 1e3},
                              {1e5, 1e5}, {1e8, 1e8}, {-1e5, -1e5}, {0, 1e4},     {-3e38, -3e38}};
  for (const Level &level : levels)
    for (DType dtype : dtypes)
      for (bool dropped : {false, true}) {
        // Whole numbers: sums of s and a large number round differently where s is off by its last digit.
        auto shifted = [shift = float(level.score)](Score s, Index, Index, Index, Index k) {
          return shift == 0 ? s : cast(k % 3, f32) + shift;
        };
        Variant variant = Variant("sink")
                              .score(shifted)
                              .mask([](Index, Index, Index q, Index k) { return k <= q - 3 && k > q - 9; })
                              .normaliser(normalisers::softmaxWithSink("sinks"));
        if (dropped)
          variant.dropout(0.2f);
        group.cases.push_back([=, number = ++seed] {
          Case test =
              makeCase("sink beside scores", variant, dtype, {.queries = 90, .keys = 100, .headDim = 64}, number);
          HostTensor &sinks = test.problem.tensors["sinks"];
          for (int64_t h = 0; h < sinks.size(); ++h)
            sinks.set(h, level.sink + (std::fabs(level.sink) < 1e6 ? double(h) : 0));
          return test;
        });
      }
}

/// A definition that no reference knows, and a variant of softmax that computes the same.
void addDefinition(Group &group, const Variant &defined, const Variant &known, uint64_t &seed) {
  for (DType dtype : dtypes)
    for (int dim : {64, 128})
      group.cases.push_back([=, number = ++seed] {
        Case test =
            makeCase(defined.name(), defined, dtype,
                     {.batch = 2, .heads = 2, .headsKv = 1, .queries = 113, .keys = 203, .headDim = dim}, number);
        auto variant = std::make_shared<const Variant>(known);
        test.problem.variant = variant.get();
        test.reference = variant;
        // exp(x - top) has to be in the range of f16.
        if (auto top = test.problem.scalars.find("top"); top != test.problem.scalars.end())
          top->second = reference::scalarOf(f32, 3);
        return test;
      });
}

/// Softmax to the base of 2; one without a maximum, of scores that are bounded; one with a sink of 0 for all heads.
void addDefinitions(Group &group, uint64_t &seed) {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  const Normaliser ofTwo = {.name = "softmax2",
                            .statistics = {{"top", Reduction::Max, hidden}, {"total", Reduction::Sum, 0}},
                            .base = "top == -inf ? 0 : top",
                            .rescale = "exp2(top - base)",
                            .p = "exp2(x - base)",
                            .divisor = "total",
                            .lse = "total == 0 ? -inf : 0.693147181 * (top + log2(total))"};
  auto byLog2 = [](Score s, Index, Index, Index, Index) { return s * 0.693147181f; };
  addDefinition(group, Variant("of_two").mask(causal()).normaliser(ofTwo), Variant("v").mask(causal()).score(byLog2),
                seed);
  const Normaliser bounded = {.name = "bounded",
                              .statistics = {{"total", Reduction::Sum, 0}},
                              .p = "exp(x - top)",
                              .divisor = "total",
                              .lse = "total == 0 ? -inf : top + log(total)",
                              .scalars = {{"top", f32}}};
  const Variant capped = Variant("v").mask(causalBottomRight()).score(softcap(scalar("top", f32)));
  addDefinition(group,
                Variant("bounded").mask(causalBottomRight()).score(softcap(scalar("top", f32))).normaliser(bounded),
                capped, seed);
}

} // namespace

Group attune::tests::normaliserGroup(bool gpu) {
  Group group{"normalisers", {}};
  uint64_t seed = 0;
  for (const Variant &variant : normalised()) {
    addMasks(group, variant, seed);
    addShapes(group, variant, gpu, seed);
  }
  addSinks(group, seed);
  addDefinitions(group, seed);
  return group;
}
