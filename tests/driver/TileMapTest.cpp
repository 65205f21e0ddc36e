//===- TileMapTest.cpp - Tiles of masks against brute force -------------------===//

#include "tests/driver/Driver.h"
#include "tests/driver/Tightness.h"

#include <catch2/catch.hpp>
#include <functional>
#include <numeric>

using namespace attune;
using attune::tests::must;
using namespace attune::testing;

namespace {
using Sees = std::function<bool(int64_t b, int64_t h, int64_t q, int64_t k)>;

void checkTight(const Variant &variant, const TileMapArgs &args, const Sees &sees) {
  INFO(variant.name());
  const TileMap map = must(tileMap(variant, args));
  const Tightness of = compare(map, args.sizes, sees);
  CHECK(of.emptyFound == of.empty);
  CHECK(of.fullFound == of.full);
  CHECK(map.all() == args.sizes.batch * args.sizes.heads * map.rows * map.columns);
  CHECK(map.visited() == map.all() - of.empty);
  CHECK(map.partial() == map.all() - of.empty - of.full);
}
} // namespace

TEST_CASE("tile maps of masks without captured tensors are exact") {
  const auto [tileQ, tileK] = GENERATE(std::pair(32, 48), std::pair(16, 16), std::pair(112, 16), std::pair(64, 64));
  const auto [queries, keys] = GENERATE(std::pair(150, 200), std::pair(1, 1), std::pair(64, 33));
  const TileMapArgs args = {.sizes = {2, 3, 3, queries, keys}, .tileQ = tileQ, .tileK = tileK};
  checkTight(Variant("full"), args, [](auto...) { return true; });
  checkTight(Variant("causal").mask([](Index, Index, Index q, Index k) { return q >= k; }), args,
             [](int64_t, int64_t, int64_t q, int64_t k) { return q >= k; });
  checkTight(Variant("window").mask([](Index, Index, Index q, Index k) { return q >= k && q - k < 40; }), args,
             [](int64_t, int64_t, int64_t q, int64_t k) { return q >= k && q - k < 40; });
  // Heads that differ.
  checkTight(Variant("by_head").mask([](Index, Index h, Index q, Index k) { return k - q <= 30 * h; }), args,
             [](int64_t, int64_t h, int64_t q, int64_t k) { return k - q <= 30 * h; });
}

TEST_CASE("tile maps read captured tensors, scalars and patterns") {
  const ProblemSizes sizes = {2, 2, 2, 130, 130};
  std::vector<int32_t> ids(130), lengths = {70, 128};
  for (int i = 0; i < 130; ++i)
    ids[size_t(i)] = i / 37;
  auto documents = captured("ids", i32, rank(1));
  TileMapArgs args = {.sizes = sizes, .tileQ = 16, .tileK = 32};
  args.tensors = {{"ids", Tensor::contiguous(ids.data(), i32, {130})}};
  checkTight(Variant("documents").mask([&](Index, Index, Index q, Index k) { return documents[q] == documents[k]; }),
             args, [&](int64_t, int64_t, int64_t q, int64_t k) { return ids[size_t(q)] == ids[size_t(k)]; });

  auto lens = captured("lengths", i32, rank(1));
  auto slopes = captured("slopes", f32, rank(1)); // of the score: no data is asked for
  args.tensors = {{"lengths", Tensor::contiguous(lengths.data(), i32, {2})}};
  checkTight(Variant("padding")
                 .score([&](Score s, Index, Index h, Index q, Index k) { return s + slopes[h] * (k - q); })
                 .mask([&](Index b, Index, Index, Index k) { return k < lens[b]; }),
             args, [&](int64_t b, int64_t, int64_t, int64_t k) { return k < lengths[size_t(b)]; });

  auto width = scalar("width", i32);
  args.tensors = {};
  args.scalars = {{"width", int32_t(21)}};
  checkTight(Variant("scalar").mask([&](Index, Index, Index q, Index k) { return q >= k && q - k < width; }), args,
             [](int64_t, int64_t, int64_t q, int64_t k) { return q >= k && q - k < 21; });

  std::vector<uint8_t> pattern(2 * 5 * 5);
  for (size_t i = 0; i < pattern.size(); ++i)
    pattern[i] = i % 3 == 0;
  args = {.sizes = sizes, .tileQ = 16, .tileK = 16};
  args.tensors = {{"pattern", Tensor::contiguous(pattern.data(), DType::Bool, {2, 5, 5})}};
  checkTight(Variant("pattern").blocks(captured("pattern", DType::Bool, rank(3)), 32, 32), args,
             [&](int64_t, int64_t h, int64_t q, int64_t k) { return pattern[size_t((h * 5 + q / 32) * 5 + k / 32)]; });
}

TEST_CASE("a query offset shifts the map") {
  auto variant = Variant("offset").mask([](Index, Index, Index q, Index k) { return q >= k; }).qOffset();
  TileMapArgs args = {.sizes = {1, 1, 1, 64, 160}, .tileQ = 16, .tileK = 32, .qOffset = 96};
  checkTight(variant, args, [](int64_t, int64_t, int64_t q, int64_t k) { return q + 96 >= k; });
}

TEST_CASE("tile maps say what they lack") {
  auto ids = captured("ids", i32, rank(1));
  const Variant variant = Variant("documents").mask([&](Index, Index, Index q, Index k) { return ids[q] == ids[k]; });
  auto message = [&](const TileMapArgs &args) {
    const Expected<TileMap> map = tileMap(variant, args);
    REQUIRE_FALSE(map);
    return map.error().message;
  };
  CHECK(message({.sizes = {1, 1, 1, 64, 64}}).find("ids") != std::string::npos);
  CHECK(message({.sizes = {1, 0, 1, 64, 64}}).find("heads = 0") != std::string::npos);
  CHECK(message({.sizes = {1, 1, 1, 1 << 20, 1 << 20}, .tileQ = 16, .tileK = 16}).find("the most is") !=
        std::string::npos);
  CHECK(message({.sizes = {1, 1, 1, 64, 64}, .tileQ = 24}).find("multiples of 16") != std::string::npos);
  std::vector<float> wrong(64);
  CHECK(message({.sizes = {1, 1, 1, 64, 64}, .tensors = {{"ids", Tensor::contiguous(wrong.data(), f32, {64})}}})
            .find("f32") != std::string::npos);
}

TEST_CASE("explain counts the tiles of a map") {
  auto ids = captured("ids", i32, rank(1));
  const Variant variant = Variant("documents").mask([&](Index, Index, Index q, Index k) { return ids[q] == ids[k]; });
  std::vector<int32_t> values(2048);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = int32_t(i / 256);
  const ProblemSizes sizes = {1, 8, 8, 2048, 2048};
  TileMapArgs args = {.sizes = sizes, .tileQ = 16, .tileK = 16};
  args.tensors = {{"ids", Tensor::contiguous(values.data(), i32, {2048})}};
  CompileOptions options = {.dtype = bf16, .headDim = 64, .tileQ = 128, .tileK = 128, .useCache = false};
  options.tuning = Tuning::Off;
  const Target target = Target::cuda("sm_90a");
  const std::string text =
      must(explain(variant, options, target, sizes, std::make_shared<const TileMap>(must(tileMap(variant, args)))));
  // 16 rows of tiles of 2 each, 8 heads.
  CHECK(text.find("\"visitedTiles\": 256.0") != std::string::npos);
  CHECK(text.find("\"maskedTiles\": 0.0") != std::string::npos);
  CHECK(text.find("\"allTiles\": 2048.0") != std::string::npos);
}
