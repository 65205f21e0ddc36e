//===- Trace.h - Building nodes with the right source line ------------------===//
#pragma once

#include "attune/Expr.h"
#include "attune/LocationScope.h"

namespace attune::dsl {

/// The innermost LocationScope's place, else `where`.
SourceLocation place(const std::source_location &where);

/// An Op::Invalid expression.
Expr invalid(std::string message, SourceLocation where);

/// Why `name` cannot name a tensor or a scalar ("tensor name", "scalar name"), or nothing.
std::optional<std::string> nameFault(std::string_view subject, std::string_view name);
bool isIdentifier(std::string_view name);

/// "1 index", "2 indices".
std::string count(size_t number, std::string_view singular, std::string_view plural);

/// A constant of type f32, i32, i64 or bool.
Expr constant(float value);
Expr constant(DType type, int64_t value);

} // namespace attune::dsl
