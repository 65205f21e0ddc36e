//===- MutationTest.cpp - The simulator finds changed synchronisation -------===//
//
// Every op that waits, arrives, fences, commits or counts is removed or changed, one at a time, in kernels of both paths; so is what keeps
// roles together: the tiles that a search finds, what one role tells another, the order of work, where rings go on with the next tile of work. The mutant runs in the simulator as it is, whatever sched-verify says of it. One that computes the same without a finding must be equivalent: those
// are listed with the reason.
//
//===----------------------------------------------------------------------===//

#include "tests/sim/Schedules.h"

#include "attune/Builtins.h"

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

struct Mutant {
  std::string what; ///< "wait_copies 2 removed"
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

/// How an op of the text can be changed: what the first group of `pattern` matches is replaced.
struct Change {
  std::string op, how, pattern;
  std::function<std::string(const std::string &)> replacement;
};

std::string plus(const std::string &number, int by) { return std::to_string(std::stoi(number) + by); }

const std::vector<Change> &changes() {
  auto more = [](int by) { return [by](const std::string &number) { return plus(number, by); }; };
  auto to = [](std::string text) { return [text](const std::string &) { return text; }; };
  static const std::vector<Change> all = {
      {"wait_copies", "with one group more", "pending ([0-9]+)", more(1)},
      {"mma_wait", "with one group more", "pending ([0-9]+)", more(1)},
      {"mma_wait", "completes nothing", "pending [0-9]+( completes\\([^)]*\\) : .*)$", to("")},
      {"wait_boxes", "with one group more", "pending ([0-9]+)", more(1)},
      {"expect_bytes", "of 16 bytes more", "expect_bytes ([0-9]+)", more(16)},
      {"expect_bytes", "of 16 bytes fewer", "expect_bytes ([0-9]+)", more(-16)},
      {"ring", "filled by one more", "filled_by ([0-9]+)", more(1)},
      {"ring", "emptied by one more", "emptied_by ([0-9]+)", more(1)},
      {"ring", "emptied by one fewer", "emptied_by ([0-9]+)", more(-1)},
      {"sync_warps", "for 32 threads more", "threads ([0-9]+)", more(32)},
      {"sync_warps", "for 32 threads fewer", "threads ([0-9]+)", more(-32)},
      {"arrive_warps", "for 32 threads more", "threads ([0-9]+)", more(32)},
  };
  return all;
}

/// All mutants of a kernel's text. Ops are counted in the order of the text.
std::vector<Mutant> mutantsOf(const std::string &text) {
  static const std::regex op(
      "sched\\.(wait_copies|commit_copies|barrier|init_ring|fence_init|acquire|wait|expect_bytes|commit|release|sync_warps|arrive_warps|"
      "commit_boxes|wait_boxes|fence_async|mma_fence|mma_commit|mma_wait|send|receive|ring|visible|for_work|claim_work|next)( |$)");
  static const std::set<std::string> structure = {"receive", "ring", "visible", "for_work", "claim_work", "next"};
  static const std::regex phase("(acquire|wait) (%[^ ]*\\]) phase (%[^ ]*) ");
  const std::vector<std::string> lines = linesOf(text);
  std::vector<Mutant> mutants;
  std::map<std::string, int> count;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(lines[i], match, op))
      continue;
    const std::string kind = match[1], name = fmt::format("{} {}", kind, ++count[kind]);
    auto add = [&](const std::string &how, auto &&change) {
      std::vector<std::string> changed = lines;
      change(changed);
      mutants.push_back({name + " " + how, join(changed)});
    };
    if (!structure.contains(kind))
      add("removed", [&](auto &changed) { changed.erase(changed.begin() + i); });
    for (const Change &change : changes()) {
      std::smatch part;
      if (change.op != kind || !std::regex_search(lines[i], part, std::regex(change.pattern)))
        continue;
      add(change.how, [&](auto &changed) {
        changed[i] =
            lines[i].substr(0, part.position(1)) + change.replacement(part[1]) + lines[i].substr(part.position(1) + part.length(1));
      });
    }
    if (std::smatch part; std::regex_search(lines[i], part, phase))
      add("for the other phase", [&](auto &changed) {
        size_t at = lines[i].find("sched.");
        std::string value = fmt::format("%other_phase = arith.xori {}, %one_more : i32", part[3].str());
        changed[i] = lines[i].substr(0, at) + "%one_more = arith.constant 1 : i32\n" + value + "\n" + lines[i].substr(0, part.position(3)) +
                     "%other_phase" + lines[i].substr(part.position(3) + part.length(3));
      });
    if (std::smatch part; kind == "visible" && std::regex_search(lines[i], part, std::regex("visible (%[^ ,]*), (%[^ ]*)")))
      for (int which : {1, 2})
        for (const char *answer : {"true", "false"})
          add(fmt::format("{} {}", which == 1 ? "is" : "is full:", answer), [&](auto &changed) {
            changed[i] = fmt::format("%answer = arith.constant {}\n", answer) + lines[i].substr(0, part.position(which)) + "%answer" +
                         lines[i].substr(part.position(which) + part.length(which));
          });
    if (kind == "for_work" && std::count_if(lines.begin(), lines.end(), [](const std::string &line) {
          return line.find("sched.for_work") != std::string::npos;
        }) > 1)
      add("from the other end", [&](auto &changed) {
        bool last = lines[i].find(" longest_first") != std::string::npos;
        changed[i] = std::regex_replace(lines[i], last ? std::regex(" longest_first") : std::regex("(tile_q [0-9]+)"),
                                        last ? "" : "$1 longest_first");
      });
    const auto definedBy = [&](const std::string &value, const std::string &definition) {
      return std::any_of(lines.begin(), lines.begin() + i, [&](const std::string &line) { return line.find(value + " = sched." + definition) != std::string::npos; });
    };
    if (kind == "claim_work") {
      add("once more", [&](auto &changed) { changed.insert(changed.begin() + i, "%unused = sched.claim_work : i32"); });
      const std::string number = lines[i].substr(lines[i].find('%'), lines[i].find(" =") - lines[i].find('%'));
      add("read from lane 1", [&](auto &changed) {
        for (std::string &line : changed)
          if (line.find("sched.shuffle " + number + ",") != std::string::npos)
            line = std::regex_replace(line, std::regex("%c0_i32"), "%c1_i32");
      });
    }
    // The next tile of work: its number where it is claimed, its stage and phase; other sched.next ops have a tile's index first.
    if (std::smatch part; kind == "next" && std::regex_search(lines[i], part, std::regex("next (?:(%[^ ,]*), )?(%[^ ,]*), (%[^ ,]*) : (?:i32, )?i32, i32($| loc)")) &&
                          definedBy(part[2], "uniform")) {
      const std::string one = "%one_more = arith.constant 1 : i32\n";
      auto change = [&](const std::string &how, int which, const std::string &value) {
        add(how, [&](auto &changed) {
          changed[i] = value + lines[i].substr(0, part.position(which)) + "%other" + lines[i].substr(part.position(which) + part.length(which));
        });
      };
      if (part[1].matched && definedBy(part[1], "shuffle"))
        change("to the number after", 1, one + fmt::format("%other = arith.addi {}, %one_more : i32\n", part[1].str()));
      change("from stage 0", 2, "%other = arith.constant 0 : i32\n");
      change("from the other phase", 3, one + fmt::format("%other = arith.xori {}, %one_more : i32\n", part[3].str()));
    }
    if (std::smatch part; kind == "send" && std::regex_search(lines[i], part, std::regex("send (.*) to "))) {
      static const std::regex operand("%[^ ,]*");
      const std::string fields = part[1];
      size_t field = 0;
      for (std::sregex_iterator value(fields.begin(), fields.end(), operand), end; value != end; ++value)
        add(fmt::format("of field {} as 0", ++field),
            [&](auto &changed) { changed[i].replace(size_t(part.position(1) + value->position()), size_t(value->length()), "%c0_i32"); });
    }
    // Stages other than the op's own.
    static const std::regex stage("sched\\.(?:acquire|wait|release|expect_bytes [0-9]+ on|send .* to|receive from) %[^ ]*\\[(%[^ ]*)\\]");
    if (std::smatch part; std::regex_search(lines[i], part, stage) && part[1] != "%c0_i32")
      add("of stage 0", [&](auto &changed) { changed[i].replace(size_t(part.position(1)), size_t(part.length(1)), "%c0_i32"); });
    // Too late where it waits, too early where it arrives: one op further on.
    static const std::set<std::pair<std::string, std::string>> ordered = {
        {"wait_copies", "barrier"},    {"commit_copies", "wait_copies"}, {"init_ring", "fence_init"}, {"acquire", "expect_bytes"},
        {"expect_bytes", "load_box"},  {"mma_commit", "mma_wait"},       {"mma_wait", "release"},     {"wait", "sync_warps"},
        {"store_box", "commit_boxes"}, {"commit_boxes", "wait_boxes"}};
    std::smatch next;
    static const std::regex anyOp("sched\\.([a-z_]+)( |$)");
    if (i + 1 < lines.size() && std::regex_search(lines[i + 1], next, anyOp) && ordered.contains({kind, next[1]}))
      add(fmt::format("after {}", next[1].str()), [&](auto &changed) { std::swap(changed[i], changed[i + 1]); });
  }
  return mutants;
}

