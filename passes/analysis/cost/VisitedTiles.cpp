//===- VisitedTiles.cpp - Counts the tiles of S that a plan visits ----------===//

#include "passes/analysis/cost/VisitedTiles.h"

#include "passes/analysis/cost/Rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

using namespace attune;

namespace {
/// A half-open range of tile indices.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return std::max<int64_t>(end - begin, 0); }
};
} // namespace

/// The number of tiles in the union of [0, prefix) and `range`.
static int64_t unionSize(int64_t prefix, Range range) {
  if (range.size() == 0)
    return prefix;
  return prefix + Range{std::max(range.begin, prefix), range.end}.size();
}

namespace {
/// Counts the tiles of a band mask, one row of tiles after another. Row i has the tileQ queries from i * tileQ on.
/// Before they are clamped to [0, Sk), the keys of row i are these intervals:
///
///     visible to some query      [i * tileQ - left,              i * tileQ + tileQ + right)
///     visible to every query     [i * tileQ + tileQ - 1 - left,  i * tileQ + right + 1)
///
/// From one row of tiles to the next, all four ends move by tileQ keys. Over a period of lcm(tileQ, tileK) / tileQ rows
/// the ends move by a whole number of tiles, so that every count grows by a constant from one period to the next,
/// unless an end is clamped or crosses the prefix. Between the rows where an end is clamped or crosses the prefix, two
/// periods are counted and the counts of the further periods are extrapolated.
class BandTiles {
public:
  BandTiles(const PlanRequest &request, int64_t tileQ, int64_t tileK)
      : Sq(request.queries), Sk(request.keys), tileQ(tileQ), tileK(tileK), keyTiles(ceilDiv(Sk, tileK)) {
    if (request.mask.kind != MaskShape::Kind::Band)
      return;
    auto within = [](int64_t keys) { return std::clamp(keys, -MaskShape::unlimited, MaskShape::unlimited); };
    left = within(request.mask.left);
    right = within(request.mask.right);
    prefix = std::clamp<int64_t>(request.mask.prefix, 0, Sk);
  }

  TileCount count() const {
    const int64_t period = tileK / std::gcd(tileQ, tileK);
    const std::vector<int64_t> bounds = rowsOfChange();
    Sums total;
    for (size_t i = 0; i + 1 < bounds.size(); ++i)
      add(total, {bounds[i], bounds[i + 1]}, isCutNear(bounds[i]) ? bounds[i + 1] - bounds[i] : period);
    return {double(total.visited), double(total.partial), double(total.keyRows), double(total.longest)};
  }

private:
  /// The counts of one row of tiles.
  struct Row {
    int64_t visited = 0, partial = 0, keyRows = 0;
  };
  /// The counts of many rows of tiles. The number of key rows can exceed 64 bits.
  struct Sums {
    __int128 visited = 0, partial = 0, keyRows = 0;
    int64_t longest = 0;
  };

  Row row(int64_t i) const {
    const int64_t q0 = i * tileQ, last = std::min(q0 + tileQ, Sq) - 1;
    auto clampKey = [&](int64_t k) { return std::clamp<int64_t>(k, 0, Sk); };
    // Keys visible to some query, and keys visible to every query.
    Range some = {clampKey(q0 - left), clampKey(last + right + 1)};
    Range every = {clampKey(last - left), clampKey(q0 + right + 1)};
    Range visited = some.size() ? Range{some.begin / tileK, ceilDiv(some.end, tileK)} : Range{};
    // A tile that crosses Sk is partial.
    Range full = {ceilDiv(every.begin, tileK), every.end / tileK};
    const int64_t tiles = unionSize(ceilDiv(prefix, tileK), visited);
    const int64_t fullTiles = unionSize(prefix / tileK, full);
    const bool readsLast = std::max(ceilDiv(prefix, tileK), visited.end) == keyTiles && tiles > 0;
    return {tiles, tiles - std::min(fullTiles, tiles), tiles * tileK - (readsLast ? keyTiles * tileK - Sk : 0)};
  }

