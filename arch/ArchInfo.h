//===- ArchInfo.h - Facts about each architecture ---------------------------===//
//
// The one place that knows limits and rates. The cost model, the tile-size pass, the launcher and the
// support matrix read this table; no pass asks for an architecture by name.
//
//     const ArchInfo *arch = findArch("sm_90");   // null for an unknown name
//     arch->sharedBytesPerBlock                   // 232448
//
// Rates are those of a reference part (`part`), used where no device is asked. For "cpu" an SM is a core,
// shared memory is the part of the core's level-2 cache that a block may fill, and there is no limit on
// registers or threads that matters.
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
  std::string_view part; ///< the reference part that the rates belong to
  int computeMajor;      ///< compute capability; 0 for the CPU
  int computeMinor;
  size_t sharedBytesPerBlock; ///< opt-in limit of dynamic plus static shared memory per block
  size_t sharedBytesPerSM;
  size_t sharedReservedPerBlock; ///< taken by the system from sharedBytesPerSM for each resident block
  int registersPerSM;            ///< 32-bit registers
  int maxRegistersPerThread;
  int compilerRegisters; ///< per thread, that the device compiler takes more than for sm_90 (NVRTC 13.0)
  int maxThreadsPerSM;
  int maxThreadsPerBlock;
  int maxBlocksPerSM;
  int smCount;
  double clockGHz;
  double mmaTflops;            ///< dense bf16 mma.sync with float32 accumulation, whole part
  double memoryBytesPerSecond; ///< HBM or GDDR
  double l2Bytes;
  int specialPerClockPerSM; ///< ex2, rcp, ... results
  int fmaPerClockPerSM;     ///< float32 fused multiply-adds
  int sharedBytesPerClockPerSM;
  bool warpgroups = false; ///< wgmma, TMA and setmaxnreg; the cubin runs on just this compute capability

  bool isCpu() const { return computeMajor == 0; }
  /// Adds several floats to global memory by one instruction, or whole rows by TMA.
  bool addsVectors() const { return computeMajor >= 9; }

  /// Blocks that fit on one SM at these sizes (0 when one does not fit). Registers are allocated per warp
  /// in units of 256, shared memory in units of 128 bytes.
  int blocksPerSM(int threads, int registersPerThread, size_t sharedBytes) const;
};

/// Every architecture attune compiles for, "cpu" last.
std::span<const ArchInfo> allArchs();

/// The facts about `name`, or null.
const ArchInfo *findArch(std::string_view name);

/// As findArch with the error text that users see; names the valid architectures.
Expected<const ArchInfo *> archInfo(std::string_view name);

/// The architecture to compile for on a device of compute capability major.minor, or null where attune has
/// none: the newest that runs on it, with warpgroup-level products where there are such (9.0: sm_90a). 8.7 (Jetson) has
/// none: cubins do not carry over between desktop and Jetson parts.
const ArchInfo *archForDevice(int computeMajor, int computeMinor);

/// Whether a cubin for `arch` runs on a device of compute capability major.minor: the same major, and a
/// minor that is not older; with warpgroups the same minor.
bool runsOn(const ArchInfo &arch, int computeMajor, int computeMinor);

} // namespace attune
