#include "attune/Target.h"
#include "arch/ArchInfo.h"
#include "runtime/CudaDriver.h"

#include <charconv>
#include <fmt/format.h>

using namespace attune;

/// The target for a GPU; fails where there is no driver, no such device, or no kernels for its compute capability.
static Expected<Target> gpuTarget(int device) {
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!cuda)
    return cuda.error();
  Expected<CudaDeviceInfo> info = (*cuda)->device(device);
  if (!info)
    return info.error();
  const ArchInfo *arch = archForDevice(info->computeMajor, info->computeMinor);
  if (!arch)
    return Error{fmt::format("attune has no kernels for {} (compute capability {}.{}); use the cpu target", info->name,
                             info->computeMajor, info->computeMinor)};
  return Target::cuda(std::string(arch->name), device);
}

Target Target::detect(int device) {
  Expected<Target> target = gpuTarget(device);
  return target ? *target : Target::cpu();
}

Expected<Target> Target::parse(std::string_view text) {
  std::string_view name = text.substr(0, text.find(':'));
  int device = 0;
  if (name.size() != text.size()) {
    std::string_view digits = text.substr(name.size() + 1);
    auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), device);
    if (code != std::errc() || end != digits.data() + digits.size() || device < 0 || name == "cpu")
      return Error{fmt::format("target '{}' is not an architecture with a device; write for example sm_90:1", text)};
  }
  if (name == "gpu")
    return gpuTarget(device);
  Expected<const ArchInfo *> arch = archInfo(name);
  if (!arch)
    return arch.error();
  return (*arch)->isCpu() ? Target::cpu() : Target::cuda(std::string(name), device);
}

std::string Target::text() const { return device == 0 ? arch : fmt::format("{}:{}", arch, device); }
