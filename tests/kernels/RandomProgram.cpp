//===- RandomProgram.cpp - Tile programs drawn at random --------------------===//

#include "kernels/RandomProgram.h"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <random>

using namespace attune;
using namespace attune::tests;

namespace {

/// A tile value of the program.
struct Value {
  std::string name;
  std::vector<std::string> axes;
  std::string element;
  bool shared = false;
};

class Writer {
public:
  explicit Writer(uint64_t seed) : generator(seed) {
    dtype = pick<std::string>({"bf16", "f16", "f32"});
    size = {{"q", pick<int>({16, 32, 48, 64})}, {"k", pick<int>({16, 32, 64})}, {"d", pick<int>({16, 32, 64})}};
    warps = pick<int>({1, 2, 4});
    stages = pick<int>({1, 2, 3});
  }

  Program write() {
    line("%b = tile.block_index \"b\" : i32");
    line("%h = tile.block_index \"h\" : i32");
    line("%q0 = tile.block_index \"q\" : i32");
    line("%Sq = tile.axis_extent \"q\" : i32");
    line("%Sk = tile.axis_extent \"k\" : i32");
    for (auto [name, value] : {std::pair("c0", 0), {"cr", size["k"] - 1}, {"ck", size["k"]}})
      line(fmt::format("%{} = arith.constant {} : i32", name, value));
    line("%zero = arith.constant 0.0 : f32");
    line("%half = arith.constant 0.5 : f32");
    line("%last = arith.addi %Sk, %cr : i32");
    line("%tiles = arith.divsi %last, %ck : i32");
    line("%dom = tile.domain k by " + std::to_string(size["k"]) + " [%c0, %tiles) full");
    for (int n = chance(3) ? 2 : 1; n > 0; --n)
      outer.push_back(load({"q", "d"}, chance(4) ? "f32" : dtype));
    const size_t before = outer.size();
    pool = outer;
    for (int n = draw(3); n > 0; --n)
      step(outer);
    std::vector<Value> carried = initials();
    std::string results;
    pool = outer;
    line(openLoop(carried));
    indent = "    ";
    loop(carried);
    indent = "  ";
    line("}");
    for (size_t i = 0; i < carried.size(); ++i)
      outer.push_back({carried.size() == 1 ? "%r" : fmt::format("%r#{}", i), carried[i].axes, "f32", false});
    pool = outer;
    for (int n = draw(3); n > 0; --n)
      step(outer);
    for (size_t i = before; i < outer.size(); ++i)
      result(outer[i], /*inLoop=*/false);
    return program();
  }

private:
  int draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(generator); }
  bool chance(int oneIn) { return draw(oneIn) == 0; }
  template <typename T> T pick(const std::vector<T> &from) { return from[size_t(draw(int(from.size())))]; }

  void line(const std::string &text) { body += indent + text + "\n"; }
  std::string fresh() { return fmt::format("%v{}", counter++); }

  std::string type(const Value &value) {
    std::string text = "!tile.tile<";
    for (size_t i = 0; i < value.axes.size(); ++i)
      text += fmt::format("{}{} {}", i ? " x " : "", value.axes[i], size[value.axes[i]]);
    return text + ", " + value.element + (value.shared ? ", shared>" : ", register>");
  }

  /// An operand with the tile's axes behind batch and head, read from its first row or the loop's.
  std::string operand(const Value &tile, const std::string &role) {
    const std::string name = fmt::format("t{}", operands.size());
    std::string axes = "b, h";
    HostOperand made{name,
                     tile.element == "f32"   ? DType::F32
                     : tile.element == "f16" ? DType::F16
                                             : DType::BF16,
                     {},
                     {}};
    made.shape = {batch, heads};
    for (const std::string &axis : tile.axes) {
      axes += axis == "d" ? fmt::format(", d {}", size["d"]) : ", " + axis;
      made.shape.push_back(axis == "d" ? size["d"] : axis == "q" ? queries : keys);
    }
    declarations += fmt::format("{}{}: {} [{}] {}", operands.empty() ? "" : ", ", name, role, axes, tile.element);
    made.bytes.resize(size_t(made.elements()) * (made.dtype == DType::F32 ? 4 : 2));
    std::normal_distribution<float> normal(0, 0.5f);
    for (int64_t i = 0; i < made.elements(); ++i)
      made.set(i, role == "out" ? NAN : normal(generator));
    operands.push_back(std::move(made));
    return name;
  }

