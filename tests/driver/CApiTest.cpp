#include "attune/c.h"

#include "attune/attune.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

/// The error's text, freed; "" where there is none.
std::string textOf(attune_error *error) {
  std::string text = error ? attune_error_text(error) : "";
  attune_error_free(error);
  return text;
}
void require(attune_error *error) { REQUIRE(textOf(error) == ""); }

struct FreeVariant {
  void operator()(attune_variant *variant) const { attune_variant_free(variant); }
};
struct FreeKernel {
  void operator()(attune_kernel *kernel) const { attune_kernel_free(kernel); }
};
using VariantHandle = std::unique_ptr<attune_variant, FreeVariant>;
using KernelHandle = std::unique_ptr<attune_kernel, FreeKernel>;

attune_text_variant textVariant(const char *name, const char *score, const char *mask) {
  attune_text_variant text = attune_text_variant_init();
  text.name = name;
  text.score = score;
  text.mask = mask;
  return text;
}

VariantHandle variantOf(const attune_text_variant &text) {
  attune_variant *variant = nullptr;
  require(attune_variant_from_text(&text, &variant));
  return VariantHandle(variant);
}

attune_options optionsOf(int headDim) {
  attune_options options = attune_options_init();
  options.dtype = ATTUNE_F32;
  options.head_dim = headDim;
  options.no_cache = 1;
  return options;
}

KernelHandle kernelOf(const attune_variant *variant, int headDim) {
  attune_kernel *kernel = nullptr;
  const attune_options options = optionsOf(headDim);
  require(attune_compile(variant, &options, "cpu", &kernel));
  return KernelHandle(kernel);
}

std::string givenText(attune_error *error, char *&text) {
  require(error);
  std::string copy = text;
  attune_text_free(text);
  return copy;
}

constexpr int64_t heads = 2, length = 40, dim = 16;

/// Q, K, V and O of one batch, with values that follow from their place.
struct Arrays {
  std::vector<float> q = values(1), k = values(2), v = values(3), o = std::vector<float>(q.size(), NAN);

  static std::vector<float> values(int seed) {
    std::vector<float> array(heads * length * dim);
    for (size_t i = 0; i < array.size(); ++i)
      array[i] = std::sin(float(i * size_t(seed) % 97));
    return array;
  }
  attune_launch_args args() {
    const int64_t shape[4] = {1, heads, length, dim};
    attune_launch_args args = attune_launch_args_init();
    args.q = attune_contiguous(q.data(), ATTUNE_F32, ATTUNE_CPU, 4, shape);
    args.k = attune_contiguous(k.data(), ATTUNE_F32, ATTUNE_CPU, 4, shape);
    args.v = attune_contiguous(v.data(), ATTUNE_F32, ATTUNE_CPU, 4, shape);
    args.o = attune_contiguous(o.data(), ATTUNE_F32, ATTUNE_CPU, 4, shape);
    return args;
  }
};

/// A row-major view of float32 on the CPU.
attune_tensor viewOf(std::vector<float> &array, std::initializer_list<int64_t> shape) {
  return attune_contiguous(array.data(), ATTUNE_F32, ATTUNE_CPU, int(shape.size()), shape.begin());
}

attune_options withGradients(const attune_gradients &gradients) {
  attune_options options = optionsOf(int(dim));
  options.gradients = &gradients;
  return options;
}

/// A forward pass of softcap(s, 3) + slopes[h] * (k - q) with q >= k, and its backward pass.
struct Passes {
  Arrays arrays;
  std::vector<float> slopes = {0.5f, 0.25f}, lse = std::vector<float>(heads * length, NAN), dO = Arrays::values(5),
                     dLse = Arrays::values(7);
  std::vector<std::vector<float>> found; ///< what backward() writes: memory of the n-th operand
  attune_tensor lseView = viewOf(lse, {1, heads, length});
  attune_named_tensor named = {"slopes", viewOf(slopes, {heads})};
  KernelHandle forward, backward;

  explicit Passes(const attune_gradients &gradients) {
    dLse.resize(heads * length);
    const attune_tensor_decl tensors[] = {{"slopes", ATTUNE_F32, 1}};
    attune_text_variant text = textVariant("learned", "softcap(s, 3) + slopes[h] * (k - q)", "q >= k");
    text.tensors = tensors;
    text.tensor_count = 1;
    const VariantHandle variant = variantOf(text);
    const attune_options options = withGradients(gradients);
    attune_kernel *kernel = nullptr;
    require(attune_compile(variant.get(), &options, "cpu", &kernel));
    forward.reset(kernel);
    require(attune_kernel_backward(forward.get(), &kernel));
    backward.reset(kernel);
  }

