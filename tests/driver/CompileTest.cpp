//===- CompileTest.cpp - Keys, caches, errors and stages --------------------===//

#include "attune/attune.h"
#include "runtime/Cache.h"
#include "runtime/Nvrtc.h"
#include "tests/driver/Driver.h"
#include "tools/reference/Compare.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

using namespace attune;
using attune::tests::causalVariant;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A folder of its own for each test.
struct CacheFolder {
  std::string path;
  CacheFolder() {
    std::string name = (fs::temp_directory_path() / "attune-driver-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~CacheFolder() { fs::remove_all(path); }

  CompileOptions options() const {
    CompileOptions result{.dtype = f32, .headDim = 32};
    result.cacheDir = path;
    return result;
  }
  size_t entries() const { return KernelCache(path).list()->size(); }
};

/// The largest difference of O to the float64 reference, with its limit.
reference::Comparison runOnCpu(const Kernel &kernel, const Variant &variant, int64_t length) {
  using reference::HostTensor;
  reference::Problem problem{.variant = &variant,
                             .q = HostTensor::random(f32, {1, 2, length, 32}, 1),
                             .k = HostTensor::random(f32, {1, 1, length, 32}, 2),
                             .v = HostTensor::random(f32, {1, 1, length, 32}, 3)};
  HostTensor o = HostTensor::zeros(f32, {1, 2, length, 32});
  auto view = [](const HostTensor &tensor) { return Tensor::contiguous(tensor.data.data(), f32, tensor.shape); };
  LaunchArgs args;
  args.q = view(problem.q);
  args.k = view(problem.k);
  args.v = view(problem.v);
  args.o = view(o);
  Expected<void> launched = kernel.launch(nullptr, args);
  REQUIRE(launched);
  auto exact = reference::attention(problem), plain = reference::plainLowPrecision(problem);
  REQUIRE(exact);
  REQUIRE(plain);
  return reference::compareO(o, *exact, *plain);
}

std::string failure(const Expected<Kernel> &kernel) { return kernel ? "no error" : kernel.error().message; }

} // namespace

TEST_CASE("text and C++ give one key") {
  CompileOptions options{.headDim = 64};
  Expected<Variant> text = Variant::parse("causal", {.mask = "q >= k"});
  REQUIRE(text);
  Expected<std::string> a = cacheKey(causalVariant(), options, Target::cpu());
  Expected<std::string> b = cacheKey(*text, options, Target::cpu());
  REQUIRE(a);
  REQUIRE(b);
  CHECK(*a == *b);
  CHECK(a->find(std::string(buildId())) != std::string::npos);
}

TEST_CASE("everything that changes the code changes the key") {
  Variant variant = causalVariant();
  const CompileOptions base{.headDim = 64};
  auto key = [](const Variant &v, const CompileOptions &o) {
    Expected<std::string> result = cacheKey(v, o, Target::cpu());
    REQUIRE(result);
    return *result;
  };
  std::vector<std::string> keys = {key(variant, base)};
  auto with = [&](auto &&change) {
    CompileOptions options = base;
    change(options);
    keys.push_back(key(variant, options));
  };
  CompileOptions fixed = base;
  with([](CompileOptions &o) { o.dtype = f16; });
  with([](CompileOptions &o) { o.headDim = 128; });
  with([](CompileOptions &o) { o.headDimV = 128; });
  with([](CompileOptions &o) { o.sramBudget = 65536; });
  visitSchedule(
      [&](auto, auto, auto &field) {
        for (int value : {0, 1}) {
          field = value;
          keys.push_back(key(variant, fixed));
        }
        field.reset();
      },
      fixed);
  keys.push_back(key(causalVariant().precise(), base));
  keys.push_back(key(causalVariant().dropout(0.1f), base));
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      INFO(i << " and " << j);
      CHECK(keys[i] != keys[j]);
    }

  CompileOptions spelled = base;
  spelled.headDimV = 64;
  spelled.cacheDir = "/elsewhere";
  CHECK(key(variant, spelled) == keys[0]);
  // The probability is a launch value.
  CHECK(key(causalVariant().dropout(0.1f), base) == key(causalVariant().dropout(0.2f), base));
}

