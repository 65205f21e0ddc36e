//===- GoldenTest.cpp - Same input, same bytes ------------------------------===//
//
// CUDA from a variant, and from its attn, tile and sched text, is the same to the byte. Two kernels are also held to
// files; tests/golden/update rewrites them after an intended change.
//
//===----------------------------------------------------------------------===//

#include "tests/golden/Edits.h"

#include "attune/Builtins.h"
#include "runtime/Cubin.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

using namespace attune;
using namespace attune::tests;

namespace {

struct GoldenKernel {
  std::string name;
  std::function<Variant()> variant;
  CompileOptions options;
  std::string arch;
  bool hasFile = false; ///< its schedule is fixed, so that the file changes with the passes and not with the cost model
};

Variant parsed(const std::string &name, const TextVariant &text) {
  Expected<Variant> variant = Variant::parse(name, text);
  if (!variant)
    FAIL(variant.error().text());
  return *variant;
}

const std::vector<GoldenKernel> &kernels() {
  static const std::vector<GoldenKernel> all = {
      {"causal",
       [] { return parsed("causal", {.mask = "q >= k"}); },
       {.dtype = bf16, .headDim = 128, .tileQ = 128, .tileK = 64, .warps = 4, .stages = 2, .qRegisters = false},
       "sm_80",
       true},
      {"gemma_local",
       [] {
         return parsed(
             "gemma_local",
             {.score = "softcap(s, 50) + slopes[h] * (k - q)", .mask = "q >= k && q - k < 4096", .dropout = 0.1f});
       },
       {.dtype = bf16, .headDim = 64, .tileQ = 128, .tileK = 64, .warps = 4, .stages = 2, .qRegisters = true},
       "sm_90",
       true},
      {"documents",
       [] { return parsed("documents", {.mask = "q >= k && ids[q] == ids[k]", .tensors = {{"ids", i32, 1}}}); },
       {.dtype = bf16, .headDim = 128, .tileQ = 128, .tileK = 128, .warps = 8, .stages = 2},
       "sm_90a",
       true},
      {"traced",
       [] {
         auto slopes = captured("slopes", f32, rank(1));
         auto ids = captured("ids", i32, rank(2));
         return Variant("traced")
             .scale(1.0f / std::sqrt(128.0f))
             .score([=](Score s, Index, Index h, Index q, Index k) { return softcap(s, 50.0f) + slopes[h] * (k - q); })
             .mask([=](Index b, Index, Index q, Index k) { return q >= k && ids[b][q] == ids[b][k]; })
             .qOffset();
       },
       {.dtype = f16, .headDim = 96},
       "sm_86"},
      {"scalars",
       [] {
         return Variant("scalars").precise().score([](Score s, Index, Index, Index q, Index k) {
           return s * scalar("factor", f32) + 0.1f * cast((q - k) % scalar("period", i32), f32);
         });
       },
       {.dtype = f32, .headDim = 64},
       "sm_89"},
      {"blocks",
       [] { return Variant("blocks").blocks(captured("pattern", boolean, rank(3)), 128, 64).dropout(0.25f); },
       {.dtype = bf16, .headDim = 40, .headDimV = 72},
       "sm_120"},
      {"relative",
       [] {
         return Variant("relative")
             .score(relativeBias(captured("table", f32, rank(2))) | bias(captured("bias", bf16, rank(3))));
       },
       {.dtype = bf16, .headDim = 64, .tileQ = 64, .tileK = 32, .warps = 4, .stages = 3, .qRegisters = true},
       "sm_90"},
      {"wide",
       [] { return Variant("wide").mask(causal()).dropout(0.25f); },
       {.dtype = f16,
        .headDim = 264,
        .headDimV = 512,
        .tileQ = 64,
        .tileK = 16,
        .warps = 8,
        .stages = 1,
        .qRegisters = false,
        .dvWarps = 2},
       "sm_86"},
  };
  return all;
}

std::string must(const Expected<std::string> &text) {
  if (!text)
    FAIL(text.error().text());
  return *text;
}

std::string cudaOf(const GoldenKernel &kernel) {
  return must(emit(kernel.variant(), kernel.options, Target::cuda(kernel.arch), Stage::Cuda));
}

/// Where two texts part: the line of each.
std::string difference(const std::string &a, const std::string &b) {
  std::istringstream left(a), right(b);
  std::string l, r;
  for (int line = 1;; ++line) {
    bool more = bool(std::getline(left, l)), moreRight = bool(std::getline(right, r));
    if (!more && !moreRight)
      return a == b ? "" : "the end of the last line differs";
    if (more != moreRight || l != r)
      return "line " + std::to_string(line) + ":\n  " + (more ? l : "(end)") + "\n  " + (moreRight ? r : "(end)");
  }
}

} // namespace

