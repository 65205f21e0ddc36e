//===- Output.h - Standard output, checked -----------------------------------===//
//
// What a verb prints goes through `print`; main asks closeOutput whether all of it arrived, so that a full disk is
// an error and exit code 1 and not a truncated file.
//
//     print("{} entries\n", entries.size());
//     ...
//     if (Expected<void> arrived = closeOutput(); !arrived)
//       return report({arrived.error()});
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

namespace attune::cli {

void write(std::string_view text);

template <typename... Arguments> void print(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  write(fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Standard error, where what cannot be written is lost.
template <typename... Arguments> void printError(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  (void)!std::fwrite(text.data(), 1, text.size(), stderr);
}

/// Writes out and closes. The error is the first of any write: "standard output cannot be written: No space left on
/// device".
Expected<void> closeOutput();

/// `text` as a part of an SVG image: names may be anything.
std::string xmlText(std::string_view text);

struct OutputFile {
  std::string path;
  std::string_view content;
};

/// Replaces the content of all files or, where one cannot be written, of none, which leaves no file behind: each goes to
/// a temporary file in its folder, and all get their names when the last is complete. Symbolic links are followed, a
/// file keeps its mode. What has no temporary file is written as it is: a device, a pipe, another user's file, and one
/// with several links.
Expected<void> writeFiles(std::span<const OutputFile> files);
Expected<void> writeFile(const std::string &path, std::string_view content);

} // namespace attune::cli
