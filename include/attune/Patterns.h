//===- Patterns.h - Sparse attention patterns of the literature -------------===//
//
// Each pattern is a Mask (Builtins.h), so patterns combine with other masks, and kernels skip the tiles that a pattern
// masks as they do for any mask:
//
//     auto longformer = Variant("longformer").mask(localGlobal(256, 64));
//     auto bigBird    = Variant("big_bird").mask(causal() && bigbird(64, 1, 1, 3));
//     auto video      = Variant("video").mask(sta(384, {5, 6, 10}, {3, 3, 3}));
//
//     | mask                                         | query q sees key k iff                                       |
//     |----------------------------------------------|--------------------------------------------------------------|
//     | localGlobal(w, g)                            | abs(q - k) <= w || q < g || k < g                            |
//     | localGlobal(w, g, d)                         | (abs(q - k) <= w * d && (q - k) % d == 0) || q < g || k < g  |
//     | strided(l)                                   | q >= k && (q - k < l || (q - k) % l == 0)                    |
//     | fixed(l, c)                                  | q >= k && (q / l == k / l || k % l >= l - c)                 |
//     | butterfly(n)                                 | q / n and k / n differ in at most one binary digit           |
//     | bigbird(n, w, g, r, seed)                    | with i = q / n and j = k / n: abs(i - j) <= w || i < g ||    |
//     |                                              | j < g || j is one of r numbers drawn for (h, i)              |
//     | natten(height, width, window)                | in both coordinates, k is in the window around q             |
//     | sta(n, {T, H, W}, {t, h, w})                 | in all three coordinates, the tile of k is in the window     |
//     |                                              | around the tile of q                                         |
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Builtins.h"

#include <array>
#include <cstdint>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {

/// `window` keys to each side of the query (the paper's window counts both sides), at distances that are multiples of
/// `dilation`, and the first `global` queries and keys, which see and are seen by all (Longformer, Beltagy et al. 2020,
/// arXiv 2004.05150; there, global tokens may be anywhere).
Mask localGlobal(Operand window, Operand global, Operand dilation = 1);

/// The last `stride` keys and every key whose distance is a multiple of `stride`; causal (Sparse Transformer, Child et
/// al. 2019, arXiv 1904.10509, section 4.3; both heads of the factorisation in one).
Mask strided(Operand stride);

/// The keys of the query's own section of `length`, and the last `summary` keys of each section before it; causal
/// (Sparse Transformer, section 4.3).
Mask fixed(Operand length, Operand summary);

/// Blocks of `block` queries and keys whose numbers are equal or differ in one binary digit: the flat block butterfly
/// (Pixelated Butterfly, Dao et al. 2022, arXiv 2112.00029, without its low-rank term). A row of n blocks sees about
/// log2(n) + 1 of them.
Mask butterfly(Operand block);

/// In blocks of `block` queries and keys: `window` blocks to each side of the query's, the first `global` blocks of
/// queries and keys, and `random` blocks for each head and row of blocks, drawn by a hash of `seed` (BigBird, Zaheer et
/// al. 2020, arXiv 2007.14062). Draws may coincide with each other and with the other blocks, and they depend on the
/// number of blocks of keys: a longer sequence draws others. `random` is a number from 0 to 16, written out.
Mask bigbird(Operand block, Operand window, Operand global, Operand random, Operand seed = 0);

/// Neighbourhood attention of an image, with row-major tokens: q = y * width + x. A query sees the `window` x `window`
/// pixels around it; at a border, the window is moved inside the image, so that all queries see as many keys
/// (Hassani et al. 2023, arXiv 2204.07143). `window` is odd, and at most `height` and `width`.
Mask natten(Operand height, Operand width, Operand window);

/// Sliding tile attention of a video: `tile` tokens that follow each other are a tile, and tiles are in row-major order
/// of time, height and width. Each query of a tile sees all tokens of the `window` of tiles around it, which is moved
/// inside the video at a border (Zhang et al. 2025, arXiv 2502.04507). The sides of `window` are odd, and at most those
/// of `tiles`. Tokens after the last tile, such as text, are seen by none: sta(...) || k >= n shows those from n on.
Mask sta(Operand tile, std::array<Operand, 3> tiles, std::array<Operand, 3> window);

} // namespace attune
#pragma GCC visibility pop
