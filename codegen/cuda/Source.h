//===- Source.h - Lines of the generated source ---------------------------===//
#pragma once

#include "llvm/ADT/Twine.h"

#include <string>

namespace attune::codegen::cuda {

/// Breaks `text` into lines of at most 116 columns. Each break is after a comma or an operator, in as few nested
/// parentheses as possible, or else after the `=` of an assignment. `indent` is the column in which `text` begins.
std::string wrap(std::string text, unsigned indent);

/// The body of a function, line by line, indented by the nesting depth in braces.
class Source {
public:
  /// Adds a line, wrapped over several if needed.
  void line(const llvm::Twine &text);
  /// Adds a comment, as many lines as it needs, after an empty line except at the start of a block.
  void comment(const llvm::Twine &text);
  /// Adds a statement, wrapped over several lines if needed. `origin` is the user's source line. It is a comment of the
  /// first of consecutive statements with that `origin`: at the end of the statement, or above it if the line is full.
  void statement(const llvm::Twine &text, llvm::StringRef origin);
  void indent() { ++depth; }
  void dedent() { --depth; }
  const std::string &text() const { return body; }

private:
  /// Adds `text` as lines of a comment, broken between words.
  void commentLines(llvm::StringRef text);

  std::string body;
  unsigned depth = 1;
  std::string lastOrigin;
};

} // namespace attune::codegen::cuda
