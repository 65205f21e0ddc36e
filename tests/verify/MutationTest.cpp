//===- MutationTest.cpp - sched-verify finds changed waits and barriers ------===//
//
// Each wait, barrier and commit of whole kernels is removed or changed, one at a time; with roles so is what keeps them
// together (tests/sim/Mutants.h). A mutant that sched-verify lets pass must be listed, as one that computes the same or
// as a fault that it does not know. The lists are exact. A refusal counts where its error is one expected.
//
//===----------------------------------------------------------------------===//

#include "attune/Builtins.h"
#include "attune/attune.h"
#include "tests/Sample.h"
#include "tests/kernels/Kernels.h"
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

struct VariantSubject {
  std::string name, schedule;
  Variant variant;
  CompileOptions options;
};

std::vector<VariantSubject> variantSubjects() {
  std::vector<VariantSubject> all;
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

} // namespace

/// What errors about the order of ops say.
static const std::regex &refusals();

TEST_CASE("sched-verify rejects kernels with a wait, barrier or commit changed") {
  Target target = Target::cuda("sm_80");
  int rejected = 0, total = 0;
  std::set<std::string> survivors;
  for (const VariantSubject &subject : variantSubjects()) {
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
        CHECK(std::regex_match(verified.error().message, refusals()));
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

/// Mutants of kernels with roles that sched-verify lets pass: they compute the same in every order of events, or are
/// faults that it does not see.
struct Passing {
  std::string what, kernel; ///< regular expressions
  std::string why;
  bool isFault = false;
};

const std::vector<Passing> &passing() {
  static const std::vector<Passing> all = {
      {"expect_bytes [1234] after load_box", ".*",
       "a phase waits for its arrival, so that bytes may come before they are expected"},
      {"mma_fence 3 removed", ".*", "nothing touches the registers of PV between the fence before QK and here"},
      {"init_ring 4 after fence_init", "relative, .*", "the ring that other warps fill is none of TMA's"},
      {"ring 1 emptied by one (more|fewer)", ".*stages(, ping-pong|, overlapping)?",
       "Q fills its stage once, and nobody waits for it to be empty"},
      {"(wait 2|release 1) of stage 0", "(causal|plain|relative|dense), .*stages(, ping-pong|, overlapping)?",
       "the first tile is in stage 0"},
      {"wait 3 of stage 0", ".*stages, overlapping", "so is its V"},
      {"(wait 4|release 2) of stage 0", "(relative|dense), .*stages, overlapping",
       "the first tile's V, and its biases, are in stage 0"},
      {"(wait 4|release 2|receive 4) of stage 0", "blocks, .*", "the first tile is in stage 0"},
      {"wait [3457] after sync_warps", ".*ping-pong.*", "both stand before the first read"},
      {"mma_wait 2 after release", "(causal|plain|moving|relative|dense), .*",
       "the warp that copies both fills K's stage again after V's of the tile before, whose release comes after this "
       "wait"},
      {"mma_wait 4 after release", "(plain|blocks|documents|relative|dense), .*stages(, ping-pong|, overlapping)?",
       "after the last tile nobody fills the stage again"},
      {"mma_wait 4 after release", "documents, .*persistent with 1 of Q, overlapping",
       "the producer fills V again after Q, which the consumers release after this wait"},
      {"mma_wait 4 after release", "causal, .*(3 stages, overlapping|stages, ping-pong)",
       "two tiles follow a warpgroup's last one, or the other warpgroup releases the stage behind its next turn"},
      {"sync_lanes [12] (removed|after release)", "relative, .*", "each lane arrives for what it has read itself"},
      {"sync_lanes [12] (removed|after release)", "dense, .*",
       "ldmatrix reads the biases for all lanes together, so that the arrival of any comes after it"},
      {"send 1 of field [23] as 0", "documents, .*2 stages, ping-pong",
       "a warpgroup may work on tiles that show its rows nothing"},
      {"send 1 of field [67] as 0", "documents, .*8 warps.*persistent with 2 of Q", "the same"},
      {"ballot [12] of true", "blocks, .*",
       "a tile of 128 rows has two rows of blocks, of which its mask asks element by element"},
      {"ballot [1245] of true", "documents, .*4 warps.*", "a tile that the mask hides changes nothing"},
      {"ballot [1267] of true", "documents, .*8 warps.*", "the same"},
      {"ballot [45] of true", "documents, .*8 warps.*", "a warpgroup may work on tiles that show its rows nothing"},
      {"ballot [36] of false", "documents, .*4 warps.*", "the mask hides nothing in a full tile"},
      {"ballot [38] of false", "documents, .*8 warps.*", "the same"},
      {"acquire [456] (removed|for the other phase|of stage 0)", "head_products",
       "behind the loop nothing lies over the rings that tiles leave by"},
      {"init_ring 4 after fence_init", "head_products", "what warps fill and empty is none of TMA's"},
      {"init_ring 7 after fence_init", "(attention_backward_warpgroups|dense gradient|deferred product, by TMA)",
       "the same"},
      {"init_ring 6 after fence_init", "deferred product", "the same"},
      {"ring 1 emptied by one (more|fewer)", "head_products", "W fills its stage once"},
      {"ring [12] emptied by one (more|fewer)",
       "(attention_backward_warpgroups|dense gradient|deferred product, by TMA)", "so do K and V"},
      {"(commit_boxes 1 (after wait_boxes|removed)|wait_boxes 1 (removed|with one group more))", "head_products",
       "the boxes of Z, which has one stage, are awaited with those of Y before a stage of Y is filled again"},
      {"mma_commit 3 removed", "(attention_backward_warpgroups|dense gradient)",
       "dV and dQ, which one wait is for, are one group then"},
      {"mma_fence 5 removed", "(attention_backward_warpgroups|dense gradient)",
       "nothing touches the registers of dK between the fence before dQ and here"},
      {"mma_wait 3 after release", "attention_backward_warpgroups",
       "the warp that copies both fills dO's stage again after that of Q, whose release comes after this wait"},
      {"mma_wait 5 after release", "(dense gradient|deferred product.*)", "the same"},
      {"expect_bytes 5 after load_box", "dense gradient", "as in other kernels"},
      {"acquire [23] after expect_bytes", "dense gradient",
       "the bias, of one stage, was released behind the waits for Q and dO of the tile before"},
      {"(wait_boxes 3 (removed|with one group more)|sync_warps 2 removed)", "dense gradient",
       "behind the loop no other tile lies over dS"},
      {"sync_lanes [23] (removed|after release)", "attention_backward_warpgroups",
       "each lane arrives for what it has read itself"},
      {"sync_lanes [1245] (removed|after release)", "deferred product", "the same"},
      {"sync_lanes [2356] (removed|after release)", "deferred product, by TMA", "the same"},
      {"(wait [456]|release [2345]) of stage 0", "deferred product, by TMA", "the first tile is in stage 0"},
      {"acquire 4 (removed|of stage 0|of the next stage)", "deferred product, by TMA",
       "no stage of dS has been filled before"},
      {"mma_wait 12 after release", "deferred product, by TMA", "after the last tile nobody fills the stage again"},
      {"sync_lanes [24] (removed|after release)", "dense gradient", "ldmatrix reads the bias for all lanes together"},
      {"sync_lanes [35] (removed|after release)", "dense gradient", "each lane arrives for what it has read itself"},
      {"acquire 3 after expect_bytes", "deferred product", "V's stage was released in front of K's, which is awaited"},
      {"mma_commit [37] removed", "deferred product.*",
       "dV and dK of the first tile, and dV and dQ of the others, for which there is one wait, are one group then"},
      {"mma_fence [49] removed", "deferred product.*",
       "nothing touches the registers of dK between the fence of the product before and here"},
      {"mma_wait 10 after release", "deferred product.*", "as mma_wait 5, in the loop"},
      {"sync_lanes 1 (removed|after release)", "head_products",
       "a stage of Y is filled again after Z's of the tile before, which is released after the lanes have met"},
      // Faults: what a mask shows is not known here, nor which rows and keys an expression is evaluated for.
      {"ballot [12] of false", "blocks, .*", "visible tiles are left out, in all roles alike", true},
      {"ballot [1245] of false", "documents, .*4 warps.*", "the same", true},
      {"ballot [124567] of false", "documents, .*8 warps.*", "the same", true},
      {"ballot [36] of true", "documents, .*4 warps.*", "a tile that the mask cuts is not masked", true},
      {"ballot [38] of true", "documents, .*8 warps.*", "the same", true},
      {"send 2 of field 2 as 0", "(blocks|documents), .*", "the same", true},
      {"send 1 of field (1|5) as 0", "documents, .*", "the first tile is masked as another one", true},
      {"nonnegative [12] from the other end", "(blocks|documents|relative), .*",
       "captured tensors are read for another tile of queries", true},
      {"acquire 3 of the next stage", "documents, .*2 stages, ping-pong",
       "some orders of cut and full tiles are not among those that are tried", true},
  };
  return all;
}

/// Whether the first kernel of both texts, which is the one with roles, is the same.
bool sameRoles(const std::string &text, const std::string &mutant) {
  auto first = [](const std::string &of) { return of.substr(0, of.find("sched.kernel", of.find("sched.role"))); };
  return first(text) == first(mutant);
}

static const std::regex &refusals() {
  const std::string stage = "stage [0-9]+ of [a-z_0-9]+, ", ring = "[a-z_0-9]+(, stage [0-9]+)?,? ?";
  static const std::regex all(
      "'sched.[a-z_]+' op (" + ring +
      "(is never filled; .*|is never read; .*|is filled in a loop without being acquired; .*|is acquired but never "
      "released; .*|is released in part when the block ends: .*|is filled in part when the block ends: .*|is filled "
      "[0-9]+ times and released [0-9]+ times)|"
      "waits for ever: .*|waits for phase [01] of .*|(fills|releases) " +
      ring +
      "(without having waited for it; .*|a second time before .*|by more arrivals than .*)|"
      "completes a stage of .*|completes [a-z_0-9]+, whose product may still be under way; .*|"
      "starts a copy that no sched.wait_copies completes|(reads|writes|copies into|fills|receives|sends into) " +
      stage +
      "(which nothing has written|whose bytes hold [a-z_0-9]+|whose copy may be under way; .*|which (another warp|"
      "another lane of the warp|a lane of another warp) may (not have stored|still read)( although its warp has "
      "arrived)?; .*|whose stores the asynchronous proxy may not see; .*|which an asynchronous op "
      "may still read; .*)|"
      "uses [a-z_0-9]+, (whose sched.init_ring no barrier orders before|which ordinary instructions have touched); .*|"
      "signals [a-z_0-9]+, which TMA may not see; .*|arrives in one lane for what other lanes have stored; "
      ".*|touches [a-z_0-9]+(,| while) .*|reaches barrier [0-9]+ .*|is in no group; sched.commit_boxes must follow it|"
      "reads shared memory until the block has ended; .*|is for tile [0-9]+ along [a-z]+, where .*|stores the box at "
      ".*|takes tile of work [0-9]+ [0-9]+ times; .*|goes from tile [0-9]+ to tile [0-9]+ and never ends)");
  return all;
}

/// The loop over queries of the backward pass of `variant`.
std::string loopOverQueries(const Variant &variant, const Gradients &gradients, const Target &target,
                            std::optional<bool> persistent = {}) {
  CompileOptions options;
  options.persistent = persistent;
  options.headDim = 64;
  options.backward = true;
  options.gradients = gradients;
  Expected<std::string> all = emit(variant, options, target, Stage::Sched);
  REQUIRE(all);
  return tests::withoutKernels(*all, [](const std::string &line) { return line.find("_keys(") == std::string::npos; });
}

TEST_CASE("sched-verify rejects kernels with roles in which an op of synchronisation is changed") {
  const Target target = Target::cuda("sm_90a");
  // Of a sample every third mutant of a kernel, from another one on in each.
  const size_t step = tests::sampleStep(3);
  size_t begin = 0;
  int refused = 0, faults = 0, equivalents = 0;
  std::map<std::string, std::pair<int, int>> counts; // faults that pass and refusals, by kind
  std::set<const Passing *> used;
  auto change = [&](const std::string &kernel, const std::string &text) {
    const std::vector<Mutant> mutants = tests::mutantsOf(text);
    for (size_t i = begin++ % step; i < mutants.size(); i += step) {
      const Mutant &mutant = mutants[i];
      INFO(kernel << ": " << mutant.what);
      // One that does not load counts for nothing. The kernel that makes tables has no roles.
      if (sameRoles(text, mutant.text) || !Simulation::load({mutant.text, "mutant.mlir"}))
        continue;
      const std::string kind = std::regex_replace(mutant.what, std::regex(" [0-9]+"), "");
      Expected<std::string> verified = emitFromText({mutant.text, "mutant.mlir"}, {}, target, Stage::Sched);
      if (!verified) {
        ++refused;
        ++counts[kind].second;
        INFO(verified.error().message);
        CHECK(std::regex_match(verified.error().message, refusals()));
        CHECK(verified.error().where.file == "mutant.mlir");
        continue;
      }
      const auto known = std::find_if(passing().begin(), passing().end(), [&](const Passing &each) {
        return std::regex_match(mutant.what, std::regex(each.what)) &&
               std::regex_match(kernel, std::regex(each.kernel));
      });
      if (known == passing().end()) {
        FAIL_CHECK("not refused");
        continue;
      }
      used.insert(&*known);
      ++(known->isFault ? faults : equivalents);
      counts[kind].first += known->isFault;
    }
  };
  for (const tests::Subject &subject : tests::mutationSubjects()) {
    if (subject.schedule.arch != "sm_90a")
      continue;
    tests::Case test =
        tests::makeCase(subject.name, subject.variant, bf16,
                        {.batch = 1, .heads = 1, .headsKv = 1, .queries = 64, .keys = 64, .headDim = 64}, 1);
    subject.schedule.applyTo(test.options);
    Expected<std::string> text = tests::schedText(test, subject.schedule);
    REQUIRE(text);
    change(fmt::format("{}, {}", subject.name, subject.schedule.describe()), tests::withoutFallbacks(*text));
  }
  // Loops whose tiles leave by rings.
  for (const char *name : {"head_products", "attention_backward_warpgroups"}) {
    const tests::Program &program = tests::program(name);
    Expected<std::string> text = emitFromText({program.text, program.name + ".mlir"}, {}, target, Stage::Sched);
    REQUIRE(text);
    change(program.name, *text);
  }
  // Rings share barriers, and the bias's gradient is stored by TMA.
  change("dense gradient", loopOverQueries(Variant("dense").score(bias(captured("bias", bf16, rank(3)))),
                                           Gradients{.tensors = {"bias"}}, target));
  change("deferred product", loopOverQueries(Variant("plain"), {}, target));
  change("deferred product, by TMA", loopOverQueries(Variant("plain"), {}, target, /*persistent=*/false));
  for (const Passing &each : passing())
    if (step == 1 && !used.contains(&each))
      FAIL_CHECK("no mutant that passes is " << each.what << " of " << each.kernel);
  for (const auto &[kind, count] : counts)
    if (count.first)
      fmt::print("sched-verify, with roles: {} of {} \"{}\" pass\n", count.first, count.first + count.second, kind);
  fmt::print("sched-verify, with roles: {} of {} mutants refused, {} are equivalent\n", refused, refused + faults,
             equivalents);
  CHECK(refused + faults >= int(2300 / step));
  CHECK(refused >= 0.95 * (refused + faults));
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
  CHECK(tile == "'tile.domain' op steps by 32 of k, the plan has 64; the plan and all ops have one size, for "
                "another start from attn with --tile-k 64");
  CHECK(tileLine.find("tile.domain") != std::string::npos);
  auto [sched, schedLine] = errorOf(Stage::Sched, "wait_copies pending 0", "wait_copies pending 1");
  CHECK(sched == "'sched.copy_async' op starts a copy that no sched.wait_copies completes");
  CHECK(schedLine.find("sched.copy_async") != std::string::npos);
}
