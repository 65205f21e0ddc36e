//===- Options.cpp - From flags to a request --------------------------------===//

#include "tools/attune/Options.h"
#include "driver/Lowering.h"
#include "tools/attune/Output.h"
#include "tools/attune/Usage.h"
#include "tools/attune/VariantName.h"

#include "arch/ArchInfo.h"
#include "dsl/ForeignSyntax.h"
#include "dsl/Trace.h"
#include "tools/reference/Memory.h"
#include "tools/reference/Reference.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <set>

using namespace attune;
using namespace attune::cli;
using attune::reference::HostTensor;

int attune::cli::report(const Failure &failure) {
  printError("{}\n", failure.error.text());
  return failure.code;
}

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

std::function<std::string(const std::string &)> attune::cli::wholeNumber(uint64_t least, uint64_t most) {
  return [=](const std::string &text) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool fits = error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
    return fits ? std::string() : fmt::format("{} is not a whole number from {} to {}", text, least, most);
  };
}

/// Pages, and lengths of sequences.
static void addSequences(CLI::App &group, Flags &flags) {
  group
      .add_option(
          "--paged", flags.pageSize,
          "K and V lie in pages of so many keys, a multiple of 16, named by the captured tensor pages, i32[B, N]; "
          "without data by --tensor a run has random ones")
      ->type_name("KEYS");
  group
      .add_option(
          "--lengths", flags.lengths,
          "each sequence has its own number of keys, in the captured tensor lengths, i32[B]; a .npy file of them, "
          "or nothing: from half of Sk to Sk")
      ->type_name("[FILE]")
      ->expected(0, 1);
  group
      .add_option(
          "--query-lengths", flags.newTokens,
          "each sequence has its own number of queries, in the captured tensor new_tokens, i32[B]; a .npy file of "
          "them, or nothing: Sq of the first, one of the others")
      ->type_name("[FILE]")
      ->expected(0, 1);
}

/// Parameters of built-in variants, which go to `values`.
static void addParameters(CLI::App &verb, std::map<std::string, double> &values) {
  auto *builtins = verb.add_option_group("Parameters of built-ins");
  std::map<std::string, std::string> help;
  for (const BuiltinVariant &entry : builtinVariants())
    for (const BuiltinParameter &parameter : entry.parameters)
      help[parameter.name] += fmt::format("{}{}: {} ({:g})", help[parameter.name].empty() ? "" : "; ", entry.name,
                                          parameter.help, parameter.defaultValue);
  for (const auto &[name, text] : help)
    builtins
        ->add_option_function<double>(
            "--" + name, [&values, name = name](double value) { values[name] = value; }, text)
        ->type_name("X");
}

void Flags::addVariant(CLI::App &verb) {
  verb.add_option("variant", input,
                  "built-in name (attune list), or a file: JSON or text that --emit dsl, attn, tile or sched wrote; "
                  "none: plain attention")
      ->type_name("VARIANT");
  auto *group = verb.add_option_group("Variant");
  const bool exports = verb.get_name() == "export";
  group->add_option("--name", name,
                    exports
                        ? "prefix of files, types and functions; the variant's name without"
                        : "what the variant is called: in output, as a kernel, in the cache, whose key it is a part "
                          "of; without it as its expressions and flags read");
  group->add_option("--score", score, "score of (s, b, h, q, k), for example \"softcap(s, 50)\"")->type_name("EXPR");
  group->add_option("--mask", mask, "visible keys, for example \"q >= k\"")->type_name("EXPR");
  group
      ->add_option("--normaliser", normaliser,
                   "what a score weighs: softmax, sigmoid, or none, which takes it as it is; softmax without")
      ->check(oneOf({"softmax", "sigmoid", "none"}));
  group
      ->add_option("--sink", sink,
                   "captured tensor f32[H] whose logit takes part in softmax's denominator; --tensor gives its data")
      ->type_name("NAME");
  group->add_option("--dropout", dropout, "probability in [0, 1)")->type_name("P");
  group->add_option("--scale", scale, "factor on the dot products; 1/sqrt(D) without")->type_name("X");
  group->add_flag("--precise", precise, "float32-accurate functions");
  addSequences(*group, *this);
  group->add_flag("--with-q-offset", qOffset, "the variant adds a run-time offset to q");
  group
      ->add_option("--tensor", tensors,
                   "captured tensor NAME=DTYPE[DIMS]:SOURCE; repeatable. SOURCE is random (normal, mean 0 and variance "
                   "1; of integers 0 to 7 "
                   "and of bools both, each as likely), zeros, ones, LO..HI (uniform; of integers with both ends) or a "
                   ".npy file. --seed chooses the numbers")
      ->type_name("SPEC")
      ->expected(1)
      ->take_all();
  group
      ->add_option("--scalar", scalars,
                   "value of a run-time scalar, NAME=VALUE or NAME=DTYPE:VALUE; repeatable. In expressions of the "
                   "command line a whole number is an i32, any other an f32")
      ->type_name("SPEC")
      ->expected(1)
      ->take_all();
  addParameters(verb, parameters);
}

