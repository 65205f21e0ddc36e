//===- Options.cpp - From flags to a request --------------------------------===//

#include "tools/attune/Options.h"
#include "driver/Lowering.h"
#include "tools/attune/Output.h"
#include "tools/attune/VariantName.h"

#include "arch/ArchInfo.h"
#include "tools/reference/Memory.h"
#include "tools/reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;

int attune::cli::report(const Failure &failure) {
  printError("{}\n", failure.error.text());
  return failure.code;
}

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

/// Declarations of --tensor; the rank is that of the flag or of its file, else inferred from the text.
static Expected<std::vector<TensorDecl>> declarations(const std::vector<TensorFlag> &flags) {
  std::vector<TensorDecl> result;
  for (const TensorFlag &flag : flags) {
    int rank = inferRank;
    if (flag.dims) {
      rank = int(flag.dims->size());
    } else if (flag.source.ends_with(".npy")) {
      Expected<HostTensor> file = reference::readNpy(flag.source, reference::VoidElements::BFloat16);
      if (!file)
        return file.error();
      rank = int(file->shape.size());
    }
    result.push_back({flag.name, flag.dtype, rank});
  }
  return result;
}

/// What --normaliser and --sink say; nothing where neither is given.
static Result<std::optional<Normaliser>> normaliserOf(const Flags &flags) {
  if (flags.normaliser.empty() && flags.sink.empty())
    return std::optional<Normaliser>();
  const std::string name = flags.normaliser.empty() ? "softmax" : flags.normaliser;
  if (!flags.sink.empty() && name != "softmax")
    return usageError(fmt::format("--sink contradicts --normaliser {}, which has none; leave out one", name));
  Expected<Normaliser> known = normalisers::named(name, flags.sink);
  if (!known)
    return Failure{known.error(), usage};
  return std::optional(*known);
}

static Result<Variant> textVariant(const Flags &flags, const std::vector<TensorDecl> &declared,
                                   const std::vector<ScalarFlag> &scalars) {
  TextVariant text;
  text.score = flags.score.value_or("");
  text.mask = flags.mask.value_or("");
  text.tensors = declared;
  for (const ScalarFlag &flag : scalars)
    text.scalars.push_back({flag.name, flag.type()});
  if (flags.scale)
    text.scale = float(*flags.scale);
  if (flags.dropout)
    text.dropout = float(*flags.dropout);
  text.precise = flags.precise;
  text.qOffset = flags.qOffset || flags.qOffsetValue;
  Result<std::optional<Normaliser>> normaliser = normaliserOf(flags);
  if (!normaliser)
    return normaliser.failure();
  text.normaliser = *normaliser;
  if (flags.lengths)
    text.keyLengths = "lengths";
  if (flags.newTokens)
    text.queryLengths = "new_tokens";
  if (flags.sequences)
    text.sequences = {"first_queries", flags.pageSize ? "" : "first_keys"};
  if (flags.pageSize)
    text.pages = {"pages", *flags.pageSize};
  Expected<Variant> variant = Variant::parse("custom", text);
  if (!variant)
    return variant.error();
  return *variant;
}

/// Under --name, else `described`.
static Result<Variant> renamed(const Variant &variant, const Flags &flags, const std::string &described) {
  Variant result = variant.named(flags.name.empty() ? described : flags.name);
  if (result.error())
    return usageError(result.error()->message);
  return result;
}

