//===- GlobalPrimitives.cuh - Global memory, and programmatic dependent launch ---===//

//@ load_f32
__device__ __forceinline__ float load_f32(const float *address) { return __ldg(address); }

//@ load_f32_pair
/// Loads two consecutive floats from a multiple of eight bytes.
__device__ __forceinline__ float2 load_f32_pair(const float *address) { return __ldg((const float2 *)address); }

//@ load_bf16_pair
/// Loads two consecutive bf16 from a multiple of four bytes, widened to float.
__device__ __forceinline__ float2 load_bf16_pair(const unsigned short *address) {
  const unsigned pair = __ldg((const unsigned *)address);
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

//@ load_f16_pair
/// Loads two consecutive f16 from a multiple of four bytes, widened to float. PTX 9.7.9.21, cvt.f32.f16.
__device__ __forceinline__ float2 load_f16_pair(const unsigned short *address) {
  const unsigned pair = __ldg((const unsigned *)address);
  float2 x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x.x) : "h"((unsigned short)pair));
  asm("cvt.f32.f16 %0, %1;" : "=f"(x.y) : "h"((unsigned short)(pair >> 16)));
  return x;
}

//@ in_pairs
/// Whether one instruction can access the elements at an even index of the last dimension and at the next index:
/// they are consecutive (the last stride, `stride`, is 1) and aligned to the size of a pair. `even` is the bitwise
/// or of the other strides and the last extent, all of which must be even.
template <typename Element>
__device__ __forceinline__ bool in_pairs(const Element *address, long long even, long long stride) {
  return stride == 1 && even % 2 == 0 && (unsigned long long)address % (2 * sizeof(Element)) == 0;
}

//@ in_eights
/// Whether one instruction can access eight elements from an index of the last dimension that is a multiple of
/// eight: they are consecutive (the last stride, `stride`, is 1) and aligned to the size of eight elements. `eighth`
/// is the bitwise or of the other strides and the last extent, all of which must be multiples of eight.
template <typename Element>
__device__ __forceinline__ bool in_eights(const Element *address, long long eighth, long long stride) {
  return stride == 1 && eighth % 8 == 0 && (unsigned long long)address % (8 * sizeof(Element)) == 0;
}

//@ load_bf16
/// Loads one bf16, widened to float.
__device__ __forceinline__ float load_bf16(const unsigned short *address) {
  return __uint_as_float(unsigned(__ldg(address)) << 16);
}

//@ load_f16
/// Loads one f16, widened to float. PTX 9.7.9.21, cvt.f32.f16.
__device__ __forceinline__ float load_f16(const unsigned short *address) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(__ldg(address)));
  return x;
}

//@ load_i32
__device__ __forceinline__ int load_i32(const int *address) { return __ldg(address); }

//@ load_i64
__device__ __forceinline__ long long load_i64(const long long *address) { return __ldg(address); }

//@ load_bool
__device__ __forceinline__ bool load_bool(const unsigned char *address) { return __ldg(address) != 0; }

//@ search_sorted
/// The number of elements of a vector in ascending order that are < x, or with `right` <= x, by bisection. NaN comes
/// after all numbers. `load` loads one element.
template <auto load, bool right, typename Element, typename Value>
__device__ __forceinline__ int search_sorted(const Element *vector, long long stride, long long extent, Value x) {
  int low = 0, high = int(extent);
  while (low < high) {
    const int middle = int((unsigned(low) + unsigned(high)) / 2);
    const Value element = load(vector + middle * stride);
    const bool is_before = right ? element <= x || x != x : element < x || (x != x && element == element);
    low = is_before ? middle + 1 : low;
    high = is_before ? high : middle;
  }
  return low;
}

//@ search_tiles
/// search_sorted where element i of the vector, the first row of a sequence, counts as the number of the sequence's
/// first tile: element / rows + i. `x` is the same in all lanes. The lanes of a warp read an element each, so that 1,024
/// elements take two loads one after the other, where bisection takes ten.
template <bool right, int rows>
__device__ __forceinline__ int search_tiles(const int *vector, long long stride, long long extent, int x) {
  const unsigned active = __activemask();
  const int lanes = __popc(active), rank = __popc(active & ((1u << (threadIdx.x % 32)) - 1));
  int low = 0, high = int(extent);
  while (low < high) {
    const int step = (high - low + lanes) / (lanes + 1), at = low + (rank + 1) * step - 1;
    const int number = at < high ? __ldg(vector + at * stride) / rows + at : 0;
    const bool is_before = at < high && (right ? number <= x : number < x);
    const int count = __popc(__ballot_sync(active, is_before)); // of the lanes' elements, which ascend
    high = count < lanes ? min(high, low + (count + 1) * step - 1) : high;
    low += count * step;
  }
  return low;
}

//@ load_written
/// Loads an element that this kernel or an earlier kernel of the launch writes. `asm volatile` keeps the load after
/// wait_launch and out of the read-only cache. PTX 9.7.9.8, ld.global.
__device__ __forceinline__ float load_written(const float *address) {
  float x;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(address) : "memory");
  return x;
}
__device__ __forceinline__ int load_written(const int *address) {
  int n;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(n) : "l"(address));
  return n;
}
__device__ __forceinline__ long long load_written(const long long *address) {
  long long n;
  asm volatile("ld.global.b64 %0, [%1];" : "=l"(n) : "l"(address));
  return n;
}
__device__ __forceinline__ bool load_written(const unsigned char *address) {
  unsigned n;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(n) : "l"(address));
  return n != 0;
}

