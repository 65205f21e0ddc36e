//===- Source.h - Lines of the generated source ---------------------------===//
#pragma once

#include "llvm/ADT/Twine.h"

#include <string>

namespace attune::codegen::cuda {

/// `text` broken where it is too long for a line: after a comma or an operator of the outermost call that has one near
/// the end of the line. `indent` is the column that it starts in.
std::string wrap(std::string text, unsigned indent);

/// The body of a function, line by line, indented by the depth of its blocks.
class Source {
public:
  void line(const llvm::Twine &text);
  /// A line of its own, behind an empty one except at the start of a block.
  void comment(const llvm::Twine &text);
  /// A statement that may need several lines. `origin`, the user's source line, stands behind the first of consecutive
  /// statements of that line.
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
