//===- main.cpp - Several tools in one executable ----------------------------===//
//
//     attune-tests [...]         the tool that the command's name says (a link to this executable)
//     attune attune-tests [...]  or its first argument
//     attune run [...]           else the command line, which is the first of the tools
//
//===----------------------------------------------------------------------===//

#include <span>
#include <string_view>

#define TOOL(name, entry) int entry(int argc, char **argv);
#include "Tools.inc"
#undef TOOL

namespace {
struct Tool {
  std::string_view name;
  int (*entry)(int, char **);
};

#define TOOL(name, entry) {name, entry},
constexpr Tool tools[] = {
#include "Tools.inc"
};
#undef TOOL

const Tool *findTool(std::string_view path) {
  std::string_view name = path.substr(path.find_last_of('/') + 1);
  for (const Tool &tool : tools)
    if (tool.name == name)
      return &tool;
  return nullptr;
}
} // namespace

int main(int argc, char **argv) {
  if (argc > 1)
    if (const Tool *tool = findTool(argv[1]))
      return tool->entry(argc - 1, argv + 1);
  const Tool *tool = argc > 0 ? findTool(argv[0]) : nullptr;
  return (tool ? tool : &tools[0])->entry(argc, argv);
}
