//===- Primitives.h - The device functions of Primitives.cuh, one by one ----===//
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace attune::codegen {

/// Primitives.cuh as one text.
std::string_view primitivesSource();

/// Whether Primitives.cuh has a function `name`.
bool isPrimitive(std::string_view name);

/// The function that starts a warpgroup's m64n`columns`k16 product of `type` ("bf16", "f16") with its left operand in
/// shared memory or in registers. Made on demand: the instruction names every register of its accumulator.
std::string mmaAsyncName(std::string_view type, int columns, bool leftShared);

/// Names of all functions of Primitives.cuh.
const std::set<std::string, std::less<>> &primitiveNames();

/// The functions in `names` and those that they need, in the order of Primitives.cuh, with a blank line after each.
std::string primitives(const std::set<std::string, std::less<>> &names);

} // namespace attune::codegen
