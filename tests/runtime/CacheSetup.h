//===- CacheSetup.h - A cache in a folder of its own, and kernels for it ----===//
#pragma once

#include "runtime/Cache.h"
#include "runtime/Launch.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace attune::cachetest {

namespace fs = std::filesystem;

inline void nothing(const LaunchParams *, int32_t, void *) {}

inline KernelImage imageOf(const std::string &name, size_t bytes = 1000) {
  KernelImage image;
  image.name = name;
  image.arch = "cpu";
  image.signature = {.dtype = f32, .headDim = 64, .headDimV = 64, .operands = forwardOperands(f32, 64, 64)};
  image.tileQ = 16;
  image.main().threads = 1;
  image.cudaSource = "// source of " + name;
  for (size_t i = 0; i < bytes; ++i)
    image.binary.push_back(char(i * 7));
  return image;
}

/// A folder of its own, a cache in it, and what was asked of the compiler.
struct Setup {
  std::string folder;
  std::vector<std::string> warnings;
  std::mutex mutex;
  std::atomic<int> compiles = 0, loads = 0;
  std::unique_ptr<KernelCache> cache;

  Setup() {
    umask(S_IWGRP | S_IWOTH); // of files that a test writes itself; what others may write is not used
    char name[] = "/tmp/attune-cache-XXXXXX";
    folder = mkdtemp(name);
    restart();
  }
  ~Setup() { fs::remove_all(folder); }

  /// A cache with empty memory on the same folder: what a new process sees.
  void restart() { cache = make(); }
  std::unique_ptr<KernelCache> make() { return make(folder + "/cache"); }
  std::unique_ptr<KernelCache> make(const std::string &path) {
    return std::make_unique<KernelCache>(path, [this](std::string_view text) {
      std::lock_guard lock(mutex);
      warnings.emplace_back(text);
    });
  }
  Expected<Kernel> get(const std::string &key) { return get(*cache, key); }
  Expected<Kernel> get(KernelCache &from, const std::string &key) {
    return from.getOrCompile(
        key, "cpu",
        [&]() -> Expected<KernelImage> {
          ++compiles;
          return imageOf(key);
        },
        [&](KernelImage image) -> Expected<Kernel> {
          ++loads;
          return makeHostKernel(std::move(image), {{&nothing, 0}}, nullptr);
        });
  }
  std::string pathOf(const std::string &key) { return cache->directory() + "/" + sha256Hex(key) + ".attune"; }
  std::string content(const std::string &key) {
    std::ifstream file(pathOf(key), std::ios::binary);
    std::stringstream stream;
    stream << file.rdbuf();
    return stream.str();
  }
  void overwrite(const std::string &key, const std::string &bytes) {
    fs::remove(pathOf(key)); // some file systems wait for the disk when a file is cut to nothing
    std::ofstream(pathOf(key), std::ios::binary | std::ios::trunc) << bytes;
  }
};

} // namespace attune::cachetest
