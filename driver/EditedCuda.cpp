//===- EditedCuda.cpp - CUDA that was emitted and then edited by hand -------===//

#include "driver/EditedCuda.h"

#include "runtime/Cubin.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <string_view>
#include <vector>

using namespace attune;

static constexpr std::string_view remedy = "restore it as --emit cuda prints it";

/// The text without white space and comments.
static std::string codeOf(std::string_view text) {
  std::string code;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, 2) == "//")
      at = std::min(text.find('\n', at), text.size());
    else if (text.substr(at, 2) == "/*")
      at = std::min(text.find("*/", at + 2), text.size() - 2) + 1;
    else if (!std::isspace(static_cast<unsigned char>(text[at])))
      code += text[at];
  }
  return code;
}

/// The part of `text` from `begin` to the first `end` behind it, both included; empty where there is none.
static std::string_view part(std::string_view text, std::string_view begin, std::string_view end) {
  const size_t first = text.find(begin), last = first == std::string_view::npos ? first : text.find(end, first);
  return last == std::string_view::npos ? std::string_view() : text.substr(first, last + end.size() - first);
}

/// "extern"C"__global__void__launch_bounds__(384,1)causal(const__grid_constant__Paramsp)"
static std::string_view headOf(std::string_view code, const std::string &entry) {
  const std::string declarator = ")" + entry + "(const__grid_constant__Params";
  const size_t at = code.find(declarator);
  const size_t begin = at == std::string_view::npos ? at : code.rfind("extern\"C\"__global__", at);
  return begin == std::string_view::npos ? std::string_view() : code.substr(begin, at + declarator.size() - begin);
}

/// The threads in __launch_bounds__; the number of blocks behind them may be edited.
static std::string_view threadsOf(std::string_view head) {
  constexpr std::string_view bounds = "__launch_bounds__(";
  const size_t at = head.find(bounds);
  return at == std::string_view::npos
             ? std::string_view()
             : head.substr(at + bounds.size(), head.find_first_of(",)", at) - at - bounds.size());
}

static std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The lines of the comment at the top that say what the text was made for.
static Expected<void> checkComment(const IrText &edited, const std::string &generated) {
  static constexpr std::string_view kinds[] = {"//   variant  ", "//   plan     ", "//   block    "};
  const std::vector<std::string_view> lines = linesOf(edited.text), wanted = linesOf(generated);
  auto differs = [&](unsigned line, std::string_view found, std::string_view required) {
    return Error{
        fmt::format(
            "the text was emitted for \"{}\", and these options give \"{}\"; pass the options that it was emitted with",
            found.substr(std::min(found.find_first_not_of("/ "), found.size())),
            required.substr(required.find_first_not_of("/ "))),
        SourceLocation{edited.file, line, 1}};
  };
  for (size_t i = 0; i < lines.size() && lines[i].starts_with("//"); ++i) {
    if (i == 0 && lines[0].find(": attention forward for ") != std::string_view::npos && lines[0] != wanted[0])
      return differs(1, lines[0], wanted[0]);
    // Several kernels have a line of each kind; those of one kind stand in the order of the kernels.
    for (std::string_view kind : kinds) {
      if (!lines[i].starts_with(kind))
        continue;
      auto isKind = [&](std::string_view line) { return line.starts_with(kind); };
      const auto before = std::count_if(lines.begin(), lines.begin() + ptrdiff_t(i), isKind);
      auto line = std::find_if(wanted.begin(), wanted.end(), isKind);
      for (ptrdiff_t n = 0; n < before && line != wanted.end(); ++n)
        line = std::find_if(line + 1, wanted.end(), isKind);
      if (line != wanted.end() && lines[i] != *line)
        return differs(unsigned(i + 1), lines[i], *line);
    }
  }
  return {};
}

Expected<void> attune::driver::checkEditedCuda(const IrText &edited, const std::string &generated,
                                               const std::vector<KernelEntry> &entries) {
  if (Expected<void> good = checkComment(edited, generated); !good)
    return good;
  const std::string code = codeOf(edited.text), wanted = codeOf(generated);
  std::vector<std::string> kernels;
  for (const KernelEntry &entry : entries)
    kernels.push_back(entry.symbol);
  for (const std::string &kernel : kernels) {
    const std::string_view required = headOf(wanted, kernel), found = headOf(code, kernel);
    if (required.empty())
      continue;
    if (found.empty())
      return Error{fmt::format("{} has no kernel extern \"C\" __global__ void __launch_bounds__({}, ...) {}(const "
                               "__grid_constant__ Params p), which "
                               "is what a launch calls; {}",
                               edited.file, threadsOf(required), kernel, remedy)};
    if (threadsOf(found) != threadsOf(required))
      return Error{fmt::format("kernel {} in {} is for blocks of {} threads, and a launch has {}; restore "
                               "__launch_bounds__, or change --warps and emit the CUDA again",
                               kernel, edited.file, threadsOf(found), threadsOf(required))};
  }
  const std::string_view params = part(wanted, "structParams{", "};");
  if (code.find(params) == std::string::npos)
    return Error{fmt::format("struct Params in {} is not what a launch passes; {}", edited.file, remedy)};
  return {};
}

Expected<void> attune::driver::checkEditedCubin(const IrText &edited, const KernelImage &image) {
  std::vector<std::string> entries;
  for (const KernelEntry &entry : image.entries)
    entries.push_back(entry.symbol);
  for (const std::string &entry : entries) {
    Expected<CubinKernel> kernel = readCubin(image.binary, entry);
    if (!kernel)
      return kernel.error();
    if (size_t(kernel->paramBytes) != image.signature.packedBytes())
      return Error{fmt::format("kernel {} in {} takes {} bytes of parameters, and a launch passes {}; {}", entry,
                               edited.file, kernel->paramBytes, image.signature.packedBytes(), remedy)};
  }
  return {};
}
