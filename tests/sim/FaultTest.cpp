//===- FaultTest.cpp - What the simulator says of one fault each ------------===//
//
// A sound kernel, one edit of its text, and the finding: its words, and the op at its line.
//
//===----------------------------------------------------------------------===//

#include "tests/sim/Schedules.h"

#include "attune/Builtins.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <regex>
#include <sstream>

using namespace attune;
using namespace attune::tests;

namespace {

std::string lineOf(const std::string &text, unsigned line) {
  std::istringstream stream(text);
  std::string result;
  while (line-- && std::getline(stream, result))
    ;
  return result;
}

/// A causal kernel with the first tiles of both kinds, full and partial, or one whose warpgroups all visit the same
/// tiles.
class Sound {
public:
  explicit Sound(const Schedule &schedule, int64_t keys = 170,
                 const Variant &variant = Variant("causal").mask(causal()))
      : test(makeCase("sound", variant, bf16,
                      {.batch = 1, .heads = 1, .headsKv = 1, .queries = 130, .keys = keys, .headDim = 64}, 6)) {
    schedule.applyTo(test.options);
    Expected<std::string> made = schedText(test, schedule);
    if (!made)
      FAIL(made.error().text());
    text = *made;
  }

  /// What is found in the text with match number `which` of `pattern` replaced, without " (block ...)". The op in the
  /// finding stands at its line.
  std::string find(const std::string &pattern, const std::string &replacement, int which = 1, uint64_t seed = 0) const {
    std::string edited = text;
    std::regex regex(pattern);
    auto match = std::sregex_iterator(text.begin(), text.end(), regex);
    for (int i = 1; i < which && match != std::sregex_iterator(); ++i)
      ++match;
    if (match == std::sregex_iterator())
      FAIL("nothing matches " << pattern);
    edited.replace(size_t(match->position()), size_t(match->length()), match->format(replacement));
    return findIn(edited, seed);
  }

  std::string findIn(const std::string &edited, uint64_t seed = 0) const {
    Expected<Simulation> simulation = Simulation::load({edited, "edited.mlir"});
    if (!simulation)
      return "not loaded: " + simulation.error().message;
    Expected<Results> results = run(launcher(*simulation, test, seed), test);
    if (results)
      return "nothing";
    const Error &error = results.error();
    CHECK(error.where.file == "edited.mlir");
    std::string op = error.message.substr(1, error.message.find('\'', 1) - 1);
    INFO(error.text());
    CHECK(lineOf(edited, error.where.line).find(op) != std::string::npos);
    return error.message.substr(0, error.message.find(" (block"));
  }

  std::string text;
  Case test;
};

const Sound &warpLevel() {
  static const Sound kernel({"sm_80", 64, 32, 4, 2, false});
  return kernel;
}
const Sound &warpgroupLevel() {
  static const Sound kernel({"sm_90a", 128, 32, 8, 2, false, 1, 0, true}, 150, Variant("plain"));
  return kernel;
}
/// A block with two tiles of work, each with five tiles of keys.
const Sound &persistentBlocks() {
  static const Sound kernel({"sm_90a", 128, 32, 8, 2, false, 1, 1, true}, 150, Variant("plain"));
  return kernel;
}

} // namespace

TEST_CASE("sound kernels have no findings", "[faults]") {
  for (const Sound *kernel : {&warpLevel(), &warpgroupLevel(), &persistentBlocks()})
    for (uint64_t seed = 0; seed < 12; ++seed)
      CHECK(kernel->findIn(kernel->text, seed) == "nothing");
}

