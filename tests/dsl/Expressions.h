//===- Expressions.h - What tests of the language share ------------------------===//
#pragma once

#include "attune/attune.h"

namespace attune::tests {

inline const Score s = inputScore();
inline const Index b = coordinate(Coordinate::B), h = coordinate(Coordinate::H), q = coordinate(Coordinate::Q),
                   k = coordinate(Coordinate::K);

inline std::string message(const Expr &expr) { return expr.error() ? expr.error()->message : "no error"; }
inline std::string message(const Variant &variant) { return variant.error() ? variant.error()->message : "no error"; }

} // namespace attune::tests
