//===- CApi.cpp - The C interface attune/c.h on top of the C++ interface -----===//

#include "attune/c.h"

#include "attune/attune.h"
#include "runtime/Launch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <new>

using namespace attune;

struct attune_error {
  std::string text, message;
};

struct attune_variant {
  Variant variant;
};

struct attune_kernel {
  Kernel kernel;
};

namespace {

/// A static error for the case that an error cannot be allocated. Callers free it like any other error.
attune_error *outOfMemory() {
  static attune_error error{"error: memory ran out", "memory ran out"};
  return &error;
}

/// Calls `body` and returns its error, or null. Exceptions become errors, as none may leave the C interface.
template <typename Body> attune_error *guarded(Body &&body) noexcept {
  try {
    const Expected<void> done = body();
    return done ? nullptr : new attune_error{done.error().text(), done.error().message};
  } catch (const std::bad_alloc &) {
    return outOfMemory();
  } catch (const std::exception &unforeseen) {
    return new attune_error{fmt::format("error: {}", unforeseen.what()), unforeseen.what()};
  }
}

Error missing(std::string_view what) { return {fmt::format("{} is NULL", what)}; }

/// A copy of the caller's struct. If the caller was compiled with an older header, members that its struct lacks have
/// the values of `init`.
template <typename Struct> Expected<Struct> current(const Struct *given, Struct init, std::string_view name) {
  if (!given)
    return missing(name);
  if (given->size > sizeof(Struct) || given->size < sizeof given->size)
    return Error{fmt::format("{}.size is {}, but must be {} or, of an older header, less; start from {}_init()", name,
                             given->size, sizeof(Struct), name)};
  std::memcpy(&init, given, given->size);
  return init;
}

Expected<DType> dtypeOf(attune_dtype dtype, std::string_view what) {
  if (dtype < ATTUNE_F32 || dtype > ATTUNE_BOOL)
    return Error{fmt::format("the dtype of {} is {}, but must be one of attune_dtype, 1 to {}", what, int(dtype),
                             int(ATTUNE_BOOL))};
  static constexpr DType types[] = {f32, f16, bf16, i32, i64, boolean};
  return types[dtype - ATTUNE_F32];
}

/// Checks that lists with a nonzero count are not null.
template <typename Struct> Expected<void> checkLists(const Struct &given) {
  if (given.tensor_count && !given.tensors)
    return missing("tensors");
  if (given.scalar_count && !given.scalars)
    return missing("scalars");
  return {};
}

std::string textOr(const char *text) { return text ? text : ""; }

Expected<void> giveText(const std::string &text, char **to) {
  if (!to)
    return missing("where the text goes");
  auto *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    return Error{"memory ran out"};
  std::copy(text.begin(), text.end(), copy);
  copy[text.size()] = 0;
  *to = copy;
  return {};
}

Expected<void> giveVariant(Expected<Variant> variant, attune_variant **to) {
  if (!variant)
    return variant.error();
  if (!to)
    return missing("where the variant goes");
  *to = new attune_variant{std::move(*variant)};
  return {};
}

Expected<TextVariant> textOf(const attune_text_variant &given) {
  TextVariant text;
  text.score = textOr(given.score);
  text.mask = textOr(given.mask);
  if (Expected<void> there = checkLists(given); !there)
    return there.error();
  for (size_t i = 0; i < given.tensor_count; ++i) {
    Expected<DType> dtype = dtypeOf(given.tensors[i].dtype, fmt::format("tensor '{}'", textOr(given.tensors[i].name)));
    if (!dtype)
      return dtype.error();
    if (const int rank = given.tensors[i].rank; rank < 0) // in TextVariant a rank of -1 means an inferred rank
      return Error{fmt::format("tensor '{}' has rank {}, but must have rank 0 to {}", textOr(given.tensors[i].name),
                               rank, Node::maxRank)};
    text.tensors.push_back({.name = textOr(given.tensors[i].name), .dtype = *dtype, .rank = given.tensors[i].rank});
  }
  for (size_t i = 0; i < given.scalar_count; ++i) {
    Expected<DType> dtype = dtypeOf(given.scalars[i].dtype, fmt::format("scalar '{}'", textOr(given.scalars[i].name)));
    if (!dtype)
      return dtype.error();
    text.scalars.push_back({.name = textOr(given.scalars[i].name), .dtype = *dtype});
  }
  if (given.scale)
    text.scale = *given.scale;
  if (given.dropout)
    text.dropout = *given.dropout;
  text.precise = given.precise;
  text.qOffset = given.q_offset;
  if (given.blocks)
    text.blocks = TextVariant::Blocks{given.blocks, given.block_rows, given.block_columns};
  text.keyLengths = textOr(given.key_lengths);
  text.queryLengths = textOr(given.query_lengths);
  if (given.first_keys && !given.first_queries)
    return Error{"first_keys is set, but first_queries is NULL; set first_queries, too"};
  if (given.first_keys && !*given.first_keys)
    return Error{"first_keys is empty; give the name of a tensor, or NULL where k and v are of a batch"};
  if (given.first_queries)
    text.sequences = {textOr(given.first_queries), textOr(given.first_keys)};
  if (given.key_pages)
    text.pages = TextVariant::Pages{given.key_pages, given.page_size};
  if (given.normaliser || given.sink) {
    Expected<Normaliser> normaliser =
        normalisers::named(given.normaliser ? given.normaliser : "softmax", textOr(given.sink));
    if (!normaliser)
      return normaliser.error();
    text.normaliser = *normaliser;
  }
  return text;
}

ProblemSizes sizesOf(const attune_sizes &given) {
  return {given.batch, given.heads, given.heads_kv, given.queries, given.keys};
}

Expected<std::vector<ProblemSizes>> sizesOf(const attune_sizes *given, size_t count) {
  if (count && !given)
    return missing("shapes");
  std::vector<ProblemSizes> sizes;
  for (size_t i = 0; i < count; ++i)
    sizes.push_back(sizesOf(given[i]));
  return sizes;
}

Expected<std::vector<std::string>> namesOf(const char *const *given, size_t count, std::string_view list) {
  if (count && !given)
    return missing(list);
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    if (!given[i])
      return missing(fmt::format("{}[{}]", list, i));
    names.emplace_back(given[i]);
  }
  return names;
}

