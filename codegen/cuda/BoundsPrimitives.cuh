//===- BoundsPrimitives.cuh - The device function that makes the bounds of a tensor ---===//

//@ write_bounds
/// The least and the greatest element that the rows of a tile read along dimension Dim of `tensor`, by one warp: tile n has rows
/// [n * Rows, (n + 1) * Rows) below `count`; row i reads element i + shift, or the nearest. Of bools, whether all and any are true.
/// `entry` numbers the tiles under all other indices, the last dimension fastest; from their number on it belongs to the next tensor:
/// the result is false, and `entry` counts from there.
template <int Rank, int Dim, int Rows, typename T>
__device__ __forceinline__ bool write_bounds(long long &entry, const T *tensor, const long long *stride, const long long *extent,
                                             T *bounds, const long long *bounds_stride, const long long *bounds_extent, int shift,
                                             int count) {
  long long entries = 1;
#pragma unroll
  for (int dim = 0; dim < Rank; ++dim)
    entries *= dim == Dim ? bounds_extent[dim] / 2 : extent[dim];
  if (entry >= entries) {
    entry -= entries;
    return false;
  }
  int row = 0;
#pragma unroll
  for (int dim = Rank - 1; dim >= 0; --dim) {
    long long index = entry;
    if (dim) {
      const long long size = dim == Dim ? bounds_extent[dim] / 2 : extent[dim];
      index = entry % size;
      entry /= size;
    }
    if (dim == Dim)
      row = int(index) * Rows;
    else
      tensor += index * stride[dim];
    bounds += (dim == Dim ? 2 * index : index) * bounds_stride[dim];
  }
  const int lane = int(threadIdx.x % 32), last = min(row + Rows, count) - 1;
  auto read = [&](int i) {
    const T value = __ldg(tensor + max(min((long long)i + shift, extent[Dim] - 1), 0ll) * stride[Dim]);
    return sizeof(T) == 1 ? T(value != 0) : value;
  };
  T least = read(min(row + lane, last)), greatest = least;
#pragma unroll
  for (int i = 32; i < Rows; i += 32) {
    const T value = read(min(row + lane + i, last));
    least = min(least, value);
    greatest = max(greatest, value);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    least = min(least, T(__shfl_xor_sync(0xffffffffu, least, distance)));
    greatest = max(greatest, T(__shfl_xor_sync(0xffffffffu, greatest, distance)));
  }
  if (lane == 0) {
    bounds[0] = least;
    bounds[bounds_stride[Dim]] = greatest;
  }
  return true;
}
