/*===- Launcher.c - Checks, packs and starts launches -----------------------===*/
#include "runtime/Launcher.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const int64_t most_int32 = 2147483647;
static const int tile_alignment = 16; /* bytes that one cp.async or vector access of a tiled operand moves */

/* Enumerators of cuda.h. */
enum {
  function_max_dynamic_shared = 8,
  launch_programmatic_serialization = 6,
  error_invalid_image = 200,
  error_no_binary_for_gpu = 209,
  error_unsupported_ptx_version = 222,
  no_promotion = 0,
  promote_to_128_bytes = 2,
  captures_programmatic_launches = 12030
};

#define RETURN_IF_ERROR(call)                                                                                          \
  do {                                                                                                                 \
    const int failed = (call);                                                                                         \
    if (failed)                                                                                                        \
      return failed;                                                                                                   \
  } while (0)

/*===----------------------------------------------------------------------===*/
/* Errors                                                                     */
/*===----------------------------------------------------------------------===*/

/* Formats print int64_t as long and uint64_t as unsigned long, which they are on 64-bit Linux. */
static __thread char last_text[2048];
static __thread size_t text_length; /* of the text so far; 0 after an error is complete */

const char *launcher_text(void) { return last_text; }

static void append(const char *format, va_list values) {
  vsnprintf(last_text + text_length, sizeof last_text - text_length, format, values);
  text_length += strlen(last_text + text_length);
}

/* Appends to the text of an error. Cold, as `fail` is, so that the code that a valid launch runs stays small. */
__attribute__((cold, noinline, format(printf, 1, 2))) static void say(const char *format, ...) {
  va_list values;
  va_start(values, format);
  append(format, values);
  va_end(values);
}

/* Completes the text of an error. */
__attribute__((cold, noinline, format(printf, 2, 3))) static int fail(int result, const char *format, ...) {
  va_list values;
  va_start(values, format);
  append(format, values);
  va_end(values);
  text_length = 0;
  return result;
}

/* Completes the text of an error with the driver's name and description of it. */
__attribute__((cold, noinline)) static int driver_failure(const driver_table *driver, int code) {
  const char *name = NULL, *description = NULL;
  driver->cuGetErrorName(code, &name);
  driver->cuGetErrorString(code, &description);
  if (name)
    say(": %s", name);
  else
    say(": CUDA error %d", code);
  return fail(result_driver_error, " (%s)", description ? description : "no description");
}

/*===----------------------------------------------------------------------===*/
/* Extents                                                                    */
/*===----------------------------------------------------------------------===*/

static int64_t divided_up(int64_t count, int64_t size) { return count / size + (count % size != 0); }

int64_t launcher_product(int64_t a, int64_t b) {
  const int64_t most = (int64_t)1 << 56;
  return a <= 0 || b <= 0 ? 0 : a > most / b ? most : a * b;
}

int64_t launcher_count(const dimension_table *dimension, const launch_problem *p) {
  int64_t extent = dimension->size;
  if (dimension->axis >= 0)
    extent = p->extents[dimension->axis];
  else if (dimension->tensor >= 0)
    extent = p->tensors[dimension->tensor].shape ? p->tensors[dimension->tensor].shape[dimension->dim] : 0;
  return dimension->by == 1 ? extent : divided_up(extent, dimension->by);
}

launch_sizes launcher_sizes(const kernel_table *kernel, const int64_t *extents) {
  launch_sizes sizes;
  sizes.batch = kernel->batch < 0 ? 1 : extents[kernel->batch];
  sizes.heads = kernel->heads < 0 ? 1 : extents[kernel->heads];
  sizes.kv_heads = kernel->kv_heads < 0 ? 1 : extents[kernel->kv_heads];
  sizes.query_length = kernel->query_length < 0 ? 1 : extents[kernel->query_length];
  sizes.key_length = kernel->key_length < 0 ? 1 : extents[kernel->key_length];
  sizes.group = kernel->kv_heads < 0 || sizes.kv_heads == 0 ? 1 : sizes.heads / sizes.kv_heads;
  return sizes;
}

static int is_empty(const tensor_view *tensor, int rank) {
  int i;
  for (i = 0; i < rank; ++i)
    if (tensor->shape[i] == 0)
      return 1;
  return 0;
}

/*===----------------------------------------------------------------------===*/
/* Operands                                                                   */
/*===----------------------------------------------------------------------===*/

/* Begins a message about an operand, whose `kind` is null, or about a captured tensor. */
static void say_subject(const char *kind, const char *name) {
  if (kind)
    say("%s '%s'", kind, name);
  else
    say("%s", name);
}

/* Checks that a tensor with elements has an address. */
static int check_present(const char *kind, const char *name, const tensor_view *tensor, int rank) {
  int i;
  if (tensor->data || is_empty(tensor, rank))
    return result_ok;
  say_subject(kind, name);
  say(" is null but has shape [");
  for (i = 0; i < rank; ++i)
    say("%s%ld", i ? ", " : "", tensor->shape[i]);
  return fail(result_invalid, "]; pass the address of its memory");
}

static int check_aligned(const char *kind, const char *name, const void *data, int bytes) {
  if ((uintptr_t)data % (uintptr_t)bytes == 0)
    return result_ok;
  say_subject(kind, name);
  return fail(result_invalid, " starts at address %#lx, which is not a multiple of %d bytes; align its memory",
              (uintptr_t)data, bytes);
}

/* Checks an operand that kernels access by tiles: the last stride is 1, and the address and the other strides are
 * multiples of 16 bytes. */
