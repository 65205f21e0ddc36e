#include "arch/ArchInfo.h"
#include "arch/ProgramCalibration.h"
#include "dsl/NearestName.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <iterator>
#include <utility>

using namespace attune;

// Limits are from the CUDA C++ Programming Guide, "Compute Capabilities". Rates are from the parts' data sheets.
// mmaTflops of sm_90 is the rate that mma.sync reaches, about two thirds of the 989 of wgmma (sm_90a). No part of
// sm_100, sm_103, sm_110 and sm_121 was measured: their mmaTflops assumes the rate of mma.sync per clock and SM that
// sm_90 has (10.x, 11.0), or sm_120 (12.1).
static constexpr ProductUnit mmaSync = {"mma.sync",
                                        Issuer::Warp,
                                        false,
                                        16,
                                        8,
                                        4,
                                        ProductSpace::Registers,
                                        ProductSpace::Registers,
                                        ProductSpace::Registers};
static constexpr ProductUnit wgmma = {
    "wgmma", Issuer::Warpgroup, true, 64, 256, 2, ProductSpace::Either, ProductSpace::Shared, ProductSpace::Registers};
static constexpr ProductUnit ofWarps[] = {mmaSync}, ofWarpgroups[] = {mmaSync, wgmma};

// Measured on one H200; other architectures use it until somebody fits theirs (bench/FitCost.h).
// Set by hand on 173 plans of seven cases (docs/log/programs.md). On 197 plans of 8 cases attune-fit-cost finds constants
// that choose as well for programs that take no part in the fit, and predict these worse: they were not taken
// (docs/measurements/plans.md).
static constexpr ProgramCalibration ofH200 = {.memoryEfficiency = 0.88,
                                              .level2Rate = 2.2,
                                              .warpProducts = 0.66,
                                              .othersDelay = 0.05,
                                              .latencyOfIteration = 520,
                                              .latencyOfCopy = 900,
                                              .stageHides = 4,
                                              .producersAhead = 0.5,
                                              .leastAhead = 0.25,
                                              .overlapLoss = 0.4,
                                              .fullWarps = 8,
                                              .fewWarpsExponent = 0.3,
                                              .lastRound = 0.25,
                                              .spillFactor = 0.02,
                                              .otherRegisters = 56};