void Flags::addTarget(CLI::App &verb, bool withTarget) {
  auto *group = verb.add_option_group("Target");
  if (withTarget)
    group->add_option("--target", target, "cpu or gpu; the GPU where there is one")->check(oneOf({"cpu", "gpu"}));
  group->add_option("--arch", arch, fmt::format("one of {}; this machine's GPU, else sm_90a", archNames()));
  addTypes(*group);
}

void Flags::addTypes(CLI::App &group) {
  group.add_option("--dtype", dtype, "f16, bf16 or f32; bf16 without")->check([](const std::string &written) {
    const std::optional<DType> type = parseDType(written);
    return type && isFloat(*type) ? ""
                                  : fmt::format("{} is not one of f16 bf16 f32, which Q, K and V may be{}", written,
                                                dsl::dtypeRemedy(written));
  });
  group.add_option("--head-dim", headDim, "D, columns of Q and K");
  group.add_option("--head-dim-v", headDimV, "Dv, columns of V; D without");
}

void Flags::addShape(CLI::App &verb) {
  verb.add_option("--shape", shape, "sizes of the problem")->type_name("B,H,Hkv,Sq,Sk,D,Dv");
}

void Flags::addSchedule(CLI::App &verb) {
  auto *group = verb.add_option_group("Schedule; the cost model chooses the options that are not given");
  group->add_option("--sram-budget", sramBudget, "bytes of shared memory per block")
      ->type_name("BYTES")
      ->check(wholeNumber(0, std::numeric_limits<int64_t>::max()));
  visitSchedule([&](std::string_view name, std::string_view meaning,
                    auto &field) { group->add_option("--" + spelled(name, '-'), field, std::string(meaning)); },
                *this);
}

void Flags::addGradients(CLI::App &verb) {
  auto *group = verb.add_option_group("Backward pass");
  auto *pass = group->add_flag("--backward", backward, "the backward pass: the gradients of Q, K and V");
  group->add_option("--grad", grads, "that of a captured tensor of floats, too; repeatable")
      ->type_name("NAME")
      ->needs(pass);
  group->add_flag("--grad-lse", gradLse, "of a loss that depends on LSE as well as on O")->needs(pass);
  group->add_flag("--deterministic", deterministic, "the same bits in every launch")->needs(pass);
  group
      ->add_option(
          "--memory-budget", memoryBudget,
          "bytes that the forward pass may save in addition to O and LSE; the cost model chooses what for the sizes")
      ->type_name("BYTES")
      ->check(wholeNumber(0, std::numeric_limits<int64_t>::max()));
  group
      ->add_option("--recompute", recompute,
                   "whether the forward pass saves a value (dropout, score) or the backward pass computes it again; "
                   "repeatable")
      ->type_name("NAME=save|recompute");
}

void Flags::addCuda(CLI::App &verb) {
  verb.add_option(
          "--cuda", cuda,
          "CUDA that --emit cuda printed and that was edited by hand, in the place of the generated text; not cached")
      ->type_name("FILE");
}

void Flags::addTuning(CLI::App &verb, bool measures) {
  const std::string help =
      "whether measured plans count: off, or cached (attune tune measured them; without this flag)";
  std::vector<std::string> names = {"off", "cached"};
  if (measures)
    names.push_back("measure");
  verb.add_option("--tuning", tuning, measures ? help + "; measure measures the sizes of --shape first" : help)
      ->check(oneOf(std::move(names)));
}

void Flags::addCache(CLI::App &verb) {
  verb.add_option("--cache-dir", cacheDir, "folder of the cache; $ATTUNE_CACHE_DIR without");
  verb.add_flag("--no-cache", noCache, "neither read nor write the cache");
  verb.add_flag("--json", json, "print one JSON object");
}

static bool isName(std::string_view text) {
  auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || std::isdigit(static_cast<unsigned char>(c));
  });
}

