//===- CommentText.h - Escape strings of the IR for comments of the source --===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace attune::codegen {

/// `text`, escaped for a `//` or a `/* */` comment on one line. Every byte that could end the comment or the line, or
/// change how the comment is displayed, becomes a backslash and two hexadecimal digits, as in MLIR's strings. Escaped
/// are: control characters except the tab, the backslash (before a line break a backslash joins lines), the second
/// character of "*/", "/*" and "??", code points that Unicode does not print, and bytes that are not UTF-8. Every
/// string of the IR reaches the source through this function or as an identifier.
///
///     "x\n#error"    x\0A#error
///     "a \"         a \5C
std::string commentText(llvm::StringRef text);

} // namespace attune::codegen