TEST_CASE("CUDA from printed text is that of the direct path") {
  for (const GoldenKernel &kernel : kernels()) {
    INFO(kernel.name);
    Target target = Target::cuda(kernel.arch);
    std::string direct = cudaOf(kernel);
    CHECK(direct.size() > 1000);
    for (Stage stage : {Stage::Attn, Stage::Tile, Stage::Sched}) {
      INFO("from " << name(stage));
      std::string text = must(emit(kernel.variant(), kernel.options, target, stage));
      // Attn text holds no schedule: the fixed fields go with it, as flags do on the command line.
      CompileOptions options;
      if (stage == Stage::Attn) {
        options.tileQ = kernel.options.tileQ;
        options.tileK = kernel.options.tileK;
        options.warps = kernel.options.warps;
        options.stages = kernel.options.stages;
        options.qRegisters = kernel.options.qRegisters;
        options.dvWarps = kernel.options.dvWarps;
      }
      IrText ir{text, kernel.name + ".mlir"};
      CHECK(difference(must(emitFromText(ir, options, target, Stage::Cuda)), direct) == "");
      // The text itself survives being read and printed.
      CHECK(difference(must(emitFromText(ir, options, target, stage)), text) == "");
      for (Stage later : {Stage::Tile, Stage::Sched})
        if (later > stage)
          CHECK(difference(must(emitFromText(ir, options, target, later)),
                           must(emit(kernel.variant(), kernel.options, target, later))) == "");
    }
  }
}

/// `text` without locations of ops.
std::string withoutLocations(const std::string &text) {
  return std::regex_replace(text, std::regex(" loc\\(#loc[0-9]*\\)|#loc[0-9]* = [^\n]*\n"), "");
}

/// `cuda` without the comments that say which line of the source an expression came from.
std::string withoutPlaces(const std::string &cuda) {
  // Such a comment is a line of its own, or ends a statement.
  const std::string without = std::regex_replace(cuda, std::regex("\n *// [^ \n]*:[0-9]+(?=\n)"), "");
  return std::regex_replace(without, std::regex("  // [^ \n]*:[0-9]+\n"), "\n");
}

TEST_CASE("the text of every built-in, with and without its locations") {
  struct Schedule {
    Target target;
    CompileOptions options;
    Stage last;
  };
  const Schedule schedules[] = {
      {Target::cuda("sm_80"), {.tileQ = 128, .tileK = 64, .warps = 4, .stages = 2, .qRegisters = false}, Stage::Cuda},
      {Target::cuda("sm_90a"), {.tileQ = 128, .tileK = 64, .warps = 8, .stages = 2}, Stage::Cuda},
      {Target::cpu(), {.tileQ = 64, .tileK = 64}, Stage::Llvm}};
  for (const BuiltinVariant &builtin : builtinVariants())
    for (const auto &[target, schedule, last] : schedules) {
      INFO(builtin.name << " for " << target.arch);
      const Expected<Variant> variant = builtin.make();
      REQUIRE(variant);
      CompileOptions options = schedule;
      options.headDim = 64;
      const std::string direct = must(emit(*variant, options, target, last));
      for (Stage stage : {Stage::Attn, Stage::Tile, Stage::Sched}) {
        if (stage == Stage::Sched && !target.isCuda())
          continue;
        INFO("from " << name(stage));
        const std::string text = must(emit(*variant, options, target, stage)), bare = withoutLocations(text);
        CHECK(text.find("unknown") == std::string::npos);
        CHECK(bare.find(" loc(") == std::string::npos);
        const CompileOptions fixed = stage == Stage::Attn ? schedule : CompileOptions();
        // Called like the file in the locations of a built-in's expressions.
        const IrText ir{text, variant->name()}, without{bare, "bare.mlir"};
        CHECK(difference(must(emitFromText(ir, fixed, target, stage)), text) == "");
        CHECK(difference(must(emitFromText(without, fixed, target, stage)), bare) == "");
        CHECK(difference(must(emitFromText(ir, fixed, target, last)), direct) == "");
        CHECK(difference(withoutPlaces(must(emitFromText(without, fixed, target, last))), withoutPlaces(direct)) == "");
      }
    }
}

