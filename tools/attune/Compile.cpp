//===- Compile.cpp - attune compile -----------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"
#include "tools/attune/Report.h"
#include "tools/attune/Usage.h"

#include <chrono>
#include <fmt/format.h>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

namespace {
struct CompileFlags : Flags {
  std::string stage;
  std::string output;
  bool printAfterAll = false;
};

/// Without --emit: compile into the cache and say what came out.
int summarize(const CompileFlags &flags, const Request &request) {
  auto begin = std::chrono::steady_clock::now();
  Expected<KernelImage> image = cli::compileImage(request);
  if (!image)
    return report({image.error()});
  double milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  ordered_json plan = planOf(*image);
  if (flags.json) {
    ordered_json result = {{"variant", image->name},
                           {"arch", image->arch},
                           {"dtype", name(image->signature.dtype)},
                           {"headDim", image->signature.headDim},
                           {"headDimV", image->signature.headDimV},
                           {"path", image->path},
                           {"entry", image->main().symbol},
                           {"threads", image->main().threads},
                           {"sharedBytes", image->main().sharedBytes},
                           {"registers", image->main().registers},
                           {"spillBytes", image->main().spillBytes},
                           {"binaryBytes", image->binary.size()},
                           {"cacheHit", image->cacheHit},
                           {"totalMilliseconds", milliseconds},
                           {"milliseconds", timesJson(image->times)},
                           {"log", image->log},
                           {"plan", plan}};
    print("{}\n", result.dump(2));
    return done;
  }
  print("{} {} head_dim {} x {} for {} ({})\n{}", image->name, name(image->signature.dtype), image->signature.headDim,
        image->signature.headDimV, image->arch, image->path, planText(plan));
  print("  {:<14} {} bytes\n", "binary", image->binary.size());
  print("  {:<14} {}\n", "compile", compileText(image->times, image->cacheHit, milliseconds, request));
  if (!image->log.empty())
    printError("NVRTC: {}\n", image->log);
  return done;
}

int compileVerb(CompileFlags flags) {
  if (flags.output == "-") // standard output, as without
    flags.output.clear();
  std::optional<Stage> stage;
  if (!flags.stage.empty())
    stage = parseStage(flags.stage);
  if (stage == Stage::Cubin && flags.output.empty())
    return report(usageError("--emit cubin needs -o PATH; a cubin is binary"));
  if (!flags.output.empty() && !stage)
    return report(usageError("-o needs --emit; choose one of dsl attn tile sched llvm cuda ptx cubin sass"));
  Result<Request> request = resolve(flags);
  if (!request)
    return report(request.failure());
  request->options.printAfterAll = flags.printAfterAll;
  // A machine without a GPU still compiles for one, and one with a GPU for the stage that is the CPU's.
  if (stage == Stage::Llvm && flags.arch.empty())
    request->target = Target::cpu();
  else if (flags.arch.empty() && !request->target.isCuda() &&
           !(request->summary && request->summary->stage == Stage::Sched))
    request->target = Target::cuda("sm_90a");
  if (!stage)
    return summarize(flags, *request);

  Expected<std::string> text = emitStage(*request, *stage);
  if (!text)
    return report({text.error()});
  if (*stage != Stage::Cubin && !text->empty() && text->back() != '\n')
    *text += '\n';
  if (!flags.output.empty())
    if (Expected<void> written = writeFile(flags.output, *text); !written)
      return report({written.error()});
  if (flags.json) {
    ordered_json result = {
        {"variant", request->label}, {"arch", request->target.arch}, {"stage", flags.stage}, {"bytes", text->size()}};
    if (flags.output.empty())
      result["text"] = *text;
    else
      result["output"] = flags.output;
    print("{}\n", result.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else if (flags.output.empty()) {
    write(*text);
  }
  return done;
}
} // namespace

void attune::cli::addCompile(CLI::App &app, int &exitCode) {
  auto *verb = app.add_subcommand("compile", "compile a variant, or print one of its stages");
  verb->footer("Examples:\n"
               "  attune compile softcap --cap 30 --arch sm_80 --head-dim 128 --dtype bf16 --emit cuda\n"
               "  attune compile causal --emit tile -o causal.mlir && attune compile causal.mlir --emit cuda\n"
               "Exit codes: 0 done, 1 failed, 2 usage.");
  auto flags = std::make_shared<CompileFlags>();
  flags->addVariant(*verb);
  flags->addTarget(*verb, /*withTarget=*/false);
  flags->addSchedule(*verb);
  verb->add_option("--emit", flags->stage,
                   "print this stage: dsl, attn, tile, sched, llvm (the CPU's), cuda, ptx, cubin or sass (by nvdisasm)")
      ->check(oneOf({"dsl", "attn", "tile", "sched", "llvm", "cuda", "ptx", "cubin", "sass"}));
  verb->add_option("-o,--output", flags->output, "write the stage to a file; - is standard output")->type_name("PATH");
  flags->addGradients(*verb);
  flags->addCuda(*verb);
  verb->add_flag("--print-after-all", flags->printAfterAll,
                 "print the IR after each pass to standard error; compiles without the cache");
  flags->addCache(*verb);
  verb->callback([flags, &exitCode] { exitCode = compileVerb(*flags); });
}
