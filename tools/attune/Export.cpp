//===- Export.cpp - attune export -------------------------------------------===//
//
// Compiles for several architectures and writes cubins, the plans, and C sources that launch the kernel without attune.
//
//===----------------------------------------------------------------------===//

#include "tools/attune/Options.h"
#include "tools/attune/Output.h"

#include "arch/ArchInfo.h"
#include "driver/Export.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using namespace attune;
using namespace attune::cli;
using nlohmann::ordered_json;

namespace {
struct ExportFlags : Flags {
  std::vector<std::string> archs;
  std::string folder;
};

enum class Pass { Forward, Backward };

/// The kernels of a pass for all of --arch, and the variant's dropout probability.
Result<std::vector<KernelImage>> compileAll(const ExportFlags &flags, Pass pass, float &dropout) {
  std::vector<KernelImage> images;
  for (const std::string &arch : flags.archs) {
    Flags one = flags;
    one.arch = arch;
    one.name.clear(); // of the files: the kernel, which may be cached, keeps the variant's
    Result<Request> request = resolve(one);
    if (!request)
      return request.failure();
    if (!request->target.isCuda())
      return usageError("--arch cpu: only CUDA kernels can be exported; name architectures such as sm_80,sm_90a");
    request->options.backward = pass == Pass::Backward;
    if (pass == Pass::Backward) // the schedule is the forward pass's
      assignSchedule(request->options, CompileOptions());
    Expected<KernelImage> image = cli::compileImage(*request);
    if (!image)
      return image.error();
    images.push_back(std::move(*image));
    dropout = request->variant ? request->variant->dropoutProbability() : float(flags.dropout.value_or(0));
  }
  return images;
}

/// A pass's files are added to `files`. Gives the variant's name.
Result<std::string> exportPass(const ExportFlags &flags, Pass pass, std::vector<ExportedFile> &files) {
  ExportOptions options{.name = flags.name, .suffix = pass == Pass::Backward ? "_backward" : ""};
  Result<std::vector<KernelImage>> images = compileAll(flags, pass, options.dropout);
  if (!images)
    return images.failure();
  Expected<std::vector<ExportedFile>> exported = exportKernel(*images, options);
  if (!exported)
    return Failure{exported.error(), usage};
  std::ranges::move(*exported, std::back_inserter(files));
  return images->front().name;
}

int exportVerb(const ExportFlags &flags) {
  std::vector<ExportedFile> files;
  Result<std::string> variant = exportPass(flags, Pass::Forward, files);
  if (variant && flags.backward)
    variant = exportPass(flags, Pass::Backward, files);
  if (!variant)
    return report(variant.failure());
  std::error_code code;
  std::filesystem::create_directories(flags.folder, code);
  if (code)
    return report({Error{fmt::format("{} cannot be made: {}", flags.folder, code.message())}});
  std::vector<OutputFile> outputs;
  ordered_json written = ordered_json::array();
  for (const ExportedFile &file : files) {
    outputs.push_back({(std::filesystem::path(flags.folder) / file.name).string(), file.content});
    written.push_back({{"path", outputs.back().path}, {"bytes", file.content.size()}});
  }
  if (Expected<void> all = writeFiles(outputs); !all)
    return report({all.error()});
  if (flags.json) {
    print("{}\n", ordered_json{{"variant", *variant}, {"archs", flags.archs}, {"files", written}}.dump(2));
    return done;
  }
  for (const ordered_json &file : written)
    print("{:>9}  {}\n", bytesText(file["bytes"].get<double>()), file["path"].get<std::string>());
  return done;
}
} // namespace

void attune::cli::addExport(CLI::App &app, int &exitCode) {
  auto *verb = app.add_subcommand("export", "write cubins and C sources that launch them with the CUDA driver alone");
  verb->footer(
      "Example: attune export causal --arch sm_80,sm_90a --head-dim 128 -o out && cc -c out/causal.c\n"
      "Writes NAME.h, NAME.c (launcher and cubins, C99 and C++17), NAME.json (plans) and NAME.ARCH.cubin; with\n"
      "--backward the same of the backward pass, too, as NAME_backward.\n"
      "Exit codes: 0 done, 1 failed, 2 usage.");
  auto flags = std::make_shared<ExportFlags>();
  flags->addVariant(*verb);
  auto *group = verb->add_option_group("Target");
  group
      ->add_option("--arch", flags->archs,
                   fmt::format("one or more of {}, with commas between them", archNames(&ArchInfo::isGpu)))
      ->type_name("ARCHS")
      ->delimiter(',')
      ->required();
  flags->addTypes(*group);
  flags->addSchedule(*verb);
  flags->addGradients(*verb);
  auto *output = verb->add_option_group("Output");
  output->add_option("-o,--output", flags->folder, "folder to write to; made where it is not there")
      ->type_name("DIR")
      ->required();
  flags->addCache(*verb);
  verb->callback([flags, &exitCode] { exitCode = exportVerb(*flags); });
}
