#include "tools/reference/RandomVariant.h"
#include "tools/reference/Compare.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <set>

using namespace attune;
using namespace attune::reference;

namespace {

void collect(const Node &node, std::set<const Node *> &seen, std::set<Op> &ops) {
  if (!seen.insert(&node).second)
    return;
  ops.insert(node.op);
  for (const NodeRef &operand : node.operands)
    collect(*operand, seen, ops);
}

} // namespace

TEST_CASE("random variants are well formed, repeatable and survive JSON") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    RandomCase random = randomCase(seed, {.maxLength = 40});
    INFO(random.describe());
    REQUIRE_FALSE(random.variant->error());
    CHECK(randomCase(seed, {.maxLength = 40}).describe() == random.describe());
    Expected<Variant> back = Variant::fromJson(random.variant->toJson());
    if (!back)
      FAIL(back.error().text());
    CHECK(back->canonical() == random.variant->canonical());
  }
}

TEST_CASE("random variants use every operation, dtype, rank and feature") {
  std::set<Op> ops;
  std::set<std::pair<DType, int>> tensors;
  std::set<DType> scalars, inputs;
  std::set<int64_t> features;
  enum Feature { Dropout, Blocks, Offset, Grouped, EmptyKeys, OneQuery, OtherHeadDimV, Precise, Scale, Sigmoid, Sink };
  for (uint64_t seed = 0; seed < 2500; ++seed) {
    RandomCase random = randomCase(seed, {.maxLength = 40, .maxHeadDim = 24});
    const Variant &variant = *random.variant;
    std::set<const Node *> seen;
    if (variant.scoreExpr())
      collect(variant.scoreExpr()->node(), seen, ops);
    if (variant.maskExpr())
      collect(variant.maskExpr()->node(), seen, ops);
    for (const TensorDecl &tensor : variant.tensors())
      tensors.emplace(tensor.dtype, tensor.rank);
    for (const ScalarDecl &scalar : variant.scalars())
      scalars.insert(scalar.dtype);
    const Problem &problem = random.problem;
    inputs.insert(problem.q.dtype);
    auto note = [&](bool present, Feature feature) {
      if (present)
        features.insert(feature);
    };
    note(variant.hasDropout(), Dropout);
    note(variant.blockPattern().has_value(), Blocks);
    note(problem.qOffset != 0, Offset);
    note(problem.q.shape[1] != problem.k.shape[1], Grouped);
    note(problem.k.shape[2] == 0, EmptyKeys);
    note(problem.q.shape[2] == 1, OneQuery);
    note(problem.q.shape[3] != problem.v.shape[3], OtherHeadDimV);
    note(variant.isPrecise(), Precise);
    note(variant.scale().has_value(), Scale);
    note(problem.tensors.contains("sinks"), Sink);
    note(variant.toJson().find("\"sigmoid\"") != std::string::npos, Sigmoid);
  }
  for (int op = 0; op < int(Op::Invalid); ++op) {
    INFO(name(Op(op)));
    CHECK(ops.count(Op(op)) == 1);
  }
  CHECK(tensors.size() == 6 * 5);
  CHECK(scalars.size() == 4);
  CHECK(inputs.size() == 3);
  CHECK(features.size() == 11);
}

TEST_CASE("random variants are well conditioned: float32 sums are near float64's") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    RandomCase random = randomCase(seed, {.dtype = f32, .maxLength = 60});
    INFO(random.describe());
    Expected<Output> exact = attention(random.problem), plain = plainLowPrecision(random.problem);
    REQUIRE(exact);
    REQUIRE(plain);
    double largest = 0;
    bool sameMasked = true;
    for (size_t i = 0; i < exact->o.size(); ++i) {
      REQUIRE(std::isfinite(exact->o[i]));
      largest = std::max(largest, std::fabs(exact->o[i] - plain->o[i]));
    }
    for (size_t i = 0; i < exact->lse.size(); ++i)
      sameMasked &= std::isfinite(exact->lse[i]) == std::isfinite(plain->lse[i]);
    CHECK(largest < 2e-4);
    CHECK(sameMasked);
    CHECK(compareO(
              HostTensor::fromDoubles(f32, {exact->batch, exact->heads, exact->queryLength, exact->headDimV}, plain->o),
              *exact, *plain)
              .pass);
    if (random.variant->hasLse())
      CHECK(compareLse(HostTensor::fromDoubles(f32, {exact->batch, exact->heads, exact->queryLength}, plain->lse),
                       *exact, *plain)
                .pass);
  }
}
