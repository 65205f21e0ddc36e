//===- Input.cpp - What VARIANT on the command line is -----------------------===//

#include "tools/attune/Input.h"

#include "dsl/NearestName.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace attune;
using namespace attune::cli;

/// What a stage that is not read back is called, or "". The marks stand in no text of the IR, whose strings escape
/// quotes and ends of lines.
static std::string_view unreadStage(std::string_view content) {
  if (content.starts_with("\x7f"
                          "ELF"))
    return "a cubin";
  if (content.find("\n.version ") != std::string_view::npos)
    return "PTX";
  if (content.find("extern \"C\" __global__") != std::string_view::npos)
    return "CUDA C++";
  if (content.find("\ntarget datalayout = ") != std::string_view::npos)
    return "LLVM IR";
  if (content.find("\t.headerflags") != std::string_view::npos)
    return "SASS";
  return "";
}

static Expected<Input> readFile(const std::string &path) {
  Expected<IrText> file = IrText::read(path);
  if (!file)
    return file.error();
  const std::string_view content = file->text;
  const size_t begin = content.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return Error{
        fmt::format("{} is empty; --emit dsl, attn, tile or sched with -o writes a file that is read back", path)};
  if (std::string_view stage = unreadStage(content); !stage.empty())
    return Error{fmt::format("{} holds {}, which is not read back; what --emit dsl, attn, tile or sched writes is{}",
                             path, stage,
                             stage == "CUDA C++" ? ", and --cuda FILE takes this beside the variant" : "")};
  // Of what begins like neither form, the suffix says which one was meant.
  const std::string_view text = content.substr(begin);
  const bool isJson =
      text.starts_with("{") || (path.ends_with(".json") && !text.starts_with("#") && !text.starts_with("module"));
  return Input{isJson ? Input::Kind::Json : Input::Kind::Ir, nullptr, std::move(*file)};
}

/// Neither a built-in nor a file.
static Error unknown(const std::string &argument) {
  std::vector<std::string> names;
  for (const BuiltinVariant &entry : builtinVariants())
    names.push_back(entry.name);
  const std::string meant = dsl::nearestName(argument, names);
  return Error{fmt::format("'{}' is neither a built-in variant nor a file; {}", argument,
                           meant.empty() ? fmt::format("the built-ins are {}", fmt::join(names, ", "))
                                         : fmt::format("did you mean {}?", meant))};
}

Expected<Input> attune::cli::readInput(const std::string &argument) {
  if (argument.empty())
    return Input{};
  if (const BuiltinVariant *builtin = findBuiltin(argument))
    return Input{Input::Kind::Builtin, builtin};
  std::error_code code;
  const bool isPath = argument.find_first_of("./") != std::string::npos || std::filesystem::exists(argument, code);
  if (!isPath)
    return unknown(argument);
  return readFile(argument);
}