static std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

Expected<TensorFlag> TensorFlag::parse(const std::string &text) {
  auto bad = [&](std::string_view why) {
    return Error{fmt::format("--tensor {}: {}; write NAME=DTYPE[DIMS]:random|zeros|ones|LO..HI|PATH.npy, for example "
                             "slopes=f32[8]:random",
                             text, why)};
  };
  TensorFlag flag;
  size_t equals = text.find('=');
  if (equals == std::string::npos)
    return bad("there is no '='");
  flag.name = text.substr(0, equals);
  if (std::optional<std::string> fault = dsl::nameFault("tensor name", flag.name))
    return bad(*fault);
  size_t dtypeEnd = std::min(text.find_first_of("[:", equals + 1), text.size());
  std::string dtypeText = text.substr(equals + 1, dtypeEnd - equals - 1);
  std::optional<DType> dtype = parseDType(dtypeText);
  if (!dtype)
    return bad(fmt::format("'{}' is not one of f32 bf16 f16 i32 i64 bool{}", dtypeText, dsl::dtypeRemedy(dtypeText)));
  flag.dtype = *dtype;
  size_t at = dtypeEnd;
  if (at < text.size() && text[at] == '[') {
    size_t close = text.find(']', at);
    if (close == std::string::npos)
      return bad("there is no ']'");
    flag.dims.emplace();
    std::string inside = text.substr(at + 1, close - at - 1);
    for (size_t begin = 0; !inside.empty() && begin <= inside.size();) {
      size_t comma = std::min(inside.find(',', begin), inside.size());
      std::string dim = inside.substr(begin, comma - begin);
      dim.erase(0, std::min(dim.find_first_not_of(' '), dim.size()));
      dim.erase(dim.find_last_not_of(' ') + 1);
      static const std::set<std::string> extents = {"B", "H", "Hkv", "Sq", "Sk"};
      if (std::optional<int64_t> number = integer(dim); (!number || *number < 0) && !extents.contains(dim))
        return bad(fmt::format("'{}' is not an extent: a number, or one of B H Hkv Sq Sk", dim));
      flag.dims->push_back(dim);
      begin = comma + 1;
    }
    if (flag.dims->size() > 4)
      return bad(fmt::format("rank {} is above 4", flag.dims->size()));
    at = close + 1;
  }
  if (at < text.size()) {
    if (text[at] != ':')
      return bad(fmt::format("'{}' follows the dtype", text.substr(at)));
    flag.source = text.substr(at + 1);
    if (flag.source.empty())
      return bad("nothing follows ':'");
    const bool isFile = flag.source.ends_with(".npy");
    if (!isFile && flag.source.find("..") != std::string::npos) {
      Expected<Range> range = Range::parse(flag.source, flag.dtype);
      if (!range)
        return bad(range.error().message);
      flag.range = *range;
    } else if (!isFile && flag.source != "random" && flag.source != "zeros" && flag.source != "ones") {
      return bad(fmt::format("'{}' is not random, zeros, ones, a range or a .npy file", flag.source));
    }
    if (!isFile && !flag.dims)
      return bad(fmt::format("{} needs [DIMS]", flag.source));
  }
  return flag;
}

std::string Shape::text() const {
  return fmt::format("{},{},{},{},{},{},{}", batch, heads, headsKv, queries, keys, headDim, headDimV);
}

Result<Shape> attune::cli::parseShape(const std::string &text) {
  std::vector<int64_t> values;
  for (size_t begin = 0; begin <= text.size();) {
    size_t comma = std::min(text.find(',', begin), text.size());
    std::optional<int64_t> value = integer(std::string_view(text).substr(begin, comma - begin));
    if (!value || *value < 0 || *value > (int64_t(1) << 30))
      return usageError(fmt::format("--shape {}: '{}' is not a size; write B,H,Hkv,Sq,Sk,D,Dv such as "
                                    "1,8,8,1024,1024,128,128",
                                    text, text.substr(begin, comma - begin)));
    values.push_back(*value);
    begin = comma + 1;
  }
  if (values.size() != 7)
    return usageError(fmt::format("--shape {} has {} sizes, required are 7; write B,H,Hkv,Sq,Sk,D,Dv such as "
                                  "1,8,8,1024,1024,128,128",
                                  text, values.size()));
  Shape shape{values[0], values[1], values[2], values[3], values[4], int(values[5]), int(values[6])};
  if (shape.headsKv == 0 ? shape.heads != 0 : shape.heads % shape.headsKv != 0)
    return usageError(fmt::format("--shape {}: H {} is not a multiple of Hkv {}; query heads share key heads in equal "
                                  "groups",
                                  text, shape.heads, shape.headsKv));
  return shape;
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
                                                        {flags.newTokens.has_value(), "query-lengths"}};
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

