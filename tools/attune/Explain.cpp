//===- Explain.cpp - attune explain -----------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"
#include "tools/attune/Report.h"
#include "tools/attune/Roofline.h"
#include "tools/attune/RunProgram.h"
#include "tools/attune/Sweep.h"
#include "tools/attune/TileMaps.h"
#include "tools/attune/Usage.h"

#include "driver/Counters.h"
#include "runtime/Nvrtc.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

namespace {
struct ExplainFlags : RunFlags {
  int candidates = 10;
  bool measure = false, roofline = false;
  std::string sweep, svg;
};

/// This process's command as `attune run` takes it: what runs the kernel that is explained, some times.
Expected<std::vector<std::string>> runCommand() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::string> words;
  for (size_t at = 0; at < whole.size(); at += words.back().size() + 1)
    words.push_back(whole.substr(at, whole.find('\0', at) - at));
  std::error_code code;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code || words.size() < 2)
    return Error{"counting bytes runs this command again, but /proc/self does not tell it"};
  // What only explain has, and what the kernel for every size is explained without.
  std::vector<std::string> command = {self, "run"};
  bool verb = false;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string &word = words[i];
    if (!verb && word == "explain")
      verb = true;
    else if (word == "--candidates" || word == "--tuning")
      ++i;
    else if (word != "--measure" && word != "--json" && !word.starts_with("--candidates=") &&
             !word.starts_with("--tuning="))
      command.push_back(word);
  }
  for (const char *word : {"--no-check", "--repeats", "3", "--tuning", "off"})
    command.push_back(word);
  return command;
}

/// "counted" of the JSON: what ncu counts of the kernel for every size.
Expected<ordered_json> counted(const KernelImage &image) {
  Expected<std::vector<std::string>> command = runCommand();
  if (!command)
    return command.error();
  Expected<driver::CountedBytes> bytes = driver::countBytes(*command, image.main().symbol);
  Expected<double> left = bytes ? driver::countLeftBytes(*command) : bytes.error();
  if (!left)
    return left.error();
  // All kernels of the launch write.
  for (const KernelEntry &entry : image.entries)
    if (entry.symbol != image.main().symbol) {
      Expected<driver::CountedBytes> other = driver::countBytes(*command, entry.symbol);
      if (!other)
        return other.error();
      bytes->hbmWrittenBytes += other->hbmWrittenBytes;
    }
  return ordered_json{{"readBytes", bytes->readBytes},
                      {"writtenBytes", bytes->writtenBytes},
                      {"hbmReadBytes", bytes->hbmReadBytes},
                      {"hbmWrittenBytes", bytes->hbmWrittenBytes},
                      {"leftBytes", *left},
                      {"microseconds", bytes->microseconds}};
}

/// Model and counters side by side.
void printCounted(const ordered_json &counted, const ordered_json &plan) {
  const ordered_json &traffic = plan["traffic"];
  print("counted by ncu, an empty level 2 at the launch\n  {:<26} {:>11} {:>11} {:>7}\n", "", "model", "counted",
        "ratio");
  auto row = [&](const char *what, double model, double count) {
    print("  {:<26} {:>11} {:>11} {:>7.3f}\n", what, bytesText(model), bytesText(count), model / count);
  };
  row("L2 to multiprocessors", traffic["readBytes"].get<double>(), counted["readBytes"].get<double>());
  row("multiprocessors to L2", traffic["writtenBytes"].get<double>(), counted["writtenBytes"].get<double>());
  row("HBM to L2", traffic["hbmReadBytes"].get<double>(), counted["hbmReadBytes"].get<double>());
  const double left = counted["leftBytes"].get<double>();
  row("L2 to HBM", traffic["writtenBytes"].get<double>(), counted["hbmWrittenBytes"].get<double>() + left);
  print("  {:<26} {:>8.1f} us {:>8.1f} us {:>7.3f}\n  {} of what goes to HBM is in L2 when the kernel ends, and was "
        "counted while other memory was read behind it\n",
        "time", plan["predicted"]["microseconds"].get<double>(), counted["microseconds"].get<double>(),
        plan["predicted"]["microseconds"].get<double>() / counted["microseconds"].get<double>(), bytesText(left));
}