  /// Begin and end of the keys visible to some query, then begin and end of the keys visible to every query. All four
  /// are those of row 0 of tiles, before clamping.
  std::array<int64_t, 4> ends() const { return {-left, tileQ + right, tileQ - 1 - left, right + 1}; }
  /// The keys at which an end of a row's visible keys (ends()) is clamped or crosses the prefix. Because of rounding to
  /// tiles, ends within two tiles of these keys count as near.
  std::array<int64_t, 3> cuts() const { return {0, prefix, Sk}; }

  /// The rows of tiles, in ascending order, at which an end comes near one of cuts() or moves away from it. The last
  /// row, whose queries may end at Sq, forms a range of its own.
  std::vector<int64_t> rowsOfChange() const {
    const int64_t rows = ceilDiv(Sq, tileQ);
    std::vector<int64_t> bounds = {0, std::max<int64_t>(rows - 1, 0), rows};
    for (int64_t end : ends())
      for (int64_t cut : cuts())
        for (int64_t key : {cut - 2 * tileK, cut + 2 * tileK})
          bounds.push_back(std::clamp<int64_t>(key <= end ? 0 : ceilDiv(key - end, tileQ), 0, rows));
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    return bounds;
  }

  bool isCutNear(int64_t i) const {
    for (int64_t end : ends())
      for (int64_t cut : cuts())
        if (const int64_t key = end + i * tileQ; key >= cut - 2 * tileK && key < cut + 2 * tileK)
          return true;
    return false;
  }

  /// Adds the numbers of visited and of partial tiles of the tile rows `rows` to `sums`. From each row to the row
  /// `period` rows later these numbers grow by a constant, so that two rows for each of the `period` residues give the
  /// sum over all rows.
  void add(Sums &sums, Range rows, int64_t period) const {
    for (int64_t i = rows.begin; i < std::min(rows.begin + period, rows.end); ++i) {
      const Row first = row(i);
      const int64_t times = ceilDiv(rows.end - i, period);
      const Row next = times > 1 ? row(i + period) : first;
      auto sum = [&](int64_t Row::*field) {
        return __int128(times) * (first.*field) + __int128(times) * (times - 1) / 2 * (next.*field - first.*field);
      };
      sums.visited += sum(&Row::visited);
      sums.partial += sum(&Row::partial);
      sums.keyRows += sum(&Row::keyRows);
      sums.longest =
          std::max({sums.longest, first.visited, first.visited + (times - 1) * (next.visited - first.visited)});
    }
  }

  const int64_t Sq, Sk, tileQ, tileK, keyTiles;
  int64_t left = MaskShape::unlimited, right = MaskShape::unlimited, prefix = 0;
};
} // namespace

/// The union of `ranges`, as ascending ranges that do not overlap.
static std::vector<Range> unionOf(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<Range> result;
  for (const Range &each : ranges)
    if (!result.empty() && each.begin <= result.back().end)
      result.back().end = std::max(result.back().end, each.end);
    else if (each.size())
      result.push_back(each);
  return result;
}

static std::vector<Range> intersection(const std::vector<Range> &x, const std::vector<Range> &y) {
  std::vector<Range> result;
  for (const Range &a : x)
    for (const Range &b : y)
      if (const Range both = {std::max(a.begin, b.begin), std::min(a.end, b.end)}; both.size())
        result.push_back(both);
  return result;
}

