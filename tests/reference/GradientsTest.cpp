//===- GradientsTest.cpp - The float64 gradients against finite differences -------===//

#include "tools/reference/Gradients.h"

#include "attune/Builtins.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace attune;
using namespace attune::reference;

namespace {

/// sum(dO * O) + sum(dLSE * LSE), whose gradients are those of the backward pass.
double loss(const BackwardProblem &problem) {
  Expected<Output> output = attention(problem.forward);
  REQUIRE(output);
  double sum = 0;
  for (size_t i = 0; i < output->o.size(); ++i)
    sum += problem.dO.at(int64_t(i)) * output->o[i];
  if (problem.dLse)
    for (size_t i = 0; i < output->lse.size(); ++i)
      if (std::isfinite(output->lse[i]))
        sum += problem.dLse->at(int64_t(i)) * output->lse[i];
  return sum;
}

/// By element i of `tensor`, a part of `problem`: of fourth order.
double slope(BackwardProblem &problem, HostTensor &tensor, int64_t i) {
  const double at = tensor.at(i), h = 1.0 / 32;
  auto moved = [&](double by) {
    tensor.set(i, at + by);
    return loss(problem);
  };
  const double result = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
  tensor.set(i, at);
  return result;
}

BackwardProblem problemOf(const Variant &variant, bool withLse, uint64_t seed) {
  BackwardProblem problem{.forward = {.variant = &variant,
                                      .q = HostTensor::random(f32, {1, 4, 3, 8}, seed),
                                      .k = HostTensor::random(f32, {1, 2, 5, 8}, seed + 1),
                                      .v = HostTensor::random(f32, {1, 2, 5, 4}, seed + 2)},
                          .dO = HostTensor::random(f32, {1, 4, 3, 4}, seed + 3)};
  if (withLse)
    problem.dLse = HostTensor::random(f32, {1, 4, 3}, seed + 4);
  for (const TensorDecl &tensor : variant.tensors()) {
    problem.forward.tensors[tensor.name] = HostTensor::random(f32, {4}, seed + 5);
    problem.tensors.push_back(tensor.name);
  }
  return problem;
}

void compare(BackwardProblem &problem, HostTensor &tensor, const GradientOf &gradient) {
  for (int64_t i = 0; i < tensor.size(); ++i) {
    INFO("element " << i);
    CHECK(gradient.values[size_t(i)] == Approx(slope(problem, tensor, i)).margin(1e-4));
  }
}

} // namespace

TEST_CASE("gradients are finite differences of the formula") {
  const Captured slopes = captured("slopes", f32, rank(1));
  const Variant variants[] = {
      Variant("plain"),
      Variant("causal").mask(causal()),
      Variant("hidden_rows").mask([](Index, Index, Index q, Index k) { return k < q; }),
      Variant("softcap").score(softcap(2)).mask(causal()),
      Variant("alibi").score(alibi(slopes)),
      Variant("scaled_by_head").score([&](Score s, Index, Index h, Index, Index) { return s * slopes[h] + slopes[h]; }),
      Variant("dropout").dropout(0.4f).mask(causal()),
      Variant("scale").scale(0.7f),
      Variant("sink").normaliser(normalisers::softmaxWithSink("sinks")).mask(causal()),
      Variant("sigmoid").normaliser(normalisers::sigmoid()).mask(causal()),
      Variant("none").normaliser(normalisers::none()).dropout(0.3f)};
  uint64_t seed = 100;
  for (const Variant &variant : variants)
    for (bool withLse : {false, true}) {
      if (withLse && !variant.hasLse())
        continue;
      INFO(variant.name() << (withLse ? ", with dLSE" : ""));
      BackwardProblem problem = problemOf(variant, withLse, seed += 10);
      Expected<GradientValues> exact = gradients(problem);
      REQUIRE(exact);
      compare(problem, problem.forward.q, exact->q);
      compare(problem, problem.forward.k, exact->k);
      compare(problem, problem.forward.v, exact->v);
      for (auto &[name, gradient] : exact->tensors)
        compare(problem, problem.forward.tensors.at(name), gradient);
    }
}