Expected<Gradients> gradientsOf(const attune_gradients *given) {
  Expected<attune_gradients> gradients = current(given, attune_gradients_init(), "attune_gradients");
  if (!gradients)
    return gradients.error();
  Gradients result;
  result.lse = gradients->lse;
  result.deterministic = gradients->deterministic;
  result.saving.memoryBudget = gradients->memory_budget;
  const std::tuple<std::vector<std::string> &, const char *const *, size_t, const char *> lists[] = {
      {result.tensors, gradients->tensors, gradients->tensor_count, "attune_gradients.tensors"},
      {result.saving.save, gradients->save, gradients->save_count, "attune_gradients.save"},
      {result.saving.recompute, gradients->recompute, gradients->recompute_count, "attune_gradients.recompute"}};
  for (const auto &[to, from, count, list] : lists) {
    Expected<std::vector<std::string>> names = namesOf(from, count, list);
    if (!names)
      return names.error();
    to = std::move(*names);
  }
  if (gradients->sizes)
    result.saving.sizes = sizesOf(*gradients->sizes);
  return result;
}

Expected<CompileOptions> optionsOf(const attune_options *given) {
  Expected<attune_options> options = current(given, attune_options_init(), "attune_options");
  if (!options)
    return options.error();
  Expected<DType> dtype = dtypeOf(options->dtype, "Q, K, V and O");
  if (!dtype)
    return dtype.error();
  auto number = [](int value) { return value ? std::optional(value) : std::nullopt; };
  struct Flag {
    const char *name;
    int value;
    std::optional<bool> CompileOptions::*field;
  };
  const Flag flags[] = {{"q_registers", options->q_registers, &CompileOptions::qRegisters},
                        {"longest_first", options->longest_first, &CompileOptions::longestFirst},
                        {"persistent", options->persistent, &CompileOptions::persistent},
                        {"ping_pong", options->ping_pong, &CompileOptions::pingPong},
                        {"overlap", options->overlap, &CompileOptions::overlap},
                        {"stage_biases", options->stage_biases, &CompileOptions::stageBiases},
                        {"pack_gqa", options->pack_gqa, &CompileOptions::packGqa},
                        {"split_keys", options->split_keys, &CompileOptions::splitKeys}};
  CompileOptions result;
  for (const auto &[name, value, field] : flags) {
    if (value < -1 || value > 1)
      return Error{
          fmt::format("attune_options.{} is {}, but must be 0, 1 or, for the cost model's choice, -1", name, value)};
    if (value >= 0)
      result.*field = value != 0;
  }
  result.dtype = *dtype;
  result.headDim = options->head_dim;
  result.headDimV = options->head_dim_v;
  result.sramBudget = options->sram_budget;
  result.tileQ = number(options->tile_q);
  result.tileK = number(options->tile_k);
  result.warps = number(options->warps);
  result.stages = number(options->stages);
  result.dvWarps = number(options->dv_warps);
  result.blocksPerSm = number(options->blocks_per_sm);
  result.queryStages = number(options->query_stages);
  static constexpr Tuning tunings[] = {Tuning::Cached, Tuning::Off, Tuning::Measure};
  if (size_t(options->tuning) >= std::size(tunings))
    return Error{fmt::format("attune_options.tuning is {}, but must be one of attune_tuning, 0 to {}",
                             int(options->tuning), std::size(tunings) - 1)};
  result.tuning = tunings[options->tuning];
  Expected<std::vector<ProblemSizes>> shapes = sizesOf(options->shapes, options->shape_count);
  if (!shapes)
    return shapes.error();
  result.shapes = std::move(*shapes);
  if (options->gradients) {
    Expected<Gradients> gradients = gradientsOf(options->gradients);
    if (!gradients)
      return gradients.error();
    result.gradients = std::move(*gradients);
  }
  result.backward = options->backward;
  result.cacheDir = textOr(options->cache_dir);
  result.useCache = !options->no_cache;
  return result;
}

