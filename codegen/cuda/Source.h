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
  /// Adds `text` as a comment of one or more lines. An empty line precedes the comment, except at the start of a block.
  void comment(const llvm::Twine &text);
  /// Adds a statement, wrapped over several lines if needed. `origin` is the user's source line ("file.cpp:12"). The
  /// first of consecutive statements with one origin gets the origin as a comment: at the end of the statement, or on a
  /// line of its own above the statement if the statement's last line has no room.
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