/// Counts the tiles for known intervals of visible keys: a row tile visits the union of its rows' intervals.
static TileCount countRows(const MaskRows &of, int64_t tileQ, int64_t tileK) {
  TileCount count;
  const int64_t each = std::max<int64_t>(1, tileQ / of.rowsEach);
  // If an element of `rows` describes more rows than a tile has, its counts apply to several row tiles.
  const double tiles = std::max(1.0, double(of.rowsEach) / double(tileQ));
  for (size_t first = 0; first < of.rows.size(); first += size_t(each)) {
    std::vector<Range> some, every = {{0, of.keys}};
    for (size_t i = first; i < std::min(first + size_t(each), of.rows.size()); ++i) {
      std::vector<Range> all;
      for (const MaskRows::Keys &keys : of.rows[i]) {
        if (keys.begin < keys.end)
          some.push_back({keys.begin / tileK, ceilDiv(keys.end, tileK)});
        all.push_back({keys.fullBegin, keys.fullEnd});
      }
      every = intersection(every, unionOf(std::move(all)));
    }
    int64_t visited = 0, keyRows = 0, full = 0;
    for (const Range &range : unionOf(std::move(some))) {
      visited += range.size();
      keyRows += std::min(range.end * tileK, of.keys) - range.begin * tileK;
    }
    for (const Range &range : every)
      full += Range{ceilDiv(range.begin, tileK), range.end / tileK}.size();
    count.visited += tiles * double(visited);
    count.partial += tiles * double(visited - std::min(full, visited));
    count.keyRows += tiles * double(keyRows);
    count.longest = std::max(count.longest, double(visited));
  }
  return count;
}

/// Counts the plan's tiles (tileQ x tileK) that contain visible tiles of `map`, as the mean over the map's heads. A
/// tile of the map that crosses a boundary between two tiles of the plan counts for both.
static TileCount countMap(const TileMap &map, int64_t tileQ, int64_t tileK) {
  TileCount count;
  const int64_t rows = ceilDiv(map.queries, tileQ), columns = ceilDiv(map.keys, tileK);
  const double heads = double(map.batches * map.heads);
  std::vector<TileClass> most(size_t(map.columns)), least(size_t(map.columns));
  std::vector<bool> read(static_cast<size_t>(columns)); // whether any row tile of the head reads the key tile
  auto keysOf = [&](int64_t column) { return double(std::min((column + 1) * tileK, map.keys) - column * tileK); };
  double distinct = 0;
  const TileClass *head = map.tiles.data();
  for (int64_t i = 0; i < map.batches * map.heads; ++i, head += map.rows * map.columns) {
    read.assign(read.size(), false);
    for (int64_t row = 0; row < rows; ++row) {
      std::ranges::fill(most, TileClass::Empty);
      std::ranges::fill(least, TileClass::Full);
      const int64_t end = std::min(ceilDiv((row + 1) * tileQ, int64_t(map.tileQ)), map.rows);
      for (int64_t from = row * tileQ / map.tileQ; from < end; ++from)
        for (int64_t column = 0; column < map.columns; ++column) {
          const TileClass of = head[from * map.columns + column];
          most[size_t(column)] = std::max(most[size_t(column)], of);
          least[size_t(column)] = std::min(least[size_t(column)], of);
        }
      double visited = 0;
      for (int64_t column = 0; column < columns; ++column) {
        const auto first = column * tileK / map.tileK,
                   last = std::min(ceilDiv((column + 1) * tileK, int64_t(map.tileK)), map.columns);
        if (*std::max_element(most.begin() + first, most.begin() + last) == TileClass::Empty)
          continue;
        visited += 1;
        count.partial += *std::min_element(least.begin() + first, least.begin() + last) != TileClass::Full;
        count.keyRows += keysOf(column);
        read[size_t(column)] = true;
      }
      count.visited += visited;
      count.longest = std::max(count.longest, visited);
    }
    for (int64_t column = 0; column < columns; ++column)
      distinct += read[size_t(column)] ? keysOf(column) : 0;
  }
  count.distinctKeys = distinct / heads;
  count.visited /= heads;
  count.partial /= heads;
  count.keyRows /= heads;
  return count;
}

/// The average number of mask blocks of `grain` elements that a tile of `size` elements overlaps along one axis.
static double blocksOf(int64_t size, int64_t grain) {
  const int64_t period = std::lcm(size, grain);
  int64_t blocks = 0;
  for (int64_t begin = 0; begin < period; begin += size)
    blocks += ceilDiv(begin + size, grain) - begin / grain;
  return double(blocks) / double(period / size);
}

