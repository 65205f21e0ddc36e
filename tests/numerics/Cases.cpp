#include "tests/numerics/Cases.h"

#include "tools/reference/RandomVariant.h"

#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;
using attune::reference::HostTensor;

namespace {

HostTensor ints(DType dtype, std::vector<int64_t> shape, const std::function<int64_t(int64_t)> &value) {
  HostTensor tensor = HostTensor::zeros(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.setInt(i, value(i));
  return tensor;
}

/// A group under construction.
struct Builder {
  Group group;

  void add(std::function<Case()> make) { group.cases.push_back(std::move(make)); }
  void add(std::string label, const Variant &variant, DType dtype, const Shape &shape,
           std::function<void(Case &)> change = {}) {
    uint64_t seed = group.cases.size() + 1;
    add([=] {
      Case test = makeCase(label, variant, dtype, shape, seed);
      if (change)
        change(test);
      return test;
    });
  }
};

/// causal, softcap and ALiBi in one: every stage of the softmax has work.
Variant busy() { return Variant("busy").mask(causal()).score(softcap(20) | alibi(captured("slopes", f32, rank(1)))); }

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

Group builtinGroup() {
  Builder b{{"builtins", {}}};
  for (const Variant &variant : builtinsForTests())
    for (DType dtype : dtypes)
      b.add(variant.name(), variant, dtype,
            {.batch = 2, .heads = 4, .headsKv = 2, .queries = 113, .keys = 203, .headDim = 64});
  // The argument forms that the registry does not list.
  auto ids = captured("ids", i64, rank(2));
  auto lengths = captured("lengths", i64, rank(1));
  Shape shape{.batch = 3, .heads = 2, .headsKv = 1, .queries = 203, .keys = 203, .headDim = 32};
  b.add("documents by batch", Variant("v").mask(documents(ids) && causal()), bf16, shape);
  b.add("key padding i64", Variant("v").mask(keyPadding(lengths)), f16, shape);
  b.add("prefix by batch", Variant("v").mask(prefixLm(captured("lengths", i32, rank(1)))), f32, shape);
  b.add("bias of rank 2", Variant("v").score(bias(captured("bias", f32, rank(2)))), bf16, shape);
  b.add("bias of rank 4", Variant("v").score(bias(captured("bias", bf16, rank(4)))), bf16, shape);
  b.add("not, or, and", Variant("v").mask((!causal() || slidingWindow(9, 0)) && !chunked(50)), bf16, shape);
  b.add("everything",
        Variant("v")
            .mask(causal() && documents(captured("ids", i32, rank(1))))
            .score(softcap(10) | alibi(captured("slopes", f32, rank(1))) | bias(captured("bias", f32, rank(3)))),
        f32, shape);
  b.add("scale", Variant("v").scale(0.37f).mask(causal()), bf16, shape);
  b.add("negative scale", Variant("v").scale(-0.25f), f32, shape);
  b.add("zero scale", Variant("v").scale(0), bf16, shape);
  b.add("precise", Variant("v").precise().score(softcap(3)), bf16, shape);
  return b.group;
}

Group lengthGroup(bool gpu) {
  Builder b{{"lengths", {}}};
  for (auto [queries, keys] : peerLengths())
    for (DType dtype : dtypes)
      for (bool hidden : {false, true}) {
        // Long sequences in one head: the reference's time is the limit.
        bool long_ = queries * keys > 400000;
        if (long_ && !gpu && (dtype == f16 || !hidden))
          continue;
        Shape shape{.batch = long_ ? 1 : 2,
                    .heads = long_ ? 1 : 2,
                    .headsKv = 1,
                    .queries = queries,
                    .keys = keys,
                    .headDim = 64};
        b.add(hidden ? "causal" : "plain", hidden ? Variant("causal").mask(causal()) : Variant("plain"), dtype, shape);
      }
  Shape one{.batch = 1, .heads = 1, .headsKv = 1, .queries = 4224, .keys = 4224, .headDim = 64};
  if (gpu) {
    b.add("causal", Variant("causal").mask(causal()), bf16, one);
    b.add("window", Variant("window").mask(slidingWindow(1024, 0)), f16, one);
  }
  // Around the edges of tiles.
  for (int64_t length : {15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 257}) {
    b.add("bottom right", Variant("causal_br").mask(causalBottomRight()), bf16,
          {.queries = length, .keys = 130, .headDim = 64});
    b.add("bottom right", Variant("causal_br").mask(causalBottomRight()), bf16,
          {.queries = 130, .keys = length, .headDim = 64});
  }
  b.add("no keys", Variant("plain"), bf16, {.queries = 70, .keys = 0, .headDim = 64});
  b.add("no keys", busy(), f32, {.queries = 70, .keys = 0, .headDim = 64});
  b.add("no queries", Variant("plain"), bf16, {.queries = 0, .keys = 70, .headDim = 64});
  b.add("no batch", Variant("plain"), f16, {.batch = 0, .queries = 70, .keys = 70, .headDim = 64});
  return b.group;
}

Group headDimGroup(bool gpu) {
  Builder b{{"head-dims", {}}};
  std::vector<int> dims = {8,   16,  24,  32,  40,  56,  64,  72,  80,  96, 112,
                           128, 136, 160, 192, 200, 256, 264, 320, 400, 512};
  if (gpu)
    dims = {8, 16, 32, 40, 64, 80, 96, 128, 192, 256};
  for (int dim : dims)
    for (DType dtype : dtypes) {
      b.add("busy", busy(), dtype, {.queries = 130, .keys = 150, .headDim = dim});
      if (dtype == bf16)
        b.add("plain", Variant("plain"), dtype, {.queries = 77, .keys = 200, .headDim = dim});
    }
  std::vector<std::pair<int, int>> unequal = {{64, 128}, {128, 64}, {192, 128}, {40, 72},
                                              {96, 16},  {8, 64},   {80, 96},   {200, 256}};
  if (!gpu)
    unequal.insert(unequal.end(), {{512, 8}, {8, 512}, {576 - 64, 256}});
  for (auto [dim, dimV] : unequal)
    for (DType dtype : dtypes)
      b.add("busy", busy(), dtype, {.queries = 130, .keys = 150, .headDim = dim, .headDimV = dimV});
  return b.group;
}

/// Head dims above 256, where warps of a block may split the columns of O.
Group wideHeadGroup(bool gpu) {
  Builder b{{"wide-heads", {}}};
  std::vector<std::pair<int, int>> dims = {{512, 64}, {64, 512}, {192, 320}, {264, 512}};
  if (gpu)
    dims.insert(dims.end(), {{264, 264}, {320, 320}, {400, 400}, {512, 512}, {512, 8}, {8, 512}, {328, 264}});
  for (auto [dim, dimV] : dims)
    for (DType dtype : dtypes)
      b.add("busy", busy(), dtype,
            {.batch = 2, .heads = 4, .headsKv = 2, .queries = 130, .keys = 150, .headDim = dim, .headDimV = dimV});
  for (auto [queries, keys] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 77}, {77, 1}, {17, 33}, {65, 129}, {203, 113}})
    for (int dim : {320, 512})
      b.add("lengths", Variant("causal_br").mask(causalBottomRight()), bf16,
            {.batch = 2, .heads = 2, .headsKv = 1, .queries = queries, .keys = keys, .headDim = dim});
  b.add("no keys", busy(), bf16, {.queries = 70, .keys = 0, .headDim = 512});
  for (DType dtype : dtypes)
    b.add([=] {
      return dropoutCase(dtype, {.batch = 2, .heads = 3, .headsKv = 1, .queries = 150, .keys = 170, .headDim = 512},
                         0.3f, 7);
    });
  b.add([] { return dropoutCase(bf16, {.queries = 150, .keys = 170, .headDim = 264, .headDimV = 512}, 0.1f, 8); });
  Shape shape{.batch = 2, .heads = 4, .headsKv = 1, .queries = 113, .keys = 200, .headDim = 512};
  auto pattern = captured("pattern", boolean, rank(3));
  b.add("blocks", Variant("pattern").blocks(pattern, 64, 64).mask(causal()), bf16, shape);
  b.add("documents", Variant("v").mask(documents(captured("ids", i64, rank(2))) && causal()), f16,
        {.batch = 2, .heads = 4, .headsKv = 1, .queries = 200, .keys = 200, .headDim = 512});
  b.add("bias", Variant("v").score(bias(captured("bias", f32, rank(3)))), bf16, shape);
  b.add("layout", busy(), bf16, shape,
        [](Case &test) { test.layout = {.rowsBeforeHeads = true, .guardRows = 5, .padColumns = 8}; });
  b.add("no LSE", busy(), bf16, shape, [](Case &test) { test.layout.withoutLse = true; });
  b.add("pages",
        Variant("pages")
            .mask(causalBottomRight())
            .keyLengths(captured("lengths", i32, rank(1)))
            .queryLengths(captured("new_tokens", i32, rank(1)))
            .keyPages(captured("pages", i32, rank(2)), 16),
        bf16, {.batch = 2, .heads = 4, .headsKv = 2, .queries = 40, .keys = 176, .headDim = 64});
  b.add("sigmoid", Variant("sigmoid").mask(causal()).normaliser(normalisers::sigmoid()), bf16, shape);
  b.add("sink", Variant("sink").mask(causal()).dropout(0.2f).normaliser(normalisers::softmaxWithSink("sinks")), f16,
        shape);
  b.add("every third row hidden",
        Variant("v").mask([](Index, Index, Index q, Index k) { return q % 3 != 0 && k <= q; }), bf16, shape);
  return b.group;
}