TEST_CASE("memory, then disk, then compilation") {
  CacheFolder folder;
  Variant variant = causalVariant();
  Expected<Kernel> cold = compile(variant, folder.options(), Target::cpu());
  INFO(failure(cold));
  REQUIRE(cold);
  CHECK_FALSE(cold->cacheHit());
  CHECK(folder.entries() == 1);
  CHECK(cold->image().path == "cpu");
  CHECK(cold->times().ir > 0);
  CHECK(cold->times().nvrtc > 0);
  CHECK(runOnCpu(*cold, variant, 100).pass);

  Expected<Kernel> again = compile(variant, folder.options(), Target::cpu());
  REQUIRE(again);
  CHECK(again->cacheHit());
  CHECK(&again->image() == &cold->image());

  // Another path to the same folder is another cache object: what a new process sees.
  CompileOptions fresh = folder.options();
  fresh.cacheDir = folder.path + "/.";
  Expected<Kernel> fromDisk = compile(variant, fresh, Target::cpu());
  REQUIRE(fromDisk);
  CHECK(fromDisk->cacheHit());
  CHECK(&fromDisk->image() != &cold->image());
  CHECK(fromDisk->image().planJson == cold->image().planJson);
  CHECK(runOnCpu(*fromDisk, variant, 33).pass);

  CompileOptions off = folder.options();
  off.useCache = false;
  Expected<Kernel> uncached = compile(variant, off, Target::cpu());
  REQUIRE(uncached);
  CHECK_FALSE(uncached->cacheHit());
  CHECK(folder.entries() == 1);
}

TEST_CASE("a hit in memory costs microseconds") {
  CacheFolder folder;
  Variant variant = causalVariant();
  CompileOptions options = folder.options();
  REQUIRE(compile(variant, options, Target::cpu()));
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 50; ++i)
      REQUIRE(compile(variant, options, Target::cpu())->cacheHit());
    best = std::min(best,
                    std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / 50);
  }
  WARN("a hit takes " << best << " us");
  CHECK(best < 20);
}

TEST_CASE("threads that ask for one key share one compilation") {
  CacheFolder folder;
  CompileOptions options = folder.options();
  std::vector<Expected<Kernel>> kernels(6, Error{});
  std::vector<std::thread> threads;
  for (Expected<Kernel> &kernel : kernels)
    threads.emplace_back([&] { kernel = compile(causalVariant(), options, Target::cpu()); });
  for (std::thread &thread : threads)
    thread.join();
  int compiled = 0;
  for (const Expected<Kernel> &kernel : kernels) {
    INFO(failure(kernel));
    REQUIRE(kernel);
    compiled += !kernel->cacheHit();
    CHECK(&kernel->image() == &kernels[0]->image());
  }
  CHECK(compiled == 1);
}

TEST_CASE("threads with different keys see their own errors") {
  CompileOptions good{.headDim = 64};
  CompileOptions tight = good;
  tight.sramBudget = 16;
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(8);
  for (size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] {
      Expected<std::string> text =
          emit(causalVariant(), i % 2 ? tight : good, Target::cuda("sm_80"), i % 2 ? Stage::Tile : Stage::Sched);
      if (bool(text) != (i % 2 == 0))
        wrong[i] = text ? "no error" : text.error().text();
      else if (!text && text.error().message.find("16") == std::string::npos)
        wrong[i] = text.error().text();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &text : wrong)
    CHECK(text == "");
}

TEST_CASE("errors before anything is built") {
  CompileOptions options{.headDim = 64};
  options.useCache = false;
  CHECK(failure(compile(causalVariant(), {}, Target::cpu())) ==
        "head_dim is not set, required is a multiple of 8 up to 576; set CompileOptions::headDim (--head-dim)");
  CHECK(failure(compile(causalVariant(), {.headDim = 100}, Target::cpu())) ==
        "head_dim 100 is not a multiple of 8; pad the last dimension to 104");
  CHECK(failure(compile(causalVariant(), {.headDim = 64, .headDimV = 584}, Target::cpu())) ==
        "head_dim_v 584 is out of range, required is 8 to 576; split the head");
  CHECK(failure(compile(causalVariant(), {.dtype = i32, .headDim = 64}, Target::cpu())) ==
        "dtype i32 is not one of f16, bf16, f32; convert Q, K and V");
  CHECK_FALSE(compile(causalVariant(), options, Target::cuda("sm_12")));
  CHECK(failure(compile(causalVariant(), options, Target{Target::Kind::Cpu, "sm_90", 0})) ==
        "target of kind cpu has architecture sm_90; make targets with Target::cpu() or Target::cuda(\"sm_90\")");
}

TEST_CASE("a mistake in the variant points at the user's line") {
  Variant broken = Variant("broken").mask([](Index, Index, Index q, Index k) { return q - k; });
  Expected<Kernel> kernel = compile(broken, {.headDim = 64}, Target::cpu());
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().where.file.ends_with("CompileTest.cpp"));
  CHECK(kernel.error().message.find("must be bool") != std::string::npos);
}

TEST_CASE("stages have names") {
  for (Stage stage : {Stage::Dsl, Stage::Attn, Stage::Tile, Stage::Sched, Stage::Llvm, Stage::Cuda, Stage::Ptx,
                      Stage::Cubin, Stage::Sass, Stage::Launch})
    CHECK(parseStage(name(stage)) == stage);
  CHECK_FALSE(parseStage("object"));
}

