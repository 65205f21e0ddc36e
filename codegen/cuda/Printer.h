//===- Printer.h - CUDA C++ from scheduled IR -------------------------------===//
//
//     Expected<std::string> source = codegen::printCuda(kernel);
//
// gives one self-contained translation unit (no includes; NVRTC and nvcc take it): a header comment with the
// plan of each kernel, `struct Params` with the bytes of attune/LaunchParams.h, the device functions of Primitives.h
// that they use, and the kernels. The same IR gives the same bytes.
//
// The printer takes no decisions. An op is at most one call, loop or expression:
//
//     | op                          | printed as                                                       |
//     |-----------------------------|------------------------------------------------------------------|
//     | arith, math                 | an expression; inlined into its user when that is its one use in |
//     |                             | the same block and the op has no `tile.name`, else a `const`     |
//     | sched.get                   | the same, where nothing is written between it and its user       |
//     | sched.shared                | `const unsigned name = shared_base + offset`                     |
//     | sched.registers             | an array of FragmentAttr::laneShape                              |
//     | scf.for, with sched.unroll  | a `for` under `#pragma unroll` (else `#pragma unroll 1`), with   |
//     |                             | `sched.unroll = N` under `#pragma unroll N`                      |
//     | sched.for_tiles             | a `for` whose carried values are assigned at the end of its body |
//     | sched.load_matrix           | a call that writes four registers, from fragment[i][j][0] on in  |
//     |                             | the order of the lane's array                                    |
//     | any other sched op          | a call of the function of its name                               |
//
// Names. `tile.name` (tile::nameAttr) names an op's result, an `scf.for`'s index, a `sched.philox` result;
// `tile.names` (tile::namesAttr), an array of strings, names the arguments of `sched.for_work` and `sched.for_tiles`
// and the results of `sched.split_tf32`. Names are made unique with a number; without one, results are x (float), n
// (integer), bits (unsigned), flag (bool). `tile.comment` on any op puts a comment line above it.
//
// Source lines. An op whose location holds a file, line and column of a file that is not `.mlir` text gets `//
// file.cpp:12` at the end of its statement, once for consecutive statements of one line.
//
// Strings of the IR may hold anything. In names they become identifiers, in comments they are written by commentText.
//
// Integers. Signed C++ arithmetic is printed for ops with the flag `nsw` (it lets the compiler move additions through
// the widening of 64-bit offsets), wrap_add and its like for others.
//
// Math functions have a short form (relative error 2^-11 at most for bf16, 2^-16 for f16), and, in kernels
// with `precise` or dtype f32, CUDA's own float functions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "ir/sched/Sched.h"

#include <string>

namespace attune::codegen {

struct PrintOptions {
  /// Lines for the head of the header comment, without comment markers; the metadata of the caller.
  std::string banner = {};
};

/// CUDA C++ for the kernels of a launch, one function each over the same parameters. Fails on an op that has no printed
/// form; the error names the op and the remedy and points at its location.
Expected<std::string> printCuda(llvm::ArrayRef<sched::KernelOp> kernels, const PrintOptions &options = {});

/// Name of the kernel in the source and the cubin: the symbol with what C++ does not take replaced by '_'.
std::string kernelSymbol(sched::KernelOp kernel);

} // namespace attune::codegen
