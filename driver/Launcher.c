/*===- Launcher.c - Checks, packs and launches an exported kernel -----------===*/
/*
 * Part of the source of every exported kernel, valid C99 and C++17: driver/Export.cpp inserts this file between the
 * header's #include and the tables of one kernel. The file implements the same checks, error texts and parameters as
 * runtime/Launch.cpp and runtime/Kernel.cpp; tests/export compares both byte for byte. Names that end in _args,
 * _defaults, _contiguous, _workspace_bytes, _load, _launch or _error belong to the header.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { result_ok, result_invalid, result_no_driver, result_no_kernel, result_driver_error };
enum {
  most_rank = 5,
  most_axes = 6,
  most_kernels = 24,
  most_packed_bytes = 4096,
  tensor_map_bytes = 128,
  tile_alignment = 16
};

static const int64_t most_length = (int64_t)1 << 30;
static const int64_t most_int32 = 2147483647;
static const int64_t most_count = (int64_t)1 << 56;

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
  const char *member; /* of the header's struct of arguments */
  const char *noun;   /* in messages: "length" */
  int64_t most;
  const char *remedy; /* for an extent above `most` */
} axis_table;

/* The number of indices along an axis of an operand, a grid or a workspace tensor: ceil(extent / by). */
typedef struct {
  int axis;           /* the extent is extents[axis] of the launch, or -1 */
  int tensor, dim;    /* the extent is dimension `dim` of this captured tensor, or -1 */
  int64_t size, by;   /* `size` is the extent if `axis` and `tensor` are -1 */
  const char *extent; /* in messages: "Sq" */
} count_table;

/* One dimension of an operand. */
typedef struct {
  count_table count;
  const char *stride; /* name of the stride in messages: "row" */
} dimension_table;

/* A tiled operand has a last stride of 1, and its address and other strides are multiples of 16 bytes. */
typedef struct {
  const char *name;
  int element_bytes, is_written, is_optional, is_tiled, rank;
  dimension_table dimensions[most_rank];
} operand_table;

typedef struct {
  const char *name;
  int element_bytes, rank, index_count;
  const index_table *indices;
} tensor_table;

/* A tensor map of TMA; `type` and `swizzle` are enumerators of cuda.h. */
enum { map_of_operand, map_of_captured, map_of_workspace, map_of_gradient };
typedef struct {
  int of, index; /* kind of tensor, and its index among operands, captured tensors or workspace tensors */
  int type, rows, columns, swizzle;
} map_table;

/* A dense tensor in the workspace. */
typedef struct {
  const char *name;
  int element_bytes, rank;
  const count_table *dimensions;
} workspace_table;

/* The condition that the extent of `axis` is at least 1 and at most the extent of `most`. */
typedef struct {
  count_table axis, most;
} bound_table;

/* One kernel of a launch; entries are in launch order. If all bounds hold, the launch skips the kernel. If a tensor map
 * of a captured tensor that the kernel needs cannot be made, the launch starts a fallback kernel instead. */
typedef struct {
  const char *name;
  int grid_count;
  const count_table *grid;
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
  const uint64_t *cubin;
  int nvrtc, entry_count;
  const entry_table *entries;
  size_t packed_bytes, maps_at;
  int workspace_count;
  const workspace_table *workspaces;
  int map_count;
  const map_table *maps;
  int pattern, pattern_rows, pattern_columns; /* the block pattern's captured tensor, or -1 */
} image_table;

typedef struct {
  const char *name;
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
/* Arguments of a launch                                                      */
/*===----------------------------------------------------------------------===*/

typedef struct {
  const void *data;
  int64_t shape[most_rank], strides[most_rank];
} tensor_view;

/* The arguments of a launch, in a form that is the same for all kernels. */
typedef struct {
  const int64_t *extents;      /* one for each axis */
  const tensor_view *operands; /* an operand that is left out has shape 0 */
  float dropout;
  uint64_t seed, offset;
  const uint64_t *seed_pointer, *offset_pointer;
  int32_t q_offset;
  const uint64_t *scalars; /* 8-byte slots of attune/LaunchParams.h */
  const tensor_view *tensors;
  void *workspace;
  size_t workspace_bytes;
  void *stream;
} problem;

/* B, H, Hkv, Sq and Sk of expressions; 1 where no operand has the axis. */
typedef struct {
  int64_t batch, heads, kv_heads, query_length, key_length;
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

typedef struct {
  unsigned char bytes[most_packed_bytes] __attribute__((aligned(64)));
  launch_params params;
  launch_sizes sizes;
  int64_t blocks[most_kernels]; /* tiles of work of each entry */
} packed_problem;

/*===----------------------------------------------------------------------===*/
/* Errors                                                                     */
/*===----------------------------------------------------------------------===*/

static __thread char last_text[768];

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_text, sizeof last_text, format, values);
  va_end(values);
  return code;
}

typedef long long print_int;

/*===----------------------------------------------------------------------===*/
/* Operands                                                                   */
/*===----------------------------------------------------------------------===*/

static int64_t divided_up(int64_t count, int64_t size) { return count / size + (count % size != 0); }

/* The extent of an axis in elements, not in tiles. */
static int64_t extent_of(const count_table *axis, const int64_t *extents, const tensor_view *tensors) {
  return axis->axis >= 0     ? extents[axis->axis]
         : axis->tensor >= 0 ? tensors[axis->tensor].shape[axis->dim]
                             : axis->size;
}

/* Strides of dense row-major memory. */
static void dense_strides(int rank, const int64_t *shape, int64_t *strides) {
  int64_t inner = 1;
  int i;
  for (i = rank - 1; i >= 0; --i) {
    strides[i] = inner;
    inner *= shape[i] > 1 ? shape[i] : 1;
  }
}

/* Dense strides of an operand, without the last stride of a tiled operand, which the header's arguments do not contain.
 * The gradient of a captured tensor keeps its strides, because the tensor's shape is not known yet. */
static void dense_operand(const operand_table *table, const int64_t *extents, int64_t *strides) {
  int64_t shape[most_rank] = {0}, all[most_rank] = {0};
  int i;
  for (i = 0; i < table->rank; ++i) {
    const count_table *axis = &table->dimensions[i].count;
    if (axis->tensor >= 0)
      return;
    shape[i] = divided_up(extent_of(axis, extents, NULL), axis->by);
  }
  dense_strides(table->rank, shape, all);
  memcpy(strides, all, 8 * (size_t)(table->rank - table->is_tiled));
}

static int is_left_out(const operand_table *table, const tensor_view *operand) {
  return table->is_optional && !operand->data;
}

/* Adds the shapes to operands, of which the header's arguments contain only addresses and strides. An operand that is
 * left out keeps shape 0; its strides are packed as 0. */
static void complete_operands(const kernel_table *kernel, const int64_t *extents, const tensor_view *tensors,
                              tensor_view *operands) {
  int n, i;
  for (n = 0; n < kernel->operand_count; ++n) {
    const operand_table *table = &kernel->operands[n];
    if (is_left_out(table, &operands[n]))
      continue;
    for (i = 0; i < table->rank; ++i)
      operands[n].shape[i] =
          divided_up(extent_of(&table->dimensions[i].count, extents, tensors), table->dimensions[i].count.by);
    if (table->is_tiled)
      operands[n].strides[table->rank - 1] = 1;
  }
}

