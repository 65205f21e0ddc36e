#include "runtime/Nvrtc.h"
#include "arch/ArchInfo.h"
#include "attune/Kernel.h"
#include "runtime/CudaDriver.h"
#include "tests/runtime/NvrtcOrSkip.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace attune;

static const std::string copySource = "extern \"C\" __global__ void copy(float *to, const float *from) {\n"
                                      "  to[threadIdx.x] = from[threadIdx.x];\n}\n";

TEST_CASE("NVRTC compiles for every architecture", "[nvrtc]") {
  const Nvrtc *nvrtc = nvrtcOrSkip();
  if (!nvrtc)
    return;
  CHECK(nvrtc->version() >= 12000);
  CHECK(!nvrtc->path().empty());
  for (const ArchInfo &each : allArchs()) {
    if (each.isCpu())
      continue;
    const std::string arch(each.name);
    Expected<Nvrtc::Output> cubin = nvrtc->compileCubin(copySource, "copy", arch);
    REQUIRE(cubin);
    CHECK(std::string_view(cubin->code.data(), 4) == "\177ELF");
    CHECK(cubin->log.empty());
    CHECK(cubin->milliseconds > 0);
    Expected<Nvrtc::Output> ptx = nvrtc->compilePtx(copySource, "copy", arch);
    REQUIRE(ptx);
    std::string text(ptx->code.begin(), ptx->code.end());
    CHECK(text.find(std::string(".target ") + arch) != std::string::npos);
    CHECK(text.back() == '\n');
  }
}

TEST_CASE("NVRTC compiles in several threads", "[nvrtc]") {
  const Nvrtc *nvrtc = nvrtcOrSkip();
  if (!nvrtc)
    return;
  std::vector<std::vector<char>> codes(4);
  std::vector<std::thread> threads;
  for (auto &code : codes)
    threads.emplace_back([&] {
      if (Expected<Nvrtc::Output> cubin = nvrtc->compileCubin(copySource, "copy", "sm_90"))
        code = cubin->code;
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(!codes[0].empty());
  for (auto &code : codes)
    CHECK(code == codes[0]); // same input, same bytes
}

TEST_CASE("an NVRTC failure keeps the source and says how to reproduce", "[nvrtc]") {
  const Nvrtc *nvrtc = nvrtcOrSkip();
  if (!nvrtc)
    return;
  std::string source = "extern \"C\" __global__ void f() { undeclared = 1; }\n";
  Expected<Nvrtc::Output> cubin = nvrtc->compileCubin(source, "my kernel", "sm_90");
  REQUIRE(!cubin);
  const Error &error = cubin.error();
  size_t at = error.message.find("the source is ");
  REQUIRE(at != std::string::npos);
  std::string path = error.message.substr(at + 14, error.message.find(';', at) - at - 14);
  CHECK(error.message ==
        fmt::format("NVRTC {} does not compile 'my kernel' for sm_90 (NVRTC_ERROR_COMPILATION); the source is {}; "
                    "reproduce with: nvcc --gpu-architecture=sm_90 --std=c++17 --cubin -o /dev/null {}",
                    cudaVersionText(nvrtc->version()), path, path));
  CHECK(error.excerpt.find("my kernel.cu(1): error: identifier \"undeclared\" is undefined") != std::string::npos);
  std::ifstream kept(path);
  std::stringstream content;
  content << kept.rdbuf();
  CHECK(content.str() == source);
  unlink(path.c_str());
}

TEST_CASE("NVRTC and unknown architectures", "[nvrtc]") {
  const Nvrtc *nvrtc = nvrtcOrSkip();
  if (!nvrtc)
    return;
  CHECK(nvrtc->compileCubin(copySource, "copy", "cpu").error().message ==
        "NVRTC compiles for no architecture 'cpu'; name one such as sm_90");
  std::string message = nvrtc->compileCubin(copySource, "copy", "sm_35").error().message;
  CHECK(message.find(fmt::format("NVRTC {} ({}) does not compile for sm_35, only for sm_",
                                 cudaVersionText(nvrtc->version()), nvrtc->path())) == 0);
  CHECK(message.find("; install a newer CUDA toolkit or set ATTUNE_NVRTC_PATH") != std::string::npos);
}

TEST_CASE("where NVRTC is looked for", "[nvrtc]") {
  setenv("ATTUNE_NVRTC_PATH", "/nowhere/libnvrtc.so.13", 1);
  std::vector<std::string> paths = Nvrtc::candidates();
  unsetenv("ATTUNE_NVRTC_PATH");
  CHECK(paths == std::vector<std::string>{"/nowhere/libnvrtc.so.13"}); // a wrong path is no silent choice of another
  paths = Nvrtc::candidates();
  CHECK(std::find(paths.begin(), paths.end(), "libnvrtc.so.13") != paths.end());

  char folder[] = "/tmp/attune-nvrtc-XXXXXX";
  REQUIRE(mkdtemp(folder));
  std::string library = std::string(folder) + "/nvidia/cu13/lib/libnvrtc.so.13";
  REQUIRE(std::system(fmt::format("mkdir -p {0}/nvidia/cu13/lib && touch {1}", folder, library).c_str()) == 0);
  setenv("ATTUNE_NVRTC_PATH", folder, 1);
  CHECK(Nvrtc::candidates()[0] == library);
  unsetenv("ATTUNE_NVRTC_PATH");
  Expected<std::unique_ptr<const Nvrtc>> bad = Nvrtc::open(library);
  REQUIRE(!bad);
  CHECK(bad.error().message.find("NVRTC does not open: " + library) == 0);
  REQUIRE(std::system(fmt::format("rm -r {}", folder).c_str()) == 0);
  CHECK(Nvrtc::open("libm.so.6").error().message ==
        "libm.so.6 has no entry point nvrtcGetErrorString; install NVRTC 12.0 or newer");
}
