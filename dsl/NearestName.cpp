#include "dsl/NearestName.h"

#include <algorithm>
#include <numeric>

using namespace attune;

static char lowerCase(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

/// The optimal string alignment distance of `a` and `b`: the fewest edits, where no character is edited twice.
///
///             c  a  u  s  a  l
///          0  1  2  3  4  5  6
///       c  1  0  1  2  3  4  5
///       a  2  1  0  1  2  3  4      row i, column j: edits from a[0, i) to b[0, j)
///       s  3  2  1  1  1  2  3
///       u  4  3  2  1  1  2  3      swap of "us" and "su": 1 + the distance two rows and two columns earlier
///       a  5  4  3  2  2  1  2
///       l  6  5  4  3  3  2  1
static size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> beforeLast, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t(0));
  auto same = [&](size_t i, size_t j) { return lowerCase(a[i - 1]) == lowerCase(b[j - 1]); };
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(i, j) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j))
        row[j] = std::min(row[j], beforeLast[j - 2] + 1);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.size()];
}

std::string dsl::nearestName(std::string_view written, const std::vector<std::string> &names) {
  std::string_view nearest;
  size_t fewest = 0;
  for (const std::string &name : names) {
    const size_t most = name.size() / 3;
    if (written.size() > name.size() + most || name.size() > written.size() + most)
      continue;
    const size_t edits = editDistance(written, name);
    if (edits <= most && (nearest.empty() || edits < fewest)) {
      nearest = name;
      fewest = edits;
    }
  }
  return std::string(nearest);
}