Group groupedHeadGroup() {
  Builder b{{"grouped-heads", {}}};
  for (auto [heads, headsKv] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {5, 1}, {8, 1}, {6, 2}, {9, 3}, {7, 7}, {12, 4}, {14, 2}, {15, 3}})
    for (DType dtype : dtypes)
      b.add("busy", busy(), dtype,
            {.batch = 2, .heads = heads, .headsKv = headsKv, .queries = 70, .keys = 90, .headDim = 32});
  return b.group;
}

Group layoutGroup() {
  Builder b{{"layouts", {}}};
  Shape shape{.batch = 2, .heads = 6, .headsKv = 2, .queries = 113, .keys = 75, .headDim = 40, .headDimV = 72};
  auto relative = Variant("relative")
                      .mask(causal())
                      .score(relativeBias(captured("table", f32, rank(2))) | bias(captured("bias", f16, rank(3))));
  for (DType dtype : dtypes)
    for (bool rowsFirst : {false, true})
      for (int64_t pad : {0, 8, 4096}) {
        b.add("layout", relative, dtype, shape, [=](Case &test) {
          test.layout = {.rowsBeforeHeads = rowsFirst,
                         .guardRows = pad == 8 ? 5 : 1,
                         .padColumns = pad,
                         .reversedTensors = pad != 0};
        });
      }
  for (DType dtype : dtypes)
    b.add("no LSE", busy(), dtype, shape, [](Case &test) { test.layout.withoutLse = true; });
  // Offsets beyond 2^31 elements; 4 GiB and more between the batches of K and V.
  for (DType dtype : {bf16, f32})
    b.add("huge strides", Variant("causal").mask(causal()), dtype,
          {.batch = 2, .heads = 2, .headsKv = 1, .queries = 70, .keys = 90, .headDim = 64},
          [](Case &test) { test.layout.batchGap = (int64_t(1) << 31) + 4096; });
  return b.group;
}

Group maskedGroup() {
  Builder b{{"hidden", {}}};
  Shape shape{.batch = 2, .heads = 2, .headsKv = 2, .queries = 150, .keys = 140, .headDim = 32};
  for (DType dtype : dtypes) {
    b.add("every third row hidden",
          Variant("v").mask([](Index, Index, Index q, Index k) { return q % 3 != 0 && k <= q; }), dtype, shape);
    b.add("first rows hidden", Variant("v").mask(causalBottomRight()), dtype,
          {.queries = 200, .keys = 60, .headDim = 32});
    b.add("nothing visible", Variant("v").mask([](Index, Index, Index, Index k) { return k < 0; }), dtype, shape);
    b.add("hidden by the score", Variant("v").score([](Score s, Index, Index, Index q, Index k) {
      return select(q < k || q % 5 == 0, -std::numeric_limits<float>::infinity(), s);
    }),
          dtype, shape);
    b.add("bias of -inf rows", Variant("v").score(bias(captured("bias", f32, rank(3)))), dtype, shape, [](Case &test) {
      HostTensor &bias = test.problem.tensors["bias"];
      for (int64_t i = 0; i < bias.size(); ++i)
        if (i / 140 % 4 == 1 || i % 140 < 70) // a whole row, and the first tiles of each row
          bias.set(i, -std::numeric_limits<double>::infinity());
    });
    // What lies at keys that are hidden by the length never reaches a row; within a sequence a hidden key may.
    b.add("lengths", Variant("v").mask(keyPadding(captured("lengths", i32, rank(1)))), dtype, shape);
  }
  return b.group;
}

Group hardInputGroup() {
  Builder b{{"hard-inputs", {}}};
  Shape shape{.batch = 1, .heads = 2, .headsKv = 2, .queries = 130, .keys = 300, .headDim = 64};
  auto scaleQ = [](double factor) {
    return [=](Case &test) {
      for (int64_t i = 0; i < test.problem.q.size(); ++i)
        test.problem.q.set(i, test.problem.q.at(i) * factor);
    };
  };
  // q is the same in all columns and K grows with k: logits go from 0 to +-`top`.
  auto slope = [](double top, bool up) {
    return [=](Case &test) {
      HostTensor &q = test.problem.q, &k = test.problem.k;
      int64_t dim = k.shape[3], keys = k.shape[2];
      for (int64_t i = 0; i < q.size(); ++i)
        q.set(i, 4);
      for (int64_t i = 0; i < k.size(); ++i) {
        double at = double(i / dim % keys) / double(keys);
        k.set(i, top / (4 * std::sqrt(double(dim))) * (up ? at : 1 - at));
      }
    };
  };
  for (DType dtype : dtypes) {
    b.add("logits to 30", Variant("plain"), dtype, shape, scaleQ(10));
    b.add("logits to 1e3", Variant("plain"), dtype, shape, scaleQ(300));
    b.add("logits to 1e4", Variant("causal").mask(causal()), dtype, shape, scaleQ(2500));
    b.add("maxima rising", Variant("plain"), dtype, shape, slope(100, true));
    b.add("maxima rising to 1e4", Variant("plain"), dtype, shape, slope(1e4, true));
    b.add("maxima falling", Variant("plain"), dtype, shape, slope(1e4, false));
    b.add("all negative", Variant("plain"), dtype, shape, slope(-1e4, true));
    b.add("far above the cap", Variant("softcap").score(softcap(5)), dtype, shape, scaleQ(500));
    b.add("equal scores", Variant("plain"), dtype, shape, scaleQ(0));
    b.add("large values", Variant("plain"), dtype, shape, [](Case &test) {
      for (int64_t i = 0; i < test.problem.v.size(); ++i)
        test.problem.v.set(i, test.problem.v.at(i) * 1000);
    });
    b.add("a distant bias", Variant("alibi").score(alibi(captured("slopes", f32, rank(1)))), dtype, shape,
          [](Case &test) {
            for (int64_t i = 0; i < 2; ++i)
              test.problem.tensors["slopes"].set(i, i ? -40 : 40);
          });
  }
  return b.group;
}

