#include "runtime/Cubin.h"
#include "arch/ArchInfo.h"
#include "runtime/Nvrtc.h"
#include "tests/runtime/NvrtcOrSkip.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <unistd.h>

using namespace attune;

// One kernel each: plain, static shared memory, dynamic shared memory, spills, a called function with a
// frame.
static const std::string source = R"(
struct Packed { char bytes[344]; };
extern "C" __global__ void __launch_bounds__(128) plain(Packed p) {
  float *o = *(float **)p.bytes; o[threadIdx.x] = 1.f;
}
extern "C" __global__ void __launch_bounds__(256) withShared(float *o) {
  __shared__ float s[1000];
  s[threadIdx.x] = o[threadIdx.x]; __syncthreads(); o[threadIdx.x] = s[255 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(256) withDynamicShared(float *o, int n) {
  extern __shared__ float dynamicShared[];
  dynamicShared[threadIdx.x] = o[threadIdx.x]; __syncthreads(); o[threadIdx.x] = dynamicShared[n - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(1024, 2) spills(float *o) {
  float a[64];
  #pragma unroll
  for (int i = 0; i < 64; i++) a[i] = o[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int k = 0; k < o[5]; k++) {
    #pragma unroll
    for (int i = 0; i < 64; i++) a[i] = a[i] * a[(i + 7) % 64] + a[(i * 5 + 3) % 64];
  }
  #pragma unroll
  for (int i = 0; i < 64; i++) o[i * 1024 + threadIdx.x] = a[i];
}
__device__ __noinline__ float callee(float x, int n) {
  float b[32];
  for (int i = 0; i < n; i++) b[i & 31] = x * i;
  return b[n & 15];
}
extern "C" __global__ void calls(float *o, int n) { o[threadIdx.x] = callee(o[threadIdx.x], n); }
)";

/// What ptxas -v says of a kernel.
struct PtxasFacts {
  int registers = -1, frame = -1;
  size_t shared = 0;
};

/// Reads "Compiling entry function 'x' for", "Function properties for x", "N bytes stack frame", "Used N
/// registers ... N bytes smem".
static std::map<std::string, PtxasFacts> parsePtxas(const std::string &log) {
  std::map<std::string, PtxasFacts> facts;
  std::string entry, function;
  size_t at = 0;
  while (at < log.size()) {
    size_t end = std::min(log.find('\n', at), log.size());
    std::string line = log.substr(at, end - at);
    at = end + 1;
    if (size_t q = line.find("Compiling entry function '"); q != std::string::npos)
      entry = line.substr(q + 26, line.find('\'', q + 26) - q - 26);
    if (size_t q = line.find("Function properties for "); q != std::string::npos)
      function = line.substr(q + 24);
    if (size_t q = line.find(" bytes stack frame"); q != std::string::npos && q > 0 && function == entry)
      facts[entry].frame = std::atoi(line.c_str() + line.rfind(' ', q - 1) + 1);
    if (size_t q = line.find("Used "); q != std::string::npos) {
      facts[entry].registers = std::atoi(line.c_str() + q + 5);
      if (size_t smem = line.find(" bytes smem"); smem != std::string::npos)
        facts[entry].shared = size_t(std::atoi(line.c_str() + line.rfind(' ', smem - 1) + 1));
    }
  }
  return facts;
}

TEST_CASE("cubin facts agree with ptxas -v on every architecture", "[cubin][nvrtc]") {
  const Nvrtc *nvrtc = nvrtcOrSkip();
  if (!nvrtc)
    return;
  for (const ArchInfo &each : allArchs()) {
    if (each.isCpu())
      continue;
    const std::string arch(each.name);
    Expected<Nvrtc::Output> cubin = nvrtc->compileCubin(source, "facts", arch, {"--ptxas-options=-v"});
    REQUIRE(cubin);
    std::map<std::string, PtxasFacts> ptxas = parsePtxas(cubin->log);
    INFO(arch << "\n" << cubin->log);
    REQUIRE(ptxas.size() == 5);
    Expected<std::vector<CubinKernel>> kernels = readCubin(cubin->code);
    REQUIRE(kernels);
    REQUIRE(kernels->size() == 5);
    for (const CubinKernel &kernel : *kernels) {
      INFO(arch << " " << kernel.name);
      REQUIRE(ptxas.count(kernel.name) == 1);
      CHECK(kernel.registers == ptxas[kernel.name].registers);
      CHECK(kernel.frameBytes == ptxas[kernel.name].frame);
      CHECK(kernel.staticSharedBytes == ptxas[kernel.name].shared);
    }
    CHECK(readCubin(cubin->code, "plain")->paramBytes == 344);
    CHECK(readCubin(cubin->code, "plain")->frameBytes == 0);
    CHECK(readCubin(cubin->code, "spills")->frameBytes > 0);
    CHECK(readCubin(cubin->code, "calls")->frameBytes >= 128);
    CHECK(readCubin(cubin->code, "withShared")->staticSharedBytes == 4000);
    CHECK(readCubin(cubin->code, "withDynamicShared")->staticSharedBytes == 0);
  }
}

TEST_CASE("cubin errors", "[cubin]") {
  CHECK(readCubin({}).error().message == "the cubin is damaged: it is not a 64-bit ELF file; compile the kernel again");
  std::vector<char> text(200, 'x');
  CHECK(readCubin(text).error().message ==
        "the cubin is damaged: it is not a 64-bit ELF file; compile the kernel again");
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::vector<char> program((std::istreambuf_iterator<char>(self)), {});
  CHECK(readCubin(program).error().message.find("the cubin is damaged: its machine is ") == 0);

  const Nvrtc *nvrtc = nvrtcOrSkip();
  if (!nvrtc)
    return;
  Expected<Nvrtc::Output> cubin = nvrtc->compileCubin(source, "facts", "sm_90");
  REQUIRE(cubin);
  Expected<CubinKernel> absent = readCubin(cubin->code, "absent");
  REQUIRE(!absent);
  CHECK(absent.error().message.find("the cubin has no kernel 'absent'; it has '") == 0);
}

TEST_CASE("a truncated or corrupt cubin never reads out of bounds", "[cubin][nvrtc]") {
  const Nvrtc *nvrtc = nvrtcOrSkip();
  if (!nvrtc)
    return;
  Expected<Nvrtc::Output> cubin = nvrtc->compileCubin(source, "facts", "sm_90");
  REQUIRE(cubin);
  const std::vector<char> &good = cubin->code;
  int refused = 0;
  for (size_t size = 0; size < good.size(); size += 1 + size / 97) {
    std::vector<char> cut(good.begin(), good.begin() + long(size)); // a heap block of just that size
    refused += !readCubin(cut);
  }
  CHECK(refused > 0);
  std::mt19937 random(1);
  auto flip = [&](size_t range) {
    std::vector<char> bad = good;
    for (int flips = 1 + int(random() % 4); flips > 0; --flips)
      bad[random() % range] = char(random());
    if (Expected<std::vector<CubinKernel>> kernels = readCubin(bad))
      for (const CubinKernel &kernel : *kernels)
        CHECK(kernel.name.size() < bad.size());
  };
  for (int i = 0; i < 2000; ++i) {
    flip(64);          // the ELF header
    flip(good.size()); // anywhere
  }
  // The section headers, where an offset or a size does most harm.
  uint64_t table = 0;
  std::memcpy(&table, good.data() + 40, 8);
  for (int i = 0; i < 4000; ++i) {
    std::vector<char> bad = good;
    size_t at = table + random() % (good.size() - table);
    bad[at] = char(random() % 2 ? 0xff : random());
    (void)bool(readCubin(bad));
  }
}
