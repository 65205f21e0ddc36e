//===- MutationTest.cpp - The simulator finds changed synchronisation -------===//
//
// Each mutant of Mutants.h runs in the simulator as it is, whatever sched-verify says of it. One that does not load
// counts for nothing. Those that are not found are listed with the reason, equivalent ones and missed faults, and the
// list is exact: a new one fails the test, and so does a listed one that is found.
//
//===----------------------------------------------------------------------===//

#include "tests/sim/Mutants.h"

#include "tests/Sample.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <map>
#include <ranges>
#include <regex>
#include <set>
#include <sstream>

using namespace attune;
using namespace attune::tests;

namespace {

/// Mutants that are not found: they compute the same in every order of events, or are faults that the simulator misses.
struct Survivor {
  std::string what, kernel; ///< regular expressions
  std::string why;
  bool isFault = false;
};

const std::vector<Survivor> &survivors() {
  static const std::vector<Survivor> all = {
      // The kernel that makes tables.
      {"barrier (4|8|12) removed", "documents, sm_80.*",
       "a block has no second group of entries before there are 2,048, so that nothing has been read", true},
      {"barrier (2|6|10|14) removed", "documents, sm_90a.*", "the same", true},
      // sm_80.
      {"wait_copies 2 after barrier", ".*sm_80.*[23] stages",
       "after the last wait only the output's buffer is read, which no copy fills"},
      {"wait_copies 3 after barrier", ".*sm_80.*(1 stages|[23] stages, Q in registers)", "the same"},
      {"wait_copies 4 after barrier", ".*sm_80.*1 stages, Q in registers", "the same"},
      {"wait_copies 2 with one group more", ".*sm_80.*3 stages",
       "with three stages the newest group after the loop is always empty"},
      {"wait_copies 3 (removed|with one group more)", ".*sm_80.*[23] stages, Q in registers",
       "Q has its wait before the loop, and every other copy has been read: the last wait finds nothing to do"},
      {"wait_copies 4 (removed|with one group more)", ".*sm_80.*1 stages, Q in registers", "the same"},
      {"wait_copies 1 with one group more|commit_copies 1 removed|commit_copies 2 after wait_copies",
       ".*sm_80.*3 stages, Q in registers",
       "the wait for Q waits for the second tile's group too, although Q is in the first: the two groups may be one, "
       "or the second may be "
       "awaited later"},
      {"ballot [1-6] of true", "documents, .*sm_80.*",
       "a tile that the mask hides changes nothing, and one role reads what it copies"},
      {"ballot (1|2|4|5) of true", "documents, .*sm_90a.*, 4 warps.*",
       "the same as above: one warp says which tiles are visited"},
      {"ballot (1|2|6|7) of true", "documents, .*sm_90a.*, 8 warps.*", "the same"},
      {"ballot [45] of true", "documents, .*sm_90a.*, 8 warps.*",
       "a warpgroup may work on tiles that show its rows nothing, here on those before its first"},
      {"ballot (3|6) of false", "documents, .*sm_90a.*, 4 warps.*", "the mask hides nothing in a full tile"},
      {"ballot (3|8) of false", "documents, .*sm_90a.*, 8 warps.*", "the same"},
      {"send 1 of field [23] as 0", "documents, .*8 warps, 2 stages, ping-pong",
       "a warpgroup may work on tiles that show its rows nothing"},
      {"send 1 of field [67] as 0", "documents, .*8 warps.*persistent.*", "the same"},
      {"wait 6 removed", "(causal|moving), .*sm_90a.*ping-pong(, overlapping)?",
       "the warpgroup that works on a tile which another passes over waits for it"},
      // sm_90a.
      {"ballot [12] of true", "blocks, .*sm_90a.*",
       "a tile of 128 rows has two rows of blocks, of which its mask asks element by element"},
      {"expect_bytes [1234] after load_box", ".*sm_90a.*",
       "a phase waits for its arrival, so that bytes may come before they are expected"},
      {"ring 1 emptied by one (more|fewer)", ".*sm_90a.*stages(, ping-pong|, overlapping)?",
       "Q fills its stage once, and nobody waits for it to be empty"},
      {"(wait 2|release 1|receive 2) of stage 0",
       "(?!(documents|blocks), .*8 warps).*sm_90a.*stages(, ping-pong|, overlapping)?", "the first tile is in stage 0"},
      {"(wait 4|release 2|receive 4) of stage 0", "blocks, .*stages, ping-pong", "the same"},
      {"wait 3 of stage 0", ".*sm_90a.*stages, overlapping", "so is its V"},
      {"wait 3 after sync_warps", ".*sm_90a.*ping-pong", "both stand before the first read"},
      {"wait 4 after sync_warps", "moving, .*", "the same"},
      {"init_ring 4 after fence_init", "(relative|documents), .*sm_90a.*",
       "the ring that other warps fill is none of TMA's"},
      {"send 1 of field 1 as 0", ".*sm_90a.*persistent.*", "there is one batch"},
      {"(wait 4|release 2) of stage 0", "(relative|dense), .*stages, overlapping",
       "the first tile's V, and its biases, are in stage 0"},
      {"wait 5 after sync_warps", "(relative|blocks), .*ping-pong", "both stand before the first read of V"},
      {"wait 7 after sync_warps", "documents, .*ping-pong", "the same"},
      {"mma_fence 3 removed", ".*sm_90a.*", "nothing touches the registers of PV between the fence before QK and here"},
      {"mma_wait 2 after release", "(?!blocks).*sm_90a.*",
       "the warp that copies both fills K's stage again after V's of the tile before, whose release comes after this "
       "wait"},
      {"mma_wait 4 after release", "(?!causal).*sm_90a.*persistent with 1 of Q(, ping-pong|, overlapping)?",
       "the producer fills V again after Q, which the consumers release after this wait"},
      {"mma_wait 4 after release", "(?!causal).*sm_90a.*stages(, ping-pong|, overlapping)?",
       "after the last tile nobody fills the stage again"},
      {"mma_wait 4 after release", "causal, .*3 stages, overlapping",
       "two tiles follow a warpgroup's last one, and have the other two stages"},
      {"mma_wait 4 after release", "causal, .*stages, ping-pong",
       "the other warpgroup releases the stage behind its next turn, which this one hands on after the wait"},
      {"wait 7 removed", "causal, .*3 stages.*ping-pong",
       "ping-pong, a warpgroup that passes over a tile is at most one tile ahead of the other, which waits for the "
       "stage "
       "before it hands on"},
      {"wait (8|9|10) removed", "relative, .*3 stages.*ping-pong", "the same, in each of the three rings"},
      {"wait 5 removed", "documents, .*stages, ping-pong", "the same"},
      {"acquire 1 of the next stage", "moving, .*",
       "the acquire of each tile of work is for the one after: one stage fewer is filled ahead, and none too early"},
      {"acquire 2 of the next stage", "(blocks|relative), .*8 warps, .*ping-pong|documents, .*persistent with 2 of Q",
       "the acquire of each tile is for the tile after: one stage fewer is filled ahead, and none too early"},
      {"sync_lanes [12] (removed|after release)", "relative, .*", "each lane arrives for what it has read itself"},
      {"sync_lanes [12] (removed|after release)", "dense, .*",
       "ldmatrix reads the biases for all lanes together, so that the arrival of any comes after it"},
      // Faults.
      {"sync_lanes 1 after commit", "documents, sm_90a.*2 stages, ping-pong",
       "a lane that stores nothing arrives at a stage that the elected one has not yet acquired: lanes run together "
       "here "
       "between what orders them (sched-verify finds it)",
       true},
      {"sync_lanes 2 after commit", "documents, sm_90a.*persistent.*", "the same", true},
      {"wait 10 removed", "dense, .*3 stages, persistent with 2 of Q, overlapping",
       "the biases of a tile that is passed over may land after those of the tile two later, which no order that the "
       "seeds draw lets happen",
       true},
  };
  return all;
}

} // namespace