/// Finite scores of any magnitude: masks by the least finite float, and sums and products far from 1.
Group largeScoreGroup() {
  Builder b{{"large-scores", {}}};
  Shape shape{.batch = 1, .heads = 2, .headsKv = 1, .queries = 130, .keys = 300, .headDim = 64};
  auto add = [&](const char *label, const char *score, const char *mask = "true", std::optional<float> dropout = {}) {
    Expected<Variant> variant = Variant::parse("large", {.score = score, .mask = mask, .dropout = dropout});
    assert(variant && "the text is right");
    for (DType dtype : dtypes)
      b.add(label, *variant, dtype, shape);
  };
  add("rows of the least float", "select(q % 3 == 0, -3.4028234e38, s)");
  add("causal rows of the least float", "select(q % 3 == 0, -3.4028234e38, s)", "q >= k");
  add("keys of the least float", "select(k % 5 != q % 5, -3.4028234e38, s)");
  add("first keys of the least float", "select(k < 140, -3.4028234e38, s)");
  add("last keys of the least float", "select(k >= 140, -3.4028234e38, s)");
  add("two of the least floats", "select(k % 7 == 0, -3.4028232e38, -3.4028234e38)");
  add("the greatest float", "select((q + k) % 9 == 0, 3.4028234e38, s)");
  add("less 1e10", "s - 1e10");
  add("more 1e10", "s + 1e10");
  add("more 1e5", "s + 1e5");
  add("times 1e30", "s * 1e30");
  add("times 1e8", "s * 1e8");
  add("times 300", "s * 300 + 4e6");
  // By a power of two: the product is exact, so that it does not matter whether it is rounded before the sum.
  add("rising by 2^30", "s + 1073741824.0 * f32(k / 16)");
  add("falling by 2^30", "s - 1073741824.0 * f32(k / 16)");
  add("rising through 1e9", "s + f32(k) * 7e6");
  add("falling to -1e9", "s - f32(k) * 7e6", "q >= k");
  add("documents of the least float", "select(q % 3 == 0, -3.4028234e38, s)", "q / 50 == k / 50");
  add("dropout, less 1e10", "s - 1e10", "true", 0.3f);
  add("dropout, rows of the least float", "select(q % 3 == 0, -3.4028234e38, s)", "q >= k", 0.3f);
  add("dropout, rising by 2^30", "s + 1073741824.0 * f32(k / 16)", "true", 0.3f);
  add("dropout, times 1e30", "s * 1e30", "true", 0.3f);
  add("plus infinity", "select(k == 77, inf, s)", "q >= k");
  for (DType dtype : dtypes) {
    b.add("scale -1e10", Variant("scaled").scale(-1e10f), dtype, shape);
    if (dtype != f16)
      b.add("queries of 1e20", Variant("plain"), dtype, shape, [](Case &test) {
        for (int64_t i = 0; i < test.problem.q.size(); ++i)
          test.problem.q.set(i, test.problem.q.at(i) * 1e20);
      });
    // As a captured key vector, by distance and as a dense bias: what masks a key and rows in full.
    auto least = [](const char *name, std::vector<int64_t> extents) {
      return [=](Case &test) {
        HostTensor tensor = HostTensor::zeros(f32, extents);
        for (int64_t i = 0; i < tensor.size(); ++i)
          if (i % extents.back() % 3 || i / extents.back() % 4 == 1)
            tensor.set(i, -3.4028234e38);
        test.problem.tensors[name] = tensor;
      };
    };
    // Different values beyond the greatest float times the scale.
    auto large = [](const char *name, std::vector<int64_t> extents) {
      return [=](Case &test) {
        HostTensor tensor = HostTensor::zeros(f32, extents);
        for (int64_t i = 0; i < tensor.size(); ++i)
          tensor.set(i, i % 5 == 2 ? -3.3e38 : -3.4028234e38);
        test.problem.tensors[name] = tensor;
      };
    };
    b.add("rows hidden by a bias", Variant("bias").score(bias(captured("bias", f32, rank(3)))), dtype, shape,
          least("bias", {2, 130, 300}));
    b.add("distances hidden by a table", Variant("table").score([](Score s, Index, Index h, Index q, Index k) {
      return s + captured("t", f32, rank(2))[h][q - k + 300];
    }),
          dtype, shape, least("t", {2, 430}));
    b.add("a large bias", Variant("bias").score(bias(captured("bias", f32, rank(3)))), dtype, shape,
          large("bias", {2, 130, 300}));
    b.add("a large table", Variant("table").score([](Score s, Index, Index h, Index q, Index k) {
      return s + captured("t", f32, rank(2))[h][q - k + 300];
    }),
          dtype, shape, large("t", {2, 430}));
    b.add("keys hidden by a tensor", Variant("keys").score([](Score s, Index, Index, Index, Index k) {
      return s + captured("t", f32, rank(1))[k];
    }),
          dtype, shape, least("t", {300}));
  }
  return b.group;
}

Group patternGroup() {
  Builder b{{"patterns", {}}};
  for (auto [rows, columns] :
       std::vector<std::pair<int, int>>{{16, 16}, {64, 64}, {128, 64}, {48, 80}, {128, 128}, {112, 16}, {256, 512}})
    for (DType dtype : dtypes) {
      auto pattern = captured("pattern", boolean, rank(dtype == f32 ? 2 : 3));
      Variant variant = Variant("pattern").blocks(pattern, rows, columns);
      if (dtype == bf16)
        variant.mask(causal());
      b.add(fmt::format("blocks {} x {}", rows, columns), variant, dtype,
            {.batch = 2, .heads = 3, .headsKv = 1, .queries = 300, .keys = 333, .headDim = 32});
    }
  auto pattern = captured("pattern", boolean, rank(3));
  Variant variant = Variant("pattern").blocks(pattern, 64, 64).mask(causal()).dropout(0.2f);
  b.add("blocks with dropout", variant, bf16, {.heads = 2, .headsKv = 2, .queries = 200, .keys = 200, .headDim = 64});
  b.add("no block", Variant("pattern").blocks(pattern, 64, 64), f16, {.queries = 200, .keys = 200, .headDim = 64},
        [](Case &test) { test.problem.tensors["pattern"] = HostTensor::zeros(boolean, {2, 4, 4}); });
  return b.group;
}

