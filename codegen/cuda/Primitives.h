//===- Primitives.h - Device functions of the generated kernels, one by one -===//
//
// The files *Primitives.cuh have one function per PTX idiom; CMakeLists.txt lists them in order. The printer pastes the
// functions that a kernel uses, in this order. A line
//
//     //@ name : needs
//
// starts a function and names the earlier ones that it needs; the lines above the first one stay out. One after another
// the files are also a valid CUDA translation unit without includes. Section numbers are those of PTX ISA 9.0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace attune::codegen {

/// The files as one text.
std::string_view primitivesSource();

/// Whether there is a device function `name`.
bool isPrimitive(std::string_view name);

/// Where the left operand of a warpgroup's product is, and which way around it is stored.
enum class LeftOperand { Registers, Shared, SharedColumns };

/// The function that starts a warpgroup's m64n`columns`k16 product of `type` ("bf16", "f16"). Made on demand: the
/// instruction names every register of its accumulator.
std::string mmaAsyncName(std::string_view type, int columns, LeftOperand left);

/// Names of all device functions but those made on demand.
const std::set<std::string, std::less<>> &primitiveNames();

/// The functions in `names` and those that they need, in the order of the files, with a blank line after each.
std::string primitives(const std::set<std::string, std::less<>> &names);

} // namespace attune::codegen
