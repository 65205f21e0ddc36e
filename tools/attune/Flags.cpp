//===- Flags.cpp - The flags that the verbs share, and the parsing of their values --------===//

#include "tools/attune/Options.h"
#include "tools/attune/Usage.h"

#include "arch/ArchInfo.h"
#include "dsl/ForeignSyntax.h"
#include "dsl/Trace.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <set>

using namespace attune;
using namespace attune::cli;

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
  group.add_flag("--packed", flags.sequences,
                 "q, k and v hold the rows of several sequences one after another, which begin where the captured "
                 "tensors first_queries and first_keys say, i32[B + 1]; without data by --tensor a run has five of "
                 "unlike lengths, one of them empty. With --paged only q is packed, and B of --shape is the number of "
                 "sequences");
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

bool attune::cli::isName(std::string_view text) {
  auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || std::isdigit(static_cast<unsigned char>(c));
  });
}

std::optional<int64_t> attune::cli::integer(std::string_view text) {
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
