//===- Error.h - Errors as values -------------------------------------------===//
//
// attune reports every failure as a value; no exception crosses the public API.
//
//     Expected<Kernel> kernel = compile(variant, options, target);
//     if (!kernel)
//       return report(kernel.error());   // your function; error().text() is what a user reads
//     kernel->launch(...);
//
// A message is lower case without a final period and says subject, actual against required, and the
// remedy. `where` points at the user's own line (recorded by std::source_location while a variant is
// traced) or, for text, `excerpt` holds the text with a caret under the fault.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// A place in the user's source. `line` and `column` count from 1; line 0 means unknown.
struct SourceLocation {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;

  bool known() const { return line != 0; }
  /// "file:line:column", or "" when unknown.
  std::string text() const;
};

/// What went wrong: a message, where, and for text input the two lines that show it.
struct Error {
  std::string message;
  SourceLocation where = {};
  std::string excerpt = {};

  /// "file:line:column: error: message" followed by the excerpt.
  std::string text() const;
};

/// A value of type T or the Error that explains why there is none.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : state(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T &&operator*() && { return std::move(value()); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }
  const Error &error() const {
    assert(!*this && "an Expected that holds a value has no error");
    return *std::get_if<1>(&state);
  }

private:
  T &value() {
    assert(*this && "an Expected that holds an error has no value");
    return *std::get_if<0>(&state);
  }
  const T &value() const { return const_cast<Expected *>(this)->value(); }

  std::variant<T, Error> state;
};

/// Success, or the Error that explains the failure.
template <> class [[nodiscard]] Expected<void> {
public:
  Expected() = default;
  Expected(Error error) : failure(std::move(error)) {}

  explicit operator bool() const { return !failure; }
  const Error &error() const {
    assert(failure && "success has no error");
    return *failure;
  }

private:
  std::optional<Error> failure;
};

} // namespace attune
#pragma GCC visibility pop