TEST_CASE("asynchronous copies by threads", "[faults]") {
  const Sound &kernel = warpLevel();
  SECTION("a dropped wait") {
    CHECK(kernel.find("sched.wait_copies pending 0.*", "") ==
          "'sched.load_matrix' op reads q_tile while a copy into it is under way");
  }
  SECTION("a wait for too little") {
    CHECK(kernel.find("pending 0", "pending 1") ==
          "'sched.load_matrix' op reads q_tile while a copy into it is under way");
  }
  SECTION("a dropped barrier after the wait: other threads' copies") {
    CHECK(kernel.find("sched.barrier.*", "", 1, 2) ==
          "'sched.load_matrix' op reads q_tile, which another thread wrote, and no barrier or ring orders the two");
  }
  SECTION("a dropped barrier before a buffer is written again") {
    CHECK(
        kernel.find("sched.barrier.*", "", 2) ==
        "'sched.store_shared' op writes o_tile, which another warp may still read; no barrier or ring orders the two");
  }
  SECTION("a copy without a group") {
    CHECK(kernel.find("sched.commit_copies\n", "sched.fence_async\n", 2) ==
          "'sched.load_matrix' op reads k_ring, stage 1, while a copy into it is under way");
  }
  SECTION("a copy that nobody waits for") {
    // Without keys nothing but the last wait completes Q's copy.
    CHECK(Sound({"sm_80", 64, 32, 4, 2, false}, 0).find("sched.wait_copies .*", "", 2) ==
          "'sched.copy_async' op starts a copy that no wait_copies completes");
  }
  SECTION("rows outside of the tensor") {
    CHECK(kernel.find("to (%[^ ]*)\\[%c0_i32, (%[^ ]*)\\] if %[^ ]* :", "to $1[%c0_i32, $2] if %true :", 1)
              .find("'sched.copy_async' op accesses q at index 13") == 0);
  }
  SECTION("rows outside of the shared tile") {
    CHECK(kernel.find("to (%[^ ]*)\\[%c0_i32, (%[^ ]*)\\] if", "to $1[%c1_i32, $2] if", 1)
              .find("outside of its 1 x 64 x 64") != std::string::npos);
  }
}

TEST_CASE("registers and memory that hold nothing", "[faults]") {
  const Sound &kernel = warpLevel();
  SECTION("registers") {
    // The second: of l, behind that of m.
    CHECK(kernel.find("sched.set (%[^ ]*), (%[^ ]*)\\[%c0_i32, %r\\]", "sched.set $1, $2[%c0_i32, %c0_i32]", 2) ==
          "'sched.get' op reads an element of l that nothing has written");
  }
  SECTION("shared memory") {
    CHECK(kernel.find("sched.copy_async .*", "") == "'sched.load_matrix' op reads q_tile, which nothing has written");
  }
}

TEST_CASE("part of a warp", "[faults]") {
  const Sound &kernel = warpgroupLevel();
  CHECK(kernel.find("sched.sync_warps (%[^ ]*) threads 128\\n((?:.*\\n)*?.*scf.if %[^ ]* \\{)",
                    "$2\nsched.sync_warps $1 threads 128") ==
        "'sched.sync_warps' op needs the whole warp, 1 of its lanes are here");
}

