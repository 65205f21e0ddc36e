//===- PrinterTest.cpp - Errors of the CUDA printer, and its kernels through NVRTC ===//

#include "codegen/cuda/CommentText.h"
#include "codegen/cuda/DeviceFunctions.h"
#include "codegen/cuda/Primitives.h"
#include "runtime/Cubin.h"
#include "runtime/Nvrtc.h"
#include "tests/cuda/Parse.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <sstream>

using namespace attune;

namespace {

std::string read(const std::string &name) {
  std::ifstream file(std::string(ATTUNE_CUDA_TESTS) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const std::string grid = "grid (%number)";

/// A kernel around `body`, for which %zero and %one (i32), %c0, %c1, %x (f32), %t (i32) and %L (view of LSE) exist.
std::string kernel(const std::string &body, const std::string &work = grid, const std::string &name = "k") {
  return R"(
!rows = !tile.tile<q 64, f32, register, #sched.fragment<rows, warps 4>>
!ring = !tile.tile<stage 2 x k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!tile = !tile.tile<k 64 x d 64, bf16, shared, #sched.swizzle<128>>
!part = !tile.tile<k 16 x d 16, bf16, register, #sched.fragment<b, warps 4>>
sched.kernel @)" +
         name +
         R"((q: in [b, h, q, d 64] bf16, lse: optional out [b, h, q] f32) grid [b, h, q by 64] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 32768 dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  sched.for_work )" +
         work + R"( {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %x = arith.constant 1.0 : f32
    %t = sched.thread_id : i32
    %L = tile.param "lse" : !tile.view<3, f32>
)" + body +
         "\n  }\n}\n";
}

std::string error(const std::string &body, const std::string &work = grid) {
  mlir::MLIRContext context;
  Expected<std::string> source = tests::printText(context, kernel(body, work));
  return source ? "printed: " + *source : source.error().message;
}

std::string print(const std::string &body, const std::string &name = "k", const std::string &work = grid) {
  mlir::MLIRContext context;
  Expected<std::string> source = tests::printText(context, kernel(body, work, name));
  return source ? *source : "error: " + source.error().message;
}

} // namespace

TEST_CASE("an op without a printed form is an error that names it") {
  CHECK(error("%r = sched.shared \"r\" at 0 : !ring\n %s = sched.slot %r[%c0] : !ring -> !tile") ==
        "sched.slot is not expanded; run the scheduling passes to their end before printing");
  CHECK(error("%s = tile.splat %x : f32 -> !tile.tile<q 64, f32, register>") ==
        "tile.splat is not expanded; run the scheduling passes to their end before printing");
  CHECK(error("%r = scf.for %i = %c0 to %c1 step %c1 iter_args(%a = %x) -> (f32) : i32 { scf.yield %a : f32 }") ==
        "scf.for carries values that are not i32 or i64; keep them in sched.registers");
  CHECK(error("%n = arith.constant 0 : index\n %m = arith.constant 1 : index\n scf.for %i = %n to %m step %m {}") ==
        "arith.constant of type index has no printed form; use f32, i32, i64 or i1");
  CHECK(error("%l = arith.extsi %c0 : i32 to i64\n %m = arith.extsi %c1 : i32 to i64\n scf.for %i = %l to %m step %m : "
              "i64 {}") == "scf.for counts in i64; use i32");
  CHECK(error("%f = arith.cmpi eq, %t, %c0 : i32\n %r = scf.if %f -> (f32) { scf.yield %x : f32 } else { scf.yield %x "
              ": f32 }") == "scf.if gives values; use arith.select, or sched.registers written in both branches");
  CHECK(error("%y = arith.truncf %x : f32 to bf16") ==
        "arith.truncf on bf16 has no printed form; use f32, i32, i64 or i1");
  CHECK(error("%y = math.sinh %x : f32") ==
        "math.sinh has no printed form in CUDA; lower it to arith, math, scf and sched ops");
  CHECK(error("%p = sched.registers \"p\" : !tile.tile<q 64 x k 16, bf16, register, #sched.fragment<c, warps 4>>") ==
        "sched.registers of q 64 x k 16 bf16 has no printed form; use f32, or 16 bits in a fragment a or b");
  CHECK(error("%y = sched.pack %x, %x : f32") == "sched.pack of type f32 has no printed form; use bf16 or f16");
  CHECK(
      error("%r = sched.shared \"r\" at 0 : !tile.tile<stage 1 x k 64, i64, shared>\n"
            "%y = sched.load_shared %r[%c0, %c0, %c0] : !tile.tile<stage 1 x k 64, i64, shared> -> f32") ==
      "sched.load_shared from stage 1 x k 64 i64 has no printed form; only f32, bf16, f16 and i32 are read element by "
      "element");
  CHECK(error("%r = sched.shared \"r\" at 0 : !tile\n %p = sched.registers \"p\" : !part\n"
              "sched.load_matrix %r[%c1, %c0, %c0] to %p[%c0, %c0] : !tile, !part") ==
        "sched.load_matrix gives a stage of k 64 x d 64 bf16, which has none; pass the constant 0");
  CHECK(error("%r = sched.shared \"r\" at 0 : !tile\n %p = sched.registers \"p\" : !part\n"
              "sched.load_matrix %r[%c0, %c0, %c0] to %p[%c1, %c0] : !tile, !part") ==
        "sched.load_matrix writes past the lane's array [2][1][2] from [1][0]");
}

