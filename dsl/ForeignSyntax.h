//===- ForeignSyntax.h - What other languages write --------------------------===//
#pragma once

#include <span>
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

} // namespace attune::dsl
