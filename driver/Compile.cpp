//===- Compile.cpp - From a source to an image, a kernel or a text ----------===//
//
// Cache keys, caches and NVRTC. A cache hit is served here, before any MLIR object (Lowering.h) is created.
//
//===----------------------------------------------------------------------===//

#include "attune/Compile.h"

#include "arch/ArchInfo.h"
#include "driver/Alternatives.h"
#include "driver/BuildId.h"
#include "driver/Compiling.h"
#include "driver/Disassemble.h"
#include "driver/EditedCuda.h"
#include "driver/ExplainBackward.h"
#include "driver/Lowering.h"
#include "driver/PlanJson.h"
#include "passes/analysis/cost/PlanSpace.h"
#include "runtime/Cache.h"
#include "runtime/Cubin.h"
#include "runtime/Log.h"
#include "runtime/Nvrtc.h"
#include "runtime/ThreadPool.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::driver;
using nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

static constexpr std::string_view stageNames[] = {"dsl",  "attn", "tile",  "sched", "llvm",
                                                  "cuda", "ptx",  "cubin", "sass",  "launch"};

std::string_view attune::name(Stage stage) { return stageNames[size_t(stage)]; }

std::optional<Stage> attune::parseStage(std::string_view text) {
  for (size_t i = 0; i < std::size(stageNames); ++i)
    if (stageNames[i] == text)
      return Stage(i);
  return std::nullopt;
}

static constexpr std::string_view tuningNames[] = {"off", "cached", "measure"};

std::string_view attune::name(Tuning tuning) { return tuningNames[size_t(tuning)]; }

std::optional<Tuning> attune::parseTuning(std::string_view text) {
  for (size_t i = 0; i < std::size(tuningNames); ++i)
    if (tuningNames[i] == text)
      return Tuning(i);
  return std::nullopt;
}

std::string_view attune::versionText() { return "0.2.0"; }
std::string_view attune::buildId() { return sourceHash; }

Expected<IrText> IrText::read(const std::string &path) {
  if (std::error_code code; std::filesystem::is_directory(path, code))
    return Error{fmt::format("{} is a directory; name a file", path)};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string content;
  constexpr size_t chunk = 1 << 20;
  while (file && content.size() <= maxBytes) {
    const size_t before = content.size();
    content.resize(before + chunk);
    file.read(content.data() + before, chunk);
    content.resize(before + size_t(file.gcount()));
  }
  if (!file.is_open() || file.bad())
    return Error{fmt::format("{} cannot be read: {}", path, std::strerror(errno ? errno : EIO))};
  if (content.size() > maxBytes)
    return Error{
        fmt::format("{} has more than {} bytes, the most that is read; name a file of attune's", path, maxBytes)};
  return IrText{std::move(content), path};
}

//===----------------------------------------------------------------------===//
// Checks and keys
//===----------------------------------------------------------------------===//

static double millisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// Checks that every requested gradient is of a captured float tensor of the variant.
static Expected<void> checkGradients(const Variant &variant, const CompileOptions &options) {
  if (options.backward && !options.gradients)
    return Error{"the backward pass is asked for, but no gradients are; set CompileOptions::gradients"};
  if (!options.gradients)
    return {};
  if (variant.keyPages())
    return Error{
        fmt::format("gradients of variant '{}' are asked for, and keys in pages have no backward pass; gather the "
                    "pages into rows in one piece, with .keyLengths",
                    variant.name())};
  if (variant.queryLengths() && variant.hasQOffset())
    return Error{fmt::format("gradients of variant '{}' are asked for, and query lengths with a query offset have no "
                             "backward pass; leave out .qOffset, or mask the rows after a sequence's end",
                             variant.name())};
  for (const std::string &name : options.gradients->tensors) {
    const auto found = std::ranges::find(variant.tensors(), name, &TensorDecl::name);
    if (found == variant.tensors().end())
      return Error{fmt::format("the gradient of '{}' is asked for, which is no captured tensor of variant '{}'", name,
                               variant.name())};
    if (!isFloat(found->dtype))
      return Error{fmt::format("the gradient of '{}' is asked for, whose elements are {}; only tensors of floats have "
                               "one",
                               name, attune::name(found->dtype))};
  }
  return {};
}

