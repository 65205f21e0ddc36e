//===- ScalarPrimitives.cuh - Device functions on scalars -----------------===//

//@ trailing_zeros
/// The number of trailing 0 bits; 32 for 0.
__device__ __forceinline__ int trailing_zeros(unsigned bits) { return __clz(int(__brev(bits))); }

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
/// |a|; the lowest integer, whose negative does not exist, is returned unchanged.
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
/// x truncated toward zero; values out of range saturate, NaN gives 0. PTX 9.7.9.21, cvt.rzi.s32.f32.
__device__ __forceinline__ int float_to_int(float x) {
  int n;
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(n) : "f"(x));
  return n;
}

//@ float_to_int64
/// x truncated toward zero; values out of range saturate, NaN gives 0. PTX 9.7.9.21, cvt.rzi.s64.f32.
__device__ __forceinline__ long long float_to_int64(float x) {
  long long n;
  asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(n) : "f"(x));
  return x != x ? 0 : n;
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

//@ max_nan
/// The larger of a and b; NaN if a or b is NaN. PTX 9.7.3.12, max.NaN.f32.
__device__ __forceinline__ float max_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

//@ min_nan
/// The smaller of a and b; NaN if a or b is NaN. PTX 9.7.3.11, min.NaN.f32.
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
/// log2(x), relative error 2^-17. Near 1 the instruction lg2 has an absolute error of 2^-22, so a polynomial in x -
/// 1 is used there. PTX 9.7.3.20, lg2.approx.ftz.f32.
__device__ __forceinline__ float fast_log2(float x) {
  float far;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(far) : "f"(x));
  const float t = x - 1.0f;
  const float near =
      t * fmaf(t, fmaf(t, fmaf(t, fmaf(t, 0.28853901f, -0.36067376f), 0.48089835f), -0.72134752f), 1.44269504f);
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
/// tanh(x), relative error 2^-19: 1 - 2 / (e^(2 |x|) + 1) with the sign of x; a polynomial where |x| < 1/4.
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
/// Rounds two floats to bf16 (nearest even) and packs them, `low` in bits 0 to 15. The instruction takes the high
/// half first. PTX 9.7.9.21, cvt.rn.bf16x2.f32.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

//@ pack_f16
/// Rounds two floats to f16 (nearest even) and packs them, `low` in bits 0 to 15. The instruction takes the high
/// half first. PTX 9.7.9.21, cvt.rn.f16x2.f32.
__device__ __forceinline__ unsigned pack_f16(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

//@ pack_relu_bf16
/// Rounds two floats to bf16 (nearest even), replaces negative values by 0 (NaN stays NaN) and packs them, `low` in
/// bits 0 to 15. PTX 9.7.9.21, cvt.rn.relu.bf16x2.f32.
__device__ __forceinline__ unsigned pack_relu_bf16(float low, float high) {
  unsigned r;
  asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

//@ pack_relu_f16
/// Rounds two floats to f16 (nearest even), replaces negative values by 0 (NaN stays NaN) and packs them, `low` in
/// bits 0 to 15. PTX 9.7.9.21, cvt.rn.relu.f16x2.f32.
__device__ __forceinline__ unsigned pack_relu_f16(float low, float high) {
  unsigned r;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

//@ columns_below
/// Mask of the accumulator columns of a lane: bit 2 j + e, with e 0 or 1, is set if column 8 j + e is below
/// `bound`. PTX 9.7.1.22, bmsk.
__device__ __forceinline__ unsigned columns_below(int bound) {
  const int below = max(bound, 0);
  unsigned columns;
  asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(columns) : "r"(below / 8 * 2 + min(below % 8, 2)));
  return columns;
}

//@ after
/// Returns `value`, with a data dependence on `first`: ptxas issues uses of the result after `first` is computed.
/// blockDim.y - 1 is always 0, because blocks have one dimension, but ptxas does not know that.
__device__ __forceinline__ float after(float value, float first) {
  return __int_as_float(__float_as_int(value) ^ (__float_as_int(first) & int(blockDim.y - 1)));
}

//@ test_bit
/// Bit `index` of `word`. ptxas moves several bits of a word to predicates by one instruction (R2P).
__device__ __forceinline__ bool test_bit(unsigned word, int index) { return (word & 1u << index) != 0; }

//@ unpack_bf16
/// The bf16 in bits 16 to 31 (`high`) or 0 to 15 of `pair`, widened to float.
__device__ __forceinline__ float unpack_bf16(int pair, bool high) {
  return __int_as_float(high ? pair & 0xffff0000 : int(unsigned(pair) << 16));
}

//@ unpack_f16
/// The f16 in bits 16 to 31 (`high`) or 0 to 15 of `pair`, widened to float. PTX 9.7.9.21, cvt.f32.f16.
__device__ __forceinline__ float unpack_f16(int pair, bool high) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)(high ? unsigned(pair) >> 16 : unsigned(pair) & 0xffff)));
  return x;
}

//@ split_tf32
/// Splits x into big + small, both rounded to tf32. PTX 9.7.9.21, cvt.rna.tf32.f32.
__device__ __forceinline__ void split_tf32(float x, unsigned &big, unsigned &small) {
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(big) : "f"(x));
  const float rest = x - __uint_as_float(big);
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(small) : "f"(rest));
}
