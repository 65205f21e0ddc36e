//===- TextPlace.h - Errors that show a place in a text -----------------------===//
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

/// The error with line, column and the line itself above a caret; of a long line 50 bytes to each side.
/// Precondition: position <= source.size().
Error errorAt(std::string_view source, size_t position, std::string file, std::string message);

} // namespace attune::dsl