struct Subject {
  std::string name;
  Variant variant;
  Schedule schedule;
};

std::vector<Subject> subjects() {
  Variant plain = Variant("plain"), masked = Variant("causal").mask(causal()),
          sparse = Variant("blocks").blocks(captured("pattern", boolean, rank(3)), 64, 32);
  std::vector<Subject> all;
  for (int stages : {1, 2, 3})
    for (bool qRegisters : {false, true})
      all.push_back({"causal", masked, {"sm_80", 64, 32, 4, stages, qRegisters}});
  all.push_back({"blocks", sparse, {"sm_80", 64, 32, 4, 2, false}});
  for (bool turns : {false, true})
    for (int stages : {2, 3})
      all.push_back({"causal", masked, {"sm_90a", 128, 32, 8, stages, false, 1, 0, turns, !turns}});
  all.push_back({"plain", plain, {"sm_90a", 64, 32, 4, 2, false, 1, 0, false, true}});
  all.push_back({"blocks", sparse, {"sm_90a", 128, 32, 8, 2, false, 1, 0, true}});
  // Tiles of queries that see no key, two tiles, five, and the last one.
  auto rows = captured("rows", i32, rank(1)), columns = captured("columns", i32, rank(1));
  Variant documents = Variant("documents").mask([=](Index, Index, Index q, Index k) { return rows[q] == columns[k]; });
  all.push_back({"documents", documents, {"sm_80", 64, 32, 4, 2, false}});
  all.push_back({"documents", documents, {"sm_90a", 128, 32, 8, 2, false, 1, 0, true}});
  for (int queryStages : {1, 2}) {
    all.push_back({"causal", masked, {"sm_90a", 128, 32, 8, 1 + queryStages, false, 1, queryStages, queryStages == 2}});
    all.push_back({"documents", documents, {"sm_90a", 64, 32, 4, 2, false, 1, queryStages, false, true}});
  }
  all.push_back({"documents", documents, {"sm_90a", 128, 32, 8, 2, false, 1, 2}});
  // Maxima that move, in front of the wait for the product before.
  all.push_back({"moving", Variant("moving").mask(causal()).scale(8), {"sm_90a", 128, 32, 8, 2, false, 1, 2, true, true}});
  // A ring that a warp of the producer's warpgroup fills by stores.
  auto table = captured("table", f32, rank(2));
  Variant relative = Variant("relative").mask(causal()).score([=](Score s, Index, Index h, Index q, Index k) { return s + table[h][q - k]; });
  all.push_back({"relative", relative, {"sm_90a", 64, 32, 4, 2, false, 1, 0, false, true}});
  all.push_back({"relative", relative, {"sm_90a", 128, 32, 8, 3, false, 1, 2, true}});
  // A ring that the copy engine fills, or threads.
  Variant dense = Variant("dense").mask(causal()).score(bias(captured("bias", bf16, rank(3))));
  all.push_back({"dense", dense, {"sm_90a", 64, 32, 4, 2, false, 1, 0, false, true}});
  all.push_back({"dense", dense, {"sm_90a", 128, 32, 8, 3, false, 1, 2, false, true}});
  return all;
}

