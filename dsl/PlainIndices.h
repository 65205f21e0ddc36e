//===- PlainIndices.h - What a launch can know about indices ----------------===//
#pragma once

#include "attune/Kernel.h"
#include "attune/Variant.h"

#include <vector>

namespace attune::dsl {

/// For each of variant.tensors(), the indices whose least and greatest values follow from the launch's extents and q
/// offset alone, for TensorParam::indices.
///
/// An index is one where it is linear in coordinates and extents: `k`, `q - k + Sk - 1`, `2 * q`, `7`. Its guards are
/// the conditions under which its element is evaluated: those of the selects, && and || around it. Where one of them is
/// more than comparisons of such expressions joined by and, the index has no place in the list. Of a mask those of its
/// conditions that are such comparisons guard the score; the others are taken to let some element of each kind through.
/// Elements that are clamped are left out.
///
/// A tensor in `gradients` whose indices are coordinates, q and k among them, needs an element for each q and k, whether or
/// not it is clamped or broadcast: its gradient is formed by tiles.
std::vector<std::vector<IndexParam>> plainIndices(const Variant &variant,
                                                  const std::vector<std::string> &gradients = {});

} // namespace attune::dsl