TEST_CASE("text continues from every stage with the same CUDA") {
  Target target = Target::cuda("sm_80");
  CompileOptions options{.headDim = 64};
  auto slopes = captured("slopes", f32, rank(1));
  Variant variant = Variant("gemma")
                        .score([&](Score s, Index, Index h, Index q, Index k) {
                          return softcap(s, 50.0f) + slopes[h] * cast(k - q, f32);
                        })
                        .mask(causal());
  Expected<std::string> direct = emit(variant, options, target, Stage::Cuda);
  INFO((direct ? "" : direct.error().text()));
  REQUIRE(direct);
  for (Stage stage : {Stage::Attn, Stage::Tile, Stage::Sched}) {
    Expected<std::string> text = emit(variant, options, target, stage);
    REQUIRE(text);
    Expected<IrSummary> summary = describeText({*text});
    REQUIRE(summary);
    CHECK(summary->stage == stage);
    CHECK(summary->name == "gemma");
    CHECK(summary->signature.headDim == 64);
    REQUIRE(summary->signature.tensors.size() == 1);
    CHECK(summary->signature.tensors[0].name == "slopes");
    Expected<Variant> kept = Variant::fromJson(summary->variantJson);
    REQUIRE(kept);
    CHECK(kept->canonical() == variant.canonical());
    Expected<std::string> cuda = emitFromText({*text}, {}, target, Stage::Cuda);
    INFO((cuda ? "" : cuda.error().text()));
    REQUIRE(cuda);
    CHECK(*cuda == *direct);
  }
}

