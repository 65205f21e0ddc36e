//===- TestMaskDomain.h - Print the tiles that a mask visits -----------------===//
//
// The pass test-mask-domain: changes nothing; standard output has, for each tile of the fixed axis (`axis`), the
// segments of tile indices of the other that its tile.domain evaluates to (passes/analysis/mask/MaskAnalysis.h). What
// depends on b, h, scalars or uniform loads counts as visible.
//
//     attn.attention @causal ... mask { q >= k }        q 128: [0, 2) full [2, 4) partial
//                                                       k 128: [1, 2) partial [2, 3) full
//
//===----------------------------------------------------------------------===//
#pragma once

namespace attune {

/// Registers the pass, for `attune-opt`.
void registerTestMaskDomain();

} // namespace attune
