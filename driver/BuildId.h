//===- BuildId.h - The hash of the compiler's sources, for cache keys -------===//
#pragma once

#include <string_view>

namespace attune::driver {

/// SHA-256 over the compiler's sources, written by HashSources.cmake at build time. Every program built from the same
/// sources shares cache entries.
inline constexpr std::string_view sourceHash =
#include "driver/BuildId.inc"
    ;

} // namespace attune::driver
