/*===- c.h - attune in C ------------------------------------------------------===
 *
 *     attune_variant *variant = NULL;
 *     attune_kernel *kernel = NULL;
 *     attune_error *error = attune_variant_from_json(json, &variant);
 *     if (!error)
 *       error = attune_compile(variant, &options, "gpu", &kernel);
 *     if (!error)
 *       error = attune_launch(kernel, stream, &args);
 *     if (error) {
 *       fprintf(stderr, "%s\n", attune_error_text(error));
 *       attune_error_free(error);
 *     }
 *
 * The behaviour, shapes, dtypes and errors of each function are documented at the C++ function of the same name, in
 * attune/Variant.h, attune/Compile.h, attune/Kernel.h and attune/Tensor.h.
 *
 * Errors are values: a function that can fail returns NULL on success, else an error that the caller frees. In case of
 * an error, output arguments are unchanged. No function throws, raises a signal or exits. Texts are UTF-8 and end with
 * 0. Handles may be used from any number of threads at once. Each handle is freed once and not used afterwards. NULL
 * may be freed.
 *
 * The ABI is stable: structs that begin with their size, which attune_..._init sets, only grow at their end, and other
 * structs never change. A program that was compiled with an older header therefore keeps working.
 *
 *===----------------------------------------------------------------------===*/
#ifndef ATTUNE_C_H
#define ATTUNE_C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define ATTUNE_C_API __attribute__((visibility("default")))
#else
#define ATTUNE_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attune_error attune_error;
typedef struct attune_variant attune_variant;
typedef struct attune_kernel attune_kernel;

/* "0.2.0". */
ATTUNE_C_API const char *attune_version(void);

/*===--- Errors -------------------------------------------------------------===*/

/* "file:line:column: error: message", and for text the line with a caret below it. Lives as long as the error. */
ATTUNE_C_API const char *attune_error_text(const attune_error *error);
/* The message alone. */
ATTUNE_C_API const char *attune_error_message(const attune_error *error);
ATTUNE_C_API void attune_error_free(attune_error *error);

/* Frees a text that a function returned. */
ATTUNE_C_API void attune_text_free(char *text);

/*===--- Variants -----------------------------------------------------------===*/

/* Types of elements and scalars. 0 is not a type, so that a forgotten dtype is an error. */
typedef enum attune_dtype {
  ATTUNE_F32 = 1,
  ATTUNE_F16 = 2,
  ATTUNE_BF16 = 3,
  ATTUNE_I32 = 4,
  ATTUNE_I64 = 5,
  ATTUNE_BOOL = 6
} attune_dtype;

/* A captured tensor that a variant's text names. */
typedef struct attune_tensor_decl {
  const char *name;
  attune_dtype dtype;
  int rank; /* 0 to 4 */
} attune_tensor_decl;

/* A run-time scalar that a variant's text names. */
typedef struct attune_scalar_decl {
  const char *name;
  attune_dtype dtype; /* f32, i32, i64 or bool */
} attune_scalar_decl;

/* A variant in text, as TextVariant in attune/Variant.h. */
typedef struct attune_text_variant {
  size_t size;
  const char *name;                  /* an identifier; the kernel carries it */
  const char *score;                 /* "softcap(s, 50) + slopes[h] * (k - q)"; NULL or "": s */
  const char *mask;                  /* "q >= k"; NULL or "": all keys are visible */
  const attune_tensor_decl *tensors; /* unused declarations are ignored */
  size_t tensor_count;
  const attune_scalar_decl *scalars;
  size_t scalar_count;
  const float *scale;   /* NULL: 1 / sqrt(head dim) */
  const float *dropout; /* NULL: no dropout; else the default probability */
  int precise;          /* functions accurate to float32 */
  int q_offset;         /* the launch's q offset is added to q */
  const char *blocks;   /* a block pattern's tensor; NULL: none */
  int block_rows, block_columns;
  const char *normaliser;    /* "softmax", "sigmoid" or "none"; NULL: softmax. Your own definitions need JSON */
  const char *sink;          /* softmax's sink: a tensor of f32 [H]; NULL: none */
  const char *key_lengths;   /* a tensor of i32 [B]: the keys of each sequence; NULL: all have Sk */
  const char *query_lengths; /* a tensor of i32 [B]: the queries of each sequence; NULL: all have Sq */
  const char *key_pages;     /* a tensor of i32 [B, N]: page numbers of a paged cache; NULL: not paged */
  int page_size;             /* keys of a page */
  /* Packed sequences: tensors of i32 [B + 1], where each begins among the rows of q and those of k; NULL: a batch.
     first_keys alone may be NULL: k and v are then of a batch, or in pages. */
  const char *first_queries, *first_keys;
} attune_text_variant;
static inline attune_text_variant attune_text_variant_init(void) {
  attune_text_variant text;
  memset(&text, 0, sizeof text);
  text.size = sizeof text;
  return text;
}