/// Heads of a group that see other keys each.
Group headMaskGroup() {
  Builder b{{"head-masks", {}}};
  auto ids = captured("ids", i32, rank(1)), windows = captured("windows", i32, rank(1)),
       blocks = captured("blocks", i32, rank(4)), sizes = captured("sizes", i32, rank(1)),
       shown = captured("shown", boolean, rank(3)), pattern = captured("pattern", boolean, rank(3));
  struct Given {
    const char *label;
    Variant variant;
  };
  auto byMask = [](const char *label, auto mask) { return Given{label, Variant("v").mask(Mask(mask))}; };
  // Blocks that show all (2), part of a block (1) and nothing, as sparse attention of videos has them.
  auto ofBlocks = [=](Index batch, Index h, Index q, Index k) {
    Expr block = blocks(batch, h, q / 64, k / 64);
    return block == 2 || (block == 1 && k % 64 < sizes[k / 64]);
  };
  const Given given[] = {
      byMask("causal heads and windows",
             [](Index, Index h, Index q, Index k) { return select(h < 4, q >= k, q - k < 40 && k - q < 9); }),
      byMask("a window for each head", [=](Index, Index h, Index q, Index k) { return q >= k && q - k < windows[h]; }),
      byMask("blocks for each head", ofBlocks),
      byMask("a table for each head", [=](Index, Index h, Index q, Index k) { return shown(h, q, k); }),
      byMask("documents, of some heads",
             [=](Index, Index h, Index q, Index k) { return (h % 3 == 0 || ids[q] == ids[k]) && q >= k; }),
      byMask("remainders by head",
             [](Index, Index h, Index q, Index k) { return (q / 48 + k / 48) % (h % 3 + 1) == 0; }),
      byMask("heads that see nothing", [](Index, Index h, Index q, Index k) { return h % 2 == 0 && k - q < 30; }),
      byMask("an element that one head hides", [](Index, Index h, Index q, Index k) { return h != 1 || q != k; }),
      {"a pattern for each head", Variant("v").blocks(pattern, 64, 128)},
      {"small blocks for each head", Variant("v").blocks(pattern, 16, 48).mask(causal())},
  };
  const Shape shapes[] = {
      {.batch = 2, .heads = 3, .headsKv = 3, .queries = 150, .keys = 203, .headDim = 64},
      {.batch = 1, .heads = 4, .headsKv = 2, .queries = 333, .keys = 130, .headDim = 128},
      {.batch = 2, .heads = 3, .headsKv = 1, .queries = 300, .keys = 300, .headDim = 32},
      {.batch = 1, .heads = 8, .headsKv = 1, .queries = 200, .keys = 333, .headDim = 64},
      // More tiles of queries in all heads than a search asks at a time.
      {.batch = 1, .heads = 4, .headsKv = 1, .queries = 1100, .keys = 100, .headDim = 32},
  };
  size_t turn = 0;
  for (const Given &one : given)
    for (const Shape &shape : shapes) {
      Variant variant = one.variant;
      if (++turn % 7 == 0)
        variant.dropout(0.2f);
      b.add(one.label, variant, turn % 3 ? bf16 : f16, shape, [=](Case &test) {
        const int64_t rows = std::max(shape.queries, shape.keys), most = (rows + 63) / 64;
        test.problem.tensors["ids"] = ints(i32, {rows}, [](int64_t i) { return i / 70; });
        test.problem.tensors["windows"] = ints(i32, {shape.heads}, [](int64_t i) { return i * 53 % 200; });
        test.problem.tensors["blocks"] =
            ints(i32, {shape.batch, shape.heads, most, most}, [](int64_t i) { return i * 2654435761 % 7 / 2 % 3; });
        test.problem.tensors["sizes"] = ints(i32, {most}, [](int64_t i) { return 64 - i * 11 % 50; });
        test.problem.tensors["shown"] = ints(boolean, {shape.heads, shape.queries, shape.keys}, [=](int64_t i) {
          return (i / shape.keys / 40 + i % shape.keys / 90 + i / shape.keys / shape.queries) % 3 == 0;
        });
        std::erase_if(test.problem.tensors, [&](const auto &tensor) {
          return std::ranges::none_of(test.variant->tensors(),
                                      [&](auto &declared) { return declared.name == tensor.first; });
        });
      });
    }
  return b.group;
}

