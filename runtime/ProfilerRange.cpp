#include "runtime/ProfilerRange.h"

#include "runtime/Environment.h"
#include "runtime/Log.h"

#include <dlfcn.h>

using namespace attune;

namespace {
struct Nvtx {
  int (*push)(const char *) = nullptr; // null where no profiler is attached
  int (*pop)() = nullptr;
};
} // namespace

static Nvtx openNvtx() {
  if (valueOf(EnvironmentVariable::NvtxInjection).empty())
    return {};
  for (const char *name :
       {"libnvtx3interop.so.1", "/usr/local/cuda/lib64/libnvtx3interop.so.1", "libnvToolsExt.so.1"}) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      continue;
    Nvtx found{reinterpret_cast<int (*)(const char *)>(dlsym(library, "nvtxRangePushA")),
               reinterpret_cast<int (*)()>(dlsym(library, "nvtxRangePop"))};
    if (found.push && found.pop) {
      logLine(LogLevel::Debug, "launches are NVTX ranges by {}", name);
      return found;
    }
  }
  logLine(LogLevel::Warning, "a profiler asks for NVTX ranges, but neither libnvtx3interop.so.1 nor libnvToolsExt.so.1 "
                             "was found; install the CUDA "
                             "toolkit's NVTX, or put its folder into LD_LIBRARY_PATH");
  return {};
}

static const Nvtx &nvtx() {
  static const Nvtx opened = openNvtx();
  return opened;
}

ProfilerRange::ProfilerRange(const char *name) {
  if (nvtx().push)
    nvtx().push(name);
}

ProfilerRange::~ProfilerRange() {
  if (nvtx().push)
    nvtx().pop();
}