//===----------------------------------------------------------------------===//
// Captured tensors and scalars
//===----------------------------------------------------------------------===//

Expected<HostTensor> attune::cli::makeScalar(const Request &request, const ScalarParam &param) {
  const auto given = std::ranges::find(request.scalars, param.name, &ScalarFlag::name);
  assert(given != request.scalars.end() && "requireData comes first");
  return reference::scalarOf(param.dtype, given->value);
}

/// Data that a captured tensor gets without a file: its shape, checked to fit, and what stands in it.
struct MadeTensor {
  std::vector<int64_t> dims;
  std::function<double(int64_t)> value = {}; ///< unset: random
};

/// Data that makes sense for a built-in without --tensor.
static std::optional<MadeTensor> builtinDefault(const Request &request, const TensorParam &param, const Shape &shape) {
  // A normaliser's own vector is one of the heads: a sink.
  if (request.variant && param.rank == 1)
    for (const TensorDecl &own : request.variant->normaliser().tensors)
      if (own.name == param.name)
        return MadeTensor{{shape.heads}};
  const bool isLengths =
      request.variant && request.variant->keyLengths() && request.variant->keyLengths()->name == param.name;
  if (isLengths && param.rank == 1)
    return MadeTensor{{shape.batch},
                      [shape](int64_t b) { return double(shape.keys - shape.keys * b / (2 * shape.batch)); }};
  if (request.variant && request.variant->queryLengths() && request.variant->queryLengths()->name == param.name)
    return MadeTensor{{shape.batch},
                      [shape](int64_t b) { return double(b ? std::min<int64_t>(shape.queries, 1) : shape.queries); }};
  if (const std::optional<KeyPages> pages = request.variant ? request.variant->keyPages() : std::nullopt;
      pages && pages->tensor.name == param.name) {
    const int64_t columns = (shape.keys + pages->size - 1) / pages->size;
    return MadeTensor{{shape.batch, columns}, [=](int64_t i) { return double(i); }};
  }
  if (!request.input.builtin || param.rank < 1)
    return std::nullopt;
  const std::string &variant = request.input.builtin->name;
  if (variant == "alibi" && param.name == "slopes" && param.rank == 1)
    return MadeTensor{{shape.heads},
                      [heads = shape.heads](int64_t h) { return std::exp2(-8.0 * double(h + 1) / double(heads)); }};
  if (variant == "documents" && param.rank == 1) {
    int64_t length = std::max(shape.queries, shape.keys);
    return MadeTensor{{length}, [length](int64_t i) { return double(i * 4 / std::max<int64_t>(length, 1)); }};
  }
  if (variant == "key-padding" && param.rank == 1)
    return MadeTensor{{shape.batch},
                      [shape](int64_t b) { return double(shape.keys - shape.keys * b / (2 * shape.batch)); }};
  if (variant == "relative-bias" && param.rank == 2)
    return MadeTensor{{shape.heads, std::max<int64_t>(shape.queries + shape.keys - 1, 0)}};
  if (variant == "bias" && param.rank == 3)
    return MadeTensor{{shape.heads, shape.queries, shape.keys}};
  if (variant == "block-sparse" && param.rank == 3 && request.variant->blockPattern()) {
    auto blocks = [](int64_t length, int64_t size) { return (length + size - 1) / size; };
    const BlockPattern &pattern = *request.variant->blockPattern();
    return MadeTensor{{shape.heads, blocks(shape.queries, pattern.rows), blocks(shape.keys, pattern.columns)}};
  }
  return std::nullopt;
}

/// Whether makeTensor has data: from a flag, or that of a built-in.
static bool hasData(const Request &request, const TensorParam &param, const Shape &shape) {
  const auto flag = std::ranges::find(request.tensors, param.name, &TensorFlag::name);
  return flag != request.tensors.end() ? !flag->source.empty() : builtinDefault(request, param, shape).has_value();
}

static bool hasValue(const Request &request, const ScalarParam &param) {
  return std::ranges::find(request.scalars, param.name, &ScalarFlag::name) != request.scalars.end();
}