static int check_tiled(const operand_table *table, const tensor_view *operand) {
  const int64_t elements = tile_alignment / table->element_bytes;
  const int last = table->rank - 1;
  int i;
  if (operand->strides[last] != 1 && operand->shape[last] > 1)
    return fail(result_invalid,
                "%s has stride %ld in the %s dimension, required is 1; make its last dimension contiguous", table->name,
                operand->strides[last], table->dimensions[last].stride);
  RETURN_IF_ERROR(check_aligned(NULL, table->name, operand->data, tile_alignment));
  for (i = 0; i < last; ++i)
    if (operand->shape[i] > 1 && operand->strides[i] % elements != 0) {
      const int64_t padded = (operand->strides[i] + elements - 1) / elements * elements;
      return fail(result_invalid,
                  "%s has a %s stride of %ld elements (%ld bytes), which is not a multiple of 16 bytes; pad it to %ld "
                  "elements",
                  table->name, table->dimensions[i].stride, operand->strides[i],
                  operand->strides[i] * table->element_bytes, operand->strides[i] > 0 ? padded : elements);
    }
  return result_ok;
}

/* Checks that no two elements of an output share memory: stride 0 is an error. */
static int check_output(const operand_table *table, const tensor_view *operand) {
  int i;
  for (i = 0; i < table->rank; ++i)
    if (operand->strides[i] == 0 && operand->shape[i] > 1)
      return fail(result_invalid, "%s has stride 0 along its %s dimension of extent %ld; an output cannot be broadcast",
                  table->name, table->dimensions[i].stride, operand->shape[i]);
  return result_ok;
}

static int check_operand(const operand_table *table, const tensor_view *operand) {
  const int empty = is_empty(operand, table->rank);
  int i;
  for (i = 0; i < table->rank; ++i)
    if (operand->shape[i] < 0)
      return fail(result_invalid, "%s has extent %ld in dimension %d; extents are at least 0", table->name,
                  operand->shape[i], i);
  RETURN_IF_ERROR(check_present(NULL, table->name, operand, table->rank));
  if (!table->is_tiled)
    RETURN_IF_ERROR(check_aligned(NULL, table->name, operand->data, table->element_bytes));
  else if (!empty)
    RETURN_IF_ERROR(check_tiled(table, operand));
  return table->is_written && !empty ? check_output(table, operand) : result_ok;
}

/* The name of the first operand that has the axis in elements, not in tiles. */
static const char *first_with(const kernel_table *kernel, const launch_problem *p, int axis) {
  int n, i;
  for (n = 0; n < kernel->operand_count; ++n)
    for (i = 0; i < kernel->operands[n].rank; ++i)
      if (kernel->operands[n].dimensions[i].axis == axis && kernel->operands[n].dimensions[i].by == 1 &&
          p->operands[n].shape)
        return kernel->operands[n].name;
  return kernel->axes[axis].name;
}

/* Checks the extents that operands share: none is above the axis's limit, and the number of query heads is a multiple
 * of the number of key heads (GQA). */
static int check_extents(const kernel_table *kernel, const launch_problem *p) {
  const launch_sizes sizes = launcher_sizes(kernel, p->extents);
  int i;
  for (i = 0; i < kernel->axis_count; ++i) {
    const axis_table *axis = &kernel->axes[i];
    if (p->extents[i] <= axis->most)
      continue;
    if (strcmp(axis->noun, "heads") == 0 || strcmp(axis->noun, "pages") == 0)
      say("%s has %ld %s", first_with(kernel, p, i), p->extents[i], axis->noun);
    else
      say("%s has %s %ld", first_with(kernel, p, i), axis->noun, p->extents[i]);
    return fail(result_invalid, ", the most is %ld; %s", axis->most, axis->remedy);
  }
  if (kernel->heads >= 0 && kernel->kv_heads >= 0 &&
      (sizes.kv_heads == 0 ? sizes.heads != 0 : sizes.heads % sizes.kv_heads != 0))
    return fail(
        result_invalid, "%s has %ld heads, %s has %ld; the number of query heads must be a multiple of the key heads",
        first_with(kernel, p, kernel->heads), sizes.heads, first_with(kernel, p, kernel->kv_heads), sizes.kv_heads);
  return result_ok;
}

int launcher_check_operands(const kernel_table *kernel, const launch_problem *p) {
  int n;
  for (n = 0; n < kernel->operand_count; ++n)
    if (p->operands[n].shape)
      RETURN_IF_ERROR(check_operand(&kernel->operands[n], &p->operands[n]));
  return check_extents(kernel, p);
}

/*===----------------------------------------------------------------------===*/
/* Launch values other than tensors and scalars                               */
/*===----------------------------------------------------------------------===*/

uint32_t launcher_drop_threshold(float probability) {
  const long threshold = lround(65536.0 * (double)probability);
  return threshold < 65535 ? (uint32_t)threshold : 65535;
}

static int pack_launch_values(const kernel_table *kernel, const launch_problem *p, const launch_sizes *sizes,
                              launch_params *params) {
  if (!(p->dropout >= 0.0f && p->dropout < 1.0f))
    return fail(result_invalid, "dropout probability %g is outside [0, 1); pass 0 for no dropout", (double)p->dropout);
  if (p->q_offset > most_length || p->q_offset < -most_length)
    return fail(result_invalid, "qOffset %d is outside [-%ld, %ld]; pass the position of the first query", p->q_offset,
                most_length, most_length);
  if ((uintptr_t)p->seed_pointer % 8 != 0)
    return fail(result_invalid, "seedPointer is address %#lx, which is not a multiple of 8 bytes; align its memory",
                (uintptr_t)p->seed_pointer);
  if ((uintptr_t)p->offset_pointer % 8 != 0)
    return fail(result_invalid, "offsetPointer is address %#lx, which is not a multiple of 8 bytes; align its memory",
                (uintptr_t)p->offset_pointer);
  params->seed = p->seed;
  params->offset = p->offset;
  params->seed_pointer = p->seed_pointer;
  params->offset_pointer = p->offset_pointer;
  params->workspace = p->workspace;
  params->group = (int32_t)sizes->group;
  params->q_offset = p->q_offset;
  params->drop_threshold = kernel->has_dropout ? launcher_drop_threshold(p->dropout) : 0;
  params->keep_scale = (float)(65536.0 / (double)(65536 - params->drop_threshold));
  params->mapped = 0;
  params->unused = 0;
  return result_ok;
}

