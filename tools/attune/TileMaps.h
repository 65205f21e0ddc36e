//===- TileMaps.h - The tile map of a request, and its pictures ---------------===//
#pragma once

#include "tools/attune/Options.h"

namespace attune::cli {

/// The map of the request's mask and block pattern. Errors: those of tileMap, and a tensor or scalar without data.
Expected<TileMap> makeTileMap(const Request &request, const Shape &shape, int tileQ, int tileK,
                              std::optional<int32_t> qOffset = {}, uint64_t seed = 0);

/// The map of a mask of which tiles are asked one by one, or that reads tensors or scalars, in the least tiles, of
/// 16 x 16 and more, of which there are some millions at most. Null for other masks, where a captured tensor has no data
/// (neither a --tensor with a source nor a built-in's default), or more than 2^28 elements of the mask would be
/// evaluated.
Expected<std::shared_ptr<const TileMap>> knownTileMap(const Request &request, const Shape &shape,
                                                      std::optional<int32_t> qOffset = {}, uint64_t seed = 0);

/// Elements around one of them, as tiles of a single one: full or empty.
struct ElementMap {
  TileMap map;
  int64_t firstQuery = 0, firstKey = 0;
};
/// At most `queries` x `keys` around query `q` and key `k` of head (b, h), by the reference. Errors: those of
/// makeTileMap, and a request of text, which has no formula.
Expected<ElementMap> makeElementMap(const Request &request, const Shape &shape, int64_t b, int64_t h, int64_t q,
                                    int64_t k, int64_t queries, int64_t keys, std::optional<int32_t> qOffset,
                                    uint64_t seed);

/// One head of a map.
struct TileMapHead {
  const TileMap &map;
  int64_t b = 0, h = 0, firstQuery = 0;
  TileClass at(int64_t row, int64_t column) const { return map.at(b, h, row, column); }
};

/// Letters, at most 64 x 32: '#' full, '+' partly visited or partial, '.' empty; behind each row the tiles that it
/// visits.
std::string tileMapText(const TileMapHead &head);
/// An SVG image, of at most 512 x 512 cells.
std::string tileMapSvg(const TileMapHead &head, const std::string &title);
/// A PNG image, a pixel or a square of pixels each tile.
std::string tileMapPng(const TileMapHead &head);

} // namespace attune::cli
