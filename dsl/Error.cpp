//===- Error.cpp - The text of errors and their excerpts --------------------===//
#include "attune/Error.h"

#include "dsl/TextPlace.h"

#include <algorithm>
#include <fmt/format.h>

namespace attune {

std::string SourceLocation::text() const {
  if (!known())
    return "";
  if (column == 0)
    return fmt::format("{}:{}", file, line);
  return fmt::format("{}:{}:{}", file, line, column);
}

std::string Error::text() const {
  std::string result;
  if (where.known())
    result = where.text() + ": ";
  result += "error: " + message;
  if (!excerpt.empty())
    result += "\n" + excerpt;
  return result;
}

Error dsl::errorAt(std::string_view source, size_t position, std::string file, std::string message) {
  const std::string_view before = source.substr(0, position);
  const size_t begin = before.rfind('\n') + 1; // npos + 1 is 0
  const size_t end = std::min(source.find('\n', begin), source.size());
  // A long line is cut to a window around the position, so that the caret is on the screen.
  constexpr size_t reach = 50;
  const size_t left = position > begin + reach ? position - reach : begin;
  const size_t right = std::min(end, position + reach);
  const std::string mark = left > begin ? "..." : "";
  std::string indent(mark.size(), ' ');
  for (char c : source.substr(left, position - left))
    indent += c == '\t' ? '\t' : ' ';
  Error error{std::move(message),
              {std::move(file), unsigned(std::ranges::count(before, '\n')) + 1, unsigned(position - begin) + 1}};
  error.excerpt = fmt::format("{}{}{}\n{}^", mark, source.substr(left, right - left), right < end ? "..." : "", indent);
  return error;
}

} // namespace attune
