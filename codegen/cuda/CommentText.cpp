//===- CommentText.cpp - Strings of the IR in comments of the source --------===//

#include "codegen/cuda/CommentText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Unicode.h"

using namespace attune;
using llvm::StringRef;

/// Whether a code point shows as it is. Controls, line and paragraph separators and what turns the direction of text do
/// not.
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
    // Of two characters that mean something to a compiler side by side, the second: the end and the begin of a comment,
    // a trigraph.
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