  attune_launch_args args() {
    attune_launch_args args = arrays.args();
    args.lse = &lseView;
    args.tensors = &named;
    args.tensor_count = 1;
    return args;
  }

  /// The operands that `kernel` takes by name, of memory of their own, which is NaN but for what comes in.
  std::vector<attune_named_tensor> operandsOf(const attune_kernel *kernel) {
    const attune_launch_args given = args();
    std::vector<attune_named_tensor> operands(attune_operand_count(kernel));
    found.assign(operands.size(), {});
    for (size_t i = 0; i < operands.size(); ++i) {
      require(attune_operand(kernel, i, &given, &operands[i]));
      size_t count = 1;
      for (int d = 0; d < operands[i].tensor.rank; ++d)
        count *= size_t(operands[i].tensor.shape[d]);
      const std::string name = operands[i].name;
      found[i] = name == "do" ? dO : name == "dlse" ? dLse : std::vector<float>(count, NAN);
      REQUIRE(found[i].size() == count);
      REQUIRE(operands[i].tensor.dtype == ATTUNE_F32);
      operands[i].tensor.data = found[i].data();
    }
    return operands;
  }

  void run(const attune_kernel *kernel, const std::vector<attune_named_tensor> &operands) {
    attune_launch_args given = args();
    given.operands = operands.data();
    given.operand_count = operands.size();
    require(attune_workspace_bytes(kernel, &given, &given.workspace_bytes));
    std::vector<double> workspace(given.workspace_bytes / sizeof(double) + 2);
    given.workspace = workspace.data();
    require(attune_launch(kernel, nullptr, &given));
  }

  /// sum(dO * O) + sum(dLSE * LSE) by the formula, in double.
  double loss() const {
    double sum = 0;
    for (size_t row = 0; row < size_t(heads * length); ++row) {
      const size_t h = row / length, query = row % length;
      double top = -INFINITY, weights = 0, product = 0;
      std::vector<double> scores;
      for (size_t key = 0; key <= query; ++key) {
        double s = 0;
        for (size_t d = 0; d < size_t(dim); ++d)
          s += double(arrays.q[row * dim + d]) * double(arrays.k[(h * length + key) * dim + d]);
        scores.push_back(3 * std::tanh(s / std::sqrt(double(dim)) / 3) +
                         double(slopes[h]) * (double(key) - double(query)));
        top = std::max(top, scores.back());
      }
      for (size_t key = 0; key <= query; ++key) {
        const double weight = std::exp(scores[key] - top);
        weights += weight;
        for (size_t d = 0; d < size_t(dim); ++d)
          product += weight * double(arrays.v[(h * length + key) * dim + d]) * double(dO[row * dim + d]);
      }
      sum += product / weights + double(dLse[row]) * (top + std::log(weights));
    }
    return sum;
  }

  /// The derivative of loss() by an element of `array`, which is one of this object's.
  double slope(std::vector<float> &array, size_t at) {
    const float value = array[at], step = 1.0f / 256;
    array[at] = value + step;
    const double above = loss(), high = array[at];
    array[at] = value - step;
    const double below = loss(), low = array[at];
    array[at] = value;
    return (above - below) / (high - low);
  }
};

} // namespace