/// Masks that compare captured integers: what a launch finds out about tiles must hold for each of their elements.
Group boundsGroup() {
  Builder b{{"bounds", {}}};
  Shape shape{.batch = 2, .heads = 2, .headsKv = 1, .queries = 333, .keys = 333, .headDim = 32};
  auto given = [](std::vector<std::pair<std::string, HostTensor>> tensors) {
    return [=](Case &test) {
      for (const auto &[name, tensor] : tensors)
        test.problem.tensors[name] = tensor;
    };
  };
  // Document of each row, for lengths that follow each other.
  auto packed = [](std::vector<int64_t> lengths) {
    return [=](int64_t i) {
      int64_t document = 0;
      for (int64_t end = lengths[0]; i >= end; end += lengths[document % lengths.size()])
        ++document;
      return document;
    };
  };
  auto ids = captured("ids", i32, rank(1)), byBatch = captured("ids", i64, rank(2));
  const std::pair<const char *, std::function<int64_t(int64_t)>> sequences[] = {
      {"documents of any length", packed({90, 1, 130, 16, 64, 7})},
      {"documents shorter than a tile", packed({7})},
      {"one document", [](int64_t) { return 9; }},
      {"documents of one row", [](int64_t i) { return i; }},
      {"unsorted documents", [](int64_t i) { return i / 24 * 7919 % 5; }},
      {"interleaved documents", [](int64_t i) { return i % 3; }},
      {"the greatest and the least ids", [](int64_t i) { return i / 70 % 2 ? INT32_MAX : INT32_MIN; }},
  };
  int turn = 0;
  for (const auto &[label, id] : sequences)
    for (bool hidden : {false, true}) {
      Variant variant = Variant("documents").mask(hidden ? causal() && documents(ids) : documents(ids));
      b.add(label, variant, dtypes[turn++ % 3], shape, given({{"ids", ints(i32, {333}, id)}}));
    }
  b.add("documents of each batch", Variant("v").mask(documents(byBatch)), bf16, shape, [=](Case &test) {
    test.problem.tensors["ids"] =
        ints(i64, {2, 333}, [](int64_t i) { return i < 333 ? (i / 100 - 1) * (int64_t(1) << 61) : -(i / 50); });
    test.layout.reversedTensors = true;
  });
  // Fewer ids than rows: the last one stands for the rest.
  auto sameId = [=](Index, Index, Index q, Index k) { return clamped(ids[q]) == clamped(ids[k]); };
  b.add("few ids", Variant("v").mask(sameId), bf16, shape, given({{"ids", ints(i32, {150}, packed({40}))}}));
  for (auto [queries, keys] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 300}, {300, 1}, {17, 0}, {65, 129}, {500, 200}})
    b.add("lengths", Variant("v").mask(documents(ids)), bf16, {.queries = queries, .keys = keys, .headDim = 32},
          given({{"ids", ints(i32, {500}, packed({33}))}}));
  for (int64_t offset : {0, 37, 260, -50})
    b.add(fmt::format("documents, q offset {}", offset), Variant("v").qOffset().mask(Mask(sameId) && causal()), bf16,
          {.queries = 100, .keys = 333, .headDim = 32}, [=](Case &test) {
            test.problem.qOffset = offset;
            test.problem.tensors["ids"] = ints(i32, {333}, packed({80, 100}));
          });
  // More tiles of keys than two windows of 32, in groups of which most show nothing: before, behind and between those
  // that do.
  for (auto [offset, hidden, period] :
       {std::tuple(0, false, 100), {7000, false, 100}, {13800, true, 100}, {9000, false, 7}})
    b.add(fmt::format("documents among many keys, q offset {}", offset),
          Variant("v").qOffset().mask(hidden ? Mask(sameId) && causal() : Mask(sameId)), bf16,
          {.queries = 100, .keys = 14000, .headDim = 32}, [=](Case &test) {
            test.problem.qOffset = offset;
            test.problem.tensors["ids"] = ints(i32, {14000}, [=](int64_t i) { return i / 450 % period; });
          });
  // Documents by the offsets at which they begin, one of them empty; and by offsets of a batch's own documents.
  auto offsets = captured("offsets", i32, rank(1));
  const std::vector<int64_t> begins = {0, 90, 91, 91, 221, 237, 301, 333};
  auto between = [=](Index, Index, Index q, Index k) {
    return searchsorted(offsets, q, SearchSide::Right) == searchsorted(offsets, k, SearchSide::Right);
  };
  for (bool hidden : {false, true})
    b.add("documents by offsets", Variant("v").mask(hidden ? Mask(between) && causal() : Mask(between)),
          dtypes[turn++ % 3], shape, given({{"offsets", HostTensor::fromInts(i32, {8}, begins)}}));
  b.add("documents by offsets, q offset", Variant("v").qOffset().mask(Mask(between) && causal()), f16,
        {.queries = 100, .keys = 333, .headDim = 32}, [=](Case &test) {
          test.problem.qOffset = 200;
          test.problem.tensors["offsets"] = HostTensor::fromInts(i32, {8}, begins);
        });
  auto levels = captured("levels", bf16, rank(1)), limits = captured("limits", i64, rank(1)),
       rungs = captured("rungs", f32, rank(1));
  b.add("numbers of elements before positions",
        Variant("v")
            .score([=](Score s, Index, Index h, Index q, Index k) {
              return s + 0.25f * searchsorted(levels, cast(abs(q - k), f32)) -
                     0.5f * searchsorted(rungs, cast(h, f32), SearchSide::Right);
            })
            .mask([=](Index, Index, Index q, Index k) {
              return searchsorted(limits, cast(k, i64)) <= 1 + searchsorted(limits, cast(q, i64), SearchSide::Right);
            }),
        bf16, shape, [=](Case &test) {
          constexpr double none = std::numeric_limits<double>::infinity(),
                           nan = std::numeric_limits<double>::quiet_NaN();
          test.problem.tensors["levels"] = HostTensor::fromDoubles(bf16, {6}, std::array{-none, 4., 4., 16., 64., nan});
          test.problem.tensors["rungs"] = HostTensor::fromDoubles(f32, {1}, std::array{0.5});
          test.problem.tensors["limits"] =
              HostTensor::fromInts(i64, {4}, std::array<int64_t, 4>{-5, 70, 140, 1ll << 40});
          test.layout.reversedTensors = true;
        });
  auto pattern = captured("pattern", boolean, rank(3));
  for (auto [rows, columns] : {std::pair(128, 128), std::pair(48, 80)})
    b.add("documents in a block pattern", Variant("v").blocks(pattern, rows, columns).mask(causal() && documents(ids)),
          bf16, shape, given({{"ids", ints(i32, {333}, packed({150, 60}))}}));

  auto windows = captured("windows", i32, rank(1)), wide = captured("windows", i64, rank(1));
  auto flags = captured("flags", boolean, rank(1)), table = captured("table", i32, rank(2)),
       marks = captured("marks", boolean, rank(2)), blocks = captured("blocks", i32, rank(4));
  using Rule = std::function<Expr(Index, Index, Index, Index)>;
  const std::pair<const char *, Rule> rules[] = {
      {"a window for each query", [=](Index, Index, Index q, Index k) { return q - k < windows[q] && q >= k; }},
      {"a window for each query, i64",
       [=](Index, Index, Index q, Index k) { return cast(q - k, i64) < wide[q] && q >= k; }},
      {"a window for each key", [=](Index, Index, Index q, Index k) { return abs(q - k) < windows[k]; }},
      {"windows of both",
       [=](Index, Index, Index q, Index k) { return q - k < min(windows[q], windows[k]) && k - q < 20; }},
      {"sums that wrap", [=](Index, Index, Index q, Index k) { return windows[q] + 2147483647 < windows[k] - k; }},
      {"documents or a prefix", [=](Index, Index, Index q, Index k) { return ids[q] == ids[k] || k < 10; }},
      {"not other documents", [=](Index, Index, Index q, Index k) { return !(ids[q] != ids[k] || q < k); }},
      {"other documents", [=](Index, Index, Index q, Index k) { return ids[q] != ids[k]; }},
      {"the document before", [=](Index, Index, Index q, Index k) { return ids[q] - 1 == ids[k] || ids[q] == ids[k]; }},
      {"near positions", [=](Index, Index, Index q, Index k) { return abs(windows[q] - windows[k]) <= 3; }},
      {"flagged keys", [=](Index, Index, Index q, Index k) { return flags[k] && q >= k; }},
      {"flags that differ", [=](Index, Index, Index q, Index k) { return flags[q] != flags[k]; }},
      {"flagged queries", [=](Index, Index, Index q, Index k) { return !flags[q] || k > q; }},
      {"by head", [=](Index, Index h, Index q, Index k) { return table[k][h] <= windows[q]; }},
      {"by batch, in two directions", [=](Index b, Index, Index q, Index k) { return marks[b][k] || marks[b][q]; }},
      {"by an index from a tensor", [=](Index b, Index, Index q, Index k) { return table[k][windows[b]] == ids[q]; }},
      {"a shifted index", [=](Index, Index, Index q, Index k) { return ids[q] == clamped(ids[k + 1]); }},
      {"a choice", [=](Index, Index, Index q, Index k) { return select(flags[q], ids[q], ids[k]) < 4; }},
      {"nothing", [=](Index, Index, Index q, Index k) { return ids[q] + 1000 < ids[k]; }},
      {"blocks of 128",
       [=](Index b, Index h, Index q, Index k) {
         return blocks[b][h][q / 128][k / 128] == 2 || (blocks[b][h][q / 128][k / 128] == 1 && q >= k);
       }},
      {"blocks of 64, and of 96",
       [=](Index b, Index h, Index q, Index k) { return blocks[b][h][q / 64][k / 96] != 0; }},
      {"blocks by a shared list",
       [=](Index b, Index h, Index q, Index k) { return clamped(blocks[b][h][q / 32][ids[k / 128]]) > 1; }},
      {"keys that are there", [=](Index, Index, Index, Index k) { return flags[k]; }},
      {"keys that are there in a batch", [=](Index b, Index, Index, Index k) { return !marks[b][k]; }},
  };
  for (const auto &[label, rule] : rules)
    b.add(label, Variant("rule").mask(rule), dtypes[turn++ % 3], shape, [=](Case &test) {
      const HostTensor lengths = ints(i32, {333}, [](int64_t i) { return i / 60 % 2 ? i % 19 * 9 : i % 5; });
      for (const TensorDecl &decl : test.variant->tensors())
        test.problem.tensors[decl.name] =
            decl.name == "ids" ? ints(i32, {333}, packed({90, 1, 130, 16}))
            : decl.name == "windows"
                ? (decl.dtype == i32 ? lengths : ints(i64, {333}, [&](int64_t i) { return lengths.intAt(i); }))
            : decl.name == "flags"  ? ints(boolean, {333}, [](int64_t i) { return i < 130 || (i > 270 && i % 2); })
            : decl.name == "blocks" ? ints(i32, {2, 4, 11, 11}, [](int64_t i) { return i * 2654435761 >> 8 & 3; })
            : decl.name == "table"  ? ints(i32, {333, 2}, [](int64_t i) { return i / 2 / 40 * 3 % 11 + i % 2; })
                                    : ints(boolean, {2, 333}, [](int64_t i) { return i / 80 % 3 == 1; });
    });
  auto weights = captured("weights", f32, rank(1));
  for (bool documents : {false, true})
    b.add("what the score reads by key too",
          Variant("v")
              .score([=](Score s, Index, Index, Index, Index k) { return s + weights[k]; })
              .mask([=](Index, Index, Index q, Index k) {
                Expr heavy = weights[k] > 0.0f;
                return documents ? heavy && ids[q] == ids[k] : heavy;
              }),
          bf16, shape, [=](Case &test) {
            test.problem.tensors["weights"] = HostTensor::random(f32, {333}, 5);
            if (documents)
              test.problem.tensors["ids"] = ints(i32, {333}, packed({80, 100}));
          });
  // What a key or a row decides alone is all of a row or nothing: an interval that is chosen, of two.
  for (auto [queries, keys] : {std::pair(203, 113), std::pair(113, 203)})
    for (const char *mask : {"k >= q || q < 70", "q >= k || k < 70", "(k >= q && k < q + 40) || q < 70"})
      b.add(mask, *Variant::fromJson(fmt::format(R"({{"name": "v", "mask": "{}"}})", mask)), f32,
            {.batch = 1, .heads = 2, .headsKv = 1, .queries = queries, .keys = keys, .headDim = 32});
  return b.group;
}