/*===----------------------------------------------------------------------===*/
/* Captured tensors                                                           */
/*===----------------------------------------------------------------------===*/

/* A launch without elements (b, h, q, k) reads nothing by an index, and may have captured tensors without elements. */
static int has_elements(const launch_sizes *sizes) {
  return sizes->batch && sizes->heads && sizes->query_length && sizes->key_length;
}

static int check_captured(const tensor_table *table, const tensor_view *tensor, int least) {
  const char *kind = table->pattern_rows ? "block pattern" : "captured tensor";
  int i;
  for (i = 0; i < table->rank; ++i)
    if (tensor->shape[i] < least)
      return fail(result_invalid, "%s '%s' has extent %ld in dimension %d; every extent is at least %d", kind,
                  table->name, tensor->shape[i], i, least);
  RETURN_IF_ERROR(check_present(kind, table->name, tensor, table->rank));
  return check_aligned(kind, table->name, tensor->data, table->element_bytes);
}

static int check_pattern(const tensor_table *table, const tensor_view *tensor, const launch_sizes *sizes) {
  const int rank = table->rank;
  const int64_t rows = divided_up(sizes->query_length, table->pattern_rows),
                columns = divided_up(sizes->key_length, table->pattern_columns);
  if (rank < 2 || rank > 4)
    return fail(result_invalid,
                "block pattern '%s' has rank %d, required is 2 to 4; declare it as [heads, rows, columns]", table->name,
                rank);
  if (tensor->shape[rank - 2] < rows || tensor->shape[rank - 1] < columns)
    return fail(result_invalid,
                "block pattern '%s' has %ld x %ld blocks of %d x %d, required are %ld x %ld for Sq = %ld and Sk "
                "= %ld; pass one entry per block",
                table->name, tensor->shape[rank - 2], tensor->shape[rank - 1], table->pattern_rows,
                table->pattern_columns, rows, columns, sizes->query_length, sizes->key_length);
  if (rank >= 3 && tensor->shape[rank - 3] != 1 && tensor->shape[rank - 3] != sizes->heads)
    return fail(result_invalid,
                "block pattern '%s' has %ld heads, required is 1 or %ld; pass one plane for all heads or one per head",
                table->name, tensor->shape[rank - 3], sizes->heads);
  if (rank == 4 && tensor->shape[0] != 1 && tensor->shape[0] != sizes->batch)
    return fail(
        result_invalid,
        "block pattern '%s' has batch %ld, required is 1 or %ld; pass one plane for all batches or one per batch",
        table->name, tensor->shape[0], sizes->batch);
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

/* Whether the kernel certainly evaluates the index at its greatest (or least) value: some element (b, h, q, k) with
 * that value satisfies all guards. Of the corners of the box, the function tries those with that value. From each of
 * these corners it also moves along each coordinate that the index does not depend on, to where a guard begins to hold
 * (the edge of a sliding window). The function may miss elements elsewhere; findIndexFault finds them. */
__attribute__((cold, noinline)) static int is_reached(const index_table *table, const element_box *box, int greatest) {
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
    if (is_end && passes_guards(table, box, at))
      return 1;
    for (guard = 0; is_end && guard < table->guard_count; ++guard)
      for (i = 0; i < 4; ++i) {
        const int64_t step = table->guards[guard].coordinates[i], corner_at = at[i];
        int reached;
        if (factors[i] != 0 || (step != 1 && step != -1))
          continue;
        at[i] -= step * value_at(&table->guards[guard], box, at);
        at[i] = at[i] < box->low[i] ? box->low[i] : at[i] > box->high[i] ? box->high[i] : at[i];
        reached = passes_guards(table, box, at);
        at[i] = corner_at;
        if (reached)
          return 1;
      }
  }
  return 0;
}

/* In messages: the extents of (b, h, q, k), and the q offset. */
static const char *const size_names[] = {"B", "H", "Sq", "Sk", "qOffset"};

/* Whether the greatest (or least) value of the index depends on a size. */
static int depends_on(const linear_index *index, const element_box *box, int greatest, int size) {
  if (size == 4)
    return index->coordinates[2] && box->low[2];
  return (greatest ? index->coordinates[size] > 0 : index->coordinates[size] < 0) || index->extents[size];
}

/* Appends the sizes that the value depends on: " for Sq 256 and Sk 256", or nothing. */
static void say_sizes(const linear_index *index, const element_box *box, int greatest) {
  int size, any = 0;
  for (size = 0; size < 5; ++size)
    if (depends_on(index, box, greatest, size))
      say("%s%s %ld", any++ ? " and " : " for ", size_names[size], size < 4 ? box->extents[size] : box->low[2]);
}

/* Appends the reason for the greatest value: ", but Sk is 256", ", which reaches 510 for Sq 256 and Sk 256", or nothing
 * for a constant index. */
