//===- ProblemSizesTest.cpp - Classes of sizes, and what a launch starts -----===//

#include "attune/ProblemSizes.h"
#include "attune/Kernel.h"

#include <catch2/catch.hpp>
#include <limits>
#include <set>

using namespace attune;

TEST_CASE("sizes fall into the classes that the header's table says") {
  auto text = [](int64_t batch, int64_t heads, int64_t queries, int64_t keys) {
    return SizeClass::of({batch, heads, 1, queries, keys}).text();
  };
  CHECK(text(1, 8, 1000, 1000) == "h8 q1024 k1024");
  CHECK(text(1, 1, 1, 1) == "h1 q16 k16");
  CHECK(text(128, 12, 197, 197) == "h* q208 k208");
  CHECK(text(1, 9, 512, 513) == "h10 q512 k640");
  CHECK(text(3, 3, 4096, 4097) == "h10 q4096 k5120");
  CHECK(SizeClass{0, 16, 16}.text() == "h* q16 k16");
  // 1024 blocks of 128 queries fill a device.
  CHECK(text(2, 16, 4096, 4096) == "h* q4096 k4096");
  CHECK(text(2, 16, 3968, 4096) == "h32 q4096 k4096");
}

TEST_CASE("classes are ordered, and few") {
  std::set<int64_t> classes;
  int64_t before = 0;
  for (int64_t length = 1; length <= 1 << 16; ++length) {
    const SizeClass of = SizeClass::of({1, 1, 1, length, length});
    REQUIRE(of.queries >= length);
    REQUIRE(of.queries >= before);
    REQUIRE(double(of.queries) <= std::max(double(length) + 15, 1.25 * double(length)));
    // The end of a class is in it.
    REQUIRE(SizeClass::of({1, 1, 1, of.queries, of.queries}).queries == of.queries);
    classes.insert(before = of.queries);
  }
  CHECK(classes.size() == 32 + 4 * 7);
}

TEST_CASE("no sizes are too large for a class") {
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  CHECK(SizeClass::of({most, most, most, most, most}).rows == 0);
  CHECK(SizeClass::of({most, most, most, most, most}).keys == int64_t(1) << 62);
  CHECK(SizeClass::of({least, least, least, least, least}) == SizeClass{0, 0, 0});
}

TEST_CASE("a class's text is read back") {
  for (const char *text : {"h8 q1024 k1024", "h* q4096 k4096", "h40 q16 k5120"}) {
    std::optional<SizeClass> parsed = SizeClass::parse(text);
    REQUIRE(parsed);
    CHECK(parsed->text() == text);
  }
  for (const char *text : {"", "h8", "h8 q1024", "h8 q1024 k", "h8 q1024 k1024 ", "h-8 q1024 k1024", "q1 k1",
                           "h8 q99999999999999999999 k1", "h* q* k*", "h8  q1 k1"})
    CHECK_FALSE(SizeClass::parse(text));
}

TEST_CASE("only long sequences have near classes") {
  auto distance = [](const char *a, const char *b) {
    const std::optional<int> there = SizeClass::parse(a)->distance(*SizeClass::parse(b));
    CHECK(there == SizeClass::parse(b)->distance(*SizeClass::parse(a)));
    return there;
  };
  CHECK(distance("h8 q1024 k1024", "h8 q1024 k1024") == 0);
  CHECK(distance("h8 q1024 k1024", "h8 q1280 k1024") == 1);
  CHECK(distance("h8 q1024 k1024", "h8 q1536 k768") == 4);
  CHECK_FALSE(distance("h8 q1024 k1024", "h8 q1792 k1024")); // more than half a doubling
  CHECK_FALSE(distance("h8 q1024 k1024", "h10 q1024 k1024"));
  CHECK_FALSE(distance("h8 q512 k1024", "h8 q496 k1024"));
  CHECK_FALSE(distance("h8 q512 k1024", "h8 q640 k1024"));
  CHECK(distance("h* q208 k4096", "h* q208 k5120") == 1);
}

//===----------------------------------------------------------------------===//
// Alternatives
//===----------------------------------------------------------------------===//

namespace {
/// What the kernels below were started with.
int started = 0;

/// A kernel that notes `mark`.
template <int mark> Kernel marked() {
  KernelImage image;
  image.name = "mark" + std::to_string(mark);
  image.arch = "cpu";
  image.signature = {.dtype = f32, .headDim = 8, .headDimV = 8, .operands = forwardOperands(f32, 8, 8)};
  image.main().threads = 1;
  image.main().grid = {{"b"}, {"h"}, {"q", 0, mark}};
  HostEntry entry;
  entry.function = [](const LaunchParams *, int32_t, void *) { started = mark; };
  return makeHostKernel(std::move(image), {entry}, nullptr);
}

int startedAt(const Kernel &kernel, int64_t heads, int64_t length) {
  static std::vector<float> memory(size_t(1) << 20);
  LaunchArgs args;
  for (Tensor *tensor : {&args.q, &args.k, &args.v, &args.o})
    *tensor = Tensor::contiguous(memory.data(), f32, {1, heads, length, 8}, Device::cpu());
  started = 0;
  Expected<void> launched = kernel.launch(nullptr, args);
  INFO((launched ? "" : launched.error().message));
  REQUIRE(launched);
  return started;
}
} // namespace

