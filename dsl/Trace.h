//===- Trace.h - Building nodes with the right source line ------------------===//
#pragma once

#include "attune/Expr.h"

namespace attune::dsl {

/// While alive, nodes made on this thread are placed at `where` instead of at the std::source_location of the
/// operator. The built-ins use it to put their nodes on the user's line, the parser on the place in the text.
class LocationScope {
public:
  explicit LocationScope(SourceLocation where);
  ~LocationScope();
  LocationScope(const LocationScope &) = delete;
  LocationScope &operator=(const LocationScope &) = delete;

private:
  SourceLocation here;
  const SourceLocation *outer;
};

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
