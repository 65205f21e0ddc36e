//===- LocationScope.h - Where expressions of another language come from ----===//
//
// Expressions know their line by std::source_location. A front end of another language has lines of its own:
//
//     LocationScope scope({"model.py", 12, 9});
//     Expr sum = a + b;                                // at model.py:12:9, and so are its errors
//
// The innermost scope of a thread counts. Variant's setters and the functions of Builtins.h follow it, too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// While alive, expressions that this thread makes are placed at `where` instead of at the std::source_location of the
/// operator.
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

} // namespace attune
#pragma GCC visibility pop
