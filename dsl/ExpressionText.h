//===- ExpressionText.h - Parsing of expressions ----------------------------===//
#pragma once

#include "attune/Expr.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attune::dsl {

/// The names that the texts of one variant, or of one normaliser, can refer to. The parser adds a tensor when an
/// undeclared name is indexed.
struct Scope {
  std::map<std::string, TensorDecl, std::less<>> tensors;
  std::map<std::string, DType, std::less<>> scalars;
  bool ofNormaliser = false; ///< s, q and k are not in scope, and operations get no source location
};

/// Adds declarations to `scope`. Fails where a name is reserved or already declared.
std::optional<Error> declare(Scope &scope, const std::vector<TensorDecl> &tensors,
                             const std::vector<ScalarDecl> &scalars);

/// Whether `text` is empty or only white space.
bool isBlank(std::string_view text);

/// Parses `text` in the grammar of Variant.h. `role` is the name of the expression in errors: "score", "mask",
/// "divisor".
Expected<Expr> parseExpression(std::string_view text, std::string_view role, Scope &scope);

/// An error whose location is the first character of `text` that is not white space.
Error errorInText(std::string_view text, std::string_view role, std::string message);

} // namespace attune::dsl
