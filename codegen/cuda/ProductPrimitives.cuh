//===- ProductPrimitives.cuh - Matrix instructions of a warpgroup (sm_90a) ---===//

//@ matrix_descriptor
/// wgmma descriptor of the matrix that begins `offset` bytes into a tile in shared memory; `tile` and `offset` are
/// multiples of 16. The tile is stored in panels of `panel` bytes a row, `leading` bytes from panel to panel and
/// `stride` bytes from eight rows to the next eight. PTX 9.7.15.5.1.2.2, matrix descriptor format.
template <int panel, int leading, int stride>
__device__ __forceinline__ unsigned long long matrix_descriptor(unsigned tile, unsigned offset) {
  constexpr unsigned swizzle = panel == 128 ? 1 : panel == 64 ? 2 : 3;
  constexpr unsigned high = swizzle << 30 | stride / 16, low = (leading / 16 & 0x3fff) << 16;
  // The terms of `tile` and of `offset` are computed apart, so that all steps of a product share the term of
  // `tile`. Addresses are below 2^18, so the sum does not overflow the address field of 14 bits.
  return (unsigned long long)high << 32 | (tile / 16 + (offset / 16 + low));
}

//@ mma_fence
/// Orders the warpgroup's register accesses before the wgmma that follow. PTX 9.7.15.7.1, wgmma.fence.
__device__ __forceinline__ void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

//@ mma_commit
/// Closes the group of the wgmma issued so far. PTX 9.7.15.7.2, wgmma.commit_group.
__device__ __forceinline__ void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

//@ hold
/// Keeps the compiler from moving accesses of these registers across this point.
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
/// Waits until at most `pending` groups of wgmma are in flight. The registers `complete` may be accessed
/// afterwards. PTX 9.7.15.7.3, wgmma.wait_group.
template <int pending, typename... Registers> __device__ __forceinline__ void mma_wait(Registers &...complete) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  (hold(complete), ...);
}
