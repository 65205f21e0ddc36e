//===- ArchTest.cpp - Every architecture, down to the cubin -----------------===//
//
// Kernels for each GPU architecture go through NVRTC; registers, local memory and shared bytes are read from the
// cubin and held to the plan. Needs no GPU. A sample of the grid by default, and on demand all of it or a part:
//
//     ATTUNE_FULL_GRID=all attune_arch_tests
//     ATTUNE_FULL_GRID="sm_90 bf16" ATTUNE_VERBOSE=1 attune_arch_tests     // points with all of these words
//
//===----------------------------------------------------------------------===//

#include "arch/ArchInfo.h"
#include "attune/Builtins.h"
#include "attune/Compile.h"
#include "passes/analysis/cost/CostModel.h"
#include "runtime/Cubin.h"
#include "tests/Sample.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

using namespace attune;

namespace {

/// Spills of two words are not measured to cost time (driver/Compile.cpp).
constexpr int harmlessSpills = 8;

/// One kernel of the grid.
struct Point {
  std::string arch;
  std::string variant;
  DType dtype;
  int headDim, headDimV;

  std::string text() const { return fmt::format("{} {} {} {}x{}", arch, variant, name(dtype), headDim, headDimV); }
};

Variant variantOf(const std::string &label) {
  Variant variant(label);
  if (label == "causal")
    variant.mask(causal());
  else if (label == "window")
    variant.mask(slidingWindow(1024, 0));
  else if (label == "documents")
    variant.mask(causal() && documents(captured("ids", i32, rank(1))));
  else if (label == "segments")
    variant.mask(documents(captured("ids", i32, rank(1))));
  else if (label == "padded")
    variant.mask(
        [present = captured("present", boolean, rank(2))](Index b, Index, Index, Index k) { return present[b][k]; });
  else if (label == "chunked")
    variant.mask(chunked(128));
  else if (label == "packed")
    variant.mask([ids = captured("ids", i64, rank(2)), windows = captured("windows", i32, rank(1))](Index b, Index,
                                                                                                    Index q, Index k) {
      return ids[b][q] == ids[b][k] && q - k < windows[q] && q >= k;
    });
  else if (label == "alibi")
    variant.mask(causal()).score(alibi(captured("slopes", f32, rank(1))));
  else if (label == "softcap")
    variant.mask(causal()).score(softcap(30));
  else if (label == "bias")
    variant.score(bias(captured("bias", bf16, rank(3))));
  else if (label == "relative")
    variant.score([table = captured("table", f32, rank(2))](Score s, Index, Index h, Index q, Index k) {
      return s + table[h][q - k + keyLength() - 1];
    });
  else if (label == "capped")
    variant.score([table = captured("table", f32, rank(2))](Score s, Index, Index h, Index q, Index k) {
      return 20 * tanh(s * 0.05f) + table[h][q - k + keyLength() - 1];
    });
  else if (label == "buckets")
    variant.mask(causal()).score([table = captured("table", bf16, rank(2))](Score s, Index, Index h, Index q, Index k) {
      Expr distance = max(q - k, 0),
           log = 16 + cast(log2(cast(max(distance, 1), f32) * (1.0f / 16)) * (16.0f / 3), i32);
      return s + table[h][select(distance < 16, distance, min(log, 31))];
    });
  else if (label == "tables")
    variant
        .score([slope = captured("slope", f32, rank(2)), table = captured("table", bf16, rank(1))](
                   Score s, Index, Index h, Index q, Index k) { return s * slope[h][q - k] + table[k - q + 100]; })
        .mask([open = captured("open", boolean, rank(1))](Index, Index, Index q, Index k) {
          return q >= k && open[q - k];
        });
  else if (label == "dropout")
    variant.mask(causal()).dropout(0.1f);
  else if (label == "gemma")
    variant.mask(slidingWindow(4096, 0)).score(softcap(50) | alibi(captured("slopes", f32, rank(1)))).dropout(0.1f);
  else if (label == "blocks")
    variant.blocks(captured("pattern", boolean, rank(3)), 128, 128);
  return variant;
}

const char *const variants[] = {"plain",   "causal",  "window",   "documents", "alibi",    "softcap",
                                "bias",    "dropout", "gemma",    "blocks",    "relative", "capped",
                                "buckets", "tables",  "segments", "chunked",   "padded"};
const int headDims[] = {16, 32, 40, 64, 80, 96, 128, 192, 256};
const std::vector<std::string> archs = [] {
  std::vector<std::string> names;
  for (const ArchInfo &arch : allArchs())
    if (!arch.isCpu())
      names.emplace_back(arch.name);
  return names;
}();

/// Whether the point's text has every word of `words`.
bool matches(const Point &point, const std::string &words) {
  std::istringstream stream(words);
  std::string text = " " + point.text() + " ";
  for (std::string word; stream >> word;)
    if (word != "all" && text.find(" " + word + " ") == std::string::npos)
      return false;
  return true;
}

/// Kernels that each have something of their own.
std::vector<Point> chosenPoints() {
  std::vector<Point> points;
  for (const std::string &arch : archs) {
    // What the figures are quoted for, then one of each other variant and head dim, ping-pong.
    for (int dim : {64, 128})
      for (const char *variant : {"plain", "gemma"})
        points.push_back({arch, variant, bf16, dim, dim});
  }
  size_t turn = 0;
  for (const std::string &arch : archs)
    for (int i = 0; i < 5; ++i, ++turn) {
      int dim = headDims[turn * 2 % 9];
      points.push_back({arch, variants[turn % std::size(variants)],
                        turn % 5 == 4 && dim <= 128 ? f32
                        : turn % 2                  ? f16
                                                    : bf16,
                        dim, dim});
    }
  // Where registers are scarcest: each feature that takes more of them, and narrow heads with several blocks on an SM.
  const std::pair<const char *, int> scarce[] = {
      {"bias", 40},  {"bias", 64},   {"documents", 64}, {"documents", 128}, {"dropout", 32}, {"dropout", 128},
      {"gemma", 80}, {"window", 64}, {"blocks", 128},   {"causal", 40},     {"plain", 96},   {"softcap", 16}};
  for (auto [variant, dim] : scarce)
    points.push_back({"sm_90", variant, bf16, dim, dim});
  // Tiles that are searched for, wide integers compared.
  for (const std::string &arch : archs)
    for (int dim : {64, 128})
      points.push_back({arch, "packed", dim == 64 ? bf16 : f16, dim, dim});
  points.push_back({"sm_90", "causal", bf16, 192, 128});
  // Warpgroup-level products: each mask, score and dropout once, and the ends of the head dims.
  const std::pair<const char *, int> hopper[] = {{"plain", 64},   {"causal", 64}, {"causal", 128}, {"plain", 128},
                                                 {"dropout", 64}, {"gemma", 128}, {"window", 64},  {"documents", 128},
                                                 {"bias", 64},    {"blocks", 96}, {"plain", 8},    {"causal", 256}};
  for (auto [variant, dim] : hopper)
    points.push_back({"sm_90a", variant, bf16, dim, dim});
  // What the warp that searches holds beside three warpgroups; both ends of a mask in one conjunct.
  points.push_back({"sm_90a", "segments", bf16, 64, 64});
  points.push_back({"sm_90a", "chunked", bf16, 64, 64});
  for (int dim : {32, 64}) // four warpgroups
    points.push_back({"sm_90a", "softcap", bf16, dim, dim});
  points.push_back({"sm_90a", "plain", bf16, 200, 256}); // O has no place over Q
  points.push_back({"sm_90a", "padded", bf16, 128, 128});
  // Where O takes most of a lane's registers.
  for (auto [variant, dim] : {std::pair("softcap", 192), {"gemma", 256}, {"dropout", 256}})
    points.push_back({"sm_90a", variant, bf16, dim, dim});
  // Values by distance, which a producer warp of few registers computes.
  for (int dim : {64, 96, 128, 256})
    points.push_back({"sm_90a", "relative", dim == 96 ? f16 : bf16, dim, dim});
  for (int dim : {64, 128})
    for (const char *variant : {"capped", "buckets", "tables"})
      points.push_back({"sm_90a", variant, bf16, dim, dim});
  points.push_back({"sm_90a", "causal", f16, 192, 128});
  points.push_back({"sm_90a", "softcap", f32, 64, 64});
  // Head dims above 256.
  points.push_back({"sm_80", "plain", bf16, 512, 512});
  points.push_back({"sm_86", "dropout", f16, 264, 264});
  points.push_back({"sm_90", "causal", bf16, 320, 320});
  points.push_back({"sm_90", "gemma", bf16, 64, 512});
  points.push_back({"sm_120", "softcap", bf16, 512, 64});
  points.push_back({"sm_89", "causal", f32, 512, 512});
  points.push_back({"sm_80", "plain", f16, 40, 72});
  return points;
}

/// The points with all words of `full`, of every architecture, variant, head dim and dtype; every third of the chosen
/// ones where `full` is empty.
std::vector<Point> grid(const std::string &full) {
  std::vector<Point> points = chosenPoints(), sample;
  if (full.empty()) {
    for (size_t i = 0; i < points.size(); i += 3)
      sample.push_back(points[i]);
    return sample;
  }
  for (const std::string &arch : archs)
    for (const char *variant : variants)
      for (int dim : headDims)
        for (DType dtype : {bf16, f16, f32})
          points.push_back({arch, variant, dtype, dim, dim});
  std::erase_if(points, [&](const Point &point) { return !matches(point, full); });
  return points;
}

/// What is wrong with the kernel of `point`; empty when nothing is.
std::vector<std::string> faults(const Point &point, std::string &facts) {
  CompileOptions options{.dtype = point.dtype, .headDim = point.headDim, .headDimV = point.headDimV, .useCache = false};
  Expected<KernelImage> image = compileImage(variantOf(point.variant), options, Target::cuda(point.arch));
  if (!image)
    return {image.error().text()};
  std::vector<std::string> found;
  auto plan = nlohmann::json::parse(image->planJson);
  facts = fmt::format("{}: {}, {} registers, {} spilled, {} shared", point.text(), plan["text"].get<std::string>(),
                      image->main().registers, image->main().spillBytes, image->main().sharedBytes);
  if (!image->log.empty())
    found.push_back("NVRTC says: " + image->log);

  const bool spillFree =
      std::max(point.headDim, point.headDimV) <= spillFreeHeadDim(plan["producerWarps"].get<int>() > 0) &&
      point.dtype != f32;
  if (spillFree && image->main().spillBytes > harmlessSpills)
    found.push_back(fmt::format("{} bytes of local memory a thread", image->main().spillBytes));
  // O takes nearly all registers: some spills are known, many would be a plan that does not fit.
  constexpr int wideSpills = 256;
  bool wide = point.dtype != f32 && std::max(point.headDim, point.headDimV) > 256;
  if (wide && image->main().spillBytes > wideSpills)
    found.push_back(fmt::format("{} bytes of local memory a thread, above {}", image->main().spillBytes, wideSpills));

  Expected<std::vector<CubinKernel>> kernels = readCubin(image->binary);
  if (!kernels)
    return {kernels.error().text()};
  if (kernels->size() != image->entries.size())
    found.push_back("the cubin holds other kernels than its entries");
  for (const KernelEntry &entry : image->entries) {
    Expected<CubinKernel> kernel = readCubin(image->binary, entry.symbol);
    if (!kernel)
      return {kernel.error().text()};
    // One that reads elements in place of TMA has the tiles of another, which leave it few registers.
    constexpr int fallbackSpills = 64;
    const int spills = entry.maps.fallbackOf ? fallbackSpills : 0;
    if (&entry != &image->main() && kernel->frameBytes > spills)
      found.push_back(fmt::format("{} bytes of local memory a thread in {}", kernel->frameBytes, entry.symbol));
    if (kernel->staticSharedBytes != 0)
      found.push_back(fmt::format("{} static shared bytes", kernel->staticSharedBytes));
    if (kernel->paramBytes != int(image->signature.packedBytes()))
      found.push_back(fmt::format("{} bytes of parameters, the signature has {}", kernel->paramBytes,
                                  image->signature.packedBytes()));
  }

  const ArchInfo *arch = findArch(point.arch);
  size_t end = 0;
  for (const auto &buffer : plan["shared"]["buffers"])
    end = std::max<size_t>(end, buffer["offset"].get<size_t>() + buffer["bytes"].get<size_t>());
  if (image->main().sharedBytes != end || image->main().sharedBytes != plan["shared"]["bytes"].get<size_t>())
    found.push_back(fmt::format("{} shared bytes, the plan's buffers end at {}", image->main().sharedBytes, end));
  if (image->main().sharedBytes > arch->sharedBytesPerBlock)
    found.push_back(
        fmt::format("{} shared bytes, {} allows {}", image->main().sharedBytes, point.arch, arch->sharedBytesPerBlock));
  int warps = plan["warps"].get<int>() + plan["producerWarps"].get<int>();
  if (image->main().threads != warps * 32)
    found.push_back(fmt::format("{} threads for {} warps", image->main().threads, warps));
  bool warpgroups = point.arch == "sm_90a" && point.dtype != f32;
  if (image->path != (warpgroups ? "wgmma" : "mma.sync"))
    found.push_back("the path is " + image->path);
  for (const char *idiom : {"wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier.try_wait", "setmaxnreg"})
    if (warpgroups && image->cudaSource.find(idiom) == std::string::npos)
      found.push_back(fmt::format("the source has no {}", idiom));
  // setmaxnreg waits for ever for registers that the block does not start with.
  if (warpgroups) {
    int64_t taken = 0;
    for (auto [idiom, warpCount] : {std::pair{"decrease_registers<", plan["producerWarps"].get<int>()},
                                    std::pair{"increase_registers<", plan["warps"].get<int>()}}) {
      size_t call = image->cudaSource.find(idiom);
      taken += call == std::string::npos
                   ? int64_t(1) << 32
                   : std::stoi(image->cudaSource.substr(call + std::strlen(idiom))) * warpCount * 32;
    }
    if (int64_t starts = (image->main().registers + 7) / 8 * 8 * image->main().threads; taken > starts)
      found.push_back(fmt::format("roles take {} registers, the block starts with {}", taken, starts));
  }
  int blocks = arch->blocksPerSM(image->main().threads, image->main().registers, image->main().sharedBytes);
  if (blocks < plan["blocksPerSm"].get<int>())
    found.push_back(fmt::format("{} blocks fit on an SM, the plan says {}", blocks, plan["blocksPerSm"].get<int>()));
  return found;
}

} // namespace