TEST_CASE("the simulator finds mutants", "[mutants]") {
  // Of a sample every sixth mutant of a kernel, from another one on in each.
  const size_t step = sampleStep(6);
  size_t begin = 0;
  int total = 0, caught = 0, equivalent = 0, refused = 0;
  std::set<const Survivor *> used;
  auto isFarTile = [](int64_t tile) { return tile == 40 || tile == 120 || tile == 230; };
  for (const Subject &subject : mutationSubjects()) {
    // One tile; no key at all; several tiles, some partial. In persistent blocks so many tiles of work that all stages
    // of Q are used again. And where tiles are searched, more than are remembered.
    std::vector<Case> cases;
    std::vector<Expectation> expected;
    std::vector<std::pair<int64_t, int64_t>> sizes{{20, 24}, {40, 0}, {130, 170}, {200, 140}};
    if (subject.name == "documents" || subject.name == "blocks")
      sizes.push_back({20, 1100});
    // Three tiles among so many that groups are asked for before each.
    if (subject.name == "documents")
      sizes.push_back({20, 7680});
    // A warpgroup that passes over more tiles than there are stages, an odd number, and works on the two after them.
    if (subject.name == "documents")
      sizes.push_back({128, 224});
    for (auto [queries, keys] : sizes) {
      const int64_t heads = !subject.schedule.queryStages || keys == 7680 ? 1 : queries < 64 ? 5 : 3;
      cases.push_back(
          makeCase(subject.name, subject.variant, bf16,
                   {.batch = 1, .heads = heads, .headsKv = 1, .queries = queries, .keys = keys, .headDim = 64},
                   6 + cases.size()));
      cases.back().problem.threads = 1;
      if (subject.name == "documents")
        for (const char *name : {"rows", "columns"}) {
          const bool ofKeys = name[0] == 'c';
          reference::HostTensor ids =
              reference::HostTensor::zeros(i32, {std::max<int64_t>(ofKeys ? keys : queries, 1)});
          for (int64_t i = 0; i < ids.shape[0]; ++i)
            ids.setInt(i, keys == 7680  ? (!ofKeys || isFarTile(i / 32) ? 7 : 100 + i / 32)
                          : ofKeys      ? i / 32 % 33
                          : keys == 224 ? (i < 64 ? i % 5 : 5 + i % 2)
                          : i < 64      ? i % 2
                          : i < 128     ? -5
                          : keys < 150  ? 4
                                        : 1 + i % 2 * 4);
          cases.back().problem.tensors[name] = ids;
        }
      else if (subject.name == "relative")
        cases.back().problem.tensors["table"] = reference::HostTensor::random(f32, {heads, 200}, 3);
      else if (subject.name == "dense")
        cases.back().problem.tensors["bias"] = reference::HostTensor::random(bf16, {heads, 200, 176}, 3);
      else if (subject.name == "blocks")
        for (reference::HostTensor &pattern = cases.back().problem.tensors["pattern"];
             int64_t i : std::views::iota(int64_t(0), pattern.size()))
          // Gaps before, among and after two tiles, or three, of which the second row of blocks sees two.
          pattern.setInt(i, pattern.shape[2] == 1 || ((i / pattern.shape[2] % pattern.shape[1] == 1 ? 0b010010
                                                       : keys < 150                                 ? 0b001010
                                                                                                    : 0b011010) >>
                                                          i % pattern.shape[2] % 33 &
                                                      1));
      subject.schedule.applyTo(cases.back().options);
      Expected<Expectation> exact = expect(cases.back());
      REQUIRE(exact);
      expected.push_back(std::move(*exact));
    }
    const std::string kernel = fmt::format("{}, {}", subject.name, subject.schedule.describe());
    INFO(kernel);
    Expected<std::string> text = schedText(cases[0], subject.schedule);
    if (!text)
      FAIL(text.error().text());
    *text = withoutFallbacks(*text);
    enum class Outcome { NotLoaded, Found, Survived };
    auto outcomeOf = [&](const std::string &mutant) {
      Expected<Simulation> simulation = Simulation::load({mutant, "mutant.mlir"});
      if (!simulation) {
        UNSCOPED_INFO(simulation.error().message);
        return Outcome::NotLoaded;
      }
      for (uint64_t seed = 0; seed < 6; ++seed)
        for (size_t i = 0; i < cases.size(); ++i)
          if (!simulate(*simulation, cases[i], expected[i], seed).pass)
            return Outcome::Found;
      return Outcome::Survived;
    };
    CHECK(outcomeOf(*text) == Outcome::Survived);
    std::vector<Mutant> mutants = mutantsOf(*text);
    CHECK(mutants.size() >= 11);
    for (size_t i = begin++ % step; i < mutants.size(); i += step) {
      const Mutant &mutant = mutants[i];
      const Survivor *survivor = nullptr;
      for (const Survivor &each : survivors())
        if (std::regex_match(mutant.what, std::regex(each.what)) && std::regex_match(kernel, std::regex(each.kernel)))
          survivor = &each;
      const Outcome outcome = outcomeOf(mutant.text);
      if (outcome == Outcome::NotLoaded) {
        ++refused;
        WARN(kernel << ": " << mutant.what << " does not load");
        continue;
      }
      if (survivor) {
        INFO(kernel << ": " << mutant.what << " was found, though: " << survivor->why);
        CHECK(outcome == Outcome::Survived);
        used.insert(survivor);
        ++(survivor->isFault ? total : equivalent);
        continue;
      }
      ++total;
      caught += outcome == Outcome::Found;
      if (outcome != Outcome::Found)
        FAIL_CHECK(kernel << ": " << mutant.what << " was not found");
    }
  }
  fmt::print("simulator: {} of {} mutants found, {} equivalent as listed, {} do not load\n", caught, total, equivalent,
             refused);
  CHECK(total >= int(2000 / step));
  CHECK(caught >= 0.95 * total);
  for (const Survivor &each : survivors())
    if (step == 1 && !used.contains(&each))
      FAIL_CHECK("no mutant is " << each.what << " of " << each.kernel);
}
