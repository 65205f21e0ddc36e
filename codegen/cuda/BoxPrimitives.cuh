//===- BoxPrimitives.cuh - TMA loads, stores and reductions (sm_90) --------===//

//@ TensorMap
/// Describes a tensor in global memory to TMA; the launch encodes the map. PTX 5.5.8, tensor maps.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

//@ load_box
/// Starts the copy of a box from global to shared memory; the mbarrier counts the bytes that arrive.
/// PTX 9.7.9.25.5.2, cp.async.bulk.tensor.
__device__ __forceinline__ void load_box(unsigned shared, const TensorMap &map, unsigned barrier, int batch, int head,
                                         int row, int column) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
               "%6}], [%2];" ::"r"(shared),
               "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
               : "memory");
}

//@ load_box_until
/// load_box where rows of the tensor from `limit` on are read as zeros. The map has two dimensions for the row, which the
/// launch describes (launcher_map_key); `rows` is the number of rows of the tensor.
__device__ __forceinline__ void load_box_until(unsigned shared, const TensorMap &map, unsigned barrier, int batch,
                                               int head, int row, int limit, int rows, int column) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
               "%6, %7}], [%2];" ::"r"(shared),
               "l"(&map), "r"(barrier), "r"(column), "r"(rows + 1 - limit + row), "r"(limit), "r"(head), "r"(batch)
               : "memory");
}

//@ store_box
/// Starts the copy of a box from shared to global memory. PTX 9.7.9.25.5.2, cp.async.bulk.tensor.
__device__ __forceinline__ void store_box(const TensorMap &map, unsigned shared, int batch, int head, int row,
                                          int column) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(shared), "r"(column), "r"(row), "r"(head), "r"(batch)
               : "memory");
}

//@ store_box_until
/// store_box where rows of the tensor from `limit` on are not written, as in load_box_until.
__device__ __forceinline__ void store_box_until(const TensorMap &map, unsigned shared, int batch, int head, int row,
                                                int limit, int rows, int column) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
               "r"(shared), "r"(column), "r"(rows + 1 - limit + row), "r"(limit), "r"(head), "r"(batch)
               : "memory");
}

//@ add_box
/// Starts a reduction that adds a box of floats in shared memory to global memory.
/// PTX 9.7.9.25.5.3, cp.reduce.async.bulk.tensor.
__device__ __forceinline__ void add_box(const TensorMap &map, unsigned shared, int batch, int head, int row,
                                        int column) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
          &map),
      "r"(shared), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

//@ add_rows
/// Starts a reduction that adds `bytes` bytes of consecutive floats in shared memory to global memory.
/// PTX 9.7.9.25.4.2, cp.reduce.async.bulk.
__device__ __forceinline__ void add_rows(float *global, unsigned shared, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
               "r"(shared), "r"(bytes)
               : "memory");
}

//@ commit_boxes
/// Closes the group of the TMA stores and reductions that this thread has started.
/// PTX 9.7.9.25.6.1, cp.async.bulk.commit_group.
__device__ __forceinline__ void commit_boxes() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

//@ wait_boxes
/// Waits until at most `pending` groups of TMA stores still read shared memory.
/// PTX 9.7.9.25.6.2, cp.async.bulk.wait_group.read.
template <int pending> __device__ __forceinline__ void wait_boxes() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

//@ fence_async
/// Makes the thread's stores to shared memory visible to TMA and wgmma. PTX 9.7.13.4, fence.proxy.async.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
