//===- Primitives.cuh - Device functions of the generated kernels -----------===//
//
// One function per PTX idiom. The printer pastes the functions that a kernel uses, in this order. A line
//
//     //@ name : needs
//
// starts a function and names the earlier ones that it needs; the lines above the first one stay out. The
// whole file is also a valid CUDA translation unit without includes. Section numbers are those of PTX ISA 9.0.
//
//===----------------------------------------------------------------------===//

//@ infinity
/// Positive infinity.
#define infinity __int_as_float(0x7f800000)

//@ not_a_number
/// A quiet NaN.
#define not_a_number __int_as_float(0x7fc00000)

//===----------------------------------------------------------------------===//
// Integers: 32- and 64-bit, wrapping
//===----------------------------------------------------------------------===//

//@ wrap_add
/// a + b modulo 2^32 or 2^64.
__device__ __forceinline__ int wrap_add(int a, int b) { return int(unsigned(a) + unsigned(b)); }
__device__ __forceinline__ long long wrap_add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}

//@ wrap_sub
/// a - b modulo 2^32 or 2^64.
__device__ __forceinline__ int wrap_sub(int a, int b) { return int(unsigned(a) - unsigned(b)); }
__device__ __forceinline__ long long wrap_sub(long long a, long long b) {
  return (long long)((unsigned long long)a - (unsigned long long)b);
}

//@ wrap_mul
/// a * b modulo 2^32 or 2^64.
__device__ __forceinline__ int wrap_mul(int a, int b) { return int(unsigned(a) * unsigned(b)); }
__device__ __forceinline__ long long wrap_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}

//@ wrap_abs
/// |a|, where the lowest number stays what it is.
__device__ __forceinline__ int wrap_abs(int a) { return a < 0 ? int(0u - unsigned(a)) : a; }
__device__ __forceinline__ long long wrap_abs(long long a) {
  return a < 0 ? (long long)(0ull - (unsigned long long)a) : a;
}

