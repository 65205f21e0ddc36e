#include "tests/numerics/CompileToRun.h"

#include "arch/ArchInfo.h"
#include "runtime/CudaDriver.h"
#include "runtime/Nvrtc.h"

#include <fmt/format.h>

using namespace attune;
using namespace attune::tests;

std::string attune::tests::architectureToRun(const std::string &arch, int device) {
  const ArchInfo *info = findArch(arch);
  Expected<const CudaDriver *> cuda = cudaDriver();
  if (!info || info->isCpu() || !cuda)
    return "";
  Expected<CudaDeviceInfo> found = (*cuda)->device(device);
  if (!found)
    return "";
  if (runsOn(*info, found->computeMajor, found->computeMinor))
    return arch;
  const std::string own = fmt::format("sm_{}{}", found->computeMajor, found->computeMinor);
  const bool newer =
      std::pair(found->computeMajor, found->computeMinor) > std::pair(info->computeMajor, info->computeMinor);
  return newer && !info->ownCubins && findArch(own) ? own : "";
}

/// A kernel of another architecture, compiled once more for the one that runs.
static Expected<Kernel> forDevice(Expected<KernelImage> image, const std::string &arch, int device) {
  if (!image)
    return image.error();
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc)
    return nvrtc.error();
  Expected<Nvrtc::Output> cubin = (*nvrtc)->compileCubin(image->cudaSource, image->name, arch);
  if (!cubin)
    return cubin.error();
  image->binary = std::move(cubin->code);
  image->arch = arch;
  Expected<Kernel> kernel = loadCudaKernel(std::move(*image), device);
  if (!kernel)
    return kernel;
  if (Expected<void> loaded = kernel->load(); !loaded)
    return loaded.error();
  return kernel;
}

Expected<Kernel> attune::tests::compileToRun(const Variant &variant, const CompileOptions &options,
                                             const Target &target) {
  const std::string arch = target.isCuda() ? architectureToRun(target.arch, target.device) : target.arch;
  if (arch == target.arch)
    return compile(variant, options, target);
  Expected<Kernel> kernel = forDevice(compileImage(variant, options, target), arch, target.device);
  return kernel && variant.hasDropout() ? kernel->withDropout(variant.dropoutProbability()) : kernel;
}

Expected<Kernel> attune::tests::compileToRun(const IrText &text, const Target &target) {
  const std::string arch = target.isCuda() ? architectureToRun(target.arch, target.device) : target.arch;
  return arch == target.arch ? compileFromText(text, {}, target)
                             : forDevice(compileImageFromText(text, {}, target), arch, target.device);
}
