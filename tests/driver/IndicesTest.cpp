//===- IndicesTest.cpp - Indices of captured tensors, from variant to launch ===//

#include "attune/attune.h"
#include "tools/reference/RandomVariant.h"
#include "tools/reference/Reference.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <regex>

using namespace attune;
using reference::HostTensor;
namespace fs = std::filesystem;

namespace {

Tensor viewOf(const HostTensor &tensor) { return Tensor::contiguous(tensor.data.data(), tensor.dtype, tensor.shape); }

ScalarValue scalarOf(const HostTensor &value) {
  switch (value.dtype) {
  case DType::I32:
    return int32_t(value.intAt(0));
  case DType::I64:
    return int64_t(value.intAt(0));
  case DType::Bool:
    return value.intAt(0) != 0;
  default:
    return float(value.at(0));
  }
}

/// The arguments of a launch of `problem`, with o in `o`.
LaunchArgs argsOf(const reference::Problem &problem, HostTensor &o) {
  o = HostTensor::zeros(problem.q.dtype,
                        {problem.q.shape[0], problem.q.shape[1], problem.q.shape[2], problem.v.shape[3]});
  LaunchArgs args;
  args.q = viewOf(problem.q);
  args.k = viewOf(problem.k);
  args.v = viewOf(problem.v);
  args.o = viewOf(o);
  for (const auto &[name, tensor] : problem.tensors)
    args.tensors.push_back({name, viewOf(tensor)});
  for (const auto &[name, value] : problem.scalars)
    args.scalars.push_back({name, scalarOf(value)});
  if (problem.qOffset)
    args.qOffset = int32_t(problem.qOffset);
  return args;
}

/// A problem of B 2, H 3, Sq 20, Sk 600 with random q, k and v.
struct Setup {
  Variant variant;
  reference::Problem problem;
  HostTensor o = {};

