//===- KernelTest.cpp - Small kernels by hand in the simulator --------------===//
//
// What the compiler's own schedules do not use yet, and the edges of what they use: loops and branches by lane,
// searches and exchanges within a warp, rings that threads fill, sums in global memory.
//
//===----------------------------------------------------------------------===//

#include "attune/Simulate.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace attune;

namespace {

/// The text with its searches and block patterns as loops.
std::string expanded(const std::string &text) {
  mlir::MLIRContext context;
  context.loadDialect<attn::AttnDialect, tile::TileDialect, sched::SchedDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::scf::SCFDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(&context), "hand.mlir");
  if (!module)
    return text;
  mlir::PassManager passes(&context);
  passes.addPass(createExpandSearches());
  REQUIRE(mlir::succeeded(passes.run(*module)));
  std::string result;
  llvm::raw_string_ostream stream(result);
  module->print(stream);
  return result;
}

/// 64 threads and 64 queries of 8 float32 columns, q[row][column] = 10 row + column; o and lse start with zeros.
struct Run {
  std::string finding;
  std::vector<float> o = std::vector<float>(512), lse = std::vector<float>(64);

  explicit Run(const std::string &body, uint64_t seed = 0) {
    Expected<Simulation> simulation = Simulation::load({expanded(R"(
sched.kernel @hand(q: in [b, h, q, d 8] f32, o: out [b, h, q, dv 8] f32, lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_90a" threads 64 blocks_per_sm 1 shared_bytes 2064 dtype f32 plan <q 64 x k 16,
    warps = 2, blocks_per_sm = 1> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c5 = arith.constant 5 : i32
  %c8 = arith.constant 8 : i32
  %c31 = arith.constant 31 : i32
  %c32 = arith.constant 32 : i32
  %c63 = arith.constant 63 : i32
  %most = arith.constant 2147483640 : i32
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %t = sched.thread_id : i32
  %first = arith.cmpi eq, %t, %c0 : i32
  %mirror = arith.subi %c63, %t : i32
  %lane = arith.remui %t, %c32 : i32
  %q = tile.param "q" : !tile.view<4, f32>
  %o = tile.param "o" : !tile.view<4, f32>
  %lse = tile.param "lse" : !tile.view<3, f32>
  sched.for_work grid (%work) {
    %q_rows = sched.slice %q[%work, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %o_rows = sched.slice %o[%work, %c0] : !tile.view<4, f32> -> !tile.view<2, f32>
    %rows = sched.slice %lse[%work, %c0] : !tile.view<3, f32> -> !tile.view<1, f32>
)" + body + "\n  }\n}\n"),
                                                        "hand.mlir"});
    if (!simulation)
      FAIL(simulation.error().text());
    std::vector<float> input(512);
    for (int i = 0; i < 512; ++i)
      input[i] = float(10 * (i / 8) + i % 8);
    auto view = [](std::vector<float> &data) { return Tensor::contiguous(data.data(), f32, {1, 1, 64, 8}); };
    LaunchArgs args{.q = view(input),
                    .k = view(input),
                    .v = view(input),
                    .o = view(o),
                    .lse = Tensor::contiguous(lse.data(), f32, {1, 1, 64})};
    Expected<void> ran = simulation->run(args, {.seed = seed});
    if (!ran)
      finding = ran.error().message.substr(0, ran.error().message.find(" (block"));
  }
};

} // namespace

TEST_CASE("loops and branches by lane", "[kernels]") {
  Run run(R"(
    %turns = arith.remui %t, %c5 : i32
    %sum = scf.for %i = %c0 to %turns step %c1 iter_args(%x = %zero) -> (f32) : i32 {
      %y = arith.addf %x, %one : f32
      scf.yield %y : f32
    }
    %odd = arith.trunci %t : i32 to i1
    %signed = scf.if %odd -> (f32) {
      %minus = arith.negf %sum : f32
      scf.yield %minus : f32
    } else {
      scf.yield %sum : f32
    }
    sched.store_element %signed, %rows[%t] : f32, !tile.view<1, f32>)");
  CHECK(run.finding == "");
  for (int t = 0; t < 64; ++t)
    CHECK(run.lse[t] == float(t % 5 * (t % 2 ? -1 : 1)));
}

