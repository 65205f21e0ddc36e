//===- CommentText.cpp - Escape strings of the IR for comments of the source ===//

#include "codegen/cuda/CommentText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Unicode.h"

using namespace attune;
using llvm::StringRef;

/// Whether a code point is copied to the comment without escaping. Control characters other than the tab, line and
/// paragraph separators, and bidirectional controls are escaped.
static bool isShown(llvm::UTF32 point) { return point == '\t' || llvm::sys::unicode::isPrintable(int(point)); }

std::string codegen::commentText(StringRef text) {
  std::string result;
  auto escape = [&](StringRef bytes) {
    for (char byte : bytes)
      result += "\\" + llvm::utohexstr(uint8_t(byte), /*LowerCase=*/false, /*Width=*/2);
  };
  while (!text.empty()) {
    const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data()), *at = begin;
    llvm::UTF32 point = 0;
    const bool valid =
        llvm::convertUTF8Sequence(&at, begin + text.size(), &point, llvm::strictConversion) == llvm::conversionOK;
    const StringRef bytes = text.take_front(valid ? at - begin : 1);
    const StringRef before = result;
    // The second character of `*/`, `/*` and `??` is escaped: these pairs end or begin a comment, or begin a trigraph.
    const bool joins = (point == '/' && before.ends_with("*")) || (point == '*' && before.ends_with("/")) ||
                       (point == '?' && before.ends_with("?"));
    if (valid && isShown(point) && point != '\\' && !joins)
      result += bytes;
    else
      escape(bytes);
    text = text.drop_front(bytes.size());
  }
  return result;
}
