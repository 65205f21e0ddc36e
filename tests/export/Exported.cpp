#include "tests/export/Exported.h"

#include "driver/Lowering.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

using namespace attune;
namespace fs = std::filesystem;

/// C that fills NAME_args from a Problem.
static std::string callerOf(const KernelSignature &signature) {
  std::string text = R"(#include "kernel.h"
#include "Problem.h"
#include <string.h>
static kernel_args args_of(const Problem *p) {
  kernel_args args;
  kernel_defaults(&args, p->batch, p->heads, p->headsKv, p->queries, p->keys);
  args.q = p->q, args.k = p->k, args.v = p->v, args.o = p->o, args.lse = p->lse;
  memcpy(args.q_strides, p->strides[0], sizeof args.q_strides);
  memcpy(args.k_strides, p->strides[1], sizeof args.k_strides);
  memcpy(args.v_strides, p->strides[2], sizeof args.v_strides);
  memcpy(args.o_strides, p->strides[3], sizeof args.o_strides);
  memcpy(args.lse_strides, p->strides[4], sizeof args.lse_strides);
)";
  if (signature.dropout)
    text += "  args.dropout = p->dropout, args.seed = p->seed, args.offset = p->offset;\n"
            "  args.seed_pointer = p->seedPointer, args.offset_pointer = p->offsetPointer;\n";
  if (signature.qOffset)
    text += "  args.q_offset = p->qOffset;\n";
  for (size_t i = 0; i < signature.scalars.size(); ++i)
    text += fmt::format("  memcpy(&args.scalars.{0}, &p->scalars[{1}], sizeof args.scalars.{0});\n",
                        signature.scalars[i].name, i);
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const std::string member = signature.tensors[i].name +
                               (signature.tensors[i].name == "class" || signature.tensors[i].name == "NULL" ? "_" : "");
    const std::string pointer = name(signature.tensors[i].dtype) == "i32"    ? "(const int32_t *)"
                                : name(signature.tensors[i].dtype) == "i64"  ? "(const int64_t *)"
                                : name(signature.tensors[i].dtype) == "bool" ? "(const uint8_t *)"
                                : name(signature.tensors[i].dtype) == "f32"  ? "(const float *)"
                                                                             : "";
    text +=
        fmt::format("  args.tensors.{0}.data = {1}p->tensors[{2}].data;\n  memcpy(args.tensors.{0}.shape, "
                    "p->tensors[{2}].shape, sizeof "
                    "args.tensors.{0}.shape);\n"
                    "  memcpy(args.tensors.{0}.strides, p->tensors[{2}].strides, sizeof args.tensors.{0}.strides);\n",
                    member, pointer, i);
  }
  return text + R"(  args.workspace = p->workspace, args.workspace_bytes = p->workspaceBytes, args.stream = p->stream;
  return args;
}
#ifdef __cplusplus
extern "C" {
#endif
int call_launch(const Problem *p);
size_t call_workspace_bytes(const Problem *p);
int call_launch(const Problem *p) {
  const kernel_args args = args_of(p);
  return kernel_launch(&args);
}
size_t call_workspace_bytes(const Problem *p) {
  const kernel_args args = args_of(p);
  return kernel_workspace_bytes(&args);
}
#ifdef __cplusplus
}
#endif
)";
}

Exported::Exported(const std::vector<KernelImage> &images, const ExportOptions &options) {
  Expected<std::vector<ExportedFile>> files = exportKernel(images, options);
  if (!files)
    FAIL(files.error().text());
  folder = (fs::temp_directory_path() / "attune-export-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()));
  files->push_back({"caller.c", callerOf(images.front().signature)});
  for (const ExportedFile &file : *files)
    std::ofstream(fs::path(folder) / file.name, std::ios::binary) << file.content;
  auto shell = [&](const std::string &command) {
    const std::string whole = fmt::format("cd {} && {} 2>&1", folder, command);
    INFO(whole);
    REQUIRE(std::system(whole.c_str()) == 0);
  };
  const std::string include = fmt::format("-I{}/tests/export", ATTUNE_SOURCE_DIR);
  shell(fmt::format(
      "gcc -std=c99 -O1 -Wall -Wextra -Werror -pedantic -fPIC -shared {} kernel.c caller.c -o kernel.so -lm", include));
  shell(fmt::format("g++ -x c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only {} kernel.c caller.c", include));
  library = dlopen((folder + "/kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    REQUIRE(function);
  };
  find(launchFunction, "call_launch");
  find(loadFunction, "kernel_load");
  find(workspaceFunction, "call_workspace_bytes");
  find(errorFunction, "kernel_error");
}

Exported::~Exported() {
  if (library)
    dlclose(library);
  fs::remove_all(folder);
}

KernelImage imageWithoutCubin(const Variant &variant, const CompileOptions &options, const std::string &arch) {
  Expected<driver::Lowered> lowered =
      driver::lower({.variant = &variant}, options, Target::cuda(arch), Stage::Cuda, false);
  if (!lowered)
    FAIL(lowered.error().text());
  KernelImage image;
  image.name = lowered->summary.name;
  image.entry = "entry";
  image.arch = arch;
  image.signature = lowered->summary.signature;
  image.tileQ = lowered->plan.tileQ;
  image.tileK = lowered->plan.tileK;
  image.persistent = lowered->plan.persistent;
  image.threads = lowered->threads;
  image.sharedBytes = lowered->sharedBytes;
  image.nvrtcVersion = 13000;
  image.binary = {'\177', 'E', 'L', 'F'};
  image.planJson = "{}";
  return image;
}
