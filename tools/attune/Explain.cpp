//===- Explain.cpp - attune explain -----------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"
#include "tools/attune/Report.h"

#include "runtime/Nvrtc.h"

#include <cstdio>
#include <fmt/format.h>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

namespace {
struct ExplainFlags : Flags {
  int candidates = 10;
};

void printRanking(const ordered_json &explained, int limit) {
  const ordered_json &candidates = explained["candidates"];
  size_t accepted = 0;
  for (const ordered_json &candidate : candidates)
    accepted += candidate["rejected"].get<std::string>().empty();
  const ordered_json &sizes = explained["sizes"];
  print("ranking of {} schedules that fit ({} do not), predicted for B {} H {} Hkv {} Sq {} Sk {}\n", accepted,
             candidates.size() - accepted, sizes["batch"].get<int64_t>(), sizes["heads"].get<int64_t>(),
             sizes["headsKv"].get<int64_t>(), sizes["queries"].get<int64_t>(), sizes["keys"].get<int64_t>());
  print("  {:>4} {:>10} {:>10} {:>9} {:>4}  {}\n", "rank", "us", "hbm", "sram", "regs",
             "schedule (* the compiler's choice, for any size): limited by");
  int shown = 0, shownRejected = 0;
  for (const ordered_json &candidate : candidates) {
    std::string rejected = candidate["rejected"];
    std::string text = candidate["text"];
    if (rejected.empty() && (++shown <= limit || candidate["chosen"]))
      print(" {}{:>4} {:>10.1f} {:>10} {:>9} {:>4}  {}: {}\n", candidate["chosen"] ? '*' : ' ', shown, candidate["microseconds"].get<double>(),
                 bytesText(candidate["hbmBytes"].get<double>()), candidate["sharedBytes"].get<int64_t>(),
                 candidate["registers"].get<int>(), text, candidate.value("why", ""));
    else if (!rejected.empty() && shownRejected++ < std::min(limit, 5))
      print("  {:>4} {:>10} {:>10} {:>9} {:>4}  {}: {}\n", "-", "", "", candidate["sharedBytes"].get<int64_t>(),
                 candidate["registers"].get<int>(), text, rejected);
  }
}

int explainVerb(const ExplainFlags &flags) {
  Result<Request> request = resolve(flags);
  if (!request)
    return report(request.failure());
  if (flags.arch.empty() && !request->target.isCuda())
    request->target = Target::cuda("sm_90a");
  ProblemSizes sizes;
  if (request->shape)
    sizes = {request->shape->batch, request->shape->heads, request->shape->headsKv, request->shape->queries,
             request->shape->keys};
  Expected<std::string> text = explainRequest(*request, sizes);
  if (!text)
    return report({text.error()});
  ordered_json explained = ordered_json::parse(*text);

  // What the compiler made of the plan: offsets, registers and spills. The ranking stands without it.
  std::string uncompiled;
  Expected<KernelImage> image = cli::compileImage(*request);
  if (image) {
    ordered_json plan = planOf(*image);
    if (plan.is_object()) {
      for (const char *part : {"hbm", "predicted"})
        if (explained["plan"].contains(part))
          plan[part] = explained["plan"][part];
      explained["plan"] = plan;
    }
    explained["milliseconds"] = timesJson(image->times);
  } else {
    uncompiled = image.error().message;
    explained["notCompiled"] = uncompiled;
  }
  if (flags.json) {
    print("{}\n", explained.dump(2));
    return done;
  }
  print("{} {} head_dim {} x {} for {}\n{}{}", explained["variant"].get<std::string>(),
             explained["dtype"].get<std::string>(), explained["headDim"].get<int>(), explained["headDimV"].get<int>(),
             explained["arch"].get<std::string>(), planText(explained["plan"]),
             scheduleText(explained["plan"]));
  if (!uncompiled.empty())
    print("  {:<14} {}\n", "not compiled", uncompiled);
  printRanking(explained, flags.candidates);
  return done;
}
} // namespace

void attune::cli::addExplain(CLI::App &app, int &exitCode) {
  auto *verb = app.add_subcommand("explain", "the schedule that was chosen, what it costs, and what it was chosen from");
  verb->footer("Example: attune explain causal --arch sm_80 --head-dim 64 --sram-budget 65536\n"
               "Exit codes: 0 done, 1 failed, 2 usage.");
  auto flags = std::make_shared<ExplainFlags>();
  flags->addVariant(*verb);
  flags->addTarget(*verb, /*withTarget=*/false);
  flags->addShape(*verb);
  flags->addSchedule(*verb);
  verb->add_option("--candidates", flags->candidates, "rows of the ranking (10)")->check(wholeNumber(0, 1'000'000));
  flags->addCache(*verb);
  verb->callback([flags, &exitCode] { exitCode = explainVerb(*flags); });
}