TEST_CASE("a search by the lanes of a warp", "[kernels]") {
  auto search = [](const std::string &from, const std::string &bound, int wanted, const std::string &seen = "",
                   const std::string &result = "%n", const std::string &groups = "") {
    return R"(
    %wanted = arith.constant )" +
           std::to_string(wanted) + R"( : i32
    %bound = arith.constant )" +
           bound + R"( : i32
    %seven = arith.constant 7 : i32
    %bits = arith.constant 0x81 : i32
    %n, %origin, %visible, %full = sched.next_visible from )" +
           from + " below %bound" + seen + R"( {
    ^bb0(%tile: i32):
      %is = arith.cmpi sge, %tile, %wanted : i32
      %odd = arith.trunci %tile : i32 to i1
      sched.visible %is, %odd
    })" + groups +
           R"(
    %result = arith.sitofp )" +
           result + R"( : i32 to f32
    sched.store_element %result, %rows[%t] : f32, !tile.view<1, f32>)";
  };
  auto resultOf = [&](const std::string &from, const std::string &bound, int wanted, const std::string &seen = "",
                      const std::string &result = "%n", const std::string &groups = "") {
    Run run(search(from, bound, wanted, seen, result, groups));
    CHECK(run.finding == "");
    CHECK(run.lse == std::vector<float>(64, run.lse[0]));
    return run.lse[0];
  };
  CHECK(resultOf("%c5", "60", 0) == 5);
  CHECK(resultOf("%c5", "60", 36) == 36);
  CHECK(resultOf("%c5", "60", 37) == 37); // the second 32
  CHECK(resultOf("%c5", "37", 37) == 37); // none
  CHECK(resultOf("%c5", "36", 36) == 36);
  CHECK(resultOf("%c5", "1000", 900) == 900);
  CHECK(resultOf("%c5", "5", 0) == 5); // no tile to ask for
  CHECK(resultOf("%c5", "2", 0) == 2);
  CHECK(resultOf("%most", "2147483647", 0) == 2147483647.0f);
  // What is known of the tiles around.
  CHECK(resultOf("%c5", "60", 36, "", "%origin") == 5);
  CHECK(resultOf("%c5", "40", 37, "", "%origin") == 37);
  CHECK(resultOf("%c5", "40", 37, "", "%visible") == 0b111);
  CHECK(resultOf("%c5", "40", 37, "", "%full") == 0b101);
  CHECK(resultOf("%c5", "37", 37, "", "%origin") == 37);
  CHECK(resultOf("%c5", "37", 37, "", "%visible") == 0);
  // A search that starts within a window takes its answers, and asks from its end on.
  const std::string from7 = " seen %seven, %bits, %bits", from0 = " seen %c0, %bits, %bits";
  CHECK(resultOf("%c5", "60", 50, from7) == 50);
  CHECK(resultOf("%c5", "60", 50, from0) == 7);
  CHECK(resultOf("%c5", "60", 50, from0, "%origin") == 0);
  CHECK(resultOf("%c5", "60", 50, from0, "%full") == 0x81);
  CHECK(resultOf("%seven", "60", 50, from7) == 7);
  CHECK(resultOf("%c5", "60", 0, " seen %c0, %c5, %c0") == 32);
  CHECK(resultOf("%c5", "20", 0, " seen %c0, %c5, %c0") == 20);
  CHECK(resultOf("%most", "2147483647", 0, " seen %c5, %bits, %bits") == 2147483647.0f);
  // One group of 32 tiles may hold visible ones: where the end is far, no tile of others is asked for.
  auto inGroup = [&](int group, const std::string &from, const std::string &bound, int wanted,
                     const std::string &seen = "", const std::string &result = "%n") {
    return resultOf(from, bound, wanted, seen, result,
                    " groups {\n^bb0(%group: i32):\n%it = arith.constant " + std::to_string(group) +
                        " : i32\n%may = arith.cmpi eq, %group, %it : i32\nsched.visible %may\n}");
  };
  CHECK(inGroup(6, "%c5", "1000", 200) == 200);
  CHECK(inGroup(5, "%c5", "1000", 40) == 160);
  CHECK(inGroup(31, "%c5", "1000", 40) == 992);
  CHECK(inGroup(31, "%c5", "1000", 999) == 999);
  CHECK(inGroup(156, "%c5", "6000", 40) == 4992); // the fifth 32 groups
  CHECK(inGroup(1, "%c5", "1000", 37) == 37);     // the window begins within the group
  CHECK(inGroup(0, "%c5", "1000", 37) == 1000);
  CHECK(inGroup(32, "%c5", "1000", 37) == 1000); // past the last group
  CHECK(inGroup(0, "%c5", "101", 40) == 40);     // two windows are left
  CHECK(inGroup(0, "%c5", "102", 40) == 102);
  CHECK(inGroup(0, "%c5", "102", 36) == 36);
  CHECK(inGroup(5, "%c5", "1000", 0) == 5);
  CHECK(inGroup(5, "%c5", "1000", 0, "", "%origin") == 160); // groups first
  CHECK(inGroup(40, "%c5", "1000", 0, "", "%origin") == 1000);
  CHECK(inGroup(31, "%c5", "1000", 998, "", "%visible") == 0xc0);
  CHECK(inGroup(5, "%c5", "1000", 0, from0) == 7);
  CHECK(inGroup(5, "%c5", "1000", 70, " seen %c0, %c5, %c0") == 160);
  CHECK(inGroup(6, "%c5", "1000", 200, " without %c31, %c63") == 200);
  CHECK(inGroup(1, "%c5", "1000", 40, " without %c31, %c63") == 63);
  CHECK(inGroup(1, "%c5", "1000", 40, " without %c31, %c63", "%origin") == 63);
  CHECK(Run("scf.if %first {\n" + search("%c5", "60", 7) + "\n}").finding ==
        "'sched.ballot' op needs the whole warp, 1 of its lanes are here");
}

