//===- TextPlace.h - Errors with line, column and a caret ---------------------===//
//
//     errorAt("{\n  \"scor\": 1}", 4, "mine.json", "...").text()
//
//     mine.json:2:3: error: ...
//       "scor": 1}
//       ^
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <string>
#include <string_view>

namespace attune::dsl {

/// An error with line and column of `position`, and an excerpt: the line with a caret below. A long line is cut to 50
/// bytes on each side of the position. Precondition: position <= source.size().
Error errorAt(std::string_view source, size_t position, std::string file, std::string message);

} // namespace attune::dsl