/// A compilation request: the source, the options and the target.
struct Job {
  const Variant &variant;
  CompileOptions options;
  Target target;
};

Expected<Job> jobOf(const attune_variant *variant, const attune_options *given, const char *target) {
  if (!variant)
    return missing("variant");
  Expected<CompileOptions> options = optionsOf(given);
  if (!options)
    return options.error();
  Expected<Target> parsed = target ? Target::parse(target) : Target::detect();
  if (!parsed)
    return parsed.error();
  return Job{variant->variant, *options, *parsed};
}

Expected<Tensor> tensorOf(const attune_tensor &given, std::string_view name) {
  Expected<DType> dtype = dtypeOf(given.dtype, name);
  if (!dtype)
    return dtype.error();
  if (given.rank < 0 || given.rank > ATTUNE_MAX_RANK)
    return Error{
        fmt::format("{} has rank {}, but at most {} dimensions are possible", name, given.rank, ATTUNE_MAX_RANK)};
  if (given.device < ATTUNE_CPU)
    return Error{fmt::format("{} is on device {}, but must be on a CUDA device, from 0 on, or on ATTUNE_CPU", name,
                             given.device)};
  const size_t rank = size_t(given.rank);
  return Tensor::strided(given.data, *dtype, std::span(given.shape, rank), std::span(given.strides, rank),
                         given.device == ATTUNE_CPU ? Device::cpu() : Device::cuda(given.device));
}

Expected<ScalarValue> scalarOf(const attune_named_scalar &given) {
  Expected<DType> dtype = dtypeOf(given.dtype, fmt::format("scalar '{}'", given.name));
  if (!dtype)
    return dtype.error();
  switch (*dtype) {
  case DType::F32:
    return ScalarValue(given.value.f32);
  case DType::I32:
    return ScalarValue(given.value.i32);
  case DType::I64:
    return ScalarValue(given.value.i64);
  case DType::Bool:
    return ScalarValue(given.value.boolean != 0);
  default:
    return Error{fmt::format("scalar '{}' is {}, but must be f32, i32, i64 or bool", given.name, name(*dtype))};
  }
}

/// Adds named tensors to the list `to`. `what` is the noun for a tensor in errors.
template <typename List>
Expected<void> addNamed(const attune_named_tensor *given, size_t count, std::string_view what, List &to) {
  for (size_t i = 0; i < count; ++i) {
    if (!given[i].name)
      return missing(fmt::format("the name of {} {}", what, i));
    Expected<Tensor> tensor = tensorOf(given[i].tensor, fmt::format("{} '{}'", what, given[i].name));
    if (!tensor)
      return tensor.error();
    to.push_back({given[i].name, *tensor});
  }
  return {};
}

