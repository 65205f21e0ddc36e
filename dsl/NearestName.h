//===- NearestName.h - Spelling suggestions for misspelled names -------------===//
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

/// The name with the smallest edit distance from `written`; among equals the first. An edit adds, drops or replaces a
/// character, or swaps two adjacent characters; upper and lower case are equal. "" if every name needs more edits than
/// a third of its characters. A name of one or two characters thus only matches itself, in either case.
std::string nearestName(std::string_view written, const std::vector<std::string> &names);

} // namespace attune::dsl