  std::string view(const Value &tile, const std::string &role, std::string &text) {
    const std::string name = operand(tile, role);
    const std::string viewType = fmt::format("!tile.view<{}, {}>", tile.axes.size() + 2, tile.element);
    parameters += fmt::format("  %{} = tile.param \"{}\" : {}\n", name, name, viewType);
    const std::string &row = tile.axes.front();
    text = fmt::format("%{}[%b, %h, %{}0] limit %S{}", name, row, row);
    return viewType;
  }

  Value load(std::vector<std::string> axes, const std::string &element) {
    Value tile{fresh(), std::move(axes), element, true};
    if (element == "f32" && chance(2))
      tile.shared = false;
    if (tile.axes.size() == 1)
      tile.shared = false;
    std::string place, viewType = view(tile, "in", place);
    const std::string ring =
        tile.shared && stages != 2 ? fmt::format(" {{sched.ring = #sched.ring<stages {}>}}", stages) : "";
    line(fmt::format("{} = tile.load {}{} : {} -> {}", tile.name, place, ring, viewType, type(tile)));
    return tile;
  }

  bool hasAxis(const Value &value, const std::string &axis) {
    return std::find(value.axes.begin(), value.axes.end(), axis) != value.axes.end();
  }

  /// A value computed from what there is; false where what was drawn does not fit.
  bool step(std::vector<Value> &into) {
    switch (draw(6)) {
    case 0:
    case 1:
      return product(into);
    case 2:
      return reduce(into);
    case 3:
      return share(into);
    default:
      return map(into);
    }
  }

  /// A tile in the element type of `like`, for a product.
  Value rounded(const Value &tile, const std::string &element) {
    if (tile.shared || tile.element == element)
      return tile;
    Value made{fresh(), tile.axes, element, false};
    line(fmt::format("{} = tile.convert {} : {} -> {}", made.name, tile.name, type(tile), type(made)));
    return made;
  }

  bool product(std::vector<Value> &into) {
    Value a = pick(pool), b = pick(pool);
    if (a.axes.size() != 2 || b.axes.size() != 2)
      return false;
    std::vector<std::string> shared, own;
    for (const std::string &axis : a.axes)
      (hasAxis(b, axis) ? shared : own).push_back(axis);
    if (shared.size() != 1)
      return false;
    for (const std::string &axis : b.axes)
      if (axis != shared[0])
        own.push_back(axis);
    if (own[0] == own[1])
      return false;
    if (a.shared && b.shared && a.element != b.element)
      return false;
    const std::string element = a.shared ? a.element : b.shared ? b.element : dtype;
    a = rounded(a, element), b = rounded(b, element);
    if (chance(2))
      std::swap(own[0], own[1]);
    Value made{fresh(), own, "f32", false};
    line(fmt::format("{} = tile.mma {}, {} : {}, {} -> {}", made.name, a.name, b.name, type(a), type(b), type(made)));
    into.push_back(made), pool.push_back(made);
    return true;
  }

  bool reduce(std::vector<Value> &into) {
    Value tile = pick(pool);
    if (tile.axes.size() != 2 || tile.shared || tile.element != "f32")
      return false;
    const int over = draw(2);
    Value made{fresh(), {tile.axes[size_t(1 - over)]}, "f32", false};
    Value init;
    for (const Value &value : pool)
      if (value.axes == made.axes && chance(2))
        init = value;
    line(fmt::format("{} = tile.reduce {} {} over \"{}\" {}{} -> {}", made.name, chance(2) ? "max" : "sum", tile.name,
                     tile.axes[size_t(over)],
                     init.name.empty() ? ": " : fmt::format("init {} : {}, ", init.name, type(init)), type(tile),
                     type(made)));
    into.push_back(made), pool.push_back(made);
    return true;
  }

