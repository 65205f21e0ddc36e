//===- ProfilerRange.h - Names for profilers ----------------------------------===//
#pragma once

namespace attune {

/// Names what a thread does in its scope, as an NVTX range, where a profiler has put itself into this process: nsys and
/// ncu say so by NVTX_INJECTION64_PATH (nvtxInit.h of NVTX 3). The functions are those of libnvtx3interop.so.1, or of
/// libnvToolsExt.so.1 of CUDA 12; where neither is found there are no names, and the log says so. Without a profiler
/// nothing is loaded, and a range costs a comparison.
class ProfilerRange {
public:
  explicit ProfilerRange(const char *name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
};

} // namespace attune