TEST_CASE("an error points at the location of its op") {
  mlir::MLIRContext context;
  Expected<std::string> source = tests::printText(context, kernel("%y = math.sinh %x : f32"));
  REQUIRE(!source);
  CHECK(source.error().where.file == "test.mlir");
  CHECK(source.error().where.line == 16);
}

TEST_CASE("names are identifiers, unique, and hide nothing that the source needs") {
  std::string source = print(R"(
    %a = arith.addi %t, %c1 overflow<nsw> {tile.name = "row total"} : i32
    %b1 = arith.addi %a, %c1 overflow<nsw> {tile.name = "row total"} : i32
    %d = arith.addi %b1, %c1 overflow<nsw> {tile.name = "float"} : i32
    %e = arith.addi %d, %c1 overflow<nsw> {tile.name = "params"} : i32
    %f = arith.addi %e, %c1 overflow<nsw> {tile.name = "x1"} : i32
    %g = arith.addi %f, %c1 overflow<nsw> {tile.name = "x1"} : i32
    %i = arith.sitofp %g : i32 to f32
    sched.store_element %i, %L[%c0, %c0, %t] : f32, !tile.view<3, f32>)",
                             "\"while\"");
  CHECK(source.find("const int row_total = thread + 1;") != std::string::npos);
  CHECK(source.find("const int row_total2 = row_total + 1;") != std::string::npos);
  CHECK(source.find("const int float_ = row_total2 + 1;") != std::string::npos);
  CHECK(source.find("const int params_ = float_ + 1;") != std::string::npos);
  CHECK(source.find("const int x1 = params_ + 1;") != std::string::npos);
  CHECK(source.find("const int x1_2 = x1 + 1;") != std::string::npos);
  CHECK(source.find("while_kernel(const __grid_constant__ Params params)") != std::string::npos);
}

TEST_CASE("a name is found in the same time however many values wish for it") {
  // Trying each number against each name is cubic: 20,000 values of a mask's clauses took hours.
  std::string body;
  for (int i = 0; i < 20000; ++i)
    body += fmt::format("%n{} = arith.addi %t, %t {{tile.name = \"flag\"}} : i32\n", i);
  std::string source = print(body);
  CHECK(source.find(" flag = ") != std::string::npos);
  CHECK(source.find(" flag2 = ") != std::string::npos);
  CHECK(source.find(" flag20000 = ") != std::string::npos);
  CHECK(source.find(" flag20001 = ") == std::string::npos);
}

TEST_CASE("a scope that ends gives its names back") {
  const std::string loop = "scf.for %i = %c0 to %c1 step %c1 : i32 { %a = arith.addi %i, %t {tile.name = \"x\"} : i32\n"
                           "%two = arith.addi %a, %t {tile.name = \"x\"} : i32\n %three = arith.addi %two, %two "
                           "{tile.name = \"x2\"} : i32 }\n";
  std::string source = print("%y = arith.addi %t, %t {tile.name = \"y\"} : i32\n" + loop + loop);
  auto count = [&](const std::string &text) {
    int found = 0;
    for (size_t at = source.find(text); at != std::string::npos; at = source.find(text, at + 1))
      ++found;
    return found;
  };
  CHECK(count("const int x = ") == 2);
  CHECK(count("const int x2 = ") == 2);
  CHECK(count("const int x2_2 = ") == 2);
  CHECK(count("const int x3 = ") == 0);
}