  /// A copy in shared memory, in either order of the axes.
  bool share(std::vector<Value> &into) {
    Value tile = pick(pool);
    if (tile.shared || tile.element != "f32" || tile.axes.size() != 2)
      return false;
    Value made{fresh(), tile.axes, chance(2) ? dtype : "f32", true};
    if (chance(2))
      std::swap(made.axes[0], made.axes[1]);
    line(fmt::format("{} = tile.convert {} : {} -> {}", made.name, tile.name, type(tile), type(made)));
    into.push_back(made), pool.push_back(made);
    return true;
  }

  bool map(std::vector<Value> &into) {
    Value first = pick(pool);
    std::vector<std::string> axes = first.axes;
    if (axes.size() == 2 && chance(3))
      std::swap(axes[0], axes[1]);
    std::vector<Value> inputs{first};
    for (const Value &value : pool)
      if (inputs.size() < 3 && chance(2) && std::all_of(value.axes.begin(), value.axes.end(), [&](auto &axis) {
            return std::find(axes.begin(), axes.end(), axis) != axes.end();
          }))
        inputs.push_back(value);
    Value made{fresh(), axes, "f32", false};
    std::string types, names, arguments, operations, sum = "%half";
    int n = 0;
    for (const Value &input : inputs) {
      names += (n ? ", " : "") + input.name, types += (n ? ", " : "") + type(input);
      arguments += fmt::format("{}%e{}: f32", n ? ", " : "", n);
      // Sums of what is damped, so that numbers stay small.
      operations += fmt::format(
          "{0}  %m{1} = arith.mulf %e{1}, %half : f32\n{0}  %s{1} = arith.addf {2}, %m{1} : f32\n", indent, n, sum);
      sum = fmt::format("%s{}", n++);
    }
    std::string at;
    for (const std::string &axis : axes)
      if (axis != "d" && (axis == "q" || !indent.empty()) && (axis == "q" || indent.size() == 4) && chance(2)) {
        at += (at.empty() ? " at(" : ", ") + fmt::format("{0} = %{0}0", axis);
        arguments += fmt::format(", %row_{}: i32", axis);
        // Rows at even places, and what lies past the end, are left as they are halved.
        operations +=
            fmt::format("{0}  %i{1} = arith.cmpi slt, %row_{1}, %S{1} : i32\n{0}  %n{1} = arith.select %i{1}, {2}, "
                        "%zero : f32\n",
                        indent, axis, sum);
        sum = "%n" + axis;
      }
    line(fmt::format("{} = tile.map({} : {}){} -> {} {{", made.name, names, types, at.empty() ? "" : at + ")",
                     type(made)));
    line(fmt::format("^bb0({}):", arguments));
    body += operations;
    line("  tile.yield " + sum + " : f32");
    line("}");
    into.push_back(made), pool.push_back(made);
    return true;
  }

  std::vector<Value> initials() {
    std::vector<Value> carried;
    for (int n = 1 + draw(3); n > 0; --n) {
      Value made{fresh(), pick<std::vector<std::string>>({{"q"}, {"q", "d"}, {"d", "q"}, {"d"}}), "f32", false};
      line(fmt::format("{} = tile.splat %zero : f32 -> {}", made.name, type(made)));
      carried.push_back(made);
    }
    return carried;
  }

  std::string openLoop(const std::vector<Value> &carried) {
    std::string text = fmt::format("%r{} = tile.for_blocks (%k0, %partial) in %dom iter_args(",
                                   carried.size() == 1 ? "" : fmt::format(":{}", carried.size()));
    for (size_t i = 0; i < carried.size(); ++i)
      text += fmt::format("{}%a{} = {} : {}", i ? ", " : "", i, carried[i].name, type(carried[i]));
    return text + ") {";
  }

