/* Gradients in C: those of Q, K, V and ALiBi's slopes on the CPU, checked against differences of the forward pass. */
#include <attune/c.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 1, H = 2, S = 48, D = 16, count = B * H * S * D, most_operands = 8 };

static void require(attune_error *error) {
  if (error) {
    fprintf(stderr, "%s\n", attune_error_text(error));
    exit(1);
  }
}

static float *allocate(size_t elements) {
  float *memory = (float *)calloc(elements, sizeof(float));
  if (!memory)
    exit(1);
  return memory;
}

static float *random_values(size_t elements) {
  static unsigned state = 1;
  float *values = allocate(elements);
  for (size_t i = 0; i < elements; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(state >> 8) / (1 << 23) - 1;
  }
  return values;
}

/* Both passes of ALiBi with slopes that are learned. */
static void compile_passes(attune_kernel **forward, attune_kernel **backward) {
  const attune_tensor_decl captured = {"slopes", ATTUNE_F32, 1};
  const char *const learned[] = {"slopes"};
  attune_text_variant text = attune_text_variant_init();
  attune_options options = attune_options_init();
  attune_gradients gradients = attune_gradients_init();
  attune_variant *variant = NULL;
  text.name = "learned";
  text.score = "s + slopes[h] * (k - q)";
  text.mask = "q >= k";
  text.tensors = &captured;
  text.tensor_count = 1;
  require(attune_variant_from_text(&text, &variant));
  gradients.tensors = learned; /* beside those of Q, K and V */
  gradients.tensor_count = 1;
  options.dtype = ATTUNE_F32;
  options.head_dim = D;
  options.gradients = &gradients;
  require(attune_compile(variant, &options, "cpu", forward));
  require(attune_kernel_backward(*forward, backward));
  attune_variant_free(variant);
}

/* The backward pass takes what the forward pass took and left, and by name dO and memory for the gradients, which stays
 * in `operands`. Gives how many there are. */
static size_t launch_backward(const attune_kernel *backward, attune_launch_args args, float *d_o,
                              attune_named_tensor *operands) {
  const size_t operand_count = attune_operand_count(backward);
  for (size_t n = 0; n < operand_count && n < most_operands; ++n) {
    size_t elements = 1;
    require(attune_operand(backward, n, &args, &operands[n])); /* its name, dtype and shape */
    for (int i = 0; i < operands[n].tensor.rank; ++i)
      elements *= (size_t)operands[n].tensor.shape[i];
    operands[n].tensor.data = strcmp(operands[n].name, "do") == 0 ? d_o : allocate(elements);
  }
  args.operands = operands;
  args.operand_count = operand_count;
  require(attune_workspace_bytes(backward, &args, &args.workspace_bytes));
  args.workspace = malloc(args.workspace_bytes + 1); /* malloc gives 16-byte aligned memory */
  require(attune_launch(backward, NULL, &args));
  free(args.workspace);
  return operand_count;
}

/* sum(dO * O), of which the gradients are. */
static double loss(const attune_kernel *forward, const attune_launch_args *args, const float *d_o) {
  const float *o = (const float *)args->o.data;
  double sum = 0;
  require(attune_launch(forward, NULL, args));
  for (int i = 0; i < count; ++i)
    sum += (double)o[i] * (double)d_o[i];
  return sum;
}

/* How far some elements of a gradient are from differences of the loss. */
static double worst_error(const attune_kernel *forward, const attune_launch_args *args, const float *d_o, float *input,
                          int elements, const float *gradient) {
  const float step = 1.0f / 512;
  double worst = 0;
  for (int at = 0; at < elements; at += at < H ? 1 : 97) {
    const float value = input[at];
    input[at] = value + step;
    const double above = loss(forward, args, d_o);
    input[at] = value - step;
    const double below = loss(forward, args, d_o);
    input[at] = value;
    const double error = fabs((double)gradient[at] - (above - below) / (2 * (double)step));
    worst = error <= worst ? worst : error; /* NaN is kept */
  }
  return worst;
}

int main(void) {
  const int64_t shape[] = {B, H, S, D}, slopes_shape[] = {H};
  attune_kernel *forward = NULL, *backward = NULL;
  compile_passes(&forward, &backward);

  float *q = random_values(count), *k = random_values(count), *v = random_values(count), *d_o = random_values(count);
  float *o = allocate(count), *lse = allocate(B * H * S), *slopes = random_values(H);
  const attune_tensor lse_view = attune_contiguous(lse, ATTUNE_F32, ATTUNE_CPU, 3, shape);
  const attune_named_tensor tensor = {"slopes", attune_contiguous(slopes, ATTUNE_F32, ATTUNE_CPU, 1, slopes_shape)};
  attune_launch_args args = attune_launch_args_init();
  args.q = attune_contiguous(q, ATTUNE_F32, ATTUNE_CPU, 4, shape);
  args.k = attune_contiguous(k, ATTUNE_F32, ATTUNE_CPU, 4, shape);
  args.v = attune_contiguous(v, ATTUNE_F32, ATTUNE_CPU, 4, shape);
  args.o = attune_contiguous(o, ATTUNE_F32, ATTUNE_CPU, 4, shape);
  args.lse = &lse_view;
  args.tensors = &tensor;
  args.tensor_count = 1;
  require(attune_launch(forward, NULL, &args));
  attune_named_tensor operands[most_operands];
  const size_t operand_count = launch_backward(backward, args, d_o, operands);

  const struct {
    const char *name;
    float *input;
    int elements;
  } inputs[] = {{"dq", q, count}, {"dk", k, count}, {"dv", v, count}, {"grads.slopes", slopes, H}};
  int checked = 0, good = 0;
  for (size_t i = 0; i < operand_count; ++i)
    for (size_t n = 0; n < sizeof inputs / sizeof inputs[0]; ++n)
      if (strcmp(operands[i].name, inputs[n].name) == 0) {
        const double error = worst_error(forward, &args, d_o, inputs[n].input, inputs[n].elements,
                                         (const float *)operands[i].tensor.data);
        printf("%s: error %.2g (limit 0.01)\n", inputs[n].name, error);
        ++checked;
        good += error <= 0.01;
      }
  for (size_t i = 0; i < operand_count; ++i)
    free(operands[i].tensor.data);
  free(q), free(k), free(v), free(o), free(lse), free(slopes);
  attune_kernel_free(backward);
  attune_kernel_free(forward);
  return checked == 4 && good == 4 ? 0 : 1;
}