Expected<void> attune::driver::checkRequest(const Source &source, const CompileOptions &options, const Target &target) {
  if (source.variant && source.variant->error())
    return *source.variant->error();
  Expected<const ArchInfo *> arch = archInfo(target.arch);
  if (!arch)
    return arch.error();
  if ((*arch)->isCpu() == target.isCuda())
    return Error{fmt::format("target of kind {} has architecture {}; make targets with Target::cpu() or "
                             "Target::cuda(\"sm_90\")",
                             target.isCuda() ? "cuda" : "cpu", target.arch)};
  if (Expected<unsigned> threads = ThreadPool::threadsToUse(); !target.isCuda() && !threads)
    return threads.error();
  if (options.cuda && !target.isCuda())
    return Error{fmt::format("{} is CUDA, which the cpu target does not run; name a GPU architecture such as sm_90",
                             options.cuda->file)};
  if (source.text && (options.gradients || options.backward))
    return Error{fmt::format("{} holds the pass that it is, and gradients are asked for; compile them from the variant",
                             source.text->file)};
  if (source.text)
    return {};
  if (options.dtype != DType::BF16 && options.dtype != DType::F16 && options.dtype != DType::F32)
    return Error{fmt::format("dtype {} is not one of f16, bf16, f32; convert Q, K and V", name(options.dtype))};
  struct Dim {
    const char *name;
    int value;
  };
  for (Dim dim : {Dim{"head_dim", options.headDim}, Dim{"head_dim_v", options.headDimV ? options.headDimV : 8}}) {
    if (dim.value == 0)
      return Error{fmt::format(
          "head_dim is not set, required is a multiple of 8 up to {}; set CompileOptions::headDim (--head-dim)",
          maxHeadDim)};
    if (dim.value < 0 || dim.value > maxHeadDim)
      return Error{
          fmt::format("{} {} is out of range, required is 8 to {}; split the head", dim.name, dim.value, maxHeadDim)};
    if (dim.value % 8 != 0)
      return Error{fmt::format("{} {} is not a multiple of 8; pad the last dimension to {}", dim.name, dim.value,
                               (dim.value + 7) / 8 * 8)};
  }
  return checkGradients(*source.variant, options);
}

/// The cache key: a text of everything that the compiled code depends on. Precondition: checkRequest.
static Expected<std::string> keyOf(const Source &source, const CompileOptions &options, const Target &target) {
  std::string key;
  key.reserve(2048);
  auto out = std::back_inserter(key);
  fmt::format_to(out, "attune {}\narch {}\n", sourceHash, target.arch);
  if (target.isCuda()) {
    Expected<const Nvrtc *> nvrtc = Nvrtc::get();
    if (!nvrtc)
      return nvrtc.error();
    fmt::format_to(out, "nvrtc {} {}\n", (*nvrtc)->version(), Nvrtc::options());
  } else {
    fmt::format_to(out, "host {}\n", hostKey());
  }
  // The cost model chooses open fields, so the key then includes the model's version.
  bool isOpen = false;
  visitSchedule(
      [&](std::string_view name, auto, const auto &value) {
        if (value)
          fmt::format_to(out, "{} {}\n", spelled(name, '_'), *value);
        isOpen |= !value;
      },
      options);
  if (isOpen)
    fmt::format_to(out, "schedule auto {}\n", costModelVersion);
  fmt::format_to(out, "budget {}\n", options.sramBudget);
  if (options.backward)
    fmt::format_to(out, "backward {} lse {} deterministic {}\n", fmt::join(options.gradients->tensors, " "),
                   options.gradients->lse, options.gradients->deterministic);
  if (options.gradients && options.gradients->saving.any()) {
    const Saving &saving = options.gradients->saving;
    fmt::format_to(out, "saving {} save {} recompute {} sizes {} {} {} {}\n", saving.memoryBudget,
                   fmt::join(saving.save, " "), fmt::join(saving.recompute, " "), saving.sizes.batch,
                   saving.sizes.heads, saving.sizes.queries, saving.sizes.keys);
  }
  if (source.plans)
    fmt::format_to(out, "plans {}\n", planFields(PassPlan(*source.plans)).dump());
  if (source.text)
    fmt::format_to(out, "text\n{}", source.text->text);
  else
    fmt::format_to(out, "dtype {} head_dim {} {}\n{}", name(options.dtype), options.headDim,
                   options.headDimV ? options.headDimV : options.headDim, source.variant->canonical());
  return key;
}

Expected<std::string> attune::cacheKey(const Variant &variant, const CompileOptions &options, const Target &target) {
  Source source{.variant = &variant};
  if (Expected<void> good = checkRequest(source, options, target); !good)
    return good.error();
  return keyOf(source, options, target);
}

