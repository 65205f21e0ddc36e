//===- ForeignSyntax.h - Remedies for syntax of other languages --------------===//
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace attune::dsl {

/// A word or operator of another language that expressions do not have, and its replacement, for errors such as
/// `"and" is not part of expressions; write &&`.
struct ForeignSyntax {
  std::string_view written, remedy;
};

/// The entry for `written`, or null.
const ForeignSyntax *foreignSyntax(std::string_view written);

/// Operators of two characters from other languages. No correct text contains one of them.
std::span<const ForeignSyntax> foreignSigns();

/// The remedy for the name of an element type from another library: "; write f16" for float16, half and fp16; for
/// float64 a remedy that says that kernels compute in float32. "" for any other text.
std::string dtypeRemedy(std::string_view written);

} // namespace attune::dsl