/// Adds --score, --mask, --normaliser, --sink, --dropout, --scale and --precise to a variant from elsewhere.
static Result<Variant> extend(Variant variant, const Flags &flags, const std::vector<TensorDecl> &declared,
                              const std::vector<ScalarFlag> &scalars, const std::string &origin) {
  LocationScope nowhere({}); // a flag's fault has no line of source
  const Variant base = variant;
  std::optional<Expr> addedScore, addedMask;
  if (flags.score || flags.mask) {
    Flags expressions = flags;
    expressions.dropout.reset();
    expressions.scale.reset();
    expressions.normaliser = expressions.sink = "";
    expressions.lengths.reset();
    expressions.newTokens.reset();
    expressions.sequences = false;
    expressions.pageSize.reset();
    Result<Variant> added = textVariant(expressions, declared, scalars);
    if (!added)
      return added.failure();
    if (const std::optional<Expr> &score = added->scoreExpr(); flags.score && score) {
      if (variant.scoreExpr())
        return usageError(
            fmt::format("--score contradicts {}, which has a score; write both into one --score", origin));
      variant.score([&](Score, Index, Index, Index, Index) { return *score; });
      addedScore = score;
    }
    if (const std::optional<Expr> &mask = added->maskExpr()) {
      variant.mask([&](Index, Index, Index, Index) { return *mask; });
      addedMask = mask;
    }
  }
  Result<std::optional<Normaliser>> normaliser = normaliserOf(flags);
  if (!normaliser)
    return normaliser.failure();
  if (*normaliser && **normaliser != variant.normaliser()) {
    if (variant.normaliserExpressions())
      return usageError(fmt::format("--{} contradicts {}, which has normaliser {}; leave out the flag",
                                    flags.normaliser.empty() ? "sink" : "normaliser", origin,
                                    variant.normaliser().name));
    variant.normaliser(**normaliser);
  }
  if (flags.scale) {
    if (variant.scale() && *variant.scale() != float(*flags.scale))
      return usageError(fmt::format("--scale {} contradicts {}, which has scale {}; leave out the flag", *flags.scale,
                                    origin, *variant.scale()));
    variant.scale(float(*flags.scale));
  }
  if (flags.dropout)
    variant.dropout(float(*flags.dropout));
  if (flags.precise)
    variant.precise();
  if (flags.qOffset || flags.qOffsetValue)
    variant.qOffset();
  auto table = [](const char *name, int rank) { return captured(name, i32, attune::rank(rank)); };
  if (flags.lengths && !variant.keyLengths())
    variant.keyLengths(table("lengths", 1));
  if (flags.newTokens && !variant.queryLengths())
    variant.queryLengths(table("new_tokens", 1));
  if (flags.sequences && !variant.sequences())
    flags.pageSize || variant.keyPages() ? variant.sequences(table("first_queries", 1))
                                         : variant.sequences(table("first_queries", 1), table("first_keys", 1));
  if (flags.pageSize && variant.keyPages() != KeyPages{table("pages", 2).decl(), *flags.pageSize})
    variant.keyPages(table("pages", 2), *flags.pageSize);
  if (variant.error())
    return *variant.error();
  return renamed(variant, flags, nameOf(variant, base, addedScore, addedMask));
}

static Result<Variant> loadVariant(Request &request, const Flags &flags) {
  Expected<std::vector<TensorDecl>> declared = declarations(request.tensors);
  if (!declared)
    return declared.error();
  const Input &input = request.input;
  const bool isFile = input.kind == Input::Kind::Json;
  if (!flags.parameters.empty() && (isFile || flags.input.empty()))
    return usageError(
        fmt::format("--{} is a parameter of a built-in variant; name one, as in: attune run softcap --cap 30",
                    flags.parameters.begin()->first));
  if (flags.input.empty()) {
    Result<Variant> variant = textVariant(flags, *declared, request.scalars);
    if (!variant)
      return variant;
    return renamed(*variant, flags, nameOf(*variant, Variant("plain"), variant->scoreExpr(), variant->maskExpr()));
  }
  if (isFile) {
    if (flags.score || flags.mask)
      return usageError(fmt::format("--{} contradicts {}, which holds the variant; edit the file or leave out the flag",
                                    flags.score ? "score" : "mask", flags.input));
    Expected<Variant> variant = Variant::fromJson(input.file.text);
    if (!variant) {
      Error error = variant.error();
      if (error.where.file == "json")
        error.where.file = flags.input;
      else // of an expression in it, or of a part without a place
        error.message = fmt::format("{}: {}", flags.input, error.message);
      return error;
    }
    for (const TensorDecl &decl : *declared)
      for (const TensorDecl &own : variant->tensors())
        if (own.name == decl.name && own.dtype != decl.dtype)
          return usageError(fmt::format("--tensor {}={} contradicts {}, which declares {}; convert the data", decl.name,
                                        name(decl.dtype), flags.input, name(own.dtype)));
    return extend(*variant, flags, *declared, request.scalars, flags.input);
  }
  Expected<Variant> variant = input.builtin->make(flags.parameters, *declared);
  if (!variant)
    return Failure{variant.error(), usage};
  return extend(*variant, flags, *declared, request.scalars, input.builtin->name);
}

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