TEST_CASE("rings", "[faults]") {
  const Sound &kernel = warpgroupLevel();
  const std::string anyStage = "%[kv]_barriers\\[%[^ ]*\\] phase %[^ ]* .*";
  SECTION("a dropped wait") {
    CHECK(kernel.find("sched.wait " + anyStage, "") ==
          "'sched.mma_async' op reads k_ring, stage 0, while a copy into it is under way");
  }
  SECTION("a dropped acquire") {
    CHECK(kernel.find("sched.acquire " + anyStage, "", 2) ==
          "'sched.load_box' op fills v_ring, stage 0, while an asynchronous op still reads it");
  }
  SECTION("a wrong phase: the wait passes too early") {
    CHECK(kernel.find("(sched.wait %k_barriers\\[%[^ ]*\\] phase) %[^ ]*", "$1 %c1_i32") ==
          "'sched.mma_async' op reads k_ring, stage 0, while a copy into it is under way");
  }
  SECTION("a wrong phase: the acquire never passes") {
    std::string found = kernel.find("(sched.acquire %k_barriers\\[%[^ ]*\\] phase) %[^ ]*", "$1 %c1_i32");
    INFO(found);
    CHECK(std::regex_match(
        found, std::regex("'sched.acquire' op never ends, as no warp can go on: warp 0 waits for stage 0 of k_barriers "
                          "to be empty, where 8 of 8 arrivals are "
                          "missing \\(line [0-9]+\\); warps 4 to 11 wait for stage 0 of k_barriers to be full, where 1 "
                          "of 1 arrivals are missing \\(line [0-9]+\\)")));
  }
  SECTION("an early release") {
    CHECK(kernel.find("(sched.mma_wait pending 0 .*\\n)(.*sched.release .*\\n)", "$2$1", 1) ==
          "'sched.load_box' op fills k_ring, stage 0, while an asynchronous op still reads it");
  }
  SECTION("a dropped release") {
    CHECK(kernel.find("sched.release .*", "", 4) ==
          "'sched.kernel' op ends with v_barriers, stage 0, filled 3 times and released 2 times");
  }
  SECTION("a release too many") {
    // The stage counts as empty before all warps have released it.
    CHECK(kernel.find("(sched.release .*)", "$1\n$1", 1) == "'sched.load_box' op fills k_ring, stage 0, which another "
                                                            "warp may still read; no barrier or ring orders the two");
  }
  SECTION("fewer releases than the ring asks for") {
    CHECK(kernel.find("emptied_by 8", "emptied_by 7", 2) == "'sched.load_box' op fills k_ring, stage 0, which another "
                                                            "warp may still read; no barrier or ring orders the two");
  }
  SECTION("bytes expected and not copied") {
    CHECK(kernel.find("expect_bytes 4096", "expect_bytes 4112").find("and 16 bytes") != std::string::npos);
  }
  SECTION("bytes copied and not expected") {
    CHECK(kernel.find("expect_bytes 4096", "expect_bytes 4080")
              .find("although copies bring more bytes than expect_bytes has named") != std::string::npos);
  }
  SECTION("not initialised") {
    CHECK(kernel.find("sched.init_ring .*", "") ==
          "'sched.wait' op uses q_barriers, which no init_ring has initialised");
  }
  SECTION("initialised, and not yet seen") {
    std::string found;
    for (uint64_t seed = 0; seed < 8; ++seed) // a warp has to come after the one that initialises
      if (std::string each = kernel.find("sched.barrier.*", "", 1, seed);
          each.find("whose init_ring no barrier orders before") != std::string::npos)
        found = each;
    CHECK(found.find("'sched.") == 0);
  }
  SECTION("initialised, and not shown to TMA") {
    CHECK(kernel.find("sched.fence_init.*", "") ==
          "'sched.load_box' op signals q_barriers, whose init_ring no fence_init has shown to TMA");
  }
}

TEST_CASE("what the lanes of a warp store beside a copy", "[faults]") {
  auto ids = captured("ids", i32, rank(1));
  const Sound kernel({"sm_90a", 128, 32, 8, 2, false, 1, 0, true}, 150, Variant("documents").mask(documents(ids)));
  CHECK(kernel.findIn(kernel.text) == "nothing");
  // Each lane awaits the stage before it stores there, and arrives for what it has stored. They meet before the next
  // stage.
  std::string early = kernel.text;
  const size_t waiting = early.rfind("sched.acquire", early.find("sched.store_shared"));
  early.erase(waiting, early.find('\n', waiting) - waiting);
  CHECK(kernel.findIn(early) == "'sched.store_shared' op writes column_ids_ring, stage 0, which another warp may still "
                                "read; no barrier or ring orders the two");
  CHECK(kernel.find("sched.sync_lanes.*", "") == "'sched.expect_bytes' op arrives after stores of other lanes, which "
                                                 "it does not hand on; a sync_lanes between them is missing");
}

