//===- EndsCases.cpp - Masks that end the keys or the queries of a sequence ---===//
//
// Rows of K and V from `keys_end[b]` on, and rows of Q and dO from `queries_end[b]` on, are NaN. No product may read them:
// 0 * NaN is NaN. For TMA a tile in which rows end is made of boxes, whose rows depend on the panels that the head dim gives.
//
//===----------------------------------------------------------------------===//

#include "tests/numerics/Cases.h"

#include <array>
#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

namespace {

struct Ended {
  const char *label;
  Variant variant;
  bool keys, queries;
};

std::vector<Ended> endedVariants() {
  const auto n = captured("keys_end", i32, rank(1)), m = captured("queries_end", i32, rank(1)),
             bias = captured("bias", bf16, rank(3));
  const Mask ofKeys([=](Index b, Index, Index, Index k) { return k < n[b]; }),
      ofQueries([=](Index b, Index, Index q, Index) { return q < m[b]; }),
      byHead([=](Index b, Index h, Index, Index k) { return k < n[b] - h; }),
      queriesByHead([=](Index b, Index h, Index q, Index) { return q < m[b] - 2 * h; });
  auto biased = [=](Score s, Index, Index h, Index q, Index k) { return s + bias(h, q, k); };
  return {
      {"keys", Variant("v").mask(ofKeys), true, false},
      {"both", Variant("v").mask(ofKeys && ofQueries), true, true},
      {"causal keys", Variant("v").mask(ofKeys && causal()), true, false},
      {"queries", Variant("v").mask(ofQueries), false, true},
      {"keys by head", Variant("v").mask(byHead), true, false},
      {"queries by head", Variant("v").mask(queriesByHead), false, true},
      {"keys of weights without a divisor", Variant("v").mask(ofKeys).normaliser(normalisers::sigmoid()), true, false},
      {"keys with a bias", Variant("v").mask(ofKeys).score(biased), true, false},
      {"keys with dropout", Variant("v").mask(ofKeys).dropout(0.2f), true, false}};
}

HostTensor endsTensor(int64_t extent, std::array<int64_t, 3> ends) {
  HostTensor tensor = HostTensor::zeros(i32, {int64_t(ends.size())});
  for (size_t i = 0; i < ends.size(); ++i)
    tensor.setInt(int64_t(i), std::min(extent, ends[i]));
  return tensor;
}

} // namespace

Group attune::tests::endsGroup() {
  Group group{"ends", {}};
  const std::vector<Ended> variants = endedVariants();
  auto add = [&](const Ended &ended, int dim, int dimV, int64_t queries, int64_t keys) {
    const uint64_t seed = group.cases.size() + 1;
    const Shape shape{
        .batch = 3, .heads = 4, .headsKv = 2, .queries = queries, .keys = keys, .headDim = dim, .headDimV = dimV};
    group.cases.push_back([=] {
      Case test = makeCase(fmt::format("ends of {}", ended.label), ended.variant, seed % 3 ? bf16 : f16, shape, seed);
      // Ends at an odd row, at a multiple of 8, in the second tile, at nothing and everything.
      const std::array<int64_t, 3> each[] = {{0, 77, 1000}, {131, 1, 136}, {129, 63, 72}};
      if (ended.keys)
        test.problem.tensors["keys_end"] = endsTensor(keys, each[seed % 3]);
      if (ended.queries)
        test.problem.tensors["queries_end"] = endsTensor(queries, each[(seed + 1) % 3]);
      test.layout.keysEnd = ended.keys ? "keys_end" : "";
      test.layout.queriesEnd = ended.queries ? "queries_end" : "";
      test.layout.rowsBeforeHeads = seed % 5 == 0;
      return test;
    });
  };
  size_t turn = 0;
  for (auto [dim, dimV] : std::vector<std::pair<int, int>>{{8, 8},
                                                           {16, 16},
                                                           {32, 32},
                                                           {40, 72},
                                                           {64, 64},
                                                           {80, 80},
                                                           {96, 96},
                                                           {128, 128},
                                                           {144, 144},
                                                           {192, 128},
                                                           {256, 256}})
    for (size_t i = 0; i < 3; ++i, ++turn)
      add(variants[(turn + turn / variants.size()) % variants.size()], dim, dimV, 150, 203);
  for (const Ended &ended : variants)
    for (int dim : {64, 96, 128})
      add(ended, dim, dim, 140, 300);
  for (const Ended &ended : variants)
    add(ended, 64, 64, 3, 140);
  return group;
}