static void say_greatest(const linear_index *index, const element_box *box, int64_t greatest) {
  int i, any = 0;
  for (i = 0; i < 4; ++i) {
    linear_index coordinate;
    memset(&coordinate, 0, sizeof coordinate);
    coordinate.coordinates[i] = 1;
    if (memcmp(index, &coordinate, sizeof coordinate) == 0 && box->low[i] == 0) {
      say(", but %s is %ld", size_names[i], box->extents[i]);
      return;
    }
  }
  for (i = 0; i < 5; ++i)
    any = any || depends_on(index, box, 1, i);
  if (any)
    say(", which reaches %ld", greatest);
  say_sizes(index, box, 1);
}

static int index_outside(const tensor_table *tensor, int64_t extent, const index_table *table, const element_box *box,
                         int64_t least, int64_t greatest) {
  const int may_clamp = table->element[0] != 0; /* else each element has its own gradient */
  if (greatest >= extent && is_reached(table, box, 1)) {
    say("captured tensor '%s' has %ld element%s in dimension %d and is indexed by %s", tensor->name, extent,
        extent == 1 ? "" : "s", table->dim, table->text);
    say_greatest(&table->index, box, greatest);
    say("; pass at least %ld", greatest + 1);
    return may_clamp
               ? fail(result_invalid, ", or write clamped(%s) where reading the last element is meant", table->element)
               : fail(result_invalid, ": each index has an element of its own");
  }
  if (least < 0 && is_reached(table, box, 0)) {
    say("captured tensor '%s' is indexed by %s in dimension %d, which begins at %ld", tensor->name, table->text,
        table->dim, least);
    say_sizes(&table->index, box, 0);
    return may_clamp ? fail(result_invalid,
                            "; correct the index, or write clamped(%s) where reading the first element is meant",
                            table->element)
                     : fail(result_invalid, "; index it from 0 on, as its gradient has an element for each");
  }
  return result_ok;
}

/* Checks that every index stays within the tensor's extents for all elements of the launch. */
static int check_indices(const tensor_table *table, const tensor_view *tensor, const launch_sizes *sizes,
                         int64_t q_offset) {
  const element_box box = {
      {0, 0, q_offset, 0},
      {sizes->batch - 1, sizes->heads - 1, sizes->query_length - 1 + q_offset, sizes->key_length - 1},
      {sizes->batch, sizes->heads, sizes->query_length, sizes->key_length}};
  int n, i;
  for (n = 0; n < table->index_count; ++n) {
    const index_table *index = &table->indices[n];
    const int64_t extent = tensor->shape[index->dim];
    int64_t least = index->index.constant, greatest = least;
    for (i = 0; i < 4; ++i) {
      const int64_t factor = index->index.coordinates[i], fixed = index->index.extents[i] * box.extents[i];
      least += factor * (factor < 0 ? box.high[i] : box.low[i]) + fixed;
      greatest += factor * (factor < 0 ? box.low[i] : box.high[i]) + fixed;
    }
    /* Kernels compute indices in int32. Beyond that range the index wraps, and the formula does not give its value. */
    if ((least >= 0 && greatest < extent) || least < -most_int32 - 1 || greatest > most_int32 ||
        (index->broadcast && extent == 1))
      continue;
    RETURN_IF_ERROR(index_outside(table, extent, index, &box, least, greatest));
  }
  return result_ok;
}

/*===----------------------------------------------------------------------===*/
/* Packing                                                                    */
/*===----------------------------------------------------------------------===*/

static unsigned char *put(unsigned char *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
  return to + bytes;
}

/* Packs address, strides and extents; zeros for an operand that is left out. A dimension of one element gets stride 0:
 * the caller's stride may be any number. */
static unsigned char *put_tensor(unsigned char *to, const tensor_view *tensor, int rank) {
  unsigned char *strides = to + 8, *extents = strides + 8 * rank;
  int dim;
  put(to, &tensor->data, 8);
  for (dim = 0; dim < rank; ++dim) {
    const int64_t extent = tensor->shape ? tensor->shape[dim] : 0, stride = extent > 1 ? tensor->strides[dim] : 0;
    strides = put(strides, &stride, 8);
    extents = put(extents, &extent, 8);
  }
  return extents;
}

/* Packs a captured tensor without elements, of a launch without elements, as a tensor of one element that lies in the
 * memory of an operand. The kernel may load that element before the loop over keys, and ignores the value. */
static unsigned char *put_one_element(unsigned char *to, const kernel_table *kernel, const launch_problem *p,
                                      int rank) {
  const int64_t stride = 0, extent = 1;
  const void *data = NULL;
  int n, dim;
  for (n = 0; n < kernel->operand_count && !data; ++n)
    if (p->operands[n].shape && !is_empty(&p->operands[n], kernel->operands[n].rank))
      data = p->operands[n].data;
  to = put(to, &data, 8);
  for (dim = 0; dim < rank; ++dim)
    to = put(to, &stride, 8);
  for (dim = 0; dim < rank; ++dim)
    to = put(to, &extent, 8);
  return to;
}

static int pack_tensors(const kernel_table *kernel, const launch_problem *p, const launch_sizes *sizes,
                        unsigned char *cursor) {
  const int any = has_elements(sizes);
  int i;
  for (i = 0; i < kernel->tensor_count; ++i) {
    const tensor_table *table = &kernel->tensors[i];
    const tensor_view *tensor = &p->tensors[i];
    const int is_pattern = table->pattern_rows != 0;
    RETURN_IF_ERROR(check_captured(table, tensor, !is_pattern && any));
    if (is_pattern)
      RETURN_IF_ERROR(check_pattern(table, tensor, sizes));
    if (any)
      RETURN_IF_ERROR(check_indices(table, tensor, sizes, p->q_offset));
    if (!any && !is_pattern && is_empty(tensor, table->rank))
      cursor = put_one_element(cursor, kernel, p, table->rank);
    else
      cursor = put_tensor(cursor, tensor, table->rank);
  }
  return result_ok;
}

