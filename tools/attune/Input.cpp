//===- Input.cpp - What VARIANT on the command line is -----------------------===//

#include "tools/attune/Input.h"

#include "dsl/NearestName.h"

#include <cctype>
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

/// Whether the text is a module, or names an op of a dialect, be it misspelt: attn.atention.
static bool isStage(std::string_view text) {
  if (text.starts_with("module") || text.starts_with("#") || text.starts_with("\"builtin.module\""))
    return true;
  auto isLetter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  for (std::string_view dialect : {"attn.", "tile.", "sched."})
    for (size_t at = text.find(dialect); at != std::string_view::npos; at = text.find(dialect, at + 1))
      if (const size_t end = at + dialect.size();
          end < text.size() && isLetter(text[end]) && (at == 0 || !isLetter(text[at - 1])))
        return true;
  return false;
}

static Expected<Input> readFile(const std::string &path) {
  Expected<IrText> file = IrText::read(path);
  if (!file)
    return file.error();
  constexpr std::string_view byteOrderMark = "\xef\xbb\xbf"; // editors leave one
  if (file->text.starts_with(byteOrderMark))
    file->text.erase(0, byteOrderMark.size());
  const std::string_view content = file->text;
  const size_t begin = content.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return Error{
        fmt::format("{} is empty; --emit dsl, attn, tile or sched with -o writes a file that is read back", path)};
  if (std::string_view stage = unreadStage(content); !stage.empty())
    return Error{fmt::format("{} holds {}, which is not read back; what --emit dsl, attn, tile or sched writes is{}",
                             path, stage,
                             stage == "CUDA C++" ? ", and --cuda FILE takes this together with the variant" : "")};
  // Of what begins like neither form, the suffix says which one was meant.
  const std::string_view text = content.substr(begin);
  const bool isJson =
      text.starts_with("{") || (path.ends_with(".json") && !text.starts_with("#") && !text.starts_with("module"));
  if (!isJson && !isStage(text))
    return Error{
        fmt::format("{} is not a variant file: expected JSON or attn, tile or sched text, as --emit dsl, attn, "
                    "tile or sched writes it",
                    path)};
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
