//===- Export.h - Kernels as C sources that need only the CUDA driver -------===//
//
//     std::vector<KernelImage> images = ...;           // of one variant, for sm_80 and sm_90a
//     Expected<std::vector<ExportedFile>> files = exportKernel(images, {.name = "alibi"});
//     // alibi.h, alibi.c, alibi.json, alibi.sm_80.cubin, alibi.sm_90a.cubin
//
// The .c file contains the cubins, the tables that a launch needs (KernelSignature and KernelImage, as data) and
// code that is the same for every kernel: runtime/Launcher.c, by which the library launches too, and ExportedDriver.c.
// The file is both C99 and C++17 and needs only the C library, pthreads and dlopen.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "attune/Kernel.h"

#include <span>
#include <string>
#include <vector>

namespace attune {

struct ExportOptions {
  /// Prefix of files, types and functions. "" stands for the variant's name, with _ for characters that identifiers
  /// lack.
  std::string name = {};
  std::string suffix = {}; ///< appended to the name: "_backward"
  float dropout = 0;       ///< the dropout probability that NAME_defaults sets
};

struct ExportedFile {
  std::string name;
  std::string content;
};

/// The files for kernels of one variant, pass, dtype and head dims, each for another CUDA architecture. Errors: the
/// name is not a C identifier; a kernel is for the CPU; two kernels are for one architecture; the kernels take
/// different arguments; names of operands cannot be members of the header's struct.
Expected<std::vector<ExportedFile>> exportKernel(std::span<const KernelImage> images,
                                                 const ExportOptions &options = {});

} // namespace attune
