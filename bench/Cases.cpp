#include "bench/Cases.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using namespace attune;
using namespace bench;

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

static constexpr int64_t window = 1024, prefixLength = 2048;

Variant Case::make() const {
  Variant result(variant);
  auto slopes = captured("slopes", f32, rank(1));
  auto table = captured("table", f32, rank(2));
  auto ids = captured("ids", i32, rank(1));
  if (variant == "dropout")
    return result.dropout(0.1f);
  if (variant == "relbias")
    return result.score([&](Score s, Index, Index h, Index q, Index k) { return s + table[h][q - k + extent(Extent::Sk)]; });
  if (variant == "window1024")
    return result.mask(slidingWindow(int(window) - 1, 0));
  if (variant == "prefix2048")
    return result.mask(prefixLm(int(prefixLength)));
  if (variant == "documents")
    return result.mask(causal() && documents(ids));
  if (variant == "none")
    return result;
  result.mask(causal());
  if (variant == "softcap" || variant == "softcap_alibi")
    result.score(softcap(30));
  if (variant == "alibi" || variant == "softcap_alibi")
    result.score(alibi(slopes));
  return result;
}

float bench::slopeOf(const Case &one, int64_t h) { return std::exp2(-8.0f * float(h + 1) / float(one.heads)); }
float bench::tableOf(int64_t i) { return float(i % 17) / 8.0f - 1.0f; }

double bench::scoreOf(const Case &one, double s, int64_t h, int64_t q, int64_t k) {
  if (one.variant == "relbias")
    return s + tableOf(h * 2 * one.length + q - k + one.length);
  if (one.variant.starts_with("softcap"))
    s = 30 * std::tanh(s / 30);
  if (one.variant.ends_with("alibi"))
    s += double(slopeOf(one, h)) * double(k - q);
  return s;
}

VisibleKeys Case::visible(int64_t q) const {
  if (variant == "none" || variant == "dropout" || variant == "relbias")
    return {0, 0, length};
  if (variant == "window1024")
    return {0, std::max<int64_t>(0, q - window + 1), q + 1};
  if (variant == "prefix2048")
    return {std::min(prefixLength, length), 0, q + 1};
  if (variant == "documents")
    return {0, q / 1000 * 1000, q + 1};
  return {0, 0, q + 1};
}

double Case::flops() const {
  double pairs = 0;
  for (int64_t q = 0; q < length; ++q) {
    const VisibleKeys keys = visible(q);
    pairs += double(keys.prefix + std::max<int64_t>(0, keys.end - std::max(keys.begin, keys.prefix)));
  }
  if (2 * pairs == double(length) * double(length + 1)) // causal, by convention half
    pairs = double(length) * double(length) / 2;
  return 4.0 * double(batch * heads * headDim) * pairs;
}

double Case::tileFlops(int64_t tileQ, int64_t tileK) const {
  auto ceilDiv = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  double tiles = 0;
  for (int64_t q0 = 0; q0 < length; q0 += tileQ) {
    // `begin` and `end` grow with q.
    const VisibleKeys first = visible(q0), last = visible(std::min(q0 + tileQ, length) - 1);
    const int64_t prefix = ceilDiv(first.prefix, tileK);
    tiles += double(prefix + std::max<int64_t>(0, ceilDiv(last.end, tileK) - std::max(first.begin / tileK, prefix)));
  }
  return 4.0 * double(batch * heads * headDim) * double(tileQ * tileK) * tiles;
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

static std::vector<Case> makeCases() {
  std::vector<Case> cases;
  auto add = [&](std::string group, std::string variant, int64_t batch, int64_t heads, int64_t headsKv, int64_t length,
                 int headDim) {
    std::string name = fmt::format("{}/{}{}/d{}/s{}", group, variant, heads == headsKv ? "" : fmt::format("_gqa{}_{}", heads, headsKv),
                                   headDim, length);
    cases.push_back({std::move(name), std::move(group), std::move(variant), batch, heads, headsKv, length, headDim});
  };
  // 16,384 tokens of hidden size 2,048.
  for (int headDim : {64, 128})
    for (const char *variant : {"none", "causal"})
      for (int64_t length : {512, 1024, 2048, 4096, 8192, 16384})
        add("plain", variant, 16384 / length, 2048 / headDim, 2048 / headDim, length, headDim);
  for (int64_t length : {1024, 2048, 4096, 8192, 16384})
    add("dropout", "dropout", 16, 8, 8, length, 64);
  const char *variants[] = {"none",          "causal",  "alibi",      "softcap",
                            "softcap_alibi", "relbias", "window1024", "documents", "prefix2048"};
  for (int headDim : {128, 64})
    for (const char *variant : variants)
      add("variants", variant, 2, 2048 / headDim, 2048 / headDim, 8192, headDim);
  add("variants", "causal", 2, 32, 8, 8192, 128);
  // As many queries and visited tiles as window1024 has, without a mask.
  for (int headDim : {128, 64})
    add("variants", "none", 14, 2048 / headDim, 2048 / headDim, 1152, headDim);
  // A shape that nobody tunes for, once for every variant.
  for (const char *variant : variants)
    add("unlisted", variant, 4, 12, 12, 3000, 96);
  add("unlisted", "dropout", 4, 12, 12, 3000, 96);
  add("unlisted", "causal", 4, 12, 4, 3000, 96);
  return cases;
}

const std::vector<Case> &bench::allCases() {
  static const std::vector<Case> cases = makeCases();
  return cases;
}
