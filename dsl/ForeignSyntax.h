//===- ForeignSyntax.h - What other languages write --------------------------===//
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace attune::dsl {

/// A word or a sign that expressions do not have, and what stands for it in them: `"and" is not part of expressions;
/// write &&`.
struct ForeignSyntax {
  std::string_view written, remedy;
};

/// The entry for `written`, or null.
const ForeignSyntax *foreignSyntax(std::string_view written);

/// Signs of two characters, none of which begins a piece of a correct text.
std::span<const ForeignSyntax> foreignSigns();

/// What to write for an element type of other libraries: "; write f16" for float16, half and fp16, and that there is no
/// float64. "" for any other text.
std::string dtypeRemedy(std::string_view written);

} // namespace attune::dsl