/* Bytes of a workspace tensor, which is dense, rounded up to a multiple of 16. */
static size_t padded_bytes(const operand_table *table, const launch_problem *p) {
  int64_t elements = 1;
  int dim;
  for (dim = 0; dim < table->rank; ++dim)
    elements = launcher_product(elements, launcher_count(&table->dimensions[dim], p));
  return (size_t)(launcher_product(elements, table->element_bytes) + 15) / 16 * 16;
}

size_t launcher_workspace(const image_table *image, const launch_problem *p) {
  size_t bytes = 0;
  int i;
  for (i = 0; i < image->workspace_count; ++i)
    bytes += padded_bytes(&image->workspaces[i], p);
  return bytes;
}

static int check_workspace(const wording_table *wording, const launch_problem *p, size_t needed) {
  if (needed == 0)
    return result_ok;
  if (!p->workspace || p->workspace_bytes < needed) {
    say("the launch needs a workspace of %zu bytes, ", needed);
    if (p->workspace)
      say("%s is %zu", wording->workspace_bytes, p->workspace_bytes);
    else
      say("%s is null", wording->workspace);
    return fail(result_invalid, "; allocate %s and pass them in %s and %s", wording->allocate, wording->workspace,
                wording->workspace_bytes);
  }
  return check_aligned(NULL, "workspace", p->workspace, tile_alignment);
}

/* Checks a workspace tensor that has an entry for each pair of a query tile and a key tile of a mask: kernels index the
 * entries by int32. */
static int check_counted_tiles(const operand_table *table, const launch_problem *p) {
  double tiles = 1;
  int dim, counted = 0;
  for (dim = 1; dim < table->rank; ++dim) {
    tiles *= (double)launcher_count(&table->dimensions[dim], p);
    counted += table->dimensions[dim].by > 1;
  }
  if (counted < 2 || tiles <= (double)most_int32)
    return result_ok;
  return fail(result_invalid,
              "the launch counts its mask in %.3g tiles, %.3g at most; compile with larger tiles (.tileQ, .tileK), or "
              "launch fewer batches or heads at a time",
              tiles, (double)most_int32);
}

/* Packs address, strides and extents of a workspace tensor. */
static unsigned char *put_workspace(unsigned char *to, const operand_table *table, const launch_problem *p,
                                    uint64_t address) {
  unsigned char *strides = to + 8, *extents = strides + 8 * table->rank;
  int64_t stride = 1;
  int dim;
  put(to, &address, 8);
  for (dim = table->rank - 1; dim >= 0; --dim) {
    const int64_t extent = launcher_count(&table->dimensions[dim], p);
    put(strides + 8 * dim, &stride, 8);
    put(extents + 8 * dim, &extent, 8);
    stride = launcher_product(stride, extent);
  }
  return extents + 8 * table->rank;
}

/* Packs the workspace tensors, which lie one after the other in the launch's workspace. */
static int pack_workspaces(const kernel_table *kernel, const image_table *image, const launch_problem *p,
                           unsigned char *cursor) {
  size_t needed = 0;
  int i;
  for (i = 0; i < image->workspace_count; ++i) {
    const operand_table *table = &image->workspaces[i];
    RETURN_IF_ERROR(check_counted_tiles(table, p));
    cursor = put_workspace(cursor, table, p, (uint64_t)(uintptr_t)p->workspace + needed);
    needed += padded_bytes(table, p);
  }
  return check_workspace(kernel->wording, p, needed);
}

/* Packs extents, scalars, operands, workspace tensors and captured tensors, in this order. */
static int pack_slots(const kernel_table *kernel, const image_table *image, const launch_problem *p,
                      packed_problem *packed) {
  unsigned char *cursor = packed->block.slots, *workspaces;
  int i;
  cursor = put(cursor, p->extents, 8 * (size_t)kernel->axis_count);
  cursor = put(cursor, p->scalars, 8 * (size_t)kernel->scalar_count);
  for (i = 0; i < kernel->operand_count; ++i)
    cursor = put_tensor(cursor, &p->operands[i], kernel->operands[i].rank);
  workspaces = cursor;
  for (i = 0; i < image->workspace_count; ++i)
    cursor += 8 + 16 * (size_t)image->workspaces[i].rank;
  /* A workspace tensor may have a captured tensor's extents, which are checked first. */
  RETURN_IF_ERROR(pack_tensors(kernel, p, &packed->sizes, cursor));
  return pack_workspaces(kernel, image, p, workspaces);
}

/*===----------------------------------------------------------------------===*/
/* Tensor maps                                                                */
/*===----------------------------------------------------------------------===*/

/* The tensor of a map, as it is packed. */
typedef struct {
  uint64_t address;
  int64_t strides[4], extents[4];
} mapped_tensor;

static mapped_tensor read_mapped(const map_table *map, const launch_block *block) {
  const unsigned char *from = (const unsigned char *)block + map->offset;
  const size_t bytes = 8 * (size_t)map->rank;
  mapped_tensor tensor;
  memcpy(&tensor.address, from, 8);
  memcpy(tensor.strides, from + 8, bytes);
  memcpy(tensor.extents, from + 8 + bytes, bytes);
  return tensor;
}