  explicit Setup(TextVariant text) : variant(*Variant::parse("v", text)) {
    problem.variant = &variant;
    problem.q = HostTensor::random(f32, {2, 3, 20, 16}, 1);
    problem.k = problem.v = HostTensor::random(f32, {2, 3, 600, 16}, 2);
  }
  /// With the tensor `name` of integers 0, 1, 2, ...
  Setup &with(const std::string &name, DType dtype, std::vector<int64_t> shape) {
    HostTensor tensor = HostTensor::zeros(dtype, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set(i, double(i));
    problem.tensors[name] = std::move(tensor);
    return *this;
  }
  std::string fault() {
    Expected<std::optional<IndexFault>> found = findIndexFault(variant, argsOf(problem, o));
    return !found ? "refused: " + found.error().message : *found ? (*found)->error().text() : "none";
  }
  int64_t clamped(const std::string &name) {
    Expected<reference::Output> exact = reference::attention(problem);
    return exact ? exact->clampedReads[name] : -1;
  }
};

} // namespace

TEST_CASE("the first read outside is found, to the letter") {
  Setup half({.score = "s + t[k / 2]"});
  CHECK(half.with("t", f32, {300}).fault() == "none");
  CHECK(half.clamped("t") == 0);
  CHECK(half.with("t", f32, {299}).fault() ==
        "score:1:5: error: t[k / 2] reads t[299] at b 0, h 0, q 0, k 598, but captured tensor 't' has 299 elements in "
        "dimension 0; correct or "
        "guard the index, or write clamped(t[k / 2]) where reading the nearest element is meant");
  CHECK(half.clamped("t") == 2 * 3 * 20 * 2);
  // Rows come before keys, batches before heads; both indices are shown, and the first that lies outside is named.
  Setup table({.score = "s + t[h * 2 - b, k % (q + 1)]", .qOffset = true});
  table.problem.qOffset = 7;
  CHECK(table.with("t", f32, {5, 27}).fault() == "score:1:5: error: t[h * 2 - b, k % (q + 1)] reads t[-1, 0] at b 1, h "
                                                 "0, q 7 (row 0), k 0, but captured tensor 't' has 5 elements in "
                                                 "dimension 0; correct or guard the index, or write clamped(t[h * 2 - "
                                                 "b, k % (q + 1)]) where reading the nearest element is meant");
  CHECK(table.with("t", f32, {5, 20})
            .fault()
            .find("reads t[0, 20] at b 0, h 0, q 20 (row 13), k 20, but captured tensor 't' has 20 elements in "
                  "dimension 1") != std::string::npos);
}

TEST_CASE("what is not evaluated is not read") {
  auto fault = [](std::string score, std::string mask = "") {
    Setup s({.score = score, .mask = mask, .tensors = {{"n", i32, 1}}});
    for (const TensorDecl &tensor : s.variant.tensors())
      s.with(tensor.name, tensor.dtype, {5});
    const std::string text = s.fault();
    int64_t clamped = 0;
    for (const TensorDecl &tensor : s.variant.tensors())
      clamped += s.clamped(tensor.name);
    CHECK((clamped > 0) == (text != "none"));
    const size_t at = text.find(" at "), end = text.find(", but");
    return at == std::string::npos ? text : text.substr(at + 4, end - at - 4);
  };
  CHECK(fault("s + select(k % 32 < 5, t[k % 32], 0)") == "none");
  CHECK(fault("s + select(k % 32 < 6, t[k % 32], 0)") == "b 0, h 0, q 0, k 5");
  CHECK(fault("s + select(k % 32 < 6, 0, t[k % 32 - 6])") == "b 0, h 0, q 0, k 11");
  CHECK(fault("s", "k % 32 < 5 && n[k % 32] >= 0") == "none");
  CHECK(fault("s", "k % 32 < 6 && n[k % 32] >= 0") == "b 0, h 0, q 0, k 5");
  CHECK(fault("s", "k % 32 >= 5 || n[k % 32] >= 0") == "none");
  CHECK(fault("s", "!(k % 32 >= 6 || n[k % 32] >= 0)") == "b 0, h 0, q 0, k 5");
  // A hidden key has no score.
  CHECK(fault("s + t[k * k]", "k < 3") == "none");
  CHECK(fault("s + t[k * k]", "k < 3 || q == 11") == "b 0, h 0, q 11, k 3");
  CHECK(fault("s + t[k * k]", "h == 2 && n[0] == 0 && k > q") ==
        "b 0, h 2, q 0, k 3"); // after k 1 and 2, which read t[1] and t[4]
  // The same element, under a condition and without: one evaluation counts.
  CHECK(fault("s + select(q > 3, t[k * k], 0) * select(h == 1, t[k * k], 1)") == "b 0, h 0, q 4, k 3");
  // An index from outside of another tensor: the inner read is the first.
  CHECK(fault("s + t[n[k / 2]]").starts_with("b 0, h 0, q 0, k 10"));
  CHECK(fault("s + clamped(t[k * k])") == "none");
  CHECK(fault("s + clamped(t[n[k / 2]])") == "b 0, h 0, q 0, k 10");
}

TEST_CASE("blocks that a pattern hides evaluate nothing") {
  Setup s({.score = "s + t[k * k]", .blocks = TextVariant::Blocks{"blocks", 16, 16}});
  s.with("t", f32, {5}).with("blocks", boolean, {3, 2, 38});
  HostTensor &blocks = s.problem.tensors["blocks"];
  for (int64_t i = 0; i < blocks.size(); ++i)
    blocks.setInt(i, 0);
  CHECK(s.fault() == "none");
  CHECK(s.clamped("t") == 0);
  blocks.setInt(2 * 2 * 38 + 1 * 38 + 3, 1);
  CHECK(s.fault().find(" at b 0, h 2, q 16, k 48,") != std::string::npos);
  CHECK(s.clamped("t") == 2 * 4 * 16);
}

TEST_CASE("indices that depend on the score, scalars and wrapped numbers") {
  Setup score({.score = "s + select(s > 1.0, t[i32(s)], 0)"});
  score.with("t", f32, {2});
  // By the formula.
  int64_t row = -1, key = -1;
  const std::vector<double> q = score.problem.q.doubles(), k = score.problem.k.doubles();
  for (int64_t i = 0; i < 20 && key < 0; ++i)
    for (int64_t j = 0; j < 600 && key < 0; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < 16; ++d)
        dot += q[size_t(i * 16 + d)] * k[size_t(j * 16 + d)];
      if (dot / 4 >= 2) {
        row = i;
        key = j;
      }
    }
  REQUIRE(key >= 0);
  CHECK(score.fault().find(" reads t[") != std::string::npos);
  CHECK(score.fault().find(" at b 0, h 0, q " + std::to_string(row) + ", k " + std::to_string(key) + ",") !=
        std::string::npos);