//@ floor_div
/// a / b rounded down.
__device__ __forceinline__ int floor_div(int a, int b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
__device__ __forceinline__ long long floor_div(long long a, long long b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

//@ ceil_div
/// a / b rounded up.
__device__ __forceinline__ int ceil_div(int a, int b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }
__device__ __forceinline__ long long ceil_div(long long a, long long b) {
  return a / b + (a % b != 0 && (a < 0) == (b < 0));
}

//@ float_to_int
/// Truncated toward zero; values out of range saturate, NaN gives 0. PTX 9.7.9.21, cvt.rzi.s32.f32.
__device__ __forceinline__ int float_to_int(float x) {
  int n;
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(n) : "f"(x));
  return n;
}

//@ float_to_int64
/// Truncated toward zero; values out of range saturate, NaN gives 0. PTX 9.7.9.21, cvt.rzi.s64.f32.
__device__ __forceinline__ long long float_to_int64(float x) {
  long long n;
  asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(n) : "f"(x));
  return x != x ? 0 : n;
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

//@ max_nan
/// The larger of two, NaN if either is. PTX 9.7.3.12, max.NaN.f32.
__device__ __forceinline__ float max_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

//@ min_nan
/// The smaller of two, NaN if either is. PTX 9.7.3.11, min.NaN.f32.
__device__ __forceinline__ float min_nan(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

//@ fast_exp2
/// 2^x, relative error 2^-22. PTX 9.7.3.21, ex2.approx.ftz.f32.
__device__ __forceinline__ float fast_exp2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

//@ fast_exp : fast_exp2
/// e^x, relative error 2^-17 (from rounding x * log2(e)).
__device__ __forceinline__ float fast_exp(float x) { return fast_exp2(x * 1.44269504f); }

//@ fast_log2
/// log2(x), relative error 2^-17: near 1, where lg2 has an absolute error of 2^-22, by the series of
/// log(1 + t). PTX 9.7.3.20, lg2.approx.ftz.f32.
__device__ __forceinline__ float fast_log2(float x) {
  float far;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(far) : "f"(x));
  const float t = x - 1.0f;
  const float near = t * fmaf(t, fmaf(t, fmaf(t, fmaf(t, 0.28853901f, -0.36067376f), 0.48089835f), -0.72134752f), 1.44269504f);
  return fabsf(t) < 0.0625f ? near : far;
}

//@ fast_log : fast_log2
/// Natural logarithm, relative error 2^-17.
__device__ __forceinline__ float fast_log(float x) { return fast_log2(x) * 0.693147181f; }

//@ fast_divide
/// a / b within 2 ulp over the full range. PTX 9.7.3.8, div.full.f32.
__device__ __forceinline__ float fast_divide(float a, float b) {
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

//@ fast_sqrt
/// Square root, relative error 2^-23. PTX 9.7.3.16, sqrt.approx.ftz.f32.
__device__ __forceinline__ float fast_sqrt(float x) {
  float r;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

//@ fast_rsqrt
/// 1 / sqrt(x), relative error 2^-22. PTX 9.7.3.17, rsqrt.approx.ftz.f32.
__device__ __forceinline__ float fast_rsqrt(float x) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

//@ fast_tanh
/// tanh(x), relative error 2^-11. PTX 9.7.3.22, tanh.approx.f32.
__device__ __forceinline__ float fast_tanh(float x) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

//@ exp_tanh : fast_exp2
/// tanh(x), relative error 2^-19: 1 - 2 / (e^(2 |x|) + 1) with the sign of x, and the series below 1/4.
__device__ __forceinline__ float exp_tanh(float x) {
  const float t = x * x;
  const float near = x * fmaf(t, fmaf(t, fmaf(t, -0.0539682540f, 0.133333333f), -0.333333333f), 1.0f);
  const float far = 1.0f - __fdividef(2.0f, fast_exp2(fabsf(x) * 2.88539008f) + 1.0f);
  return fabsf(x) < 0.25f ? near : copysignf(far, x);
}

//===----------------------------------------------------------------------===//
// Low precision
//===----------------------------------------------------------------------===//

//@ pack_bf16
/// Two floats rounded to nearest even; `low` in bits 0 to 15. The instruction names the high half first.
/// PTX 9.7.9.21, cvt.rn.bf16x2.f32.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

//@ pack_f16
/// Two floats rounded to nearest even; `low` in bits 0 to 15. The instruction names the high half first.
/// PTX 9.7.9.21, cvt.rn.f16x2.f32.
__device__ __forceinline__ unsigned pack_f16(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

//@ columns_below
/// Bit 2 j + e: whether column 8 j + e is below `bound`. PTX 9.7.1.22, bmsk.
__device__ __forceinline__ unsigned columns_below(int bound) {
  const int below = max(bound, 0);
  unsigned columns;
  asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(columns) : "r"(below / 8 * 2 + min(below % 8, 2)));
  return columns;
}

//@ behind
/// `value`, which ptxas takes to follow from `first` too: blockDim.y is 1, in blocks of one dimension, which it does not know.
__device__ __forceinline__ float behind(float value, float first) {
  return __int_as_float(__float_as_int(value) ^ (__float_as_int(first) & int(blockDim.y - 1)));
}

//@ test_bit
/// Bit `index` of a word; ptxas moves several to predicates at once.
__device__ __forceinline__ bool test_bit(unsigned word, int index) { return (word & 1u << index) != 0; }

//@ unpack_bf16
/// The float in bits 0 to 15 of a pair, or, where `high`, in bits 16 to 31.
__device__ __forceinline__ float unpack_bf16(int pair, bool high) {
  return __int_as_float(high ? pair & 0xffff0000 : int(unsigned(pair) << 16));
}

//@ unpack_f16
/// The float in bits 0 to 15 of a pair, or, where `high`, in bits 16 to 31. PTX 9.7.9.21, cvt.f32.f16.
__device__ __forceinline__ float unpack_f16(int pair, bool high) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)(high ? unsigned(pair) >> 16 : unsigned(pair) & 0xffff)));
  return x;
}

//@ split_tf32
/// x = big + small with both rounded to tf32. PTX 9.7.9.21, cvt.rna.tf32.f32.
__device__ __forceinline__ void split_tf32(float x, unsigned &big, unsigned &small) {
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(big) : "f"(x));
  const float rest = x - __uint_as_float(big);
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(small) : "f"(rest));
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

//@ load_f32
__device__ __forceinline__ float load_f32(const float *address) { return __ldg(address); }

//@ load_bf16
/// One bf16 widened to float.
__device__ __forceinline__ float load_bf16(const unsigned short *address) {
  return __uint_as_float(unsigned(__ldg(address)) << 16);
}