static int is_empty(const tensor_view *tensor, int rank) {
  int i;
  for (i = 0; i < rank; ++i)
    if (tensor->shape[i] == 0)
      return 1;
  return 0;
}

static const char *shape_text(const tensor_view *tensor, int rank, char *to, size_t size) {
  int i, used = snprintf(to, size, "[");
  for (i = 0; i < rank; ++i)
    used += snprintf(to + used, size - (size_t)used, "%s%lld", i ? ", " : "", (print_int)tensor->shape[i]);
  snprintf(to + used, size - (size_t)used, "]");
  return to;
}

/* Checks the alignment of address and strides to 16 bytes. */
static int check_tiled(const operand_table *table, const tensor_view *operand) {
  const int64_t elements = tile_alignment / table->element_bytes;
  int i;
  if ((uintptr_t)operand->data % tile_alignment != 0)
    return fail(result_invalid, "%s starts at address %#llx, which is not a multiple of 16 bytes; align its memory",
                table->name, (unsigned long long)(uintptr_t)operand->data);
  for (i = 0; i < table->rank - 1; ++i)
    if (operand->shape[i] > 1 && operand->strides[i] % elements != 0) {
      const int64_t padded = (operand->strides[i] + elements - 1) / elements * elements;
      return fail(result_invalid,
                  "%s has a %s stride of %lld elements (%lld bytes), which is not a multiple of 16 bytes; pad it to "
                  "%lld elements",
                  table->name, table->dimensions[i].stride, (print_int)operand->strides[i],
                  (print_int)(operand->strides[i] * table->element_bytes),
                  (print_int)(operand->strides[i] > 0 ? padded : elements));
    }
  return result_ok;
}

/* Checks that no two elements of an output share memory: stride 0 is an error. */
static int check_output(const operand_table *table, const tensor_view *operand) {
  int i;
  for (i = 0; i < table->rank; ++i)
    if (operand->shape[i] == 0)
      return result_ok;
  for (i = 0; i < table->rank; ++i)
    if (operand->strides[i] == 0 && operand->shape[i] > 1)
      return fail(result_invalid,
                  "%s has stride 0 along its %s dimension of extent %lld; an output cannot be broadcast", table->name,
                  table->dimensions[i].stride, (print_int)operand->shape[i]);
  return result_ok;
}

static int check_operand(const operand_table *table, const tensor_view *operand) {
  const int empty = is_empty(operand, table->rank);
  char text[128];
  int i, code = result_ok;
  for (i = 0; i < table->rank; ++i)
    if (operand->shape[i] < 0)
      return fail(result_invalid, "%s has extent %lld in dimension %d; extents are at least 0", table->name,
                  (print_int)operand->shape[i], i);
  if (!operand->data && !empty)
    return fail(result_invalid, "%s is null but has shape %s; pass the address of its memory", table->name,
                shape_text(operand, table->rank, text, sizeof text));
  if (table->is_tiled && !empty)
    code = check_tiled(table, operand);
  if (!table->is_tiled && (uintptr_t)operand->data % (uintptr_t)table->element_bytes != 0)
    return fail(result_invalid, "%s starts at address %#llx, which is not a multiple of %d bytes; align its memory",
                table->name, (unsigned long long)(uintptr_t)operand->data, table->element_bytes);
  if (code == result_ok && table->is_written)
    code = check_output(table, operand);
  return code;
}

static int check_signs(const kernel_table *kernel, const problem *p) {
  int i;
  for (i = 0; i < kernel->axis_count; ++i)
    if (p->extents[i] < 0)
      return fail(result_invalid, "%s is %lld; sizes are at least 0", kernel->axes[i].member, (print_int)p->extents[i]);
  return result_ok;
}

/* The name of the first operand that has the axis in elements, not in tiles. */
static const char *first_with(const kernel_table *kernel, const problem *p, int axis) {
  int n, i;
  for (n = 0; n < kernel->operand_count; ++n)
    for (i = 0; i < kernel->operands[n].rank; ++i)
      if (kernel->operands[n].dimensions[i].count.axis == axis && kernel->operands[n].dimensions[i].count.by == 1 &&
          !is_left_out(&kernel->operands[n], &p->operands[n]))
        return kernel->operands[n].name;
  return kernel->axes[axis].member;
}

static int check_extents(const kernel_table *kernel, const problem *p, const launch_sizes *sizes) {
  int i;
  for (i = 0; i < kernel->axis_count; ++i) {
    const axis_table *axis = &kernel->axes[i];
    const int counted = strcmp(axis->noun, "heads") == 0;
    char extent[96];
    if (p->extents[i] <= axis->most)
      continue;
    if (counted)
      snprintf(extent, sizeof extent, "%lld heads", (print_int)p->extents[i]);
    else
      snprintf(extent, sizeof extent, "%s %lld", axis->noun, (print_int)p->extents[i]);
    return fail(result_invalid, "%s has %s, the most is %lld; %s", first_with(kernel, p, i), extent,
                (print_int)axis->most, axis->remedy);
  }
  if (kernel->heads >= 0 && kernel->kv_heads >= 0 &&
      (sizes->kv_heads == 0 ? sizes->heads != 0 : sizes->heads % sizes->kv_heads != 0))
    return fail(result_invalid,
                "%s has %lld heads, %s has %lld; the number of query heads must be a multiple of the key heads",
                first_with(kernel, p, kernel->heads), (print_int)sizes->heads, first_with(kernel, p, kernel->kv_heads),
                (print_int)sizes->kv_heads);
  return result_ok;
}

static launch_sizes sizes_of(const kernel_table *kernel, const int64_t *extents) {
  launch_sizes sizes;
  sizes.batch = kernel->batch < 0 ? 1 : extents[kernel->batch];
  sizes.heads = kernel->heads < 0 ? 1 : extents[kernel->heads];
  sizes.kv_heads = kernel->kv_heads < 0 ? 1 : extents[kernel->kv_heads];
  sizes.query_length = kernel->query_length < 0 ? 1 : extents[kernel->query_length];
  sizes.key_length = kernel->key_length < 0 ? 1 : extents[kernel->key_length];
  return sizes;
}

/* Checks each operand, then the extents. */
static int check_operands(const kernel_table *kernel, const problem *p, const launch_sizes *sizes) {
  int code = check_signs(kernel, p), n;
  for (n = 0; n < kernel->operand_count && code == result_ok; ++n)
    if (!is_left_out(&kernel->operands[n], &p->operands[n]))
      code = check_operand(&kernel->operands[n], &p->operands[n]);
  return code == result_ok ? check_extents(kernel, p, sizes) : code;
}

/*===----------------------------------------------------------------------===*/
/* Launch values other than tensors and scalars                               */
/*===----------------------------------------------------------------------===*/

