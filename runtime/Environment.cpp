#include "runtime/Environment.h"

#include <cstdlib>

using namespace attune;

using V = EnvironmentVariable;
static constexpr EnvironmentEntry table[] = {
    {V::CacheDir, "ATTUNE_CACHE_DIR", "folder of the compiled kernels; --cache-dir goes before it"},
    {V::XdgCacheHome, "XDG_CACHE_HOME", "without ATTUNE_CACHE_DIR the folder is $XDG_CACHE_HOME/attune"},
    {V::Home, "HOME", "without either it is ~/.cache/attune"},
    {V::Log, "ATTUNE_LOG",
     "what is written to standard error: off, warning (the default), info (cache, NVRTC), debug (passes, launches)"},
    {V::NumThreads, "ATTUNE_NUM_THREADS", "threads of the CPU target, 1 to 1024; the hardware's without"},
    {V::NvrtcPath, "ATTUNE_NVRTC_PATH", "libnvrtc.so, its folder, or a site-packages folder; no other is looked at"},
    {V::CudaHome, "CUDA_HOME", "a CUDA toolkit: NVRTC in its lib64 is looked at first, nvdisasm in its bin after PATH"},
    {V::CudaPath, "CUDA_PATH", "the same"},
    {V::VirtualEnv, "VIRTUAL_ENV", "a Python environment, looked at after the toolkits and the loader's own folders"},
    {V::TmpDir, "TMPDIR", "where CUDA text is kept that NVRTC rejects; /tmp without"},
    {V::NvtxInjection, "NVTX_INJECTION64_PATH",
     "set by nsys and ncu: launches are then NVTX ranges of the variant's name"},
};

static constexpr bool inOrder() {
  for (size_t i = 0; i < std::size(table); ++i)
    if (size_t(table[i].variable) != i)
      return false;
  return std::size(table) == size_t(V::NvtxInjection) + 1;
}
static_assert(inOrder());

std::span<const EnvironmentEntry> attune::environmentTable() { return table; }

std::string attune::valueOf(EnvironmentVariable variable) {
  const char *value = std::getenv(table[size_t(variable)].name.data());
  return value ? value : "";
}