// clang-format off
static constexpr std::array<ArchInfo, 11> archs = {{
    {.name = "sm_80", .part = "A100 SXM 80 GB", .computeMajor = 8, .computeMinor = 0,
     .sharedBytesPerBlock = 163 * 1024, .sharedBytesPerSM = 164 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 17, .maxThreadsPerSM = 2048,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 32, .smCount = 108, .clockGHz = 1.41, .mmaTflops = 312,
     .memoryBytesPerSecond = 2.039e12, .l2Bytes = 40.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 64, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps},
    {.name = "sm_86", .part = "RTX A6000", .computeMajor = 8, .computeMinor = 6,
     .sharedBytesPerBlock = 99 * 1024, .sharedBytesPerSM = 100 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 17, .maxThreadsPerSM = 1536,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 16, .smCount = 84, .clockGHz = 1.80, .mmaTflops = 155,
     .memoryBytesPerSecond = 0.768e12, .l2Bytes = 6.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps},
    {.name = "sm_89", .part = "RTX 4090", .computeMajor = 8, .computeMinor = 9,
     .sharedBytesPerBlock = 99 * 1024, .sharedBytesPerSM = 100 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 17, .maxThreadsPerSM = 1536,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 24, .smCount = 128, .clockGHz = 2.52, .mmaTflops = 165,
     .memoryBytesPerSecond = 1.008e12, .l2Bytes = 72.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps},
    {.name = "sm_90", .part = "H200 SXM", .computeMajor = 9, .computeMinor = 0,
     .sharedBytesPerBlock = 227 * 1024, .sharedBytesPerSM = 228 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 0, .maxThreadsPerSM = 2048,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 32, .smCount = 132, .clockGHz = 1.83, .mmaTflops = 640,
     .memoryBytesPerSecond = 4.8e12, .l2Bytes = 50.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps,
     .tma = true, .vectorReductions = true, .dependentLaunches = true, .clusters = true},
    {.name = "sm_90a", .part = "H200 SXM", .computeMajor = 9, .computeMinor = 0,
     .sharedBytesPerBlock = 227 * 1024, .sharedBytesPerSM = 228 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 0, .maxThreadsPerSM = 2048,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 32, .smCount = 132, .clockGHz = 1.83, .mmaTflops = 989,
     .memoryBytesPerSecond = 4.8e12, .l2Bytes = 50.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarpgroups,
     .tma = true, .movesRegisters = true, .vectorReductions = true, .dependentLaunches = true, .clusters = true,
     .ownCubins = true},
    {.name = "sm_100", .part = "B200", .computeMajor = 10, .computeMinor = 0,
     .sharedBytesPerBlock = 227 * 1024, .sharedBytesPerSM = 228 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 0, .maxThreadsPerSM = 2048,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 32, .smCount = 148, .clockGHz = 1.85, .mmaTflops = 725,
     .memoryBytesPerSecond = 8.0e12, .l2Bytes = 126.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps,
     .tma = true, .vectorReductions = true, .dependentLaunches = true, .clusters = true},
    {.name = "sm_103", .part = "B300", .computeMajor = 10, .computeMinor = 3,
     .sharedBytesPerBlock = 227 * 1024, .sharedBytesPerSM = 228 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 0, .maxThreadsPerSM = 2048,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 32, .smCount = 148, .clockGHz = 1.92, .mmaTflops = 753,
     .memoryBytesPerSecond = 8.0e12, .l2Bytes = 126.0 * (1 << 20), .specialPerClockPerSM = 32,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps,
     .tma = true, .vectorReductions = true, .dependentLaunches = true, .clusters = true},
    {.name = "sm_110", .part = "Jetson Thor T5000", .computeMajor = 11, .computeMinor = 0,
     .sharedBytesPerBlock = 227 * 1024, .sharedBytesPerSM = 228 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 0, .maxThreadsPerSM = 1536,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 24, .smCount = 20, .clockGHz = 1.57, .mmaTflops = 83,
     .memoryBytesPerSecond = 0.273e12, .l2Bytes = 32.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps,
     .tma = true, .vectorReductions = true, .dependentLaunches = true, .clusters = true},
    {.name = "sm_120", .part = "RTX 5090", .computeMajor = 12, .computeMinor = 0,
     .sharedBytesPerBlock = 99 * 1024, .sharedBytesPerSM = 100 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 0, .maxThreadsPerSM = 1536,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 24, .smCount = 170, .clockGHz = 2.41, .mmaTflops = 209,
     .memoryBytesPerSecond = 1.792e12, .l2Bytes = 96.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps,
     .tma = true, .vectorReductions = true, .dependentLaunches = true, .clusters = true},
    {.name = "sm_121", .part = "GB10", .computeMajor = 12, .computeMinor = 1,
     .sharedBytesPerBlock = 99 * 1024, .sharedBytesPerSM = 100 * 1024, .sharedReservedPerBlock = 1024,
     .registersPerSM = 65536, .maxRegistersPerThread = 255, .compilerRegisters = 0, .maxThreadsPerSM = 1536,
     .maxThreadsPerBlock = 1024, .maxBlocksPerSM = 24, .smCount = 48, .clockGHz = 2.42, .mmaTflops = 59,
     .memoryBytesPerSecond = 0.273e12, .l2Bytes = 24.0 * (1 << 20), .specialPerClockPerSM = 16,
     .fmaPerClockPerSM = 128, .sharedBytesPerClockPerSM = 128, .programs = &ofH200, .productUnits = ofWarps,
     .tma = true, .vectorReductions = true, .dependentLaunches = true, .clusters = true},
    {.name = "cpu", .part = "16 cores with AVX-512", .computeMajor = 0, .computeMinor = 0,
     .sharedBytesPerBlock = 512 * 1024, .sharedBytesPerSM = 512 * 1024, .sharedReservedPerBlock = 0,
     .registersPerSM = 32 * 16, .maxRegistersPerThread = 32 * 16, .compilerRegisters = 0, .maxThreadsPerSM = 1,
     .maxThreadsPerBlock = 1, .maxBlocksPerSM = 1, .smCount = 16, .clockGHz = 3.0, .mmaTflops = 2.0,
     .memoryBytesPerSecond = 0.1e12, .l2Bytes = 32.0 * (1 << 20), .specialPerClockPerSM = 2,
     .fmaPerClockPerSM = 32, .sharedBytesPerClockPerSM = 64},
}};
// clang-format on

