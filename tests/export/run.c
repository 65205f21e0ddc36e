/*===- run.c - Exported kernels on a GPU, against plain loops ---------------===*/
/*
 * Needs the CUDA driver and nothing else of CUDA or attune:
 *
 *     attune export --score 'softcap(s, 30) + slopes[h] * (k - q)' --mask 'q >= k && ids[q] == ids[k]' --tensor
 * slopes=f32 --tensor ids=i32 \
 *         --arch sm_80,sm_90a --head-dim 64 --backward --grad slopes --name demo -o out
 *     cc -std=c99 -O2 -Iout tests/export/run.c out/demo.c out/demo_backward.c -lm -ldl -lpthread -o out/run && out/run
 *
 * Exit code 0: the results agree; 1: they do not, or a call failed; 77: there is no driver or no device.
 */
#include "demo.h"
#include "demo_backward.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define head_dim ((int)demo_head_dim)

/*===----------------------------------------------------------------------===*/
/* The driver                                                                 */
/*===----------------------------------------------------------------------===*/

static int (*cuInit)(unsigned);
static int (*cuDeviceGetCount)(int *);
static int (*cuDeviceGetName)(char *, int, int);
static int (*cuDevicePrimaryCtxRetain)(void **, int);
static int (*cuCtxSetCurrent)(void *);
static int (*cuCtxSynchronize)(void);
static int (*cuMemAlloc)(uint64_t *, size_t);
static int (*cuMemcpyHtoD)(uint64_t, const void *, size_t);
static int (*cuMemcpyDtoH)(void *, uint64_t, size_t);