TEST_CASE("two compilations give the same bytes") {
  for (const GoldenKernel &kernel : kernels()) {
    INFO(kernel.name);
    CHECK(difference(cudaOf(kernel), cudaOf(kernel)) == "");
    Expected<std::string> tile =
        emit(kernel.variant(), {.dtype = kernel.options.dtype, .headDim = 64}, Target::cpu(), Stage::Tile);
    CHECK(difference(must(tile), must(emit(kernel.variant(), {.dtype = kernel.options.dtype, .headDim = 64},
                                           Target::cpu(), Stage::Tile))) == "");
  }
}

TEST_CASE("the cubin is the same, too", "[nvrtc]") {
  const GoldenKernel &kernel = kernels().front();
  Target target = Target::cuda(kernel.arch);
  std::string direct = must(emit(kernel.variant(), kernel.options, target, Stage::Cubin));
  std::string tile = must(emit(kernel.variant(), kernel.options, target, Stage::Tile));
  CHECK((must(emitFromText({tile, "causal.mlir"}, {}, target, Stage::Cubin)) == direct));
}

TEST_CASE("golden files") {
  const char *update = std::getenv("ATTUNE_UPDATE_GOLDEN");
  for (const GoldenKernel &kernel : kernels()) {
    if (!kernel.hasFile)
      continue;
    std::string path = std::string(ATTUNE_GOLDEN) + "/" + kernel.name + "." + kernel.arch + ".cu";
    std::string cuda = cudaOf(kernel);
    if (update && *update) {
      std::ofstream(path, std::ios::binary) << cuda;
      continue;
    }
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    INFO(path << " is not what the compiler prints; where that is intended, run tests/golden/update");
    CHECK(difference(text.str(), cuda) == "");
  }
}

TEST_CASE("edited text gives other CUDA, which compiles", "[nvrtc]") {
  Target target = Target::cuda("sm_80");
  for (const Edit &edit : textEdits()) {
    INFO(edit.name);
    std::string text = must(emit(edit.variant(), editOptions(), target, edit.stage));
    std::string edited = editText(edit, text);
    CHECK(edited != text);
    std::string direct = must(emit(edit.variant(), editOptions(), target, Stage::Cuda));
    Expected<KernelImage> image = compileImageFromText({edited, "edited.mlir"}, {.useCache = false}, target);
    if (!image) {
      UNSCOPED_INFO(image.error().text());
      CHECK(false);
      continue;
    }
    CHECK(image->cudaSource != direct);
    Expected<CubinKernel> facts = readCubin(image->binary, image->main().symbol);
    REQUIRE(facts);
    CHECK(facts->staticSharedBytes == 0);
  }
}

TEST_CASE("what the edits say is in the plan and the CUDA") {
  Target target = Target::cuda("sm_80");
  auto bytesOf = [&](const std::string &name) {
    for (const Edit &edit : textEdits())
      if (edit.name == name) {
        std::string text = editText(edit, must(emit(edit.variant(), editOptions(), target, edit.stage)));
        Expected<KernelImage> image = compileImageFromText({text, "edited.mlir"}, {.useCache = false}, target);
        return image ? image->main().sharedBytes : size_t(0);
      }
    return size_t(0);
  };
  // Q 128 x 64 and, per stage, K and V 64 x 64, of 2 bytes.
  CHECK(bytesOf("shortest first") == 16384 + 2 * 16384);
  CHECK(bytesOf("three stages") == 16384 + 3 * 16384);
  CHECK(bytesOf("rings of three slots") == 16384 + 3 * 16384);
  CHECK(bytesOf("tiles of 32 keys") == 16384 + 2 * 8192);
}
