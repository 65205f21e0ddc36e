//===- CommentText.h - Strings of the IR in comments of the source ----------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace attune::codegen {

/// `text` as it may stand in a comment of either kind, on one line: what would end the comment or the line, or hide
/// what it says, is written as a backslash and two hexadecimal digits for each byte, as in MLIR's strings. These are
/// controls but the tab, the backslash (before a line break it joins lines), the second of "*/", "/*" and "??", what
/// Unicode does not print, and bytes that are no UTF-8. Every string of the IR reaches the source through this or as an
/// identifier.
///
///     "x\n#error"    x\0A#error
///     "a \"         a \5C
std::string commentText(llvm::StringRef text);

} // namespace attune::codegen
