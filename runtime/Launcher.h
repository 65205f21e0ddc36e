/*===- Launcher.h - Launches of kernels that tables describe ----------------===*/
/*
 * What a launch checks, packs and starts. Tables of constant data say what a kernel takes: operands, captured tensors,
 * workspace, grids and tensor maps. The runtime makes the tables from a KernelImage (runtime/LaunchTables.h).
 * `attune export` prints the tables into C sources, together with this header and Launcher.c. A launch through the
 * library and a launch of an exported kernel therefore run the same code. A launch calls these functions in order:
 *
 *     launcher_check_operands(kernel, &problem)                   operands, and the extents that they share
 *     launcher_pack(kernel, image, &problem, &packed)             everything else; writes the kernels' parameters
 *     launcher_fill_maps(kernel, image, driver, &packed, ...)     tensor maps, if there are any
 *     launcher_choose(image, driver, ...)                         the kernels to start, with their grids
 *     launcher_start(kernel, driver, &started, &packed, stream)   for each kernel
 *
 * Functions that return int return a result. If the result is not result_ok, launcher_text() says why. No function
 * allocates or waits, and any number of threads may call them at once. Header and source are valid C99 and C++17.
 */
#ifndef ATTUNE_RUNTIME_LAUNCHER_H
#define ATTUNE_RUNTIME_LAUNCHER_H

#include <stddef.h>
#include <stdint.h>

#ifndef LAUNCHER_API
#define LAUNCHER_API /* static in exported sources, so that a program may contain several */
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { result_ok, result_invalid, result_no_driver, result_no_kernel, result_driver_error };
enum {
  most_kernels = 24,
  most_packed_bytes = 4096,
  tensor_map_bytes = 128,
  most_rank = 5,        /* of the operands of exported kernels */
  oldest_driver = 11040 /* 1000 * major + 10 * minor */
};

static const int64_t most_length = (int64_t)1 << 30;

/*===----------------------------------------------------------------------===*/
/* Tables of a kernel                                                         */
/*===----------------------------------------------------------------------===*/

/* An index: constant + the sum of coordinates[i] * (b, h, q, k)[i] + the sum of extents[i] * (B, H, Sq, Sk)[i] */
typedef struct {
  int64_t constant, coordinates[4], extents[4];
} linear_index;

/* The index along dimension `dim` at which the kernel reads a captured tensor, where all guards are at least 0. */
typedef struct {
  int dim;
  linear_index index;
  int guard_count;
  const linear_index *guards;
  int broadcast;
  const char *text, *element;
} index_table;

/* An extent that all operands of a launch share. */
typedef struct {
  const char *name;
  const char *noun; /* in messages: "length" */
  int64_t most;
  const char *remedy; /* for an extent above `most` */
} axis_table;

/* A dimension of an operand, a grid or a workspace tensor. It has ceil(extent / by) indices. */
typedef struct {
  int axis;        /* the extent is extents[axis] of the launch, or -1 */
  int tensor, dim; /* the extent is dimension `dim` of this captured tensor, or -1 */
  int64_t size;    /* the extent if `axis` and `tensor` are -1 */
  int64_t by;
  const char *extent, *stride; /* in messages: "Sq", "row" */
} dimension_table;

/* An operand, or a dense tensor in the workspace. A tiled operand has a last stride of 1, and its address and other
 * strides are multiples of 16 bytes. */
typedef struct {
  const char *name;
  int element_bytes, is_written, is_optional, is_tiled, rank;
  const dimension_table *dimensions;
} operand_table;

/* A captured tensor. If it is a block pattern, each of its elements is a block of pattern_rows x pattern_columns. */
typedef struct {
  const char *name;
  int element_bytes, rank, pattern_rows, pattern_columns;
  int index_count;
  const index_table *indices;
} tensor_table;

/* A tensor map of TMA, for the tensor whose address, strides and extents are packed `offset` bytes into the parameters;
 * `type` and `swizzle` are enumerators of cuda.h. A launch may run without an optional map: captured tensors and their
 * gradients may have any strides. Boxes of a limited map end at a row that each copy gives (launcher_map_key). */
typedef struct {
  const char *name;
  int is_optional;
  size_t offset;
  int rank, element_bytes, type, rows, columns, swizzle, is_limited;
} map_table;

/* The condition that the extent of `axis` is at least 1 and at most the extent of `most`. */
typedef struct {
  dimension_table axis, most;
} bound_table;

/* One kernel of a launch; entries are in launch order. If all bounds hold, the launch skips the kernel. If a tensor map
 * of a captured tensor that the kernel needs cannot be made, the launch starts a fallback kernel instead. */
typedef struct {
  const char *name;
  int grid_count;
  const dimension_table *grid;
  int threads;
  unsigned shared_bytes;
  int persistent, claims_work, is_dependent, is_preparation;
  int bound_count;
  const bound_table *bounds;
  int32_t reads_maps, fallback_of_maps; /* bits of optional maps: needed; of the kernel it replaces */
} entry_table;