TileCount attune::countTiles(const PlanRequest &asked, int64_t tileQ, int64_t tileK) {
  PlanRequest request = asked;
  if (request.tiles) {
    const TileMap &map = *request.tiles;
    if (map.queries == request.queries && map.keys == request.keys)
      return countMap(map, tileQ, tileK);
    // The request's map of visited tiles is for other lengths than the request's, so only the map's fraction of visited
    // tiles is used.
    request.mask = MaskShape::partly(double(map.visited()) / std::max(1.0, double(map.all())));
  }
  if (request.mask.kind == MaskShape::Kind::Full || request.mask.kind == MaskShape::Kind::Band)
    return BandTiles(request, tileQ, tileK).count();
  if (request.mask.kind == MaskShape::Kind::Rows) {
    const std::vector<MaskRows> &all = *request.mask.rows;
    for (const MaskRows &rows : all)
      if (rows.queries == request.queries && rows.keys == request.keys)
        return countRows(rows, tileQ, tileK);
    // No element of mask.rows is for the request's lengths, so the first element's fraction of visited tiles is used.
    const MaskRows &known = all.front();
    const double tiles = double(ceilDiv(known.queries, tileQ)) * double(ceilDiv(known.keys, tileK));
    request.mask.fraction = countRows(known, tileQ, tileK).visited / std::max(tiles, 1.0);
  }
  // A tile is visited if any of the mask's `grain` x `grain` blocks that the tile overlaps has a visible element.
  const int64_t grain = request.mask.grain;
  const double fraction =
      grain == 1 ? request.mask.fraction
                 : 1 - std::pow(1 - request.mask.fraction, blocksOf(tileQ, grain) * blocksOf(tileK, grain));
  const double longest = double(ceilDiv(request.keys, tileK)) * fraction,
               queryTiles = double(ceilDiv(request.queries, tileQ));
  return {.visited = queryTiles * longest,
          .partial = queryTiles * longest,
          .keyRows = queryTiles * double(request.keys) * fraction,
          .longest = longest};
}

/// The number of keys in the intervals of elements [first, last) of `of.rows`.
static double keysSeen(const MaskRows &of, size_t first, size_t last) {
  double seen = 0;
  for (size_t i = first; i < last; ++i)
    for (const MaskRows::Keys &keys : of.rows[i])
      seen += double(keys.end - keys.begin);
  return seen;
}

static constexpr double clearly = 1.3; ///< ratio from which one half of a mask counts as having more visible elements

/// The element of mask.rows for the most queries. With a sliding window the first rows see fewer keys than later rows,
/// and these first rows weigh least in a long sequence.
static const MaskRows &longestOf(const MaskShape &mask) {
  return *std::ranges::max_element(*mask.rows, {}, &MaskRows::queries);
}

bool attune::firstKeysAreSeenMost(const MaskShape &mask) {
  if (mask.kind != MaskShape::Kind::Rows)
    return lastRowsSeeMost(mask);
  const MaskRows &longest = longestOf(mask);
  const int64_t half = longest.keys / 2;
  int64_t first = 0, last = 0; // (row, visible key) pairs in the first and in the last half of the keys
  for (const std::vector<MaskRows::Keys> &row : longest.rows)
    for (const MaskRows::Keys &keys : row) {
      first += std::max<int64_t>(std::min(keys.end, half) - keys.begin, 0);
      last += std::max<int64_t>(keys.end - std::max(keys.begin, half), 0);
    }
  return double(first) > clearly * double(last);
}

bool attune::lastRowsSeeMost(const MaskShape &mask) {
  if (mask.kind == MaskShape::Kind::Band)
    return mask.right < MaskShape::unlimited && mask.left >= MaskShape::unlimited;
  if (mask.kind != MaskShape::Kind::Rows)
    return mask.kind == MaskShape::Kind::Fraction;
  const MaskRows &longest = longestOf(mask);
  const size_t rows = longest.rows.size();
  return rows > 1 && keysSeen(longest, rows / 2, rows) > clearly * keysSeen(longest, 0, rows / 2);
}
