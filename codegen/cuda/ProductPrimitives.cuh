//===- ProductPrimitives.cuh - Matrix instructions of a warpgroup (sm_90a) ---===//

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