static int is_mapped(const map_table *map, const packed_problem *packed) {
  const mapped_tensor tensor = read_mapped(map, &packed->block);
  const int64_t greatest = ((int64_t)1 << 40) - 1, bytes = map->element_bytes, q_offset = packed->block.params.q_offset;
  const int last = map->rank - 1;
  int i;
  if (tensor.address % 16 != 0 || tensor.strides[last] != 1 || packed->sizes.key_length > tensor.extents[last] ||
      q_offset < 0 || q_offset + packed->sizes.query_length > tensor.extents[last - 1])
    return 0;
  for (i = 0; i < last; ++i)
    if (tensor.strides[i] < 0 || tensor.strides[i] > greatest / bytes || tensor.strides[i] * bytes % 16 != 0)
      return 0;
  return 1;
}

int32_t launcher_mapped(const image_table *image, const packed_problem *packed) {
  uint32_t mapped = 0;
  int i;
  for (i = 0; i < image->map_count; ++i)
    if (!image->maps[i].is_optional || is_mapped(&image->maps[i], packed))
      mapped |= 1u << i;
  return (int32_t)mapped;
}

/* Checks that every kernel that needs a map which cannot be made has a fallback kernel. */
static int check_mapped(const image_table *image, int32_t mapped) {
  int i, n, map;
  for (i = 0; i < image->entry_count; ++i) {
    const int32_t reads = image->entries[i].reads_maps, missing = reads & ~mapped;
    int has_fallback = missing == 0;
    for (n = 0; n < image->entry_count && !has_fallback; ++n)
      has_fallback = image->entries[n].fallback_of_maps == reads;
    for (map = 0; map < image->map_count && !has_fallback; ++map)
      if (missing >> map & 1)
        return fail(result_invalid,
                    "captured tensor '%s' is read by TMA alone, which needs columns side by side, an address and "
                    "strides of multiples of 16 bytes, and an element for each query and key; pad its rows, or add a "
                    "kernel with tile.fallback_of",
                    image->maps[map].name);
  }
  return result_ok;
}

/* The key of a limited map, from that of the same tensor's map: see launcher_map_key. */
static map_key limited_key(map_key key, uint64_t rows) {
  key.dimensions[4] = key.dimensions[3];
  key.dimensions[3] = key.dimensions[2];
  key.dimensions[2] = key.dimensions[1] = rows + 1;
  key.strides[3] = key.strides[2];
  key.strides[2] = key.strides[1];
  key.strides[1] = key.strides[0];
  key.address -= (rows + 1) * key.strides[0];
  return key;
}

map_key launcher_map_key(const image_table *image, int map, const launch_block *block) {
  const map_table *table = &image->maps[map];
  const mapped_tensor tensor = read_mapped(table, block);
  const uint64_t bytes = (uint64_t)table->element_bytes;
  const int last = table->rank - 1;
  map_key key = {(uint64_t)map, tensor.address, {1, 1, 1, 1, 0}, {0, 0, 0, 0}};
  int i;
  for (i = 0; i <= last; ++i)
    key.dimensions[i] = (uint64_t)(tensor.extents[last - i] > 1 ? tensor.extents[last - i] : 1);
  /* The stride of a dimension of one element is never used, but cuTensorMapEncodeTiled requires a valid value. */
  for (i = 0; i < 3; ++i)
    key.strides[i] = key.dimensions[i + 1] == 1 ? (bytes * key.dimensions[0] + 15) / 16 * 16
                                                : bytes * (uint64_t)tensor.strides[last - 1 - i];
  return table->is_limited ? limited_key(key, (uint64_t)tensor.extents[last - 1]) : key;
}

int launcher_encode(const driver_table *driver, const map_table *map, const map_key *key, void *out, void *context) {
  const uint32_t box[] = {(uint32_t)map->columns, (uint32_t)map->rows, 1, 1, 1}, steps[] = {1, 1, 1, 1, 1};
  /* L2 fetches whole lines of 128 bytes. Promotion to 256 bytes would also fetch the neighbouring line, which another
   * box of the same row copies: reading K and V once takes 6% longer with it on an H200. If the row stride is not a
   * multiple of 32 bytes (an L2 sector), TMA issues more requests per row, and promoted requests would overlap. */
  const int promotion = key->strides[0] % 32 ? no_promotion : promote_to_128_bytes;
  (void)context;
  /* The two arguments 0 mean no interleaving, and zeros for elements outside the tensor. */
  return driver->cuTensorMapEncodeTiled(out, map->type, map->is_limited ? 5 : 4, (void *)(uintptr_t)key->address,
                                        key->dimensions, key->strides, box, steps, 0, map->swizzle, promotion, 0);
}

int launcher_fill_maps(const image_table *image, const driver_table *driver, packed_problem *packed, map_encoder encode,
                       void *context) {
  unsigned char *out = (unsigned char *)&packed->block + image->maps_at;
  int i;
  for (i = 0; i < image->map_count; ++i, out += tensor_map_bytes) {
    const map_table *map = &image->maps[i];
    const int32_t bit = (int32_t)(1u << i);
    if (packed->block.params.mapped & bit) {
      const map_key key = launcher_map_key(image, i, &packed->block);
      int code;
      if ((int64_t)key.address < 0) { /* of a limited map, which begins before its tensor */
        say("%s begins at address %ld, which is below its size", map->name,
            (int64_t)read_mapped(map, &packed->block).address);
        return fail(result_invalid, ", so that TMA cannot end its rows at run time; allocate it at a higher address");
      }
      code = encode(driver, map, &key, out, context);
      if (code == 0)
        continue;
      if (!map->is_optional) {
        say("%s with row, head and batch strides of %ld, %ld and %ld bytes cannot be described to TMA; make it "
            "contiguous, or compile for sm_90",
            map->name, (int64_t)key.strides[0], (int64_t)key.strides[1 + map->is_limited],
            (int64_t)key.strides[2 + map->is_limited]);
        return driver_failure(driver, code);
      }
      packed->block.params.mapped &= ~bit;
      RETURN_IF_ERROR(check_mapped(image, packed->block.params.mapped));
    }
    memset(out, 0, tensor_map_bytes);
  }
  return result_ok;
}