TEST_CASE("the C interface computes what the C++ front does, bit for bit") {
  const attune_tensor_decl tensors[] = {{"slopes", ATTUNE_F32, 1}};
  const attune_scalar_decl scalars[] = {{"cap", ATTUNE_F32}, {"window", ATTUNE_I32}};
  attune_text_variant text = textVariant("mine", "softcap(s, cap) + slopes[h] * (k - q)", "q >= k && q - k < window");
  text.tensors = tensors;
  text.tensor_count = 1;
  text.scalars = scalars;
  text.scalar_count = 2;
  VariantHandle variant = variantOf(text);
  KernelHandle kernel = kernelOf(variant.get(), dim);

  Arrays mine, theirs;
  std::vector<float> slopes = {0.5f, 0.25f}, lse(heads * length, NAN), otherLse = lse;
  const int64_t slopeShape[] = {heads}, lseShape[] = {1, heads, length};
  const attune_tensor lseView = attune_contiguous(lse.data(), ATTUNE_F32, ATTUNE_CPU, 3, lseShape);
  attune_named_tensor named[] = {{"slopes", attune_contiguous(slopes.data(), ATTUNE_F32, ATTUNE_CPU, 1, slopeShape)}};
  attune_named_scalar values[2] = {{"cap", ATTUNE_F32, {}}, {"window", ATTUNE_I32, {}}};
  values[0].value.f32 = 3;
  values[1].value.i32 = 7;
  attune_launch_args args = mine.args();
  args.lse = &lseView;
  args.tensors = named;
  args.tensor_count = 1;
  args.scalars = values;
  args.scalar_count = 2;
  size_t workspace = 1;
  require(attune_workspace_bytes(kernel.get(), &args, &workspace));
  CHECK(workspace == 0);
  require(attune_check(kernel.get(), &args));
  require(attune_load(kernel.get()));
  require(attune_launch(kernel.get(), nullptr, &args));

  using namespace attune;
  Expected<Variant> parsed = Variant::parse("mine", {.score = text.score,
                                                     .mask = text.mask,
                                                     .tensors = {{"slopes", f32, 1}},
                                                     .scalars = {{"cap", f32}, {"window", i32}}});
  REQUIRE(parsed);
  Expected<Kernel> other = compile(*parsed, {.dtype = f32, .headDim = dim, .useCache = false}, Target::cpu());
  REQUIRE(other);
  auto view = [](std::vector<float> &array, std::initializer_list<int64_t> shape) {
    return Tensor::contiguous(array.data(), f32, shape);
  };
  Expected<void> launched = other->launch(nullptr, {.q = view(theirs.q, {1, heads, length, dim}),
                                                    .k = view(theirs.k, {1, heads, length, dim}),
                                                    .v = view(theirs.v, {1, heads, length, dim}),
                                                    .o = view(theirs.o, {1, heads, length, dim}),
                                                    .lse = view(otherLse, {1, heads, length}),
                                                    .tensors = {{"slopes", view(slopes, {heads})}},
                                                    .scalars = {{"cap", 3.0f}, {"window", 7}}});
  REQUIRE(launched);
  CHECK(mine.o == theirs.o);
  CHECK(lse == otherLse);
  CHECK(std::isfinite(mine.o.front()));
}

TEST_CASE("variants, stages, plans and kernels have their texts in C") {
  VariantHandle variant = variantOf(textVariant("windowed", nullptr, "q >= k"));
  char *text = nullptr;
  const std::string json = givenText(attune_variant_json(variant.get(), &text), text);
  attune_variant *again = nullptr;
  require(attune_variant_from_json(json.c_str(), &again));
  VariantHandle owner(again);
  CHECK(givenText(attune_variant_json(again, &text), text) == json);

  const attune_options options = optionsOf(64);
  size_t bytes = 0;
  require(attune_emit(variant.get(), &options, "sm_80", "cuda", &text, &bytes));
  CHECK(std::string(text).size() == bytes);
  CHECK(std::string(text).find("windowed") != std::string::npos);
  attune_text_free(text);
  CHECK(givenText(attune_explain(variant.get(), &options, "sm_90a", &text), text).find("\"candidates\"") !=
        std::string::npos);
  attune_options ordered = options;
  ordered.ping_pong = 0;
  ordered.query_stages = 1;
  const std::string plan = givenText(attune_explain(variant.get(), &ordered, "sm_90a", &text), text);
  CHECK(plan.find("\"pingPong\": false") != std::string::npos);
  CHECK(plan.find("\"queryStages\": 1") != std::string::npos);
  KernelHandle kernel = kernelOf(variant.get(), 64);
  CHECK(givenText(attune_kernel_json(kernel.get(), &text), text).find("\"windowed\"") != std::string::npos);
  CHECK(attune_kernel_cache_hit(kernel.get()) == 0);
  CHECK(attune_version() == std::string(attune::versionText()));
}

