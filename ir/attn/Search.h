//===- Search.h - attn.search, which searches a captured vector -----------===//
#pragma once

#include "ir/attn/Attn.h"

#define GET_OP_CLASSES
#include "ir/attn/AttnSearch.h.inc"

namespace attune::attn {

/// The name of the result of a search of the captured vector `vector`.
inline std::string nameOfSearch(llvm::StringRef vector) { return (vector + "_count").str(); }

} // namespace attune::attn
