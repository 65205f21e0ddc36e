//===- CasesTest.cpp - What the bench checks its kernels against -------------===//

#include "bench/Cases.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>

using namespace attune;
using namespace bench;

static const Case &caseOf(const std::string &name) {
  const auto found =
      std::find_if(allCases().begin(), allCases().end(), [&](const Case &one) { return one.name == name; });
  REQUIRE(found != allCases().end());
  return *found;
}

TEST_CASE("Names of cases are distinct, and groups follow one another") {
  std::set<std::string> names;
  for (const Case &one : allCases())
    CHECK(names.insert(one.name).second);
  const std::vector<std::string> all = groups();
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == all.size());
}

TEST_CASE("Visible pairs and visited tiles") {
  auto tiles = [](const Case &one, int64_t tileQ, int64_t tileK) {
    return one.tileFlops(tileQ, tileK) / (4.0 * double(one.batch * one.heads * one.headDim * tileQ * tileK));
  };
  auto pairs = [](const Case &one) { return one.flops() / (4.0 * double(one.batch * one.heads * one.headDim)); };
  CHECK(tiles(caseOf("variants/none/d128/s8192"), 128, 128) == 64 * 64);
  CHECK(tiles(caseOf("variants/causal/d128/s8192"), 128, 128) == 64 * 65 / 2);
  CHECK(pairs(caseOf("variants/causal/d128/s8192")) == 8192.0 * 8192 / 2);
  // 8 tiles to the left of the diagonal's, and one more that the oldest query of a tile does not quite leave.
  CHECK(tiles(caseOf("variants/window1024/d128/s8192"), 128, 128) == 64 * 9 - 8 * 9 / 2);
  CHECK(tiles(caseOf("variants/prefix2048/d128/s8192"), 128, 128) == 16 * 16 + (17 + 64) * 48 / 2);
  // Eight documents of 1000 queries and one of 192.
  const Case &documents = caseOf("variants/documents/d128/s8192");
  CHECK(pairs(documents) == 8 * 1000.0 * 1001 / 2 + 192 * 193 / 2);
  int visited = 0; // where the last key is in the first query's document or a later one
  for (int q = 0; q < 64; ++q)
    for (int k = 0; k <= q; ++k)
      visited += (128 * k + 127) / 1000 >= 128 * q / 1000;
  CHECK(tiles(documents, 128, 128) == visited);
  CHECK(tiles(caseOf("plain/causal/d128/s1024"), 128, 128) == 8 * 9 / 2);
  for (int blocks : {1, 2, 4, 8, 16, 24, 32, 48}) {
    const Case &pattern = caseOf("pattern/blocks" + std::to_string(blocks) + "/d64/s8192");
    CHECK(tiles(pattern, 128, 128) == 64 * blocks);
    CHECK(pairs(pattern) == 8192.0 * blocks * 128);
  }
}

TEST_CASE("Variants compute what the spot check expects") {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  for (const char *name :
       {"variants/none/d64/s8192", "variants/causal/d64/s8192", "variants/alibi/d64/s8192",
        "variants/softcap/d64/s8192", "variants/softcap_alibi/d64/s8192", "variants/relbias/d64/s8192",
        "variants/window1024/d64/s8192", "variants/documents/d64/s8192", "variants/prefix2048/d64/s8192",
        "bias/bias/d64/s4096", "pattern/blocks4/d64/s8192"}) {
    INFO(name);
    Case one = caseOf(name);
    one.batch = 1;
    one.heads = one.headsKv = 2;
    one.length = one.variant == "bias" ? 640 : 2304; // blocks of 128; beyond a window, a prefix and a document
    const int64_t H = one.heads, S = one.length, D = one.headDim;
    std::vector<float> q(size_t(H * S * D)), k(q.size()), v(q.size()), o(q.size());
    for (std::vector<float> *values : {&q, &k, &v})
      std::generate(values->begin(), values->end(), [&] { return normal(generator); });
    Expected<Kernel> kernel = compile(one.make(), {.dtype = f32, .headDim = one.headDim}, Target::cpu());
    REQUIRE(kernel);
    auto view = [&](std::vector<float> &values) { return Tensor::contiguous(values.data(), f32, {1, H, S, D}); };
    LaunchArgs args = {.q = view(q), .k = view(k), .v = view(v), .o = view(o)};
    std::vector<HostTensor> captured;
    for (const TensorParam &param : kernel->image().signature.tensors)
      captured.push_back(capturedTensor(one, param.name));
    for (size_t i = 0; i < captured.size(); ++i) {
      const TensorParam &param = kernel->image().signature.tensors[i];
      args.tensors.push_back(
          {param.name, Tensor::contiguous(captured[i].block.data(), param.dtype, captured[i].shape)});
    }
    std::vector<char> workspace(kernel->workspaceBytes(args));
    args.workspace = workspace.data();
    args.workspaceBytes = workspace.size();
    const Expected<void> launched = kernel->launch(nullptr, args);
    REQUIRE(launched);
    const int64_t h = H - 1;
    auto rows = [&](const std::vector<float> &values, int64_t row, int64_t count) {
      const auto begin = values.begin() + (h * S + row) * D;
      return std::vector<double>(begin, begin + count * D);
    };
    for (int64_t i : {int64_t(0), S / 2 + 1, S - 1}) {
      const std::vector<double> exact = exactRow(one, h, i, rows(q, i, 1), rows(k, 0, S), rows(v, 0, S)),
                                out = rows(o, i, 1);
      double worst = 0;
      for (size_t d = 0; d < exact.size(); ++d) {
        const double error = std::abs(out[d] - exact[d]);
        worst = error <= worst ? worst : error; // a NaN stays
      }
      CHECK(worst < 1e-4);
    }
  }
}