Failure attune::cli::noGpu(const Error &reason) {
  return {Error{fmt::format("there is no GPU to run on; --target cpu runs on the CPU, --simulate 4 runs a GPU's "
                            "schedule without one\nnote: {}",
                            reason.message)}};
}

static Result<Target> chooseTarget(const Flags &flags, const std::optional<IrSummary> &summary) {
  std::string arch = flags.arch;
  if (arch.empty() && summary && summary->stage == Stage::Sched)
    arch = summary->arch;
  if (!arch.empty()) {
    Expected<Target> target = Target::parse(arch);
    if (!target)
      return Failure{target.error(), usage};
    if (flags.target == "cpu" && target->isCuda() && !flags.arch.empty())
      return usageError(fmt::format("--arch {} contradicts --target cpu; leave out one of them", arch));
    if (flags.target == "gpu" && !target->isCuda())
      return usageError("--arch cpu contradicts --target gpu; leave out one of them");
    if (flags.target == "cpu")
      return Target::cpu();
    return *target;
  }
  if (flags.target == "cpu")
    return Target::cpu();
  if (flags.target == "gpu") {
    Expected<Target> target = Target::parse("gpu");
    if (!target)
      return noGpu(target.error());
    return *target;
  }
  return Target::detect();
}

/// Every value given is one that the variant reads: a name written wrongly would leave its place to other data.
static std::optional<Failure> unreadValue(const Request &request) {
  auto missing = [&](std::string_view flag, std::string_view name, std::string_view what,
                     const auto &declared) -> std::optional<Failure> {
    std::vector<std::string> names;
    for (const auto &one : declared)
      names.push_back(one.name);
    if (std::find(names.begin(), names.end(), name) != names.end())
      return std::nullopt;
    return usageError(fmt::format("--{} {}: {} reads no {} of that name; it reads {}", flag, name, request.label, what,
                                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  };
  for (const TensorFlag &tensor : request.tensors)
    if (auto failure = missing("tensor", tensor.name, "captured tensor", request.variant->tensors()))
      return failure;
  for (const ScalarFlag &flag : request.scalars) {
    if (auto failure = missing("scalar", flag.name, "run-time scalar", request.variant->scalars()))
      return failure;
    const auto declared = std::ranges::find(request.variant->scalars(), flag.name, &ScalarDecl::name);
    if (Expected<void> good = flag.fits(declared->dtype); !good)
      return Failure{good.error(), usage};
  }
  return std::nullopt;
}

/// What the forward pass saves; with or without --backward both passes are compiled for it.
static std::optional<Failure> readSaving(const Flags &flags, Request &request) {
  if (request.text)
    return usageError(fmt::format("{} holds what is saved; leave out --memory-budget and --recompute", flags.input));
  if (!request.options.gradients)
    request.options.gradients.emplace();
  Saving &saving = request.options.gradients->saving;
  saving.memoryBudget = flags.memoryBudget;
  if (request.shape)
    saving.sizes = sizesOf(*request.shape);
  for (const std::string &choice : flags.recompute) {
    const size_t equals = choice.find('=');
    const std::string value = choice.substr(0, equals), how = equals == choice.npos ? "" : choice.substr(equals + 1);
    if (how != "save" && how != "recompute")
      return usageError(fmt::format("--recompute {} is not NAME=save or NAME=recompute", choice));
    (how == "save" ? saving.save : saving.recompute).push_back(value);
  }
  return std::nullopt;
}

namespace {
/// The element type and the head dims of a request, as far as flags, shape and text say them.
struct Types {
  std::optional<DType> dtype = {};
  std::optional<int> headDim = {}, headDimV = {};
};
} // namespace

static std::optional<Failure> outOfRange(const Flags &flags) {
  if (flags.dropout && !(*flags.dropout >= 0 && *flags.dropout < 1))
    return usageError(
        fmt::format("--dropout {} is outside [0, 1); use the fraction to drop, for example 0.1", *flags.dropout));
  if (flags.scale && !std::isfinite(float(*flags.scale)))
    return usageError(fmt::format("--scale {} is not finite; write a number, for example 0.125", *flags.scale));
  return std::nullopt;
}

/// The values of --tensor and --scalar, and of the flags that stand for a --tensor.
static std::optional<Failure> readValues(const Flags &flags, Request &request) {
  std::vector<std::string> tensors = flags.tensors;
  if (flags.lengths && !flags.lengths->empty())
    tensors.push_back("lengths=i32:" + *flags.lengths);
  if (flags.newTokens && !flags.newTokens->empty())
    tensors.push_back("new_tokens=i32:" + *flags.newTokens);
  for (const std::string &spec : tensors) {
    Expected<TensorFlag> flag = TensorFlag::parse(spec);
    if (!flag)
      return Failure{flag.error(), usage};
    for (const TensorFlag &other : request.tensors)
      if (other.name == flag->name)
        return usageError(fmt::format("--tensor {} is given twice; leave out one", flag->name));
    request.tensors.push_back(*flag);
  }
  for (const std::string &spec : flags.scalars) {
    Expected<ScalarFlag> flag = ScalarFlag::parse(spec);
    if (!flag)
      return Failure{flag.error(), usage};
    if (!isName(flag->name))
      return usageError(fmt::format("--scalar {}: '{}' is no name; write for example cap=30.5", spec, flag->name));
    if (std::ranges::find(request.scalars, flag->name, &ScalarFlag::name) != request.scalars.end())
      return usageError(fmt::format("--scalar {} is given twice; leave out one", flag->name));
    request.scalars.push_back(*flag);
  }
  return std::nullopt;
}

/// The shape of a request, and the head dims with which it agrees.
static std::optional<Failure> readShape(const Flags &flags, const std::optional<Shape> &knownShape, Request &request,
                                        Types &types) {
  request.shape = knownShape;
  if (!flags.shape.empty()) {
    Result<Shape> shape = parseShape(flags.shape);
    if (!shape)
      return shape.failure();
    request.shape = *shape;
  }
  types.headDim = flags.headDim;
  types.headDimV = flags.headDimV;
  if (request.shape) {
    auto agree = [&](std::optional<int> &flag, int size, const char *name) -> std::optional<Failure> {
      if (flag && *flag != size)
        return usageError(
            fmt::format("--{} {} contradicts the shape, which has {}; leave out the flag", name, *flag, size));
      flag = size;
      return std::nullopt;
    };
    if (auto failure = agree(types.headDim, request.shape->headDim, "head-dim"))
      return *failure;
    if (auto failure = agree(types.headDimV, request.shape->headDimV, "head-dim-v"))
      return *failure;
  }
  return std::nullopt;
}

/// A flag of variants that is given with a text, which holds its variant.
static std::optional<Failure> variantFlagWithText(const Flags &flags) {
  const std::pair<bool, const char *> variantFlags[] = {{!flags.name.empty(), "name"},
                                                        {flags.score.has_value(), "score"},
                                                        {flags.mask.has_value(), "mask"},
                                                        {!flags.normaliser.empty(), "normaliser"},
                                                        {!flags.sink.empty(), "sink"},
                                                        {flags.scale.has_value(), "scale"},
                                                        {flags.precise, "precise"},
                                                        {flags.qOffset, "with-q-offset"},
                                                        {flags.pageSize.has_value(), "paged"},
                                                        {flags.lengths.has_value(), "lengths"},
                                                        {flags.newTokens.has_value(), "query-lengths"},
                                                        {flags.sequences, "packed"}};
  for (auto [given, flag] : variantFlags)
    if (given)
      return usageError(fmt::format("--{} contradicts {}, which holds the variant; edit the file or leave out the flag",
                                    flag, flags.input));
  if (!flags.parameters.empty())
    return usageError(fmt::format("--{} is a parameter of a built-in variant, and {} is a file; leave out the flag",
                                  flags.parameters.begin()->first, flags.input));
  return std::nullopt;
}

/// A flag that contradicts the text.
static std::optional<Failure> contradictionOfText(const Flags &flags, const IrSummary &summary, const Types &types) {
  const KernelSignature &signature = summary.signature;
  if (types.dtype && *types.dtype != signature.dtype)
    return usageError(fmt::format("--dtype {} contradicts {}, which has {}; leave out the flag", flags.dtype,
                                  flags.input, name(signature.dtype)));
  auto contradicts = [&](std::optional<int> flag, int held, const char *flagName) -> std::optional<Failure> {
    if (flag && *flag != held)
      return usageError(
          fmt::format("--{} {} contradicts {}, which has {}; leave out the flag", flagName, *flag, flags.input, held));
    return std::nullopt;
  };
  if (!signature.headDim && (types.headDim || types.headDimV))
    return usageError(fmt::format("{} is a program without head dims; give the extents of its axes by --extents, and "
                                  "leave out --shape and --head-dim",
                                  flags.input));
  if (auto failure = contradicts(types.headDim, signature.headDim, "head-dim"))
    return *failure;
  if (auto failure = contradicts(types.headDimV, signature.headDimV, "head-dim-v"))
    return *failure;
  if (flags.dropout && !signature.dropout)
    return usageError(fmt::format("--dropout contradicts {}, which has no dropout; leave out the flag", flags.input));
  if (!flags.arch.empty() && summary.stage == Stage::Sched && flags.arch != summary.arch)
    return usageError(fmt::format("--arch {} contradicts {}, which is scheduled for {}; leave out the flag", flags.arch,
                                  flags.input, summary.arch));
  return std::nullopt;
}

/// A request whose input is text of a stage.
static std::optional<Failure> readText(const Flags &flags, Request &request, Types &types) {
  request.text = request.input.file;
  if (std::optional<Failure> failure = variantFlagWithText(flags))
    return failure;
  Expected<IrSummary> summary = describeText(*request.text);
  if (!summary)
    return Failure{summary.error()};
  request.summary = *summary;
  if (std::optional<Failure> failure = contradictionOfText(flags, *summary, types))
    return failure;
  types = {summary->signature.dtype, summary->signature.headDim, summary->signature.headDimV};
  if (!summary->variantJson.empty())
    if (Expected<Variant> variant = Variant::fromJson(summary->variantJson)) {
      request.variant = *variant;
      if (flags.dropout)
        request.variant->dropout(float(*flags.dropout));
      if (request.variant->error())
        return Failure{*request.variant->error()};
    }
  request.label = summary->name;
  return std::nullopt;
}

/// The options of the compilation, without the element type and the head dims.
static std::optional<Failure> readOptions(const Flags &flags, Request &request) {
  CompileOptions &options = request.options;
  options.sramBudget = flags.sramBudget;
  assignSchedule(options, flags);
  if (!flags.cuda.empty()) {
    Expected<IrText> text = IrText::read(flags.cuda);
    if (!text)
      return Failure{text.error(), usage};
    options.cuda = *text;
  }
  if (flags.backward) {
    if (request.text)
      return usageError(
          fmt::format("--backward contradicts {}, which holds the pass that it is; leave out the flag", flags.input));
    options.backward = true;
    options.gradients = Gradients{flags.grads, flags.gradLse, flags.deterministic};
  }
  if (flags.memoryBudget || !flags.recompute.empty())
    if (std::optional<Failure> failure = readSaving(flags, request))
      return *failure;
  options.cacheDir = flags.cacheDir;
  options.useCache = !flags.noCache;
  if (!flags.tuning.empty())
    options.tuning = *parseTuning(flags.tuning);
  return std::nullopt;
}

Result<Request> attune::cli::resolve(const Flags &flags, const std::optional<Shape> &knownShape,
                                     std::optional<DType> knownDtype) {
  Request request;
  Types types;
  if (!flags.dtype.empty())
    types.dtype = parseDType(flags.dtype);
  if (std::optional<Failure> failure = outOfRange(flags))
    return *failure;
  if (std::optional<Failure> failure = readValues(flags, request))
    return *failure;
  if (std::optional<Failure> failure = readShape(flags, knownShape, request, types))
    return *failure;
  Expected<Input> input = readInput(flags.input);
  if (!input)
    return Failure{input.error(), usage};
  request.input = std::move(*input);
  if (request.input.kind == Input::Kind::Ir) {
    if (std::optional<Failure> failure = readText(flags, request, types))
      return *failure;
  } else {
    Result<Variant> variant = loadVariant(request, flags);
    if (!variant)
      return variant.failure();
    request.variant = *variant;
    request.label = variant->name();
  }
  Result<Target> target = chooseTarget(flags, request.summary);
  if (!target)
    return target.failure();
  request.target = *target;
  request.options.dtype = types.dtype.value_or(knownDtype.value_or(DType::BF16));
  request.options.headDim = types.headDim.value_or(128);
  request.options.headDimV = types.headDimV.value_or(request.options.headDim);
  if (std::optional<Failure> failure = readOptions(flags, request))
    return *failure;
  if (request.variant)
    if (std::optional<Failure> failure = unreadValue(request))
      return *failure;
  if (request.variant && (flags.score || flags.mask))
    for (const std::string &warning : divisionWarnings(*request.variant, request.scalars))
      printError("warning: {}\n", warning);
  return request;
}

Expected<KernelImage> attune::cli::compileImage(const Request &request) {
  if (request.text)
    return attune::compileImageFromText(*request.text, request.options, request.target);
  return attune::compileImage(*request.variant, request.options, request.target);
}

Expected<Kernel> attune::cli::compileKernel(const Request &request) {
  if (!request.text)
    return attune::compile(*request.variant, request.options, request.target);
  Expected<Kernel> kernel = attune::compileFromText(*request.text, request.options, request.target);
  if (kernel && request.variant && request.variant->hasDropout())
    return kernel->withDropout(request.variant->dropoutProbability());
  return kernel;
}

Expected<std::string> attune::cli::emitStage(const Request &request, Stage stage) {
  if (request.text)
    return attune::emitFromText(*request.text, request.options, request.target, stage);
  return attune::emit(*request.variant, request.options, request.target, stage);
}

Expected<std::string> attune::cli::explainRequest(const Request &request, const ProblemSizes &sizes,
                                                  std::shared_ptr<const TileMap> tiles) {
  if (request.text)
    return attune::explainText(*request.text, request.options, request.target, sizes, std::move(tiles));
  return attune::explain(*request.variant, request.options, request.target, sizes, std::move(tiles));
}

driver::Source attune::cli::sourceOf(const Request &request) {
  return {request.text ? nullptr : &*request.variant, request.text ? &*request.text : nullptr};
}

ProblemSizes attune::cli::sizesOf(const Shape &shape) {
  return {shape.batch, shape.heads, shape.headsKv, shape.queries, shape.keys};
}

std::string attune::cli::bytesText(double bytes) {
  const char *units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, units[unit]);
}
