//===- Primitives.h - Device functions of the generated kernels -------------===//
//
// The files *Primitives.cuh contain one function per PTX idiom; CMakeLists.txt lists the files in order. The printer
// copies the functions that a kernel uses into the source, in this order. A line
//
//     //@ name : needs
//
// begins a function and names the earlier functions that it needs. File headers and section headings are not copied.
// The concatenated files are also a valid CUDA translation unit without includes. Section numbers refer to PTX ISA 9.0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace attune::codegen {

/// The text of all *Primitives.cuh files, concatenated.
std::string_view primitivesSource();

/// Whether `name` is a device function of the *Primitives.cuh files, or a name that mmaAsyncName returns.
bool isPrimitive(std::string_view name);

/// Where the left operand of a wgmma is: in registers, in shared memory (K-major), or transposed in shared memory
/// (`SharedColumns`, MN-major).
enum class LeftOperand { Registers, Shared, SharedColumns };

/// The name of the function that issues the wgmma m64n`columns`k16 of `type` ("bf16", "f16"). The function is generated
/// and not in the files, because the instruction names every register of its accumulator.
std::string mmaAsyncName(std::string_view type, int columns, LeftOperand left);

/// Names of the device functions in the files, without the generated functions of mmaAsyncName.
const std::set<std::string, std::less<>> &primitiveNames();

/// Text of the functions in `names` and of the functions that they need, in the order of the files, with a blank line
/// after each function.
std::string primitives(const std::set<std::string, std::less<>> &names);

} // namespace attune::codegen
