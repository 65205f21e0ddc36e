//===- Environment.h - Every environment variable that attune reads ----------===//
//
//     std::string folder = valueOf(EnvironmentVariable::CacheDir);     // $ATTUNE_CACHE_DIR, "" where it is not set
//
// `attune help environment` prints the table. Nothing else calls getenv: tests/rules holds that.
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

/// The variable's value as it is now; "" where it is empty or not set.
std::string valueOf(EnvironmentVariable variable);

struct EnvironmentEntry {
  EnvironmentVariable variable;
  std::string_view name;    ///< "ATTUNE_CACHE_DIR"
  std::string_view meaning; ///< one line for users
};

/// One entry a variable, in the enum's order.
std::span<const EnvironmentEntry> environmentTable();

} // namespace attune