/// The kernel cache for options.cacheDir. There is one object for each folder in a process.
static KernelCache &cacheOf(const CompileOptions &options) {
  if (options.cacheDir.empty())
    return KernelCache::process();
  static std::mutex mutex;
  static auto *caches = new std::map<std::string, std::unique_ptr<KernelCache>>; // outlives static objects
  std::lock_guard lock(mutex);
  std::unique_ptr<KernelCache> &cache = (*caches)[options.cacheDir];
  if (!cache)
    cache = std::make_unique<KernelCache>(options.cacheDir);
  return *cache;
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

namespace {
/// An image, and its JSON plan as an object that may get further members.
struct PlannedImage {
  KernelImage image = {};
  ordered_json plan = {};

  /// The image with its whole plan.
  KernelImage finished() && {
    image.planJson = plan.dump();
    return std::move(image);
  }
};
} // namespace

/// A complete compilation, without caches.
static Expected<PlannedImage> buildImage(const Source &source, const CompileOptions &options, const Target &target,
                                         double traceMilliseconds) {
  const Nvrtc *nvrtc = nullptr;
  if (target.isCuda()) {
    Expected<const Nvrtc *> found = Nvrtc::get();
    if (!found)
      return found.error();
    nvrtc = *found;
  }
  Expected<Lowered> lowered = lower(source, options, target, target.isCuda() ? Stage::Cuda : Stage::Cubin, true);
  if (!lowered)
    return lowered.error();

  KernelImage image;
  image.name = lowered->summary.name;
  image.entries = lowered->entries;
  image.arch = target.arch;
  image.signature = lowered->summary.signature;
  image.tileQ = lowered->plan.tileQ;
  image.tileK = lowered->plan.tileK;
  image.times.trace = traceMilliseconds;
  image.times.ir = lowered->irMilliseconds;
  image.times.print = lowered->printMilliseconds;
  if (nvrtc) {
    if (options.cuda)
      if (Expected<void> good = checkEditedCuda(*options.cuda, lowered->source, lowered->entries); !good)
        return good.error();
    if (options.cuda)
      lowered->source = options.cuda->text;
    Expected<Nvrtc::Output> cubin =
        nvrtc->compileCubin(lowered->source, options.cuda ? options.cuda->file : image.name, target.arch);
    if (!cubin)
      return cubin.error();
    image.times.nvrtc = cubin->milliseconds;
    image.binary = std::move(cubin->code);
    image.log = std::move(cubin->log);
    image.nvrtcVersion = nvrtc->version();
    image.cudaSource = std::move(lowered->source);
    image.path = lowered->path;
    for (KernelEntry &entry : image.entries) {
      Expected<CubinKernel> facts = readCubin(image.binary, entry.symbol);
      if (!facts)
        return facts.error();
      entry.registers = facts->registers;
      entry.spillBytes = facts->frameBytes;
    }
    if (options.cuda)
      if (Expected<void> good = checkEditedCubin(*options.cuda, image); !good)
        return good.error();
  } else {
    image.times.nvrtc = lowered->objectMilliseconds;
    logLine(LogLevel::Info, "LLVM compiled {} in {:.1f} ms: {} bytes", image.name, image.times.nvrtc,
            lowered->object.size());
    image.binary = std::move(lowered->object);
    image.path = "cpu";
  }
  ordered_json plan = planJson(*lowered, options, target, &image);
  return PlannedImage{std::move(image), std::move(plan)};
}

/// Whether compilation chooses the fields of a plan that the options leave open.
static bool choosesOpenFields(const Source &source) {
  if (source.variant)
    return !source.plans;
  Expected<IrSummary> start = describe(*source.text);
  return start && start->stage == Stage::Attn && !start->backward &&
         source.text->text.find("attn.plan") == std::string::npos;
}

/// Whether compilation ranks plans of a forward pass for the schedule, within the SRAM budget of `options`.
static bool choosesSchedule(const Source &source, const CompileOptions &options) {
  return !options.backward && !choiceOf(options).any() && choosesOpenFields(source);
}

bool attune::driver::leavesScheduleOpen(const Source &source, const CompileOptions &options) {
  return !options.cuda && options.sramBudget == 0 && !choiceOf(options).any() && choosesOpenFields(source);
}

CompileOptions attune::driver::withPlan(CompileOptions options, const Plan &plan) {
  assignSchedule(options, plan);
  return options;
}

std::pair<Source, CompileOptions> attune::driver::withPlan(Source source, CompileOptions options,
                                                           const PassPlan &plan) {
  if (const Plan *forward = std::get_if<Plan>(&plan))
    assignSchedule(options, *forward);
  else
    source.plans = std::get<BackwardPlans>(plan);
  options.shapes.clear();
  options.printAfterAll = false;
  return {source, std::move(options)};
}

CompileOptions attune::driver::backwardOf(CompileOptions options) {
  assignSchedule(options, PlanChoice());
  options.cuda.reset();
  options.backward = true;
  return options;
}

std::string attune::driver::featuresOf(const KernelImage &image) {
  return ordered_json::parse(image.planJson).value("features", "");
}

/// Precondition: an image from the cache has passed checkImage.
Plan attune::driver::planOf(const KernelImage &image) { return planOfFields(ordered_json::parse(image.planJson)); }

PassPlan attune::driver::passPlanOf(const KernelImage &image) {
  const ordered_json plan = ordered_json::parse(image.planJson);
  return passPlanOfFields(plan.contains("backward") ? plan["backward"] : plan);
}

/// Checks that an image from the cache fits the request. An equal key is not enough, as the file may be corrupt.
static Expected<void> checkImage(const KernelImage &image, const Source &source, const CompileOptions &options,
                                 const Target &target) {
  if (image.arch != target.arch)
    return Error{fmt::format("its kernel is for {}, required is {}", image.arch, target.arch)};
  const int headDimV = options.headDimV ? options.headDimV : options.headDim;
  const KernelSignature &signature = image.signature;
  if (source.variant &&
      (signature.dtype != options.dtype || signature.headDim != options.headDim || signature.headDimV != headDimV))
    return Error{fmt::format("its kernel is for {} of head_dim {} x {}, required is {} of {} x {}",
                             name(signature.dtype), signature.headDim, signature.headDimV, name(options.dtype),
                             options.headDim, headDimV)};
  return checkPlanJson(image.planJson);
}

/// The bytes of spilled registers that have no measurable cost. ptxas spills some words in every large float32 kernel,
/// and plans with spills up to this limit are as fast as plans without spills; with 16-bit inputs two words are as fast
/// (docs/log/registers.md).
static constexpr int harmlessSpillBytes(DType dtype) { return dtype == DType::F32 ? 72 : 8; }

/// Upper limit of the ops of score and mask for compiling several plans to find one without spills. NVRTC takes seconds
/// for a larger kernel, as it unrolls the loop over a thread's elements.
static constexpr size_t mostOpsOfSeveralPlans = 64;

/// Whether the cost model's first plan is used even if its kernel spills.
static bool settlesByModel(const Source &source, const CompileOptions &options, const Target &target) {
  Expected<size_t> ops = opsOfElement(source, options, target);
  return ops && *ops > mostOpsOfSeveralPlans;
}

static std::string harmlessSpills(DType dtype) {
  return fmt::format(
      "up to {} bytes cost a kernel of {} no time that was measured; plans that spill none are no quicker",
      harmlessSpillBytes(dtype), name(dtype));
}

/// Why the first plan is used although its kernel spills; nullopt where further plans are compiled.
static std::optional<std::string> reasonForFirst(const PlannedImage &first, const Source &source,
                                                 const CompileOptions &options, const Target &target) {
  const KernelSignature &signature = first.image.signature;
  const int headDim = std::max(signature.headDim, signature.headDimV);
  if (headDim > spillFreeHeadDim(planOfFields(first.plan).producerWarps > 0))
    return fmt::format("tiles of head dim {} take more registers than a thread has in every plan; this one is the "
                       "quickest by the cost model",
                       headDim);
  if (first.image.main().spillBytes <= harmlessSpillBytes(signature.dtype))
    return harmlessSpills(signature.dtype);
  if (settlesByModel(source, options, target))
    return fmt::format("of a score and mask of more than {} ops the cost model's first plan alone is compiled; fix its "
                       "tiles to try another",
                       mostOpsOfSeveralPlans);
  return std::nullopt;
}

/// Compiles plans of the ranking with more and more free registers until one spills no more than harmlessSpillBytes.
/// `best` becomes the image that spills least, with the list of attempts.
static Expected<void> reduceSpills(PlannedImage &best, const std::vector<RankedPlan> &ranked, const Source &source,
                                   const CompileOptions &options, const Target &target, double traceMilliseconds) {
  constexpr size_t maxAttempts = 4;
  const int harmless = harmlessSpillBytes(best.image.signature.dtype);
  auto free = [](const RankedPlan &plan) { return plan.cost.registerLimit - plan.cost.registers; };
  auto spillsOf = [](const PlannedImage &built) { return built.image.main().spillBytes; };
  auto attemptOf = [&](const PlannedImage &built) {
    return ordered_json{{"text", built.plan.at("text")}, {"spillBytes", spillsOf(built)}};
  };
  ordered_json attempts = {attemptOf(best)};
  int unchanged = 0, tried = free(ranked.front());
  for (const RankedPlan &candidate : ranked) {
    if (attempts.size() == maxAttempts || !candidate.accepted())
      break;
    if (free(candidate) <= tried)
      continue;
    tried = free(candidate);
    logLine(LogLevel::Info, "{} for {} spills {} bytes; compiling {}", best.image.name, target.arch, spillsOf(best),
            candidate.plan.text());
    Expected<PlannedImage> next = buildImage(source, withPlan(options, candidate.plan), target, traceMilliseconds);
    if (!next)
      return next.error();
    attempts.push_back(attemptOf(*next));
    unchanged = spillsOf(*next) == spillsOf(best) ? unchanged + 1 : 0;
    for (auto time : {&CompileTimes::ir, &CompileTimes::print, &CompileTimes::nvrtc})
      next->image.times.*time += best.image.times.*time;
    if (spillsOf(*next) < spillsOf(best))
      best = std::move(*next);
    else
      best.image.times = next->image.times;
    if (unchanged == 2 || spillsOf(best) <= harmless)
      break;
  }
  best.plan["attempts"] = attempts;
  if (spillsOf(best) > 0)
    best.plan["spills"] = spillsOf(best) <= harmless
                              ? harmlessSpills(best.image.signature.dtype)
                              : fmt::format("the least of {} plans that were compiled", attempts.size());
  return {};
}

/// The image of the best-ranked plan whose kernel does not spill. The cost model only estimates registers; the cubin
/// has the actual number. If a plan spills more than harmlessSpillBytes, the next plan of the ranking with more free
/// registers, by the model's estimate, is compiled, up to four plans in all. The search also ends when two further
/// plans in a row have the same local memory: then local memory holds arrays of math functions, which no plan avoids.
/// If settlesByModel, only the first plan is compiled. The image's JSON plan lists the compiled plans, and the reason
/// if the chosen plan spills.
static Expected<PlannedImage> settleImage(const Source &source, const CompileOptions &options, const Target &target,
                                          double traceMilliseconds) {
  Expected<PlannedImage> best = buildImage(source, options, target, traceMilliseconds);
  if (!best || best->image.main().spillBytes == 0 || !choosesSchedule(source, options))
    return best;
  if (std::optional<std::string> reason = reasonForFirst(*best, source, options, target)) {
    best->plan["spills"] = std::move(*reason);
    return best;
  }
  Lowered described;
  Expected<std::vector<RankedPlan>> ranked = rank(source, options, target, {}, described);
  if (!ranked)
    return best;
  if (Expected<void> reduced = reduceSpills(*best, *ranked, source, options, target, traceMilliseconds); !reduced)
    return reduced.error();
  return best;
}

/// settleImage, with the plans of kernels for few queries added to the JSON plan if the schedule is open. If `ahead` is
/// given, the images of these kernels are compiled in parallel and stored there.
static Expected<KernelImage> settleWithFewQueries(const Source &source, const CompileOptions &options,
                                                  const Target &target, double traceMilliseconds,
                                                  PlanImages *ahead = nullptr) {
  std::future<std::vector<FewQueriesPlan>> few;
  if (servesFewQueries(source, options, target))
    few = std::async(std::launch::async, [&] {
      std::vector<FewQueriesPlan> plans = fewQueriesPlans(source, options, target);
      if (ahead)
        *ahead = compilePlans(plans, source, options, target);
      return plans;
    });
  Expected<PlannedImage> settled = settleImage(source, options, target, traceMilliseconds);
  if (few.valid()) {
    const std::vector<FewQueriesPlan> plans = few.get();
    if (settled)
      settled->plan["fewQueries"] = fewQueriesJson(plans);
  }
  if (!settled)
    return settled.error();
  return std::move(*settled).finished();
}

/// A second cache key of an image, with all fields of its plan fixed. "" if no field was chosen, as the request's key
/// is complete then.
static std::string entryKeyOf(const KernelImage &image, const Source &source, const CompileOptions &options,
                              const Target &target) {
  if (options.backward || !choosesOpenFields(source))
    return "";
  Expected<std::string> key = keyOf(source, withPlan(options, planOf(image)), target);
  return key ? std::move(*key) : "";
}

static bool usesCache(const CompileOptions &options) { return options.useCache && !options.printAfterAll; }

/// The image that compile() would choose, if the choice depends on compiled kernels. nullopt if there is no choice, if
/// the cost model alone decides, or if nothing can be compiled without NVRTC; the cost model's first plan is then used.
static std::optional<KernelImage> settledChoice(const Source &source, CompileOptions options, const Target &target) {
  if (!target.isCuda() || !choosesSchedule(source, options) || settlesByModel(source, options, target))
    return std::nullopt;
  options.printAfterAll = false;
  Expected<KernelImage> image = imageOfSource(source, options, target);
  return image ? std::optional(std::move(*image)) : std::nullopt;
}

/// `options` with the schedule that compile() would choose, so that every stage shows the same kernel.
static CompileOptions settledOptions(const Source &source, const CompileOptions &options, const Target &target) {
  std::optional<KernelImage> image = settledChoice(source, options, target);
  return image ? withPlan(options, planOf(*image)) : options;
}

/// The image of edited CUDA text, with the plan of the text from which it was edited.
static Expected<KernelImage> imageOfEdited(const Source &source, const CompileOptions &options, const Target &target) {
  CompileOptions generated = options;
  generated.cuda.reset();
  generated = settledOptions(source, generated, target);
  generated.cuda = options.cuda;
  Expected<PlannedImage> built = buildImage(source, generated, target, 0);
  if (!built)
    return built.error();
  return std::move(*built).finished();
}

/// The kernel of an image, with its module loaded.
static Expected<Kernel> loadImage(KernelImage image, const Target &target) {
  if (!target.isCuda())
    return loadHostImage(std::move(image));
  Expected<Kernel> kernel = loadCudaKernel(std::move(image), target.device);
  if (!kernel)
    return kernel;
  if (Expected<void> loaded = kernel->load(); !loaded)
    return loaded.error();
  return kernel;
}

/// Loads NVRTC or detects the host's features, so that these milliseconds do not count as the variant's compile time.
static void openCompiler(const Target &target) {
  if (target.isCuda())
    (void)bool(Nvrtc::get());
  else
    hostKey();
}

/// The second key of the in-memory cache: the device, and everything besides the cache key on which alternatives
/// depend.
static std::string memoryPlace(const CompileOptions &options, const Target &target, bool alternatives) {
  std::string place = target.isCuda() ? fmt::format("cuda:{}", target.device) : "cpu";
  if (!alternatives)
    return place;
  fmt::format_to(std::back_inserter(place), " {} {}", options.tuning != Tuning::Off, TunedPlans::generation());
  for (const ProblemSizes &sizes : options.shapes)
    fmt::format_to(std::back_inserter(place), " {},{},{},{},{}", sizes.batch, sizes.heads, sizes.headsKv, sizes.queries,
                   sizes.keys);
  return place;
}

/// `kernel`, with a Kernel::prepare that compiles again, by `recompile`, with the additional sizes.
static Kernel preparing(const Kernel &kernel, const Source &source, const CompileOptions &options, const Target &target,
                        CompileFunction recompile) {
  return kernel.withPrepare([variant = source.variant ? std::optional(*source.variant) : std::nullopt,
                             text = source.text ? std::optional(*source.text) : std::nullopt, options, target,
                             recompile](const std::vector<ProblemSizes> &sizes) {
    CompileOptions more = options;
    more.shapes.insert(more.shapes.end(), sizes.begin(), sizes.end());
    return recompile({variant ? &*variant : nullptr, text ? &*text : nullptr}, more, target);
  });
}

/// The kernel of a request. `settle` compiles the image if it is in no cache. With `recompile` the kernel has
/// alternatives, and prepares further ones by this function; `ahead` holds images of alternatives that `settle` has
/// compiled in parallel.
template <typename Settle>
static Expected<Kernel> kernelOf(const Source &source, const CompileOptions &options, const Target &target,
                                 Settle &&settle, CompileFunction recompile = nullptr, PlanImages *ahead = nullptr) {
  auto load = [&](KernelImage image) -> Expected<Kernel> {
    Expected<Kernel> kernel = loadImage(std::move(image), target);
    if (!kernel || !recompile || !leavesScheduleOpen(source, options))
      return kernel;
    return preparing(withAlternatives(*kernel, source, options, target, ahead ? std::move(*ahead) : PlanImages()),
                     source, options, target, recompile);
  };
  if (!usesCache(options)) {
    Expected<KernelImage> image = settle();
    return image ? load(std::move(*image)) : image.error();
  }
  Expected<std::string> key = keyOf(source, options, target);
  if (!key)
    return key.error();
  auto check = [&](const KernelImage &image) { return checkImage(image, source, options, target); };
  auto entryKey = [&](const KernelImage &image) { return entryKeyOf(image, source, options, target); };
  return cacheOf(options).getOrCompile(*key, memoryPlace(options, target, recompile != nullptr), settle, load, check,
                                       entryKey);
}

Expected<Kernel> attune::driver::kernelOfImage(KernelImage image, const Source &source, const CompileOptions &options,
                                               const Target &target) {
  return kernelOf(source, options, target, [&] { return Expected<KernelImage>(std::move(image)); });
}

Expected<Kernel> attune::driver::compileSource(const Source &source, const CompileOptions &options,
                                               const Target &target) {
  return compileSource(source, options, target, compileSource);
}

Expected<Kernel> attune::driver::compileSource(const Source &source, const CompileOptions &options,
                                               const Target &target, CompileFunction recompile) {
  if (Expected<void> good = checkRequest(source, options, target); !good)
    return good.error();
  openCompiler(target);
  auto begin = std::chrono::steady_clock::now();
  Expected<Kernel> kernel = [&]() -> Expected<Kernel> {
    if (options.cuda) {
      Expected<KernelImage> image = imageOfEdited(source, options, target);
      return image ? loadImage(std::move(*image), target) : image.error();
    }
    PlanImages ahead;
    return kernelOf(
        source, options, target,
        [&] { return settleWithFewQueries(source, options, target, millisecondsSince(begin), &ahead); }, recompile,
        &ahead);
  }();
  if (!kernel)
    return kernel;
  if (options.gradients && !options.backward) {
    Expected<Kernel> backward = compileSource(source, backwardOf(options), target, recompile);
    if (!backward)
      return backward;
    kernel = kernel->withBackward(std::move(*backward));
  }
  // The dropout probability is a launch value, so it is stored in the handle and is not a part of the key.
  if (source.variant && source.variant->hasDropout())
    return kernel->withDropout(source.variant->dropoutProbability());
  return kernel;
}

Expected<KernelImage> attune::driver::imageOfSource(const Source &source, const CompileOptions &options,
                                                    const Target &target) {
  if (Expected<void> good = checkRequest(source, options, target); !good)
    return good.error();
  openCompiler(target);
  if (options.cuda)
    return imageOfEdited(source, options, target);
  auto begin = std::chrono::steady_clock::now();
  if (!usesCache(options))
    return settleWithFewQueries(source, options, target, millisecondsSince(begin));
  Expected<std::string> key = keyOf(source, options, target);
  if (!key)
    return key.error();
  KernelCache &cache = cacheOf(options);
  auto check = [&](const KernelImage &image) { return checkImage(image, source, options, target); };
  if (std::optional<KernelImage> image = cache.read(*key, check))
    return std::move(*image);
  Expected<KernelImage> image = settleWithFewQueries(source, options, target, millisecondsSince(begin));
  if (image)
    cache.write(*key, *image, entryKeyOf(*image, source, options, target));
  return image;
}

static Expected<std::string> emitSource(const Source &source, const CompileOptions &options, const Target &target,
                                        Stage stage) {
  if (Expected<void> good = checkRequest(source, options, target); !good)
    return good.error();
  if (stage == Stage::Launch)
    return Error{"stage launch has no text; emit dsl, attn, tile, sched, llvm, cuda, ptx, cubin or sass"};
  if (stage == Stage::Dsl) {
    if (!source.variant)
      return Error{"the input is MLIR text, which has no dsl stage; emit attn or a later stage"};
    return source.variant->toJson();
  }
  if (!target.isCuda() && stage > Stage::Tile && stage != Stage::Llvm)
    return Error{
        fmt::format("target cpu has no stage {}; emit dsl, attn, tile or llvm, or choose a GPU architecture such as "
                    "sm_90",
                    name(stage))};
  if (target.isCuda() && stage == Stage::Llvm)
    return Error{fmt::format("target {} has no stage llvm; emit cuda or ptx, or choose the cpu target", target.arch)};
  if (options.cuda && stage < Stage::Ptx)
    return Error{fmt::format("stage {} is not made from {}, which takes the place of the CUDA; emit ptx, cubin or sass",
                             name(stage), options.cuda->file)};
  std::string disassembler;
  if (stage == Stage::Sass) { // fail before NVRTC takes seconds
    Expected<std::string> found = findDisassembler();
    if (!found)
      return found.error();
    disassembler = std::move(*found);
  }
  CompileOptions generated = options;
  generated.cuda.reset();
  CompileOptions settled = stage > Stage::Attn ? settledOptions(source, generated, target) : generated;
  Expected<Lowered> lowered = lower(source, settled, target, std::min(stage, Stage::Cuda), false);
  if (!lowered)
    return lowered.error();
  if (stage < Stage::Cuda)
    return std::move(lowered->text);
  if (stage == Stage::Cuda)
    return std::move(lowered->source);
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc)
    return nvrtc.error();
  if (options.cuda) {
    if (Expected<void> good = checkEditedCuda(*options.cuda, lowered->source, lowered->entries); !good)
      return good.error();
    lowered->source = options.cuda->text;
  }
  const std::string &kernelName = options.cuda ? options.cuda->file : lowered->summary.name;
  Expected<Nvrtc::Output> output = stage == Stage::Ptx
                                       ? (*nvrtc)->compilePtx(lowered->source, kernelName, target.arch)
                                       : (*nvrtc)->compileCubin(lowered->source, kernelName, target.arch);
  if (!output)
    return output.error();
  if (stage == Stage::Sass)
    return disassemble(disassembler, output->code);
  return std::string(output->code.begin(), output->code.end());
}

