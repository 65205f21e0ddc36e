//===- Canonical.h - Numbered lines for the distinct operations of a graph --===//
#pragma once

#include "attune/Expr.h"

#include <string>
#include <unordered_map>

namespace attune::dsl {

/// Numbers operations in the order in which they are computed. Equal operations share a number, so the text
/// does not depend on how much of the graph the user happened to share.
class Numbering {
public:
  /// The number of `node`'s value; adds the lines it needs.
  int number(const Node &node);
  const std::string &lines() const { return text; }

private:
  std::unordered_map<const Node *, int> visited;
  std::unordered_map<std::string, int> numbers;
  std::string text;
};

} // namespace attune::dsl