//@ load_f16
/// One f16 widened to float. PTX 9.7.9.21, cvt.f32.f16.
__device__ __forceinline__ float load_f16(const unsigned short *address) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(__ldg(address)));
  return x;
}

//@ load_i32
__device__ __forceinline__ int load_i32(const int *address) { return __ldg(address); }

//@ load_i64
__device__ __forceinline__ long long load_i64(const long long *address) { return __ldg(address); }

//@ load_bool
__device__ __forceinline__ bool load_bool(const unsigned char *address) { return __ldg(address) != 0; }

//@ load_bound
/// An entry of a table that another kernel of the launch may still be writing when this one starts: the compiler leaves the load behind
/// wait_launch. PTX 9.7.9.8, ld.global.
__device__ __forceinline__ int load_bound(const int *address) {
  int n;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(n) : "l"(address));
  return n;
}
__device__ __forceinline__ long long load_bound(const long long *address) {
  long long n;
  asm volatile("ld.global.b64 %0, [%1];" : "=l"(n) : "l"(address));
  return n;
}
__device__ __forceinline__ bool load_bound(const unsigned char *address) {
  unsigned n;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(n) : "l"(address));
  return n != 0;
}

//@ wait_launch
/// Until the kernel before in the stream has ended, and what it wrote can be read. PTX 9.7.13.13, griddepcontrol.wait.
__device__ __forceinline__ void wait_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

//@ start_next_launch
/// Lets the next kernel in the stream start once all blocks have come here; it waits by wait_launch. PTX 9.7.13.13, griddepcontrol.launch_dependents.
__device__ __forceinline__ void start_next_launch() { asm volatile("griddepcontrol.launch_dependents;"); }

//@ store_bf16 : pack_bf16
/// One float rounded to bf16.
__device__ __forceinline__ void store_bf16(unsigned short *address, float x) {
  *address = (unsigned short)pack_bf16(x, 0.0f);
}

//@ store_f16 : pack_f16
/// One float rounded to f16.
__device__ __forceinline__ void store_f16(unsigned short *address, float x) {
  *address = (unsigned short)pack_f16(x, 0.0f);
}

//@ clamp_index
/// The nearest index in [0, extent); extent is at least 1.
__device__ __forceinline__ int clamp_index(int index, long long extent) {
  return max(min(index, int(min(extent - 1, 2147483647ll))), 0);
}
__device__ __forceinline__ long long clamp_index(long long index, long long extent) {
  return max(min(index, extent - 1), 0ll);
}

//@ extent
/// An extent as an int, at most 2^31 - 1.
__device__ __forceinline__ int extent(long long extent) { return extent < 2147483647ll ? int(extent) : 2147483647; }

//@ grid_tile
/// A tile of queries by its number: the tiles of a head side by side, then heads, then batches. Those of a head run from its first, from its
/// last, or from both ends: its last, its first, its last but one, ...
struct GridTile {
  int batch, head, row;
};
enum TileOrder { first_first, last_first, both_ends };
template <int Rows, TileOrder order>
__device__ __forceinline__ GridTile grid_tile(unsigned number, int query_length, int heads) {
  const unsigned tiles = unsigned(query_length + Rows - 1) / Rows;
  const unsigned batch_head = number / tiles, n = number % tiles;
  const unsigned tile = order == first_first ? n : order == last_first ? tiles - 1 - n : n % 2 ? n / 2 : tiles - 1 - n / 2;
  return {int(batch_head / heads), int(batch_head % heads), int(tile) * Rows};
}

//@ claimed_heads
/// Heads whose tiles of work stand side by side where blocks claim them. Three blocks of 128 rows, or two of 192, then share the keys and values of a
/// head at a time: with fewer, HBM is what long sequences wait for.
template <int Rows> __device__ __forceinline__ unsigned claimed_heads(int heads, int batch) {
  const unsigned all = heads * batch, most = max(gridDim.x * Rows / 384, 1u), groups = (all + most - 1) / most;
  return (all + groups - 1) / groups;
}