namespace {
/// The reason why compile() does not choose a candidate plan. `here` is the chosen plan in the ranking for the
/// explained sizes; `own` is the ranking for the sizes that compile() assumes.
struct PassedOver {
  RankedPlan here;
  const std::vector<RankedPlan> &own;
  ordered_json attempts;           ///< "attempts" in the JSON plan of the chosen image
  std::optional<TunedSizes> tuned; ///< measurements for the explained sizes

  const MeasuredPlan *measured(const RankedPlan &candidate) const {
    if (!tuned)
      return nullptr;
    const auto found = std::ranges::find(tuned->measured, PassPlan(candidate.plan), &MeasuredPlan::plan);
    return found == tuned->measured.end() ? nullptr : &*found;
  }

  std::string operator()(const RankedPlan &candidate) const {
    if (const MeasuredPlan *times = measured(candidate)) {
      if (times->plan != tuned->best().plan)
        return fmt::format("measured: {:.1f}% slower", 100 * (times->microseconds / tuned->best().microseconds - 1));
      return candidate.plan == here.plan ? "" : "measured: the quickest, for these sizes alone";
    }
    if (!candidate.accepted() || candidate.plan == here.plan)
      return "";
    for (const ordered_json &attempt : attempts)
      if (attempt.at("text") == candidate.plan.text())
        return fmt::format("compiled: spills {} bytes", attempt.at("spillBytes").get<int>());
    const auto owned = find(candidate), chosen = find(here);
    if (owned < chosen)
      return "not compiled: a plan ahead of it spills, and it leaves no more registers free";
    if (!candidate.demoted.empty() && candidate.demoted != here.demoted)
      return candidate.demoted;
    if (const double slower = candidate.cost.mixSeconds / here.cost.mixSeconds - 1; slower >= 0.0005)
      return fmt::format("{:.1f}% slower", 100 * slower);
    const double slower = owned == own.end() ? 0 : owned->cost.mixSeconds / chosen->cost.mixSeconds - 1;
    return slower >= 0.0005 ? fmt::format("{:.1f}% slower at the sizes that compile() ranks for", 100 * slower)
                            : "no quicker";
  }

private:
  std::vector<RankedPlan>::const_iterator find(const RankedPlan &candidate) const {
    return std::find_if(own.begin(), own.end(), [&](const RankedPlan &each) { return each.plan == candidate.plan; });
  }
};
} // namespace