TEST_CASE("values of other lanes", "[kernels]") {
  const std::string exchange = R"(
    %value = arith.sitofp %t : i32 to f32
    %twice = arith.addf %value, %value : f32
    %there = sched.shuffle %twice, %from : f32
    sched.store_element %there, %rows[%t] : f32, !tile.view<1, f32>)";
  auto from = [](const std::string &lane) { return "%from = arith." + lane + " : i32\n"; };
  Run run(from("subi %c31, %lane") + exchange);
  CHECK(run.finding == "");
  for (int t = 0; t < 64; ++t)
    CHECK(run.lse[t] == float(2 * (t / 32 * 32 + 31 - t % 32)));
  CHECK(Run(from("addi %lane, %c5") + exchange).finding ==
        "'sched.shuffle' op takes the value of lane 32; a warp has 32");
  CHECK(Run("scf.if %first {\n" + from("addi %c5, %c0") + exchange + "\n}").finding ==
        "'sched.shuffle' op needs the whole warp, 1 of its lanes are here");
}

TEST_CASE("a ring that the copies of threads fill", "[kernels]") {
  const std::string head = R"(
    %tile = sched.shared "tile" at 0 : <stage 1 x q 64 x d 8, f32, shared>
    %ring = sched.ring "ring" at 2048 filled_by 64 emptied_by 2 : !sched.ring<1>
    scf.if %first {
      sched.init_ring %ring : !sched.ring<1>
    }
    sched.barrier
    sched.copy_async %q_rows[%t, %c0] to %tile[%c0, %t] if %true : !tile.view<2, f32>, !tile.tile<stage 1 x q 64 x d 8, f32, shared>
    sched.commit_copies
    sched.wait_copies pending 0
    sched.commit %ring[%c0] : !sched.ring<1>
)",
                    wait = "sched.wait %ring[%c0] phase %c0 : !sched.ring<1>\n", tail = R"(
    %x = sched.load_shared %tile[%c0, %mirror, %c1] : !tile.tile<stage 1 x q 64 x d 8, f32, shared> -> f32
    sched.store_element %x, %rows[%t] : f32, !tile.view<1, f32>
    sched.release %ring[%c0] : !sched.ring<1>)";
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Run run(head + wait + tail, seed);
    CHECK(run.finding == "");
    for (int t = 0; t < 64; ++t)
      CHECK(run.lse[t] == float(10 * (63 - t) + 1));
  }
  CHECK(Run(head + tail).finding.find("'sched.load_shared' op reads tile") == 0);
  // What one lane has waited for, the others have not.
  CHECK(Run(head + "scf.if %first {\n" + wait + "}\n" + tail).finding.find("'sched.load_shared' op reads tile") == 0);
}