void printRanking(const ordered_json &explained, int limit) {
  const ordered_json &candidates = explained["candidates"];
  size_t accepted = 0;
  for (const ordered_json &candidate : candidates)
    accepted += candidate["rejected"].get<std::string>().empty();
  const ordered_json &sizes = explained["sizes"];
  const bool byMean = explained["rankedBy"] == "meanMicroseconds", cpu = explained["arch"] == "cpu";
  print("ranking of {} schedules that fit ({} do not) by {} for B {} H {} Hkv {} Sq {} Sk {}{}\n", accepted,
        candidates.size() - accepted, byMean ? "mean us" : "predicted us", sizes["batch"].get<int64_t>(),
        sizes["heads"].get<int64_t>(), sizes["headsKv"].get<int64_t>(), sizes["queries"].get<int64_t>(),
        sizes["keys"].get<int64_t>(),
        byMean ? "; the mean is the geometric one\nof the times of as many tokens in sequences of an eighth to four "
                 "times this length"
               : "");
  if (explained.contains("measured")) {
    const ordered_json &measured = explained["measured"];
    print("measured for class {}: {:.1f} us for {}, the best of {}; launches of these sizes start it\n",
          measured["sizeClass"].get<std::string>(), measured["microseconds"].get<double>(),
          measured["text"].get<std::string>(), measured["plans"].get<size_t>());
    for (const ordered_json &difference : measured["differs"])
      print("  not as then: {}\n", difference.get<std::string>());
  }
  // A column has its content, or nothing.
  auto row = [&](std::string_view mark, std::string_view rank, std::string_view mean, std::string_view time,
                 std::string_view traffic, std::string_view sram, std::string_view registers, std::string_view rest) {
    print(" {}{:>4} {}{:>10} {:>10} {:>9}{}  {}\n", mark, rank, byMean ? fmt::format("{:>10} ", mean) : "", time,
          traffic, sram, cpu ? "" : fmt::format(" {:>4}", registers), rest);
  };
  row(" ", "rank", "mean us", "us", "traffic", "sram", "regs",
      "schedule; limited by; why it is passed over (* the compiler's choice, for any size)");
  int shown = 0, shownRejected = 0;
  for (const ordered_json &candidate : candidates) {
    const std::string rejected = candidate["rejected"], text = candidate["text"], passedOver = candidate["passedOver"];
    const std::string sram = std::to_string(candidate["sharedBytes"].get<int64_t>()),
                      registers = std::to_string(candidate["registers"].get<int>());
    auto microseconds = [&](const char *key) { return fmt::format("{:.1f}", candidate[key].get<double>()); };
    if (rejected.empty() && (++shown <= limit || candidate["chosen"]))
      row(candidate["chosen"] ? "*" : " ", std::to_string(shown), microseconds("meanMicroseconds"),
          microseconds("microseconds"), bytesText(candidate["trafficBytes"].get<double>()), sram, registers,
          fmt::format("{}; {}{}{}", text, candidate["limitedBy"].get<std::string>(), passedOver.empty() ? "" : "; ",
                      passedOver));
    else if (!rejected.empty() && shownRejected++ < std::min(limit, 5))
      row(" ", "-", "", "", "", sram, registers, text + "; " + rejected);
  }
}

std::string headline(const std::string &kernel, DType dtype, int headDim, int headDimV, const std::string &arch) {
  // A program without head dims has none to show.
  const std::string dims = headDim ? fmt::format(" head_dim {} x {}", headDim, headDimV) : "";
  return fmt::format("{} {}{} for {}", kernel, name(dtype), dims, arch);
}

/// Text that holds its schedule: what came of it, with the remarks of the passes. There is nothing to rank.
int explainSchedule(const ExplainFlags &flags, const Request &request) {
  Expected<KernelImage> image = cli::compileImage(request);
  if (!image)
    return report({image.error()});
  const KernelSignature &signature = image->signature;
  const ordered_json plan = planOf(*image);
  if (flags.json) {
    const ordered_json explained = {{"variant", image->name},
                                    {"arch", image->arch},
                                    {"dtype", name(signature.dtype)},
                                    {"headDim", signature.headDim},
                                    {"headDimV", signature.headDimV},
                                    {"path", image->path},
                                    {"plan", plan},
                                    {"candidates", ordered_json::array()},
                                    {"milliseconds", timesJson(image->times)}};
    print("{}\n", explained.dump(2));
    return done;
  }
  print("{}\n{}{}", headline(image->name, signature.dtype, signature.headDim, signature.headDimV, image->arch),
        planText(plan), scheduleText(plan));
  print("  {:<14} none: the text holds its schedule\n", "ranking");
  return done;
}

