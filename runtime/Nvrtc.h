//===- Nvrtc.h - NVIDIA's run-time compiler, loaded by dlopen ---------------===//
//
//     Expected<const Nvrtc *> nvrtc = Nvrtc::get();
//     Expected<Nvrtc::Output> cubin = (*nvrtc)->compileCubin(source, "gemma_local", "sm_90");
//     cubin->code, cubin->log, cubin->milliseconds
//
// The library (libnvrtc.so.13 or .12, 109 MB) is searched for in this order; the first one that opens is used:
//
//     | where                                                    | for                              |
//     |----------------------------------------------------------|----------------------------------|
//     | $ATTUNE_NVRTC_PATH: the library, its folder, or a prefix | a chosen library, or an error    |
//     | $CUDA_HOME/lib64, $CUDA_PATH/lib64                       | a chosen toolkit                 |
//     | /usr/local/cuda/lib64, /usr/local/cuda-*/lib64           | an installed toolkit             |
//     | the dynamic linker's own path                            | distribution packages            |
//     | Python's folders of packages (SitePackages.h)            | the Python package               |
//
// A prefix is a folder that holds nvidia/cu13/lib or nvidia/cuda_nvrtc/lib, as Python packages lay it out.
//
// Every member may be called from any number of threads at once; compilations run in parallel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

class Nvrtc {
public:
  struct Output {
    std::vector<char> code; ///< cubin, or PTX text without the terminating zero
    std::string log;        ///< NVRTC's warnings and advisories; empty when there were none
    double milliseconds = 0;
  };

  /// The library of this process, opened by the first call. Later calls return the same result, an error included.
  static Expected<const Nvrtc *> get();
  /// Opens one library by path or name; get() is not affected.
  static Expected<std::unique_ptr<const Nvrtc>> open(const std::string &library);
  /// The paths that get() tries, in order.
  static std::vector<std::string> candidates();

  ~Nvrtc();

  /// 1000 * major + 10 * minor: 13000 is NVRTC 13.0.
  int version() const;
  /// Path of the library that was opened.
  const std::string &path() const;
  /// The options of every compilation, as one text. The cache key contains this text, version() and the architecture.
  static std::string_view options();

  /// Compiles self-contained CUDA C++ for `arch` ("sm_90"). `name` is the file name in NVRTC's messages.
  /// `extraOptions` follow the standard ones. On failure the error holds NVRTC's log, the path where the
  /// source was kept, and a command that reproduces the failure.
  Expected<Output> compileCubin(const std::string &source, const std::string &name, const std::string &arch,
                                const std::vector<std::string> &extraOptions = {}) const;
  /// Compiles self-contained CUDA C++ to PTX text for `arch`. Parameters and errors are those of compileCubin.
  Expected<Output> compilePtx(const std::string &source, const std::string &name, const std::string &arch,
                              const std::vector<std::string> &extraOptions = {}) const;

private:
  struct Library;
  explicit Nvrtc(std::unique_ptr<Library> library);
  Expected<Output> compile(const std::string &source, const std::string &name, const std::string &arch,
                           const std::vector<std::string> &extraOptions, bool cubin) const;

  std::unique_ptr<Library> library;
};

} // namespace attune
