//===- RingPrimitives.cuh - mbarriers, named barriers, register counts of roles (sm_90) ---===//

//@ decrease_registers
/// Lowers the register count of the warpgroup's threads to `count`. PTX 9.7.19.5, setmaxnreg.dec.
template <int count> __device__ __forceinline__ void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

//@ increase_registers
/// Raises the register count of the warpgroup's threads to `count`. PTX 9.7.19.5, setmaxnreg.inc.
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
/// Initialises the full barriers of `stages` stages (`filled_by` arrivals complete a phase) and, after them in
/// memory, the empty barriers (`emptied_by` arrivals). PTX 9.7.13.15.9, mbarrier.init.
template <int stages> __device__ __forceinline__ void init_ring(unsigned barriers, int filled_by, int emptied_by) {
#pragma unroll
  for (int i = 0; i < stages; ++i) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barriers + i * 8), "r"(filled_by) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barriers + (stages + i) * 8), "r"(emptied_by)
                 : "memory");
  }
}

//@ fence_init
/// Makes the mbarriers that this thread has initialised visible to TMA. PTX 9.7.13.4, fence.mbarrier_init.
__device__ __forceinline__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

//@ wait_barrier
/// Waits until the barrier's phase of the given parity is complete. PTX 9.7.13.15.16, mbarrier.try_wait.parity.
__device__ __forceinline__ void wait_barrier(unsigned barrier, int parity) {
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}" ::"r"(barrier),
               "r"(parity)
               : "memory");
}

//@ expect_bytes
/// Arrives at the barrier, whose phase then also waits for `bytes` bytes of TMA copies.
/// PTX 9.7.13.15.13, mbarrier.arrive.expect_tx.
__device__ __forceinline__ void expect_bytes(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

//@ arrive
/// Arrives at the barrier. PTX 9.7.13.15.13, mbarrier.arrive.
__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

//@ arrive_as_warp : arrive
/// One lane arrives for the whole warp. All lanes must have finished their reads or stores before.
__device__ __forceinline__ void arrive_as_warp(unsigned barrier) {
  if (threadIdx.x % 32 == 0)
    arrive(barrier);
}

//@ sync_lanes
/// Synchronises the lanes of the warp. PTX 9.7.13.2, bar.warp.sync.
__device__ __forceinline__ void sync_lanes() { __syncwarp(); }

//@ sync_warps
/// Waits at the named barrier `id` until `threads` threads have arrived. PTX 9.7.13.1, barrier.cta.sync.
__device__ __forceinline__ void sync_warps(int id, int threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

//@ arrive_warps
/// Arrives at the named barrier `id` of `threads` threads, without waiting. PTX 9.7.13.1, barrier.cta.arrive.
__device__ __forceinline__ void arrive_warps(int id, int threads) {
  asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