  void loop(const std::vector<Value> &carried) {
    std::vector<Value> inner;
    for (size_t i = 0; i < carried.size(); ++i)
      pool.push_back({fmt::format("%a{}", i), carried[i].axes, "f32", false});
    for (int n = 1 + draw(2); n > 0; --n) {
      pool.push_back(load({"k", "d"}, chance(5) ? "f32" : dtype));
      if (chance(3))
        pool.push_back(load({"k"}, "f32"));
    }
    for (int n = 3 + draw(6); n > 0; --n)
      step(inner);
    for (const Value &value : inner)
      result(value, /*inLoop=*/true);
    // The next value: one of its type, else itself.
    std::string names, types;
    for (size_t i = 0; i < carried.size(); ++i) {
      std::string next = fmt::format("%a{}", i);
      for (const Value &value : inner)
        if (value.axes == carried[i].axes && !value.shared)
          next = value.name;
      names += (i ? ", " : "") + next, types += (i ? ", " : "") + type(carried[i]);
    }
    line("tile.yield " + names + " : " + types);
  }

  /// Writes a value to memory: what the rows of the block alone give is stored, what others add to is accumulated.
  void result(const Value &value, bool inLoop) {
    if (value.element != "f32" || (inLoop && !chance(3)) || value.axes.front() == "d")
      return;
    const bool alone = value.axes.front() == "q" && !inLoop && (value.axes.size() == 1 || value.axes[1] == "d");
    if (!alone && value.axes.size() == 2 && value.axes[1] != "d")
      return;
    std::string place, viewType = view(value, alone && chance(2) ? "out" : "accumulate", place);
    const bool stores = declarations.find(fmt::format("t{}: out", operands.size() - 1)) != std::string::npos;
    line(fmt::format("tile.{} {}, {} : {}, {}", stores ? "store" : "accumulate", value.name, place, type(value),
                     viewType));
  }

  Program program() {
    // Both lengths are always some operand's.
    view({"", {"q"}, "f32", false}, "in", place);
    view({"", {"k"}, "f32", false}, "in", place);
    std::string text = fmt::format("tile.kernel @random({}) grid [b, h, q by {}] dtype {} plan <q {} x k "
                                   "{}, warps = {}, blocks_per_sm = 1>{} {{\n{}{}}}\n",
                                   declarations, size["q"], dtype, size["q"], size["k"], warps,
                                   chance(2) ? " attributes {sched.longest_first}" : "", parameters, body);
    Problem made{operands, [](const std::vector<HostOperand> &) { return std::string(); }};
    return {"random", text, {{batch, heads, queries, keys}}, [made](const Sizes &) { return made; }};
  }

  std::mt19937_64 generator;
  std::map<std::string, int> size;
  std::string dtype, declarations, parameters, body, indent = "  ", place;
  int warps, stages, counter = 0;
  int64_t batch = 1, heads = 2, queries = 1 + draw(100), keys = draw(8) ? 1 + draw(100) : 0;
  std::vector<HostOperand> operands;
  std::vector<Value> outer, pool;
};

} // namespace

Program attune::tests::randomProgram(uint64_t seed) { return Writer(seed).write(); }

std::string attune::tests::difference(const std::vector<HostOperand> &expected, const std::vector<HostOperand> &given,
                                      double limit) {
  for (size_t n = 0; n < expected.size(); ++n) {
    double largest = 1e-3;
    for (int64_t i = 0; i < expected[n].elements(); ++i)
      if (std::isfinite(expected[n].get(i)))
        largest = std::max<double>(largest, std::abs(expected[n].get(i)));
    for (int64_t i = 0; i < expected[n].elements(); ++i) {
      const float wanted = expected[n].get(i), got = given[n].get(i);
      if (wanted == got || std::abs(wanted - got) <= limit * largest || (std::isnan(wanted) && std::isnan(got)))
        continue;
      return fmt::format("{}[{}] is {}, elsewhere {} (largest {})", expected[n].name, i, got, wanted, largest);
    }
  }
  return "";
}