//@ claimed_tile : grid_tile
/// A tile of queries by its number where blocks take the next one when they are free. Tiles at one place of `group` heads stand side by side: they are
/// about equally long, and what blocks take in the end are the short ones of all these heads.
template <int Rows, TileOrder order>
__device__ __forceinline__ GridTile claimed_tile(unsigned number, unsigned group, int query_length, int heads, int batch) {
  const unsigned tiles = unsigned(query_length + Rows - 1) / Rows;
  unsigned first = 0, count = group;
  if (number >= tiles * group) {
    first = number / (tiles * group) * group;
    count = min(group, unsigned(heads * batch) - first);
    number -= first * tiles;
  }
  const unsigned n = number / count, batch_head = first + number % count, tile = order == first_first ? n : tiles - 1 - n;
  return {int(batch_head / heads), int(batch_head % heads), int(tile) * Rows};
}

//@ across_batches
/// The number, batch by batch, of the tile that is `number` in an order in which runs of `run` tiles of each of the `batches` follow one another. Where
/// the `tiles` of a batch are not a multiple of `run`, its runs have one.
template <int run> __device__ __forceinline__ unsigned across_batches(unsigned number, unsigned tiles, unsigned batches) {
  const unsigned length = tiles % run ? 1 : run, place = number / length;
  return place % batches * tiles + place / batches * length + number % length;
}

//@ work_tiles
/// Tiles of queries of all heads and batches.
template <int Rows>
__device__ __forceinline__ unsigned work_tiles(int query_length, int heads, int batch) {
  return unsigned(query_length + Rows - 1) / Rows * unsigned(heads) * unsigned(batch);
}

//@ work_number
/// The number of the tile that this block takes in a round: one of as many as there are blocks, or, where there are more `tiles`, of pairs of
/// neighbours first one, then the other. Pairs are dealt shifted by the golden section of the grid against each other: where a head has an odd number of tiles, some pairs
/// are of two heads, and each block gets its share of them.
template <bool pairs> __device__ __forceinline__ unsigned work_number(unsigned round, unsigned tiles) {
  if (!pairs || tiles <= gridDim.x)
    return round * gridDim.x + blockIdx.x;
  const unsigned deal = round / 2;
  return (deal * gridDim.x + (blockIdx.x + deal * (gridDim.x * 5 / 8)) % gridDim.x) * 2 + round % 2;
}

//@ claim_work
/// In lane 0 of a warp the number of the next tile of work that no block has taken, elsewhere 0: `counter` counts those after the grid's
/// first ones, one a block. PTX 9.7.13.5, atom.global.add.
__device__ __forceinline__ int claim_work(void *counter) {
  return threadIdx.x % 32 == 0 ? int(gridDim.x + atomicAdd(static_cast<unsigned *>(counter), 1u)) : 0;
}

//@ message
/// What one role tells another, in shared memory.
template <int Fields> struct Message {
  int field[Fields];
};

//@ send : message
/// Writes 2 fields, or fours. PTX 9.7.9.11, st.shared.v2 and v4.
template <int Fields> __device__ __forceinline__ void send(unsigned address, Message<Fields> message) {
  if constexpr (Fields == 2)
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(message.field[0]), "r"(message.field[1]) : "memory");
  else
#pragma unroll
    for (int i = 0; i < Fields; i += 4)
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address + 4 * i), "r"(message.field[i]), "r"(message.field[i + 1]),
                   "r"(message.field[i + 2]), "r"(message.field[i + 3])
                   : "memory");
}

//@ receive : message
/// Reads what another role sent. PTX 9.7.9.8, ld.shared.v2 and v4.
template <int Fields> __device__ __forceinline__ Message<Fields> receive(unsigned address) {
  Message<Fields> message;
  if constexpr (Fields == 2)
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(message.field[0]), "=r"(message.field[1]) : "r"(address) : "memory");
  else
#pragma unroll
    for (int i = 0; i < Fields; i += 4)
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(message.field[i]), "=r"(message.field[i + 1]), "=r"(message.field[i + 2]), "=r"(message.field[i + 3])
                   : "r"(address + 4 * i)
                   : "memory");
  return message;
}

//@ read_again
/// The same number, which the compiler takes for another: it does not keep what follows from both.
__device__ __forceinline__ unsigned read_again(unsigned number) {
  unsigned same;
  asm volatile("mov.u32 %0, %1;" : "=r"(same) : "r"(number));
  return same;
}

//@ read_block_id
/// blockIdx.x, read where it stands: the compiler does not keep it, or what follows from it, in registers until then.
__device__ __forceinline__ unsigned read_block_id() {
  unsigned id;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(id));
  return id;
}

