//===- DeviceFunctions.h - The device functions that loops become -----------===//
//
// A loop that the expansion marks with `sched.function = "row_max"` is printed as a device function and a call of it, so
// that the kernel's own text is a sequence of tile operations:
//
//     row_max(m_next, s);        __device__ __forceinline__ void row_max(float (&maxima)[2][2], const float (&tile)[2][8][4]) { ... }
//
// Loops that print the same function share it, in all kernels of a source.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>

namespace attune::codegen::cuda {

/// Whether a local variable may not have this name, because a device function of `DeviceFunctions` may.
bool isFunctionName(llvm::StringRef name);

/// What the parameters of a function of a fixed vocabulary are called, and what the function does. Functions of other
/// names take the names of their arguments.
struct FunctionWords {
  const char *comment;
  llvm::StringRef buffers[3]; ///< register tiles: those that it writes, then those that it reads
};
const FunctionWords *functionWords(llvm::StringRef name);

class DeviceFunctions {
public:
  /// The name of the function with these parameters and this body: `wish`, or `wish` with a number where another
  /// function has that name.
  std::string define(llvm::StringRef wish, llvm::StringRef comment, const std::string &parameters,
                     const std::string &body);
  /// All definitions, in the order of their first calls.
  const std::string &text() const { return definitions; }

private:
  std::map<std::string, std::string> names; ///< by name wished for, parameters and body
  std::map<std::string, int> numbers;       ///< functions of each name wished for
  std::string definitions;
};

} // namespace attune::codegen::cuda