static int open_driver(void) {
  const struct {
    const char *name;
    void *entry;
  } entries[] = {{"cuInit", &cuInit},
                 {"cuDeviceGetCount", &cuDeviceGetCount},
                 {"cuDeviceGetName", &cuDeviceGetName},
                 {"cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain},
                 {"cuCtxSetCurrent", &cuCtxSetCurrent},
                 {"cuCtxSynchronize", &cuCtxSynchronize},
                 {"cuMemAlloc_v2", &cuMemAlloc},
                 {"cuMemcpyHtoD_v2", &cuMemcpyHtoD},
                 {"cuMemcpyDtoH_v2", &cuMemcpyDtoH}};
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
  char name[256] = "";
  int devices = 0;
  size_t i;
  for (i = 0; i < sizeof entries / sizeof entries[0]; ++i) {
    void *symbol = library ? dlsym(library, entries[i].name) : NULL;
    if (!symbol)
      return 0;
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
  if (cuInit(0) != 0 || cuDeviceGetCount(&devices) != 0 || devices == 0)
    return 0;
  cuDeviceGetName(name, (int)sizeof name, 0);
  printf("%s\n", name);
  return cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0;
}

static void check(int good, const char *what) {
  if (!good) {
    printf("error: %s\n", what);
    exit(1);
  }
}

/* Device memory with what the host has; the copies stay until the end. */
static void *upload(const void *host, size_t bytes) {
  uint64_t address = 0;
  check(cuMemAlloc(&address, bytes ? bytes : 1) == 0, "cuMemAlloc");
  check(cuMemcpyHtoD(address, host, bytes) == 0, "cuMemcpyHtoD");
  return (void *)(uintptr_t)address;
}

/*===----------------------------------------------------------------------===*/
/* Data                                                                       */
/*===----------------------------------------------------------------------===*/

static float of_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* About normal: the sum of four uniform numbers; truncated to bf16. */
static uint16_t *random_bf16(size_t count) {
  static uint32_t state = 12345;
  uint16_t *values = (uint16_t *)malloc(2 * count + 2);
  size_t i;
  int n;
  for (i = 0; i < count; ++i) {
    float sum = 0;
    uint32_t bits;
    for (n = 0; n < 4; ++n) {
      state = state * 1664525u + 1013904223u;
      sum += (float)(state >> 8) * 0x1p-24f - 0.5f;
    }
    sum *= 1.7f;
    memcpy(&bits, &sum, sizeof bits);
    values[i] = (uint16_t)(bits >> 16);
  }
  return values;
}

typedef struct {
  int64_t batch, heads, heads_kv, queries, keys;
  int sequence_first; /* [B, S, H, D] in memory */
} sizes;

static void lay_out(int64_t *strides, int64_t heads, int64_t length, int sequence_first) {
  strides[0] = heads * length * head_dim;
  strides[1] = sequence_first ? head_dim : length * head_dim;
  strides[2] = sequence_first ? heads * head_dim : head_dim;
}

/*===----------------------------------------------------------------------===*/
/* Attention, the plain way                                                   */
/*===----------------------------------------------------------------------===*/

typedef struct {
  const uint16_t *q, *k, *v;
  const float *slopes;
  const int32_t *ids;
} inputs;

/* One row of O; gives its LSE. */
static double plain_row(const demo_args *args, const inputs *in, int64_t b, int64_t h, int64_t row, double *out,
                        double *scores) {
  const int64_t kv = h / (args->heads / args->heads_kv);
  const uint16_t *q = in->q + b * args->q_strides[0] + h * args->q_strides[1] + row * args->q_strides[2];
  double top = -INFINITY, total = 0;
  int64_t key;
  int d;
  memset(out, 0, head_dim * sizeof *out);
  for (key = 0; key < args->key_length; ++key) {
    const uint16_t *k = in->k + b * args->k_strides[0] + kv * args->k_strides[1] + key * args->k_strides[2];
    double s = 0;
    for (d = 0; d < head_dim; ++d)
      s += (double)of_bf16(q[d]) * (double)of_bf16(k[d]);
    s = 30 * tanh(s / sqrt((double)head_dim) / 30) + (double)in->slopes[h] * (double)(key - row);
    scores[key] = row >= key && in->ids[row] == in->ids[key] ? s : -INFINITY;
    top = scores[key] > top ? scores[key] : top;
  }
  if (top == -INFINITY)
    return top;
  for (key = 0; key < args->key_length; ++key) {
    const uint16_t *v = in->v + b * args->v_strides[0] + kv * args->v_strides[1] + key * args->v_strides[2];
    const double p = exp(scores[key] - top);
    total += p;
    for (d = 0; d < head_dim && p > 0; ++d)
      out[d] += p * (double)of_bf16(v[d]);
  }
  for (d = 0; d < head_dim; ++d)
    out[d] /= total;
  return top + log(total);
}

/* Whether O and LSE agree. The limits: bf16 has 8 bits, P is rounded once and O once. */
static int agrees(const demo_args *args, const inputs *in, const uint16_t *o, const float *lse) {
  double *scores = (double *)malloc((size_t)args->key_length * sizeof *scores + 8), out[head_dim], worst = 0,
         worst_lse = 0, squares = 0;
  int64_t b, h, row;
  int d;
  for (b = 0; b < args->batch; ++b)
    for (h = 0; h < args->heads; ++h)
      for (row = 0; row < args->query_length; ++row) {
        const double exact = plain_row(args, in, b, h, row, out, scores);
        const float found = lse[b * args->lse_strides[0] + h * args->lse_strides[1] + row * args->lse_strides[2]];
        const double off = exact == -INFINITY ? (found == -INFINITY ? 0 : INFINITY) : fabs((double)found - exact);
        worst_lse = off <= worst_lse ? worst_lse : off; /* NaN is kept */
        for (d = 0; d < head_dim; ++d) {
          const double error =
              fabs((double)of_bf16(o[b * args->o_strides[0] + h * args->o_strides[1] + row * args->o_strides[2] + d]) -
                   out[d]);
          worst = error <= worst ? worst : error;
          squares += error * error;
        }
      }
  free(scores);
  squares = sqrt(squares / (double)(args->batch * args->heads * args->query_length * head_dim));
  printf("  B %d H %d Hkv %d Sq %d Sk %d: O max %.2g (limit 0.03), rms %.2g (limit 0.002), LSE %.2g (limit 0.002)\n",
         (int)args->batch, (int)args->heads, (int)args->heads_kv, (int)args->query_length, (int)args->key_length, worst,
         squares, worst_lse);
  return worst <= 0.03 && squares <= 0.002 && worst_lse <= 0.002;
}

/*===----------------------------------------------------------------------===*/
/* Gradients, the plain way                                                   */
/*===----------------------------------------------------------------------===*/

/* Of Q, K and V in their strides, and of slopes. */
typedef struct {
  double *q, *k, *v, *slopes;
} gradients;

/* What one row adds, of dO in the strides of O. */
static void plain_gradients(const demo_args *args, const inputs *in, const uint16_t *dout, int64_t b, int64_t h,
                            int64_t row, double *scores, const gradients *to) {
  const int64_t kv = h / (args->heads / args->heads_kv);
  const int64_t q_at = b * args->q_strides[0] + h * args->q_strides[1] + row * args->q_strides[2];
  const uint16_t *d_row = dout + b * args->o_strides[0] + h * args->o_strides[1] + row * args->o_strides[2];
  const double scale = 1 / sqrt((double)head_dim);
  double out[head_dim], delta = 0;
  const double lse = plain_row(args, in, b, h, row, out, scores);
  int64_t key;
  int d;
  for (d = 0; d < head_dim; ++d)
    delta += (double)of_bf16(d_row[d]) * out[d];
  for (key = 0; key < args->key_length; ++key) {
    const int64_t k_at = b * args->k_strides[0] + kv * args->k_strides[1] + key * args->k_strides[2],
                  v_at = b * args->v_strides[0] + kv * args->v_strides[1] + key * args->v_strides[2];
    const double p = scores[key] == -INFINITY ? 0 : exp(scores[key] - lse),
                 bent = (scores[key] - (double)in->slopes[h] * (double)(key - row)) / 30;
    double ds = -delta, dx;
    if (p == 0)
      continue;
    for (d = 0; d < head_dim; ++d)
      ds += (double)of_bf16(d_row[d]) * (double)of_bf16(in->v[v_at + d]);
    ds *= p;
    dx = ds * (1 - bent * bent) * scale;
    to->slopes[h] += ds * (double)(key - row);
    for (d = 0; d < head_dim; ++d) {
      to->v[v_at + d] += p * (double)of_bf16(d_row[d]);
      to->q[q_at + d] += dx * (double)of_bf16(in->k[k_at + d]);
      to->k[k_at + d] += dx * (double)of_bf16(in->q[q_at + d]);
    }
  }
}

/* The error's share of the exact values, by their squares. */
static int is_close(const char *name, const double *exact, const void *found, int is_bf16, size_t count, double limit) {
  double errors = 0, squares = 0, share;
  size_t i;
  for (i = 0; i < count; ++i) {
    const double value = is_bf16 ? (double)of_bf16(((const uint16_t *)found)[i]) : (double)((const float *)found)[i];
    errors += (value - exact[i]) * (value - exact[i]);
    squares += exact[i] * exact[i];
  }
  share = sqrt(errors / squares);
  printf("    %s: error %.2g of the values (limit %g)\n", name, share, limit);
  return share <= limit; /* NaN is not */
}

/*===----------------------------------------------------------------------===*/
/* One launch                                                                 */
/*===----------------------------------------------------------------------===*/

static void *workspace_of(size_t bytes) {
  void *empty = calloc(1, bytes ? bytes : 1), *there = bytes ? upload(empty, bytes) : NULL;
  free(empty);
  return there;
}

static void *download(const void *device, size_t bytes) {
  void *host = malloc(bytes);
  check(cuMemcpyDtoH(host, (uint64_t)(uintptr_t)device, bytes) == 0, "cuMemcpyDtoH");
  return host;
}

/* The backward pass of a forward launch, whose device memory `forward` has. */
static int run_backward(const demo_args *forward, const inputs *in, size_t queries, size_t keys) {
  const size_t heads = (size_t)forward->heads;
  uint16_t *dout = random_bf16(queries * head_dim);
  double *scores = (double *)malloc((size_t)forward->key_length * sizeof *scores + 8);
  void *dq = malloc(queries * head_dim * 2), *dk = malloc(keys * head_dim * 2), *slopes = malloc(heads * 4), *dv;
  gradients exact;
  demo_backward_args args;
  int64_t b, h, row;
  int good;
  memset(dq, 0xff, queries * head_dim * 2); /* NaN: what is not written shows */
  memset(dk, 0xff, keys * head_dim * 2);
  memset(slopes, 0xff, heads * 4);
  demo_backward_defaults(&args, forward->batch, forward->heads, forward->heads_kv, forward->query_length,
                         forward->key_length);
  args.q = forward->q, args.k = forward->k, args.v = forward->v, args.o = forward->o, args.lse = forward->lse;
  memcpy(args.q_strides, forward->q_strides, sizeof args.q_strides);
  memcpy(args.k_strides, forward->k_strides, sizeof args.k_strides);
  memcpy(args.v_strides, forward->v_strides, sizeof args.v_strides);
  memcpy(args.o_strides, forward->o_strides, sizeof args.o_strides);
  memcpy(args.do_strides, forward->o_strides, sizeof args.do_strides);
  memcpy(args.dq_strides, forward->q_strides, sizeof args.dq_strides);
  memcpy(args.dk_strides, forward->k_strides, sizeof args.dk_strides);
  memcpy(args.dv_strides, forward->v_strides, sizeof args.dv_strides);
  args.do_ = upload(dout, queries * head_dim * 2);
  args.dq = upload(dq, queries * head_dim * 2);
  args.dk = upload(dk, keys * head_dim * 2);
  args.dv = upload(dk, keys * head_dim * 2);
  args.tensors.slopes.data = forward->tensors.slopes.data;
  args.tensors.slopes.shape[0] = forward->heads;
  args.tensors.ids.data = forward->tensors.ids.data;
  args.tensors.ids.shape[0] = forward->tensors.ids.shape[0];
  demo_backward_contiguous(1, args.tensors.slopes.shape, args.tensors.slopes.strides);
  demo_backward_contiguous(1, args.tensors.ids.shape, args.tensors.ids.strides);
  demo_backward_contiguous(1, args.tensors.slopes.shape, args.grads_slopes_strides);
  args.grads_slopes = (float *)upload(slopes, heads * 4);
  args.workspace_bytes = demo_backward_workspace_bytes(&args);
  args.workspace = workspace_of(args.workspace_bytes);
  check(demo_backward_launch(&args) == demo_backward_ok, demo_backward_error());
  check(cuCtxSynchronize() == 0, "the backward pass failed");
  free(dq), free(dk), free(slopes);
  dq = download(args.dq, queries * head_dim * 2);
  dk = download(args.dk, keys * head_dim * 2);
  dv = download(args.dv, keys * head_dim * 2);
  slopes = download(args.grads_slopes, heads * 4);
  exact.q = (double *)calloc(queries * head_dim, sizeof(double));
  exact.k = (double *)calloc(keys * head_dim, sizeof(double));
  exact.v = (double *)calloc(keys * head_dim, sizeof(double));
  exact.slopes = (double *)calloc(heads, sizeof(double));
  for (b = 0; b < forward->batch; ++b)
    for (h = 0; h < forward->heads; ++h)
      for (row = 0; row < forward->query_length; ++row)
        plain_gradients(forward, in, dout, b, h, row, scores, &exact);
  good = is_close("dq", exact.q, dq, 1, queries * head_dim, 0.01);
  good &= is_close("dk", exact.k, dk, 1, keys * head_dim, 0.01);
  good &= is_close("dv", exact.v, dv, 1, keys * head_dim, 0.01);
  good &= is_close("slopes", exact.slopes, slopes, 0, heads, 0.05);
  free(dout), free(scores), free(dq), free(dk), free(dv), free(slopes);
  free(exact.q), free(exact.k), free(exact.v), free(exact.slopes);
  return good;
}

static int run(const sizes *s) {
  const size_t queries = (size_t)(s->batch * s->heads * s->queries), keys = (size_t)(s->batch * s->heads_kv * s->keys);
  const int64_t length = s->queries > s->keys ? s->queries : s->keys;
  uint16_t *q = random_bf16(queries * head_dim), *k = random_bf16(keys * head_dim), *v = random_bf16(keys * head_dim);
  uint16_t *o = (uint16_t *)malloc(queries * head_dim * 2);
  float *lse = (float *)malloc(queries * 4), *slopes = (float *)malloc((size_t)s->heads * 4);
  int32_t *ids = (int32_t *)malloc((size_t)length * 4);
  inputs in;
  demo_args args;
  int64_t i;
  int good;
  for (i = 0; i < s->heads; ++i)
    slopes[i] = (float)exp2(-8.0 * (double)(i + 1) / (double)s->heads);
  for (i = 0; i < length; ++i)
    ids[i] = (int32_t)(i * 3 / length);
  memset(o, 0xff, queries * head_dim * 2); /* NaN: what is not written shows */
  memset(lse, 0xff, queries * 4);
  demo_defaults(&args, s->batch, s->heads, s->heads_kv, s->queries, s->keys);
  lay_out(args.q_strides, s->heads, s->queries, s->sequence_first);
  lay_out(args.k_strides, s->heads_kv, s->keys, s->sequence_first);
  lay_out(args.v_strides, s->heads_kv, s->keys, s->sequence_first);
  lay_out(args.o_strides, s->heads, s->queries, s->sequence_first);
  args.q = upload(q, queries * head_dim * 2);
  args.k = upload(k, keys * head_dim * 2);
  args.v = upload(v, keys * head_dim * 2);
  args.o = upload(o, queries * head_dim * 2);
  args.lse = (float *)upload(lse, queries * 4);
  args.tensors.slopes.data = (const float *)upload(slopes, (size_t)s->heads * 4);
  args.tensors.slopes.shape[0] = s->heads;
  args.tensors.ids.data = (const int32_t *)upload(ids, (size_t)length * 4);
  args.tensors.ids.shape[0] = length;
  demo_contiguous(1, args.tensors.slopes.shape, args.tensors.slopes.strides);
  demo_contiguous(1, args.tensors.ids.shape, args.tensors.ids.strides);
  args.workspace_bytes = demo_workspace_bytes(&args);
  args.workspace = workspace_of(args.workspace_bytes);
  check(demo_launch(&args) == demo_ok, demo_error());
  check(cuCtxSynchronize() == 0, "the kernel failed");
  check(cuMemcpyDtoH(o, (uint64_t)(uintptr_t)args.o, queries * head_dim * 2) == 0, "cuMemcpyDtoH");
  check(cuMemcpyDtoH(lse, (uint64_t)(uintptr_t)args.lse, queries * 4) == 0, "cuMemcpyDtoH");
  in.q = q, in.k = k, in.v = v, in.slopes = slopes, in.ids = ids;
  good = agrees(&args, &in, o, lse);
  good &= run_backward(&args, &in, queries, keys);
  free(q), free(k), free(v), free(o), free(lse), free(slopes), free(ids);
  return good;
}

int main(void) {
  const sizes all[] = {{1, 2, 2, 128, 128, 0},
                       {2, 4, 2, 300, 300, 0},
                       {2, 6, 2, 517, 517, 1},
                       {1, 4, 1, 200, 77, 1},
                       {1, 16, 16, 1024, 1024, 0}};
  demo_args args;
  demo_backward_args back;
  size_t i;
  int good = 1;
  if (!open_driver()) {
    printf("no CUDA driver or no device: not run\n");
    return 77;
  }
  for (i = 0; i < sizeof all / sizeof all[0]; ++i)
    good &= run(&all[i]);
  /* A mistake is an error with a text, not a launch. */
  demo_defaults(&args, 1, 3, 2, 8, 8);
  args.q = args.k = args.v = args.o = (void *)(uintptr_t)256;
  good &= demo_launch(&args) == demo_invalid;
  printf("  refused: %s\n", demo_error());
  demo_backward_defaults(&back, 1, 2, 2, 8, 8);
  good &= demo_backward_launch(&back) == demo_backward_invalid;
  printf("  refused: %s\n%s\n", demo_backward_error(), good ? "agrees" : "error: the results differ");
  return good ? 0 : 1;
}
