//===- Tightness.h - Tiles of a mask against its elements ---------------------===//
#pragma once

#include "attune/attune.h"

#include <catch2/catch.hpp>

namespace attune::testing {

/// How often the map has the best class, of tiles that have another than Partial.
struct Tightness {
  int64_t empty = 0, full = 0, emptyFound = 0, fullFound = 0;
};

/// Holds every tile of `map` to what its elements see: none that is seen is empty, none with a hidden element full. `sees` takes b, h, q
/// and k.
template <typename Sees> Tightness compare(const TileMap &map, const ProblemSizes &sizes, const Sees &sees) {
  Tightness result;
  int64_t wrong = 0;
  for (int64_t b = 0; b < sizes.batch; ++b)
    for (int64_t h = 0; h < sizes.heads; ++h)
      for (int64_t row = 0; row < map.rows; ++row)
        for (int64_t column = 0; column < map.columns; ++column) {
          bool any = false, all = true;
          for (int64_t q = row * map.tileQ; q < std::min((row + 1) * map.tileQ, sizes.queries); ++q)
            for (int64_t k = column * map.tileK; k < (column + 1) * map.tileK; ++k) {
              const bool seen = k < sizes.keys && sees(b, h, q, k);
              any |= seen;
              all &= seen;
            }
          const TileClass of = map.at(b, h, row, column);
          wrong += any && of == TileClass::Empty;
          wrong += !all && of == TileClass::Full;
          result.empty += !any;
          result.full += all;
          result.emptyFound += !any && of == TileClass::Empty;
          result.fullFound += all && of == TileClass::Full;
        }
  CHECK(wrong == 0);
  return result;
}

} // namespace attune::testing