Expected<void> attune::cli::requireData(const Request &request, const std::vector<TensorParam> &tensors,
                                        const std::vector<ScalarParam> &scalars, const Shape &shape) {
  static constexpr std::string_view dims[] = {"", "N", "M,N", "L,M,N", "K,L,M,N"};
  std::vector<std::string> absent, flags;
  for (const TensorParam &param : tensors)
    if (!hasData(request, param, shape)) {
      absent.push_back(fmt::format("captured tensor {}", param.name));
      flags.push_back(fmt::format("--tensor {}={}[{}]:random", param.name, name(param.dtype), dims[param.rank]));
    }
  const bool needsTensor = !absent.empty();
  for (const ScalarParam &param : scalars)
    if (!hasValue(request, param)) {
      absent.push_back(fmt::format("run-time scalar {}", param.name));
      flags.push_back(fmt::format("--scalar {}=VALUE", param.name));
    }
  if (absent.empty())
    return {};
  const bool one = absent.size() == 1;
  return Error{fmt::format("{} {} no {}; add {}{}", fmt::join(absent, ", "), one ? "has" : "have",
                           needsTensor ? "data" : "value", fmt::join(flags, " "),
                           !needsTensor ? ""
                           : one        ? " or a .npy file"
                                        : ", or .npy files in the place of random")};
}

/// Twice what the tensor takes has to be there: the reference has a copy.
static Expected<HostTensor> fill(const std::string &name, DType dtype, const MadeTensor &made, uint64_t seed) {
  reference::MemoryNeed need;
  need.add("for the kernel", byteSize(dtype), made.dims);
  need.add("for the reference", byteSize(dtype), made.dims);
  if (Expected<void> fits =
          need.fits(fmt::format("captured tensor {} of [{}]", name, fmt::join(made.dims, ", ")), "make it smaller");
      !fits)
    return fits.error();
  if (!made.value)
    return HostTensor::random(dtype, made.dims, seed);
  HostTensor tensor = HostTensor::zeros(dtype, made.dims);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, made.value(i));
  return tensor;
}

Expected<HostTensor> attune::cli::makeTensor(const Request &request, const TensorParam &param, const Shape &shape,
                                             uint64_t seed) {
  const TensorFlag *flag = nullptr;
  for (const TensorFlag &candidate : request.tensors)
    if (candidate.name == param.name)
      flag = &candidate;
  if (!flag) {
    std::optional<MadeTensor> made = builtinDefault(request, param, shape);
    assert(made && "requireData comes first");
    return fill(param.name, param.dtype, *made, seed);
  }
  if (flag->dtype != param.dtype)
    return Error{fmt::format("--tensor {} is {}, the variant declares {}; convert the data", param.name,
                             name(flag->dtype), name(param.dtype))};
  std::vector<int64_t> dims;
  if (flag->dims) {
    for (const std::string &dim : *flag->dims) {
      if (std::optional<int64_t> number = integer(dim))
        dims.push_back(*number);
      else
        dims.push_back(dim == "B"     ? shape.batch
                       : dim == "H"   ? shape.heads
                       : dim == "Hkv" ? shape.headsKv
                       : dim == "Sq"  ? shape.queries
                                      : shape.keys);
    }
  }
  HostTensor tensor;
  if (!flag->source.ends_with(".npy")) {
    MadeTensor made{dims};
    if (flag->range)
      made.value = [&](int64_t i) { return flag->range->draw(flag->dtype, seed, uint64_t(i)); };
    else if (flag->source != "random")
      made.value = [one = flag->source == "ones"](int64_t) { return one ? 1.0 : 0.0; };
    Expected<HostTensor> filled = fill(param.name, flag->dtype, made, seed);
    if (!filled)
      return filled.error();
    tensor = std::move(*filled);
  } else {
    Expected<HostTensor> file = reference::readNpy(flag->source, reference::VoidElements::BFloat16);
    if (!file)
      return file.error();
    if (flag->dims && file->shape != dims)
      return Error{fmt::format("--tensor {} has shape [{}], {} holds [{}]; leave out the shape", param.name,
                               fmt::join(dims, ", "), flag->source, fmt::join(file->shape, ", "))};
    tensor = file->converted(flag->dtype);
  }
  if (int(tensor.shape.size()) != param.rank)
    return Error{fmt::format("--tensor {} has rank {}, the variant indexes {}; correct its dims", param.name,
                             tensor.shape.size(), param.rank)};
  return tensor;
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
