#include "tests/export/Exported.h"

#include "driver/Lowering.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

using namespace attune;
namespace fs = std::filesystem;

/// A member's name for what the signature calls `name`.
static std::string memberOf(std::string name) {
  std::ranges::replace(name, '.', '_');
  return name + (name == "class" || name == "NULL" || name == "do" ? "_" : "");
}

static std::string stridesMember(std::string name) {
  std::ranges::replace(name, '.', '_');
  return name + "_strides";
}

/// NAME_args' members for the extents of signature.axes().
static std::vector<std::string> extentMembers(const KernelSignature &signature) {
  std::vector<std::string> members;
  for (const std::string &axis : signature.axes())
    members.push_back(axis == "b"     ? "batch"
                      : axis == "h"   ? "heads"
                      : axis == "hkv" ? "heads_kv"
                      : axis == "q"   ? "query_length"
                      : axis == "k"   ? "key_length"
                                      : axis);
  return members;
}

/// C that gives NAME_defaults of a Problem's extents, in the order that the header has: batch, heads, heads_kv,
/// query_length and key_length before others.
static std::string defaultsCall(const KernelSignature &signature) {
  const std::vector<std::string> members = extentMembers(signature);
  std::string text = "  kernel_defaults(&args";
  auto add = [&](const std::string &member) {
    for (size_t i = 0; i < members.size(); ++i)
      if (members[i] == member)
        text += fmt::format(", p->extents[{}]", i);
  };
  const std::vector<std::string> known = {"batch", "heads", "heads_kv", "query_length", "key_length"};
  for (const std::string &member : known)
    add(member);
  for (const std::string &member : members)
    if (std::find(known.begin(), known.end(), member) == known.end())
      add(member);
  return text + ");\n";
}

/// C++ has no conversion from void * to them.
static std::string pointerTo(DType dtype) {
  const std::string_view dtypeName = name(dtype);
  return dtypeName == "i32"    ? "int32_t *"
         : dtypeName == "i64"  ? "int64_t *"
         : dtypeName == "bool" ? "uint8_t *"
         : dtypeName == "f32"  ? "float *"
                               : "void *";
}

/// C that goes through the members of operands: `line` with the member for {0}, the operand's number for {1} and a
/// cast for {2}.
static std::string forOperands(const KernelSignature &signature, const std::string &line, bool ofStrides) {
  std::string text;
  for (size_t i = 0; i < given(signature).size(); ++i) {
    const OperandParam &operand = given(signature)[i];
    if (!ofStrides)
      text += fmt::format(fmt::runtime(line), memberOf(operand.name), i,
                          operand.isTiled() ? "" : "(" + pointerTo(operand.dtype) + ")");
    else if (operand.rank() > int(operand.isTiled()))
      text += fmt::format(fmt::runtime(line), stridesMember(operand.name), i, "");
  }
  return text;
}

/// C that gives what NAME_defaults writes, in a Problem.
static std::string defaultsOf(const KernelSignature &signature) {
  std::string text = "void call_defaults(const Problem *p, Problem *to);\n"
                     "void call_defaults(const Problem *p, Problem *to) {\n"
                     "  kernel_args args;\n"
                     "  memset(to, 0, sizeof *to);\n" +
                     defaultsCall(signature) +
                     forOperands(signature, "  memcpy(to->strides[{1}], args.{0}, sizeof args.{0});\n", true) +
                     forOperands(signature, "  to->operands[{1}] = args.{0} ? to : NULL;\n", false);
  const std::vector<std::string> members = extentMembers(signature);
  for (size_t i = 0; i < members.size(); ++i)
    text += fmt::format("  to->extents[{}] = args.{};\n", i, members[i]);
  return text + "}\n";
}

/// C that fills NAME_args from a Problem.
static std::string callerOf(const KernelSignature &signature) {
  std::string text = R"(#include "kernel.h"
#include "Problem.h"
#include <string.h>
static kernel_args args_of(const Problem *p) {
  kernel_args args;
)" + defaultsCall(signature) +
                     forOperands(signature, "  args.{0} = {2}p->operands[{1}];\n", false) +
                     forOperands(signature, "  memcpy(args.{0}, p->strides[{1}], sizeof args.{0});\n", true);
  if (signature.dropout)
    text += "  args.dropout = p->dropout, args.seed = p->seed, args.offset = p->offset;\n"
            "  args.seed_pointer = p->seedPointer, args.offset_pointer = p->offsetPointer;\n";
  if (signature.qOffset)
    text += "  args.q_offset = p->qOffset;\n";
  for (size_t i = 0; i < signature.scalars.size(); ++i)
    text += fmt::format("  memcpy(&args.scalars.{0}, &p->scalars[{1}], sizeof args.scalars.{0});\n",
                        signature.scalars[i].name, i);
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const std::string member = memberOf(signature.tensors[i].name),
                      pointer = "(const " + pointerTo(signature.tensors[i].dtype) + ")";
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
)" + defaultsOf(signature) +
         R"(#ifdef __cplusplus
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
  find(defaultsFunction, "call_defaults");
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
  image.entries = lowered->entries;
  for (KernelEntry &entry : image.entries)
    entry.symbol = "entry";
  image.arch = arch;
  image.signature = lowered->summary.signature;
  image.tileQ = lowered->plan.tileQ;
  image.tileK = lowered->plan.tileK;
  image.nvrtcVersion = 13000;
  image.binary = {'\177', 'E', 'L', 'F'};
  image.planJson = "{}";
  return image;
}