TEST_CASE("normalisers by the C interface") {
  attune_text_variant text = textVariant("weighed", nullptr, "q >= k");
  text.normaliser = "sigmoid";
  char *json = nullptr;
  CHECK(givenText(attune_variant_json(variantOf(text).get(), &json), json).find("\"normaliser\": \"sigmoid\"") !=
        std::string::npos);
  text.normaliser = nullptr;
  text.sink = "sinks";
  CHECK(givenText(attune_variant_json(variantOf(text).get(), &json), json).find("\"sink\": \"sinks\"") !=
        std::string::npos);
  attune_variant *variant = nullptr;
  text.normaliser = "none";
  CHECK(textOf(attune_variant_from_text(&text, &variant)) ==
        "error: normaliser none has no sink; leave out \"sinks\", or use softmax");
  text.normaliser = "softmin";
  text.sink = nullptr;
  CHECK(textOf(attune_variant_from_text(&text, &variant)) ==
        "error: normaliser \"softmin\" is not one of softmax, sigmoid and none");
}

TEST_CASE("errors of the C interface, to the letter") {
  attune_variant *variant = nullptr;
  attune_text_variant text = textVariant("mine", "softcap(s, 30", nullptr);
  attune_error *error = attune_variant_from_text(&text, &variant);
  REQUIRE(error);
  CHECK(std::string(attune_error_message(error)) == "expected \")\", but found the end of the text");
  CHECK(textOf(error) ==
        "score:1:14: error: expected \")\", but found the end of the text\nsoftcap(s, 30\n             ^");
  CHECK(variant == nullptr);
  CHECK(textOf(attune_variant_from_text(nullptr, &variant)) == "error: attune_text_variant is NULL");
  CHECK(textOf(attune_variant_from_json(nullptr, &variant)) == "error: json is NULL");
  text.score = "s";
  CHECK(textOf(attune_variant_from_text(&text, nullptr)) == "error: where the variant goes is NULL");
  const attune_tensor_decl forgotten[] = {{"t", attune_dtype(0), 1}};
  text.tensors = forgotten;
  text.tensor_count = 1;
  CHECK(textOf(attune_variant_from_text(&text, &variant)) ==
        "error: the dtype of tensor 't' is 0, but must be one of attune_dtype, 1 to 6");
  for (const int rank : {-1, -2, 5, 1 << 30}) { // -1 is TextVariant's "inferred", which C has not
    const attune_tensor_decl ranks[] = {{"t", ATTUNE_F32, rank}};
    text.tensors = ranks;
    CHECK(textOf(attune_variant_from_text(&text, &variant))
              .find("has rank " + std::to_string(rank) + ", but must have rank 0 to 4") != std::string::npos);
  }
  text.tensors = nullptr;
  CHECK(textOf(attune_variant_from_text(&text, &variant)) == "error: tensors is NULL");
  text.size += 8;
  CHECK(textOf(attune_variant_from_text(&text, &variant)).find("attune_text_variant.size is ") != std::string::npos);

  VariantHandle good = variantOf(textVariant("mine", nullptr, nullptr));
  attune_kernel *kernel = nullptr;
  attune_options options = optionsOf(12);
  CHECK(textOf(attune_compile(good.get(), &options, "cpu", &kernel)).find("error: ") != std::string::npos);
  CHECK(textOf(attune_compile(nullptr, &options, "cpu", &kernel)) == "error: variant is NULL");
  CHECK(textOf(attune_compile(good.get(), nullptr, "cpu", &kernel)) == "error: attune_options is NULL");
  CHECK(textOf(attune_compile(good.get(), &options, "cpu", nullptr)) == "error: where the kernel goes is NULL");
  options.dtype = attune_dtype(0);
  CHECK(textOf(attune_compile(good.get(), &options, "cpu", &kernel)) ==
        "error: the dtype of Q, K, V and O is 0, but must be one of attune_dtype, 1 to 6");
  CHECK(kernel == nullptr);
  options = optionsOf(16);
  char *stage = nullptr;
  CHECK(textOf(attune_emit(good.get(), &options, "cpu", "sass!", &stage, nullptr)) ==
        "error: stage 'sass!' is none of dsl, attn, tile, sched, cuda, ptx and cubin");

  KernelHandle compiled = kernelOf(good.get(), dim);
  Arrays arrays;
  attune_launch_args args = arrays.args();
  CHECK(textOf(attune_launch(nullptr, nullptr, &args)) == "error: kernel is NULL");
  CHECK(textOf(attune_launch(compiled.get(), nullptr, nullptr)) == "error: attune_launch_args is NULL");
  args.o.rank = 9;
  CHECK(textOf(attune_check(compiled.get(), &args)) == "error: o has rank 9, but at most 8 dimensions are possible");
  args = arrays.args();
  args.v.device = -2;
  CHECK(textOf(attune_check(compiled.get(), &args)) ==
        "error: v is on device -2, but must be on a CUDA device, from 0 on, or on ATTUNE_CPU");
  args = arrays.args();
  args.scalar_count = 1;
  CHECK(textOf(attune_check(compiled.get(), &args)) == "error: scalars is NULL");
  const attune_named_scalar half[] = {{"cap", ATTUNE_F16, {}}};
  args.scalars = half;
  CHECK(textOf(attune_check(compiled.get(), &args)) == "error: scalar 'cap' is f16, but must be f32, i32, i64 or bool");
  attune_error_free(nullptr);
  attune_text_free(nullptr);
}