/// Mutants that compute the same in every order of events.
struct Equivalent {
  std::string what, kernel; ///< regular expressions
  std::string why;
};

const std::vector<Equivalent> &equivalents() {
  static const std::vector<Equivalent> all = {
      // sm_80.
      {"wait_copies 2 after barrier", ".*sm_80.*[23] stages", "after the last wait only the output's buffer is read, which no copy fills"},
      {"wait_copies 3 after barrier", ".*sm_80.*(1 stages|[23] stages, Q in registers)", "the same"},
      {"wait_copies 4 after barrier", ".*sm_80.*1 stages, Q in registers", "the same"},
      {"wait_copies 2 with one group more", ".*sm_80.*3 stages", "with three stages the newest group after the loop is always empty"},
      {"wait_copies 3 (removed|with one group more)", ".*sm_80.*[23] stages, Q in registers",
       "Q has its wait before the loop, and every other copy has been read: the last wait finds nothing to do"},
      {"wait_copies 4 (removed|with one group more)", ".*sm_80.*1 stages, Q in registers", "the same"},
      {"wait_copies 1 with one group more|commit_copies 1 removed|commit_copies 2 after wait_copies", ".*sm_80.*3 stages, Q in registers",
       "the wait for Q waits for the second tile's group too, although Q is in the first: the two groups may be one, or the second may be "
       "awaited later"},
      {"visible [123] is true", "documents, .*sm_80.*", "a tile that the mask hides changes nothing, and one role reads what it copies"},
      {"visible .* is full: (true|false)", ".*sm_80.*", "the answer is not asked for here, but again for the tile"},
      {"visible .* is full: false", ".*sm_90a.*", "the mask hides nothing in a full tile"},
      {"visible [12] is true", "documents, .*sm_90a.*", "the same: one warp says which tiles are visited"},
      {"send 1 of field [23] as 0", "documents, .*8 warps, 2 stages, in turn", "a warpgroup may work on tiles that show its rows nothing"},
      {"send 1 of field [67] as 0", "documents, .*8 warps.*persistent.*", "the same"},
      {"visible [12] is full: true", "blocks, .*sm_90a.*", "no tile of this pattern is full"},
      {"wait 6 removed", "(causal|moving), .*sm_90a.*in turn(, overlapping)?", "the warpgroup that works on a tile which another passes over waits for it"},
      // sm_90a.
      {"visible [12] is true", "blocks, .*sm_90a.*", "a tile of 128 rows has two rows of blocks, of which its mask asks element by element"},
      {"expect_bytes [1234] after load_box", ".*sm_90a.*", "a phase waits for its arrival, so that bytes may come before they are expected"},
      {"ring 1 emptied by one (more|fewer)", ".*sm_90a.*stages(, in turn|, overlapping)?", "Q fills its stage once, and nobody waits for it to be empty"},
      {"(wait 2|release 1|receive 2) of stage 0", "(?!(documents|blocks), .*8 warps).*sm_90a.*stages(, in turn|, overlapping)?", "the first tile is in stage 0"},
      {"(wait 4|release 2|receive 4) of stage 0", "blocks, .*stages, in turn", "the same"},
      {"(wait [456]|release 4|receive 5) of stage 0", "documents, .*stages, in turn", "the first tile is in stage 0, passed over or not"},
      {"wait 3 of stage 0", ".*sm_90a.*stages, overlapping", "so is its V"},
      {"wait 3 after sync_warps", ".*sm_90a.*in turn", "both stand before the first read"},
      {"wait 4 after sync_warps", "moving, .*", "the same"},
      {"init_ring 4 after fence_init", "(relative|documents), .*sm_90a.*", "the ring that other warps fill is none of the copy engine's"},
      {"send 1 of field 1 as 0", ".*sm_90a.*persistent.*", "there is one batch"},
      {"(wait 4|release 2) of stage 0", "(relative|dense), .*stages, overlapping", "the first tile's V, and its biases, are in stage 0"},
      {"wait 5 after sync_warps", "(relative|blocks), .*in turn", "both stand before the first read of V"},
      {"wait 7 after sync_warps", "documents, .*in turn", "the same"},
      {"for_work 1 from the other end", "(blocks|documents), .*stages, in turn", "V's warp asks for the batch and the head, which are the same from both ends"},
      {"mma_fence 3 removed", ".*sm_90a.*", "nothing touches the registers of PV between the fence before QK and here"},
      {"for_work [12] from the other end", "(causal|moving|documents), .*sm_90a.*persistent.*", "one warp says which tiles of work there are, all others receive them"},
      {"for_work 3 from the other end", "(relative|dense|documents), .*sm_90a.*persistent.*", "the consumers receive theirs"},
      {"mma_wait 2 after release", "(?!blocks).*sm_90a.*",
       "the warp that copies both fills K's stage again after V's of the tile before, whose release comes after this wait"},
      {"mma_wait 4 after release", "(?!causal).*sm_90a.*persistent with 1 of Q(, in turn|, overlapping)?",
       "the producer fills V again after Q, which the consumers release after this wait"},
      {"mma_wait 4 after release", "(?!causal).*sm_90a.*stages(, in turn|, overlapping)?", "after the last tile nobody fills the stage again"},
  };
  return all;
}

} // namespace