/// "counted" of the JSON: what ncu counts of each kernel of the launch, and what goes from L2 to HBM behind it.
Expected<ordered_json> countedKernels(const KernelImage &image) {
  Expected<std::vector<std::string>> command = runCommand();
  if (!command)
    return command.error();
  ordered_json counted = ordered_json::array();
  for (const KernelEntry &entry : image.entries) {
    Expected<driver::CountedBytes> bytes = driver::countBytes(*command, entry.symbol);
    if (!bytes)
      return bytes.error();
    counted.push_back({{"name", entry.symbol},
                       {"hbmReadBytes", bytes->hbmReadBytes},
                       {"hbmWrittenBytes", bytes->hbmWrittenBytes},
                       {"microseconds", bytes->microseconds}});
  }
  // The forward pass is timed first: launches that warm up, and those of `--repeats`.
  Expected<double> left = driver::countLeftBytes(*command, 2 * 3);
  if (!left)
    return left.error();
  return ordered_json{{"kernels", counted}, {"leftBytes", *left}};
}

void printBackward(const ordered_json &explained) {
  auto number = [](const ordered_json &from, const char *key) { return from[key].get<double>(); };
  const ordered_json &sizes = explained["sizes"];
  print("  {:<14} {:.3g} operations, {} of HBM, {:.1f} us predicted (B {} H {} Hkv {} Sq {} Sk {}); standard attention "
        "moves {}\n",
        "backward", number(explained, "flops"), bytesText(number(explained, "hbmBytes")),
        number(explained, "microseconds"), sizes["batch"].get<int64_t>(), sizes["heads"].get<int64_t>(),
        sizes["headsKv"].get<int64_t>(), sizes["queries"].get<int64_t>(), sizes["keys"].get<int64_t>(),
        bytesText(number(explained, "standardAttentionBytes")));
  for (const ordered_json &kernel : explained["kernels"])
    print("  {:<14} {:<18} {:.3g} operations, {} read, {} written, {:.1f} us\n", "", kernel["name"].get<std::string>(),
          number(kernel, "flops"), bytesText(number(kernel, "hbmReadBytes")),
          bytesText(number(kernel, "hbmWrittenBytes")), number(kernel, "microseconds"));
  if (explained.contains("counted")) {
    const ordered_json &counted = explained["counted"];
    for (const ordered_json &kernel : counted["kernels"])
      print("  {:<14} {:<18} {} read, {} written, {:.1f} us\n", "counted", kernel["name"].get<std::string>(),
            bytesText(number(kernel, "hbmReadBytes")), bytesText(number(kernel, "hbmWrittenBytes")),
            number(kernel, "microseconds"));
    print("  {:<14} {:<18} {} written from L2 behind the launch\n", "counted", "",
          bytesText(number(counted, "leftBytes")));
  }
  const ordered_json &forward = explained["forward"];
  print("  {:<14} {:.1f} us predicted, of these {:.1f} for what it saves\n", "forward", number(forward, "microseconds"),
        number(forward, "savingMicroseconds"));
  for (const ordered_json &value : explained["values"]) {
    const std::string reason = value["reason"];
    std::string gain;
    if (value.contains("microsecondsGained")) {
      const double gained = number(value, "microsecondsGained");
      gain = fmt::format("; saved, both passes take {:.1f} us {}", std::abs(gained), gained > 0 ? "less" : "more");
    }
    print("  {:<14} {:<8} {:<14} {}{}{}\n", "value", value["value"].get<std::string>(),
          value["saved"].get<bool>() ? "saved" : "recomputed", bytesText(number(value, "bytes")), gain,
          reason.empty() ? "" : "; " + reason);
  }
}

