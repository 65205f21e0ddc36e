//===- WarpPrimitives.cuh - Device functions of a warp: matrices, shuffles, votes ---===//

//@ load_matrix
/// Loads four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l / 8, and
/// receives row l / 4, columns 2 (l % 4) and + 1 of each matrix. PTX 9.7.14.5.15, ldmatrix.sync.aligned.m8n8.x4.
__device__ __forceinline__ void load_matrix(unsigned &r0, unsigned &r1, unsigned &r2, unsigned &r3,
                                            unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address));
}

//@ load_matrix_transposed
/// As load_matrix, each matrix transposed: lane l receives column l / 4, rows 2 (l % 4) and + 1.
/// PTX 9.7.14.5.15, .trans.
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
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
      "%2, %3};"
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
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
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
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

//@ shuffle_xor
/// The value of x in lane (this lane xor mask). PTX 9.7.9.6, shfl.sync.bfly.
template <typename T> __device__ __forceinline__ T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}

//@ store_quad : shuffle_xor
/// The four lanes of a quad (4 g to 4 g + 3) transpose their words: lane c of the quad, which passes c as `quad`,
/// receives word c of each of the four lanes and stores the four words to `to`, a multiple of 16 bytes in global
/// memory.
__device__ __forceinline__ void store_quad(void *to, int quad, uint4 words) {
  const bool odd = quad & 1, upper = quad & 2;
  const unsigned x = shuffle_xor(odd ? words.x : words.y, 1), z = shuffle_xor(odd ? words.z : words.w, 1);
  words = odd ? make_uint4(x, words.y, z, words.w) : make_uint4(words.x, x, words.z, z);
  const unsigned low = shuffle_xor(upper ? words.x : words.z, 2), high = shuffle_xor(upper ? words.y : words.w, 2);
  *(uint4 *)to = upper ? make_uint4(low, high, words.z, words.w) : make_uint4(words.x, words.y, low, high);
}

//@ store_bf16_eights : store_quad pack_bf16
/// Rounds eight floats to bf16 and packs them to four words, which store_quad transposes in the quad of lanes and
/// stores. `quad` is the lane's index in its quad.
__device__ __forceinline__ void store_bf16_eights(unsigned short *to, int quad, float x0, float x1, float x2,
                                                  float x3, float x4, float x5, float x6, float x7) {
  store_quad(to, quad, make_uint4(pack_bf16(x0, x1), pack_bf16(x2, x3), pack_bf16(x4, x5), pack_bf16(x6, x7)));
}

//@ store_f16_eights : store_quad pack_f16
/// Rounds eight floats to f16 and packs them to four words, which store_quad transposes in the quad of lanes and
/// stores. `quad` is the lane's index in its quad.
__device__ __forceinline__ void store_f16_eights(unsigned short *to, int quad, float x0, float x1, float x2, float x3,
                                                 float x4, float x5, float x6, float x7) {
  store_quad(to, quad, make_uint4(pack_f16(x0, x1), pack_f16(x2, x3), pack_f16(x4, x5), pack_f16(x6, x7)));
}

//@ shuffle
/// The value of x in lane `lane`. PTX 9.7.9.6, shfl.sync.idx.
template <typename T> __device__ __forceinline__ T shuffle(T x, int lane) {
  return __shfl_sync(0xffffffffu, x, lane);
}
__device__ __forceinline__ bool shuffle(bool x, int lane) { return __shfl_sync(0xffffffffu, int(x), lane) != 0; }

//@ uniform
/// Returns `value`, which must be equal in all lanes. The shuffle tells the compiler that the result is uniform.
/// PTX 9.7.9.6, shfl.sync.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

//@ ballot
/// Bit i of the result: whether the condition holds in lane i of the warp. PTX 9.7.13.8, vote.sync.ballot.
__device__ __forceinline__ unsigned ballot(bool condition) { return __ballot_sync(0xffffffffu, condition); }

//@ any_lane
/// Whether the condition holds in any lane of the warp. PTX 9.7.13.8, vote.sync.any.
__device__ __forceinline__ bool any_lane(bool condition) { return __any_sync(0xffffffffu, condition); }

//@ philox
/// Philox 4x32 with 7 rounds: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
__device__ __forceinline__ uint4 philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3, unsigned k0,
                                        unsigned k1) {
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    // The high and low halves are computed separately. From one 64-bit product the compiler would also carry a zero
    // through every round.
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