TEST_CASE("a struct of an older header is taken as far as it goes") {
  VariantHandle variant = variantOf(textVariant("old", nullptr, nullptr));
  attune_options options = optionsOf(16);
  options.size = offsetof(attune_options, cache_dir); // what lies behind is never read
  options.cache_dir = reinterpret_cast<const char *>(1);
  attune_kernel *kernel = nullptr;
  char folder[] = "/tmp/attune-c-XXXXXX";
  REQUIRE(mkdtemp(folder));
  setenv("ATTUNE_CACHE_DIR", folder, 1);
  require(attune_compile(variant.get(), &options, "cpu", &kernel));
  unsetenv("ATTUNE_CACHE_DIR");
  attune_kernel_free(kernel);
  options.size = 4;
  CHECK(textOf(attune_compile(variant.get(), &options, "cpu", &kernel)).find("attune_options.size is 4, but must be") !=
        std::string::npos);
}

TEST_CASE("plans are measured and kernels prepared for sizes in C") {
  VariantHandle variant = variantOf(textVariant("mine", nullptr, "q >= k"));
  char folder[] = "/tmp/attune-c-XXXXXX";
  REQUIRE(mkdtemp(folder));
  attune_options options = optionsOf(int(dim));
  options.no_cache = 0;
  options.cache_dir = folder;
  const attune_sizes sizes = {1, heads, heads, length, length};
  char *json = nullptr;
  const std::string tuned = givenText(attune_tune(variant.get(), &options, "cpu", &sizes, 1, 1.0, &json), json);
  CHECK(tuned.find("\"sizeClass\":\"h2 q48 k48\"") != std::string::npos);
  attune_kernel *kernel = nullptr, *prepared = nullptr;
  require(attune_compile(variant.get(), &options, "cpu", &kernel));
  const KernelHandle own(kernel);
  const attune_sizes more = {8, 2, 1, 16, 16};
  require(attune_kernel_prepare(own.get(), &more, 1, &prepared));
  const KernelHandle other(prepared);
  Arrays a, b;
  const attune_launch_args argsA = a.args(), argsB = b.args();
  require(attune_launch(own.get(), nullptr, &argsA));
  require(attune_launch(other.get(), nullptr, &argsB));
  CHECK(a.o == b.o);

  CHECK(textOf(attune_kernel_prepare(nullptr, &more, 1, &prepared)) == "error: kernel is NULL");
  CHECK(textOf(attune_kernel_prepare(own.get(), &more, 1, nullptr)) == "error: where the kernel goes is NULL");
  CHECK(textOf(attune_kernel_prepare(own.get(), nullptr, 1, &prepared)) == "error: shapes is NULL");
  CHECK(textOf(attune_tune(variant.get(), &options, "cpu", &sizes, 1, -1.0, nullptr)) ==
        "error: seconds is -1, but must not be negative; 0 takes the default");
  CHECK(textOf(attune_tune(variant.get(), &options, "cpu", nullptr, 1, 1.0, nullptr)) == "error: shapes is NULL");
  options.tuning = attune_tuning(3);
  CHECK(textOf(attune_compile(variant.get(), &options, "cpu", &kernel)) ==
        "error: attune_options.tuning is 3, but must be one of attune_tuning, 0 to 2");
  options = optionsOf(int(dim));
  options.persistent = 2;
  CHECK(textOf(attune_compile(variant.get(), &options, "cpu", &kernel)) ==
        "error: attune_options.persistent is 2, but must be 0, 1 or, for the cost model's choice, -1");
  options = optionsOf(int(dim));
  options.shape_count = 1;
  CHECK(textOf(attune_compile(variant.get(), &options, "cpu", &kernel)) == "error: shapes is NULL");
}