/// Every dtype and rank, every way to index, in range and out of range.
Group capturedGroup() {
  Builder b{{"captured", {}}};
  Shape shape{.batch = 2, .heads = 3, .headsKv = 1, .queries = 90, .keys = 110, .headDim = 32};
  for (DType type : {f32, bf16, f16, i32, i64, boolean})
    for (int rank_ = 0; rank_ <= 4; ++rank_) {
      auto t = captured("values", type, rank(rank_));
      auto variant = Variant("captured").score([=](Score s, Index b, Index h, Index q, Index k) {
        Expr value = rank_ == 0   ? t()
                     : rank_ == 1 ? Expr(t[k])
                     : rank_ == 2 ? Expr(t[q][k])
                     : rank_ == 3 ? Expr(t[h][q][k])
                                  : Expr(t[b][h][q][k]);
        return s + 0.25f * cast(value, f32);
      });
      DType dtype = dtypes[(rank_ + int(type)) % 3];
      bool reversed = rank_ % 2 == 0;
      b.add(fmt::format("{} of rank {}", name(type), rank_), variant, dtype, shape, [=](Case &test) {
        std::vector<int64_t> dims = {2, 3, 90, 110};
        dims.erase(dims.begin(), dims.end() - rank_);
        test.problem.tensors["values"] = HostTensor::random(type, dims, 77);
        test.layout.reversedTensors = reversed;
      });
    }
  // Indices out of range are clamped, in either direction and by far.
  using Index4 = std::function<Expr(Index, Index, Index, Index)>;
  const std::pair<const char *, Index4> indices[] = {
      {"k - 5", [](Index, Index, Index, Index k) { return k - 5; }},
      {"k + 1000", [](Index, Index, Index, Index k) { return k + 1000; }},
      {"q - k", [](Index, Index, Index q, Index k) { return q - k; }},
      {"k * 100000000", [](Index, Index, Index, Index k) { return k * 100000000; }},
      {"-2147483647 - 1", [](Index, Index, Index, Index k) { return -2147483647 - 1 + 0 * k; }},
      {"i64", [](Index, Index, Index q, Index k) { return cast(k, i64) * int64_t(10000000000) - cast(q, i64); }},
      {"k / 0", [](Index, Index, Index q, Index k) { return k / (q - q); }},
      {"h * 7 - b", [](Index b, Index h, Index, Index) { return h * 7 - b; }},
  };
  for (const auto &[label, index] : indices)
    for (DType dtype : {bf16, f32}) {
      auto t = captured("values", f32, rank(1)), u = captured("others", i32, rank(1));
      auto variant = Variant("clamped").score([=, index = index](Score s, Index b, Index h, Index q, Index k) {
        return s + clamped(t[index(b, h, q, k)]) + clamped(t[clamped(u[index(b, h, q, k)])]);
      });
      b.add(fmt::format("index {}", label), variant, dtype, shape, [](Case &test) {
        test.problem.tensors["values"] = HostTensor::random(f32, {50}, 5);
        test.problem.tensors["others"] = ints(i32, {50}, [](int64_t i) { return i * 7919 % 131 - 40; });
      });
    }
  // In the mask, and an index from a tensor.
  auto window = captured("window", i32, rank(1)), order = captured("order", i64, rank(1));
  b.add("gather in the mask", Variant("gather").mask([=](Index, Index, Index q, Index k) {
    return order[q] - order[k] < cast(window[q], i64);
  }),
        bf16, shape, [](Case &test) {
          test.problem.tensors["window"] = ints(i32, {90}, [](int64_t i) { return i % 11 * 4 - 8; });
          test.problem.tensors["order"] = ints(i64, {110}, [](int64_t i) { return i * 37 % 110; });
        });
  return b.group;
}

Group scalarGroup() {
  Builder b{{"scalars", {}}};
  Expr cap = scalar("cap", f32), left = scalar("left", i32), far = scalar("far", i64), on = scalar("on", boolean);
  auto variant = Variant("scalars")
                     .score([=](Score s, Index, Index, Index, Index k) {
                       return select(on, softcap(s, cap), s + 0.001f * cast(cast(k, i64) % far, f32));
                     })
                     .mask([=](Index, Index, Index q, Index k) { return q - k <= left && k - q < cast(far, i32); });
  for (DType dtype : dtypes)
    for (int set = 0; set < 3; ++set)
      b.add(fmt::format("scalars, set {}", set), variant, dtype, {.queries = 150, .keys = 170, .headDim = 64},
            [=](Case &test) {
              using reference::scalarOf;
              test.problem.scalars = {{"cap", scalarOf(f32, set == 0 ? 2.5 : 50)},
                                      {"left", scalarOf(i32, set == 1 ? -3 : 40)},
                                      {"far", scalarOf(i64, set == 2 ? 1000 : 7)},
                                      {"on", scalarOf(boolean, set != 2)}};
            });
  // Rows of Q at an offset, with every coordinate's use.
  for (int64_t offset : {0, 1, 64, 100, -20})
    for (DType dtype : {bf16, f32})
      b.add(fmt::format("q offset {}", offset), busy().qOffset(), dtype, {.queries = 70, .keys = 170, .headDim = 64},
            [=](Case &test) { test.problem.qOffset = offset; });
  for (int64_t offset : {0, 64, 100})
    b.add(fmt::format("q offset {} in a window with dropout", offset),
          Variant("window").qOffset().mask(slidingWindow(30, 0)).dropout(0.3f), bf16,
          {.queries = 70, .keys = 170, .headDim = 64}, [=](Case &test) { test.problem.qOffset = offset; });
  // Extents in expressions.
  b.add("extents",
        Variant("extents")
            .score([](Score s, Index b, Index h, Index q, Index k) {
              return s + cast(q + queryLength() - k, f32) / cast(keyLength(), f32) +
                     cast(b * headCount() + h, f32) / cast(batchSize() * headCount(), f32);
            })
            .mask([](Index, Index, Index q, Index k) { return k * queryLength() <= (q + 1) * keyLength(); }),
        bf16, {.batch = 2, .heads = 4, .headsKv = 2, .queries = 90, .keys = 200, .headDim = 64});
  return b.group;
}

