//===- MaskAt.h - A mask with the source location of a call ------------------===//
#pragma once

#include "attune/Builtins.h"
#include "dsl/Trace.h"

namespace attune::dsl {

/// A mask whose nodes have the source location of the call of the built-in.
inline Mask maskAt(std::source_location where, Mask::Function definition) {
  return Mask([at = place(where), definition = std::move(definition)](Index b, Index h, Index q, Index k) {
    LocationScope scope(at);
    return definition(b, h, q, k);
  });
}

} // namespace attune::dsl
