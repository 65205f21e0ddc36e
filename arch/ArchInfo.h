//===- ArchInfo.h - Capabilities, limits and rates of each architecture -------------------===//
//
// The only place that knows what an architecture has. The cost model, the passes, the launcher and the support matrix
// read this table; no pass compares architecture names. A new architecture whose instructions attune already writes is
// a row of the table and nothing else.
//
//     const ArchInfo *arch = findArch("sm_90");   // null for an unknown name
//     arch->sharedBytesPerBlock                   // 232448
//     arch->products(Issuer::Warpgroup)           // null: sm_90a has them, sm_90 has not
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

struct ProgramCalibration;

/// The threads that issue one matrix product together.
enum class Issuer : uint8_t { Warp, Warpgroup };

/// Where an operand or a result of a matrix product may lie.
enum class ProductSpace : uint8_t { Registers, Shared, Either };

/// A family of matrix-product instructions.
struct ProductUnit {
  std::string_view instruction; ///< in PTX: "mma.sync", "wgmma"
  Issuer issuer;
  bool isAsynchronous;       ///< the issuing threads go on at once, and wait for the result later
  int rows;                  ///< rows of the result that one issuer computes
  int mostColumns;           ///< columns of the result of one instruction, at most
  int mostElementBytes;      ///< bytes of an element of the operands, at most; float32 operands are split into TF32
  ProductSpace left, right;  ///< of the operands
  ProductSpace accumulators; ///< of the result
};

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
  /// Of the prediction of programs (ProgramCalibration.h). Null on the CPU, where a program has one plan.
  const ProgramCalibration *programs = nullptr;
  std::span<const ProductUnit> productUnits = {};
  bool tma = false;               ///< the Tensor Memory Accelerator copies and adds boxes of a tensor
  bool movesRegisters = false;    ///< warpgroups can hand registers to each other (setmaxnreg)
  bool vectorReductions = false;  ///< one instruction adds several floats to global memory, and TMA adds whole rows
  bool dependentLaunches = false; ///< a kernel may start before the kernel before it has ended
  bool clusters = false;          ///< thread blocks of a cluster share their shared memory; no kernel uses it yet
  bool ownCubins = false;         ///< cubins run on this compute capability only (names that end in "a")

  bool isCpu() const { return computeMajor == 0; }
  bool isGpu() const { return !isCpu(); }
  /// The product instructions that `issuer` issues; null if the architecture has none.
  const ProductUnit *products(Issuer issuer) const;
  /// Whether kernels can have producer warps: these copy by TMA for warpgroups whose products are asynchronous.
  bool hasProducers() const { return tma && movesRegisters && products(Issuer::Warpgroup); }

  /// The most bytes of shared memory per block with which `blocks` blocks fit on one SM.
  int64_t sharedBytesOfEach(int64_t blocks) const {
    return int64_t(sharedBytesPerSM) / blocks - int64_t(sharedReservedPerBlock);
  }
  /// How many blocks of these sizes fit on one SM; 0 if not even one fits. Registers are allocated per warp
  /// in units of 256, shared memory in units of 128 bytes.
  int blocksPerSM(int threads, int registersPerThread, size_t sharedBytes) const;
};

/// Every architecture that attune compiles for; "cpu" is the last one.
std::span<const ArchInfo> allArchs();

/// The names of all architectures, or of those for which `has` is true, with commas between them.
std::string archNames(bool (ArchInfo::*has)() const = nullptr);

/// The architecture of `arch`'s compute capability whose cubins also run on later devices; `arch` itself if there is no
/// other.
const ArchInfo &portableArch(const ArchInfo &arch);

/// The architecture that passes assume where an option names none.
inline constexpr const char *defaultArch = "sm_90";

/// The entry of architecture `name`, or null if there is none.
const ArchInfo *findArch(std::string_view name);

/// Like findArch, but an unknown name gives the error text that users see, with the list of valid names.
Expected<const ArchInfo *> archInfo(std::string_view name);

/// The architecture to compile for on a device of compute capability major.minor, or null where attune supports none:
/// the newest that runs on the device, and of two for one compute capability the one with its own cubins (9.0: sm_90a).
/// 8.7 (Jetson) has none, because cubins are not compatible between desktop and Jetson parts.
const ArchInfo *archForDevice(int computeMajor, int computeMinor);

/// Whether a cubin for `arch` runs on a device of compute capability major.minor. The major numbers must be equal. The
/// device's minor number must be at least that of `arch`, and equal to it if `arch` has its own cubins.
bool runsOn(const ArchInfo &arch, int computeMajor, int computeMinor);

} // namespace attune