/*===----------------------------------------------------------------------===*/
/* Grids                                                                      */
/*===----------------------------------------------------------------------===*/

static int too_many_blocks(const entry_table *entry, const launch_problem *p) {
  double blocks = 1;
  int i;
  for (i = 0; i < entry->grid_count; ++i)
    blocks *= (double)launcher_count(&entry->grid[i], p);
  say("the launch needs %.0f blocks (", blocks);
  for (i = 0; i < entry->grid_count; ++i) {
    const dimension_table *axis = &entry->grid[i];
    const int64_t tiles = launcher_count(axis, p);
    if (axis->by == 1)
      say("%s%s = %ld", i ? ", " : "", axis->extent, tiles);
    else
      say("%s%ld tiles of %ld of %s", i ? ", " : "", tiles, axis->by, axis->extent);
  }
  return fail(result_invalid, "), the most is %ld; split the batch", most_int32);
}

/* Whether the kernel has nothing to do in a launch of these sizes. */
static int is_skipped(const entry_table *entry, const launch_problem *p) {
  int i;
  for (i = 0; i < entry->bound_count; ++i) {
    const int64_t extent = launcher_count(&entry->bounds[i].axis, p);
    if (extent < 1 || extent > launcher_count(&entry->bounds[i].most, p))
      return 0;
  }
  return entry->bound_count > 0;
}

/* Counts the tiles of work of a kernel. An axis without tiles makes the grid empty, even where the product of the other
 * axes is over the limit. */
static int count_tiles(const entry_table *entry, const launch_problem *p, int64_t *counted) {
  int64_t product = 1;
  int i, too_many = 0;
  *counted = 0;
  if (is_skipped(entry, p))
    return result_ok;
  for (i = 0; i < entry->grid_count; ++i) {
    const int64_t tiles = launcher_count(&entry->grid[i], p);
    if (tiles == 0)
      return result_ok;
    too_many = too_many || tiles > most_int32 / product;
    product = too_many ? 1 : product * tiles;
  }
  *counted = product;
  return too_many ? too_many_blocks(entry, p) : result_ok;
}

int launcher_pack(const kernel_table *kernel, const image_table *image, const launch_problem *p,
                  packed_problem *packed) {
  launch_params *params = &packed->block.params;
  int i;
  packed->sizes = launcher_sizes(kernel, p->extents);
  RETURN_IF_ERROR(pack_launch_values(kernel, p, &packed->sizes, params));
  RETURN_IF_ERROR(pack_slots(kernel, image, p, packed));
  params->mapped = launcher_mapped(image, packed);
  RETURN_IF_ERROR(check_mapped(image, params->mapped));
  for (i = 0; i < image->entry_count; ++i)
    RETURN_IF_ERROR(count_tiles(&image->entries[i], p, &packed->tiles[i]));
  return result_ok;
}

int launcher_has_work(const image_table *image, const packed_problem *packed) {
  int i;
  for (i = 0; i < image->entry_count; ++i)
    if (packed->tiles[i] != 0 && !image->entries[i].is_preparation)
      return 1;
  return 0;
}

/*===----------------------------------------------------------------------===*/
/* Starting kernels                                                           */
/*===----------------------------------------------------------------------===*/

/* As persistentBlocks of attune/LaunchParams.h: one block for each tile if there are enough multiprocessors, else one
 * block for each multiprocessor. If blocks do not claim tiles, all blocks but the last have at least two tiles. */
static int64_t persistent_blocks(int64_t tiles, int64_t multiprocessors, int claims) {
  return tiles <= multiprocessors ? tiles : tiles < 2 * multiprocessors && !claims ? (tiles + 1) / 2 : multiprocessors;
}

int launcher_overlaps(const driver_table *driver) {
  return driver->cuLaunchKernelEx && driver->cuda_version >= captures_programmatic_launches;
}

int launcher_choose(const image_table *image, const driver_table *driver, const packed_problem *packed,
                    void *const *functions, int64_t multiprocessors, started_kernel *started) {
  const int32_t missing = ~packed->block.params.mapped;
  int i, count = 0;
  for (i = 0; i < image->entry_count; ++i) {
    const entry_table *entry = &image->entries[i];
    const int64_t tiles = packed->tiles[i];
    if (tiles == 0 || entry->reads_maps & missing || (entry->fallback_of_maps && !(entry->fallback_of_maps & missing)))
      continue;
    started[count].function = functions[i];
    started[count].blocks =
        (unsigned)(entry->persistent ? persistent_blocks(tiles, multiprocessors, entry->claims_work) : tiles);
    started[count].threads = (unsigned)entry->threads;
    started[count].shared_bytes = entry->shared_bytes;
    /* A kernel may overlap only with an earlier kernel of the same launch: the first kernel must wait for the previous
     * launch to end. */
    started[count].overlaps = entry->is_dependent && count > 0 && launcher_overlaps(driver);
    ++count;
  }
  return count;
}

