#include "bench/Cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

using namespace attune;
using namespace bench;

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

static constexpr int64_t window = 1024, prefixLength = 2048, documentLength = 1000, blockSide = 128;

Variant Case::make() const {
  Variant result(variant);
  auto slopes = captured("slopes", f32, rank(1));
  auto table = captured("table", f32, rank(2));
  auto ids = captured("ids", i32, rank(1));
  auto bias = captured("bias", bf16, rank(3));
  auto pattern = captured("pattern", boolean, rank(3));
  if (variant == "dropout")
    return result.dropout(0.1f);
  if (variant == "sigmoid")
    return result.normaliser(normalisers::sigmoid());
  if (variant == "relbias")
    return result.score(
        [&](Score s, Index, Index h, Index q, Index k) { return s + table[h][q - k + extent(Extent::Sk)]; });
  if (variant == "bias")
    return result.score([&](Score s, Index, Index h, Index q, Index k) { return s + bias[h][q][k]; });
  if (variant == "blocks")
    return result.blocks(pattern, int(blockSide), int(blockSide));
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

//===----------------------------------------------------------------------===//
// Captured tensors
//===----------------------------------------------------------------------===//

static float slopeOf(const Case &one, int64_t h) { return std::exp2(-8.0f * float(h + 1) / float(one.heads)); }
/// `i` counts the elements of [H, 2 S].
static float tableOf(int64_t i) { return float(i % 17) / 8.0f - 1.0f; }
/// `i` counts the elements of [H, S, S].
static constexpr int64_t biasPeriod = 31;
static float biasOf(int64_t i) { return float(i % biasPeriod) / 16.0f - 1.0f; }
static int32_t documentOf(int64_t q) { return int32_t(q / documentLength); }
/// Of a row's blocks `visibleBlocks` are visible, evenly spread, in other places in the next row.
static bool patternOf(const Case &one, int64_t row, int64_t column) {
  // Multiples of `visibleBlocks` modulo the number of blocks fall below it as often as it says.
  const int64_t blocks = one.length / blockSide;
  return (column + 5 * row) * one.visibleBlocks % blocks < one.visibleBlocks;
}

uint16_t bench::toBf16(float value) { return uint16_t((std::bit_cast<uint32_t>(value) + 0x8000) >> 16); }

/// With a period: some whole periods of the values.
template <typename Function>
static HostTensor hostTensor(std::vector<int64_t> shape, Function valueOf, int64_t period = 0) {
  int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
  if (period)
    count = std::min(count, period << 17);
  std::vector<decltype(valueOf(int64_t(0)))> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(valueOf(i));
  const auto *bytes = reinterpret_cast<const char *>(values.data());
  return {std::move(shape), std::vector<char>(bytes, bytes + values.size() * sizeof values[0])};
}

HostTensor bench::capturedTensor(const Case &one, const std::string &name) {
  const int64_t H = one.heads, S = one.length, blocks = S / blockSide;
  if (name == "slopes")
    return hostTensor({H}, [&](int64_t h) { return slopeOf(one, h); });
  if (name == "table")
    return hostTensor({H, 2 * S}, tableOf);
  if (name == "bias")
    return hostTensor({H, S, S}, [](int64_t i) { return toBf16(biasOf(i)); }, biasPeriod);
  if (name == "pattern")
    return hostTensor({1, blocks, blocks}, [&](int64_t i) { return uint8_t(patternOf(one, i / blocks, i % blocks)); });
  return hostTensor({S}, documentOf);
}

//===----------------------------------------------------------------------===//
// What is computed
//===----------------------------------------------------------------------===//

static double scoreOf(const Case &one, double s, int64_t h, int64_t q, int64_t k) {
  if (one.variant == "relbias")
    return s + tableOf(h * 2 * one.length + q - k + one.length);
  if (one.variant == "bias")
    return s + biasOf((h * one.length + q) * one.length + k);
  if (one.variant.starts_with("softcap"))
    s = 30 * std::tanh(s / 30);
  if (one.variant.ends_with("alibi"))
    s += double(slopeOf(one, h)) * double(k - q);
  return s;
}

std::vector<double> bench::exactRow(const Case &one, int64_t h, int64_t q, std::span<const double> query,
                                    std::span<const double> keys, std::span<const double> values, double *weight) {
  const size_t D = query.size();
  std::vector<double> scores, row(D, 0.0);
  const std::vector<KeyRange> visible = one.visible(q);
  for (const KeyRange &range : visible)
    for (int64_t k = range.begin; k < range.end; ++k) {
      const double s = std::inner_product(query.begin(), query.end(), keys.begin() + k * int64_t(D), 0.0);
      scores.push_back(scoreOf(one, s / std::sqrt(double(D)), h, q, k));
    }
  const double m = *std::max_element(scores.begin(), scores.end());
  const bool isSigmoid = one.variant == "sigmoid";
  double l = 0, squares = 0;
  auto score = scores.begin();
  for (const KeyRange &range : visible)
    for (int64_t k = range.begin; k < range.end; ++k) {
      const double x = *score++, p = isSigmoid ? 1 / (1 + std::exp(-x)) : std::exp(x - m);
      l += p;
      squares += p * p;
      for (size_t d = 0; d < D; ++d)
        row[d] += p * values[size_t(k) * D + d];
    }
  const double divisor = isSigmoid ? 1 : l;
  for (double &value : row)
    value /= divisor;
  if (weight)
    *weight = std::sqrt(squares) / divisor;
  return row;
}

std::vector<KeyRange> Case::visible(int64_t q) const {
  if (variant == "none" || variant == "dropout" || variant == "relbias" || variant == "bias" || variant == "sigmoid")
    return {{0, length}};
  if (variant == "window1024")
    return {{std::max<int64_t>(0, q - window + 1), q + 1}};
  if (variant == "prefix2048")
    return {{0, std::max(std::min(prefixLength, length), q + 1)}};
  if (variant == "documents")
    return {{q / documentLength * documentLength, q + 1}};
  if (variant == "blocks") {
    std::vector<KeyRange> ranges;
    for (int64_t column = 0; column < length / blockSide; ++column)
      if (patternOf(*this, q / blockSide, column))
        ranges.push_back({column * blockSide, (column + 1) * blockSide});
    return ranges;
  }
  return {{0, q + 1}};
}

double Case::flops() const {
  double pairs = 0;
  for (int64_t q = 0; q < length; ++q)
    for (const KeyRange &keys : visible(q))
      pairs += double(keys.end - keys.begin);
  if (2 * pairs == double(length) * double(length + 1)) // causal, by convention half
    pairs = double(length) * double(length) / 2;
  return 4.0 * double(batch * heads * headDim) * pairs;
}

double Case::tileFlops(int64_t rows, int64_t columns) const {
  double tiles = 0;
  for (int64_t q0 = 0; q0 < length; q0 += rows) {
    std::vector<bool> visited(size_t((length + columns - 1) / columns));
    for (int64_t q = q0; q < std::min(q0 + rows, length); ++q)
      for (const KeyRange &keys : visible(q))
        std::fill(visited.begin() + keys.begin / columns, visited.begin() + (keys.end - 1) / columns + 1, true);
    tiles += double(std::count(visited.begin(), visited.end(), true));
  }
  return 4.0 * double(batch * heads * headDim) * double(rows * columns) * tiles;
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

static std::vector<Case> makeCases() {
  std::vector<Case> cases;
  auto add = [&](std::string group, std::string variant, int64_t batch, int64_t heads, int64_t headsKv, int64_t length,
                 int headDim, int visibleBlocks = 0) {
    const std::string detail = visibleBlocks      ? fmt::format("{}", visibleBlocks)
                               : heads != headsKv ? fmt::format("_gqa{}_{}", heads, headsKv)
                                                  : "";
    std::string name = fmt::format("{}/{}{}/d{}/s{}", group, variant, detail, headDim, length);
    cases.push_back(
        {std::move(name), std::move(group), std::move(variant), batch, heads, headsKv, length, headDim, visibleBlocks});
  };
  // 16,384 tokens of hidden size 2,048.
  for (int headDim : {64, 128, 256})
    for (const char *variant : {"none", "causal"})
      for (int64_t length : {512, 1024, 2048, 4096, 8192, 16384})
        add("plain", variant, 16384 / length, 2048 / headDim, 2048 / headDim, length, headDim);
  for (int64_t length : {1024, 2048, 4096, 8192, 16384})
    add("dropout", "dropout", 16, 8, 8, length, 64);
  const char *variants[] = {"none",    "causal",     "alibi",     "softcap",   "softcap_alibi",
                            "relbias", "window1024", "documents", "prefix2048"};
  for (int headDim : {128, 64})
    for (const char *variant : variants)
      add("variants", variant, 2, 2048 / headDim, 2048 / headDim, 8192, headDim);
  add("variants", "causal", 2, 32, 8, 8192, 128);
  // As many queries and visited tiles as window1024 has, without a mask.
  for (int headDim : {128, 64})
    add("variants", "none", 14, 2048 / headDim, 2048 / headDim, 1152, headDim);
  // A dense bias, and the same without it.
  for (const char *variant : {"none", "bias"})
    for (auto [headDim, length] : {std::pair(128, 4096), std::pair(128, 8192), std::pair(64, 4096)})
      add("bias", variant, 2, 2048 / headDim, 2048 / headDim, length, headDim);
  // Patterns of 64 x 64 blocks; with tiles of one block's rows 2,048 (D 128) and 4,096 (D 64) tiles of work.
  for (int headDim : {128, 64})
    for (int visibleBlocks : {1, 2, 4, 8, 16, 24, 32, 48})
      add("pattern", "blocks", 2, 2048 / headDim, 2048 / headDim, 8192, headDim, visibleBlocks);
  // Another normaliser; to be held beside plain/none.
  for (int headDim : {128, 64})
    for (int64_t length : {2048, 4096, 8192, 16384})
      add("normalisers", "sigmoid", 16384 / length, 2048 / headDim, 2048 / headDim, length, headDim);
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

std::vector<std::string> bench::groups() {
  std::vector<std::string> names;
  for (const Case &one : allCases())
    if (names.empty() || names.back() != one.group)
      names.push_back(one.group);
  return names;
}