/* One cubin. */
typedef struct {
  const char *arch;
  int major;
  unsigned minors; /* bit n: runs on compute capability major.n */
  const void *cubin;
  int nvrtc, entry_count;
  const entry_table *entries;
  size_t packed_bytes, maps_at;
  int workspace_count;
  const operand_table *workspaces; /* packed after the operands */
  int map_count;
  const map_table *maps;
} image_table;

/* What messages call things that the library and exported kernels call by different names. */
typedef struct {
  const char *workspace, *workspace_bytes, *allocate; /* the arguments, and how many bytes to allocate */
  const char *packs, *again;                          /* "signature packs", "compile" */
  const char *older_nvrtc;                            /* how to use an older NVRTC */
} wording_table;

typedef struct {
  const char *name;
  const wording_table *wording;
  int has_dropout;
  int axis_count;
  const axis_table *axes;
  int batch, heads, kv_heads, query_length, key_length; /* axes B, H, Hkv, Sq, Sk of expressions, or -1 */
  int operand_count;
  const operand_table *operands;
  int scalar_count, tensor_count;
  const tensor_table *tensors;
  int image_count;
  const image_table *images; /* the most specific architecture first */
} kernel_table;

/*===----------------------------------------------------------------------===*/
/* Arguments of a launch, and what is made of them                            */
/*===----------------------------------------------------------------------===*/

/* A strided tensor; strides count elements. `shape` is null for an operand that is left out. */
typedef struct {
  const void *data;
  const int64_t *shape, *strides;
} tensor_view;

/* The arguments of a launch, in a form that is the same for all kernels. */
typedef struct {
  const int64_t *extents; /* one for each axis */
  const tensor_view *operands, *tensors;
  const uint64_t *scalars; /* 8-byte slots of attune/LaunchParams.h */
  float dropout;
  uint64_t seed, offset;
  const uint64_t *seed_pointer, *offset_pointer;
  int32_t q_offset;
  void *workspace;
  size_t workspace_bytes;
} launch_problem;

/* B, H, Hkv, Sq and Sk of expressions, each 1 if there is no such axis; and query heads per key head. */
typedef struct {
  int64_t batch, heads, kv_heads, query_length, key_length, group;
} launch_sizes;

/* LaunchParams of attune/LaunchParams.h */
typedef struct {
  uint64_t seed, offset;
  const uint64_t *seed_pointer, *offset_pointer;
  void *workspace;
  int32_t group, q_offset;
  uint32_t drop_threshold;
  float keep_scale;
  int32_t mapped, unused;
} launch_params;

/* The parameters that every kernel of a launch receives: attune/LaunchParams.h. */
typedef struct __attribute__((aligned(64))) {
  launch_params params;
  unsigned char slots[most_packed_bytes - sizeof(launch_params)];
} launch_block;

typedef struct {
  launch_block block;
  launch_sizes sizes;
  int64_t tiles[most_kernels]; /* tiles of work of each entry */
} packed_problem;

/* The description of a tensor for TMA: innermost dimension first, strides in bytes. Dimensions past the rank are 1.
 * Two launches with equal keys have equal maps. */
typedef struct {
  uint64_t map; /* index among the image's maps */
  uint64_t address, dimensions[5], strides[4];
} map_key;

/* A kernel to start. */
typedef struct {
  void *function;
  unsigned blocks, threads, shared_bytes;
  int overlaps; /* whether it may start before the previous kernel has ended (programmatic dependent launch) */
} started_kernel;

/*===----------------------------------------------------------------------===*/
/* The CUDA driver                                                            */
/*===----------------------------------------------------------------------===*/

/* CUlaunchAttribute and CUlaunchConfig of cuda.h */
typedef struct {
  int id, padding, value[16];
} launch_attribute;
typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  launch_attribute *attributes;
  unsigned attribute_count;
} launch_config;

/* Functions of cuda.h, with handles as void *. */
typedef struct {
  int cuda_version; /* that the driver supports: 1000 * major + 10 * minor */
  int (*cuInit)(unsigned);
  int (*cuDriverGetVersion)(int *);
  int (*cuGetErrorName)(int, const char **);
  int (*cuGetErrorString)(int, const char **);
  int (*cuDeviceGetAttribute)(int *, int, int);
  int (*cuCtxGetCurrent)(void **);
  int (*cuCtxGetDevice)(int *);
  int (*cuModuleLoadData)(void **, const void *);
  int (*cuModuleUnload)(void *);
  int (*cuModuleGetFunction)(void **, void *, const char *);
  int (*cuFuncSetAttribute)(void *, int, int);
  int (*cuThreadExchangeStreamCaptureMode)(int *);
  int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                        void **);
  /* Null in drivers that are too old for the function. */
  int (*cuLaunchKernelEx)(const launch_config *, void *, void **, void **);
  int (*cuTensorMapEncodeTiled)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                                const uint32_t *, int, int, int, int);
  int (*cuFuncGetParamInfo)(void *, size_t, size_t *, size_t *);
} driver_table;

