//===- MutationTest.cpp - sched-verify finds changed waits and barriers ------===//
//
// Each wait, barrier and commit of whole kernels is removed or changed, one at a time. Without roles, a mutant that
// sched-verify lets pass must be one that computes the same: those are listed. With roles it lets most pass: which
// kinds it does not know is listed. A refusal counts where its error is the one expected.
//
//===----------------------------------------------------------------------===//

#include "attune/Builtins.h"
#include "attune/attune.h"
#include "tests/sim/Mutants.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace attune;
using attune::tests::join;
using attune::tests::linesOf;
using attune::tests::Mutant;

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
      for (const Variant &variant :
           {Variant("plain"), Variant("causal").mask(causal()), Variant("dropout").dropout(0.1f),
            Variant("blocks").blocks(captured("pattern", boolean, rank(3)), 128, 64)})
        all.push_back({std::string(variant.name()),
                       std::to_string(stages) + " stages" + (qRegisters ? ", q in registers" : ""),
                       variant,
                       {.dtype = bf16,
                        .headDim = 64,
                        .tileQ = 128,
                        .tileK = 64,
                        .warps = 4,
                        .stages = stages,
                        .qRegisters = qRegisters}});
  return all;
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
      changed[i] =
          std::regex_replace(lines[i], op, "sched.wait_copies pending " + std::to_string(std::stoi(match[2]) + 1));
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
      // With Q in registers its wait stands before the loop, and every other copy has been read: the last wait finds
      // nothing to do.
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

/// What the error of a mutant without roles says. Without a wait, a commit or a barrier the error may be what the
/// missing one would have ordered, or a later op's.
std::string refusalOf(const std::string &what) {
  const std::string
      underWay =
          "whose copy is still under way; (no wait follows the copy|the wait before it leaves [0-9]+ groups? pending)$",
      never = "starts a copy into [a-z_]+ that no wait completes before the tile of work ends$";
  if (what.ends_with("after its barrier"))
    return "whose copy other threads may not have completed; a barrier must follow the wait$";
  if (what.starts_with("wait"))
    return underWay + "|" + never;
  if (what.starts_with("commit"))
    return "whose copy is in no group; sched.commit_copies must follow it$|" + underWay + "|" + never;
  return "whose copy other threads may not have completed; a barrier must follow the wait$|"
         "(which other threads have just stored; a barrier must follow the stores|which other threads may still read; "
         "a barrier must follow the reads)$";
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
      REQUIRE(Simulation::load({mutant.text, "mutant.mlir"})); // what does not load would count for nothing
      Expected<std::string> verified = emitFromText({mutant.text, "mutant.mlir"}, {}, target, Stage::Sched);
      std::string name = subject.schedule + ": " + mutant.what;
      if (verified) {
        survivors.insert(name);
        if (equivalent().contains(name))
          continue;
        UNSCOPED_INFO("not rejected: " << subject.name << ", " << name);
      } else {
        ++rejected;
        INFO(verified.error().message);
        CHECK(std::regex_search(verified.error().message, std::regex(refusalOf(mutant.what))));
        CHECK(verified.error().where.file == "mutant.mlir");
      }
      ++total;
    }
  }
  fmt::print("sched-verify, without roles: {} of {} mutants refused, {} kinds are equivalent\n", rejected, total,
             equivalent().size());
  // Of those that are not equivalent all are found; 95% is the floor that this test holds new kernels to.
  CHECK(total >= 200);
  CHECK(rejected >= 0.95 * total);
  CHECK(survivors == equivalent());
}

/// What becomes of the mutants of one kind in kernels with roles: "release removed". sched-verify sees the sides of
/// rings alone; those that it lets pass the simulator runs (tests/sim/MutationTest.cpp), and either finds or lists as
/// equivalent.
struct Kind {
  std::string name, refusal; ///< "" where all pass; else some are refused
};