TEST_CASE("the simulator finds mutants", "[mutants]") {
  int total = 0, caught = 0;
  std::set<const Equivalent *> used;
  for (const Subject &subject : subjects()) {
    // One tile; no key at all; several tiles, some partial. In persistent blocks so many tiles of work that all stages of Q are used again.
    // And where tiles are searched, more than are remembered.
    std::vector<Case> cases;
    std::vector<Expectation> expected;
    std::vector<std::pair<int64_t, int64_t>> sizes{{20, 24}, {40, 0}, {130, 170}, {200, 140}};
    if (subject.name == "documents" || subject.name == "blocks")
      sizes.push_back({20, 1100});
    for (auto [queries, keys] : sizes) {
      const int64_t heads = !subject.schedule.queryStages ? 1 : queries < 64 ? 5 : 3;
      cases.push_back(makeCase(subject.name, subject.variant, bf16,
                               {.batch = 1, .heads = heads, .headsKv = 1, .queries = queries, .keys = keys, .headDim = 64}, 6 + cases.size()));
      cases.back().problem.threads = 1;
      if (subject.name == "documents")
        for (const char *name : {"rows", "columns"}) {
          const bool ofKeys = name[0] == 'c';
          reference::HostTensor ids = reference::HostTensor::zeros(i32, {std::max<int64_t>(ofKeys ? keys : queries, 1)});
          for (int64_t i = 0; i < ids.shape[0]; ++i)
            ids.setInt(i, ofKeys ? i / 32 % 33 : i < 64 ? i % 2 : i < 128 ? -5 : keys < 150 ? 4 : 1 + i % 2 * 4);
          cases.back().problem.tensors[name] = ids;
        }
      else if (subject.name == "relative")
        cases.back().problem.tensors["table"] = reference::HostTensor::random(f32, {heads, 200}, 3);
      else if (subject.name == "dense") // with rows by 16 bytes, and in the last case without
        cases.back().problem.tensors["bias"] = reference::HostTensor::random(bf16, {heads, 200, keys == 140 ? 141 : 176}, 3);
      else if (subject.name == "blocks")
        for (reference::HostTensor &pattern = cases.back().problem.tensors["pattern"]; int64_t i : std::views::iota(int64_t(0), pattern.size()))
          // Gaps before, among and after two tiles, or three.
          pattern.setInt(i, pattern.shape[2] == 1 || ((keys < 150 ? 0b001010 : 0b011010) >> i % pattern.shape[2] % 33 & 1));
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
    auto isFound = [&](const std::string &mutant) {
      Expected<Simulation> simulation = Simulation::load({mutant, "mutant.mlir"});
      if (!simulation)
        return true;
      for (uint64_t seed = 0; seed < 6; ++seed)
        for (size_t i = 0; i < cases.size(); ++i)
          if (!simulate(*simulation, cases[i], expected[i], seed).pass)
            return true;
      return false;
    };
    CHECK(!isFound(*text));
    std::vector<Mutant> mutants = mutantsOf(*text);
    CHECK(mutants.size() >= 11);
    for (const Mutant &mutant : mutants) {
      const Equivalent *equivalent = nullptr;
      for (const Equivalent &each : equivalents())
        if (std::regex_match(mutant.what, std::regex(each.what)) && std::regex_match(kernel, std::regex(each.kernel)))
          equivalent = &each;
      bool found = isFound(mutant.text);
      if (equivalent) {
        INFO(mutant.what << " was found, though: " << equivalent->why);
        CHECK(!found);
        used.insert(equivalent);
        continue;
      }
      ++total;
      caught += found;
      if (!found)
        WARN(kernel << ": " << mutant.what << " was not found");
    }
  }
  // Of those that are not equivalent all are found; 95% is the floor that this test holds new kernels to.
  CHECK(total >= 400);
  CHECK(caught >= 0.95 * total);
  for (const Equivalent &each : equivalents())
    if (!used.contains(&each))
      FAIL_CHECK("no mutant is " << each.what << " of " << each.kernel);
}