/// The measurements for the class of `sizes`; nullopt where compile() would not use measurements.
static std::optional<TunedSizes> measuredFor(const Source &source, const CompileOptions &options, const Target &target,
                                             const ProblemSizes &sizes, const Lowered &forCompile) {
  if (options.tuning == Tuning::Off || !leavesScheduleOpen(source, options) || !forCompile.request)
    return std::nullopt;
  const std::optional<TunedKey> key =
      TunedKey::of(target, forCompile.summary.signature, planFeatures(*forCompile.request));
  return key ? TunedPlans::of(options).find(*key, SizeClass::of(sizes)) : std::nullopt;
}

/// The best measured plan as JSON, with its origin and the differences between that environment and this one.
static ordered_json measuredJson(const TunedSizes &tuned) {
  const Provenance &from = tuned.provenance;
  ordered_json differs = ordered_json::array();
  if (from.attune != versionText())
    differs.push_back(fmt::format("attune {} measured, this is {}", from.attune, versionText()));
  if (from.costModel != costModelVersion)
    differs.push_back(fmt::format("cost model {} chose the candidates, this is {}", from.costModel, costModelVersion));
  if (!from.driver.empty())
    if (const std::string now = driverText(); !now.empty() && now != from.driver)
      differs.push_back(fmt::format("a driver of {} measured, this is {}", from.driver, now));
  return {{"text", fullPlanText(tuned.best().plan)},
          {"microseconds", tuned.best().microseconds},
          {"plans", tuned.measured.size()},
          {"sizeClass", tuned.sizeClass().text()},
          {"written", from.written},
          {"differs", differs}};
}

