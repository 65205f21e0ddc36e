//===- Export.h - Kernels as C sources that need only the CUDA driver -------===//
//
//     std::vector<KernelImage> images = ...;           // of one variant, for sm_80 and sm_90a
//     Expected<std::vector<ExportedFile>> files = exportKernel(images, {.name = "alibi"});
//     // alibi.h, alibi.c, alibi.json, alibi.sm_80.cubin, alibi.sm_90a.cubin
//
// The .c file holds the cubins, the tables that a launch needs (KernelSignature and the facts of KernelImage, as data)
// and Launcher.c, which is the same for every kernel: C99 and C++17, of the C library, pthreads and dlopen alone.
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
  std::string name = {}; ///< prefix of files, types and functions; "": the variant's, with _ for what no identifier has
  std::string suffix = {}; ///< behind it: "_backward"
  float dropout = 0;       ///< probability that NAME_defaults writes
};

struct ExportedFile {
  std::string name;
  std::string content;
};

/// The files for kernels of one variant, pass, dtype and head dims, each for another CUDA architecture. Errors: a name that
/// is not a C identifier, a CPU kernel, two for one architecture, kernels that take different arguments, operands that
/// the header's struct cannot have as members.
Expected<std::vector<ExportedFile>> exportKernel(std::span<const KernelImage> images,
                                                 const ExportOptions &options = {});

} // namespace attune
