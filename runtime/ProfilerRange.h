//===- ProfilerRange.h - NVTX ranges for profilers ----------------------------===//
#pragma once

namespace attune {

/// An NVTX range for the lifetime of the object, if a profiler is attached to this process. The sign of a profiler is
/// the environment variable NVTX_INJECTION64_PATH, which nsys and ncu set (nvtxInit.h of NVTX 3). The NVTX functions
/// come from libnvtx3interop.so.1, or from libnvToolsExt.so.1 of CUDA 12. Where neither library is found, ranges do
/// nothing and the log has a line about it. Without a profiler no library is loaded, and a range costs one comparison.
class ProfilerRange {
public:
  explicit ProfilerRange(const char *name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
};

} // namespace attune
