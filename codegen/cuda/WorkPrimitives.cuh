//===- WorkPrimitives.cuh - Claims of tiles of work, messages of roles, opaque reads ---===//

//@ claim_work
/// Claims the next tile of work: lane 0 of the warp gets the number of the tile, other lanes get 0. Each block
/// computes the tile of its own index first, so claimed numbers begin at the grid size. The grid size is read by
/// asm, so that the compiler does not keep gridDim.x in a register up to here. PTX 9.7.13.5, atom.global.add.
__device__ __forceinline__ int claim_work(int *counter) {
  int blocks;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
  return threadIdx.x % 32 == 0 ? blocks + atomicAdd(counter, 1) : 0;
}

//@ message
/// A message of integers that one role sends to another through shared memory.
template <int Fields> struct Message {
  int field[Fields];
};

//@ send : message
/// Writes a message of 2 fields, or of a multiple of 4. PTX 9.7.9.11, st.shared.v2 and v4.
template <int Fields> __device__ __forceinline__ void send(unsigned address, Message<Fields> message) {
  if constexpr (Fields == 2)
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(message.field[0]), "r"(message.field[1])
                 : "memory");
  else
#pragma unroll
    for (int i = 0; i < Fields; i += 4)
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address + 4 * i), "r"(message.field[i]),
                   "r"(message.field[i + 1]), "r"(message.field[i + 2]), "r"(message.field[i + 3])
                   : "memory");
}

//@ receive : message
/// Reads the message that another role has sent. PTX 9.7.9.8, ld.shared.v2 and v4.
template <int Fields> __device__ __forceinline__ Message<Fields> receive(unsigned address) {
  Message<Fields> message;
  if constexpr (Fields == 2)
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(message.field[0]), "=r"(message.field[1])
                 : "r"(address)
                 : "memory");
  else
#pragma unroll
    for (int i = 0; i < Fields; i += 4)
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(message.field[i]), "=r"(message.field[i + 1]), "=r"(message.field[i + 2]),
                     "=r"(message.field[i + 3])
                   : "r"(address + 4 * i)
                   : "memory");
  return message;
}

//@ opaque
/// Returns `number`, copied by asm so that the compiler does not know that the copy is equal. The compiler therefore
/// computes values from the copy anew, instead of keeping the equal values computed from `number` in registers.
__device__ __forceinline__ unsigned opaque(unsigned number) {
  unsigned same;
  asm volatile("mov.u32 %0, %1;" : "=r"(same) : "r"(number));
  return same;
}

//@ read_block_id
/// Reads blockIdx.x by asm at this point, so that the compiler does not keep blockIdx.x, or values computed from
/// it, in registers up to here.
__device__ __forceinline__ unsigned read_block_id() {
  unsigned id;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(id));
  return id;
}

//@ read_thread_id
/// Reads threadIdx.x by asm at this point, so that the compiler does not keep threadIdx.x in a register up to here.
__device__ __forceinline__ int read_thread_id() {
  int id;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(id));
  return id;
}