/* Writes the tensor map of `key` to `out`. Returns an error code of the driver; 0 is success. */
typedef int (*map_encoder)(const driver_table *driver, const map_table *map, const map_key *key, void *out,
                           void *context);

/*===----------------------------------------------------------------------===*/
/* Functions                                                                  */
/*===----------------------------------------------------------------------===*/

/* The text of this thread's last error. */
LAUNCHER_API const char *launcher_text(void);

/* The indices of a dimension: ceil(extent / by). A captured tensor that is left out has extent 0. */
LAUNCHER_API int64_t launcher_count(const dimension_table *dimension, const launch_problem *p);
LAUNCHER_API launch_sizes launcher_sizes(const kernel_table *kernel, const int64_t *extents);
/* Bytes of all workspace tensors, each padded to a multiple of 16. */
LAUNCHER_API size_t launcher_workspace(const image_table *image, const launch_problem *p);
/* The product of two counts, at most 2^56: no machine has memory for so many elements. */
LAUNCHER_API int64_t launcher_product(int64_t a, int64_t b);
/* T = min(65535, round(65536 * probability)): an element is kept if its 16 random bits are at least T. */
LAUNCHER_API uint32_t launcher_drop_threshold(float probability);

/* Checks each operand by itself, then the extents that operands share. */
LAUNCHER_API int launcher_check_operands(const kernel_table *kernel, const launch_problem *p);
/* Runs all other checks and packs all parameters except for the tensor maps. */
LAUNCHER_API int launcher_pack(const kernel_table *kernel, const image_table *image, const launch_problem *p,
                               packed_problem *packed);
/* Whether a kernel that writes results, not only the workspace, has blocks. */
LAUNCHER_API int launcher_has_work(const image_table *image, const packed_problem *packed);

/* The maps that a launch can make: bit n of the result is set if TMA can access the tensor of map n. The bit of an
 * optional map is set if the last dimension has stride 1, if the address and the other strides are multiples of 16
 * bytes, if no stride is negative or too large for TMA, and if the last two dimensions cover the launch's queries (from
 * q_offset on) and keys. A TMA box then holds the same elements as loads of single elements. The bits of all other maps
 * are always set. */
LAUNCHER_API int32_t launcher_mapped(const image_table *image, const packed_problem *packed);
/* The arguments of cuTensorMapEncodeTiled for a tensor of r rows. A map has the dimensions (column, row, head, batch).
 *
 * A limited map has two dimensions for the row, both of r + 1 elements and of the row's stride, and begins r + 1 rows
 * before the tensor. The box of rows from `row` on that ends at `limit` is at x = r + 1 - limit + row along the first and
 * at y = limit along the second: its address is that of `row`, and its rows from `limit` on are outside along x, so that
 * TMA reads zeros for them, and does not write them. For r = 5, row 1 and limit 3:
 *
 *     row of the tensor   1  2  3  4
 *     x                   4  5  6  7      0 to 5 are inside
 *     y                   3  3  3  3      address of row x + y - (r + 1)
 *
 * At least one row must be inside: for a box that is wholly outside
 * TMA reads the map's address, which may be no memory (seen on an H200). */
LAUNCHER_API map_key launcher_map_key(const image_table *image, int map, const launch_block *block);
/* Writes the tensor maps, by `encode` with `context`. A context of CUDA must be current. If an optional map cannot be
 * encoded, the launch runs without it. */
LAUNCHER_API int launcher_fill_maps(const image_table *image, const driver_table *driver, packed_problem *packed,
                                    map_encoder encode, void *context);
/* Encodes a tensor map; a map_encoder that ignores its context. */
LAUNCHER_API int launcher_encode(const driver_table *driver, const map_table *map, const map_key *key, void *out,
                                 void *context);

/* Whether kernels may start before the previous kernel has ended. CUDA 12.3 is required, because older versions cannot
 * capture such launches in a graph. */
LAUNCHER_API int launcher_overlaps(const driver_table *driver);
/* Writes the kernels to start, at most most_kernels, and returns their number. `functions` has one for each entry. */
LAUNCHER_API int launcher_choose(const image_table *image, const driver_table *driver, const packed_problem *packed,
                                 void *const *functions, int64_t multiprocessors, started_kernel *started);
LAUNCHER_API int launcher_start(const kernel_table *kernel, const driver_table *driver, const started_kernel *started,
                                packed_problem *packed, void *stream);

/* Fills the table from the driver library `name`, which is open as `library`. The driver is not started yet. */
LAUNCHER_API int launcher_open(driver_table *driver, const char *name, void *library);
/* The error that the driver is too old for the image's cubin. */
LAUNCHER_API int launcher_driver_too_old(const kernel_table *kernel, const image_table *image,
                                         const driver_table *driver);
/* Loads the image's cubin into the current context, and finds the function of each entry. */
LAUNCHER_API int launcher_find_functions(const kernel_table *kernel, const image_table *image,
                                         const driver_table *driver, void **module, void **functions);

#ifdef __cplusplus
}
#endif

#endif