static Expected<std::string> explainSource(const Source &source, const CompileOptions &options, const Target &target,
                                           const ProblemSizes &sizes, std::shared_ptr<const TileMap> tiles) {
  if (Expected<void> good = checkRequest(source, options, target); !good)
    return good.error();
  if (options.backward)
    return explainBackward(source, options, target, sizes, std::move(tiles));
  Lowered lowered;
  Expected<std::vector<RankedPlan>> ranked = rank(source, options, target, sizes, lowered, std::move(tiles));
  if (!ranked)
    return ranked.error();
  if (ranked->empty() || !ranked->front().accepted())
    return Error{"no schedule fits; raise the SRAM budget or fix fewer schedule fields"};
  // A kernel serves every size, so compile() ranks plans for default sizes instead of the explained ones.
  Lowered forCompile;
  const std::optional<KernelImage> settled = settledChoice(source, options, target);
  Expected<std::vector<RankedPlan>> own = rank(source, options, target, {}, forCompile);
  Expected<std::vector<RankedPlan>> compiled =
      rank(source, settled ? withPlan(options, planOf(*settled)) : options, target, {}, forCompile);
  if (!own || !compiled)
    return own ? compiled.error() : own.error();
  lowered.plan = compiled->front().plan;
  for (const RankedPlan &candidate : *ranked)
    if (candidate.plan == lowered.plan)
      lowered.predicted = candidate;
  ordered_json attempts =
      settled ? ordered_json::parse(settled->planJson).value("attempts", ordered_json::array()) : ordered_json::array();
  const PassedOver passedOver{lowered.predicted.value_or(compiled->front()), *own, std::move(attempts),
                              measuredFor(source, options, target, sizes, forCompile)};
  lowered.threads = lowered.plan.threads();
  const KernelSignature &signature = lowered.summary.signature;
  ordered_json candidates = ordered_json::array();
  for (const RankedPlan &candidate : *ranked) {
    candidates.push_back(candidateJson(candidate, target, candidate.plan == lowered.plan, passedOver(candidate)));
    if (const MeasuredPlan *times = passedOver.measured(candidate))
      candidates.back()["measuredMicroseconds"] = times->microseconds;
  }
  ordered_json result = {{"variant", lowered.summary.name},
                         {"arch", target.arch},
                         {"dtype", name(signature.dtype)},
                         {"headDim", signature.headDim},
                         {"headDimV", signature.headDimV},
                         {"costModelVersion", costModelVersion},
                         {"rankedBy", usesAsyncProducts(*lowered.request) ? "meanMicroseconds" : "microseconds"},
                         {"sizes", sizesJson(*lowered.request)},
                         {"plan", planJson(lowered, options, target, nullptr)},
                         {"candidates", candidates}};
  if (passedOver.tuned)
    result["measured"] = measuredJson(*passedOver.tuned);
  return result.dump(2);
}

