//===- Cubin.h - Registers, spills and shared memory of a cubin -------------===//
//
//     Expected<std::vector<CubinKernel>> kernels = readCubin(image.binary);
//     Expected<CubinKernel> kernel = readCubin(image.binary, "gemma_local");
//
// A cubin is a 64-bit little-endian ELF file for machine 190 (EM_CUDA). These facts are read from it:
//
//     | fact                | place                                                                   |
//     |---------------------|-------------------------------------------------------------------------|
//     | kernels             | sections .text.<kernel> whose symbol is a function with the entry flag  |
//     | registers           | attribute EIATTR_REGCOUNT of .nv.info, else bits 24-31 of sh_info       |
//     | stack frame bytes   | attribute EIATTR_FRAME_SIZE of .nv.info (spills and local arrays)       |
//     | static shared bytes | size of .nv.shared.<kernel>                                             |
//     | parameter bytes     | attributes EIATTR_KPARAM_INFO of .nv.info.<kernel>, one per parameter   |
//     | architecture        | e_flags                                                                 |
//
// Every read is checked against the file's bounds: a truncated or corrupt file is an error, never a crash.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

/// One kernel of a cubin.
struct CubinKernel {
  std::string name;
  int registers = 0;            ///< registers per thread
  int frameBytes = 0;           ///< local memory per thread: spilled registers and local arrays
  size_t staticSharedBytes = 0; ///< bytes of static shared memory per block
  int paramBytes = 0;           ///< bytes of all parameters together
};

/// Every kernel of the cubin, in the file's order.
Expected<std::vector<CubinKernel>> readCubin(std::span<const char> cubin);

/// The kernel named `entry`.
Expected<CubinKernel> readCubin(std::span<const char> cubin, std::string_view entry);

} // namespace attune