/// The backward pass: no ranking, as it has one plan.
int explainBackward(const ExplainFlags &flags, const Request &request, const std::string &text) {
  ordered_json explained = ordered_json::parse(text);
  Expected<KernelImage> image = cli::compileImage(request);
  if (!image)
    return report({image.error()});
  explained["plan"] = planOf(*image);
  explained["milliseconds"] = timesJson(image->times);
  if (flags.measure) {
    Expected<ordered_json> counted = countedKernels(*image);
    if (!counted)
      return report({counted.error()});
    explained["counted"] = *counted;
  }
  if (flags.json) {
    print("{}\n", explained.dump(2));
    return done;
  }
  const KernelSignature &signature = image->signature;
  print("{}, backward\n{}{}",
        headline(image->name, signature.dtype, signature.headDim, signature.headDimV, image->arch),
        planText(explained["plan"]), scheduleText(explained["plan"]));
  printBackward(explained);
  return done;
}

/// Compiles nothing.
int roofline(const ExplainFlags &flags, const ordered_json &explained) {
  Expected<Roofline> line = Roofline::of(explained);
  if (!line)
    return report({line.error()});
  if (!flags.svg.empty())
    if (Expected<void> written = writeFile(flags.svg, line->svg()); !written)
      return report({written.error()});
  if (flags.json)
    print("{}\n", ordered_json{{"variant", explained["variant"]},
                               {"arch", explained["arch"]},
                               {"text", explained["plan"]["text"]},
                               {"microseconds", line->microseconds},
                               {"unitMicroseconds", line->units},
                               {"flops", line->flops},
                               {"hbmBytes", line->hbmBytes},
                               {"standardAttentionBytes", line->standardBytes},
                               {"peakFlops", line->peakFlops},
                               {"peakBytes", line->peakBytes}}
                      .dump(2));
  else
    print("{}", line->text());
  return done;
}

/// Whether the request is text of a later stage than attn.
bool holdsSchedule(const Request &request) { return request.summary && request.summary->stage != Stage::Attn; }

/// Why the flags do not go together, or with this request.
std::optional<Failure> contradiction(const ExplainFlags &flags, const Request &request) {
  const bool sweeps = !flags.sweep.empty();
  if (!flags.svg.empty() && !sweeps && !flags.roofline)
    return usageError("--svg draws a sweep or a roofline; add --sweep or --roofline");
  if (sweeps && flags.roofline)
    return usageError("--sweep and --roofline are two pictures; ask for one at a time");
  if (holdsSchedule(request)) {
    if (!flags.measure && !flags.roofline && !sweeps)
      return std::nullopt;
    return usageError(fmt::format("--{} asks the cost model, which has nothing to say of text that holds its "
                                  "schedule; explain its attn text",
                                  flags.measure    ? "measure"
                                  : flags.roofline ? "roofline"
                                                   : "sweep"));
  }
  if (request.options.backward && (sweeps || flags.roofline))
    return usageError(
        fmt::format("--{} draws the forward pass; leave out --backward", flags.roofline ? "roofline" : "sweep"));
  if (sweeps || !flags.measure)
    return std::nullopt;
  if (!request.shape)
    return usageError("--measure runs the kernel, and needs its sizes; add --shape");
  if (Expected<Target> gpu = Target::parse("gpu"); !gpu)
    return usageError(fmt::format("--measure counts what a GPU does, and there is none that can be used\nnote: {}",
                                  gpu.error().message));
  return std::nullopt;
}

/// Adds what the compiler made of the plan: offsets, registers and spills. The ranking stands without it.
Expected<void> addCompiled(const ExplainFlags &flags, const Request &request, ordered_json &explained) {
  Expected<KernelImage> image = cli::compileImage(request);
  if (!image && flags.measure)
    return image.error();
  if (!image) {
    explained["notCompiled"] = image.error().message;
    return {};
  }
  ordered_json plan = planOf(*image);
  if (plan.is_object()) {
    for (const char *part : {"traffic", "predicted"})
      if (explained["plan"].contains(part))
        plan[part] = explained["plan"][part];
    explained["plan"] = plan;
  }
  explained["milliseconds"] = timesJson(image->times);
  if (!flags.measure)
    return {};
  Expected<ordered_json> bytes = counted(*image);
  if (!bytes)
    return bytes.error();
  explained["counted"] = *bytes;
  return {};
}