  Setup shifted({.score = "s + t[k + n]", .scalars = {{"n", i32}}});
  shifted.problem.scalars["n"] = reference::scalarOf(i32, -3);
  CHECK(shifted.with("t", f32, {597}).fault().find("reads t[-3] at b 0, h 0, q 0, k 0,") != std::string::npos);
  shifted.problem.scalars["n"] = reference::scalarOf(i32, 3);
  CHECK(shifted.with("t", f32, {603}).fault() == "none");
  CHECK(shifted.with("t", f32, {602}).fault().find("reads t[602] at b 0, h 0, q 0, k 599,") != std::string::npos);
  Setup wrapped({.score = "s + t[k + 2147483647]"});
  CHECK(wrapped.with("t", f32, {5}).fault().find("reads t[2147483647] at b 0, h 0, q 0, k 0,") != std::string::npos);
  Setup wide({.score = "s + t[i64(k) * 4294967296L]"});
  CHECK(wide.with("t", f32, {5}).fault().find("reads t[4294967296] at b 0, h 0, q 0, k 1,") != std::string::npos);
}

TEST_CASE("a searched vector out of order is found") {
  auto vectorOf = [](DType dtype, std::vector<int64_t> values) {
    return HostTensor::fromInts(dtype, {int64_t(values.size())}, values);
  };
  auto faultOf = [](const HostTensor &vector, const char *x) {
    Setup packed({.mask = std::string("searchsorted(t, ") + x + ", right) > h", .tensors = {{"t", vector.dtype, 1}}});
    packed.problem.tensors["t"] = vector;
    return packed.fault();
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(faultOf(vectorOf(i32, {0, 3, 3, 9}), "q") == "none");
  CHECK(faultOf(vectorOf(i32, {5}), "q") == "none");
  CHECK(faultOf(vectorOf(i32, {0, 9, 3, 9}), "q") ==
        "mask:1:1: error: searchsorted(t, q, right) searches a vector in ascending order, but element 2 of captured "
        "tensor 't' is less than element 1; sort the vector");
  CHECK(faultOf(vectorOf(i64, {5000000000, 4999999999}), "i64(q)").find("element 1 of") != std::string::npos);
  HostTensor floats = HostTensor::zeros(f32, {4});
  for (int64_t n = 0; n < 4; ++n)
    floats.set(n, n == 3 ? nan : 0.5 * double(n));
  CHECK(faultOf(floats, "f32(q)") == "none");
  floats.set(1, nan);
  CHECK(faultOf(floats, "f32(q)").find("element 2 of captured tensor 't' is less than element 1") != std::string::npos);
}

TEST_CASE("what findIndexFault refuses, and what it has no element for") {
  Setup s({.score = "s + t[k / 2]"});
  CHECK(s.fault() == "refused: captured tensor 't' is missing; pass it in .tensors");
  CHECK(s.with("t", i32, {5}).fault() == "refused: captured tensor 't' is i32, the variant declares f32; convert it");
  s.with("t", f32, {5});
  s.problem.k = s.problem.v = HostTensor::random(f32, {2, 3, 0, 16}, 2);
  CHECK(s.fault() == "none");
  CHECK(findIndexFault(Variant("1"), {}).error().message.starts_with("variant name \"1\" is not an identifier"));
}

TEST_CASE("of random variants the search and the reference find the same") {
  int faults = 0, none = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    reference::RandomCase random = reference::randomCase(seed, {.maxLength = 60});
    // Without the word every index outside is a mistake.
    Expected<Variant> variant =
        Variant::fromJson(std::regex_replace(random.variant->toJson(), std::regex("clamped\\("), "("));
    REQUIRE(variant);
    random.problem.variant = &*variant;
    INFO(random.describe());
    HostTensor o;
    Expected<std::optional<IndexFault>> found = findIndexFault(*variant, argsOf(random.problem, o));
    if (!found)
      FAIL(found.error().text());
    Expected<reference::Output> exact = reference::attention(random.problem);
    REQUIRE(exact);
    int64_t reads = 0;
    for (const auto &[name, count] : exact->clampedReads)
      reads += count;
    CHECK(found->has_value() == (reads > 0));
    ++(reads ? faults : none);
    if (*found)
      CHECK(exact->clampedReads[(*found)->tensor] > 0);
  }
  CHECK(faults >= 30);
  CHECK(none >= 30);
}