//@ read_thread_id
/// threadIdx.x, read where it stands, as read_block_id.
__device__ __forceinline__ int read_thread_id() {
  int id;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(id));
  return id;
}

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

//@ write_bounds
/// The least and the greatest element that the rows of a tile read along dimension Dim of `tensor`, by one warp: tile n has rows
/// [n * Rows, (n + 1) * Rows) below `count`; row i reads element i + shift, or the nearest. Of bools, whether all and any are true.
/// `entry` numbers the tiles under all other indices, the last dimension fastest; from their number on it belongs to the next tensor:
/// the result is false, and `entry` counts from there.
template <int Rank, int Dim, int Rows, typename T>
__device__ __forceinline__ bool write_bounds(long long &entry, const T *tensor, const long long *stride, const long long *extent,
                                             T *bounds, const long long *bounds_stride, const long long *bounds_extent, int shift,
                                             int count) {
  long long entries = 1;
#pragma unroll
  for (int dim = 0; dim < Rank; ++dim)
    entries *= dim == Dim ? bounds_extent[dim] / 2 : extent[dim];
  if (entry >= entries) {
    entry -= entries;
    return false;
  }
  int row = 0;
#pragma unroll
  for (int dim = Rank - 1; dim >= 0; --dim) {
    long long index = entry;
    if (dim) {
      const long long size = dim == Dim ? bounds_extent[dim] / 2 : extent[dim];
      index = entry % size;
      entry /= size;
    }
    if (dim == Dim)
      row = int(index) * Rows;
    else
      tensor += index * stride[dim];
    bounds += (dim == Dim ? 2 * index : index) * bounds_stride[dim];
  }
  const int lane = int(threadIdx.x % 32), last = min(row + Rows, count) - 1;
  auto read = [&](int i) {
    const T value = __ldg(tensor + max(min((long long)i + shift, extent[Dim] - 1), 0ll) * stride[Dim]);
    return sizeof(T) == 1 ? T(value != 0) : value;
  };
  T least = read(min(row + lane, last)), greatest = least;
#pragma unroll
  for (int i = 32; i < Rows; i += 32) {
    const T value = read(min(row + lane + i, last));
    least = min(least, value);
    greatest = max(greatest, value);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    least = min(least, T(__shfl_xor_sync(0xffffffffu, least, distance)));
    greatest = max(greatest, T(__shfl_xor_sync(0xffffffffu, greatest, distance)));
  }
  if (lane == 0) {
    bounds[0] = least;
    bounds[bounds_stride[Dim]] = greatest;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

//@ shared_address
/// Address of `pointer` in the 32-bit shared window.
__device__ __forceinline__ unsigned shared_address(const void *pointer) {
  return unsigned(__cvta_generic_to_shared(pointer));
}

//@ swizzle
/// Byte offset of (row, column) in a tile of Rows rows, cut into panels of Panel bytes; `column` counts bytes.
/// The 16-byte chunk c of a row lies at chunk c xor ((row / (128 / Panel)) mod (Panel / 16)), so that the eight
/// rows which ldmatrix reads at once lie in different banks.
template <int Rows, int Panel>
__device__ __forceinline__ unsigned swizzle(unsigned row, unsigned column) {
  const unsigned exchange = row / (128 / Panel) % (Panel / 16) * 16;
  return column / Panel * (Rows * Panel) + row * Panel + (column % Panel ^ exchange);
}

//@ swizzle_step
/// The swizzled `address` of a lane moved by `row` rows (a multiple of 8, which exchanges nothing) and `column` bytes (a multiple
/// of 16, above what the lane adds): within a panel a column step is an exclusive or, so that the address is one register and constants.
template <int Rows, int Panel>
__device__ __forceinline__ unsigned swizzle_step(unsigned address, unsigned row, unsigned column) {
  return (address ^ column % Panel) + column / Panel * (Rows * Panel) + row * Panel;
}

//@ copy_async_16
/// Starts the copy of 16 bytes from global to shared memory. PTX 9.7.9.25.3.1, cp.async.cg.
__device__ __forceinline__ void copy_async_16(unsigned shared, const void *global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

//@ copy_async_16_if
/// Starts the copy of 16 bytes from global to shared memory; zeros, and no read, unless `valid`.
/// PTX 9.7.9.25.3.1, cp.async.cg with src-size.
__device__ __forceinline__ void copy_async_16_if(bool valid, unsigned shared, const void *global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}

//@ commit_copies
/// Closes the group of the copies started so far. PTX 9.7.9.25.3.2, cp.async.commit_group.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

//@ wait_copies
/// Waits until at most Pending groups are under way. PTX 9.7.9.25.3.3, cp.async.wait_group.
template <int Pending> __device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

//@ load_shared
/// PTX 9.7.9.8, ld.shared.f32.
__device__ __forceinline__ float load_shared(unsigned address) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address));
  return x;
}

