//===- VariantName.h - What a variant of the command line is called -----------===//
//
//     --score 's + bias[h,q,k]' --mask 'q>=k'      score_s_plus_bias_h_q_k_mask_q_ge_k
//     causal --sink sinks --dropout 0.1            causal_sink_sinks_dropout
//
// The kernel's symbol and its cache entry carry the name, which is part of the cache key. It is made of the expressions
// as they are read, so that the spelling does not count: q>=k and q >= k are one variant and one entry.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Variant.h"

#include <optional>
#include <string>

namespace attune::cli {

/// The name of `variant`, to which flags added `score` and `mask`, and what `base` lacks otherwise. An identifier; a long
/// one is cut, and ends in a digest of the whole.
std::string nameOf(const Variant &variant, const Variant &base, const std::optional<Expr> &score,
                   const std::optional<Expr> &mask);

} // namespace attune::cli