bool hasOperand(const KernelSignature &signature, std::string_view name) {
  return std::ranges::find(signature.operands, name, &OperandParam::name) != signature.operands.end();
}

/// The C++ form of the launch arguments for a kernel with this signature.
Expected<LaunchArgs> argumentsOf(const attune_launch_args *given, const KernelSignature &signature) {
  Expected<attune_launch_args> copy = current(given, attune_launch_args_init(), "attune_launch_args");
  if (!copy)
    return copy.error();
  LaunchArgs args;
  const std::tuple<const attune_tensor &, Tensor &, const char *> operands[] = {
      {copy->q, args.q, "q"}, {copy->k, args.k, "k"}, {copy->v, args.v, "v"}, {copy->o, args.o, "o"}};
  for (const auto &[from, to, what] : operands) {
    if (!hasOperand(signature, what)) // for example, a backward pass without LSE has no operand O
      continue;
    Expected<Tensor> tensor = tensorOf(from, what);
    if (!tensor)
      return tensor.error();
    to = *tensor;
  }
  if (copy->lse) {
    Expected<Tensor> lse = tensorOf(*copy->lse, "lse");
    if (!lse)
      return lse.error();
    args.lse = *lse;
  }
  if (Expected<void> there = checkLists(*copy); !there)
    return there.error();
  if (copy->operand_count && !copy->operands)
    return missing("operands");
  if (Expected<void> good = addNamed(copy->tensors, copy->tensor_count, "captured tensor", args.tensors); !good)
    return good.error();
  if (Expected<void> good = addNamed(copy->operands, copy->operand_count, "operand", args.operands); !good)
    return good.error();
  for (size_t i = 0; i < copy->scalar_count; ++i) {
    const attune_named_scalar &named = copy->scalars[i];
    if (!named.name)
      return missing(fmt::format("the name of scalar {}", i));
    Expected<ScalarValue> value = scalarOf(named);
    if (!value)
      return value.error();
    args.scalars.push_back({named.name, *value});
  }
  if (copy->dropout)
    args.dropout = *copy->dropout;
  args.seed = copy->seed;
  args.offset = copy->offset;
  args.seedPointer = copy->seed_pointer;
  args.offsetPointer = copy->offset_pointer;
  if (copy->q_offset)
    args.qOffset = copy->q_offset;
  args.workspace = copy->workspace;
  args.workspaceBytes = copy->workspace_bytes;
  args.keepTables = copy->keep_tables != 0;
  return args;
}

/// Calls `use` with the kernel and the C++ form of the arguments.
template <typename Use>
attune_error *withArguments(const attune_kernel *kernel, const attune_launch_args *args, Use &&use) noexcept {
  return guarded([&]() -> Expected<void> {
    if (!kernel)
      return missing("kernel");
    Expected<LaunchArgs> arguments = argumentsOf(args, kernel->kernel.image().signature);
    return arguments ? use(kernel->kernel, *arguments) : arguments.error();
  });
}

/// The operands that a caller binds by name in LaunchArgs::operands: all except q, k, v, o, lse and workspace.
std::vector<const OperandParam *> namedOperands(const KernelSignature &signature) {
  static constexpr std::string_view members[] = {"q", "k", "v", "o", "lse"};
  std::vector<const OperandParam *> named;
  for (const OperandParam &operand : signature.operands)
    if (operand.role != OperandRole::Workspace && std::ranges::find(members, operand.name) == std::end(members))
      named.push_back(&operand);
  return named;
}

attune_tensor viewOf(const Tensor &tensor) {
  attune_tensor view = {};
  view.data = tensor.data;
  view.dtype = attune_dtype(ATTUNE_F32 + int(tensor.dtype));
  view.rank = tensor.rank;
  view.device = tensor.device == Device::cpu() ? ATTUNE_CPU : tensor.device.ordinal;
  std::copy_n(tensor.shape, tensor.rank, view.shape);
  std::copy_n(tensor.strides, tensor.rank, view.strides);
  return view;
}

} // namespace

