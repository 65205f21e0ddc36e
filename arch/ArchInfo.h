//===- ArchInfo.h - Limits and rates of each architecture -------------------===//
//
// The only place that knows limits and rates. The cost model, the tile-size pass, the launcher and the
// support matrix read this table; no pass compares architecture names.
//
//     const ArchInfo *arch = findArch("sm_90");   // null for an unknown name
//     arch->sharedBytesPerBlock                   // 232448
//
// Rates are those of a reference part (`part`) and are used where no device is queried. For "cpu" an SM is a
// core, shared memory is the part of the core's level-2 cache that a block may fill, and the limits on
// registers and threads never bind.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace attune {

struct ArchInfo {
  std::string_view name; ///< "sm_80", "cpu"
  std::string_view part; ///< reference part whose rates this entry has: "H200 SXM"
  int computeMajor;      ///< compute capability; 0 for the CPU
  int computeMinor;
  size_t sharedBytesPerBlock; ///< opt-in limit of dynamic plus static shared memory per block
  size_t sharedBytesPerSM;
  size_t sharedReservedPerBlock; ///< bytes of sharedBytesPerSM that the driver reserves for each resident block
  int registersPerSM;            ///< 32-bit registers
  int maxRegistersPerThread;
  int compilerRegisters; ///< registers per thread that NVRTC 13.0 uses more than it does for sm_90
  int maxThreadsPerSM;
  int maxThreadsPerBlock;
  int maxBlocksPerSM;
  int smCount;
  double clockGHz;
  double mmaTflops;            ///< dense bf16 products with float32 accumulation, whole part
  double memoryBytesPerSecond; ///< bandwidth of HBM or GDDR
  double l2Bytes;
  int specialPerClockPerSM; ///< results of special functions (ex2, rcp, ...)
  int fmaPerClockPerSM;     ///< results of float32 fused multiply-adds
  int sharedBytesPerClockPerSM;
  bool warpgroups = false; ///< has wgmma, TMA and setmaxnreg; cubins run on this compute capability only

  bool isCpu() const { return computeMajor == 0; }
  /// Whether one instruction can add several floats to global memory, and TMA can add whole rows.
  bool addsVectors() const { return computeMajor >= 9; }

  /// How many blocks of these sizes fit on one SM; 0 if not even one fits. Registers are allocated per warp
  /// in units of 256, shared memory in units of 128 bytes.
  int blocksPerSM(int threads, int registersPerThread, size_t sharedBytes) const;
};

/// Every architecture that attune compiles for; "cpu" is the last one.
std::span<const ArchInfo> allArchs();

/// The entry of architecture `name`, or null if there is none.
const ArchInfo *findArch(std::string_view name);

/// Like findArch, but an unknown name gives the error text that users see, with the list of valid names.
Expected<const ArchInfo *> archInfo(std::string_view name);

/// The architecture to compile for on a device of compute capability major.minor, or null where attune supports none:
/// the newest that runs on the device, with warpgroup-level products where the device has them (9.0: sm_90a). 8.7
/// (Jetson) has none, because cubins are not compatible between desktop and Jetson parts.
const ArchInfo *archForDevice(int computeMajor, int computeMinor);

/// Whether a cubin for `arch` runs on a device of compute capability major.minor. The major numbers must be equal. The
/// device's minor number must be at least that of `arch`, and equal to it where `arch` has warpgroups.
bool runsOn(const ArchInfo &arch, int computeMajor, int computeMinor);

} // namespace attune