TEST_CASE("many conditions are joined without branches") {
  auto source = [](int terms) {
    std::string body = "%c2 = arith.constant 2 : i32\n %f0 = arith.cmpi eq, %t, %c2 : i32\n";
    for (int i = 1; i <= terms; ++i)
      body += fmt::format("%k{0} = arith.constant {0} : i32\n %e{0} = arith.cmpi eq, %t, %k{0} : i32\n %f{0} = "
                          "arith.ori %f{1}, %e{0} : i1\n",
                          i, i - 1);
    return print(body + fmt::format("scf.if %f{} {{ sched.barrier }}\n", terms));
  };
  CHECK(source(24).find("|| (thread == 24)") != std::string::npos);
  CHECK(source(24).find(" | ") == std::string::npos);
  CHECK(source(25).find("(thread == 25)") != std::string::npos);
  CHECK(source(25).find("||") == std::string::npos);
  if (Expected<const Nvrtc *> nvrtc = Nvrtc::get()) {
    Expected<Nvrtc::Output> ptx = (*nvrtc)->compilePtx(source(25), "k", "sm_80");
    INFO((ptx ? ptx->log : ptx.error().text()));
    CHECK((ptx && ptx->log.empty()));
  }
}

TEST_CASE("text in comments stays in its comment") {
  using codegen::commentText;
  CHECK(commentText("S = Q K^T, scaled by 1/sqrt(d): 50% of \"x\"") == "S = Q K^T, scaled by 1/sqrt(d): 50% of \"x\"");
  CHECK(commentText("größe ≥ 1, 日本") == "größe ≥ 1, 日本");
  CHECK(commentText("x\n#error PWNED\r\n") == "x\\0A#error PWNED\\0D\\0A");
  CHECK(commentText(llvm::StringRef("a\0b\x1b[2J\x7f\v\f", 10)) == "a\\00b\\1B[2J\\7F\\0B\\0C");
  CHECK(commentText("splice \\") == "splice \\5C");
  CHECK(commentText("splice \\\n") == "splice \\5C\\0A");
  CHECK(commentText("trigraph ?\?/") == "trigraph ?\\3F/");
  CHECK(commentText("end */ begin /* both /*/ ***/") == "end *\\2F begin /\\2A both /\\2A/ ***\\2F");
  CHECK(commentText("\x80 \xff \xc3( \xed\xa0\x80 \xf4\x90\x80\x80 \xc0\xaf") ==
        "\\80 \\FF \\C3( \\ED\\A0\\80 \\F4\\90\\80\\80 \\C0\\AF");
  CHECK(commentText("\xe2\x80\xa8\xe2\x80\xae\xc2\x85") ==
        "\\E2\\80\\A8\\E2\\80\\AE\\C2\\85"); // line separator, right-to-left override, next line
  for (int byte = 0; byte < 256; ++byte)
    for (const char *tail : {"", "\n", "/", "*/"}) {
      std::string text = commentText(std::string(1, char(byte)) + tail);
      INFO(byte << " and " << tail);
      CHECK(text.find_first_of("\n\r") == std::string::npos);
      CHECK(!text.ends_with("\\"));
      CHECK(text.find("*/") == std::string::npos);
    }
}