static int pack_launch_values(const kernel_table *kernel, const problem *p, const launch_sizes *sizes,
                              launch_params *params) {
  if (!(p->dropout >= 0.0f && p->dropout < 1.0f))
    return fail(result_invalid, "dropout probability %g is outside [0, 1); pass 0 for no dropout", (double)p->dropout);
  if (p->q_offset > most_length || p->q_offset < -most_length)
    return fail(result_invalid, "qOffset %lld is outside [-%lld, %lld]; pass the position of the first query",
                (print_int)p->q_offset, (print_int)most_length, (print_int)most_length);
  if ((uintptr_t)p->seed_pointer % 8 != 0)
    return fail(result_invalid, "seedPointer is address %#llx, which is not a multiple of 8 bytes; align its memory",
                (unsigned long long)(uintptr_t)p->seed_pointer);
  if ((uintptr_t)p->offset_pointer % 8 != 0)
    return fail(result_invalid, "offsetPointer is address %#llx, which is not a multiple of 8 bytes; align its memory",
                (unsigned long long)(uintptr_t)p->offset_pointer);
  params->seed = p->seed;
  params->offset = p->offset;
  params->seed_pointer = p->seed_pointer;
  params->offset_pointer = p->offset_pointer;
  params->workspace = p->workspace;
  params->group = sizes->kv_heads == 0 ? 1 : (int32_t)(sizes->heads / sizes->kv_heads);
  params->q_offset = p->q_offset;
  params->drop_threshold = 0;
  if (kernel->has_dropout) {
    const long threshold = lround(65536.0 * (double)p->dropout);
    params->drop_threshold = threshold < 65535 ? (uint32_t)threshold : 65535;
  }
  params->keep_scale = (float)(65536.0 / (double)(65536 - params->drop_threshold));
  params->mapped = 0;
  params->unused = 0;
  return result_ok;
}

/*===----------------------------------------------------------------------===*/
/* Captured tensors                                                           */
/*===----------------------------------------------------------------------===*/

static int check_captured(const tensor_table *table, const tensor_view *tensor, int is_pattern) {
  const char *kind = is_pattern ? "block pattern" : "captured tensor";
  char text[128];
  int i;
  for (i = 0; i < table->rank; ++i)
    if (tensor->shape[i] < (is_pattern ? 0 : 1))
      return fail(result_invalid, "%s '%s' has extent %lld in dimension %d; every extent is at least %d", kind,
                  table->name, (print_int)tensor->shape[i], i, is_pattern ? 0 : 1);
  if (!tensor->data && !is_empty(tensor, table->rank))
    return fail(result_invalid, "%s '%s' is null but has shape %s; pass the address of its memory", kind, table->name,
                shape_text(tensor, table->rank, text, sizeof text));
  if ((uintptr_t)tensor->data % (uintptr_t)table->element_bytes != 0)
    return fail(result_invalid,
                "%s '%s' starts at address %#llx, which is not a multiple of %d bytes; align its memory", kind,
                table->name, (unsigned long long)(uintptr_t)tensor->data, table->element_bytes);
  return result_ok;
}

static int check_pattern(const image_table *image, const tensor_table *table, const tensor_view *tensor,
                         const launch_sizes *sizes) {
  const int rank = table->rank;
  const int64_t rows = divided_up(sizes->query_length, image->pattern_rows),
                columns = divided_up(sizes->key_length, image->pattern_columns);
  if (tensor->shape[rank - 2] < rows || tensor->shape[rank - 1] < columns)
    return fail(result_invalid,
                "block pattern '%s' has %lld x %lld blocks of %d x %d, required are %lld x %lld for Sq = %lld and Sk "
                "= %lld; pass one entry per block",
                table->name, (print_int)tensor->shape[rank - 2], (print_int)tensor->shape[rank - 1],
                image->pattern_rows, image->pattern_columns, (print_int)rows, (print_int)columns,
                (print_int)sizes->query_length, (print_int)sizes->key_length);
  if (rank >= 3 && tensor->shape[rank - 3] != 1 && tensor->shape[rank - 3] != sizes->heads)
    return fail(
        result_invalid,
        "block pattern '%s' has %lld heads, required is 1 or %lld; pass one plane for all heads or one per head",
        table->name, (print_int)tensor->shape[rank - 3], (print_int)sizes->heads);
  if (rank == 4 && tensor->shape[0] != 1 && tensor->shape[0] != sizes->batch)
    return fail(
        result_invalid,
        "block pattern '%s' has batch %lld, required is 1 or %lld; pass one plane for all batches or one per batch",
        table->name, (print_int)tensor->shape[0], (print_int)sizes->batch);
  return result_ok;
}

/*===----------------------------------------------------------------------===*/
/* Indices of captured tensors                                                */
/*===----------------------------------------------------------------------===*/

/* The ranges of (b, h, q, k) in a launch, both ends included, q with the q offset; and the extents B, H, Sq, Sk. */
typedef struct {
  int64_t low[4], high[4], extents[4];
} element_box;

static int64_t value_at(const linear_index *x, const element_box *box, const int64_t *at) {
  int64_t sum = x->constant;
  int i;
  for (i = 0; i < 4; ++i)
    sum += x->coordinates[i] * at[i] + x->extents[i] * box->extents[i];
  return sum;
}

static int passes_guards(const index_table *table, const element_box *box, const int64_t *at) {
  int i;
  for (i = 0; i < table->guard_count; ++i)
    if (value_at(&table->guards[i], box, at) < 0)
      return 0;
  return 1;
}

/* Whether an element with the greatest (or least) index is certainly evaluated. Checked are the corners of the box, and
 * from each corner the nearest element at which a guard holds. */
static int is_reached(const index_table *table, const element_box *box, int greatest) {
  const int64_t *factors = table->index.coordinates;
  unsigned corner;
  for (corner = 0; corner < 16; ++corner) {
    int64_t at[4];
    int i, guard, is_end = 1;
    for (i = 0; i < 4; ++i) {
      const int high = corner >> i & 1;
      at[i] = high ? box->high[i] : box->low[i];
      is_end = is_end && (factors[i] == 0 || (factors[i] > 0) == (high == greatest));
    }
    if (!is_end)
      continue;
    if (passes_guards(table, box, at))
      return 1;
    for (guard = 0; guard < table->guard_count; ++guard)
      for (i = 0; i < 4; ++i) {
        const int64_t step = table->guards[guard].coordinates[i], held = at[i];
        int reached;
        if (factors[i] != 0 || (step != 1 && step != -1))
          continue;
        at[i] = held - step * value_at(&table->guards[guard], box, at);
        at[i] = at[i] < box->low[i] ? box->low[i] : at[i] > box->high[i] ? box->high[i] : at[i];
        reached = passes_guards(table, box, at);
        at[i] = held;
        if (reached)
          return 1;
      }
  }
  return 0;
}

/* The extents that the greatest (or least) value of the index depends on: " for Sq 256 and Sk 256". */
static const char *depends_on(const linear_index *index, const element_box *box, int greatest, char *to, size_t size) {
  static const char *const names[] = {"B", "H", "Sq", "Sk"};
  int i, used = 0;
  to[0] = 0;
  for (i = 0; i < 4; ++i)
    if ((greatest ? index->coordinates[i] > 0 : index->coordinates[i] < 0) || index->extents[i])
      used += snprintf(to + used, size - (size_t)used, "%s%s %lld", used ? " and " : " for ", names[i],
                       (print_int)box->extents[i]);
  if (index->coordinates[2] && box->low[2])
    snprintf(to + used, size - (size_t)used, "%sqOffset %lld", used ? " and " : " for ", (print_int)box->low[2]);
  return to;
}

