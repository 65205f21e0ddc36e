//===- Printer.h - CUDA C++ from scheduled IR -------------------------------===//
//
//     Expected<std::string> source = codegen::printCuda(kernel);
//
// returns one self-contained translation unit without includes, for NVRTC or nvcc: a header comment with the plan of
// each kernel, `struct Params` with the layout of attune/LaunchParams.h, the device functions of Primitives.h that the
// kernels use, and the kernels. The same IR gives the same bytes.
//
// The printer makes no decisions. An op is printed as at most one call, loop or expression:
//
//     | op                          | printed as                                                       |
//     |-----------------------------|------------------------------------------------------------------|
//     | arith, math                 | an expression; inlined into its user if it has a single use, in  |
//     |                             | the same IR block, and the op has no `tile.name`; else a `const` |
//     | sched.get                   | the same, if no op writes between the sched.get and its user     |
//     | sched.shared                | `const unsigned name = shared_base + offset`                     |
//     | sched.registers             | an array of FragmentAttr::laneShape                              |
//     | scf.for                     | a `for` under a pragma: `unroll` with `sched.unroll`, `unroll N` |
//     |                             | with `sched.unroll = N`; without this attribute `unroll 4` if    |
//     |                             | the loop has carried values, else `unroll 1`                     |
//     | sched.for_tiles             | a `for` whose carried values are assigned at the end of its body |
//     | sched.load_matrix           | a call that writes four registers, from fragment[i][j][0] on in  |
//     |                             | the order of the lane's array                                    |
//     | any other sched op          | a call of the function of its name                               |
//
// Names. `tile.name` (tile::nameAttr) names an op's result, an `scf.for`'s index, a `sched.philox` result;
// `tile.names` (tile::namesAttr), an array of strings, names the arguments of `sched.for_work` and `sched.for_tiles`
// and the results of `sched.split_tf32`. A number makes repeated names unique. A result without a name gets a name from
// its op and operands (tile_plus_1), or if that is too long: term (float), number (integer), word (unsigned) or
// condition (bool). `tile.comment` on any op becomes a comment line above the op.
//
// Source lines. If an op has a location in the user's source (not in `.mlir` text), `// file.cpp:12` follows its
// statement. Of consecutive statements with the same source line, only the first gets this comment.
//
// Strings of the IR may contain any bytes. A name becomes an identifier; text in comments is escaped by commentText.
//
// Integers. Ops with the flag `nsw` are printed as signed C++ arithmetic, which lets the compiler move additions
// through the widening to 64-bit offsets. Other ops are printed as calls of wrap_add, wrap_sub and wrap_mul.
//
// Math functions are printed as approximations with a relative error of at most 2^-11 in bf16 kernels and 2^-16 in f16
// kernels. Kernels with `precise` or dtype f32 call CUDA's own float functions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "ir/sched/Sched.h"

#include <string>

namespace attune::codegen {

struct PrintOptions {
  /// The caller's metadata: lines that begin the header comment, given without comment markers.
  std::string banner = {};
};

/// CUDA C++ for the kernels of a launch: one function for each kernel, all with the same struct Params. Fails on an op
/// that has no printed form; the error names the op and the remedy and points at the op's location.
Expected<std::string> printCuda(llvm::ArrayRef<sched::KernelOp> kernels, const PrintOptions &options = {});

/// Name of the kernel in the source and the cubin: the symbol, with every character that C++ does not allow in an
/// identifier replaced by '_', and with the suffix `_kernel` where that name is reserved.
std::string kernelSymbol(sched::KernelOp kernel);

} // namespace attune::codegen
