//===- Trace.h - Construction of expression nodes with source locations -----===//
#pragma once

#include "attune/Expr.h"
#include "attune/LocationScope.h"

namespace attune::dsl {

/// The location of the innermost LocationScope, or `where` outside of any scope.
SourceLocation place(const std::source_location &where);

/// An Op::Invalid expression that carries an error.
Expr invalid(std::string message, SourceLocation where);

/// The error for a `name` that cannot be the name of a tensor or scalar, else nullopt. `subject` begins the error:
/// "tensor name", "scalar name".
std::optional<std::string> nameFault(std::string_view subject, std::string_view name);
bool isIdentifier(std::string_view name);

/// "1 index", "2 indices".
std::string count(size_t number, std::string_view singular, std::string_view plural);

/// A constant of type f32, i32, i64 or bool.
Expr constant(float value);
Expr constant(DType type, int64_t value);

} // namespace attune::dsl
