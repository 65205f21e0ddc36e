//===- SearchPrimitives.cuh - Device functions that search for visible tiles ---===//

//@ next_visible
/// What a search asks of a tile.
struct TileAnswer {
  bool visible, full;
};

/// A tile that a search has found, and the answers for the 32 from `origin` on, bit i for tile origin + i.
struct FoundTile {
  int tile, origin, visible, full;
};

/// The first visible tile n, from <= n < bound; `bound` when there is none. The lanes of a warp ask for 32 at a time; past the last they ask for the
/// last again.
template <typename Ask> __device__ __forceinline__ FoundTile next_visible(int from, int bound, Ask ask) {
#pragma unroll 1
  for (int first = from; first < bound; first += 32) {
    const int tile = first + int(threadIdx.x % 32);
    const TileAnswer answer = ask(min(tile, bound - 1));
    const bool is_visible = answer.visible && tile < bound;
    const unsigned visible = __ballot_sync(0xffffffffu, is_visible), full = __ballot_sync(0xffffffffu, is_visible && answer.full);
    if (visible)
      return {first + __ffs(int(visible)) - 1, first, int(visible), int(full)};
  }
  return {bound, bound, 0, 0};
}

/// The same, without asking again for tiles whose answers an earlier search has left: `origin`, `visible` and `full`.
template <typename Ask>
__device__ __forceinline__ FoundTile next_visible(int from, int bound, int origin, int visible, int full, Ask ask) {
  const unsigned place = unsigned(from - origin);
  if (place < 32) {
    const unsigned ahead = unsigned(visible) >> place;
    if (ahead)
      return {from + __ffs(int(ahead)) - 1, origin, visible, full};
    from = origin + 32;
  }
  return next_visible(from, bound, ask);
}

//@ next_visible_parts : next_visible
/// What a search asks of a tile where it looks for parts of the rows too: whether it shows each of them something.
template <int Parts> struct PartsAnswer {
  bool visible, full, part[Parts];
};

/// The same; `begins` are for each part the first of the 32 tiles from `origin` on that shows it something, or the one after them.
template <int Parts, typename Ask>
__device__ __forceinline__ FoundTile next_visible_parts(int from, int bound, int (&begins)[Parts], Ask ask) {
  const FoundTile found = next_visible(from, bound, [&](int tile) -> TileAnswer {
    const PartsAnswer<Parts> answer = ask(tile);
    return {answer.visible, answer.full};
  });
#pragma unroll
  for (int i = 0; i < Parts; ++i)
    begins[i] = bound;
  if (found.tile < bound) {
    const PartsAnswer<Parts> answer = ask(min(found.origin + int(threadIdx.x % 32), bound - 1));
#pragma unroll
    for (int i = 0; i < Parts; ++i) {
      const unsigned shown = __ballot_sync(0xffffffffu, answer.part[i]);
      begins[i] = found.origin + (shown ? __ffs(int(shown)) - 1 : 32);
    }
  }
  return found;
}

//@ touches_block
/// Whether rows [row, row + TileRows) and keys [key, key + TileColumns) touch a set block of Rows x Columns; `row` and `key` are
/// multiples of the tile's sides, so that a side that divides the block's lies in one block.
template <int TileRows, int TileColumns, int Rows, int Columns>
__device__ __forceinline__ bool touches_block(const unsigned char *pattern, long long row_stride, long long column_stride,
                                              long long row_blocks, long long column_blocks, int row, int key) {
  const int i0 = row / Rows, j0 = key / Columns;
  const int row_end = int(min((long long)(Rows % TileRows ? (row + TileRows - 1) / Rows : i0) + 1, row_blocks));
  const int column_end = int(min((long long)(Columns % TileColumns ? (key + TileColumns - 1) / Columns : j0) + 1, column_blocks));
  bool touches = false;
#pragma unroll 1
  for (int i = i0; i < row_end; ++i)
#pragma unroll 1
    for (int j = j0; j < column_end; ++j)
      touches |= __ldg(pattern + i * row_stride + j * column_stride) != 0;
  return touches;
}
