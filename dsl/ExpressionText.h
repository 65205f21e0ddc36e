//===- ExpressionText.h - Expressions from text -----------------------------===//
#pragma once

#include "attune/Expr.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attune::dsl {

/// What names mean in the texts of one variant, or of one normaliser. Inferred tensors are added as they are met.
struct Scope {
  std::map<std::string, TensorDecl, std::less<>> tensors;
  std::map<std::string, DType, std::less<>> scalars;
  bool ofNormaliser = false; ///< s, q and k are not seen, and operations have no place of their own
};

/// Declares names; each once, and none that is taken.
std::optional<Error> declare(Scope &scope, const std::vector<TensorDecl> &tensors,
                             const std::vector<ScalarDecl> &scalars);

/// Whether `text` holds no expression.
bool isBlank(std::string_view text);

/// The expression of `text` in the grammar of Variant.h. `role` is what it is called: "score", "mask", "divisor".
Expected<Expr> parseExpression(std::string_view text, std::string_view role, Scope &scope);

/// The error `message` at where `text` begins.
Error errorInText(std::string_view text, std::string_view role, std::string message);

} // namespace attune::dsl
