//===- WorkPrimitives.cuh - Device functions that say which tile of work a block takes ---===//

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
