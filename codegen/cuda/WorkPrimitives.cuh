//===- WorkPrimitives.cuh - Device functions of work: claims, messages, what is read again ---===//

//@ claim_work
/// In lane 0 of a warp the number of the next tile of work that no block has taken, elsewhere 0: `counter` counts those after the grid's
/// first ones, one a block. gridDim.x is read where it stands: the compiler does not keep it in a register until then. PTX 9.7.13.5,
/// atom.global.add.
__device__ __forceinline__ int claim_work(int *counter) {
  int blocks;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
  return threadIdx.x % 32 == 0 ? blocks + atomicAdd(counter, 1) : 0;
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

//@ opaque
/// The same number, which the compiler takes for another: it does not keep what follows from both.
__device__ __forceinline__ unsigned opaque(unsigned number) {
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
