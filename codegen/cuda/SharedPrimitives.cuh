//===- SharedPrimitives.cuh - Device functions on shared memory -----------===//

//@ shared_address
/// Address of `pointer` in the 32-bit shared window.
__device__ __forceinline__ unsigned shared_address(const void *pointer) {
  return unsigned(__cvta_generic_to_shared(pointer));
}

//@ swizzle
/// Byte offset of (row, column) in a tile of Rows rows, cut into panels of Panel bytes; `column` counts bytes.
/// The 16-byte chunk c of a row is stored as chunk c xor ((row / (128 / Panel)) mod (Panel / 16)), so that the
/// eight rows which ldmatrix reads at once are in different banks.
template <int Rows, int Panel> __device__ __forceinline__ unsigned swizzle(unsigned row, unsigned column) {
  const unsigned exchange = row / (128 / Panel) % (Panel / 16) * 16;
  return column / Panel * (Rows * Panel) + row * Panel + (column % Panel ^ exchange);
}

//@ swizzle_step
/// The lane's swizzled `address`, advanced by `row` rows and `column` bytes. `row` is a multiple of 8, which does
/// not change the swizzle. `column` is a multiple of 16 with no bit in common with the lane's own column offset, so
/// that a step within a panel is an exclusive or and the address of every step is one register and constants.
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
/// Starts the copy of 16 bytes from global to shared memory; if not `valid`, writes zeros and reads nothing.
/// PTX 9.7.9.25.3.1, cp.async.cg with src-size.
__device__ __forceinline__ void copy_async_16_if(bool valid, unsigned shared, const void *global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}

//@ copy_async_4_if
/// Starts the copy of 4 bytes from global to shared memory; if not `valid`, writes zeros and reads nothing.
/// PTX 9.7.9.25.3.1, cp.async.ca with src-size.
__device__ __forceinline__ void copy_async_4_if(bool valid, unsigned shared, const void *global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(valid ? 4 : 0)
               : "memory");
}

//@ commit_copies
/// Closes the group of the copies started so far. PTX 9.7.9.25.3.2, cp.async.commit_group.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

//@ wait_copies
/// Waits until at most Pending groups of copies are in flight. PTX 9.7.9.25.3.3, cp.async.wait_group.
template <int Pending> __device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

//@ load_shared
/// Loads a float. PTX 9.7.9.8, ld.shared.f32.
__device__ __forceinline__ float load_shared(unsigned address) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address));
  return x;
}

//@ load_shared_int
/// Loads an integer. PTX 9.7.9.8, ld.shared.b32.
__device__ __forceinline__ int load_shared_int(unsigned address) {
  int x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address));
  return x;
}

//@ load_shared_bf16
/// Loads one bf16, widened to float. PTX 9.7.9.8, ld.shared.u16.
__device__ __forceinline__ float load_shared_bf16(unsigned address) {
  unsigned short x;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(address));
  return __uint_as_float(unsigned(x) << 16);
}

//@ load_shared_f16
/// Loads one f16, widened to float. PTX 9.7.9.8, ld.shared.u16; 9.7.9.21, cvt.f32.f16.
__device__ __forceinline__ float load_shared_f16(unsigned address) {
  float x;
  asm volatile("{ .reg .b16 half; ld.shared.u16 half, [%1]; cvt.f32.f16 %0, half; }" : "=f"(x) : "r"(address));
  return x;
}

//@ load_shared_pair
/// Loads two consecutive floats. PTX 9.7.9.8, ld.shared.v2.f32.
__device__ __forceinline__ float2 load_shared_pair(unsigned address) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address));
  return x;
}

//@ load_shared_int_pair
/// Loads two consecutive integers. PTX 9.7.9.8, ld.shared.v2.b32.
__device__ __forceinline__ int2 load_shared_int_pair(unsigned address) {
  int2 x;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(address));
  return x;
}

//@ store_shared
/// Stores one element of 32 bits. PTX 9.7.9.11, st.shared.
__device__ __forceinline__ void store_shared(unsigned address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
__device__ __forceinline__ void store_shared(unsigned address, unsigned x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}

//@ store_shared_pair
/// Stores two consecutive floats. PTX 9.7.9.11, st.shared.v2.f32.
__device__ __forceinline__ void store_shared_pair(unsigned address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

//@ scale_shared_16
/// Multiplies eight consecutive bf16 by `factor`, in place.
/// PTX 9.7.9.8, ld.shared.v4; 9.7.4.4, mul.bf16x2; 9.7.9.11, st.shared.v4.
__device__ __forceinline__ void scale_shared_16(unsigned address, float factor) {
  unsigned by, x[4];
  asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(by) : "f"(factor));
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("mul.rn.bf16x2 %0, %0, %1;" : "+r"(x[i]) : "r"(by));
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

//@ store_matrix
/// Stores four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l / 8, and holds
/// row l / 4, columns 2 (l % 4) and + 1 of each matrix. PTX 9.7.14.5.16, stmatrix.sync.aligned.m8n8.x4.
__device__ __forceinline__ void store_matrix(unsigned address, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}

//@ store_matrix_transposed
/// Stores four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l / 8, and holds
/// column l / 4, rows 2 (l % 4) and + 1 of each matrix. PTX 9.7.14.5.16, stmatrix.sync.aligned.m8n8.x4.trans.
__device__ __forceinline__ void store_matrix_transposed(unsigned address, unsigned r0, unsigned r1, unsigned r2,
                                                        unsigned r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0),
               "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

//@ copy_to_global_16
/// Copies 16 bytes from shared to global memory. PTX 9.7.9.8, ld.shared.v4; 9.7.9.11, st.global.v4.
__device__ __forceinline__ void copy_to_global_16(void *global, unsigned shared) {
  unsigned a, b, c, d;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared));
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