int launcher_start(const kernel_table *kernel, const driver_table *driver, const started_kernel *started,
                   packed_problem *packed, void *stream) {
  void *arguments[1];
  int code;
  arguments[0] = &packed->block;
  if (started->overlaps) {
    launch_attribute attribute = {
        launch_programmatic_serialization, 0, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
    const launch_config config = {
        {started->blocks, 1, 1}, {started->threads, 1, 1}, started->shared_bytes, stream, &attribute, 1};
    code = driver->cuLaunchKernelEx(&config, started->function, arguments, NULL);
  } else {
    code = driver->cuLaunchKernel(started->function, started->blocks, 1, 1, started->threads, 1, 1,
                                  started->shared_bytes, stream, arguments, NULL);
  }
  if (code == 0)
    return result_ok;
  say("launch of kernel '%s' failed", kernel->name);
  return driver_failure(driver, code);
}

/*===----------------------------------------------------------------------===*/
/* Loading                                                                    */
/*===----------------------------------------------------------------------===*/

int launcher_open(driver_table *driver, const char *name, void *library) {
  const struct {
    const char *name;
    void *entry;
    int required;
  } entries[] = {{"cuInit", &driver->cuInit, 1},
                 {"cuDriverGetVersion", &driver->cuDriverGetVersion, 1},
                 {"cuGetErrorName", &driver->cuGetErrorName, 1},
                 {"cuGetErrorString", &driver->cuGetErrorString, 1},
                 {"cuDeviceGetAttribute", &driver->cuDeviceGetAttribute, 1},
                 {"cuCtxGetCurrent", &driver->cuCtxGetCurrent, 1},
                 {"cuCtxGetDevice", &driver->cuCtxGetDevice, 1},
                 {"cuModuleLoadData", &driver->cuModuleLoadData, 1},
                 {"cuModuleUnload", &driver->cuModuleUnload, 1},
                 {"cuModuleGetFunction", &driver->cuModuleGetFunction, 1},
                 {"cuFuncSetAttribute", &driver->cuFuncSetAttribute, 1},
                 {"cuThreadExchangeStreamCaptureMode", &driver->cuThreadExchangeStreamCaptureMode, 1},
                 {"cuLaunchKernel", &driver->cuLaunchKernel, 1},
                 {"cuLaunchKernelEx", &driver->cuLaunchKernelEx, 0},
                 {"cuTensorMapEncodeTiled", &driver->cuTensorMapEncodeTiled, 0},
                 {"cuFuncGetParamInfo", &driver->cuFuncGetParamInfo, 0}};
  const char *missing = NULL;
  size_t i;
  for (i = 0; i < sizeof entries / sizeof entries[0]; ++i) {
    void *symbol = dlsym(library, entries[i].name);
    if (!symbol && entries[i].required && !missing)
      missing = entries[i].name;
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
  if (driver->cuDriverGetVersion && driver->cuDriverGetVersion(&driver->cuda_version) == 0 &&
      driver->cuda_version < oldest_driver)
    return fail(
        result_no_driver, "the driver supports CUDA %d.%d, required is %d.%d or newer; install a newer NVIDIA driver",
        driver->cuda_version / 1000, driver->cuda_version % 1000 / 10, oldest_driver / 1000, oldest_driver % 1000 / 10);
  if (missing)
    return fail(result_no_driver, "the CUDA driver %s has no entry point %s; install a newer NVIDIA driver", name,
                missing);
  return result_ok;
}

int launcher_driver_too_old(const kernel_table *kernel, const image_table *image, const driver_table *driver) {
  return fail(result_no_driver,
              "the driver supports CUDA %d.%d, the kernel was compiled by NVRTC %d.%d; install a driver for CUDA %d.%d "
              "or newer, or %s an NVRTC %d.x",
              driver->cuda_version / 1000, driver->cuda_version % 1000 / 10, image->nvrtc / 1000,
              image->nvrtc % 1000 / 10, image->nvrtc / 1000, image->nvrtc % 1000 / 10, kernel->wording->older_nvrtc,
              driver->cuda_version / 1000);
}

/* Finds the function of an entry, and raises its limit of dynamic shared memory to what the entry needs. */
static int find_function(const kernel_table *kernel, const image_table *image, const entry_table *entry,
                         const driver_table *driver, void *module, void **function) {
  size_t offset = 0, size = 0;
  int code = driver->cuModuleGetFunction(function, module, entry->name);
  if (code != 0) {
    say("kernel '%s' has no entry '%s'", kernel->name, entry->name);
    return driver_failure(driver, code);
  }
  if (driver->cuFuncGetParamInfo && driver->cuFuncGetParamInfo(*function, 0, &offset, &size) == 0 &&
      size != image->packed_bytes)
    return fail(result_no_kernel, "kernel '%s' takes %zu bytes of parameters, its %s %zu; %s it again", kernel->name,
                size, kernel->wording->packs, image->packed_bytes, kernel->wording->again);
  if (entry->shared_bytes > 0)
    code = driver->cuFuncSetAttribute(*function, function_max_dynamic_shared, (int)entry->shared_bytes);
  if (code == 0)
    return result_ok;
  say("kernel '%s' cannot have %u bytes of shared memory", kernel->name, entry->shared_bytes);
  return driver_failure(driver, code);
}

int launcher_find_functions(const kernel_table *kernel, const image_table *image, const driver_table *driver,
                            void **module, void **functions) {
  const int code = driver->cuModuleLoadData(module, image->cubin);
  const int is_refused =
      code == error_invalid_image || code == error_no_binary_for_gpu || code == error_unsupported_ptx_version;
  int i, result = result_ok;
  if (is_refused && image->nvrtc / 1000 > driver->cuda_version / 1000)
    return launcher_driver_too_old(kernel, image, driver);
  if (code != 0) {
    say("kernel '%s' does not load", kernel->name);
    return driver_failure(driver, code);
  }
  for (i = 0; i < image->entry_count && result == result_ok; ++i)
    result = find_function(kernel, image, &image->entries[i], driver, *module, &functions[i]);
  if (result != result_ok)
    driver->cuModuleUnload(*module);
  return result;
}