TEST_CASE("named barriers", "[faults]") {
  const Sound &kernel = warpgroupLevel();
  SECTION("a count of threads that others do not have") {
    CHECK(kernel.find("sync_warps (.*) threads 256", "sync_warps $1 threads 288") ==
          "'sched.sync_warps' op reaches barrier 5 for 288 threads, where others wait for 256");
  }
  SECTION("reached too often") {
    CHECK(kernel.find("sched.sync_warps .*", "") ==
          "'sched.arrive_warps' op reaches barrier 5 a second time before all 256 threads have reached it once");
  }
  SECTION("too few arrive") {
    CHECK(kernel.find("sched.arrive_warps .*", "")
              .find("warps 4 to 7 wait at barrier 5, where 128 of 256 threads have arrived") != std::string::npos);
  }
}

TEST_CASE("asynchronous MMAs", "[faults]") {
  const Sound &kernel = warpgroupLevel();
  SECTION("no fence before") {
    CHECK(kernel.find("sched.mma_fence.*", "") ==
          "'sched.mma_async' op uses s without an mma_fence since ordinary instructions touched it");
  }
  SECTION("no wait") {
    CHECK(kernel.find("sched.mma_wait .*", "") ==
          "'sched.get' op touches s while an asynchronous MMA on it is under way");
  }
  SECTION("a wait for too little") {
    CHECK(kernel.find("mma_wait pending 0", "mma_wait pending 1") ==
          "'sched.mma_wait' op names s, whose MMA may still be under way");
  }
  SECTION("a wait that does not name the registers") {
    CHECK(kernel.find("mma_wait pending 0 .*", "mma_wait pending 0") ==
          "'sched.get' op touches s, which no mma_wait has named since its MMA");
  }
  SECTION("a left operand overwritten before a wait names it") {
    CHECK(kernel.find("completes\\((%[^ ,]*), %[^ )]*\\) : (!tile.tile<[^>]*>>), .*", "completes($1) : $2", 1) ==
          "'sched.set' op touches p, which no mma_wait has named since its MMA");
  }
  SECTION("K released before the wait for its product") {
    const std::string early = "(\n *sched.mma_wait pending [01][^\n]*)(\n *sched.release %k[^\n]*)";
    // The product with V of the tile before runs meanwhile.
    const Sound overlapping({"sm_90a", 128, 32, 8, 2, false, 1, 0, false, true}, 150, Variant("plain"));
    CHECK(overlapping.find(early, "$2$1").find("'sched.load_box' op fills k_ring, stage 0, ") == 0);
    // In the loop V's ring orders the two: the producer fills V's stage of the tile before first, whose release comes
    // after this wait.
    for (uint64_t seed = 0; seed < 12; ++seed)
      CHECK(overlapping.find(early, "$2$1", 2, seed) == "nothing");
  }
  SECTION("rows that the hardware's swizzle does not start at") {
    CHECK(kernel
              .find("(sched.mma_async %[^ ]*, %[^ ]*\\[%c0_i32, %[^ ]*, %[^ ]*\\], %k_ring\\[%[^ ]*), %c0_i32,",
                    "$1, %c1_i32,")
              .find("outside of its 2 x 32 x 64") != std::string::npos);
  }
}

TEST_CASE("stores by TMA", "[faults]") {
  const Sound &kernel = warpgroupLevel();
  SECTION("no fence between the proxies") {
    CHECK(kernel.find("sched.fence_async.*", "") ==
          "'sched.store_box' op reads o_tile, which the asynchronous proxy does not see; a "
          "fence_async of the threads that wrote it is missing");
  }
  SECTION("no barrier after the threads' stores") {
    CHECK(kernel.find("sched.sync_warps .* threads 128.*", "") ==
          "'sched.store_box' op reads o_tile, which another thread wrote, and no barrier or ring orders the two");
  }
  SECTION("no wait before the block ends") {
    CHECK(kernel.find("sched.wait_boxes .*", "") ==
          "'sched.store_box' op reads shared memory, and no wait_boxes completes it before the thread ends");
  }
  SECTION("no group") {
    CHECK(kernel.find("sched.commit_boxes.*", "") ==
          "'sched.store_box' op reads shared memory, and no wait_boxes completes it before the thread ends");
  }
}