ATTUNE_C_API attune_error *attune_variant_from_text(const attune_text_variant *text, attune_variant **variant);
/* The form that attune_variant_json and `attune compile --emit dsl` write. */
ATTUNE_C_API attune_error *attune_variant_from_json(const char *json, attune_variant **variant);
ATTUNE_C_API attune_error *attune_variant_json(const attune_variant *variant, char **json);
ATTUNE_C_API void attune_variant_free(attune_variant *variant);

/*===--- Compiling ----------------------------------------------------------===*/

/* Whether measured plans (attune_tune) are used for the sizes that they were measured for. MEASURE first measures those
 * of `shapes` that have no measurements. */
typedef enum attune_tuning { ATTUNE_TUNING_CACHED = 0, ATTUNE_TUNING_OFF = 1, ATTUNE_TUNING_MEASURE = 2 } attune_tuning;

/* The sizes of a problem. */
typedef struct attune_sizes {
  int64_t batch, heads, heads_kv, queries, keys;
} attune_sizes;

/* What a backward pass computes in addition to the gradients of q, k and v, and what the forward pass saves for the
 * backward pass: as Gradients and Saving in attune/Compile.h. */
typedef struct attune_gradients {
  size_t size;
  const char *const *tensors; /* captured float tensors whose gradients are computed, as operands "grads.NAME" */
  size_t tensor_count;
  int lse;                 /* 1: a gradient of lse is passed in, as operand "dlse" */
  int deterministic;       /* 1: the same bits for the same arguments in every launch */
  size_t memory_budget;    /* bytes that saved values may take for `sizes`; the cost model chooses them */
  const char *const *save; /* "score", "dropout": always saved, as operands "saved.NAME" of both passes */
  size_t save_count;
  const char *const *recompute; /* "score", "dropout": always recomputed */
  size_t recompute_count;
  const attune_sizes *sizes; /* sizes that the cost model assumes; NULL: its defaults */
} attune_gradients;
/* Initial value: only the gradients of q, k and v are computed, and only o and lse are saved. */
static inline attune_gradients attune_gradients_init(void) {
  attune_gradients gradients;
  memset(&gradients, 0, sizeof gradients);
  gradients.size = sizeof gradients;
  return gradients;
}

/* As CompileOptions in attune/Compile.h. */
typedef struct attune_options {
  size_t size;
  attune_dtype dtype;                          /* of Q, K, V and O: f16, bf16 or f32 */
  int head_dim;                                /* D: a multiple of 8 up to 576 */
  int head_dim_v;                              /* Dv; 0: D */
  size_t sram_budget;                          /* bytes of shared memory a block; 0: the device's limit */
  int tile_q, tile_k, warps, stages, dv_warps; /* 0: the cost model chooses */
  int q_registers;                             /* 0 or 1; -1: the cost model chooses */
  const char *cache_dir;                       /* NULL: the default folder */
  int no_cache;                                /* 1: neither read nor write the cache */
  int blocks_per_sm, query_stages;             /* 0: the cost model chooses */
  int longest_first, persistent, ping_pong, overlap, stage_biases; /* 0 or 1; -1: the cost model chooses */
  attune_tuning tuning;
  const attune_sizes *shapes; /* sizes that get alternatives where another plan is better; NULL: none */
  size_t shape_count;
  const attune_gradients *gradients; /* NULL: no backward pass; else it is compiled, too (attune_kernel_backward) */
  int backward;             /* 1: only the backward pass of `gradients`, also in attune_emit and attune_explain */
  int pack_gqa, split_keys; /* 0 or 1; -1: the cost model chooses */
} attune_options;
/* Initial value: bf16; the cost model chooses the schedule. The caller must set head_dim. */
static inline attune_options attune_options_init(void) {
  attune_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.dtype = ATTUNE_BF16;
  options.q_registers = options.longest_first = options.persistent = options.ping_pong = options.overlap =
      options.stage_biases = options.pack_gqa = options.split_keys = -1;
  return options;
}

/* `target`: "cpu", "gpu" (this machine's), "sm_90a", "sm_90:1" (device 1); NULL: this machine's GPU, else the CPU. */
ATTUNE_C_API attune_error *attune_compile(const attune_variant *variant, const attune_options *options,
                                          const char *target, attune_kernel **kernel);
/* `stage`: "dsl", "attn", "tile", "sched", "cuda", "ptx" or "cubin". `*text` has `*bytes` bytes, followed by a 0;
 * `bytes` may be NULL. */
ATTUNE_C_API attune_error *attune_emit(const attune_variant *variant, const attune_options *options, const char *target,
                                       const char *stage, char **text, size_t *bytes);
/* The cost model's ranking and the plan, as JSON. */
ATTUNE_C_API attune_error *attune_explain(const attune_variant *variant, const attune_options *options,
                                          const char *target, char **json);
ATTUNE_C_API void attune_kernel_free(attune_kernel *kernel);

/* Everything about a kernel but its code, as JSON: KernelImage::metadata in attune/Kernel.h. */
ATTUNE_C_API attune_error *attune_kernel_json(const attune_kernel *kernel, char **json);
/* The kernel with additional alternatives for these sizes, as a new handle, which is freed separately:
 * Kernel::prepare. */