//===----------------------------------------------------------------------===//
// The interface, without compile() of CompileTuned.cpp
//===----------------------------------------------------------------------===//

Expected<KernelImage> attune::compileImage(const Variant &variant, const CompileOptions &options,
                                           const Target &target) {
  return imageOfSource({.variant = &variant}, options, target);
}
Expected<KernelImage> attune::compileImageFromText(const IrText &text, const CompileOptions &options,
                                                   const Target &target) {
  return imageOfSource({.text = &text}, options, target);
}
Expected<std::string> attune::emit(const Variant &variant, const CompileOptions &options, const Target &target,
                                   Stage stage) {
  return emitSource({.variant = &variant}, options, target, stage);
}
Expected<std::string> attune::emitFromText(const IrText &text, const CompileOptions &options, const Target &target,
                                           Stage stage) {
  return emitSource({.text = &text}, options, target, stage);
}
Expected<std::string> attune::explain(const Variant &variant, const CompileOptions &options, const Target &target,
                                      const ProblemSizes &sizes, std::shared_ptr<const TileMap> tiles) {
  return explainSource({.variant = &variant}, options, target, sizes, std::move(tiles));
}
Expected<std::string> attune::explainText(const IrText &text, const CompileOptions &options, const Target &target,
                                          const ProblemSizes &sizes, std::shared_ptr<const TileMap> tiles) {
  return explainSource({.text = &text}, options, target, sizes, std::move(tiles));
}
Expected<IrSummary> attune::describeText(const IrText &text) { return driver::describe(text); }