void printExplained(const ordered_json &explained, size_t candidates) {
  print("{} {} head_dim {} x {} for {}\n{}{}", explained["variant"].get<std::string>(),
        explained["dtype"].get<std::string>(), explained["headDim"].get<int>(), explained["headDimV"].get<int>(),
        explained["arch"].get<std::string>(), planText(explained["plan"]), scheduleText(explained["plan"]));
  if (explained.contains("notCompiled"))
    print("  {:<14} {}\n", "not compiled", explained["notCompiled"].get<std::string>());
  if (explained.contains("counted"))
    printCounted(explained["counted"], explained["plan"]);
  printRanking(explained, candidates);
}

int explainVerb(const ExplainFlags &flags) {
  Result<Request> request = resolve(flags);
  if (!request)
    return report(request.failure());
  if (flags.arch.empty() && !request->target.isCuda())
    request->target = Target::cuda("sm_90a");
  if (std::optional<Failure> wrong = contradiction(flags, *request))
    return report(*wrong);
  if (holdsSchedule(*request) && !flags.extents.empty())
    return explainProgram(flags, *request, size_t(flags.candidates));
  if (holdsSchedule(*request))
    return explainSchedule(flags, *request);
  if (!flags.extents.empty())
    return report(usageError("--extents is for programs in tile text; a variant's sizes are --shape"));
  const ProblemSizes sizes = request->shape ? sizesOf(*request->shape) : ProblemSizes();
  if (!flags.sweep.empty())
    return sweep(*request, sizes, flags.sweep, flags.svg, flags.json);
  Expected<std::shared_ptr<const TileMap>> tiles = std::shared_ptr<const TileMap>();
  if (request->shape)
    tiles = knownTileMap(*request, *request->shape);
  if (!tiles)
    return report({tiles.error()});
  Expected<std::string> text = explainRequest(*request, sizes, *tiles);
  if (!text)
    return report({text.error()});
  if (request->options.backward)
    return explainBackward(flags, *request, *text);
  ordered_json explained = ordered_json::parse(*text);
  if (flags.roofline)
    return roofline(flags, explained);
  if (Expected<void> added = addCompiled(flags, *request, explained); !added)
    return report({added.error()});
  if (flags.json)
    print("{}\n", explained.dump(2));
  else
    printExplained(explained, flags.candidates);
  return done;
}
} // namespace

void attune::cli::addExplain(CLI::App &app, int &exitCode) {
  auto *verb =
      app.add_subcommand("explain", "the schedule that was chosen, what it costs, and what it was chosen from");
  verb->footer("Example: attune explain causal --arch sm_80 --head-dim 64 --sram-budget 65536\n"
               "Exit codes: 0 done, 1 failed, 2 usage.");
  auto flags = std::make_shared<ExplainFlags>();
  flags->addVariant(*verb);
  flags->addTarget(*verb, /*withTarget=*/false);
  flags->addShape(*verb);
  flags->addSchedule(*verb);
  flags->addGradients(*verb);
  flags->addTuning(*verb, /*measures=*/false);
  verb->add_option("--candidates", flags->candidates, "rows of the ranking (10)")->check(wholeNumber(0, 1'000'000));
  verb->add_flag("--measure", flags->measure,
                 "count the bytes of a launch by Nsight Compute (ncu) on this GPU, next to the model's; needs --shape");
  verb->add_option("--sweep", flags->sweep,
                   "instead: bytes and time of the model's plan over the shared memory that a block may have, the keys "
                   "of a tile, the length, or the density of a block pattern, next to the paper's law")
      ->check(oneOf(sweepNames()));
  verb->add_flag("--roofline", flags->roofline,
                 "instead: the time that each unit takes by the model, and the roofs of HBM and of the products");
  verb->add_option("--svg", flags->svg, "with --sweep or --roofline: draw it")->type_name("FILE");
  addExtents(*verb->add_option_group("Programs of your own, in tile text"), *flags);
  flags->addCache(*verb);
  verb->callback([flags, &exitCode] { exitCode = explainVerb(*flags); });
}
