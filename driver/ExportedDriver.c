/*===- ExportedDriver.c - The CUDA driver, as an exported kernel uses it ----===*/
/*
 * Part of the source of every exported kernel, valid C99 and C++17: driver/Export.cpp inserts this file between
 * runtime/Launcher.c and the tables of one kernel. The file opens the driver and loads the kernel once for a context.
 * Names that end in _args, _defaults, _contiguous, _workspace_bytes, _load, _launch or _error belong to the header.
 */
#include <pthread.h>
#include <stdlib.h>

/* Enumerators of cuda.h. */
enum {
  attribute_multiprocessors = 16,
  attribute_compute_major = 75,
  attribute_compute_minor = 76,
  attribute_shared_per_block = 97,
  capture_mode_relaxed = 2
};

static const wording_table exported_wording = {
    "workspace",   "workspace_bytes", "as many bytes as the header's workspace_bytes function says",
    "tables pack", "export",          "export the kernel with"};

/*===----------------------------------------------------------------------===*/
/* Arguments of the header                                                    */
/*===----------------------------------------------------------------------===*/

/* Strides of dense row-major memory. */
static void dense_strides(int rank, const int64_t *shape, int64_t *strides) {
  int64_t inner = 1;
  int i;
  for (i = rank - 1; i >= 0; --i) {
    strides[i] = inner;
    inner = launcher_product(inner, shape[i] > 1 ? shape[i] : 1);
  }
}

/* Dense strides of an operand, without the last stride of a tiled operand, which the header's arguments do not contain.
 * The gradient of a captured tensor keeps its strides, because the tensor's shape is not known yet. */
static void dense_operand(const operand_table *table, const int64_t *extents, int64_t *strides) {
  int64_t shape[most_rank] = {0}, all[most_rank] = {0};
  launch_problem p;
  int i;
  memset(&p, 0, sizeof p);
  p.extents = extents;
  for (i = 0; i < table->rank; ++i) {
    if (table->dimensions[i].tensor >= 0)
      return;
    shape[i] = launcher_count(&table->dimensions[i], &p);
  }
  dense_strides(table->rank, shape, all);
  memcpy(strides, all, 8 * (size_t)(table->rank - table->is_tiled));
}

static tensor_view view_of(const void *data, const int64_t *shape, const int64_t *strides) {
  tensor_view view;
  view.data = data;
  view.shape = shape;
  view.strides = strides;
  return view;
}

/* The view of an operand, of which the header's arguments contain the address and the strides. The function adds the
 * extents and the last stride of a tiled operand. An optional operand is left out if its address is null. */
static tensor_view operand_view(const operand_table *table, const launch_problem *p, const void *data, int64_t *shape,
                                int64_t *strides) {
  int i;
  if (table->is_optional && !data)
    return view_of(NULL, NULL, NULL);
  for (i = 0; i < table->rank; ++i)
    shape[i] = launcher_count(&table->dimensions[i], p);
  if (table->is_tiled)
    strides[table->rank - 1] = 1;
  return view_of(data, shape, strides);
}

static int check_signs(const kernel_table *kernel, const launch_problem *p) {
  int i;
  for (i = 0; i < kernel->axis_count; ++i)
    if (p->extents[i] < 0)
      return fail(result_invalid, "%s is %ld; sizes are at least 0", kernel->axes[i].name, p->extents[i]);
  return result_ok;
}

/* Bytes of workspace that the neediest of the cubins takes. */
static size_t most_workspace(const kernel_table *kernel, const launch_problem *p) {
  size_t most = 0;
  int i;
  for (i = 0; i < kernel->image_count; ++i) {
    const size_t bytes = launcher_workspace(&kernel->images[i], p);
    most = bytes > most ? bytes : most;
  }
  return most;
}

/*===----------------------------------------------------------------------===*/
/* The driver                                                                 */
/*===----------------------------------------------------------------------===*/

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

static int open_driver(const driver_table **opened) {
  static driver_table driver;
  void *library;
  int code;
  *opened = opened_driver;
  if (opened_driver)
    return result_ok;
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return fail(result_no_driver, "no CUDA driver: %s; install the NVIDIA driver", dlerror());
  RETURN_IF_ERROR(launcher_open(&driver, "libcuda.so.1", library));
  code = driver.cuInit(0);
  if (code != 0) {
    say("the CUDA driver does not start");
    driver_failure(&driver, code);
    return result_no_driver;
  }
  *opened = opened_driver = &driver;
  return result_ok;
}

