//===- TileMap.h - What a mask leaves of each tile ---------------------------===//
//
//     TileMapArgs args = {.sizes = {1, 8, 8, 4096, 4096}, .tensors = {{"ids", ids}}};
//     Expected<TileMap> map = tileMap(variant, args);
//     map->visited(), map->partial(), map->all()        // tiles over all heads
//     map->at(b, h, row, column)                        // TileClass::Empty, Partial or Full
//
// The classes are those of the analysis that a kernel's loops come from, with the values of captured tensors: a tile
// that the analysis cannot prove empty is visited, one that it cannot prove full is partial. They are computed on the
// host; captured tensors lie there.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attune/Kernel.h"
#include "attune/ProblemSizes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#pragma GCC visibility push(default) // what libattune.so exports
namespace attune {
class Variant;
struct IrText;

enum class TileClass : uint8_t {
  Empty,   ///< hidden from all of its queries, by proof; neither loaded nor computed
  Partial, ///< visited, and masked element by element
  Full     ///< visited, and seen by all of its queries, by proof
};

/// What tileMap() is asked. `tensors` and `scalars` are those of the variant, in host memory; those that neither the mask
/// nor the block pattern reads are not looked at.
struct TileMapArgs {
  ProblemSizes sizes; ///< batch, heads, queries and keys, each at least 1
  int tileQ = 128;    ///< queries of a tile: a multiple of 16, at most 2^20
  int tileK = 128;    ///< keys of a tile: the same
  std::vector<NamedTensor> tensors = {};
  std::vector<NamedScalar> scalars = {};
  std::optional<int32_t> qOffset = {}; ///< only for a variant with .qOffset; unset is 0
};

/// The classes of all tiles. Heads, and batches, that all see the same have one entry.
struct TileMap {
  int tileQ = 0, tileK = 0;
  int64_t queries = 0, keys = 0;
  int64_t batches = 0, heads = 0;         ///< that the map tells apart
  int64_t sameBatches = 1, sameHeads = 1; ///< that each of these stands for
  int64_t rows = 0, columns = 0;          ///< ceil(queries / tileQ), ceil(keys / tileK)
  std::vector<TileClass> tiles = {};      ///< [batches, heads, rows, columns]

  TileClass at(int64_t b, int64_t h, int64_t row, int64_t column) const {
    return tiles[size_t((((b / sameBatches) * heads + h / sameHeads) * rows + row) * columns + column)];
  }
  /// Tiles over all batches and heads.
  int64_t all() const { return int64_t(tiles.size()) * sameBatches * sameHeads; }
  int64_t visited() const { return count(TileClass::Partial) + count(TileClass::Full); }
  int64_t partial() const { return count(TileClass::Partial); }

private:
  int64_t count(TileClass of) const { return std::ranges::count(tiles, of) * sameBatches * sameHeads; }
};

/// Errors: sizes below 1, tiles that are no multiples of 16, a map of more than 2^28 tiles, a tensor or scalar that the mask reads and that is
/// missing, on a device, or of another dtype or rank than declared.
Expected<TileMap> tileMap(const Variant &variant, const TileMapArgs &args);
/// The same of attn text.
Expected<TileMap> tileMapOfText(const IrText &text, const TileMapArgs &args);

} // namespace attune
#pragma GCC visibility pop