TEST_CASE("gradients by the C interface, against differences of the formula") {
  const char *const tensors[] = {"slopes"};
  attune_gradients gradients = attune_gradients_init();
  gradients.tensors = tensors;
  gradients.tensor_count = 1;
  gradients.lse = 1;
  const char *const score[] = {"score"};
  gradients.save_count = GENERATE(0, 1); // computed again, or read from what the forward pass left
  gradients.save = score;
  Passes passes(gradients);
  const std::vector<attune_named_tensor> saved = passes.operandsOf(passes.forward.get());
  CHECK(saved.size() == gradients.save_count);
  const std::vector<std::vector<float>> memory = std::move(passes.found);
  passes.run(passes.forward.get(), saved);

  std::vector<attune_named_tensor> operands = passes.operandsOf(passes.backward.get());
  std::vector<std::string> names;
  for (attune_named_tensor &operand : operands) {
    names.push_back(operand.name);
    if (names.back() == "saved.score") {
      CHECK(std::equal(std::begin(operand.tensor.shape), std::end(operand.tensor.shape), saved[0].tensor.shape));
      operand.tensor.data = saved[0].tensor.data;
    }
  }
  std::vector<std::string> all = {"dk", "dlse", "do", "dq", "dv", "grads.slopes"};
  if (gradients.save_count)
    all.push_back("saved.score");
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == all);
  passes.run(passes.backward.get(), operands);

  const std::pair<const char *, std::vector<float> *> inputs[] = {
      {"dq", &passes.arrays.q}, {"dk", &passes.arrays.k}, {"dv", &passes.arrays.v}, {"grads.slopes", &passes.slopes}};
  for (auto [name, input] : inputs) {
    const size_t number = size_t(std::find(names.begin(), names.end(), name) - names.begin());
    const std::vector<float> &found = passes.found[number];
    REQUIRE(found.size() == input->size());
    for (size_t at = 0; at < found.size(); at += found.size() > 8 ? 61 : 1) {
      INFO(name << " at " << at);
      CHECK(double(found[at]) == Approx(passes.slope(*input, at)).epsilon(1e-3).margin(2e-4));
    }
  }
}

TEST_CASE("a backward pass without LSE takes no O in C") {
  attune_text_variant text = textVariant("weighed", nullptr, "q >= k");
  text.normaliser = "sigmoid";
  const attune_gradients gradients = attune_gradients_init();
  const attune_options options = withGradients(gradients);
  attune_kernel *kernel = nullptr;
  require(attune_compile(variantOf(text).get(), &options, "cpu", &kernel));
  const KernelHandle forward(kernel);
  require(attune_kernel_backward(forward.get(), &kernel));
  const KernelHandle backward(kernel);
  Arrays arrays;
  std::vector<float> dO = Arrays::values(5), dq(dO.size(), NAN), dk = dq, dv = dq;
  auto view = [](std::vector<float> &array) { return viewOf(array, {1, heads, length, dim}); };
  const attune_named_tensor operands[] = {{"do", view(dO)}, {"dq", view(dq)}, {"dk", view(dk)}, {"dv", view(dv)}};
  attune_launch_args args = arrays.args();
  args.o = attune_tensor();
  args.operands = operands;
  args.operand_count = 4;
  require(attune_launch(backward.get(), nullptr, &args));
  // dV of the last key is weighed by the last row alone.
  const size_t last = (length - 1) * dim;
  double s = 0;
  for (size_t d = 0; d < size_t(dim); ++d)
    s += double(arrays.q[last + d]) * double(arrays.k[last + d]);
  const double weight = 1 / (1 + std::exp(-s / std::sqrt(double(dim))));
  CHECK(double(dv[last]) == Approx(weight * double(dO[last])).epsilon(1e-5));
}