TEST_CASE("rows without keys have no part, and what hides a key has none of its slope") {
  const Variant variant = Variant("v")
                              .score([](Score s, Index, Index, Index q, Index k) { return s * sqrt(cast(q - k, f32)); })
                              .mask(causal());
  BackwardProblem problem = problemOf(variant, true, 7);
  Expected<GradientValues> exact = gradients(problem);
  REQUIRE(exact);
  for (const GradientOf *gradient : {&exact->q, &exact->k, &exact->v})
    for (double value : gradient->values)
      CHECK(std::isfinite(value));
}

TEST_CASE("a gradient that is wrong is found") {
  const Variant variant = Variant("causal").mask(causal());
  const BackwardProblem problem = problemOf(variant, false, 3);
  Expected<GradientValues> exact = gradients(problem);
  REQUIRE(exact);
  HostTensor dq = HostTensor::fromDoubles(f32, exact->q.shape, exact->q.values);
  CHECK(compareGradient("dq", dq, exact->q).pass);
  for (double wrong : {dq.at(9) * 1.01 + 1e-3, std::nan(""), -dq.at(9), 0.0}) {
    HostTensor other = dq;
    other.set(9, wrong);
    CHECK(!compareGradient("dq", other, exact->q).pass);
  }
  CHECK(!compareGradient("dq", HostTensor::zeros(f32, {1, 4, 3, 4}), exact->q).pass);
}

TEST_CASE("what the given O errs by is allowed for in rows of dQ, in no other") {
  const Variant variant = Variant("causal").mask(causal());
  BackwardProblem problem = problemOf(variant, false, 3);
  Expected<GradientValues> exact = gradients(problem);
  REQUIRE(exact);
  HostTensor given = HostTensor::fromDoubles(f32, problem.dO.shape, exact->forward.o);
  problem.o = given;
  Expected<GradientValues> same = gradients(problem);
  REQUIRE(same);
  CHECK(same->q.rowError[1] == Approx(exact->q.rowError[1]).epsilon(1e-3));
  const int64_t columns = problem.dO.shape[3];
  given.set(columns, given.at(columns) + 0.5);
  problem.o = given;
  Expected<GradientValues> wide = gradients(problem);
  REQUIRE(wide);
  CHECK(wide->q.values == exact->q.values);
  CHECK(wide->q.rowError[1] > 100 * exact->q.rowError[1]);
  CHECK(wide->q.rowError[2] == Approx(exact->q.rowError[2]).epsilon(1e-3));
  given.set(columns, std::nan(""));
  problem.o = given;
  Expected<GradientValues> unknown = gradients(problem);
  REQUIRE(unknown);
  CHECK(unknown->q.rowError[1] == Approx(exact->q.rowError[1]).epsilon(1e-3));
}

TEST_CASE("problems whose gradients do not fit are errors") {
  const Variant variant = Variant("plain");
  auto errorOf = [](const BackwardProblem &problem) {
    Expected<GradientValues> values = gradients(problem);
    return values ? "computed" : values.error().message;
  };
  BackwardProblem problem = problemOf(variant, true, 3);
  problem.dO = HostTensor::zeros(f32, {1, 4, 3, 8});
  CHECK(errorOf(problem) == "dO must have the shape of O");
  problem = problemOf(variant, true, 3);
  problem.o = HostTensor::zeros(f32, {1, 4, 3, 8});
  CHECK(errorOf(problem) == "the given O must have the shape of O");
  problem = problemOf(variant, true, 3);
  problem.dLse = HostTensor::zeros(f32, {1, 4, 4});
  CHECK(errorOf(problem) == "dLSE must have the shape of LSE");
  problem = problemOf(variant, true, 3);
  problem.tensors = {"slopes"};
  CHECK(errorOf(problem) == "tensor slopes is not bound");
}