extern "C" {

const char *attune_version() {
  static const std::string version(versionText());
  return version.c_str();
}

const char *attune_error_text(const attune_error *error) { return error ? error->text.c_str() : ""; }
const char *attune_error_message(const attune_error *error) { return error ? error->message.c_str() : ""; }
void attune_error_free(attune_error *error) {
  if (error != outOfMemory())
    delete error;
}
void attune_text_free(char *text) { std::free(text); }

attune_error *attune_variant_from_text(const attune_text_variant *text, attune_variant **variant) {
  return guarded([&]() -> Expected<void> {
    Expected<attune_text_variant> given = current(text, attune_text_variant_init(), "attune_text_variant");
    if (!given)
      return given.error();
    Expected<TextVariant> source = textOf(*given);
    return source ? giveVariant(Variant::parse(textOr(given->name), *source), variant) : source.error();
  });
}

attune_error *attune_variant_from_json(const char *json, attune_variant **variant) {
  return guarded(
      [&]() -> Expected<void> { return json ? giveVariant(Variant::fromJson(json), variant) : missing("json"); });
}

attune_error *attune_variant_json(const attune_variant *variant, char **json) {
  return guarded(
      [&]() -> Expected<void> { return variant ? giveText(variant->variant.toJson(), json) : missing("variant"); });
}

void attune_variant_free(attune_variant *variant) { delete variant; }

attune_error *attune_compile(const attune_variant *variant, const attune_options *options, const char *target,
                             attune_kernel **kernel) {
  return guarded([&]() -> Expected<void> {
    if (!kernel)
      return missing("where the kernel goes");
    Expected<Job> job = jobOf(variant, options, target);
    if (!job)
      return job.error();
    Expected<Kernel> compiled = compile(job->variant, job->options, job->target);
    if (!compiled)
      return compiled.error();
    *kernel = new attune_kernel{std::move(*compiled)};
    return {};
  });
}

attune_error *attune_emit(const attune_variant *variant, const attune_options *options, const char *target,
                          const char *stage, char **text, size_t *bytes) {
  return guarded([&]() -> Expected<void> {
    Expected<Job> job = jobOf(variant, options, target);
    if (!job)
      return job.error();
    std::optional<Stage> asked = parseStage(textOr(stage));
    if (!asked)
      return Error{fmt::format("stage '{}' is none of dsl, attn, tile, sched, cuda, ptx and cubin", textOr(stage))};
    Expected<std::string> emitted = emit(job->variant, job->options, job->target, *asked);
    if (!emitted)
      return emitted.error();
    Expected<void> given = giveText(*emitted, text);
    if (given && bytes)
      *bytes = emitted->size();
    return given;
  });
}

attune_error *attune_explain(const attune_variant *variant, const attune_options *options, const char *target,
                             char **json) {
  return guarded([&]() -> Expected<void> {
    Expected<Job> job = jobOf(variant, options, target);
    if (!job)
      return job.error();
    Expected<std::string> explained = explain(job->variant, job->options, job->target);
    return explained ? giveText(*explained, json) : explained.error();
  });
}

void attune_kernel_free(attune_kernel *kernel) { delete kernel; }

attune_error *attune_kernel_json(const attune_kernel *kernel, char **json) {
  return guarded([&]() -> Expected<void> {
    return kernel ? giveText(kernel->kernel.image().metadata(), json) : missing("kernel");
  });
}

attune_error *attune_kernel_prepare(const attune_kernel *kernel, const attune_sizes *shapes, size_t shape_count,
                                    attune_kernel **prepared) {
  return guarded([&]() -> Expected<void> {
    if (!kernel)
      return missing("kernel");
    if (!prepared)
      return missing("where the kernel goes");
    Expected<std::vector<ProblemSizes>> sizes = sizesOf(shapes, shape_count);
    if (!sizes)
      return sizes.error();
    Expected<Kernel> made = kernel->kernel.prepare(*sizes);
    if (!made)
      return made.error();
    *prepared = new attune_kernel{std::move(*made)};
    return {};
  });
}

attune_error *attune_kernel_backward(const attune_kernel *kernel, attune_kernel **backward) {
  return guarded([&]() -> Expected<void> {
    if (!kernel)
      return missing("kernel");
    if (!backward)
      return missing("where the kernel goes");
    Kernel pass = kernel->kernel.backward();
    if (!pass.valid())
      return Error{fmt::format("kernel '{}' has no backward pass; set attune_options.gradients where it is compiled",
                               kernel->kernel.image().name)};
    *backward = new attune_kernel{std::move(pass)};
    return {};
  });
}

attune_error *attune_tune(const attune_variant *variant, const attune_options *options, const char *target,
                          const attune_sizes *shapes, size_t shape_count, double seconds, char **json) {
  return guarded([&]() -> Expected<void> {
    Expected<Job> job = jobOf(variant, options, target);
    if (!job)
      return job.error();
    Expected<std::vector<ProblemSizes>> sizes = sizesOf(shapes, shape_count);
    if (!sizes)
      return sizes.error();
    if (!(seconds >= 0))
      return Error{fmt::format("seconds is {}, but must not be negative; 0 takes the default", seconds)};
    std::vector<TuneCase> cases;
    for (const ProblemSizes &each : *sizes)
      cases.push_back({.sizes = each});
    TuneOptions tuning;
    if (seconds > 0)
      tuning.seconds = seconds;
    Expected<std::vector<TuneResult>> results = tune(job->variant, job->options, job->target, cases, tuning);
    if (!results)
      return results.error();
    return json ? giveText(tuneJson(*results), json) : Expected<void>();
  });
}

int attune_kernel_cache_hit(const attune_kernel *kernel) { return kernel && kernel->kernel.cacheHit(); }

attune_tensor attune_contiguous(const void *data, attune_dtype dtype, int device, int rank, const int64_t *shape) {
  attune_tensor tensor = {};
  tensor.dtype = dtype;
  tensor.device = device;
  if (rank < 0 || rank > ATTUNE_MAX_RANK || (rank && !shape))
    return tensor;
  tensor.data = const_cast<void *>(data);
  tensor.rank = rank;
  uint64_t stride = 1; // may wrap for a shape larger than any memory, which a launch rejects
  for (int i = rank - 1; i >= 0; stride *= uint64_t(shape[i--])) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = int64_t(stride);
  }
  return tensor;
}