//@ load_shared_int
/// PTX 9.7.9.8, ld.shared.b32.
__device__ __forceinline__ int load_shared_int(unsigned address) {
  int x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address));
  return x;
}

//@ load_shared_pair
/// Two floats side by side. PTX 9.7.9.8, ld.shared.v2.f32.
__device__ __forceinline__ float2 load_shared_pair(unsigned address) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address));
  return x;
}

//@ load_shared_int_pair
/// Two integers side by side. PTX 9.7.9.8, ld.shared.v2.b32.
__device__ __forceinline__ int2 load_shared_int_pair(unsigned address) {
  int2 x;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(address));
  return x;
}

//@ store_shared
/// PTX 9.7.9.11, st.shared.
__device__ __forceinline__ void store_shared(unsigned address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
__device__ __forceinline__ void store_shared(unsigned address, unsigned x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}

//@ scale_shared_16
/// Eight bf16 elements times `factor`, in place. PTX 9.7.9.8, ld.shared.v4; 9.7.4.4, mul.bf16x2; 9.7.9.11, st.shared.v4.
__device__ __forceinline__ void scale_shared_16(unsigned address, float factor) {
  unsigned by, x[4];
  asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(by) : "f"(factor));
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("mul.rn.bf16x2 %0, %0, %1;" : "+r"(x[i]) : "r"(by));
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}

//@ store_matrix
/// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8 and stores, of each matrix, row l / 4,
/// columns 2 (l % 4) and + 1. PTX 9.7.14.5.16, stmatrix.sync.aligned.m8n8.x4.
__device__ __forceinline__ void store_matrix(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

//@ copy_to_global_16
/// Copies 16 bytes from shared to global memory. PTX 9.7.9.8, ld.shared.v4; 9.7.9.11, st.global.v4.
__device__ __forceinline__ void copy_to_global_16(void *global, unsigned shared) {
  unsigned a, b, c, d;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared));
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

//===----------------------------------------------------------------------===//
// Warp
//===----------------------------------------------------------------------===//

//@ load_matrix
/// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8 and receives, of
/// each matrix, row l / 4, columns 2 (l % 4) and + 1. PTX 9.7.14.5.15, ldmatrix.sync.aligned.m8n8.x4.
__device__ __forceinline__ void load_matrix(unsigned &r0, unsigned &r1, unsigned &r2, unsigned &r3, unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address));
}

//@ load_matrix_transposed
/// As load_matrix, each matrix transposed: column l / 4, rows 2 (l % 4) and + 1. PTX 9.7.14.5.15, .trans.
__device__ __forceinline__ void load_matrix_transposed(unsigned &r0, unsigned &r1, unsigned &r2, unsigned &r3,
                                                       unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address));
}

//@ mma_bf16
/// d += a * b for 16 x 16 by 16 x 8. With g = lane / 4 and c = lane % 4:
///     d[e]        row g + 8 (e / 2), column 2 c + e % 2
///     a[e], pair  row g + 8 (e % 2), columns 8 (e / 2) + 2 c, + 1
///     b[e], pair  column g, rows 8 e + 2 c, + 1
/// PTX 9.7.14.5.14, mma.sync.aligned.m16n8k16.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//@ mma_f16
/// d += a * b for 16 x 16 by 16 x 8. With g = lane / 4 and c = lane % 4:
///     d[e]        row g + 8 (e / 2), column 2 c + e % 2
///     a[e], pair  row g + 8 (e % 2), columns 8 (e / 2) + 2 c, + 1
///     b[e], pair  column g, rows 8 e + 2 c, + 1
/// PTX 9.7.14.5.14, mma.sync.aligned.m16n8k16.
__device__ __forceinline__ void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//@ mma_tf32
/// d += a * b for 16 x 8 by 8 x 8, tf32 bits. With g = lane / 4 and c = lane % 4:
///     d[e]  row g + 8 (e / 2), column 2 c + e % 2
///     a[e]  row g + 8 (e % 2), contracted index c + 4 (e / 2)
///     b[e]  column g, contracted index c + 4 e
/// PTX 9.7.14.5.14, mma.sync.aligned.m16n8k8.
__device__ __forceinline__ void mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//@ shuffle_xor
/// The value of the lane at `lane xor mask`. PTX 9.7.9.6, shfl.sync.bfly.
__device__ __forceinline__ float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

