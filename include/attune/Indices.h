//===- Indices.h - Reads outside of captured tensors ------------------------===//
//
// An index outside a captured tensor reads the nearest element. That is a mistake unless the variant says clamped or
// broadcast (Expr.h). Kernel::launch finds it where extents alone tell: t[k] of too few elements. Indices that are
// computed, or that only some elements evaluate, are found here, by evaluating them:
//
//     // args of a launch, tensors in host memory
//     Expected<std::optional<IndexFault>> fault = findIndexFault(variant, args);
//     if (!fault)
//       return report(fault.error());
//     // mask.cpp:7:21: error: ids[k / 2] reads ids[5] at b 0, h 0, q 0, k 10, but captured ...
//     if (*fault)
//       return report((*fault)->error());
//
// What is evaluated, in this order, at each (b, h, q, k) with 0 <= q < Sq and 0 <= k < Sk: nothing in a block that the
// block pattern hides; the mask; the score where the mask is true. Of select only the branch that is taken, of && and
// || the right side only where the left one does not decide.
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

/// A read outside of a captured tensor, or of pages that there are not.
struct IndexFault {
  int64_t b = 0, h = 0, row = 0, k = 0; ///< `row` counts the rows of Q from 0
  int64_t q = 0;                        ///< row + the q offset, as expressions see it
  std::string tensor = {};              ///< empty: `element` is a number of a page, indices[0], of `extent` pages
  std::vector<int64_t> indices = {};    ///< of all dimensions
  int dim = 0;                          ///< the first dimension that does not hold its index
  int64_t extent = 0;                   ///< of that dimension
  std::string element = {};             ///< as the variant writes it: "ids[k / 2]"
  SourceLocation where = {};            ///< the element in the user's source; in text, in the file "score" or "mask"

  /// All of it in one line.
  Error error() const;
};

/// The first read outside of a captured tensor in the lexicographic order of (b, h, q, k), and there in the order of
/// evaluation; before these the first entry of a table of pages that a sequence's keys lie in and that names no page. None where all indices lie within their tensors. Clamped elements are never one, broadcast ones not in
/// dimensions of extent 1.
///
/// `args` is what a CPU launch of the variant's forward or backward pass takes, o and all, of which `operands` are not
/// looked at; nothing is written, and no workspace is needed. q and k are read only
/// where an index or a condition around one depends on the score. Errors: a mistake in the variant, and arguments that
/// a launch refuses.
///
/// Cost: nothing where interval arithmetic over the launch's sizes, scalars and integer tensors shows that all indices
/// lie within; else the indices in doubt, and the conditions around them, are evaluated at B * H * Sq * Sk elements
/// until one is found, by as many threads as CPU kernels run on: a few nanoseconds an element and thread, and about D
/// more where they depend on the score. Floats are float32 and may differ in the last digit from those of a kernel.
Expected<std::optional<IndexFault>> findIndexFault(const Variant &variant, const LaunchArgs &args);

} // namespace attune
#pragma GCC visibility pop