attune_error *attune_launch(const attune_kernel *kernel, void *stream, const attune_launch_args *args) {
  return withArguments(kernel, args,
                       [&](const Kernel &k, const LaunchArgs &arguments) { return k.launch(stream, arguments); });
}

attune_error *attune_check(const attune_kernel *kernel, const attune_launch_args *args) {
  return withArguments(kernel, args, [&](const Kernel &k, const LaunchArgs &arguments) { return k.check(arguments); });
}

attune_error *attune_workspace_bytes(const attune_kernel *kernel, const attune_launch_args *args, size_t *bytes) {
  return withArguments(kernel, args, [&](const Kernel &k, const LaunchArgs &arguments) -> Expected<void> {
    if (!bytes)
      return missing("where the bytes go");
    *bytes = k.workspaceBytes(arguments);
    return {};
  });
}

size_t attune_operand_count(const attune_kernel *kernel) {
  return kernel ? namedOperands(kernel->kernel.image().signature).size() : 0;
}

attune_error *attune_operand(const attune_kernel *kernel, size_t n, const attune_launch_args *args,
                             attune_named_tensor *operand) {
  return withArguments(kernel, args, [&](const Kernel &k, const LaunchArgs &arguments) -> Expected<void> {
    if (!operand)
      return missing("where the operand goes");
    const KernelSignature &signature = k.image().signature;
    const std::vector<const OperandParam *> named = namedOperands(signature);
    if (n >= named.size())
      return Error{fmt::format("operand {} is asked for, but kernel '{}' takes {} by name, counted from 0", n,
                               k.image().name, named.size())};
    Expected<Tensor> tensor = denseOperand(k.image(), *named[n], k.device(), arguments);
    if (!tensor)
      return tensor.error();
    *operand = {named[n]->name.c_str(), viewOf(*tensor)};
    return {};
  });
}

attune_error *attune_load(const attune_kernel *kernel) {
  return guarded([&]() -> Expected<void> { return kernel ? kernel->kernel.load() : missing("kernel"); });
}

} // extern "C"