TEST_CASE("no string of the IR leaves its comment or its name in the source") {
  const std::string evil = R"(x\0A#error PWNED\0D#error PWNED \5C)", shown = R"(x\0A#error PWNED\0D#error PWNED \5C)";
  auto check = [&](const std::string &source, const std::string &where) {
    INFO(source);
    CHECK(source.find(where) != std::string::npos);
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      const size_t at = line.find("#error");
      CHECK((at == std::string::npos || line.find("//") < at));
      CHECK(line.find('\r') == std::string::npos);
      CHECK(!line.ends_with("\\"));
    }
    if (Expected<const Nvrtc *> nvrtc = Nvrtc::get()) {
      Expected<Nvrtc::Output> ptx = (*nvrtc)->compilePtx(source, "k", "sm_80");
      INFO((ptx ? "" : ptx.error().text()));
      CHECK(ptx);
    }
  };
  auto body = [&](const std::string &attributes, const std::string &location = "") {
    return "%a = arith.addi %t, %t " + attributes +
           " : i32\n %f = arith.cmpi eq, %a, %c0 : i32\n scf.if %f { sched.barrier } " + location + "\n";
  };
  check(print("", "\"" + evil + "\""), "//   variant  " + shown + ", bf16");
  check(print(body("{tile.comment = \"" + evil + "\"}")), "// " + shown + "\n");
  check(print(body("{tile.name = \"" + evil + "\"}")), "const int x__error_PWNED__error_PWNED__ = ");
  check(print(body("", "loc(\"" + evil + "\":7:1)")), "  // " + shown + ":7\n");
  check(print(body("", "loc(\"what?\?!\":7:1)")), "  // what?\\3F!:7\n");
  check(print("%r = sched.registers \"" + evil + "\" : !rows\n"), "float x__error_PWNED__error_PWNED__[");
}

TEST_CASE("a persistent block takes tiles of work, and carries values from one to the next") {
  // The two values change places: both next ones are taken before the first assignment.
  std::string source =
      print(R"(
    %sum = arith.addi %a, %n overflow<nsw> : i32
    %f = arith.sitofp %sum : i32 to f32
    %two = arith.constant 2 : i32
    %tile_bits = arith.remui %number, %two : i32
    %tile = sched.nonnegative %tile_bits {tile.name = "q_index"} : i32
    sched.store_element %f, %L[%c0, %c0, %tile] : f32, !tile.view<3, f32>
    %a1 = arith.addi %a, %c1 overflow<nsw> : i32
    %same = sched.uniform %d {tile.name = "same"} : i32
    %blocks = sched.grid_size : i32
    %following = arith.addi %number, %blocks : i32
    sched.next %following, %same, %a, %a1 : i32, i32, i32, i32)",
            "k", "persistent from %zero below %one carries (%zero, %one, %one) (%number, %n, %a, %d, %e)");
  INFO(source);
  for (const char *text : {"  unsigned number = 0;\n"
                           "  #pragma unroll 1\n"
                           "  for (int count = 0, carried = 0, carried2 = 1, carried3 = 1; number < 1u; ++count) {\n",
                           "(float)(carried + count)", "    const int q_index = (int)(number % 2u);\n",
                           "    const int same = uniform(carried2);\n"
                           "    const int next_carried2 = carried;\n"
                           "    const int next_carried3 = carried + 1;\n"
                           "    number = number + gridDim.x;\n"
                           "    carried = same;\n"
                           "    carried2 = next_carried2;\n"
                           "    carried3 = next_carried3;\n"
                           "  }\n"})
    CHECK(source.find(text) != std::string::npos);
}

