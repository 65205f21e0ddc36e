//===- NearestName.h - The name that was meant -------------------------------===//
//
//     nearestName("softcp", {"softmax", "softcap"})   // "softcap": error texts ask "did you mean softcap?"
//     nearestName("paint", {"run", "list"})           // "": nothing is near
//
//===----------------------------------------------------------------------===//
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune::dsl {

/// The name with the fewest edits from `written`, the first of several: an edit adds, drops or replaces a character or
/// swaps two neighbours, and case is free. "" where each name needs edits on more than a third of its characters, so
/// that a name of one or two characters is near another case of itself alone.
std::string nearestName(std::string_view written, const std::vector<std::string> &names);

} // namespace attune::dsl
