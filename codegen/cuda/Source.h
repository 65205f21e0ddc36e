//===- Source.h - Lines of the generated source ---------------------------===//
#pragma once

#include "llvm/ADT/Twine.h"

#include <string>

namespace attune::codegen::cuda {

/// Breaks `text` into lines of at most 116 columns. Each break is after a comma or an operator, in as few nested
/// parentheses as possible. `indent` is the column in which `text` begins.
std::string wrap(std::string text, unsigned indent);

/// The body of a function, line by line, indented by the nesting depth in braces.
class Source {
public:
  void line(const llvm::Twine &text);
  /// Adds a comment line, after an empty line except at the start of a block.
  void comment(const llvm::Twine &text);
  /// Adds a statement, wrapped over several lines if needed. `origin` is the user's source line; of consecutive
  /// statements with the same `origin`, the first is followed by a comment with `origin`.
  void statement(const llvm::Twine &text, llvm::StringRef origin);
  void indent() { ++depth; }
  void dedent() { --depth; }
  const std::string &text() const { return body; }

private:
  std::string body;
  unsigned depth = 1;
  std::string lastOrigin;
};

} // namespace attune::codegen::cuda