/* The reason in an error text: ", but Sk is 256", ", which reaches 510 for Sq 256 and Sk 256", or "" for a constant. */
static const char *why_greatest(const index_table *table, const element_box *box, int64_t greatest, char *to,
                                size_t size) {
  static const char *const names[] = {"B", "H", "Sq", "Sk"};
  char sizes[160];
  int i;
  for (i = 0; i < 4; ++i) {
    linear_index coordinate;
    memset(&coordinate, 0, sizeof coordinate);
    coordinate.coordinates[i] = 1;
    if (memcmp(&table->index, &coordinate, sizeof coordinate) == 0 && box->low[i] == 0) {
      snprintf(to, size, ", but %s is %lld", names[i], (print_int)box->extents[i]);
      return to;
    }
  }
  to[0] = 0;
  if (*depends_on(&table->index, box, 1, sizes, sizeof sizes))
    snprintf(to, size, ", which reaches %lld%s", (print_int)greatest, sizes);
  return to;
}

static int index_outside(const tensor_table *tensor, int64_t extent, const index_table *table, const element_box *box,
                         int64_t least, int64_t greatest) {
  const int may_clamp = table->element[0] != 0; /* else each element has its own gradient */
  char why[256];
  if (!may_clamp && greatest >= extent && is_reached(table, box, 1))
    return fail(result_invalid,
                "captured tensor '%s' has %lld element%s in dimension %d and is indexed by %s%s; pass at least %lld, "
                "as its gradient has an element for each",
                tensor->name, (print_int)extent, extent == 1 ? "" : "s", table->dim, table->text,
                why_greatest(table, box, greatest, why, sizeof why), (print_int)(greatest + 1));
  if (greatest >= extent && is_reached(table, box, 1))
    return fail(result_invalid,
                "captured tensor '%s' has %lld element%s in dimension %d and is indexed by %s%s; pass at least %lld, "
                "or write clamped(%s) where "
                "reading the last element is meant",
                tensor->name, (print_int)extent, extent == 1 ? "" : "s", table->dim, table->text,
                why_greatest(table, box, greatest, why, sizeof why), (print_int)(greatest + 1), table->element);
  if (!may_clamp && least < 0 && is_reached(table, box, 0))
    return fail(result_invalid,
                "captured tensor '%s' is indexed by %s in dimension %d, which begins at %lld%s; index it from 0 on, as "
                "its gradient has an element for each",
                tensor->name, table->text, table->dim, (print_int)least,
                depends_on(&table->index, box, 0, why, sizeof why));
  if (least < 0 && is_reached(table, box, 0))
    return fail(result_invalid,
                "captured tensor '%s' is indexed by %s in dimension %d, which begins at %lld%s; correct the index, or "
                "write clamped(%s) where "
                "reading the first element is meant",
                tensor->name, table->text, table->dim, (print_int)least,
                depends_on(&table->index, box, 0, why, sizeof why), table->element);
  return result_ok;
}

static int check_indices(const tensor_table *table, const tensor_view *tensor, const launch_sizes *sizes,
                         int64_t q_offset) {
  const element_box box = {
      {0, 0, q_offset, 0},
      {sizes->batch - 1, sizes->heads - 1, sizes->query_length - 1 + q_offset, sizes->key_length - 1},
      {sizes->batch, sizes->heads, sizes->query_length, sizes->key_length}};
  int n, i, code;
  if (!sizes->batch || !sizes->heads || !sizes->query_length || !sizes->key_length)
    return result_ok;
  for (n = 0; n < table->index_count; ++n) {
    const index_table *index = &table->indices[n];
    const int64_t extent = tensor->shape[index->dim];
    int64_t least = index->index.constant, greatest = least;
    for (i = 0; i < 4; ++i) {
      const int64_t factor = index->index.coordinates[i], sizes = index->index.extents[i] * box.extents[i];
      least += factor * (factor < 0 ? box.high[i] : box.low[i]) + sizes;
      greatest += factor * (factor < 0 ? box.low[i] : box.high[i]) + sizes;
    }
    /* If the int32 index overflows, the kernel reads at another index, about which nothing is known here. */
    if ((least >= 0 && greatest < extent) || least < -most_int32 - 1 || greatest > most_int32 ||
        (index->broadcast && extent == 1))
      continue;
    code = index_outside(table, extent, index, &box, least, greatest);
    if (code != result_ok)
      return code;
  }
  return result_ok;
}

/*===----------------------------------------------------------------------===*/
/* The workspace                                                              */
/*===----------------------------------------------------------------------===*/

static int64_t product_at_most(int64_t a, int64_t b) {
  return a == 0 || b == 0 ? 0 : a > most_count / b ? most_count : a * b;
}

/* The number of tiles of an axis. */
static int64_t count_of(const count_table *axis, const problem *p) {
  const int64_t extent = extent_of(axis, p->extents, p->tensors);
  return extent > 0 ? divided_up(extent, axis->by) : 0;
}

typedef struct {
  int64_t extents[most_axes], strides[most_axes];
  size_t bytes; /* rounded up to a multiple of 16 */
} placed_tensor;

static placed_tensor place_tensor(const workspace_table *table, const problem *p) {
  placed_tensor placed;
  int64_t stride = 1, bytes;
  int dim;
  memset(&placed, 0, sizeof placed);
  for (dim = table->rank - 1; dim >= 0; --dim) {
    placed.extents[dim] = count_of(&table->dimensions[dim], p);
    placed.strides[dim] = stride;
    stride = product_at_most(stride, placed.extents[dim]);
  }
  bytes = product_at_most(stride, table->element_bytes);
  placed.bytes = (size_t)(bytes + 15) / 16 * 16;
  return placed;
}

/* The bytes that the first `count` tensors of the workspace take. */
static size_t workspace_before(const image_table *image, int count, const problem *p) {
  size_t bytes = 0;
  int i;
  for (i = 0; i < count; ++i)
    bytes += place_tensor(&image->workspaces[i], p).bytes;
  return bytes;
}

static size_t workspace_of(const image_table *image, const problem *p) {
  return workspace_before(image, image->workspace_count, p);
}

static size_t most_workspace_of(const kernel_table *kernel, const problem *p) {
  size_t most = 0;
  int i;
  for (i = 0; i < kernel->image_count; ++i) {
    const size_t bytes = workspace_of(&kernel->images[i], p);
    most = bytes > most ? bytes : most;
  }
  return most;
}

static int check_workspace(const problem *p, size_t needed) {
  if (needed == 0)
    return result_ok;
  if (!p->workspace)
    return fail(result_invalid,
                "the launch needs a workspace of %llu bytes, workspace is null; allocate as many bytes as the header's "
                "workspace_bytes function says and pass them in workspace and workspace_bytes",
                (unsigned long long)needed);
  if (p->workspace_bytes < needed)
    return fail(
        result_invalid,
        "the launch needs a workspace of %llu bytes, workspace_bytes is %llu; allocate as many bytes as the header's "
        "workspace_bytes function says and pass them in workspace and workspace_bytes",
        (unsigned long long)needed, (unsigned long long)p->workspace_bytes);
  if ((uintptr_t)p->workspace % tile_alignment != 0)
    return fail(result_invalid,
                "workspace starts at address %#llx, which is not a multiple of 16 bytes; align its memory",
                (unsigned long long)(uintptr_t)p->workspace);
  return result_ok;
}

