//===- MutationTest.cpp - sched-verify finds changed waits and barriers ------===//
//
// Each wait, barrier and commit of whole kernels is removed or changed, one at a time. A mutant that sched-verify lets pass
// must be one that computes the same: those are listed.
//
//===----------------------------------------------------------------------===//

#include "attune/Builtins.h"
#include "attune/attune.h"

#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace attune;

namespace {

struct Subject {
  std::string name, schedule;
  Variant variant;
  CompileOptions options;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (int stages : {1, 2, 3})
    for (bool qRegisters : {false, true})
      for (const Variant &variant : {Variant("plain"), Variant("causal").mask(causal()), Variant("dropout").dropout(0.1f),
                                     Variant("blocks").blocks(captured("pattern", boolean, rank(3)), 128, 64)})
        all.push_back({std::string(variant.name()), std::to_string(stages) + " stages" + (qRegisters ? ", q in registers" : ""), variant,
                       {.dtype = bf16, .headDim = 64, .tileQ = 128, .tileK = 64, .warps = 4, .stages = stages, .qRegisters = qRegisters}});
  return all;
}

struct Mutant {
  std::string what;
  std::string text;
};

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

std::string join(const std::vector<std::string> &lines) {
  std::string text;
  for (const std::string &line : lines)
    text += line + "\n";
  return text;
}

/// "wait 2 of 3 ...": ops are counted in the order of the text.
std::vector<Mutant> mutantsOf(const std::string &text) {
  const std::vector<std::string> lines = linesOf(text);
  std::vector<Mutant> mutants;
  std::map<std::string, int> count;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    static const std::regex op("sched\\.(wait_copies pending ([0-9]+)|barrier|commit_copies)");
    if (!std::regex_search(lines[i], match, op))
      continue;
    std::string kind = match[2].matched ? "wait" : match[1].str();
    std::string name = kind + " " + std::to_string(++count[kind]);
    auto mutate = [&](const std::string &how, auto &&change) {
      std::vector<std::string> changed = lines;
      change(changed);
      mutants.push_back({name + " " + how, join(changed)});
    };
    mutate("removed", [&](auto &changed) { changed.erase(changed.begin() + i); });
    if (kind != "wait")
      continue;
    mutate("with one group more", [&](auto &changed) {
      changed[i] = std::regex_replace(lines[i], op, "sched.wait_copies pending " + std::to_string(std::stoi(match[2]) + 1));
    });
    if (lines[i + 1].find("sched.barrier") != std::string::npos)
      mutate("after its barrier", [&](auto &changed) { std::swap(changed[i], changed[i + 1]); });
  }
  return mutants;
}

/// Mutants that compute the same as their kernel, whatever the variant.
const std::set<std::string> &equivalent() {
  static const std::set<std::string> all = {
      // After the last wait only the output's buffer is read: its barrier may come first.
      "1 stages: wait 3 after its barrier",
      "2 stages: wait 2 after its barrier",
      "3 stages: wait 2 after its barrier",
      // With three stages the newest group after the loop is always empty.
      "3 stages: wait 2 with one group more",
      // With Q in registers its wait stands before the loop, and every other copy has been read: the last wait finds nothing to do.
      "1 stages, q in registers: wait 4 removed",
      "1 stages, q in registers: wait 4 with one group more",
      "1 stages, q in registers: wait 4 after its barrier",
      "2 stages, q in registers: wait 3 removed",
      "2 stages, q in registers: wait 3 with one group more",
      "2 stages, q in registers: wait 3 after its barrier",
      "3 stages, q in registers: wait 3 removed",
      "3 stages, q in registers: wait 3 with one group more",
      "3 stages, q in registers: wait 3 after its barrier",
      // The wait for Q waits for the second tile's group, too, so that the two may be one; Q itself is in the first.
      "3 stages, q in registers: commit_copies 1 removed",
      "3 stages, q in registers: wait 1 with one group more",
  };
  return all;
}

} // namespace

TEST_CASE("sched-verify rejects kernels with a wait, barrier or commit changed") {
  Target target = Target::cuda("sm_80");
  int rejected = 0, total = 0;
  std::set<std::string> survivors;
  for (const Subject &subject : subjects()) {
    INFO(subject.name << ", " << subject.schedule);
    Expected<std::string> text = emit(subject.variant, subject.options, target, Stage::Sched);
    REQUIRE(text);
    REQUIRE(emitFromText({*text, "kernel.mlir"}, {}, target, Stage::Sched));
    std::vector<Mutant> mutants = mutantsOf(*text);
    CHECK(mutants.size() >= 11);
    for (const Mutant &mutant : mutants) {
      INFO(mutant.what);
      Expected<std::string> verified = emitFromText({mutant.text, "mutant.mlir"}, {}, target, Stage::Sched);
      std::string name = subject.schedule + ": " + mutant.what;
      if (verified) {
        survivors.insert(name);
        if (equivalent().contains(name))
          continue;
        UNSCOPED_INFO("not rejected: " << subject.name << ", " << name);
      } else {
        ++rejected;
        CHECK(verified.error().message.starts_with("'sched."));
        CHECK(verified.error().where.file == "mutant.mlir");
      }
      ++total;
    }
  }
  // Of those that are not equivalent all are found; 95% is the floor that this test holds new kernels to.
  CHECK(total >= 200);
  CHECK(rejected >= 0.95 * total);
  CHECK(survivors == equivalent());
}

TEST_CASE("text is held to the rules of its stage, and errors point at it") {
  Target target = Target::cuda("sm_80");
  CompileOptions options{.dtype = bf16, .headDim = 64, .tileQ = 128, .tileK = 64, .warps = 4, .stages = 2, .qRegisters = false};
  auto errorOf = [&](Stage stage, const std::string &pattern, const std::string &replacement) {
    Expected<std::string> text = emit(Variant("causal").mask(causal()), options, target, stage);
    REQUIRE(text);
    std::string edited = std::regex_replace(*text, std::regex(pattern), replacement);
    REQUIRE(edited != *text);
    Expected<std::string> result = emitFromText({edited, "edited.mlir"}, {}, target, Stage::Cuda);
    REQUIRE(!result);
    const SourceLocation &where = result.error().where;
    CHECK(where.file == "edited.mlir");
    REQUIRE(where.line > 0);
    return std::pair(result.error().message, linesOf(edited)[where.line - 1]);
  };
  auto [attn, attnLine] = errorOf(Stage::Attn, "= arith.cmpi sge, (%[a-z0-9]+), (%[a-z0-9]+) : i32",
                                  "= arith.cmpi sge, $1, $2 : i32\n    %wide = arith.extsi $1 : i32 to i128");
  CHECK(attn == "'arith.extsi' op gives 'i128'; scores and masks compute with f32, i32, i64 and i1");
  CHECK(attnLine.find("i128") != std::string::npos);
  auto [tile, tileLine] = errorOf(Stage::Tile, "k by 64", "k by 32");
  CHECK(tile == "'tile.domain' op steps by 32, the plan's tile_k is 64");
  CHECK(tileLine.find("tile.domain") != std::string::npos);
  auto [sched, schedLine] = errorOf(Stage::Sched, "wait_copies pending 0", "wait_copies pending 1");
  CHECK(sched == "'sched.copy_async' op starts a copy into q_tile that no wait completes before the tile of work ends");
  CHECK(schedLine.find("sched.copy_async") != std::string::npos);
}
