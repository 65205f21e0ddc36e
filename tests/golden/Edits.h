//===- Edits.h - Hand edits of IR text --------------------------------------===//
//
// What a user may change in printed tile or sched text: a ring's depth, a tile's size, where Q lives. Each is a list
// of replacements as a text editor makes them. The golden tests compile the edited text, tests/gpu runs it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Compile.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace attune::tests {

struct Edit {
  std::string name;
  Stage stage = Stage::Tile; ///< of the text
  std::function<Variant()> variant;
  /// Regular expressions and what each match becomes, in order.
  std::vector<std::pair<std::string, std::string>> replacements;
};

/// Edits of text emitted with editOptions().
const std::vector<Edit> &textEdits();

/// bf16, head dim 64, tiles of 128 x 64, 4 warps, 2 stages, Q in shared memory.
CompileOptions editOptions();

/// `text` with the edit, or `text` itself where one of the replacements finds nothing.
std::string editText(const Edit &edit, const std::string &text);

} // namespace attune::tests
