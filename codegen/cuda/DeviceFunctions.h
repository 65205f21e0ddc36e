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
#include <set>
#include <string>

namespace attune::codegen::cuda {

/// Whether `name` is reserved for device functions, so that no local variable may have this name.
bool isFunctionName(llvm::StringRef name);

/// The comment and the parameter names of a device function that has a fixed name, such as `row_max`. A parameter whose
/// name is empty here is named after the argument of the call, and so are all parameters of other device functions.
struct FunctionWords {
  llvm::StringLiteral name;
  const char *comment;
  /// Names of the parameters: `written` for the first register tile that the function writes, `tile` for an accumulator
  /// fragment that it only reads, `rows` for any other register tile that it only reads, `scalar` for a scalar.
  llvm::StringLiteral written, tile, rows, scalar;
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
  std::map<std::string, std::string> names; ///< key: `wish`, parameters and body; value: name of the function
  std::map<std::string, int> numbers;       ///< key: `wish`; value: number of different functions with this `wish`
  std::set<std::string> taken;              ///< the names of all functions
  std::string definitions;
};

} // namespace attune::codegen::cuda