//@ shuffle
/// The value of lane `lane`. PTX 9.7.9.6, shfl.sync.idx.
template <typename T>
__device__ __forceinline__ T shuffle(T x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
__device__ __forceinline__ bool shuffle(bool x, int lane) { return __shfl_sync(0xffffffffu, int(x), lane) != 0; }

//@ uniform
/// A value that all lanes hold, by way of which the compiler knows as much. PTX 9.7.9.6, shfl.sync.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

//@ any_lane
/// Whether the condition holds in a lane of the warp. PTX 9.7.13.8, vote.sync.any.
__device__ __forceinline__ bool any_lane(bool condition) { return __any_sync(0xffffffffu, condition); }

//@ philox
/// Philox 4x32 with 7 rounds: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
__device__ __forceinline__ uint4 philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0, unsigned k1) {
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    // High and low half each by itself: from a 64-bit product the compiler also carries a zero through every round.
    const unsigned a = c0, b = c2;
    c0 = __umulhi(0xCD9E8D57u, b) ^ c1 ^ k0;
    c1 = 0xCD9E8D57u * b;
    c2 = __umulhi(0xD2511F53u, a) ^ c3 ^ k1;
    c3 = 0xD2511F53u * a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

//===----------------------------------------------------------------------===//
// Barriers in shared memory, and registers of roles (sm_90)
//===----------------------------------------------------------------------===//

//@ decrease_registers
/// From here on the warpgroup's threads have `count` registers. PTX 9.7.19.5, setmaxnreg.dec.
template <int count> __device__ __forceinline__ void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

//@ increase_registers
/// From here on the warpgroup's threads have `count` registers. PTX 9.7.19.5, setmaxnreg.inc.
template <int count> __device__ __forceinline__ void increase_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

//@ elect_one
/// True in one lane of a converged warp. PTX 9.7.13.14, elect.sync.
__device__ __forceinline__ bool elect_one() {
  unsigned is;
  asm volatile("{\n.reg .pred one;\nelect.sync _|one, 0xffffffff;\nselp.u32 %0, 1, 0, one;\n}" : "=r"(is));
  return is;
}

//@ init_ring
/// Full barriers of `stages` stages, then their empty ones. PTX 9.7.13.15.9, mbarrier.init.
template <int stages> __device__ __forceinline__ void init_ring(unsigned barriers, int filled_by, int emptied_by) {
#pragma unroll
  for (int i = 0; i < stages; ++i) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barriers + i * 8), "r"(filled_by) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barriers + (stages + i) * 8), "r"(emptied_by) : "memory");
  }
}

//@ fence_init
/// Barriers initialised before are there for the copy engine. PTX 9.7.13.4, fence.mbarrier_init.
__device__ __forceinline__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

//@ wait_barrier
/// Waits until the barrier's phase of the given parity is complete. PTX 9.7.13.15.16, mbarrier.try_wait.parity.
__device__ __forceinline__ void wait_barrier(unsigned barrier, int parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(barrier), "r"(parity) : "memory");
}

