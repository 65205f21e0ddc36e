//===- RandomVariant.h - Random variants with matching inputs -----------------===//
//
// Differential tests draw a variant, shapes and inputs from a 64-bit seed, run them on a target and compare
// with the reference:
//
//     RandomCase random = randomCase(seed, {.dtype = bf16});
//     INFO(random.describe());                        // the seed, the shapes and the variant as JSON
//     Expected<Output> exact = attention(random.problem);
//
// The same seed and options give the same case on every machine. Over many seeds every operation of Expr.h
// occurs, with captured tensors of every dtype and rank, indices in and out of range (clamped), run-time scalars,
// dropout, block patterns, grouped heads, q offsets, -inf scores, rows without visible keys, and lengths 0,
// 1, ragged and multiples of a tile.
//
// What never occurs is an expression whose float32 value says nothing about its real value: each float is
// built with a bound on its size and on its float32 error, comparisons of floats switch between branches
// that agree at the switch or are exact, and casts to integers stay away from the integers' edges.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/reference/Reference.h"

#include <memory>

namespace attune::reference {

struct RandomOptions {
  std::optional<DType> dtype = {}; ///< of q, k, v; unset: any of f32, f16, bf16
  int64_t maxLength = 160;         ///< of Sq and Sk
  int64_t maxHeadDim = 96;         ///< of D and Dv, which are multiples of 8
  bool allowEmpty = true;          ///< Sk = 0 in a few cases
};

struct RandomCase {
  uint64_t seed = 0;
  std::shared_ptr<const Variant> variant;
  Problem problem; ///< problem.variant points to `variant`; binds exactly what the variant names

  /// Seed, shapes, launch values and captured tensors in one line, then the variant as JSON.
  std::string describe() const;
};

/// The case of `seed`. The variant has no error.
RandomCase randomCase(uint64_t seed, const RandomOptions &options = {});

} // namespace attune::reference
