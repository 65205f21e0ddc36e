//===- ModuleTest.cpp - Launches of several kernels -------------------------===//

#include "attune/Compile.h"
#include "kernels/Kernels.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

using namespace attune;

namespace {

/// Attention whose keys four blocks share: each leaves its part of O and the part's LSE in the workspace, and a second
/// kernel combines them.
const std::string &splitKeys() { return tests::program("split_keys").text; }

/// B 2, H 3, D 16, Dv 24: random operands, poisoned outputs, and plain loops over the formula.
struct Problem {
  static constexpr int64_t batch = 2, heads = 3, d = 16, dv = 24;
  int64_t queries, keys;
  std::vector<float> q, k, v, o, lse;

  Problem(int64_t queries, int64_t keys)
      : queries(queries), keys(keys), q(batch * heads * queries * d), k(batch * heads * keys * d),
        v(batch * heads * keys * dv), o(batch * heads * queries * dv, NAN), lse(batch * heads * queries, NAN) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::vector<float> *values : {&q, &k, &v})
      for (float &x : *values)
        x = normal(random);
  }

  LaunchArgs args() {
    return {.q = Tensor::contiguous(q.data(), f32, {batch, heads, queries, d}),
            .k = Tensor::contiguous(k.data(), f32, {batch, heads, keys, d}),
            .v = Tensor::contiguous(v.data(), f32, {batch, heads, keys, dv}),
            .o = Tensor::contiguous(o.data(), f32, {batch, heads, queries, dv}),
            .lse = Tensor::contiguous(lse.data(), f32, {batch, heads, queries})};
  }

  /// Holds the row `row` of all batches' and heads' rows to the formula.
  void check(int64_t row) const {
    const int64_t plane = row / queries;
    std::vector<double> weights(static_cast<size_t>(keys));
    for (int64_t key = 0; key < keys; ++key) {
      double s = 0;
      for (int64_t i = 0; i < d; ++i)
        s += double(q[row * d + i]) * k[(plane * keys + key) * d + i];
      weights[key] = std::exp(0.25 * s);
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    REQUIRE(lse[row] == (keys ? Approx(std::log(sum)).margin(1e-5) : Approx(-INFINITY)));
    for (int64_t i = 0; i < dv; ++i) {
      double expected = 0;
      for (int64_t key = 0; key < keys; ++key)
        expected += weights[key] / sum * v[(plane * keys + key) * dv + i];
      REQUIRE(o[row * dv + i] == Approx(expected).margin(1e-5));
    }
  }
};

} // namespace

TEST_CASE("a launch of two kernels: keys are split, partial results combined", "[module]") {
  Expected<Kernel> kernel = compileFromText({splitKeys(), "split.mlir"}, {}, Target::cpu());
  if (!kernel)
    FAIL(kernel.error().text());
  REQUIRE(kernel->image().entries.size() == 2);
  CHECK(kernel->image().name == "split_keys");
  CHECK(kernel->image().entries[0].symbol == "partial");
  CHECK(kernel->image().main().symbol == "combine");
  CHECK(kernel->image().main().dependent);
  // Fewer keys than shares, ragged ones, none; queries of one row and of more than a tile.
  for (auto [queries, keys] : {std::pair<int64_t, int64_t>(1, 1), {16, 128}, {37, 301}, {5, 40}, {20, 0}}) {
    Problem problem(queries, keys);
    LaunchArgs args = problem.args();
    const size_t rows = size_t(Problem::batch * Problem::heads * queries);
    auto rounded = [](size_t bytes) { return (bytes + 15) / 16 * 16; };
    REQUIRE(kernel->workspaceBytes(args) == rounded(4 * rows * Problem::dv * 4) + rounded(4 * rows * 4));
    CHECK(kernel->launch(nullptr, args).error().message.starts_with("the launch needs a workspace of "));
    std::vector<float> workspace(kernel->workspaceBytes(args) / 4 + 4, NAN);
    auto *start = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(workspace.data()) + 15) / 16 * 16);
    args.workspace = start;
    args.workspaceBytes = kernel->workspaceBytes(args);
    if (Expected<void> launched = kernel->launch(nullptr, args); !launched)
      FAIL(launched.error().text());
    for (int64_t row = 0; row < int64_t(rows); ++row)
      problem.check(row);
  }
}

TEST_CASE("a module of several kernels says in what order they start, and where it runs", "[module]") {
  std::string text = splitKeys();
  text.replace(text.find("tile.launch @split_keys [@partial, @combine dependent]"), 54, "");
  Expected<Kernel> unordered = compileFromText({text, "split.mlir"}, {}, Target::cpu());
  REQUIRE(!unordered);
  CHECK(unordered.error().message == "the module has 2 kernels and no tile.launch, which says in what order they "
                                     "start; add one: tile.launch @name [@first, @second]");
}

TEST_CASE("a module of several kernels is one source and one binary", "[module]") {
  for (const char *arch : {"sm_80", "sm_90a"}) {
    INFO(arch);
    Expected<std::string> cuda = emitFromText({splitKeys(), "split.mlir"}, {}, Target::cuda(arch), Stage::Cuda);
    REQUIRE((cuda ? "" : cuda.error().text()) == "");
    auto count = [&](const char *text) {
      size_t found = 0;
      for (size_t at = cuda->find(text); at != std::string::npos; at = cuda->find(text, at + 1))
        ++found;
      return found;
    };
    CHECK(count("struct Params {") == 1);
    CHECK(count("extern \"C\" __global__") == 2);
    CHECK(count("\npartial(const __grid_constant__ Params params) {") == 1);
    CHECK(count("\ncombine(const __grid_constant__ Params params) {") == 1);
    // Only where the kernel waits by itself may it start early.
    CHECK(count("  wait_launch();") == (std::string_view(arch) == "sm_90a"));
    CHECK(emitFromText({splitKeys(), "split.mlir"}, {}, Target::cuda(arch), Stage::Cubin));
  }
}

TEST_CASE("captured tensors may be called what launch values are", "[module]") {
  for (const char *name :
       {"group", "seed", "offset", "workspace", "batch", "lse_stride", "v", "o", "lse", "dq", "keep"}) {
    INFO(name);
    auto tensor = captured(name, f32, rank(1));
    Variant variant =
        Variant("v").score([&](Score s, Index, Index h, Index, Index) { return s + tensor[h]; }).dropout(0.5f);
    Expected<Kernel> kernel = compile(variant, {.dtype = f32, .headDim = 16, .headDimV = 24}, Target::cpu());
    if (!kernel)
      FAIL(kernel.error().text());
    // The same shift for all keys changes LSE alone.
    Problem problem(5, 40);
    LaunchArgs args = problem.args();
    std::vector<float> shifts = {1, 2, 3};
    args.tensors = {{name, Tensor::contiguous(shifts.data(), f32, {3})}};
    args.dropout = 0;
    if (Expected<void> launched = kernel->launch(nullptr, args); !launched)
      FAIL(launched.error().text());
    for (int64_t row = 0; row < int64_t(problem.lse.size()); ++row) {
      problem.lse[row] -= shifts[row / 5 % 3];
      problem.check(row);
    }
    CHECK(emit(variant, {.dtype = bf16, .headDim = 64}, Target::cuda("sm_90a"), Stage::Cuda));
  }
}
