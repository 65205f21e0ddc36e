//===- Canonical.h - Numbered lines for the distinct operations of a graph --===//
#pragma once

#include "attune/Expr.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attune::dsl {

/// Numbers operations in the order in which they are computed. Equal operations share a number, so the text
/// does not depend on how much of the graph the user happened to share. Every lookup of a compiled kernel
/// starts with this text, so it is made by appending to one buffer.
class Numbering {
public:
  Numbering();
  /// The number of `node`'s value; adds the lines it needs.
  int number(const Node &node);
  const std::string &lines() const { return text; }

private:
  /// What follows "%3 = " in one line of `text`.
  struct Line {
    size_t begin, length, hash;
  };

  std::string_view content(const Line &line) const { return std::string_view(text).substr(line.begin, line.length); }
  void describe(const Node &node);
  int intern(Line line);
  void grow();

  std::unordered_map<const Node *, int> visited;
  std::vector<Line> numbered;
  std::vector<int> table; ///< open addressing by Line::hash: a number, or -1
  std::string text;
};

} // namespace attune::dsl