ATTUNE_C_API attune_error *attune_kernel_prepare(const attune_kernel *kernel, const attune_sizes *shapes,
                                                 size_t shape_count, attune_kernel **prepared);
/* The backward pass of a kernel that was compiled with attune_options.gradients, as a new handle, which is freed
 * separately: Kernel::backward. The backward pass takes q, k, v, o and lse as the forward launch left them, the same
 * captured tensors, scalars, seed and offset, and by name the operands of the table in attune/Kernel.h. An error if no
 * gradients were requested. */
ATTUNE_C_API attune_error *attune_kernel_backward(const attune_kernel *kernel, attune_kernel **backward);
/* Measures plans for each of `shapes`, `seconds` each (0: 20), and stores the times for attune_compile: tune() in
 * attune/Tune.h, for variants without captured tensors and scalars. `json`, which may be NULL, receives the results. */
ATTUNE_C_API attune_error *attune_tune(const attune_variant *variant, const attune_options *options, const char *target,
                                       const attune_sizes *shapes, size_t shape_count, double seconds, char **json);

/* Whether attune_compile found the kernel in the cache. */
ATTUNE_C_API int attune_kernel_cache_hit(const attune_kernel *kernel);

/*===--- Launching ----------------------------------------------------------===*/

#define ATTUNE_MAX_RANK 8
#define ATTUNE_CPU (-1)

/* A view of the caller's memory. */
typedef struct attune_tensor {
  void *data;
  attune_dtype dtype;
  int rank;
  int device; /* a CUDA device's ordinal, or ATTUNE_CPU */
  int64_t shape[ATTUNE_MAX_RANK];
  int64_t strides[ATTUNE_MAX_RANK]; /* in elements */
} attune_tensor;

/* A row-major view of at most ATTUNE_MAX_RANK dimensions. With more dimensions the result has rank 0 and data NULL,
 * which a launch rejects. */
ATTUNE_C_API attune_tensor attune_contiguous(const void *data, attune_dtype dtype, int device, int rank,
                                             const int64_t *shape);

typedef struct attune_named_tensor {
  const char *name;
  attune_tensor tensor;
} attune_named_tensor;

typedef struct attune_named_scalar {
  const char *name;
  attune_dtype dtype; /* selects the member of `value` */
  union {
    float f32;
    int32_t i32;
    int64_t i64;
    int boolean;
  } value;
} attune_named_scalar;

/* As LaunchArgs in attune/Kernel.h. */
typedef struct attune_launch_args {
  size_t size;
  attune_tensor q, k, v, o; /* [B, H, Sq, D], [B, Hkv, Sk, D], [B, Hkv, Sk, Dv], [B, H, Sq, Dv] */
  const attune_tensor *lse; /* f32 [B, H, Sq]; NULL: not wanted */
  const attune_named_tensor *tensors;
  size_t tensor_count;
  const attune_named_scalar *scalars;
  size_t scalar_count;
  const float *dropout; /* in [0, 1); NULL: the probability that the variant names */
  uint64_t seed, offset;
  const uint64_t *seed_pointer, *offset_pointer; /* read instead of seed, offset if not NULL; device memory on CUDA */
  int32_t q_offset;
  void *workspace; /* of attune_workspace_bytes, 16-byte aligned, on the kernel's device */
  size_t workspace_bytes;
  int keep_tables;                     /* not 0: LaunchArgs::keepTables of attune/Kernel.h */
  const attune_named_tensor *operands; /* by name: "do", "dq", "grads.slopes", "saved.score", ... */
  size_t operand_count;
} attune_launch_args;

/* Initial value: no tensors. */
static inline attune_launch_args attune_launch_args_init(void) {
  attune_launch_args args;
  memset(&args, 0, sizeof args);
  args.size = sizeof args;
  return args;
}

/* Enqueues on `stream` (a CUstream or cudaStream_t; NULL: the default stream); on the CPU it returns when the work is
 * done. */
ATTUNE_C_API attune_error *attune_launch(const attune_kernel *kernel, void *stream, const attune_launch_args *args);
/* Only the checks of attune_launch. */
ATTUNE_C_API attune_error *attune_check(const attune_kernel *kernel, const attune_launch_args *args);
ATTUNE_C_API attune_error *attune_workspace_bytes(const attune_kernel *kernel, const attune_launch_args *args,
                                                  size_t *bytes);
/* The number of operands that a launch passes by name; 0 for a forward pass that saves nothing. */
ATTUNE_C_API size_t attune_operand_count(const attune_kernel *kernel);
/* Describes the n-th operand that is passed by name, for a launch with these arguments: name, dtype, device and shape,
 * row-major, without data. Shapes follow from q, k, v and the captured tensors. The name lives as long as the
 * kernel. */
ATTUNE_C_API attune_error *attune_operand(const attune_kernel *kernel, size_t n, const attune_launch_args *args,
                                          attune_named_tensor *operand);
/* Loads the module now, instead of at the first launch. */
ATTUNE_C_API attune_error *attune_load(const attune_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
