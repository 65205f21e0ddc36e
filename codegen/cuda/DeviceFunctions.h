//===- DeviceFunctions.h - Loops printed as device functions ----------------===//
//
// A loop that tile-to-sched marks with `sched.function = "row_max"` is printed as a device function and a call of that
// function, so that the kernel's own text is a sequence of tile operations:
//
//     __device__ __forceinline__ void row_max(float (&maxima)[2][2], const float (&tile)[2][8][4]) { ... }
//
//     row_max(m_next, s);        // in the kernel
//
// Loops whose functions have the same text call one function, in all kernels of a source.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>

namespace attune::codegen::cuda {

/// Whether `name` is reserved for device functions, so that no local variable may have this name.
bool isFunctionName(llvm::StringRef name);

/// What a function of the fixed vocabulary does, and what its register tiles are called: the tile that it writes, the
/// accumulator fragment that it reads, the vector of row values that it reads. Where a word is empty, and in
/// functions outside of the vocabulary, the parameter is named after the argument of the call.
struct FunctionWords {
  const char *comment;
  llvm::StringLiteral written, tile, rows;
};
const FunctionWords *functionWords(llvm::StringRef name);

class DeviceFunctions {
public:
  /// Defines the function with these parameters and this body unless it exists already, and returns its name: `wish`,
  /// or `wish` with a number where a different function is called `wish`.
  std::string define(llvm::StringRef wish, llvm::StringRef comment, const std::string &parameters,
                     const std::string &body);
  /// All definitions, in the order of their first calls.
  const std::string &text() const { return definitions; }

private:
  std::map<std::string, std::string> names; ///< key: wished name, parameters and body
  std::map<std::string, int> numbers;       ///< key: wished name; how many functions wished for the name
  std::string definitions;
};

} // namespace attune::codegen::cuda