TEST_CASE("kernels of every architecture keep to their plan") {
  const char *full = std::getenv("ATTUNE_FULL_GRID");
  std::vector<Point> points = grid(full ? full : "");
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  auto work = [&] {
    for (size_t at; (at = next++) < points.size();) {
      std::string facts;
      std::vector<std::string> found = faults(points[at], facts);
      std::lock_guard lock(mutex); // Catch2's assertions are for one thread at a time
      INFO(points[at].text());
      INFO(facts);
      for (const std::string &fault : found) {
        INFO(fault);
        CHECK(fault.empty());
      }
      if (found.empty())
        CHECK(!facts.empty());
      if (std::getenv("ATTUNE_VERBOSE")) {
        fmt::print("{}\n", facts);
        std::fflush(stdout);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  for (std::thread &thread : threads)
    thread.join();
}

TEST_CASE("the search of a block pattern fits beside the largest tiles") {
  for (int dim : {64, 96, 128}) {
    Expected<KernelImage> image = compileImage(
        variantOf("blocks"), {.headDim = dim, .tileQ = 128, .tileK = 128, .useCache = false}, Target::cuda("sm_90a"));
    REQUIRE(image);
    INFO("D " << dim);
    CHECK(image->main().spillBytes <= harmlessSpills);
  }
}

TEST_CASE("the backward pass multiplies by warpgroups") {
  // Mask and exponents alone leave registers for all of it.
  const std::set<std::string> plain = {"plain", "causal", "window", "documents", "segments", "chunked"};
  tests::Sample sample(5);
  for (const std::string variant : variants)
    for (int dim : {64, 128}) {
      if (!sample.takes())
        continue;
      INFO(variant << ", D " << dim);
      Expected<KernelImage> image = compileImage(
          variantOf(variant), {.headDim = dim, .gradients = Gradients{}, .backward = true, .useCache = false},
          Target::cuda("sm_90a"));
      if (!image)
        FAIL(image.error().text());
      // Two tables by distance, one of them in the mask, take registers that products need: ptxas says so.
      if (variant != "tables")
        CHECK(image->log == "");
      CHECK(image->path == "wgmma");
      size_t spilled = 0;
      for (const KernelEntry &entry : image->entries)
        spilled += entry.spillBytes;
      CHECK(spilled <= (plain.contains(variant) ? 0 : 640));
    }
}

TEST_CASE("so it does for heads that see other keys each") {
  const char *const masks[] = {
      // Blocks that show all, part of a block or nothing, of the tile's size and smaller.
      "blocks[b, h, q / 128, k / 128] == 2 || blocks[b, h, q / 128, k / 128] == 1 && k % 128 < sizes[k / 128]",
      "shown[b, h, q / 64, k / 64] && k % 64 < sizes[k / 64]",
      "select(h < 4, q >= k, q - k < 128)",
      "q >= k && q - k < sizes[h]",
      "q >= k && (h < 4 || sizes[q] == sizes[k])",
  };
  const std::vector<TensorDecl> tensors = {
      {"blocks", DType::I32, 4}, {"sizes", DType::I32, 1}, {"shown", DType::Bool, 4}};
  tests::Sample sample(3);
  for (const char *mask : masks)
    for (int dim : {64, 128}) {
      if (!sample.takes())
        continue;
      INFO(mask << ", D " << dim);
      Expected<Variant> variant = Variant::parse("heads", {.mask = mask, .tensors = tensors});
      if (!variant)
        FAIL(variant.error().text());
      Expected<KernelImage> image =
          compileImage(*variant, {.headDim = dim, .gradients = Gradients{}, .backward = true, .useCache = false},
                       Target::cuda("sm_90a"));
      if (!image)
        FAIL(image.error().text());
      CHECK(image->log == "");
      CHECK(image->path == "wgmma");
      for (const KernelEntry &entry : image->entries)
        CHECK(entry.spillBytes <= harmlessSpills);
    }
}

TEST_CASE("a budget of shared memory is kept") {
  for (const char *arch : {"sm_80", "sm_120"})
    for (size_t budget : {size_t(49152), size_t(32768)}) {
      Variant variant = Variant("causal").mask(causal());
      Expected<KernelImage> image =
          compileImage(variant, {.headDim = 64, .sramBudget = budget, .useCache = false}, Target::cuda(arch));
      if (!image)
        FAIL(image.error().text());
      CHECK(image->main().sharedBytes <= budget);
      CHECK(image->main().sharedBytes > 0);
    }
}

TEST_CASE("a variant is called what CUDA's own functions are") {
  for (const char *name : {"mask", "printf", "norm", "min", "size_t", "cudaStream_t", "params", "fill"}) {
    INFO(name);
    Variant variant = Variant(name).mask([window = captured("window", i32, rank(1))](Index, Index, Index q, Index k) {
      return q - k <= window[q] && q >= k;
    });
    Expected<KernelImage> image =
        compileImage(variant, {.headDim = 64, .tileQ = 64, .useCache = false}, Target::cuda("sm_80"));
    if (!image)
      FAIL(image.error().text());
    CHECK(image->main().symbol == std::string(name) + "_kernel");
    CHECK(image->entries.size() == 2);
  }
}
