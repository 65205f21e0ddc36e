//===- Canonical.h - Numbered lines for the distinct operations of a graph --===//
#pragma once

#include "attune/Expr.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attune::dsl {

/// Writes the canonical text of expressions, a part of the cache key: one numbered line for each operation, operands
/// first. Equal operations get the same number, so the text does not depend on which nodes the user's graph shares.
/// Every lookup of a compiled kernel builds this text, so the text is appended to one buffer for speed.
class Numbering {
public:
  Numbering();
  /// The number of `node`; appends the lines of `node` and of its operands that are still missing.
  int number(const Node &node);
  const std::string &lines() const { return text; }

private:
  /// The part of a line of `text` that follows "%3 = ".
  struct Line {
    size_t begin, length, hash;
  };

  std::string_view content(const Line &line) const { return std::string_view(text).substr(line.begin, line.length); }
  void describe(const Node &node);
  int intern(Line line);
  void grow();

  std::unordered_map<const Node *, int> visited;
  std::vector<Line> numbered;
  std::vector<int> table; ///< hash table with open addressing by Line::hash; entries are numbers of lines, or -1
  std::string text;
};

} // namespace attune::dsl
