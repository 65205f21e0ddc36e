//===- Mutants.cpp - Kernels with one op of synchronisation changed ---------===//

#include "tests/sim/Mutants.h"

#include "attune/Builtins.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace attune;
using namespace attune::tests;

namespace {

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

/// Whether the line gives the number of a tile of work along q.
bool isQueryTile(const std::string &line) {
  return line.find("sched.nonnegative ") != std::string::npos &&
         line.find("tile.name = \"q_index\"") != std::string::npos;
}

/// How many rows a tile of the kernel has.
std::string tileRows(const std::string &text) {
  std::smatch rows;
  std::regex_search(text, rows, std::regex("plan <q ([0-9]+)"));
  return rows[1];
}

} // namespace

std::vector<std::string> attune::tests::linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

std::string attune::tests::join(const std::vector<std::string> &lines) {
  std::string text;
  for (const std::string &line : lines)
    text += line + "\n";
  return text;
}

std::vector<Mutant> attune::tests::mutantsOf(const std::string &text) {
  static const std::regex op("sched\\.(wait_copies|commit_copies|barrier|init_ring|fence_init|acquire|wait|expect_"
                             "bytes|commit|release|sync_lanes|sync_warps|arrive_warps|"
                             "commit_boxes|wait_boxes|fence_async|mma_fence|mma_commit|mma_wait|send|receive|ring|"
                             "ballot|nonnegative|claim_work|next)( |$)");
  static const std::set<std::string> structure = {"receive", "ring", "ballot", "nonnegative", "claim_work", "next"};
  static const std::regex phase("(acquire|wait) (%[^ ]*\\]) phase (%[^ ]*) ");
  const std::vector<std::string> lines = linesOf(text);
  std::vector<Mutant> mutants;
  std::map<std::string, int> count;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(lines[i], match, op) || (match[1] == "nonnegative" && !isQueryTile(lines[i])))
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
        changed[i] = lines[i].substr(0, part.position(1)) + change.replacement(part[1]) +
                     lines[i].substr(part.position(1) + part.length(1));
      });
    }
    if (std::smatch part; std::regex_search(lines[i], part, phase))
      add("for the other phase", [&](auto &changed) {
        size_t at = lines[i].find("sched.");
        std::string value = fmt::format("%other_phase = arith.xori {}, %one_more : i32", part[3].str());
        changed[i] = lines[i].substr(0, at) + "%one_more = arith.constant 1 : i32\n" + value + "\n" +
                     lines[i].substr(0, part.position(3)) + "%other_phase" +
                     lines[i].substr(part.position(3) + part.length(3));
      });
    if (std::smatch part; kind == "ballot" && std::regex_search(lines[i], part, std::regex("ballot (%[^ ]*) ")))
      for (const char *answer : {"true", "false"})
        add(fmt::format("of {}", answer), [&](auto &changed) {
          changed[i] = fmt::format("%answer = arith.constant {}\n", answer) + lines[i].substr(0, part.position(1)) +
                       "%answer" + lines[i].substr(part.position(1) + part.length(1));
        });
    // Where one place alone says which tile of queries it is, another order is as good.
    if (std::smatch part; kind == "nonnegative" && std::count_if(lines.begin(), lines.end(), isQueryTile) > 1 &&
                          std::regex_search(lines[i], part, std::regex("nonnegative (%[^ ]*) ")))
      add("from the other end", [&](auto &changed) {
        changed[i] = fmt::format("%tile_rows_ = arith.constant {} : i32\n%one_more = arith.constant 1 : i32\n"
                                 "%all_queries_ = tile.axis_extent \"q\" : i32\n"
                                 "%number_of_tiles = arith.ceildivui %all_queries_, %tile_rows_ : i32\n"
                                 "%last_tile_ = arith.subi %number_of_tiles, %one_more : i32\n"
                                 "%other_tile = arith.subi %last_tile_, {} : i32\n",
                                 tileRows(text), part[1].str()) +
                     lines[i].substr(0, part.position(1)) + "%other_tile" +
                     lines[i].substr(part.position(1) + part.length(1));
      });
    const auto definedBy = [&](const std::string &value, const std::string &definition) {
      return std::any_of(lines.begin(), lines.begin() + i, [&](const std::string &line) {
        return line.find(value + " = sched." + definition) != std::string::npos;
      });
    };
    if (kind == "claim_work") {
      add("once more", [&](auto &changed) {
        const std::string claim = lines[i].substr(lines[i].find("sched."));
        changed.insert(changed.begin() + i, "%unused = " + std::regex_replace(claim, std::regex(" \\{[^}]*\\}"), ""));
      });
      const std::string number = lines[i].substr(lines[i].find('%'), lines[i].find(" =") - lines[i].find('%'));
      add("read from lane 1", [&](auto &changed) {
        for (std::string &line : changed)
          if (line.find("sched.shuffle " + number + ",") != std::string::npos)
            line = std::regex_replace(line, std::regex("%c0_i32"), "%c1_i32");
      });
    }
    // The next tile of work: its number where it is claimed, its stage and phase; other sched.next ops have a tile's
    // index first.
    if (std::smatch part;
        kind == "next" &&
        std::regex_search(lines[i], part,
                          std::regex("next (?:(%[^ ,]*), )?(%[^ ,]*), (%[^ ,]*) : (?:i32, )?i32, i32($| loc)")) &&
        definedBy(part[2], "uniform")) {
      const std::string one = "%one_more = arith.constant 1 : i32\n";
      auto change = [&](const std::string &how, int which, const std::string &value) {
        add(how, [&](auto &changed) {
          changed[i] = value + lines[i].substr(0, part.position(which)) + "%other" +
                       lines[i].substr(part.position(which) + part.length(which));
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
        add(fmt::format("of field {} as 0", ++field), [&](auto &changed) {
          changed[i].replace(size_t(part.position(1) + value->position()), size_t(value->length()), "%c0_i32");
        });
    }
    // Stages other than the op's own.
    static const std::regex stage(
        "sched\\.(?:acquire|wait|release|expect_bytes [0-9]+ on|send .* to|receive from) %[^ ]*\\[(%[^ ]*)\\]");
    if (std::smatch part; std::regex_search(lines[i], part, stage) && part[1] != "%c0_i32")
      add("of stage 0",
          [&](auto &changed) { changed[i].replace(size_t(part.position(1)), size_t(part.length(1)), "%c0_i32"); });
    static const std::regex ofRing(
        "sched\\.(?:acquire|wait|release|expect_bytes [0-9]+ on) %[^ ]*\\[(%[^ ]*)\\].* : <([0-9]+)>");
    if (std::smatch part; std::regex_search(lines[i], part, ofRing) && part[2] != "1")
      add("of the next stage", [&](auto &changed) {
        changed[i] = fmt::format("%one_more = arith.constant 1 : i32\n%stages = arith.constant {} : i32\n%later = "
                                 "arith.addi {}, %one_more : i32\n"
                                 "%other_stage = arith.remui %later, %stages : i32\n",
                                 part[2].str(), part[1].str()) +
                     lines[i].substr(0, part.position(1)) + "%other_stage" +
                     lines[i].substr(part.position(1) + part.length(1));
      });
    // Too late where it waits, too early where it arrives: one op further on.
    static const std::set<std::pair<std::string, std::string>> ordered = {
        {"wait_copies", "barrier"},     {"commit_copies", "wait_copies"}, {"init_ring", "fence_init"},
        {"acquire", "expect_bytes"},    {"expect_bytes", "load_box"},     {"mma_commit", "mma_wait"},
        {"mma_wait", "release"},        {"wait", "sync_warps"},           {"store_box", "commit_boxes"},
        {"commit_boxes", "wait_boxes"}, {"sync_lanes", "release"},        {"sync_lanes", "commit"}};
    std::smatch next;
    static const std::regex anyOp("sched\\.([a-z_]+)( |$)");
    if (i + 1 < lines.size() && std::regex_search(lines[i + 1], next, anyOp) && ordered.contains({kind, next[1]}))
      add(fmt::format("after {}", next[1].str()), [&](auto &changed) { std::swap(changed[i], changed[i + 1]); });
  }
  return mutants;
}

std::string attune::tests::withoutKernels(const std::string &text,
                                          const std::function<bool(const std::string &)> &isOne) {
  std::vector<std::string> kept;
  bool within = false, any = false;
  for (const std::string &line : linesOf(text)) {
    within = within || (line.starts_with("  sched.kernel") && isOne(line));
    any = any || within;
    if (!within)
      kept.push_back(line);
    within = within && !line.starts_with("  }");
  }
  // One kernel is left, which needs no launch.
  if (any)
    std::erase_if(kept, [](const std::string &line) { return line.starts_with("  tile.launch"); });
  return join(kept);
}

std::string attune::tests::withoutFallbacks(const std::string &text) {
  return withoutKernels(text,
                        [](const std::string &line) { return line.find("tile.fallback_of") != std::string::npos; });
}

std::vector<Subject> attune::tests::mutationSubjects() {
  Variant plain = Variant("plain"), masked = Variant("causal").mask(causal()),
          sparse = Variant("blocks").blocks(captured("pattern", boolean, rank(3)), 64, 32);
  std::vector<Subject> all;
  for (int stages : {1, 2, 3})
    for (bool qRegisters : {false, true})
      all.push_back({"causal", masked, {"sm_80", 64, 32, 4, stages, qRegisters}});
  all.push_back({"blocks", sparse, {"sm_80", 64, 32, 4, 2, false}});
  for (bool pingPong : {false, true})
    for (int stages : {2, 3})
      all.push_back({"causal", masked, {"sm_90a", 128, 32, 8, stages, false, 1, 0, pingPong, !pingPong}});
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
  all.push_back(
      {"moving", Variant("moving").mask(causal()).scale(8), {"sm_90a", 128, 32, 8, 2, false, 1, 2, true, true}});
  // A ring that a warp of the producer's warpgroup fills by stores.
  auto table = captured("table", f32, rank(2));
  Variant relative = Variant("relative").mask(causal()).score([=](Score s, Index, Index h, Index q, Index k) {
    return s + table[h][q - k];
  });
  all.push_back({"relative", relative, {"sm_90a", 64, 32, 4, 2, false, 1, 0, false, true}});
  all.push_back({"relative", relative, {"sm_90a", 128, 32, 8, 3, false, 1, 2, true}});
  // A ring of boxes of a captured tensor.
  Variant dense = Variant("dense").mask(causal()).score(bias(captured("bias", bf16, rank(3))));
  all.push_back({"dense", dense, {"sm_90a", 64, 32, 4, 2, false, 1, 0, false, true}});
  all.push_back({"dense", dense, {"sm_90a", 128, 32, 8, 3, false, 1, 2, false, true}});
  return all;
}
