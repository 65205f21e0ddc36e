//===- Error.cpp - How an error reads ---------------------------------------===//
#include "attune/Error.h"

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

} // namespace attune