/*===----------------------------------------------------------------------===*/
/* Tensor maps                                                                */
/*===----------------------------------------------------------------------===*/

/* The description of a tensor for TMA: innermost dimension first, strides in bytes. */
typedef struct {
  const void *address;
  uint64_t dimensions[4], strides[3];
} map_view;

/* The stride as kernels receive it: 0 for a dimension of one element, whose stride is meaningless. */
static int64_t packed_stride(const tensor_view *tensor, int dim) {
  return tensor->shape[dim] > 1 ? tensor->strides[dim] : 0;
}

/* The tensor that a tensor map describes. */
typedef struct {
  tensor_view view;
  int rank;
  int64_t element_bytes;
} mapped_tensor;

/* Whether a launch may run without the map: captured tensors and their gradients may have any strides. */
static int is_optional_map(const map_table *map) { return map->of == map_of_captured || map->of == map_of_gradient; }

/* Whether TMA can address the tensor, and each query and key of the launch has an element of its own. */
static int is_mapped(const mapped_tensor *mapped, const launch_sizes *sizes, int64_t q_offset) {
  const int64_t greatest = ((int64_t)1 << 40) - 1, bytes = mapped->element_bytes;
  const tensor_view *tensor = &mapped->view;
  const int rank = mapped->rank;
  int i;
  if ((uintptr_t)tensor->data % 16 != 0 || packed_stride(tensor, rank - 1) != 1 ||
      sizes->key_length > tensor->shape[rank - 1] || q_offset < 0 ||
      q_offset + sizes->query_length > tensor->shape[rank - 2])
    return 0;
  for (i = 0; i < rank - 1; ++i) {
    const int64_t stride = packed_stride(tensor, i);
    if (stride < 0 || stride > greatest / bytes || stride * bytes % 16 != 0)
      return 0;
  }
  return 1;
}

/* The view of a workspace tensor at its place in the workspace. */
static tensor_view placed_view(const image_table *image, int index, const problem *p) {
  const size_t bytes = sizeof(int64_t) * (size_t)image->workspaces[index].rank;
  const placed_tensor placed = place_tensor(&image->workspaces[index], p);
  tensor_view view;
  memset(&view, 0, sizeof view);
  view.data = (const char *)p->workspace + workspace_before(image, index, p);
  memcpy(view.shape, placed.extents, bytes);
  memcpy(view.strides, placed.strides, bytes);
  return view;
}

static const char *mapped_name(const kernel_table *kernel, const image_table *image, const map_table *map) {
  return map->of == map_of_captured    ? kernel->tensors[map->index].name
         : map->of == map_of_workspace ? image->workspaces[map->index].name
                                       : kernel->operands[map->index].name;
}

static mapped_tensor tensor_of(const kernel_table *kernel, const image_table *image, const map_table *map,
                               const problem *p) {
  mapped_tensor tensor;
  if (map->of == map_of_captured) {
    tensor.view = p->tensors[map->index];
    tensor.rank = kernel->tensors[map->index].rank;
    tensor.element_bytes = kernel->tensors[map->index].element_bytes;
  } else if (map->of == map_of_workspace) {
    tensor.view = placed_view(image, map->index, p);
    tensor.rank = image->workspaces[map->index].rank;
    tensor.element_bytes = image->workspaces[map->index].element_bytes;
  } else {
    tensor.view = p->operands[map->index];
    tensor.rank = kernel->operands[map->index].rank;
    tensor.element_bytes = kernel->operands[map->index].element_bytes;
  }
  return tensor;
}

static map_view view_of(const kernel_table *kernel, const image_table *image, const map_table *map, const problem *p) {
  const mapped_tensor mapped = tensor_of(kernel, image, map, p);
  const tensor_view *tensor = &mapped.view;
  const int rank = mapped.rank;
  const int64_t bytes = mapped.element_bytes;
  map_view view = {NULL, {1, 1, 1, 1}, {0, 0, 0}};
  int i;
  view.address = tensor->data;
  for (i = 0; i < rank; ++i)
    view.dimensions[i] = (uint64_t)(tensor->shape[rank - 1 - i] > 1 ? tensor->shape[rank - 1 - i] : 1);
  /* The stride of a dimension of one element is never used, but cuTensorMapEncodeTiled requires a valid value. */
  for (i = 0; i < 3; ++i)
    view.strides[i] = view.dimensions[i + 1] == 1 ? ((uint64_t)bytes * view.dimensions[0] + 15) / 16 * 16
                                                  : (uint64_t)(bytes * packed_stride(tensor, rank - 2 - i));
  return view;
}

/*===----------------------------------------------------------------------===*/
/* Packing                                                                    */
/*===----------------------------------------------------------------------===*/

static unsigned char *put(unsigned char *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
  return to + bytes;
}

/* Packs address, strides and extents. */
static unsigned char *put_tensor(unsigned char *to, const tensor_view *tensor, int rank) {
  int dim;
  to = put(to, &tensor->data, 8);
  for (dim = 0; dim < rank; ++dim) {
    const int64_t stride = packed_stride(tensor, dim);
    to = put(to, &stride, 8);
  }
  return put(to, tensor->shape, 8 * (size_t)rank);
}

static int pack_tensors(const kernel_table *kernel, const image_table *image, const problem *p, packed_problem *packed,
                        unsigned char **cursor) {
  int i, code;
  for (i = 0; i < kernel->tensor_count; ++i) {
    const tensor_table *table = &kernel->tensors[i];
    code = check_captured(table, &p->tensors[i], image->pattern == i);
    if (code == result_ok && image->pattern == i)
      code = check_pattern(image, table, &p->tensors[i], &packed->sizes);
    if (code == result_ok)
      code = check_indices(table, &p->tensors[i], &packed->sizes, p->q_offset);
    if (code != result_ok)
      return code;
    *cursor = put_tensor(*cursor, &p->tensors[i], table->rank);
  }
  return result_ok;
}

/* The bounds kernel that counts a mask's visible elements in each tile numbers the tiles by 32 bits. */
static int check_counted_tiles(const workspace_table *table, const placed_tensor *placed) {
  double tiles = 1;
  int dim, counted = 0;
  for (dim = 1; dim < table->rank; ++dim) {
    tiles *= (double)placed->extents[dim];
    counted += table->dimensions[dim].by > 1;
  }
  if (counted < 2 || tiles <= (double)most_int32)
    return result_ok;
  return fail(result_invalid,
              "the launch counts its mask in %.3g tiles, %.3g at most; compile with larger tiles (.tileQ, .tileK), or "
              "launch fewer batches or heads at a time",
              tiles, (double)most_int32);
}