//@ load_written_pair
/// Loads two consecutive floats that this kernel or an earlier kernel of the launch writes, from a multiple of
/// eight bytes. PTX 9.7.9.8, ld.global.v2.f32.
__device__ __forceinline__ float2 load_written_pair(const float *address) {
  float2 x;
  asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "l"(address) : "memory");
  return x;
}

//@ load_written_four
/// Loads four consecutive floats that this kernel or an earlier kernel of the launch writes, from a multiple of
/// sixteen bytes. PTX 9.7.9.8, ld.global.v4.f32.
__device__ __forceinline__ float4 load_written_four(const float *address) {
  float4 x;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(address)
               : "memory");
  return x;
}

//@ load_f32_four
/// Loads four consecutive floats from a multiple of sixteen bytes.
__device__ __forceinline__ float4 load_f32_four(const float *address) { return __ldg((const float4 *)address); }

//@ load_byte
/// Loads eight bits.
__device__ __forceinline__ int load_byte(const unsigned char *address) { return __ldg(address); }

//@ load_byte_pair
/// Loads sixteen bits from an even address.
__device__ __forceinline__ int load_byte_pair(const unsigned char *address) {
  return __ldg((const unsigned short *)address);
}

//@ load_byte_written
/// Loads eight bits that this kernel or an earlier kernel of the launch writes. PTX 9.7.9.8, ld.global.u8.
__device__ __forceinline__ int load_byte_written(const unsigned char *address) {
  int n;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(n) : "l"(address) : "memory");
  return n;
}

//@ load_byte_pair_written
/// Loads sixteen bits that this kernel or an earlier kernel of the launch writes, from an even address.
/// PTX 9.7.9.8, ld.global.u16.
__device__ __forceinline__ int load_byte_pair_written(const unsigned char *address) {
  int n;
  asm volatile("ld.global.u16 %0, [%1];" : "=r"(n) : "l"(address) : "memory");
  return n;
}

//@ store_byte
/// Stores the low eight bits of `bits`.
__device__ __forceinline__ void store_byte(unsigned char *address, int bits) { *address = (unsigned char)bits; }

//@ wait_launch
/// Waits until the previous kernel in the stream has ended and its writes are visible.
/// PTX 9.7.13.13, griddepcontrol.wait.
__device__ __forceinline__ void wait_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

//@ start_next_launch
/// Allows the next kernel in the stream to start once all blocks have called this function. That kernel calls
/// wait_launch before it reads results. PTX 9.7.13.13, griddepcontrol.launch_dependents.
__device__ __forceinline__ void start_next_launch() { asm volatile("griddepcontrol.launch_dependents;"); }

//@ store_bf16 : pack_bf16
/// Stores one float, rounded to bf16.
__device__ __forceinline__ void store_bf16(unsigned short *address, float x) {
  *address = (unsigned short)pack_bf16(x, 0.0f);
}

//@ store_f16 : pack_f16
/// Stores one float, rounded to f16.
__device__ __forceinline__ void store_f16(unsigned short *address, float x) {
  *address = (unsigned short)pack_f16(x, 0.0f);
}

//@ store_f32_pair
/// Stores two consecutive floats at a multiple of eight bytes.
__device__ __forceinline__ void store_f32_pair(float *address, float x, float y) {
  *(float2 *)address = make_float2(x, y);
}

//@ store_f32_four
/// Stores four consecutive floats at a multiple of sixteen bytes.
__device__ __forceinline__ void store_f32_four(float *address, float x, float y, float z, float w) {
  *(float4 *)address = make_float4(x, y, z, w);
}

//@ store_bf16_pair : pack_bf16
/// Stores two consecutive floats, rounded to bf16, at a multiple of four bytes.
__device__ __forceinline__ void store_bf16_pair(unsigned short *address, float x, float y) {
  *(unsigned *)address = pack_bf16(x, y);
}

//@ store_f16_pair : pack_f16
/// Stores two consecutive floats, rounded to f16, at a multiple of four bytes.
__device__ __forceinline__ void store_f16_pair(unsigned short *address, float x, float y) {
  *(unsigned *)address = pack_f16(x, y);
}

//@ add_f32
/// Adds one float to memory atomically. PTX 9.7.13.6, red.
__device__ __forceinline__ void add_f32(float *address, float x) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(address), "f"(x) : "memory");
}

//@ add_f32_pair
/// Adds two consecutive floats to memory, each atomically. PTX 9.7.13.6, red.v2.
__device__ __forceinline__ void add_f32_pair(float *address, float x, float y) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(address), "f"(x), "f"(y) : "memory");
}

//@ add_f32_four
/// Adds four consecutive floats to memory, each atomically. PTX 9.7.13.6, red.v4.
__device__ __forceinline__ void add_f32_four(float *address, float x, float y, float z, float w) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "f"(x), "f"(y), "f"(z), "f"(w)
               : "memory");
}

//@ add_int64
/// Adds one integer to memory atomically. In two's complement the unsigned addition is right for negative x, too.
/// PTX 9.7.13.6, red.
__device__ __forceinline__ void add_int64(long long *address, int x) {
  asm volatile("red.global.add.u64 [%0], %1;" ::"l"(address), "l"((long long)x) : "memory");
}

//@ clamp_index
/// The index in [0, extent) that is nearest to `index`; `extent` is at least 1.
__device__ __forceinline__ int clamp_index(int index, long long extent) {
  return max(min(index, int(min(extent - 1, 2147483647ll))), 0);
}
__device__ __forceinline__ long long clamp_index(long long index, long long extent) {
  return max(min(index, extent - 1), 0ll);
}

//@ extent
/// `extent` as an int; extents above 2^31 - 1 become 2^31 - 1.
__device__ __forceinline__ int extent(long long extent) { return extent < 2147483647ll ? int(extent) : 2147483647; }