//@ expect_bytes
/// Arrives, and makes the phase wait for that many bytes of copies too. PTX 9.7.13.15.13, mbarrier.arrive.expect_tx.
__device__ __forceinline__ void expect_bytes(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

//@ arrive
/// PTX 9.7.13.15.13, mbarrier.arrive.
__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

//@ arrive_as_warp : arrive
/// One lane arrives for the warp, whose reads are done.
__device__ __forceinline__ void arrive_as_warp(unsigned barrier) {
  if (threadIdx.x % 32 == 0)
    arrive(barrier);
}

//@ sync_lanes
/// The lanes of the warp meet. PTX 9.7.13.2, bar.warp.sync.
__device__ __forceinline__ void sync_lanes() { __syncwarp(); }

//@ sync_warps
/// Named barrier of `threads` threads. PTX 9.7.13.1, barrier.cta.sync.
__device__ __forceinline__ void sync_warps(int id, int threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

//@ arrive_warps
/// Arrives at a named barrier of `threads` threads. PTX 9.7.13.1, barrier.cta.arrive.
__device__ __forceinline__ void arrive_warps(int id, int threads) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

//===----------------------------------------------------------------------===//
// The copy engine (sm_90)
//===----------------------------------------------------------------------===//

//@ TensorMap
/// What the launch tells the copy engine about a tensor. PTX 5.5.8, tensor maps.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

//@ load_box
/// Starts the copy of a box to shared memory; its bytes count on the barrier. PTX 9.7.9.25.5.2, cp.async.bulk.tensor.
__device__ __forceinline__ void load_box(unsigned shared, const TensorMap &map, unsigned barrier, int batch, int head, int row,
                                         int column) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
                   shared),
               "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
               : "memory");
}

//@ store_box
/// Starts the copy of a box from shared memory. PTX 9.7.9.25.5.2, cp.async.bulk.tensor.
__device__ __forceinline__ void store_box(const TensorMap &map, unsigned shared, int batch, int head, int row, int column) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map), "r"(shared),
               "r"(column), "r"(row), "r"(head), "r"(batch)
               : "memory");
}

//@ add_rows
/// Starts adding `bytes` bytes of floats to global memory. PTX 9.7.9.25.4.2, cp.reduce.async.bulk.
__device__ __forceinline__ void add_rows(float *global, unsigned shared, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes)
               : "memory");
}

//@ commit_boxes
/// PTX 9.7.9.25.6.1, cp.async.bulk.commit_group.
__device__ __forceinline__ void commit_boxes() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

//@ wait_boxes
/// Until at most `pending` groups still read shared memory. PTX 9.7.9.25.6.2, cp.async.bulk.wait_group.read.
template <int pending> __device__ __forceinline__ void wait_boxes() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

//@ fence_async
/// The thread's stores to shared memory are there for the copy engine and wgmma. PTX 9.7.13.4, fence.proxy.async.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

//===----------------------------------------------------------------------===//
// Warpgroup-level matrix instructions (sm_90a)
//===----------------------------------------------------------------------===//

//@ matrix_descriptor
/// A matrix `offset` bytes into a tile in shared memory, both multiples of 16, in panels of `panel` bytes a row: `leading` bytes from panel
/// to panel, `stride` bytes from eight rows to the next eight. PTX 9.7.15.5.1.2.2, matrix descriptor format.
template <int panel, int leading, int stride>
__device__ __forceinline__ unsigned long long matrix_descriptor(unsigned tile, unsigned offset) {
  constexpr unsigned swizzle = panel == 128 ? 1 : panel == 64 ? 2 : 3;
  constexpr unsigned high = swizzle << 30 | stride / 16, low = (leading / 16 & 0x3fff) << 16;
  // Apart, as the tile's part serves all steps of a product; addresses end below 2^18, so that no carry leaves its field.
  return (unsigned long long)high << 32 | (tile / 16 + (offset / 16 + low));
}

//@ mma_fence
/// PTX 9.7.15.7.1, wgmma.fence.
__device__ __forceinline__ void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

//@ mma_commit
/// PTX 9.7.15.7.2, wgmma.commit_group.
__device__ __forceinline__ void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

//@ hold
/// The compiler moves no access of these registers over this point.
template <int n> __device__ __forceinline__ void hold(float (&x)[n][4]) {
#pragma unroll
  for (int j = 0; j < n; ++j)
    asm volatile("" : "+f"(x[j][0]), "+f"(x[j][1]), "+f"(x[j][2]), "+f"(x[j][3])::"memory");
}
template <int n> __device__ __forceinline__ void hold(unsigned (&x)[n][4]) {
#pragma unroll
  for (int j = 0; j < n; ++j)
    asm volatile("" : "+r"(x[j][0]), "+r"(x[j][1]), "+r"(x[j][2]), "+r"(x[j][3])::"memory");
}

//@ mma_wait : hold
/// Until at most `pending` groups of matrix instructions are under way; `complete` may be touched then. PTX 9.7.15.7.3, wgmma.wait_group.
template <int pending, typename... Registers> __device__ __forceinline__ void mma_wait(Registers &...complete) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  (hold(complete), ...);
}
