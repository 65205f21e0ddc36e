//===- Environment.h - Every environment variable that attune reads ----------===//
//
//     std::string folder = valueOf(EnvironmentVariable::CacheDir);     // $ATTUNE_CACHE_DIR, or "" if not set
//
// `attune help environment` prints the table. No other code calls getenv; a test in tests/rules checks that.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace attune {

enum class EnvironmentVariable : uint8_t {
  CacheDir,
  XdgCacheHome,
  Home,
  Log,
  NumThreads,
  NvrtcPath,
  CudaHome,
  CudaPath,
  VirtualEnv,
  TmpDir,
  NvtxInjection
};

/// The variable's current value; "" where the variable is empty or not set.
std::string valueOf(EnvironmentVariable variable);

struct EnvironmentEntry {
  EnvironmentVariable variable;
  std::string_view name;    ///< "ATTUNE_CACHE_DIR"
  std::string_view meaning; ///< one line for users
};

/// One entry for each variable, in the order of EnvironmentVariable.
std::span<const EnvironmentEntry> environmentTable();

} // namespace attune