double attune::productRate(const ArchInfo &arch, const ProgramCalibration &calibration, bool hasProducers) {
  const bool isSlow = arch.products(Issuer::Warpgroup) && !hasProducers;
  return arch.mmaTflops * 1e12 * (isSlow ? calibration.warpProducts : 1);
}

int ArchInfo::blocksPerSM(int threads, int registersPerThread, size_t sharedBytes) const {
  if (threads < 1 || threads > maxThreadsPerBlock || sharedBytes > sharedBytesPerBlock)
    return 0;
  if (isCpu())
    return 1;
  if (registersPerThread > maxRegistersPerThread)
    return 0;
  // An SM has four partitions, each with a quarter of the registers; the warps of a block are spread over them.
  constexpr int partitions = 4;
  int warps = (threads + 31) / 32;
  int registersPerWarp = (std::max(registersPerThread, 1) * 32 + 255) / 256 * 256;
  int warpsPerPartition = registersPerSM / partitions / registersPerWarp;
  int blocks = warpsPerPartition * partitions / warps;
  size_t sharedPerBlock = (sharedBytes + sharedReservedPerBlock + 127) / 128 * 128;
  blocks = std::min(blocks, int(sharedBytesPerSM / sharedPerBlock));
  blocks = std::min(blocks, maxThreadsPerSM / (warps * 32));
  return std::min(blocks, maxBlocksPerSM);
}

std::span<const ArchInfo> attune::allArchs() { return archs; }

const ArchInfo *attune::findArch(std::string_view name) {
  for (const ArchInfo &arch : archs)
    if (arch.name == name)
      return &arch;
  return nullptr;
}

const ProductUnit *ArchInfo::products(Issuer issuer) const {
  for (const ProductUnit &unit : productUnits)
    if (unit.issuer == issuer)
      return &unit;
  return nullptr;
}

std::string attune::archNames(bool (ArchInfo::*has)() const) {
  std::string names;
  for (const ArchInfo &arch : archs)
    if (!has || (arch.*has)())
      fmt::format_to(std::back_inserter(names), "{}{}", names.empty() ? "" : ", ", arch.name);
  return names;
}

const ArchInfo &attune::portableArch(const ArchInfo &arch) {
  for (const ArchInfo &other : archs)
    if (other.computeMajor == arch.computeMajor && other.computeMinor == arch.computeMinor && !other.ownCubins)
      return other;
  return arch;
}

static std::string digitsOf(std::string_view text) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits), [](char c) { return c >= '0' && c <= '9'; });
  return digits;
}

/// "; did you mean sm_120?" for sm_12. Empty where no architecture's number begins with the digits of `name`: such a
/// name, for example sm_70, is another architecture and not a typing error.
static std::string meantArch(std::string_view name) {
  std::vector<std::string> names;
  for (const ArchInfo &arch : archs)
    if (digitsOf(arch.name).starts_with(digitsOf(name)))
      names.emplace_back(arch.name);
  std::string meant = dsl::nearestName(name, names);
  return meant.empty() ? "" : fmt::format("; did you mean {}?", meant);
}

Expected<const ArchInfo *> attune::archInfo(std::string_view name) {
  if (const ArchInfo *arch = findArch(name))
    return arch;
  const std::string valid = archNames();
  const std::string_view family = name.substr(0, name.size() - !name.empty());
  if (findArch(family) && (name.ends_with('a') || name.ends_with('f')))
    return Error{
        fmt::format("architecture {} is not supported yet; compile for {}, whose kernels run there, valid are {}", name,
                    family, valid)};
  return Error{fmt::format("architecture '{}' is unknown; valid are {}{}", name, valid, meantArch(name))};
}

bool attune::runsOn(const ArchInfo &arch, int computeMajor, int computeMinor) {
  // Jetson parts (8.7) have the same major number as desktop parts but do not run their cubins.
  bool jetson = computeMajor == 8 && computeMinor == 7;
  bool minor = arch.ownCubins ? arch.computeMinor == computeMinor : arch.computeMinor <= computeMinor;
  return !arch.isCpu() && !jetson && arch.computeMajor == computeMajor && minor;
}

const ArchInfo *attune::archForDevice(int computeMajor, int computeMinor) {
  const ArchInfo *best = nullptr;
  for (const ArchInfo &arch : archs)
    if (runsOn(arch, computeMajor, computeMinor) &&
        (!best || std::pair(arch.computeMinor, arch.ownCubins) > std::pair(best->computeMinor, best->ownCubins)))
      best = &arch;
  return best;
}
