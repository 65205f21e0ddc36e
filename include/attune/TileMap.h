//===- TileMap.h - Which tiles a mask leaves visible -------------------------===//
//
//     TileMapArgs args = {.sizes = {1, 8, 8, 4096, 4096}, .tensors = {{"ids", ids}}};
//     Expected<TileMap> map = tileMap(variant, args);
//     map->visited(), map->partial(), map->all()        // tiles over all heads
//     map->at(b, h, row, column)                        // TileClass::Empty, Partial or Full
//
// The classes come from the same mask analysis as a kernel's loops, with the values of captured tensors. A tile that
// the analysis cannot prove empty is visited; a visited tile that the analysis cannot prove full is partial. The
// classes are computed on the host, from captured tensors in host memory.
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
  Empty,   ///< proven: no query of the tile sees a key of the tile; neither loaded nor computed
  Partial, ///< visited, and masked element by element
  Full     ///< proven: every query of the tile sees every key of the tile; visited, not masked
};

/// The arguments of tileMap(). `tensors` and `scalars` are the variant's, in host memory. Tensors and scalars that
/// neither the mask nor the block pattern reads are ignored.
struct TileMapArgs {
  ProblemSizes sizes; ///< batch, heads, queries and keys, each at least 1
  int tileQ = 128;    ///< queries of a tile: a multiple of 16, at most 2^20
  int tileK = 128;    ///< keys of a tile: likewise
  std::vector<NamedTensor> tensors = {};
  std::vector<NamedScalar> scalars = {};
  std::optional<int32_t> qOffset = {}; ///< only for a variant with .qOffset; unset is 0
};

/// The classes of all tiles. If all heads (or all batches) have the same classes, they share one entry.
struct TileMap {
  int tileQ = 0, tileK = 0;
  int64_t queries = 0, keys = 0;
  int64_t batches = 0, heads = 0;         ///< entries of `tiles` along these dimensions
  int64_t sameBatches = 1, sameHeads = 1; ///< batches and heads of the problem that share an entry
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

/// Errors: sizes below 1, tiles that are no multiples of 16, a map of more than 2^28 tiles, a tensor or scalar that the
/// mask reads and that is missing, on a device, or of another dtype or rank than declared.
Expected<TileMap> tileMap(const Variant &variant, const TileMapArgs &args);
/// As tileMap, for attn text.
Expected<TileMap> tileMapOfText(const IrText &text, const TileMapArgs &args);

} // namespace attune
#pragma GCC visibility pop
