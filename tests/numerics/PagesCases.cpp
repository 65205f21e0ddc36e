//===- PagesCases.cpp - Lengths of sequences, keys in pages ------------------===//
//
// What no sequence has holds NaN, entries behind a length are out of range, and sequences share their first page.
//
//===----------------------------------------------------------------------===//

#include "tests/numerics/Cases.h"

#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;

namespace {

struct Pages {
  /// In pages of `pageSize` keys, 0 for rows in one piece, each way of sharing in turn.
  void add(std::string label, Variant variant, Shape shape, int pageSize, bool lengths = true, bool packs = true,
           bool mixed = false) {
    const uint64_t seed = group.cases.size() + 1;
    const DType dtype = narrowFirst[(seed / 2) % 3];
    if (lengths)
      variant.keyLengths(captured("lengths", i32, rank(1)));
    if (mixed)
      variant.queryLengths(captured("new_tokens", i32, rank(1)));
    if (pageSize) {
      variant.keyPages(captured("pages", i32, rank(2)), pageSize);
      shape.keys = (shape.keys + pageSize - 1) / pageSize * pageSize;
    }
    group.cases.push_back([=] {
      Case test = makeCase(fmt::format("{} pages {}", label, pageSize), variant, dtype, shape, seed);
      if (seed % 3 == 0)
        test.options.packGqa = packs;
      if (seed % 4 < 2)
        test.options.splitKeys = true;
      test.layout.rowsBeforeHeads = seed % 5 == 0;
      test.problem.qOffset = variant.hasQOffset() ? std::max<int64_t>(0, shape.keys - shape.queries) : 0;
      return test;
    });
  }

  Group group{"pages", {}};
};

} // namespace

Group attune::tests::pagesGroup() {
  Pages all;
  auto ids = captured("ids", i32, rank(1));
  const Variant last = Variant("last").mask(causalBottomRight());
  for (int size : {0, 16, 32, 48, 64, 128, 256, 4096})
    for (auto [queries, keys] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 700}, {3, 257}, {70, 300}, {200, 513}, {2, 0}})
      if (keys || !size) // a table has at least a column
        all.add("lengths", last,
                {.batch = 3, .heads = 6, .headsKv = 2, .queries = queries, .keys = keys, .headDim = 64}, size);
  for (auto [dim, dimV] : std::vector<std::pair<int, int>>{
           {8, 8}, {32, 32}, {40, 72}, {80, 80}, {96, 96}, {128, 128}, {136, 136}, {192, 128}, {256, 256}})
    for (int size : {0, 16, 64})
      for (bool lengths : {true, false})
        all.add("head dims", last,
                {.batch = 2, .heads = 8, .headsKv = 2, .queries = 3, .keys = 517, .headDim = dim, .headDimV = dimV},
                size, lengths);
  // Latent attention: one key head of 512 columns of values and 64 of positions.
  for (int size : {0, 16, 64})
    for (int64_t queries : {1, 4})
      all.add("latent", last,
              {.batch = 2, .heads = 16, .headsKv = 1, .queries = queries, .keys = 200, .headDim = 576, .headDimV = 512},
              size,
              /*lengths=*/true, /*packs=*/false);
  // Steps of generation and chunks of prompts in one launch.
  for (int size : {0, 16, 128})
    for (auto [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{1, 100}, {7, 300}, {130, 400}, {333, 600}})
      for (bool lengths : {true, false})
        for (int dim : {64, 128})
          all.add("mixed", last,
                  {.batch = 3, .heads = 6, .headsKv = 2, .queries = queries, .keys = keys, .headDim = dim}, size,
                  lengths,
                  /*packs=*/true, /*mixed=*/true);
  const Shape shape{.batch = 2, .heads = 8, .headsKv = 2, .queries = 5, .keys = 331, .headDim = 64};
  for (int size : {0, 16, 64, 256}) {
    for (const Variant &variant : builtinsForTests())
      if (!variant.keyLengths())
        all.add(std::string(variant.name()), variant, shape, size, true, variant.name() != "block_sparse");
    for (const Normaliser &normaliser :
         {normalisers::softmaxWithSink("sinks"), normalisers::sigmoid(), normalisers::none()})
      all.add("normaliser", Variant("v").mask(causalBottomRight()).normaliser(normaliser), shape, size);
    all.add("tree", Variant("v").mask([=](Index, Index, Index q, Index k) {
      return k < keyLength() - 8 || ((clamped(ids[q]) >> (k - keyLength() + 8)) & 1) == 1;
    }),
            shape, size);
    all.add("window", Variant("v").mask([](Index, Index, Index q, Index k) {
      return k <= q + keyLength() - queryLength() && k > q + keyLength() - queryLength() - 50;
    }),
            shape, size);
    all.add("score of Sk", Variant("v").score([](Score s, Index, Index, Index, Index k) {
      return s - cast(keyLength() - k, f32) * 0.1f;
    }),
            shape, size);
    all.add("documents", Variant("v").mask(documents(ids)), shape, size);
    all.add("dropout", Variant("v").mask(causalBottomRight()).dropout(0.3f), shape, size, true, false);
    all.add("offset", Variant("v").mask(causal()).qOffset(), shape, size);
  }
  return all.group;
}
