//===- PlainIndices.h - Indices of captured tensors that a launch can check -===//
#pragma once

#include "attune/Kernel.h"
#include "attune/Variant.h"

#include <vector>

namespace attune::dsl {

/// For each of variant.tensors(), the indices whose minimum and maximum follow from the launch's extents and q offset
/// alone, for TensorParam::indices. A launch checks these against the tensor's shape.
///
/// An index is listed if it is linear in coordinates and extents: `k`, `q - k + Sk - 1`, `2 * q`, `7`. The guards of an
/// index are the conditions of the selects, && and || around its load. An index is not listed if one of its guards is
/// anything but comparisons of linear expressions, joined by and. The conjuncts of the mask that are such comparisons
/// guard the score; the other conjuncts are ignored. Loads that are clamped are not listed.
///
/// A tensor in `gradients` whose indices are coordinates that include q and k must have an element for each q and k,
/// even if its loads are clamped or broadcast, because its gradient is computed by tiles of q and k.
std::vector<std::vector<IndexParam>> plainIndices(const Variant &variant,
                                                  const std::vector<std::string> &gradients = {});

} // namespace attune::dsl
