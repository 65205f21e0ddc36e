//===- PackedCases.cpp - Packed sequences ------------------------------------===//
//
// Six sequences in the rows of one batch (makeCase): empty ones, one of a row, one without keys, and rows before the first
// and after the last sequence. Where the queries alone are packed, keys are those of a batch of six, in one piece or in
// pages.
//
//===----------------------------------------------------------------------===//

#include "tests/numerics/Cases.h"

#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;

namespace {

struct Packed {
  void add(std::string label, Variant variant, int dim, int dimV, int64_t queries, int64_t keys) {
    const uint64_t seed = group.cases.size() + 1;
    variant.sequences(captured("first_queries", i32, rank(1)), captured("first_keys", i32, rank(1)));
    const Shape shape{
        .batch = 1, .heads = 4, .headsKv = 2, .queries = queries, .keys = keys, .headDim = dim, .headDimV = dimV};
    group.cases.push_back([=] {
      Case test = makeCase(label, variant, narrowFirst[(seed / 2) % 3], shape, seed);
      test.layout.rowsBeforeHeads = seed % 3 != 0;
      return test;
    });
  }

  /// `count` sequences of up to `longest` rows, and rows after the last: a warp searches its bounds in several steps.
  void addMany(int64_t count, int64_t longest) {
    const Variant variant = Variant("many").mask(causal()).sequences(captured("first_queries", i32, rank(1)),
                                                                     captured("first_keys", i32, rank(1)));
    reference::HostTensor bounds = reference::HostTensor::zeros(DType::I32, {count + 1});
    for (int64_t i = 0; i < count; ++i)
      bounds.setInt(i + 1, bounds.intAt(i) + (i * 7 + 3) % (longest + 1));
    const int64_t rows = bounds.intAt(count) + 150;
    group.cases.push_back([=] {
      Case test = makeCase(fmt::format("{} sequences", count), variant, bf16,
                           {.batch = 1, .heads = 1, .headsKv = 1, .queries = rows, .keys = rows, .headDim = 64}, 3);
      test.problem.tensors["first_queries"] = test.problem.tensors["first_keys"] = bounds;
      return test;
    });
  }

  /// Packed queries, and caches of up to `keys` keys in pages of `pageSize`, 0 for rows in one piece.
  void addCached(std::string label, Variant variant, int dim, int dimV, int64_t queries, int64_t keys, int pageSize,
                 bool lengths) {
    const uint64_t seed = group.cases.size() + 1;
    variant.sequences(captured("first_queries", i32, rank(1)));
    if (lengths)
      variant.keyLengths(captured("lengths", i32, rank(1)));
    if (pageSize) {
      variant.keyPages(captured("pages", i32, rank(2)), pageSize);
      keys = (keys + pageSize - 1) / pageSize * pageSize;
    }
    const Shape shape{
        .batch = 6, .heads = 4, .headsKv = 2, .queries = queries, .keys = keys, .headDim = dim, .headDimV = dimV};
    group.cases.push_back([=] {
      Case test =
          makeCase(fmt::format("{}, pages {}", label, pageSize), variant, narrowFirst[(seed / 2) % 3], shape, seed);
      test.layout.rowsBeforeHeads = seed % 3 != 0;
      return test;
    });
  }

  Group group{"packed", {}};
};

} // namespace

Group attune::tests::packedGroup() {
  const auto slopes = captured("slopes", f32, rank(1));
  auto alibi = [=](Score s, Index, Index h, Index q, Index k) { return s + slopes[h] * cast(k - q, f32); };
  const std::pair<const char *, Variant> variants[] = {
      {"plain", Variant("plain")},
      {"causal", Variant("causal").mask(causal())},
      {"causal, the last query beside the last key", Variant("last").mask(causalBottomRight())},
      {"window", Variant("window").mask(slidingWindow(70, 30))},
      {"window with softcap and ALiBi", Variant("many").mask(slidingWindow(90, 0)).score(softcap(30)).score(alibi)},
      {"dropout", Variant("dropout").mask(causal()).dropout(0.2f)},
      {"sigmoid", Variant("sigmoid").mask(causal()).normaliser(normalisers::sigmoid())},
      {"sink", Variant("sink").normaliser(normalisers::softmaxWithSink("sinks"))},
      {"precise", Variant("precise").precise().mask(causal())}};
  Packed all;
  for (const auto &[label, variant] : variants)
    for (auto [queries, keys] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 300}, {333, 333}, {600, 450}, {130, 1000}})
      for (int dim : {64, 128})
        all.add(label, variant, dim, dim, queries, keys);
  for (auto [dim, dimV] :
       std::vector<std::pair<int, int>>{{8, 8}, {40, 72}, {96, 96}, {136, 136}, {192, 128}, {256, 256}, {320, 64}})
    for (const auto &[label, variant] : {variants[0], variants[2]})
      all.add(label, variant, dim, dimV, 400, 410);
  for (const auto &[label, variant] : variants)
    for (auto [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {6, 300}, {333, 333}, {600, 450}})
      for (auto [pageSize, lengths] :
           std::vector<std::pair<int, bool>>{{0, false}, {0, true}, {16, true}, {128, false}})
        all.addCached(label, variant, queries % 2 ? 64 : 128, queries % 2 ? 64 : 128, queries, keys, pageSize, lengths);
  for (auto [dim, dimV] : std::vector<std::pair<int, int>>{{40, 72}, {192, 128}, {256, 256}, {576, 512}})
    for (int pageSize : {0, 32, 256})
      all.addCached(variants[2].first, variants[2].second, dim, dimV, 400, 410, pageSize, /*lengths=*/true);
  for (auto [count, longest] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 40}, {31, 9}, {32, 9}, {33, 9}, {65, 5}, {1100, 1}})
    all.addMany(count, longest);
  return all.group;
}
