//===- Indices.h - Reads outside of captured tensors ------------------------===//
//
// An index outside a captured tensor reads the nearest element. That is a mistake unless the variant says clamped or
// broadcast (Expr.h). Kernel::launch finds mistakes that follow from the extents alone, such as t[k] with too few
// elements. findIndexFault evaluates indices, and so also finds mistakes of computed indices and of indices in
// conditional parts:
//
//     // args of a launch, tensors in host memory
//     Expected<std::optional<IndexFault>> fault = findIndexFault(variant, args);
//     if (!fault)
//       return report(fault.error());
//     // mask.cpp:7:21: error: ids[k / 2] reads ids[5] at b 0, h 0, q 0, k 10, but captured ...
//     if (*fault)
//       return report((*fault)->error());
//
// At each (b, h, q, k) with 0 <= q < Sq and 0 <= k < Sk, the mask is evaluated first, then the score if the mask is
// true. Blocks that the block pattern masks are skipped. select evaluates only the selected operand, && and || evaluate
// the right side only where the left side does not decide.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Error.h"
#include "attune/Kernel.h"
#include "attune/Variant.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// A read outside of a captured tensor, of a page that does not exist, or a search of a vector out of order.
struct IndexFault {
  int64_t b = 0, h = 0, row = 0, k = 0; ///< `row` counts the rows of Q from 0
  int64_t q = 0;                        ///< row + the q offset, as expressions see it
  std::string tensor = {};              ///< the captured tensor; empty: page indices[0] of `extent` pages was read
  std::vector<int64_t> indices = {};    ///< the indices of all dimensions
  int dim = 0;                          ///< the first dimension whose index is out of range
  int64_t extent = 0;                   ///< the extent of dimension `dim`
  bool outOfOrder = false;   ///< `tensor` is searched, but its element indices[0] is less than the one before
  std::string element = {};  ///< as the variant writes it: "ids[k / 2]"
  SourceLocation where = {}; ///< the element in the user's source; in text, in the file "score" or "mask"

  /// The fault as an error with a message of one line.
  Error error() const;
};

/// The first read outside of a captured tensor, in the lexicographic order of (b, h, q, k) and for one (b, h, q, k) in
/// the order of evaluation. Before all of these come the first entry of a page table that a sequence uses and that
/// names no page, and the first element of a searched vector that is out of order. Nothing if all indices are within
/// their tensors. A clamped element is never a fault, a broadcast element is no fault in a dimension of extent 1.
///
/// `args` are the arguments of a CPU launch of the variant's forward or backward pass, including o. `operands` is
/// ignored, nothing is written, and no workspace is needed. The data of q and k is read only if an index, or a
/// condition around an index, depends on the score. Errors: a mistake in the variant, and arguments that a launch
/// rejects.
///
/// Cost: a pass over each searched vector; no more if interval arithmetic on the launch's sizes, scalars and integer
/// tensors proves that all indices are in range. Otherwise the indices in doubt, and the conditions around them, are
/// evaluated at B * H * Sq * Sk elements until a fault is found, by as many threads as CPU kernels use. An element
/// takes a thread a few nanoseconds, and about D nanoseconds more if the indices depend on the score. Floats are
/// float32 and may differ in the last digit from a kernel's.
Expected<std::optional<IndexFault>> findIndexFault(const Variant &variant, const LaunchArgs &args);

} // namespace attune
#pragma GCC visibility pop
