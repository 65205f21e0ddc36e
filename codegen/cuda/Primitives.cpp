//===- Primitives.cpp - Select the device functions that a source calls -----===//

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

/// Splits primitivesSource() at its `//@ name : needs` lines; section headings are left out.
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
      heading = true; // all lines up to the next function are left out
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

constexpr std::string_view mmaAsync = "mma_async_";

/// Text of the device function that issues wgmma.mma_async for one shape. In that function d[j][e] is the lane's
/// accumulator register e for columns 8 j to 8 j + 7.
std::string mmaAsyncFunction(std::string_view name) {
  std::string_view rest = name.substr(mmaAsync.size());
  std::string type(rest.substr(0, rest.find('_')));
  rest.remove_prefix(type.size() + 2); // the type and "_n"
  int columns = 0;
  for (; !rest.empty() && rest.front() != '_'; rest.remove_prefix(1))
    columns = 10 * columns + (rest.front() - '0');
  const bool leftShared = rest.substr(0, 7) == "_shared", byColumns = rest == "_shared_columns";
  const int registers = columns / 2;
  auto list = [](int first, int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += (i ? i % 16 ? ", " : ", \"\n               \"" : "") + ("%" + std::to_string(first + i));
    return text;
  };
  auto operand = [](int n) { return "%" + std::to_string(n); };
  int next = registers;
  std::string left = leftShared ? operand(next) : "{" + list(next, 4) + "}";
  next += leftShared ? 1 : 4;
  std::string text =
      "/// d = a * b, plus d where `accumulate` holds: 64 rows of a warpgroup, " + std::to_string(columns) +
      " columns. PTX 9.7.15.5.2, wgmma.mma_async.\n"
      "template <int transpose>\n__device__ __forceinline__ void " +
      std::string(name) + "(\n    float (&d)[" + std::to_string(columns / 8) + "][4], " +
      (leftShared ? "unsigned long long a" : "unsigned (&a)[4]") + ", unsigned long long b, bool accumulate) {\n" +
      "  asm volatile(\"{\\n.reg .pred more;\\nsetp.ne.b32 more, " + operand(next + 1) + ", 0;\\n\"\n" +
      "               \"wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + type + "." + type +
      " \"\n" + "               \"{" + list(0, registers) + "}, \"\n" + "               \"" + left + ", " +
      operand(next) + ", more, 1, 1, " +
      (byColumns    ? "1, "
       : leftShared ? "0, "
                    : "") +
      operand(next + 2) + ";\\n}\"\n               :";
  for (int j = 0; j < columns / 8; ++j) {
    text += j ? ",\n                " : "";
    for (int e = 0; e < 4; ++e)
      text += (e ? ", " : " ") + ("\"+f\"(d[" + std::to_string(j) + "][" + std::to_string(e) + "])");
  }
  text += leftShared ? "\n               : \"l\"(a), "
                     : "\n               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), ";
  return text + "\"l\"(b), \"r\"(int(accumulate)), \"n\"(transpose));\n}";
}

} // namespace

std::string codegen::mmaAsyncName(std::string_view type, int columns, LeftOperand left) {
  return std::string(mmaAsync) + std::string(type) + "_n" + std::to_string(columns) +
         (left == LeftOperand::Registers ? "_registers"
          : left == LeftOperand::Shared  ? "_shared"
                                         : "_shared_columns");
}

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

bool codegen::isPrimitive(std::string_view name) {
  return primitiveNames().count(name) || name.substr(0, mmaAsync.size()) == mmaAsync;
}

std::string codegen::primitives(const std::set<std::string, std::less<>> &names) {
  std::set<std::string, std::less<>> wanted = names;
  const std::vector<Primitive> &all = table();
  // A function needs only earlier functions, so one walk from the end to the beginning finds all needed functions.
  for (auto it = all.rbegin(); it != all.rend(); ++it)
    if (wanted.count(it->name))
      wanted.insert(it->needs.begin(), it->needs.end());
  std::string text;
  for (const Primitive &primitive : all)
    if (wanted.count(primitive.name))
      text += primitive.text + "\n\n";
  for (const std::string &name : names)
    if (name.compare(0, mmaAsync.size(), mmaAsync) == 0)
      text += mmaAsyncFunction(name) + "\n\n";
  return text;
}