/// The score and mask expressions that the peers' own tests use.
/// Every function of attune/Functions.def, by its name in text, of scores that it is smooth around.
Group functionGroup() {
  Builder b{{"functions", {}}};
  const Shape shape{.batch = 1, .heads = 2, .headsKv = 1, .queries = 70, .keys = 100, .headDim = 64};
  constexpr std::string_view arguments[] = {"0.5 + 0.4 * tanh(s)", "0.5 + 0.4 * tanh(s), 1.3 + 0.2 * sigmoid(s)",
                                            "0.5 + 0.4 * tanh(s), 1.3 + 0.2 * sigmoid(s), 0.25 * tanh(s)"};
  for (const FunctionInfo &function : functions()) {
    const std::string score = fmt::format("s + {}({})", function.name, arguments[function.parameters - 1]);
    Expected<Variant> variant = Variant::parse("function", {.score = score, .mask = "q + 40 >= k"});
    assert(variant && "a function of the table is known in text");
    b.add(std::string(function.name), *variant, bf16, shape);
  }
  return b.group;
}

Group expressionGroup() {
  Builder b{{"expressions", {}}};
  Shape shape{.batch = 2, .heads = 4, .headsKv = 2, .queries = 200, .keys = 300, .headDim = 64};
  auto addTensors = [](Case &test) {
    auto has = [&](const char *name) {
      for (const TensorDecl &decl : test.variant->tensors())
        if (decl.name == name)
          return true;
      return false;
    };
    auto random = [&](const char *name, DType type, std::vector<int64_t> dims) {
      if (has(name))
        test.problem.tensors[name] = HostTensor::random(type, std::move(dims), 99);
    };
    random("head_scale", f32, {4});
    random("head", f16, {4});
    random("pos", bf16, {200});
    random("batch", f32, {2});
    random("full", bf16, {4, 200, 300});
    random("buckets", f32, {4, 32});
    if (has("windows"))
      test.problem.tensors["windows"] = ints(i32, {200}, [](int64_t i) { return i * 13 % 60; });
    if (has("bits"))
      test.problem.tensors["bits"] =
          ints(i32, {4, 200, 10}, [](int64_t i) { return int32_t(reference::randomBits(3, uint64_t(i))); });
  };
  auto score = [&](const char *label, auto f) {
    for (DType dtype : dtypes)
      b.add(label, Variant("score").score(f), dtype, shape, addTensors);
  };
  auto mask = [&](const char *label, auto f) {
    for (DType dtype : {bf16, f32})
      b.add(label, Variant("mask").mask(f), dtype, shape, addTensors);
  };
  auto headScale = captured("head_scale", f32, rank(1)), head = captured("head", f16, rank(1)),
       pos = captured("pos", bf16, rank(1)), batch = captured("batch", f32, rank(1)),
       full = captured("full", bf16, rank(3)), buckets = captured("buckets", f32, rank(2)),
       windows = captured("windows", i32, rank(1)), bits = captured("bits", i32, rank(3));
  // Sine and cosine of one value, the same for a whole block: the CPU's compiler makes one call of both.
  score("sin and cos of a head's value",
        [=](Score s, Index, Index h, Index, Index) { return s + sin(headScale[h]) / (abs(cos(headScale[h])) + 0.5f); });
  score("s", [](Score s, Index, Index, Index, Index) { return s; });
  score("2s", [](Score s, Index, Index, Index, Index) { return 2 * s; });
  score("s^2", [](Score s, Index, Index, Index, Index) { return s * s; });
  score("s + (q - k)", [](Score s, Index, Index, Index q, Index k) { return s + (q - k); });
  score("s + (k - q) * 2^(-8 (h + 1) / H)", [](Score s, Index, Index h, Index q, Index k) {
    return s + (k - q) * exp2(-8.0f * cast(h + 1, f32) / cast(headCount(), f32));
  });
  score("s * head_scale[h]", [=](Score s, Index, Index h, Index, Index) { return s * headScale[h]; });
  score("c tanh(s / c)", [](Score s, Index, Index, Index, Index) { return 3.0f * tanh(s / 3.0f); });
  score("sin(cos s) + tan b", [](Score s, Index b, Index, Index, Index) { return sin(cos(s)) + tan(cast(b, f32)); });
  score("s + |q - k|", [](Score s, Index, Index, Index q, Index k) { return s + 0.05f * abs(q - k); });
  score("s + bias[b]", [=](Score s, Index b, Index, Index, Index) { return s + batch[b]; });
  score("s + bias[h, q, k]", [=](Score s, Index, Index h, Index q, Index k) { return s + full[h][q][k]; });
  score("s + table[h, bucket(q - k)]", [=](Score s, Index, Index h, Index q, Index k) {
    // T5: 16 exact buckets, then logarithmic ones up to a distance of 128.
    Expr distance = max(q - k, 0);
    Expr log = 16 + cast(log2(cast(max(distance, 1), f32) * (1.0f / 16)) * (16.0f / 3), i32);
    return s + buckets[h][select(distance < 16, distance, min(log, 31))];
  });
  score("s + head[h] + pos[q]", [=](Score s, Index, Index h, Index q, Index) { return s + head[h] + pos[q]; });
  score("five tensors", [=](Score s, Index b, Index h, Index q, Index k) {
    return s * headScale[h] + pos[q] * head[h] + batch[b] + full[h][q][k];
  });
  score("-inf where q < k", [](Score s, Index, Index, Index q, Index k) {
    return select(q < k, -std::numeric_limits<float>::infinity(), s);
  });

  // Guarded divisions that depend on the block alone, in 64 bits.
  score("divisions of the block", [](Score s, Index b, Index h, Index, Index) {
    return s + cast(max(cast(headCount(), i64) / h, cast(b, i64) ^ keyLength()) % int64_t(16), f32) * 0.25f;
  });

  mask("causal", [](Index, Index, Index q, Index k) { return q >= k; });
  mask("bottom right", [](Index, Index, Index q, Index k) { return k - keyLength() <= q - queryLength(); });
  mask("window", [](Index, Index, Index q, Index k) { return q >= k && q - k < 50; });
  mask("prefix", [](Index, Index, Index q, Index k) { return q >= k || k < 70; });
  mask("blocks on the diagonal", [](Index, Index, Index q, Index k) { return q / 128 == k / 128; });
  mask("dilated window", [](Index, Index, Index q, Index k) { return abs(q - k) <= 80 && (q - k) % 4 == 0; });
  mask("a window for each query", [=](Index, Index, Index q, Index k) { return q - k <= windows[q] && q >= k; });
  mask("packed bits", [=](Index, Index h, Index q, Index k) { return ((bits[h][q][k >> 5] >> (k & 31)) & 1) != 0; });
  mask("prefix or window",
       [](Index, Index, Index q, Index k) { return (k < 20 || abs(q - k) < 10) && !(q % 2 == 1 && k % 2 == 1); });
  mask("by head and batch",
       [](Index b, Index h, Index q, Index k) { return (h % 2 == 0 && q >= k) || (b == 1 && k < 64); });
  return b.group;
}

