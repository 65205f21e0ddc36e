//===- Primitives.cpp - The device functions of Primitives.cuh, one by one --===//

#include "codegen/cuda/Primitives.h"

#include <cassert>
#include <sstream>
#include <vector>

using namespace attune;

namespace {

struct Primitive {
  std::string name;
  std::vector<std::string> needs;
  std::string text;
};

/// Cuts the file at its `//@ name : needs` lines; section headings stay out.
std::vector<Primitive> cut() {
  std::vector<Primitive> all;
  std::istringstream file{std::string(codegen::primitivesSource())};
  bool heading = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("//@ ", 0) == 0) {
      std::istringstream words(line.substr(4));
      Primitive &next = all.emplace_back();
      words >> next.name;
      for (std::string word; words >> word;)
        if (word != ":")
          next.needs.push_back(word);
      heading = false;
      continue;
    }
    if (line.rfind("//===", 0) == 0)
      heading = true; // until the next function
    if (!all.empty() && !heading)
      all.back().text += line + "\n";
  }
  for (Primitive &primitive : all)
    primitive.text.erase(primitive.text.find_last_not_of('\n') + 1);
  return all;
}

const std::vector<Primitive> &table() {
  static const std::vector<Primitive> all = cut();
  return all;
}

} // namespace

std::string_view codegen::primitivesSource() {
  static constexpr char text[] =
#include "codegen/cuda/Primitives.inc"
      ;
  return {text, sizeof(text) - 1};
}

const std::set<std::string, std::less<>> &codegen::primitiveNames() {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> result;
    for (const Primitive &primitive : table())
      result.insert(primitive.name);
    return result;
  }();
  return names;
}

bool codegen::isPrimitive(std::string_view name) { return primitiveNames().count(name); }

std::string codegen::primitives(const std::set<std::string, std::less<>> &names) {
  std::set<std::string, std::less<>> wanted = names;
  const std::vector<Primitive> &all = table();
  // Functions need earlier ones only, so one walk from the back finds everything.
  for (auto it = all.rbegin(); it != all.rend(); ++it)
    if (wanted.count(it->name))
      wanted.insert(it->needs.begin(), it->needs.end());
  std::string text;
  for (const Primitive &primitive : all)
    if (wanted.count(primitive.name))
      text += primitive.text + "\n\n";
  return text;
}