TEST_CASE("a block that claims tiles of work starts with its own") {
  // A kernel before resets the counter. Here the two do not overlap.
  std::string text = kernel(R"(
    %counter = tile.param "counter" : !tile.view<1, i32>
    %claimed = sched.claim_work %counter : !tile.view<1, i32>
    %next = sched.shuffle %claimed, %c0 {tile.name = "next"} : i32
    %is_more = arith.cmpi ult, %next, %tiles : i32
    %more = arith.extui %is_more {tile.name = "more"} : i1 to i32
    %f = arith.sitofp %more : i32 to f32
    %two = arith.constant 2 : i32
    %b_bits = arith.divui %number, %two : i32
    %b = sched.nonnegative %b_bits {tile.name = "b"} : i32
    sched.store_element %f, %L[%b, %c0, %c0] : f32, !tile.view<3, f32>
    %ids = tile.param "ids.k" : !tile.view<1, i32>
    %id = tile.element %ids[%c0] in_range [true] : !tile.view<1, i32> (i32) -> i32
    %a1 = arith.addi %a, %id : i32
    sched.next %next, %a1 : i32, i32)",
                            "persistent from %block below %tiles carries (%zero) (%number, %n, %a)");
  text.insert(text.find("  sched.for_work"), "  %block = sched.block_id : i32\n  %blocks = sched.grid_size : i32\n"
                                             "  %tiles = arith.muli %blocks, %one {tile.name = \"tiles\"} : i32\n");
  text.insert(text.find(") grid"), ", counter: workspace [counters 1] i32, ids.k: workspace [k by 64] i32");
  mlir::MLIRContext context;
  auto printed = [&](const std::string &text) {
    Expected<std::string> source = tests::printText(context, text);
    return source ? *source : "error: " + source.error().text();
  };
  std::string source = printed(text);
  INFO(source);
  for (const char *part : {"  unsigned number = blockIdx.x;\n"
                           "  #pragma unroll 1\n"
                           "  for (int count = 0, carried = 0; number < tiles; ++count) {\n"
                           "    const int thread = threadIdx.x;\n"
                           "    const int number2 = claim_work(params.counter);\n"
                           "    const int next = shuffle(number2, 0);\n"
                           "    const int more = (int)((unsigned)next < tiles);\n"
                           "    const int b = (int)(number / 2u);\n",
                           "load_i32(params.ids_k", "    number = (unsigned)next;\n    carried = "})
    CHECK(source.find(part) != std::string::npos);
  CHECK(source.find("wait_launch") == std::string::npos);
  // Where the kernel may start beside the one that writes them, they are no constants.
  text.insert(text.find("sched.for_work"), "sched.wait_launch\n  ");
  text += R"(
tile.launch [@first, @k dependent]
sched.kernel @first() grid [n 1] arch "sm_80" threads 32 blocks_per_sm 1 shared_bytes 0 dtype bf16
    plan <q 64 x k 64, warps = 4, blocks_per_sm = 1> {
})";
  source = printed(text);
  INFO(source);
  CHECK(source.find("  wait_launch();\n") < source.find("  for (int count"));
  CHECK(source.find("load_written(params.ids_k") != std::string::npos);
}

TEST_CASE("parameters stand in the order in which a launch packs them") {
  // The kernel in front is the first to declare the workspace, which lies behind all that the caller passes.
  const std::string facts = R"( arch "sm_80" threads 32 blocks_per_sm 1 shared_bytes 0 dtype f32
    plan <q 64 x k 64, warps = 1, blocks_per_sm = 1> {
})";
  mlir::MLIRContext context;
  Expected<std::string> source =
      tests::printModule(context, "tile.launch [@first, @second]\n"
                                  "sched.kernel @first(table: workspace [end 2, n by 16] i32, x: in [n] i32) grid [n]" +
                                      facts +
                                      "\nsched.kernel @second(y: out [n] f32, table: workspace [end 2, n by 16] i32) "
                                      "grid [n]" +
                                      facts);
  REQUIRE(source);
  const std::string params = source->substr(source->find("struct Params"));
  CHECK(params.find("const int *x;") < params.find("float *y;"));
  CHECK(params.find("float *y;") < params.find("int *table;  // [end 2, n by 16]"));
  CHECK(params.find("int *table;") < params.find("static_assert"));
}