/* Packs the workspace tensors, which follow the operands in the parameters. */
static int pack_workspace(const image_table *image, const problem *p, unsigned char *cursor) {
  size_t at = 0;
  int i, code;
  for (i = 0; i < image->workspace_count; ++i) {
    const placed_tensor placed = place_tensor(&image->workspaces[i], p);
    const size_t bytes = 8 * (size_t)image->workspaces[i].rank;
    const uint64_t address = (uint64_t)(uintptr_t)p->workspace + at;
    code = check_counted_tiles(&image->workspaces[i], &placed);
    if (code != result_ok)
      return code;
    cursor = put(put(put(cursor, &address, 8), placed.strides, bytes), placed.extents, bytes);
    at += placed.bytes;
  }
  return check_workspace(p, at);
}

static size_t packed_workspace_bytes(const image_table *image) {
  size_t bytes = 0;
  int i;
  for (i = 0; i < image->workspace_count; ++i)
    bytes += 8 + 16 * (size_t)image->workspaces[i].rank;
  return bytes;
}

static int too_many_blocks(const entry_table *entry, const problem *p) {
  char grid[256] = "";
  double blocks = 1;
  int i, used = 0;
  for (i = 0; i < entry->grid_count; ++i) {
    const count_table *axis = &entry->grid[i];
    const int64_t tiles = count_of(axis, p);
    const size_t left = sizeof grid - (size_t)used;
    blocks *= (double)tiles;
    used += axis->by == 1 ? snprintf(grid + used, left, "%s%s = %lld", i ? ", " : "", axis->extent, (print_int)tiles)
                          : snprintf(grid + used, left, "%s%lld tiles of %lld of %s", i ? ", " : "", (print_int)tiles,
                                     (print_int)axis->by, axis->extent);
  }
  return fail(result_invalid, "the launch needs %.0f blocks (%s), the most is %lld; split the batch", blocks, grid,
              (print_int)most_int32);
}

/* Whether the kernel has nothing to do in a launch of these sizes. */
static int has_nothing_to_do(const entry_table *entry, const problem *p) {
  int i;
  for (i = 0; i < entry->bound_count; ++i) {
    const int64_t extent = count_of(&entry->bounds[i].axis, p);
    if (extent < 1 || extent > count_of(&entry->bounds[i].most, p))
      return 0;
  }
  return entry->bound_count > 0;
}

static int count_blocks(const entry_table *entry, const problem *p, int64_t *counted) {
  int64_t blocks = 1;
  int i, too_many = 0;
  *counted = 0;
  if (has_nothing_to_do(entry, p))
    return result_ok;
  for (i = 0; i < entry->grid_count; ++i)
    if (count_of(&entry->grid[i], p) == 0)
      return result_ok;
  for (i = 0; i < entry->grid_count; ++i) {
    const int64_t tiles = count_of(&entry->grid[i], p);
    too_many = too_many || tiles > most_int32 / blocks;
    blocks = too_many ? 1 : blocks * tiles;
  }
  *counted = blocks;
  return too_many ? too_many_blocks(entry, p) : result_ok;
}

/* Checks that every kernel whose maps cannot be made has a fallback kernel. */
static int check_mapped(const kernel_table *kernel, const image_table *image, int32_t mapped) {
  int i, n, map;
  for (i = 0; i < image->entry_count; ++i) {
    const int32_t reads = image->entries[i].reads_maps, missing = reads & ~mapped;
    int is_fallback = missing == 0;
    for (n = 0; n < image->entry_count; ++n)
      is_fallback = is_fallback || image->entries[n].fallback_of_maps == reads;
    for (map = 0; map < image->map_count && !is_fallback; ++map)
      if (missing >> map & 1)
        return fail(
            result_invalid,
            "captured tensor '%s' is read by TMA alone, which needs columns side by side, an address "
            "and strides of multiples of 16 bytes, and an element for each query and key; pad its rows, or add a "
            "kernel with tile.fallback_of",
            mapped_name(kernel, image, &image->maps[map]));
  }
  return result_ok;
}

/* Runs all checks and packs all parameters except for the tensor maps. */
static int pack_problem(const kernel_table *kernel, const image_table *image, const problem *p,
                        packed_problem *packed) {
  unsigned char *cursor = packed->bytes + sizeof(launch_params), *workspaces;
  int code, i;
  packed->sizes = sizes_of(kernel, p->extents);
  code = check_operands(kernel, p, &packed->sizes);
  if (code == result_ok)
    code = pack_launch_values(kernel, p, &packed->sizes, &packed->params);
  if (code != result_ok)
    return code;
  cursor = put(cursor, p->extents, 8 * (size_t)kernel->axis_count);
  cursor = put(cursor, p->scalars, 8 * (size_t)kernel->scalar_count);
  for (i = 0; i < kernel->operand_count; ++i)
    cursor = put_tensor(cursor, &p->operands[i], kernel->operands[i].rank);
  workspaces = cursor;
  cursor += packed_workspace_bytes(image);
  code = pack_tensors(kernel, image, p, packed, &cursor);
  if (code == result_ok)
    code = pack_workspace(image, p, workspaces);
  for (i = 0; i < image->entry_count && code == result_ok; ++i)
    code = count_blocks(&image->entries[i], p, &packed->blocks[i]);
  for (i = 0; i < image->map_count && code == result_ok; ++i) {
    const map_table *map = &image->maps[i];
    int has_map = 1;
    if (is_optional_map(map)) {
      const mapped_tensor mapped = tensor_of(kernel, image, map, p);
      has_map = is_mapped(&mapped, &packed->sizes, p->q_offset);
    }
    if (has_map)
      packed->params.mapped |= (int32_t)(1u << i);
  }
  return code == result_ok ? check_mapped(kernel, image, packed->params.mapped) : code;
}

/*===----------------------------------------------------------------------===*/
/* The driver                                                                 */
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

/* Enumerators of cuda.h. */
enum {
  attribute_multiprocessors = 16,
  attribute_compute_major = 75,
  attribute_compute_minor = 76,
  attribute_shared_per_block = 97,
  function_max_dynamic_shared = 8,
  launch_programmatic_serialization = 6,
  capture_mode_relaxed = 2,
  no_promotion = 0,
  promote_to_256_bytes = 3,
  oldest_driver = 11040,
  captures_programmatic_launches = 12030
};

/* Functions of cuda.h, with handles as void *. */
typedef struct {
  int version;
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
  /* Null in older drivers. */
  int (*cuLaunchKernelEx)(const launch_config *, void *, void **, void **);
  int (*cuTensorMapEncodeTiled)(void *, int, uint32_t, const void *, const uint64_t *, const uint64_t *,
                                const uint32_t *, const uint32_t *, int, int, int, int);
  int (*cuFuncGetParamInfo)(void *, size_t, size_t *, size_t *);
} driver_table;

/* The module of one context. */
typedef struct loaded_module {
  const image_table *image;
  void *context, *module, *functions[most_kernels];
  int64_t multiprocessors;
  struct loaded_module *next;
} loaded_module;

/* The lock guards these pointers; the objects that they point to are never freed. */
static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;
static const driver_table *opened_driver = NULL;
static loaded_module *loaded_modules = NULL;

static int driver_result(const driver_table *driver, int code, const char *what) {
  const char *name = NULL, *text = NULL;
  driver->cuGetErrorName(code, &name);
  driver->cuGetErrorString(code, &text);
  return fail(result_driver_error, "%s: %s (%s)", what, name ? name : "unknown CUDA error",
              text ? text : "no description");
}