TEST_CASE("a kernel from the cache, or from text, checks what a compiled one checks") {
  std::string folder = (fs::temp_directory_path() / "attune-indices-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()));
  Setup s({.mask = "q >= k && ids[q] == ids[k]", .tensors = {{"ids", i32, 1}}});
  s.with("ids", i32, {300});
  CompileOptions options{.dtype = f32, .headDim = 16};
  options.cacheDir = folder;
  const std::string expected =
      "captured tensor 'ids' has 300 elements in dimension 0 and is indexed by k, but Sk is 600; pass at least 600, or "
      "write clamped(ids[k]) where reading the last element is meant";
  // Keys 20 to 599 are seen by no query, so that 300 ids are enough; without the offset.
  auto message = [&](const Expected<Kernel> &kernel) {
    REQUIRE(kernel);
    LaunchArgs args = argsOf(s.problem, s.o);
    std::vector<std::max_align_t> workspace(kernel->workspaceBytes(args) / sizeof(std::max_align_t) + 1);
    args.workspace = workspace.data();
    args.workspaceBytes = workspace.size() * sizeof(std::max_align_t);
    Expected<void> launched = kernel->launch(nullptr, args);
    return launched ? "success" : launched.error().message;
  };
  CHECK(message(compile(s.variant, options, Target::cpu())) == "success");
  s.variant = *Variant::parse("v", {.mask = "ids[q] == ids[k]", .tensors = {{"ids", i32, 1}}});
  Expected<Kernel> cold = compile(s.variant, options, Target::cpu()), warm = compile(s.variant, options, Target::cpu());
  REQUIRE(warm);
  CHECK(warm->cacheHit());
  options.cacheDir = folder + "/."; // what a new process sees
  Expected<Kernel> fromDisk = compile(s.variant, options, Target::cpu());
  REQUIRE(fromDisk);
  CHECK(fromDisk->cacheHit());
  for (const Expected<Kernel> *kernel : {&cold, &warm, &fromDisk})
    CHECK(message(*kernel) == expected);
  for (Stage stage : {Stage::Attn, Stage::Tile}) {
    Expected<std::string> text = emit(s.variant, options, Target::cpu(), stage);
    REQUIRE(text);
    CHECK(message(compileFromText({*text}, {.cacheDir = folder}, Target::cpu())) == expected);
  }
  // Another word is another kernel.
  s.variant = *Variant::parse("v", {.mask = "ids[q] == clamped(ids[k])", .tensors = {{"ids", i32, 1}}});
  Expected<Kernel> clamped = compile(s.variant, options, Target::cpu());
  REQUIRE(clamped);
  CHECK_FALSE(clamped->cacheHit());
  CHECK(message(clamped) == "success");
  fs::remove_all(folder);
}

TEST_CASE("numbers of pages, as far as sequences have keys") {
  Setup s({.keyLengths = "lengths", .pages = TextVariant::Pages{"pages", 16}});
  s.problem.k = s.problem.v = HostTensor::random(f32, {4, 3, 16, 16}, 2);
  s.with("pages", i32, {2, 4}).with("lengths", i32, {2});
  auto lengths = [&](int64_t first, int64_t second) {
    s.problem.tensors["lengths"].setInt(0, first);
    s.problem.tensors["lengths"].setInt(1, second);
  };
  // The table is 0 to 3 and 4 to 7, of 4 pages.
  lengths(64, 0);
  CHECK(s.fault() == "none");
  lengths(64, 1);
  CHECK(s.fault() == "error: pages[1, 0] is page 4 at b 1, k 0, and k has 4 pages; correct the table");
  s.problem.tensors["pages"].setInt(4, 0);
  CHECK(s.fault() == "none");
  lengths(64, 17);
  CHECK(s.fault() == "error: pages[1, 1] is page 5 at b 1, k 16, and k has 4 pages; correct the table");
}

TEST_CASE("indices by lengths of sequences") {
  Setup s({.score = "s + t[Sk - 1]", .keyLengths = "lengths"});
  s.with("t", f32, {500}).with("lengths", i32, {2});
  s.problem.tensors["lengths"].setInt(0, 500);
  CHECK(s.fault() == "none");
  s.problem.tensors["lengths"].setInt(1, 501);
  const std::string fault = s.fault();
  INFO(fault);
  CHECK(fault.find("t[Sk - 1] reads t[500] at b 1, h 0, q 0, k 0") != std::string::npos);
}