/* The image for the current context's device. */
static int choose_image(const kernel_table *kernel, const driver_table *driver, int device,
                        const image_table **chosen) {
  int major = 0, minor = 0, shared = 0, i, entry;
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
      return launcher_driver_too_old(kernel, image, driver);
    *chosen = image;
    return result_ok;
  }
  say("kernel '%s' was exported for ", kernel->name);
  for (i = 0; i < kernel->image_count; ++i)
    say("%s%s", i ? ", " : "", kernel->images[i].arch);
  return fail(result_no_kernel, ", the device has compute capability %d.%d; export it for that too", major, minor);
}

/* Loads the module. Loading may synchronise, which is allowed during stream capture only in relaxed mode. */
static int load_module(const kernel_table *kernel, const driver_table *driver, void *context,
                       const loaded_module **found) {
  const image_table *image = NULL;
  int device = 0, multiprocessors = 0, mode = capture_mode_relaxed, result;
  const int code = driver->cuCtxGetDevice(&device);
  loaded_module *loaded;
  if (code != 0) {
    say("the current context has no device");
    return driver_failure(driver, code);
  }
  RETURN_IF_ERROR(choose_image(kernel, driver, device, &image));
  loaded = (loaded_module *)calloc(1, sizeof *loaded);
  if (!loaded)
    return fail(result_driver_error, "memory ran out");
  driver->cuThreadExchangeStreamCaptureMode(&mode);
  result = launcher_find_functions(kernel, image, driver, &loaded->module, loaded->functions);
  driver->cuThreadExchangeStreamCaptureMode(&mode);
  if (result != result_ok) {
    free(loaded);
    return result;
  }
  driver->cuDeviceGetAttribute(&multiprocessors, attribute_multiprocessors, device);
  loaded->image = image;
  loaded->context = context;
  loaded->multiprocessors = multiprocessors;
  loaded->next = loaded_modules;
  *found = loaded_modules = loaded;
  return result_ok;
}

/* The module of the calling thread's context, loaded at most once for each context. */
static int find_module(const kernel_table *kernel, const driver_table **driver, const loaded_module **found) {
  void *context = NULL;
  const loaded_module *loaded;
  int result;
  pthread_mutex_lock(&module_lock);
  result = open_driver(driver);
  if (result == result_ok && ((*driver)->cuCtxGetCurrent(&context) != 0 || !context))
    result =
        fail(result_invalid, "no CUDA context is current on this thread; call cudaSetDevice or cuCtxSetCurrent first");
  if (result == result_ok) {
    for (loaded = loaded_modules; loaded && loaded->context != context;)
      loaded = loaded->next;
    *found = loaded;
    if (!loaded)
      result = load_module(kernel, *driver, context, found);
  }
  pthread_mutex_unlock(&module_lock);
  return result;
}

/*===----------------------------------------------------------------------===*/
/* Launching                                                                  */
/*===----------------------------------------------------------------------===*/

static int check_and_enqueue(const kernel_table *kernel, const launch_problem *p, void *stream) {
  const driver_table *driver = NULL;
  const loaded_module *loaded = NULL;
  packed_problem packed;
  started_kernel started[most_kernels];
  int i, count;
  RETURN_IF_ERROR(find_module(kernel, &driver, &loaded));
  RETURN_IF_ERROR(check_signs(kernel, p));
  RETURN_IF_ERROR(launcher_check_operands(kernel, p));
  RETURN_IF_ERROR(launcher_pack(kernel, loaded->image, p, &packed));
  if (!launcher_has_work(loaded->image, &packed))
    return result_ok;
  RETURN_IF_ERROR(launcher_fill_maps(loaded->image, driver, &packed, launcher_encode, NULL));
  count = launcher_choose(loaded->image, driver, &packed, loaded->functions, loaded->multiprocessors, started);
  for (i = 0; i < count; ++i)
    RETURN_IF_ERROR(launcher_start(kernel, driver, &started[i], &packed, stream));
  return result_ok;
}

static int load_for_context(const kernel_table *kernel) {
  const driver_table *driver = NULL;
  const loaded_module *loaded = NULL;
  return find_module(kernel, &driver, &loaded);
}