static int open_driver(const driver_table **opened) {
  static driver_table driver;
  const struct {
    const char *name;
    void *entry;
    int required;
  } entries[] = {{"cuInit", &driver.cuInit, 1},
                 {"cuDriverGetVersion", &driver.cuDriverGetVersion, 1},
                 {"cuGetErrorName", &driver.cuGetErrorName, 1},
                 {"cuGetErrorString", &driver.cuGetErrorString, 1},
                 {"cuDeviceGetAttribute", &driver.cuDeviceGetAttribute, 1},
                 {"cuCtxGetCurrent", &driver.cuCtxGetCurrent, 1},
                 {"cuCtxGetDevice", &driver.cuCtxGetDevice, 1},
                 {"cuModuleLoadData", &driver.cuModuleLoadData, 1},
                 {"cuModuleUnload", &driver.cuModuleUnload, 1},
                 {"cuModuleGetFunction", &driver.cuModuleGetFunction, 1},
                 {"cuFuncSetAttribute", &driver.cuFuncSetAttribute, 1},
                 {"cuThreadExchangeStreamCaptureMode", &driver.cuThreadExchangeStreamCaptureMode, 1},
                 {"cuLaunchKernel", &driver.cuLaunchKernel, 1},
                 {"cuLaunchKernelEx", &driver.cuLaunchKernelEx, 0},
                 {"cuTensorMapEncodeTiled", &driver.cuTensorMapEncodeTiled, 0},
                 {"cuFuncGetParamInfo", &driver.cuFuncGetParamInfo, 0}};
  size_t i;
  int code;
  void *library;
  *opened = opened_driver;
  if (opened_driver)
    return result_ok;
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fail(result_no_driver, "no CUDA driver: %s; install the NVIDIA driver", dlerror());
  for (i = 0; i < sizeof entries / sizeof entries[0]; ++i) {
    void *symbol = dlsym(library, entries[i].name);
    if (!symbol && entries[i].required)
      return fail(result_no_driver, "the CUDA driver libcuda.so.1 has no entry point %s; install a newer NVIDIA driver",
                  entries[i].name);
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
  if (driver.cuDriverGetVersion(&driver.version) == 0 && driver.version < oldest_driver)
    return fail(result_no_driver,
                "the driver supports CUDA %d.%d, required is %d.%d or newer; install a newer NVIDIA driver",
                driver.version / 1000, driver.version % 1000 / 10, oldest_driver / 1000, oldest_driver % 1000 / 10);
  code = driver.cuInit(0);
  if (code != 0) {
    driver_result(&driver, code, "the CUDA driver does not start");
    return result_no_driver;
  }
  *opened = opened_driver = &driver;
  return result_ok;
}

static int driver_too_old(const driver_table *driver, const image_table *image) {
  return fail(result_no_driver,
              "the driver supports CUDA %d.%d, the kernel was compiled by NVRTC %d.%d; install a driver for CUDA %d.%d "
              "or newer, or export the kernel "
              "with an NVRTC %d.x",
              driver->version / 1000, driver->version % 1000 / 10, image->nvrtc / 1000, image->nvrtc % 1000 / 10,
              image->nvrtc / 1000, image->nvrtc % 1000 / 10, driver->version / 1000);
}

/* The image for the current context's device. */
static int choose_image(const kernel_table *kernel, const driver_table *driver, int device,
                        const image_table **chosen) {
  char archs[256];
  int major = 0, minor = 0, shared = 0, i, entry, used = 0;
  driver->cuDeviceGetAttribute(&major, attribute_compute_major, device);
  driver->cuDeviceGetAttribute(&minor, attribute_compute_minor, device);
  driver->cuDeviceGetAttribute(&shared, attribute_shared_per_block, device);
  for (i = 0; i < kernel->image_count; ++i) {
    const image_table *image = &kernel->images[i];
    if (image->major != major || !(image->minors >> minor & 1))
      continue;
    for (entry = 0; entry < image->entry_count; ++entry)
      if (image->entries[entry].shared_bytes > (unsigned)shared)
        return fail(
            result_no_kernel,
            "kernel '%s' needs %u bytes of shared memory, the device has %d per block; export it with --sram-budget %d",
            kernel->name, image->entries[entry].shared_bytes, shared, shared);
    if (image->map_count > 0 && !driver->cuTensorMapEncodeTiled)
      return driver_too_old(driver, image);
    *chosen = image;
    return result_ok;
  }
  for (i = 0; i < kernel->image_count; ++i)
    used += snprintf(archs + used, sizeof archs - (size_t)used, "%s%s", i ? ", " : "", kernel->images[i].arch);
  return fail(result_no_kernel,
              "kernel '%s' was exported for %s, the device has compute capability %d.%d; export it for that too",
              kernel->name, archs, major, minor);
}

static int load_function(const kernel_table *kernel, const entry_table *entry, const driver_table *driver,
                         loaded_module *loaded, void **function) {
  size_t offset = 0, size = 0;
  char what[256];
  int code = driver->cuModuleGetFunction(function, loaded->module, entry->name);
  snprintf(what, sizeof what, "kernel '%s' has no entry '%s'", kernel->name, entry->name);
  if (code == 0 && entry->shared_bytes > 0) {
    snprintf(what, sizeof what, "kernel '%s' cannot have %u bytes of shared memory", kernel->name, entry->shared_bytes);
    code = driver->cuFuncSetAttribute(*function, function_max_dynamic_shared, (int)entry->shared_bytes);
  }
  if (code != 0)
    return driver_result(driver, code, what);
  if (driver->cuFuncGetParamInfo && driver->cuFuncGetParamInfo(*function, 0, &offset, &size) == 0 &&
      size != loaded->image->packed_bytes)
    return fail(result_no_kernel, "kernel '%s' takes %llu bytes of parameters, its tables pack %llu; export it again",
                kernel->name, (unsigned long long)size, (unsigned long long)loaded->image->packed_bytes);
  return result_ok;
}

static int load_functions(const kernel_table *kernel, const driver_table *driver, int device, loaded_module *loaded) {
  const image_table *image = loaded->image;
  char what[256];
  int i, count = 0, code = driver->cuModuleLoadData(&loaded->module, image->cubin);
  if (code != 0 && image->nvrtc / 1000 > driver->version / 1000)
    return driver_too_old(driver, image);
  if (code != 0) {
    snprintf(what, sizeof what, "kernel '%s' does not load", kernel->name);
    return driver_result(driver, code, what);
  }
  for (i = 0; i < image->entry_count && code == result_ok; ++i)
    code = load_function(kernel, &image->entries[i], driver, loaded, &loaded->functions[i]);
  if (code != result_ok)
    return code;
  driver->cuDeviceGetAttribute(&count, attribute_multiprocessors, device);
  loaded->multiprocessors = count;
  return result_ok;
}

/* Loads the module. Loading may synchronise, which is allowed during stream capture only in relaxed mode. */
static int load_module(const kernel_table *kernel, const driver_table *driver, void *context,
                       const loaded_module **found) {
  const image_table *image = NULL;
  int device = 0, mode = capture_mode_relaxed, code = driver->cuCtxGetDevice(&device);
  loaded_module *loaded;
  if (code != 0)
    return driver_result(driver, code, "the current context has no device");
  code = choose_image(kernel, driver, device, &image);
  if (code != result_ok)
    return code;
  loaded = (loaded_module *)calloc(1, sizeof *loaded);
  if (!loaded)
    return fail(result_driver_error, "memory ran out");
  loaded->image = image;
  loaded->context = context;
  driver->cuThreadExchangeStreamCaptureMode(&mode);
  code = load_functions(kernel, driver, device, loaded);
  if (code != result_ok && loaded->module)
    driver->cuModuleUnload(loaded->module);
  driver->cuThreadExchangeStreamCaptureMode(&mode);
  if (code != result_ok) {
    free(loaded);
    return code;
  }
  loaded->next = loaded_modules;
  *found = loaded_modules = loaded;
  return result_ok;
}

/* The module of the calling thread's context, loaded at most once for each context. */
static int find_module(const kernel_table *kernel, const driver_table **driver, const loaded_module **found) {
  void *context = NULL;
  const loaded_module *loaded;
  int code;
  pthread_mutex_lock(&module_lock);
  code = open_driver(driver);
  if (code == result_ok && ((*driver)->cuCtxGetCurrent(&context) != 0 || !context))
    code =
        fail(result_invalid, "no CUDA context is current on this thread; call cudaSetDevice or cuCtxSetCurrent first");
  if (code == result_ok) {
    for (loaded = loaded_modules; loaded && loaded->context != context;)
      loaded = loaded->next;
    *found = loaded;
    if (!loaded)
      code = load_module(kernel, *driver, context, found);
  }
  pthread_mutex_unlock(&module_lock);
  return code;
}

/*===----------------------------------------------------------------------===*/
/* Launching                                                                  */
/*===----------------------------------------------------------------------===*/

static int fill_maps(const kernel_table *kernel, const image_table *image, const driver_table *driver, const problem *p,
                     packed_problem *packed) {
  static const uint32_t steps[] = {1, 1, 1, 1};
  unsigned char *out = packed->bytes + image->maps_at;
  int i, checked;
  for (i = 0; i < image->map_count; ++i, out += tensor_map_bytes) {
    const map_table *map = &image->maps[i];
    const int32_t bit = (int32_t)(1u << i);
    memset(out, 0, tensor_map_bytes);
    if (packed->params.mapped & bit) {
      const map_view view = view_of(kernel, image, map, p);
      const uint32_t box[] = {(uint32_t)map->columns, (uint32_t)map->rows, 1, 1};
      /* Rows that do not begin at a sector of 32 bytes take more requests, which would overlap if promoted. */
      const int promotion = view.strides[0] % 32 ? no_promotion : promote_to_256_bytes;
      const int code = driver->cuTensorMapEncodeTiled(out, map->type, 4, view.address, view.dimensions, view.strides,
                                                      box, steps, 0, map->swizzle, promotion, 0);
      if (code == 0)
        continue;
      if (!is_optional_map(map)) {
        char what[256];
        snprintf(what, sizeof what,
                 "%s with row, head and batch strides of %lld, %lld and %lld bytes cannot be described to TMA; "
                 "make it contiguous, or compile for sm_90",
                 mapped_name(kernel, image, map), (print_int)view.strides[0], (print_int)view.strides[1],
                 (print_int)view.strides[2]);
        return driver_result(driver, code, what);
      }
      packed->params.mapped &= ~bit;
      memset(out, 0, tensor_map_bytes);
      checked = check_mapped(kernel, image, packed->params.mapped);
      if (checked != result_ok)
        return checked;
    }
  }
  return result_ok;
}

/* As persistentBlocks of attune/LaunchParams.h: one block for each tile if there are enough multiprocessors, else one
 * block for each multiprocessor. If blocks do not claim tiles, all blocks but the last have at least two tiles. */
static int64_t persistent_blocks(int64_t tiles, int64_t multiprocessors, int claims) {
  return tiles <= multiprocessors ? tiles : tiles < 2 * multiprocessors && !claims ? (tiles + 1) / 2 : multiprocessors;
}

/* Whether a launch that could make the maps `mapped` starts the kernel. */
static int is_started(const entry_table *entry, int32_t mapped) {
  return !(entry->reads_maps & ~mapped) && (!entry->fallback_of_maps || entry->fallback_of_maps & ~mapped);
}

static int enqueue(const kernel_table *kernel, const loaded_module *loaded, int number, const driver_table *driver,
                   void *stream, packed_problem *packed, int *follows_own) {
  const entry_table *entry = &loaded->image->entries[number];
  void *arguments[1];
  const int64_t tiles = packed->blocks[number],
                blocks =
                    entry->persistent ? persistent_blocks(tiles, loaded->multiprocessors, entry->claims_work) : tiles;
  /* The first kernel of a launch follows a kernel of another launch, and must wait for that kernel's end. */
  const int is_dependent = entry->is_dependent && *follows_own;
  char what[256];
  int code;
  if (tiles == 0 || !is_started(entry, packed->params.mapped))
    return result_ok;
  *follows_own = 1;
  arguments[0] = packed->bytes;
  if (is_dependent && driver->cuLaunchKernelEx && driver->version >= captures_programmatic_launches) {
    launch_attribute attribute = {
        launch_programmatic_serialization, 0, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
    const launch_config config = {
        {(unsigned)blocks, 1, 1}, {(unsigned)entry->threads, 1, 1}, entry->shared_bytes, stream, &attribute, 1};
    code = driver->cuLaunchKernelEx(&config, loaded->functions[number], arguments, NULL);
  } else {
    code = driver->cuLaunchKernel(loaded->functions[number], (unsigned)blocks, 1, 1, (unsigned)entry->threads, 1, 1,
                                  entry->shared_bytes, stream, arguments, NULL);
  }
  if (code == 0)
    return result_ok;
  snprintf(what, sizeof what, "launch of kernel '%s' failed", kernel->name);
  return driver_result(driver, code, what);
}

/* Whether a kernel that writes results has blocks. */
static int has_work(const image_table *image, const packed_problem *packed) {
  int i;
  for (i = 0; i < image->entry_count; ++i)
    if (packed->blocks[i] != 0 && !image->entries[i].is_preparation)
      return 1;
  return 0;
}

static int check_and_enqueue(const kernel_table *kernel, const problem *p) {
  const driver_table *driver = NULL;
  const loaded_module *loaded = NULL;
  packed_problem packed;
  int follows_own = 0;
  int i, code = find_module(kernel, &driver, &loaded);
  if (code == result_ok)
    code = pack_problem(kernel, loaded->image, p, &packed);
  if (code != result_ok || !has_work(loaded->image, &packed))
    return code;
  code = fill_maps(kernel, loaded->image, driver, p, &packed);
  /* fill_maps has changed params.mapped, so params are packed after the call. */
  memcpy(packed.bytes, &packed.params, sizeof packed.params);
  for (i = 0; i < loaded->image->entry_count && code == result_ok; ++i)
    code = enqueue(kernel, loaded, i, driver, p->stream, &packed, &follows_own);
  return code;
}

static int load_for_context(const kernel_table *kernel) {
  const driver_table *driver = NULL;
  const loaded_module *loaded = NULL;
  return find_module(kernel, &driver, &loaded);
}