TEST_CASE("stages and texts of the backward pass in C") {
  const VariantHandle variant = variantOf(textVariant("windowed", nullptr, "q >= k"));
  const attune_gradients gradients = attune_gradients_init();
  attune_options options = withGradients(gradients);
  char *text = nullptr;
  CHECK(givenText(attune_emit(variant.get(), &options, "sm_80", "cuda", &text, nullptr), text).find("dk") ==
        std::string::npos);
  options.backward = 1;
  CHECK(givenText(attune_emit(variant.get(), &options, "sm_80", "cuda", &text, nullptr), text).find("*dk;") !=
        std::string::npos);
  CHECK(givenText(attune_explain(variant.get(), &options, "sm_80", &text), text).find("\"backward\"") !=
        std::string::npos);
  attune_kernel *kernel = nullptr;
  require(attune_compile(variant.get(), &options, "cpu", &kernel));
  const KernelHandle alone(kernel);
  CHECK(givenText(attune_kernel_json(alone.get(), &text), text).find("\"dk\"") != std::string::npos);
  CHECK(attune_operand_count(alone.get()) == 4);
  options.gradients = nullptr;
  CHECK(textOf(attune_compile(variant.get(), &options, "cpu", &kernel)) ==
        "error: the backward pass is asked for, but no gradients are; set CompileOptions::gradients");
}

TEST_CASE("errors of gradients in C, to the letter") {
  const VariantHandle variant = variantOf(textVariant("mine", nullptr, nullptr));
  attune_kernel *kernel = nullptr;
  auto compileError = [&](const attune_gradients &gradients) {
    const attune_options options = withGradients(gradients);
    return textOf(attune_compile(variant.get(), &options, "cpu", &kernel));
  };
  attune_gradients gradients = attune_gradients_init();
  gradients.tensor_count = 1;
  CHECK(compileError(gradients) == "error: attune_gradients.tensors is NULL");
  const char *names[] = {nullptr};
  gradients.tensors = names;
  CHECK(compileError(gradients) == "error: attune_gradients.tensors[0] is NULL");
  names[0] = "slopes";
  CHECK(compileError(gradients) ==
        "error: the gradient of 'slopes' is asked for, which is no captured tensor of variant 'mine'");
  gradients = attune_gradients_init();
  gradients.save_count = 1;
  CHECK(compileError(gradients) == "error: attune_gradients.save is NULL");
  gradients.save_count = 0, gradients.recompute_count = 1;
  CHECK(compileError(gradients) == "error: attune_gradients.recompute is NULL");
  gradients.size += 8;
  CHECK(compileError(gradients).find("attune_gradients.size is ") != std::string::npos);

  const KernelHandle plain = kernelOf(variant.get(), int(dim));
  CHECK(textOf(attune_kernel_backward(plain.get(), &kernel)) ==
        "error: kernel 'mine' has no backward pass; set attune_options.gradients where it is compiled");
  CHECK(textOf(attune_kernel_backward(nullptr, &kernel)) == "error: kernel is NULL");
  CHECK(textOf(attune_kernel_backward(plain.get(), nullptr)) == "error: where the kernel goes is NULL");
  CHECK(kernel == nullptr);
  CHECK(attune_operand_count(plain.get()) == 0);
  CHECK(attune_operand_count(nullptr) == 0);
}