TEST_CASE("what is quoted in text is not taken for a location") {
  Expected<std::string> text = emit(causalVariant(), {.headDim = 64}, Target::cpu(), Stage::Tile);
  REQUIRE(text);
  const std::string quoted =
      R"({tile.comment = "\\ loc(unknown) \22 loc(#loc), loc(#loc1)\22", tile.name = "kv_head"})";
  const std::string edited = std::regex_replace(*text, std::regex(R"(\{tile.name = "kv_head"\})"), quoted);
  REQUIRE(edited != *text);
  Expected<std::string> again = emitFromText({edited}, {}, Target::cpu(), Stage::Tile);
  REQUIRE(again);
  CHECK(*again == edited);
}

TEST_CASE("the terms of a mask are each analysed once") {
  // Where every use of a value walked through it again, these 2^60 paths would never end.
  Variant shared = Variant("shared").mask([](Index, Index, Index q, Index k) {
    Index distance = q - k;
    Expr visible = q >= k;
    for (int i = 0; i < 60; ++i) {
      distance = distance + distance;
      visible = visible && (visible || k == i);
    }
    return visible && distance >= 0;
  });
  // As many terms as names, maps and values: what is quadratic in them takes minutes.
  Variant many = Variant("many").mask([](Index, Index, Index q, Index k) {
    std::vector<Expr> terms;
    for (int i = 0; i < 512; ++i)
      terms.push_back(i % 2 ? q - k == 3 * i : q / (i + 2) == k / (i + 2));
    for (; terms.size() > 1; terms.erase(terms.begin() + long(terms.size() / 2), terms.end()))
      for (size_t i = 0; i < terms.size() / 2; ++i)
        terms[i] = terms[2 * i] || terms[2 * i + 1];
    return terms.front();
  });
  for (const char *arch : {"sm_80", "sm_90a"})
    for (const Variant *variant : {&shared, &many}) {
      Expected<std::string> cuda = emit(*variant, {.headDim = 64, .tileQ = 128, .tileK = 64, .warps = 8, .stages = 2},
                                        Target::cuda(arch), Stage::Cuda);
      INFO((cuda ? "" : cuda.error().text()));
      CHECK(cuda);
    }
}

TEST_CASE("edited attn text is no longer the variant it came from") {
  Expected<std::string> text = emit(causalVariant(), {.headDim = 64}, Target::cpu(), Stage::Attn);
  REQUIRE(text);
  size_t at = text->find("sge");
  REQUIRE(at != std::string::npos);
  text->replace(at, 3, "sgt");
  Expected<IrSummary> summary = describeText({*text});
  REQUIRE(summary);
  CHECK(summary->variantJson == "");
}

TEST_CASE("text that does not fit the request") {
  Target target = Target::cuda("sm_80");
  Expected<std::string> tile = emit(causalVariant(), {.headDim = 64}, target, Stage::Tile);
  Expected<std::string> sched = emit(causalVariant(), {.headDim = 64}, target, Stage::Sched);
  REQUIRE(tile);
  REQUIRE(sched);
  auto message = [](const Expected<std::string> &text) { return text ? "no error" : text.error().message; };
  CHECK(message(emitFromText({*tile}, {}, target, Stage::Attn)) ==
        "the text is at stage tile, which comes after attn; emit tile or a later stage");
  CHECK(message(emitFromText({*tile}, {.tileQ = 64}, target, Stage::Cuda)) ==
        "the text is at stage tile and holds its schedule; edit the text, or start from attn text to choose tiles, "
        "warps, "
        "stages or a budget");
  CHECK(message(emitFromText({*sched}, {}, Target::cuda("sm_90"), Stage::Cuda)) ==
        "the text is scheduled for sm_80, not for sm_90; use --arch sm_80, or start from its tile text");
  const std::string large = std::regex_replace(*sched, std::regex("shared_bytes [0-9]+"), "shared_bytes 200000");
  CHECK(message(emitFromText({large}, {}, target, Stage::Cuda)) ==
        "the schedule takes 200000 bytes of shared memory, above the limit per block of 166912; use smaller tiles or "
        "fewer stages");
  CHECK(message(emitFromText({"module {}"}, {}, target, Stage::Cuda)) ==
        "the text holds 0 kernels, required is one attn.attention, tile.kernel or sched.kernel; split it into one file "
        "each");
  CHECK(message(emit(causalVariant(), {.headDim = 64}, Target::cpu(), Stage::Cuda)) ==
        "target cpu has no stage cuda; emit dsl, attn, tile or llvm, or choose a GPU architecture such as sm_90");
  CHECK(message(emit(causalVariant(), {.headDim = 64}, target, Stage::Llvm)) ==
        "target sm_80 has no stage llvm; emit cuda or ptx, or choose the cpu target");
  CHECK(message(emit(causalVariant(), {.headDim = 64}, target, Stage::Launch)) ==
        "stage launch has no text; emit dsl, attn, tile, sched, llvm, cuda, ptx, cubin or sass");

  Expected<std::string> broken = emitFromText({"module {\n  attn.atention @x\n}", "x.mlir"}, {}, target, Stage::Cuda);
  REQUIRE_FALSE(broken);
  CHECK(broken.error().where.text() == "x.mlir:2:3");
  CHECK(broken.error().excerpt == "  attn.atention @x\n  ^");
}

TEST_CASE("the ranking explains the choice") {
  Expected<std::string> text =
      explain(causalVariant(), {.headDim = 64}, Target::cuda("sm_80"), {.batch = 1, .heads = 8, .queries = 256});
  REQUIRE(text);
  json explained = json::parse(*text);
  CHECK(explained["sizes"]["queries"] == 256);
  int chosen = 0;
  for (const json &candidate : explained["candidates"])
    if (candidate["chosen"]) {
      ++chosen;
      CHECK(candidate["tileQ"] == explained["plan"]["tileQ"]);
      CHECK(candidate["trafficBytes"] == explained["plan"]["traffic"]["bytes"]);
    }
  CHECK(chosen == 1);
  CHECK(explained["plan"]["shared"]["bytes"] <= explained["plan"]["shared"]["budget"]);
}

TEST_CASE("the CPU refuses a kernel whose parameters have no room") {
  Variant variant = Variant("crowded").score([](Score s, Index b, Index h, Index q, Index k) {
    Expr sum = s;
    for (int i = 0; i < 70; ++i)
      sum = sum + captured(fmt::format("t{}", i), f32, rank(4))(b, h, q, k);
    return sum;
  });
  Expected<Kernel> kernel = compile(variant, {.dtype = f32, .headDim = 32, .useCache = false}, Target::cpu());
  REQUIRE_FALSE(kernel);
  CHECK(kernel.error().message ==
        "kernel 'crowded' takes 5488 bytes of parameters, the most is 4096; capture fewer tensors and scalars");
}

TEST_CASE("an image for a GPU that is not here") {
  if (Expected<const Nvrtc *> nvrtc = Nvrtc::get(); !nvrtc) {
    WARN("skipped: " << nvrtc.error().message);
    return;
  }
  CacheFolder folder;
  CompileOptions options = folder.options();
  options.dtype = bf16;
  options.headDim = 64;
  Expected<KernelImage> image = compileImage(causalVariant(), options, Target::cuda("sm_90"));
  INFO((image ? "" : image.error().text()));
  REQUIRE(image);
  CHECK(image->path == "mma.sync");
  CHECK(image->main().registers > 0);
  CHECK(image->cudaSource.find("causal") != std::string::npos);
  CHECK(json::parse(image->planJson)["registers"]["actual"] == image->main().registers);
  CHECK(json::parse(image->planJson)["shared"]["bytes"] == image->main().sharedBytes);
  CHECK(folder.entries() == 1);
  Expected<KernelImage> again = compileImage(causalVariant(), options, Target::cuda("sm_90"));
  CHECK_FALSE(image->cacheHit);
  CHECK((again && again->cacheHit));
  REQUIRE(again);
  CHECK(again->binary == image->binary);
}
