//===- FewQueriesCases.cpp - Rows of several heads, shares of keys -----------===//
//
// What generation asks: few queries over many keys, by each way of sharing. Long launches and short ones are right by all
// of them, as a schedule says nothing of sizes.
//
//===----------------------------------------------------------------------===//

#include "tests/numerics/Cases.h"

#include <fmt/format.h>
#include <optional>

using namespace attune;
using namespace attune::tests;

namespace {

struct FewQueriesGrid {

  /// By packed groups, where the variant's rows may be of several heads, shares of keys, or both in turn.
  void add(std::string label, const Variant &variant, const Shape &shape, bool packs = true,
           std::optional<DType> of = std::nullopt) {
    const uint64_t seed = group.cases.size() + 1;
    const int64_t way = packs ? int64_t(seed % 3) : 1;
    const DType dtype = of.value_or(narrowFirst[(seed / 3) % 3]);
    group.cases.push_back([=] {
      Case test = makeCase(label, variant, dtype, shape, seed);
      test.options.packGqa = way != 1;
      test.options.splitKeys = way != 2;
      if (way != 1 && seed % 2)
        test.options.qRegisters = false;
      for (const TensorDecl &tensor : variant.tensors())
        if (tensor.name == "windows") {
          reference::HostTensor windows = reference::HostTensor::zeros(i32, {shape.keys + 1});
          for (int64_t i = 0; i <= shape.keys; ++i)
            windows.setInt(i, (i * 37) % 211);
          test.problem.tensors["windows"] = windows;
        }
      test.problem.qOffset = variant.hasQOffset() ? std::max<int64_t>(0, shape.keys - shape.queries) : 0;
      return test;
    });
  }

  Group group{"few-queries", {}};
};

/// The last queries of a sequence.
Variant step() {
  return Variant("step").mask(causal()).score(softcap(20) | alibi(captured("slopes", f32, rank(1)))).qOffset();
}

void addSizes(FewQueriesGrid &all) {
  for (auto [heads, headsKv] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {8, 1}, {6, 2}, {9, 3}, {16, 1}, {14, 2}, {30, 2}})
    for (auto [queries, keys] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 700}, {2, 0}, {3, 257}, {9, 300}, {70, 90}})
      all.add("lengths", step(),
              {.batch = 2, .heads = heads, .headsKv = headsKv, .queries = queries, .keys = keys, .headDim = 64});
  for (auto [dim, dimV] : std::vector<std::pair<int, int>>{
           {8, 8}, {40, 72}, {80, 80}, {96, 96}, {128, 128}, {136, 136}, {192, 128}, {256, 256}})
    for (int way = 0; way < 3; ++way)
      all.add("head dims", step(),
              {.batch = 1, .heads = 8, .headsKv = 2, .queries = 3, .keys = 517, .headDim = dim, .headDimV = dimV});
  // Latent attention.
  for (int way = 0; way < 3; ++way)
    for (DType dtype : {bf16, f16})
      all.add("latent", step(),
              {.batch = 2, .heads = 24, .headsKv = 1, .queries = 2, .keys = 301, .headDim = 576, .headDimV = 512}, true,
              dtype);
}

void addVariants(FewQueriesGrid &all) {
  const Shape shape{.batch = 2, .heads = 8, .headsKv = 2, .queries = 5, .keys = 331, .headDim = 64};
  for (const Variant &variant : builtinsForTests())
    for (int way = 0; way < 3; ++way)
      all.add(std::string(variant.name()), variant, shape, variant.name() != "block_sparse");
  auto t = captured("windows", i32, rank(1));
  const std::pair<const char *, Mask> masks[] = {
      {"window and sinks", Mask([](Index, Index, Index q, Index k) { return q >= k && (q - k < 100 || k < 4); })},
      {"window of each query", Mask([=](Index, Index, Index q, Index k) { return q - k < clamped(t[q]); })},
      {"lengths", keyPadding(captured("lengths", i32, rank(1)))},
      {"tree", Mask([=](Index, Index, Index q, Index k) { return k < 300 || ((clamped(t[q]) >> (k % 8)) & 1) == 1; })},
      {"hidden", Mask([](Index, Index, Index, Index k) { return k < 0; })}};
  for (const auto &[label, mask] : masks)
    for (int way = 0; way < 3; ++way)
      all.add(label, Variant("v").mask(mask).qOffset(), shape);
  for (const Normaliser &normaliser :
       {normalisers::softmaxWithSink("sinks"), normalisers::sigmoid(), normalisers::none()})
    for (int way = 0; way < 3; ++way)
      all.add("normaliser", Variant("v").mask(causal()).normaliser(normaliser).qOffset(), shape);
  all.add("precise", Variant("v").precise().score(softcap(3)), shape);
  all.add("by head", Variant("v").mask([](Index, Index h, Index, Index k) { return k % 4 < h; }), shape, false);
  all.add("dropout", Variant("v").mask(causal()).dropout(0.3f), shape, false);
}

} // namespace

Group attune::tests::fewQueriesGroup() {
  FewQueriesGrid all;
  addSizes(all);
  addVariants(all);
  return all.group;
}