TEST_CASE("the extent of a captured tensor's dimension is the tensor's") {
  mlir::MLIRContext context;
  Expected<std::string> source = tests::printModule(context, R"(
sched.kernel @k(y: out [n] i32) grid [n] arch "sm_80" threads 32 blocks_per_sm 1 shared_bytes 0 dtype f32
    plan <q 64 x k 64, warps = 1, blocks_per_sm = 1>
    attributes {tensors = [#attn.tensor<ids, i32, rank 2>]} {
  %zero = arith.constant 0 : i32
  %rows = tile.axis_extent "tensors.ids.1" {tile.name = "rows"} : i32
  %Y = tile.param "y" : !tile.view<1, i32>
  sched.store_element %rows, %Y[%zero] : i32, !tile.view<1, i32>
})");
  REQUIRE(source);
  CHECK(source->find("extent(params.ids_extent[1])") != std::string::npos);
}

TEST_CASE("a slice without an index has the view's strides") {
  std::string source = print(R"(
    %rows = sched.slice %L[] : !tile.view<3, f32> -> !tile.view<3, f32>
    sched.store_element %x, %rows[%c0, %c0, %t] : f32, !tile.view<3, f32>)");
  INFO(source);
  CHECK(source.find("thread * params.lse_stride[2]] = 1.0f;") != std::string::npos);
}

TEST_CASE("a read of registers is not moved behind a write") {
  std::string source = print(R"(
    %r = sched.registers "r" : !rows
    %a = sched.get %r[%c0, %c0] : !rows -> f32
    sched.set %x, %r[%c0, %c0] : f32, !rows
    %d = arith.addf %a, %x : f32
    sched.set %d, %r[%c0, %c1] : f32, !rows)");
  CHECK(source.find("const float r_value = r[0][0];\n  r[0][0] = 1.0f;\n  r[0][1] = r_value + 1.0f;\n") !=
        std::string::npos);
}

TEST_CASE("every kernel compiles without warnings or spills") {
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    WARN("skipped: " << nvrtc.error().message);
    return;
  }
  struct Case {
    const char *file, *name;
    int frame; ///< bytes; sinf and its kin keep 32 in local memory
  };
  for (Case c : {Case{"attention.mlir", "softcap_causal", 0}, Case{"scalars.mlir", "scalars", 32},
                 Case{"tf32.mlir", "exact", 0}, Case{"dropout.mlir", "dropped", 0}})
    for (const char *arch : {"sm_80", "sm_90"}) {
      INFO(c.file << " for " << arch);
      mlir::MLIRContext context;
      Expected<std::string> source = tests::printText(context, read(c.file));
      REQUIRE(source);
      Expected<Nvrtc::Output> cubin = (*nvrtc)->compileCubin(*source, c.name, arch);
      INFO((cubin ? cubin->log : cubin.error().message));
      REQUIRE(cubin);
      CHECK(cubin->log == "");
      Expected<CubinKernel> facts = readCubin(cubin->code, c.name);
      REQUIRE(facts);
      CHECK(facts->frameBytes <= c.frame);
    }
}

TEST_CASE("every device function compiles") {
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    WARN("skipped: " << nvrtc.error().message);
    return;
  }
  for (const std::string &name : codegen::primitiveNames()) {
    INFO(name);
    std::string text = codegen::primitives({"TensorMap", name});
    bool hopper = text.find("PTX 9.7.13.15") != text.npos || text.find("(sm_90") != text.npos ||
                  text.find("wgmma") != text.npos || text.find("bulk") != text.npos ||
                  text.find("fence.") != text.npos || text.find("elect.sync") != text.npos;
    Expected<Nvrtc::Output> cubin = (*nvrtc)->compileCubin(text, name, hopper ? "sm_90a" : "sm_80");
    INFO((cubin ? cubin->log : cubin.error().message));
    CHECK(cubin);
  }
  // Every shape of the warpgroup's product.
  std::string all = "extern \"C\" __global__ void all() {\n";
  std::set<std::string, std::less<>> names;
  for (int columns : {8, 24, 64, 128, 176, 256})
    for (auto left :
         {codegen::LeftOperand::Registers, codegen::LeftOperand::Shared, codegen::LeftOperand::SharedColumns}) {
      const bool leftShared = left != codegen::LeftOperand::Registers;
      std::string name = codegen::mmaAsyncName(columns % 3 ? "bf16" : "f16", columns, left);
      names.insert(name);
      all += fmt::format("  {{ float d[{}][4]; {} {}<0>(d, a, 0, false); }}\n", columns / 8,
                         leftShared ? "unsigned long long a = 0;" : "unsigned a[4];", name);
    }
  Expected<Nvrtc::Output> cubin = (*nvrtc)->compileCubin(codegen::primitives(names) + all + "}\n", "all", "sm_90a");
  INFO((cubin ? cubin->log : cubin.error().message));
  CHECK(cubin);
}

TEST_CASE("device functions have names of their own") {
  codegen::cuda::DeviceFunctions functions;
  CHECK(functions.define("compute_x", "", "int a", "  a;\n") == "compute_x");
  CHECK(functions.define("compute_x", "", "int a", "  a;\n") == "compute_x");
  CHECK(functions.define("compute_x", "", "int b", "  b;\n") == "compute_x2");
  CHECK(functions.define("compute_x2", "", "int c", "  c;\n") == "compute_x2_2");
}