TEST_CASE("one tile of work after another", "[faults]") {
  const Sound &kernel = persistentBlocks();
  const std::string nextWork = "sched.next (%next_number[^ ,]*), [^:]* : i32, i32, i32"; // of the producer
  SECTION("Q's stage filled again before its readers are done") {
    CHECK(kernel.find("sched.acquire .*", "") ==
          "'sched.load_box' op fills q_tile, which another warp may still read; no barrier or ring orders the two");
  }
  SECTION("Q's stage never released") {
    CHECK(kernel.find("sched.release %[^ ]*\\[%c0_i32\\] .*", "")
              .find("'sched.acquire' op never ends, as no warp can go on: warp 0 waits for stage 0 of q_barriers to be "
                    "empty, where 8 of 8 "
                    "arrivals are missing") == 0);
  }
  SECTION("O overwritten while it is copied") {
    CHECK(kernel.find("sched.wait_boxes .*", "") ==
          "'sched.store_matrix' op writes o_tile while an asynchronous op still reads it");
  }
  SECTION("O overwritten before one thread's wait is known to the others") {
    CHECK(kernel.find("sched.sync_warps .* threads 128.*", "", 1, 2) ==
          "'sched.store_matrix' op writes o_tile while an asynchronous op still reads it");
  }
  SECTION("rings of K and V that start anew in one role") {
    // Four tiles, two walks over the stages, would end where they began; the first tile of work has five.
    std::string found = kernel.find(nextWork, "sched.next $1, %c0_i32, %c0_i32 : i32, i32, i32");
    INFO(found);
    CHECK(std::regex_match(
        found, std::regex("'sched.acquire' op never ends, as no warp can go on: warp 0 waits for stage 0 of k_barriers "
                          "to be empty, where 8 of 8 arrivals are missing \\(line [0-9]+\\); warps 4 to 11 wait for "
                          "stage 1 of k_barriers to be full, where 1 of 1 arrivals are missing \\(line [0-9]+\\)")));
  }
  SECTION("a last tile of work that is not announced as the last") {
    CHECK(kernel.find("(sched.send .*, )%[^ ,]* to", "$1%c1_i32 to")
              .find("'sched.wait' op never ends, as no warp can go on: warps 4 to 11 wait") == 0);
  }
  SECTION("a tile of work announced as the last before it is") {
    CHECK(kernel.find("(sched.send .*, )%[^ ,]* to", "$1%c0_i32 to")
              .find("'sched.acquire' op never ends, as no warp can go on: warp 0 waits") == 0);
  }
  SECTION("a tile of work that other lanes may still read when one releases its stage") {
    CHECK(
        kernel.find("sched.sync_lanes.*\n(.*sched.release %q)", "$1") ==
        "'sched.send' op writes tasks, which lanes of another warp may still read although one of them has arrived; a "
        "sync_lanes before the arrival is missing");
  }
  SECTION("a tile of work read after its stage was released") {
    CHECK(
        kernel.find("(\n[^\n]*sched.receive[^\n]*)((?:\n[^\n]*){1,20}?)(\n *sched.release %[^ ]*\\[%c0_i32\\] [^\n]*)",
                    "$3$1$2", 1) ==
        "'sched.send' op writes tasks, which another warp may still read; no barrier or ring orders the two");
  }
}

TEST_CASE("what cannot be simulated", "[faults]") {
  const Sound &kernel = warpLevel();
  auto loadError = [](const std::string &text) {
    Expected<Simulation> simulation = Simulation::load({text, "edited.mlir"});
    return simulation ? std::string("loaded") : simulation.error().message;
  };
  CHECK(loadError("module {}") == "the text holds 0 kernels, required is one attn.attention, tile.kernel or "
                                  "sched.kernel; split it into one file each");
  CHECK(loadError("module {") != "loaded");
  Expected<std::string> tile = emit(*kernel.test.variant, optionsOf(kernel.test), Target::cuda("sm_80"), Stage::Tile);
  REQUIRE(tile);
  CHECK(loadError(*tile) == "the text is at stage tile, only a schedule can be simulated; emit its sched text");
}