TEST_CASE("errors of a backward launch in C, to the letter") {
  const char *const tensors[] = {"slopes"};
  attune_gradients gradients = attune_gradients_init();
  gradients.tensors = tensors;
  gradients.tensor_count = 1;
  Passes passes(gradients);
  const attune_kernel *backward = passes.backward.get();
  std::vector<attune_named_tensor> operands = passes.operandsOf(backward);
  auto errorOf = [&](const std::vector<attune_named_tensor> &given) {
    attune_launch_args args = passes.args();
    args.operands = given.data();
    args.operand_count = given.size();
    return textOf(attune_check(backward, &args));
  };
  auto numberOf = [&](std::string_view name) {
    const auto found =
        std::find_if(operands.begin(), operands.end(), [&](const auto &each) { return name == each.name; });
    return size_t(found - operands.begin());
  };
  std::vector<attune_named_tensor> changed = operands;
  changed.erase(changed.begin() + ptrdiff_t(numberOf("dk")));
  CHECK(errorOf(changed) == "error: operand 'dk' is missing; pass it in .operands");
  changed = operands;
  changed.push_back({"dK", operands[numberOf("dk")].tensor});
  CHECK(errorOf(changed).starts_with("error: the kernel has no operand 'dK'; it has '"));
  changed = operands;
  changed[numberOf("dq")].tensor.shape[2] = 39;
  CHECK(errorOf(changed) ==
        "error: dq has shape [1, 2, 39, 16], required is [1, 2, 40, 16]; allocate it as [B, H, Sq, D]");
  changed = operands;
  changed[numberOf("grads.slopes")].tensor.shape[0] = 3;
  CHECK(errorOf(changed) ==
        "error: grads.slopes has shape [3], captured tensor 'slopes' has [2]; allocate it in the tensor's shape");
  changed = operands;
  changed[0].name = nullptr;
  CHECK(errorOf(changed) == "error: the name of operand 0 is NULL");
  changed = operands;
  changed[numberOf("dv")].tensor.dtype = attune_dtype(0);
  CHECK(errorOf(changed) == "error: the dtype of operand 'dv' is 0, but must be one of attune_dtype, 1 to 6");
  CHECK(errorOf(operands).starts_with("error: the launch needs a workspace of "));

  attune_launch_args args = passes.args();
  args.operand_count = 1;
  CHECK(textOf(attune_check(backward, &args)) == "error: operands is NULL");
  args.operand_count = 0;
  attune_named_tensor operand = {};
  CHECK(textOf(attune_operand(nullptr, 0, &args, &operand)) == "error: kernel is NULL");
  CHECK(textOf(attune_operand(backward, 0, &args, nullptr)) == "error: where the operand goes is NULL");
  CHECK(textOf(attune_operand(backward, 5, &args, &operand)) ==
        "error: operand 5 is asked for, but kernel 'learned' takes 5 by name, counted from 0");
  args.tensor_count = 0;
  CHECK(textOf(attune_operand(backward, numberOf("grads.slopes"), &args, &operand)) ==
        "error: grads.slopes has the shape of captured tensor 'slopes', which is missing; pass it in .tensors");
  args.k.rank = 3;
  CHECK(textOf(attune_operand(backward, numberOf("dk"), &args, &operand)) == "");
  args.v.rank = 3;
  CHECK(textOf(attune_operand(backward, numberOf("dk"), &args, &operand)) ==
        "error: dk has shape [B, Hkv, Sk, D], and no tensor of the arguments has Hkv; pass q, k and v");
}

TEST_CASE("a program of an older header has neither gradients nor operands") {
  const VariantHandle variant = variantOf(textVariant("old", nullptr, nullptr));
  attune_options options = optionsOf(int(dim));
  options.size = offsetof(attune_options, gradients);
  options.gradients = reinterpret_cast<const attune_gradients *>(1); // lies behind, and is never read
  options.backward = 1;
  attune_kernel *kernel = nullptr;
  require(attune_compile(variant.get(), &options, "cpu", &kernel));
  const KernelHandle owner(kernel);
  Arrays arrays;
  attune_launch_args args = arrays.args();
  args.size = offsetof(attune_launch_args, operands);
  args.operands = reinterpret_cast<const attune_named_tensor *>(1);
  args.operand_count = 7;
  require(attune_launch(kernel, nullptr, &args));
  CHECK(std::isfinite(arrays.o.back()));
}

TEST_CASE("a kernel that was prepared for sizes keeps its backward pass") {
  const VariantHandle variant = variantOf(textVariant("kept", nullptr, "q >= k"));
  char folder[] = "/tmp/attune-c-XXXXXX";
  REQUIRE(mkdtemp(folder));
  const attune_gradients gradients = attune_gradients_init();
  attune_options options = withGradients(gradients);
  options.no_cache = 0;
  options.cache_dir = folder;
  // The forward pass is in the cache, from a compilation without gradients.
  attune_options plain = options;
  plain.gradients = nullptr;
  attune_kernel *kernel = nullptr, *prepared = nullptr, *backward = nullptr;
  require(attune_compile(variant.get(), &plain, "cpu", &kernel));
  const KernelHandle without(kernel);
  require(attune_compile(variant.get(), &options, "cpu", &kernel));
  const KernelHandle with(kernel);
  const attune_sizes sizes = {8, 2, 1, 16, 16};
  require(attune_kernel_prepare(with.get(), &sizes, 1, &prepared));
  const KernelHandle owner(prepared);
  require(attune_kernel_backward(prepared, &backward));
  attune_kernel_free(backward);
  require(attune_kernel_prepare(without.get(), &sizes, 1, &prepared));
  const KernelHandle other(prepared);
  CHECK(textOf(attune_kernel_backward(prepared, &backward)).starts_with("error: kernel 'kept' has no backward pass"));
}