TEST_CASE("a box", "[kernels]") {
  const std::string head = R"(
    %map = sched.tensor_map %q swizzle <32> : !tile.view<4, f32> -> !sched.tensor_map<64 x 8, f32>
    %tile = sched.shared "tile" at 0 : <stage 1 x q 64 x d 8, f32, shared, #sched.swizzle<32>>
    %ring = sched.ring "ring" at 2048 filled_by 1 emptied_by 2 : !sched.ring<1>
    scf.if %first {
      sched.init_ring %ring : !sched.ring<1>
      sched.fence_init
    }
    sched.barrier
    scf.if %first {
      sched.expect_bytes 2048 on %ring[%c0] : !sched.ring<1>
      sched.load_box %map[%work, %c0, %c0, %c0] to %tile[%c0] signal %ring : !sched.tensor_map<64 x 8, f32>, !tile.tile<stage 1 x q 64 x d 8, f32, shared, #sched.swizzle<32>>, !sched.ring<1>
    })";
  Run run(head + R"(
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %x = sched.load_shared %tile[%c0, %mirror, %c5] : !tile.tile<stage 1 x q 64 x d 8, f32, shared, #sched.swizzle<32>> -> f32
    sched.store_element %x, %rows[%t] : f32, !tile.view<1, f32>)");
  CHECK(run.finding == "");
  for (int t = 0; t < 64; ++t)
    CHECK(run.lse[t] == float(10 * (63 - t) + 5));
  CHECK(Run(head).finding ==
        "'sched.load_box' op copies into shared memory after the last warp has ended; nobody waits for it");
  CHECK(
      Run(std::string(head).replace(head.find("scf.if %first {\n      sched.expect"), 15, "scf.if %true {")).finding ==
      "'sched.expect_bytes' op arrives at ring, stage 0, more often than the 1 that fill it");
}