TEST_CASE("a launch starts the kernel of the nearest class") {
  const Kernel plain = marked<1>();
  auto at = [](const char *text) { return *SizeClass::parse(text); };
  const Kernel kernel = plain.withAlternatives(
      {{at("h2 q1024 k1024"), marked<2>()}, {at("h2 q2048 k2048"), plain}, {at("h2 q64 k64"), marked<3>()}});
  CHECK(startedAt(plain, 2, 1024) == 1);
  CHECK(startedAt(kernel, 2, 1024) == 2);
  CHECK(startedAt(kernel, 2, 1200) == 2); // a class beside it
  CHECK(startedAt(kernel, 2, 1700) == 1); // nearer to the one that the kernel itself serves
  CHECK(startedAt(kernel, 2, 5000) == 1);
  CHECK(startedAt(kernel, 3, 1024) == 1);
  CHECK(startedAt(kernel, 2, 60) == 3);
  CHECK(startedAt(kernel, 2, 65) == 1);
  CHECK(kernel.image().name == "mark1");
  CHECK(kernel.imageFor({1, 2, 2, 50, 50}).name == "mark3");
  CHECK(kernel.imageFor({1, 2, 2, 70, 70}).name == "mark1");
  CHECK(kernel.alternatives().size() == 3);
  CHECK(plain.alternatives().empty());
  CHECK(kernel.withCacheHit(true).alternatives().size() == 3);
}

TEST_CASE("arguments of a wrong shape are refused as without alternatives") {
  const Kernel plain = marked<1>();
  const Kernel kernel = plain.withAlternatives({{*SizeClass::parse("h2 q64 k64"), marked<2>()}});
  LaunchArgs args;
  for (const Kernel *each : {&plain, &kernel}) {
    Expected<void> launched = each->launch(nullptr, args);
    REQUIRE_FALSE(launched);
    CHECK(launched.error().message == plain.launch(nullptr, args).error().message);
  }
}

TEST_CASE("a kernel that compile() did not make prepares nothing") {
  Expected<Kernel> prepared = marked<1>().prepare({{1, 1, 1, 1, 1}});
  REQUIRE_FALSE(prepared);
  CHECK(prepared.error().message ==
        "kernel 'mark1' was not made by compile() from a variant, and holds its schedule; name sizes in "
        "CompileOptions::shapes where it is compiled");
}

TEST_CASE("few queries over many keys have kernels of their own") {
  constexpr int64_t multiprocessors = 132;
  auto form = [](const ProblemSizes &sizes, bool packs = true) { return fewQueriesOf(sizes, packs, multiprocessors); };
  // One query: keys are split where few tiles of rows leave multiprocessors idle, and keys are many.
  CHECK(form({1, 32, 8, 1, 131072}) == FewQueries::Split);
  CHECK(form({1, 32, 8, 1, 2048}) == FewQueries::Split);
  CHECK(form({8, 32, 8, 1, 8192}) == FewQueries::Split);
  CHECK(form({1, 32, 8, 1, 512}) == FewQueries::Whole);
  CHECK(form({8, 64, 8, 4, 1024}) == FewQueries::Whole);
  CHECK(form({64, 32, 8, 1, 8192}) == FewQueries::Whole);
  CHECK(form({16, 64, 8, 16, 4096}) == FewQueries::Whole);
  // Many queries, or heads that share no keys and fill the device.
  CHECK(form({16, 64, 8, 17, 4096}) == FewQueries::No);
  CHECK(form({4, 32, 32, 4096, 4096}) == FewQueries::No);
  CHECK(form({64, 32, 32, 1, 2048}) == FewQueries::No);
  CHECK(form({1, 8, 8, 1, 65536}) == FewQueries::Split);
  CHECK(form({1, 32, 8, 1, 65536}, /*packs=*/false) == FewQueries::Split);
  CHECK(form({16, 32, 8, 1, 65536}, /*packs=*/false) == FewQueries::No);
  // Nothing to do, and sizes that no memory holds.
  CHECK(form({0, 32, 8, 1, 1024}) == FewQueries::Split);
  CHECK(form({1, 32, 8, 0, 1024}) == FewQueries::No);
  CHECK(form({1, 32, 8, 1, 0}) == FewQueries::No);
  CHECK(form({INT64_MAX, INT64_MAX, 1, 1, INT64_MAX}) == FewQueries::No);
}

TEST_CASE("a launch of few queries starts a kernel for these where no class is near") {
  const Kernel plain = marked<1>();
  const SizeClass near = *SizeClass::parse("h2 q64 k64");
  const Kernel kernel = plain.withAlternatives(
      {{near, marked<2>()}, {{}, marked<3>(), FewQueries::Split}, {{}, marked<4>(), FewQueries::Whole}});
  CHECK(kernel.imageFor({1, 2, 2, 64, 64}).name == "mark2");
  CHECK(kernel.imageFor({1, 2, 2, 4096, 4096}).name == "mark1");
  // None of these kernels packs: no group shares a tile, and 256 tiles leave no thread of the CPU idle.
  CHECK(kernel.imageFor({4, 64, 1, 1, 100000}).name == "mark1");
}
