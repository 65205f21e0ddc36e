//===- Target.h - What a kernel is compiled for -----------------------------===//
//
//     Target target = Target::detect();               // this machine's GPU, else the CPU
//     Target target = Target::cuda("sm_90a");         // compile for an H100 or H200, device 0
//     Expected<Target> target = Target::parse(text);  // "cpu", "sm_80", "sm_90:1", "gpu"
//
// A target is a plain value. Compiling for a CUDA target needs NVRTC but no GPU; launching needs a GPU
// of that architecture. The facts about each architecture are in arch/ArchInfo.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// Where a kernel runs: the CPU, or one CUDA device with the architecture to compile for.
struct Target {
  enum class Kind : uint8_t { Cpu, Cuda };

  Kind kind = Kind::Cpu;
  std::string arch = "cpu"; ///< "cpu", or a GPU architecture such as "sm_90a"
  int device = 0;           ///< CUDA device ordinal, 0 for the CPU

  static Target cpu() { return {}; }

  /// `arch` is not checked here; compile() rejects an unknown one with the text that parse() gives.
  static Target cuda(std::string arch, int device = 0) { return {Kind::Cuda, std::move(arch), device}; }

  /// The CUDA device `device` with the architecture to compile for on it, on compute capability 9.0 "sm_90a"; the CPU
  /// where there is no driver, no such device, or an architecture that attune has no kernels for. Never fails.
  static Target detect(int device = 0);

  /// "cpu", an architecture, an architecture with a device ("sm_90:1"), or "gpu" (the device that
  /// detect() finds, an error where there is none).
  static Expected<Target> parse(std::string_view text);

  bool isCuda() const { return kind == Kind::Cuda; }
  /// "cpu", "sm_90", or "sm_90:1" for a device other than 0; parse() reads it back.
  std::string text() const;

  friend bool operator==(const Target &, const Target &) = default;
};

} // namespace attune
#pragma GCC visibility pop