TEST_CASE("a ring that a warp fills by stores, and steps from a lane's own place", "[kernels]") {
  const std::string head = R"(
    %c16 = arith.constant 16 : i32
    %tile = sched.shared "tile" at 0 : <stage 1 x q 64 x d 8, f32, shared, #sched.swizzle<32>>
    %ring = sched.ring "ring" at 2048 filled_by 32 emptied_by 2 : !sched.ring<1>
    scf.if %first {
      sched.init_ring %ring : !sched.ring<1>
    }
    sched.barrier
    %second = arith.cmpi sge, %t, %c32 : i32
    scf.if %second {
      scf.for %row = %lane to %c63 step %c32 : i32 {
        %number = arith.sitofp %row : i32 to f32
        scf.for %c = %c0 to %c8 step %c1 : i32 {
          sched.store_shared %number, %tile[%c0, %row, %c] : f32, !tile.tile<stage 1 x q 64 x d 8, f32, shared, #sched.swizzle<32>>
        }
      }
      )";
  const std::string arrive = "sched.commit %ring[%c0] : !sched.ring<1>\n}\n";
  auto read = [](const std::string &row, const std::string &step) {
    return R"(
    sched.wait %ring[%c0] phase %c0 : !sched.ring<1>
    %own = arith.remui %t, %c8 : i32
    %x = sched.load_shared %tile[%c0, )" +
           row + ", %c1] step [" + step +
           R"(] : !tile.tile<stage 1 x q 64 x d 8, f32, shared, #sched.swizzle<32>> -> f32
    sched.store_element %x, %rows[%t] : f32, !tile.view<1, f32>)";
  };
  constexpr const char *four = "%c4 = arith.constant 4 : i32\n";
  Run run(four + head + arrive + read("%own", "%c16, %c4"));
  CHECK(run.finding == "");
  for (int t = 0; t < 64; ++t)
    CHECK(run.lse[t] == float(t % 8 + 16));
  // One lane arrives for the warp, whose lanes have synchronised.
  const size_t filled = head.find("filled_by 32");
  const std::string byWarp = std::string(head).replace(filled, 12, "filled_by 1");
  const std::string one = "sched.commit %ring[%c0] by_warp : !sched.ring<1>\n}\n";
  Run together(four + byWarp + "sched.sync_lanes\n" + one + read("%own", "%c16, %c4"));
  CHECK(together.finding == "");
  CHECK(together.lse == run.lse);
  CHECK(
      Run(four + byWarp + one + read("%own", "%c16, %c4")).finding ==
      "'sched.commit' op arrives after stores of other lanes, which it does not hand on; a sync_lanes between them is "
      "missing");
  // Four rows further on chunks are exchanged.
  CHECK(Run(four + head + arrive + read("%own", "%c4, %c4")).finding ==
        "'sched.load_shared' op steps by [4, 4] from [0, 1], which the swizzle of tile does not allow");
  CHECK(Run(four + head + "scf.if %first {\n}\n%some = arith.cmpi slt, %lane, %c5 : i32\nscf.if %some {\n" + arrive +
            "}\n" + read("%own", "%c16, %c4"))
            .finding.find("where 27 of 32 arrivals are missing") != std::string::npos);
  CHECK(Run(four + head + "}\n" + read("%own", "%c16, %c4")).finding.find("never ends") != std::string::npos);
}

TEST_CASE("sums in global memory", "[kernels]") {
  const std::string fill = R"(
    %tile = sched.shared "tile" at 0 : <stage 1 x q 64 x d 8, f32, shared>
    scf.for %c = %c0 to %c8 step %c1 : i32 {
      %column = arith.sitofp %c : i32 to f32
      sched.store_shared %column, %tile[%c0, %t, %c] : f32, !tile.tile<stage 1 x q 64 x d 8, f32, shared>
    }
)",
                    fence = "sched.fence_async\n", synchronize = "sched.barrier\n", add = R"(
    scf.if %first {
      sched.add_rows 64 of %tile[%c0, %c0] to %o_rows[%c0] : !tile.tile<stage 1 x q 64 x d 8, f32, shared>, !tile.view<2, f32>
      sched.commit_boxes
)",
                    wait = "sched.wait_boxes pending 0\n", end = "}\n";
  Run run(fill + fence + synchronize + add + wait + end);
  CHECK(run.finding == "");
  for (int i = 0; i < 512; ++i)
    CHECK(run.o[i] == float(i % 8));
  CHECK(Run(fill + synchronize + add + wait + end).finding ==
        "'sched.add_rows' op reads tile, which the asynchronous proxy does not see; a fence_async of the threads that "
        "wrote it is missing");
  // A fence of the thread that copies is not one of the threads that wrote.
  CHECK(Run(fill + synchronize + "scf.if %first {\nsched.fence_async\n}\n" + add + wait + end).finding ==
        "'sched.add_rows' op reads tile, which the asynchronous proxy does not see; a fence_async of the threads that "
        "wrote it is missing");
  // Either warp may be the one that comes too early.
  CHECK(Run(fill + fence + synchronize + add + wait + end + fill.substr(fill.find("scf.for")))
            .finding.find("orders the two") != std::string::npos);
  CHECK(Run(fill + fence + synchronize + add + wait + end + synchronize + fill.substr(fill.find("scf.for"))).finding ==
        "");
}