const std::vector<Kind> &kindsInRoles() {
  const std::string unread = "is never read; a role must wait for it",
                    unreleased = "is acquired but never released; its readers must release what they have read",
                    unfilled = "is never filled; a role must commit or expect bytes on it",
                    unacquired =
                        "is filled in a loop without being acquired; its writer must wait until a stage is empty";
  static const std::vector<Kind> all = {
      // The sides of a ring: refused where the op was the only one of its kind on its ring.
      {"wait removed", unread},
      {"release removed", unreleased},
      {"expect_bytes removed", unfilled},
      {"commit removed", unfilled},
      {"acquire removed", unacquired},
      // Stages, phases and counts of arrivals are values, which it does not follow.
      {"acquire for the other phase", ""},
      {"acquire of stage", ""},
      {"acquire of the next stage", ""},
      {"wait for the other phase", ""},
      {"wait of stage", ""},
      {"wait of the next stage", ""},
      {"release of stage", ""},
      {"release of the next stage", ""},
      {"expect_bytes of stage", ""},
      {"expect_bytes of the next stage", ""},
      {"expect_bytes of bytes fewer", ""},
      {"expect_bytes of bytes more", ""},
      {"ring emptied by one fewer", ""},
      {"ring emptied by one more", ""},
      {"ring filled by one more", ""},
      {"next from stage", ""},
      {"next from the other phase", ""},
      // The order of ops in a role, which it does not follow.
      {"acquire after expect_bytes", ""},
      {"expect_bytes after load_box", ""},
      {"init_ring after fence_init", ""},
      {"init_ring removed", ""},
      {"fence_init removed", ""},
      {"wait after sync_warps", ""},
      // Barriers among warps, whose partners are in other roles or branches.
      {"sync_warps removed", ""},
      {"sync_warps for threads fewer", ""},
      {"sync_warps for threads more", ""},
      {"arrive_warps removed", ""},
      {"arrive_warps for threads more", ""},
      {"barrier removed", ""},
      // Groups of products and of boxes: CopyOrder.h follows cp.async's alone.
      {"mma_fence removed", ""},
      {"mma_commit removed", ""},
      {"mma_commit after mma_wait", ""},
      {"mma_wait removed", ""},
      {"mma_wait with one group more", ""},
      {"mma_wait completes nothing", ""},
      {"mma_wait after release", ""},
      {"fence_async removed", ""},
      {"commit_boxes removed", ""},
      {"commit_boxes after wait_boxes", ""},
      {"wait_boxes removed", ""},
      {"wait_boxes with one group more", ""},
      // What roles tell each other, and which tiles of work and keys there are.
      {"send removed", ""},
      {"send of field as", ""},
      {"send of stage", ""},
      {"receive of stage", ""},
      {"ballot of true", ""},
      {"ballot of false", ""},
      {"natural from the other end", ""},
      {"next to the number after", ""},
      {"claim_work once more", ""},
      {"claim_work read from lane", ""},
  };
  return all;
}

TEST_CASE("sched-verify knows both sides of the rings in kernels with roles, and no more") {
  const Target target = Target::cuda("sm_90a");
  int refused = 0, passed = 0;
  std::map<std::string, std::pair<int, int>> counts; // passed and refused
  for (const tests::Subject &subject : tests::mutationSubjects()) {
    if (subject.schedule.arch != "sm_90a")
      continue;
    tests::Case test =
        tests::makeCase(subject.name, subject.variant, bf16,
                        {.batch = 1, .heads = 1, .headsKv = 1, .queries = 64, .keys = 64, .headDim = 64}, 1);
    subject.schedule.applyTo(test.options);
    Expected<std::string> text = tests::schedText(test, subject.schedule);
    REQUIRE(text);
    for (const Mutant &mutant : tests::mutantsOf(*text)) {
      INFO(subject.name << ", " << subject.schedule.describe() << ": " << mutant.what);
      // One that does not load counts for nothing.
      if (!Simulation::load({mutant.text, "mutant.mlir"}))
        continue;
      const std::string name = std::regex_replace(mutant.what, std::regex(" [0-9]+"), "");
      auto kind = std::find_if(kindsInRoles().begin(), kindsInRoles().end(),
                               [&](const Kind &each) { return each.name == name; });
      REQUIRE(kind != kindsInRoles().end());
      Expected<std::string> verified = emitFromText({mutant.text, "mutant.mlir"}, {}, target, Stage::Sched);
      // That of the kernel in front, which makes the tables and has no roles.
      if (!verified && verified.error().message.find("column_parts") != std::string::npos)
        continue;
      ++(verified ? counts[name].first : counts[name].second);
      ++(verified ? passed : refused);
      if (verified)
        continue;
      INFO(verified.error().message);
      CHECK(std::regex_match(
          verified.error().message,
          std::regex("'sched.ring' op [a-z_]+ " + (kind->refusal.empty() ? "(nothing)" : kind->refusal))));
    }
  }
  for (const Kind &kind : kindsInRoles()) {
    INFO(kind.name << ": " << counts[kind.name].first << " pass, " << counts[kind.name].second << " are refused");
    CHECK(counts[kind.name].first > 0);
    CHECK((counts[kind.name].second > 0) == !kind.refusal.empty());
  }
  fmt::print("sched-verify, with roles: {} of {} mutants refused\n", refused, refused + passed);
}

TEST_CASE("text is held to the rules of its stage, and errors point at it") {
  Target target = Target::cuda("sm_80");
  CompileOptions options{
      .dtype = bf16, .headDim = 64, .tileQ = 128, .tileK = 64, .warps = 4, .stages = 2, .qRegisters = false};
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
  CHECK(tile == "'tile.domain' op steps by 32, the plan's tile_k is 64; the plan and all ops have one size, for "
                "another start from attn with --tile-k 64");
  CHECK(tileLine.find("tile.domain") != std::string::npos);
  auto [sched, schedLine] = errorOf(Stage::Sched, "wait_copies pending 0", "wait_copies pending 1");
  CHECK(sched == "'sched.copy_async' op starts a copy into q_tile that no wait completes before the tile of work ends");
  CHECK(schedLine.find("sched.copy_async") != std::string::npos);
}
