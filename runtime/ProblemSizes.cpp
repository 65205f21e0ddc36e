#include "attune/ProblemSizes.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>

using namespace attune;

static constexpr int64_t tiledLength = 512; // lengths up to tiledLength are rounded up to a multiple of 16
/// A problem with at least 1024 thread blocks of 128 queries counts as filling the device. All such problems are in the
/// same class of batch * heads (SizeClass::rows is 0).
static constexpr int64_t fullDevice = 1024, blockQueries = 128;

/// Rounds `n` up to a value of {0, 1, 2, 3, 4} or {4, 5, 6, 7} * 2^i.
static int64_t quarterStep(int64_t n) {
  if (n <= 4)
    return std::max<int64_t>(n, 0);
  // Rounding up beyond 2^62 would overflow.
  n = std::min(n, int64_t(1) << 62);
  const int64_t step = int64_t(std::bit_floor(uint64_t(n - 1))) / 4;
  return (n + step - 1) / step * step;
}

/// Numbers the values of quarterStep from 4 on consecutively, in ascending order: 4 -> 8, 5 -> 9, 6 -> 10, 7 -> 11,
/// 8 -> 12, 10 -> 13.
static int placeOf(int64_t step) {
  const int octave = std::bit_width(uint64_t(step)) - 1;
  return 4 * octave + int(step >> (octave - 2)) - 4;
}

static int64_t lengthClass(int64_t n) {
  return n <= tiledLength ? (std::max<int64_t>(n, 0) + 15) / 16 * 16 : quarterStep(n);
}

SizeClass SizeClass::of(const ProblemSizes &sizes) {
  const auto rows = __int128(std::max<int64_t>(sizes.batch, 0)) * std::max<int64_t>(sizes.heads, 0);
  const int64_t blocks = (std::max<int64_t>(sizes.queries, 0) + blockQueries - 1) / blockQueries;
  const bool full = rows * blocks >= fullDevice;
  return {full ? 0 : quarterStep(int64_t(rows)), lengthClass(sizes.queries), lengthClass(sizes.keys)};
}

std::string SizeClass::text() const {
  return fmt::format("h{} q{} k{}", rows ? std::to_string(rows) : "*", queries, keys);
}

std::optional<SizeClass> SizeClass::parse(std::string_view text) {
  SizeClass result;
  const std::pair<std::string_view, int64_t *> parts[] = {
      {"h", &result.rows}, {" q", &result.queries}, {" k", &result.keys}};
  for (auto [prefix, number] : parts) {
    if (!text.starts_with(prefix))
      return std::nullopt;
    text.remove_prefix(prefix.size());
    if (number == &result.rows && text.starts_with('*')) {
      text.remove_prefix(1);
      continue;
    }
    auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (code != std::errc() || *number < 0)
      return std::nullopt;
    text.remove_prefix(size_t(end - text.data()));
  }
  if (!text.empty())
    return std::nullopt;
  return result;
}

FewQueries attune::fewQueriesOf(const ProblemSizes &sizes, bool packs, int64_t multiprocessors) {
  constexpr int64_t tileRows = 64, tileKeys = 128;
  constexpr int64_t combiningTiles =
      5; // time of the kernel that combines splits of keys, in key tiles that a block reads in the same time
  constexpr int64_t most = int64_t(1) << 30;
  if (sizes.heads <= 0 || sizes.headsKv <= 0 || sizes.queries <= 0 || sizes.keys <= 0 || sizes.queries > most)
    return FewQueries::No;
  const int64_t group = packs ? std::max<int64_t>(1, sizes.heads / sizes.headsKv) : 1;
  const auto rows = __int128(sizes.queries) * group;
  const __int128 rowTiles =
      __int128(sizes.batch) * (packs ? sizes.headsKv : sizes.heads) * ((rows + tileRows - 1) / tileRows);
  const int64_t keyTiles = (std::min(sizes.keys, most) + tileKeys - 1) / tileKeys, enough = 5 * multiprocessors / 8;
  if (rowTiles < enough && keyTiles * (enough - int64_t(rowTiles)) > combiningTiles * enough)
    return FewQueries::Split;
  return group > 1 && rows <= 2 * tileRows ? FewQueries::Whole : FewQueries::No;
}

std::optional<int> SizeClass::distance(const SizeClass &other) const {
  constexpr int most = 2; // greatest distance of two lengths, in steps of quarterStep; four steps are a factor of 2
  if (rows != other.rows)
    return std::nullopt;
  int sum = 0;
  for (auto [a, b] : {std::pair(queries, other.queries), {keys, other.keys}}) {
    if (a == b)
      continue;
    if (std::min(a, b) <= tiledLength)
      return std::nullopt;
    const int steps = std::abs(placeOf(a) - placeOf(b));
    if (steps > most)
      return std::nullopt;
    sum += steps;
  }
  return sum;
}