Group dropoutGroup() {
  Builder b{{"dropout", {}}};
  for (DType dtype : dtypes)
    for (float p : {0.1f, 0.5f, 0.99f})
      b.add([=] {
        return dropoutCase(dtype, {.batch = 2, .heads = 6, .headsKv = 2, .queries = 150, .keys = 170, .headDim = 64}, p,
                           3);
      });
  b.add([] {
    Case test = dropoutCase(bf16, {.queries = 150, .keys = 170, .headDim = 64}, 0.3f, 4);
    test.label += " by pointers";
    test.layout.seedPointers = true;
    return test;
  });
  b.add([] {
    Case test = dropoutCase(bf16, {.queries = 150, .keys = 170, .headDim = 64}, 0.3f, 5);
    test.label += " of probability 0 at launch";
    test.problem.dropout = 0.0;
    return test;
  });
  b.add([] {
    Case test = dropoutCase(f16, {.queries = 150, .keys = 170, .headDim = 40, .headDimV = 80}, 0.3f, 6);
    test.label += " of probability 0.75 at launch";
    test.problem.dropout = 0.75;
    return test;
  });
  return b.group;
}

} // namespace

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

const std::vector<std::pair<int64_t, int64_t>> &attune::tests::peerLengths() {
  static const std::vector<std::pair<int64_t, int64_t>> lengths = {
      {1, 1},     {64, 128},  {128, 192}, {239, 1},   {799, 3},     {113, 203},  {113, 128},
      {128, 217}, {108, 256}, {384, 256}, {640, 128}, {1024, 1023}, {1023, 1024}};
  return lengths;
}

std::vector<Variant> attune::tests::builtinsForTests() {
  const std::map<std::string, std::map<std::string, double>> parameters = {
      {"sliding-window", {{"left", 40}, {"right", 11}}},
      {"prefix-lm", {{"prefix", 70}}},
      {"chunked", {{"chunk", 50}}},
      {"softcap", {{"cap", 2}}},
      {"block-sparse", {{"rows", 64}, {"columns", 64}}},
      {"decode", {{"page", 16}}}};
  std::vector<Variant> variants;
  for (const BuiltinVariant &builtin : builtinVariants()) {
    auto given = parameters.find(builtin.name);
    Expected<Variant> variant =
        builtin.make(given == parameters.end() ? std::map<std::string, double>{} : given->second);
    assert(variant && "the parameters above are those of the registry");
    variants.push_back(*variant);
  }
  return variants;
}

Case attune::tests::dropoutCase(DType dtype, const Shape &shape, float p, uint64_t seed) {
  return makeCase(fmt::format("dropout {}", p), Variant("dropped").mask(causal()).dropout(p), dtype, shape, seed);
}

Case attune::tests::randomCase(uint64_t seed) {
  reference::RandomCase random = reference::randomCase(seed);
  Case test = makeCase(fmt::format("random seed {}", seed), random.variant, std::move(random.problem));
  test.layout.rowsBeforeHeads = seed % 3 == 1;
  test.layout.padColumns = seed % 5 == 2 ? 16 : 0;
  test.layout.reversedTensors = seed % 2 == 1;
  test.layout.seedPointers = seed % 7 == 3;
  return test;
}

std::vector<Group> attune::tests::groups(bool gpu) {
  std::vector<Group> all;
  all.push_back(builtinGroup());
  all.push_back(lengthGroup(gpu));
  all.push_back(headDimGroup(gpu));
  all.push_back(wideHeadGroup(gpu));
  all.push_back(groupedHeadGroup());
  all.push_back(layoutGroup());
  all.push_back(maskedGroup());
  all.push_back(hardInputGroup());
  all.push_back(largeScoreGroup());
  all.push_back(patternGroup());
  all.push_back(headMaskGroup());
  all.push_back(boundsGroup());
  all.push_back(capturedGroup());
  all.push_back(scalarGroup());
  all.push_back(functionGroup());
  all.push_back(expressionGroup());
  all.push_back(dropoutGroup());
  all.push_back(normaliserGroup(gpu));
  all.push_back(fewQueriesGroup());
  all.push_back(pagesGroup());
  all.push_back(endsGroup());
  all.push_back(packedGroup());
  return all;
}

Group attune::tests::smallGroup() {
  Builder b{{"small", {}}};
  Shape shape{.batch = 1, .heads = 2, .headsKv = 1, .queries = 70, .keys = 100, .headDim = 64};
  for (DType dtype : dtypes) {
    b.add("plain", Variant("plain"), dtype, shape);
    b.add("busy", busy(), dtype, shape);
  }
  for (const Variant &variant : builtinsForTests())
    b.add(variant.name(), variant, bf16, shape);
  b.add("no keys", Variant("plain"), bf16, {.queries = 20, .keys = 0, .headDim = 64});
  b.add("one", busy(), bf16, {.queries = 1, .keys = 1, .headDim = 128});
  b.add("tail", Variant("plain"), bf16, {.queries = 17, .keys = 33, .headDim = 40, .headDimV = 72});
  b.add("wide", busy(), bf16, {.batch = 1, .heads = 2, .headsKv = 1, .queries = 70, .keys = 100, .headDim = 512});
  b.add("layout", busy(), f16, shape, [](Case &test) { test.layout = {.rowsBeforeHeads = true, .padColumns = 8}; });
  b.add([=] { return dropoutCase(bf16, shape, 0.2f, 3); });
  b.add("sigmoid", Variant("sigmoid").mask(causal()).normaliser(normalisers::sigmoid()), bf16, shape);
  b.add("sink", Variant("sink").mask(causal()).normaliser(normalisers::softmaxWithSink("sinks")), bf16, shape);
  auto t = captured("values", f32, rank(1));
  b.add("clamped", Variant("clamped").score([=](Score s, Index, Index, Index q, Index k) {
    return s + clamped(t[q - k]) + clamped(t[k + 1000]);
  }),
        bf16, shape, [](Case &test) { test.problem.tensors["values"] = HostTensor::random(f32, {50}, 5); });
  return b.group;
}

bool attune::tests::forEachCase(const std::string &name, const std::function<void(const Case &)> &visit,
                                size_t ofSample) {
  for (const Group &group : groups(false))
    if (group.name == name) {
      for (size_t i = 0; i < group.cases.size(); i += sampleStep(ofSample))
        visit(group.cases[i]());
      return true;
    }
  return false;
}
