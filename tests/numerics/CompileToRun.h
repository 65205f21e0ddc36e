//===- CompileToRun.h - Kernels of other architectures on this device --------===//
#pragma once

#include "attune/Compile.h"

namespace attune::tests {

/// As compile and compileFromText. Where the target's device does not run cubins of its architecture, the kernel's
/// CUDA, which is the architecture's, is compiled for the device: for instructions that are the same on both, as those
/// of sm_80 are on sm_90.
Expected<Kernel> compileToRun(const Variant &variant, const CompileOptions &options, const Target &target);
Expected<Kernel> compileToRun(const IrText &text, const Target &target);

/// The architecture whose cubins the device runs and whose CUDA is that of `arch`: itself, or a newer one without
/// warpgroups. "" where there is none.
std::string architectureToRun(const std::string &arch, int device);

} // namespace attune::tests
