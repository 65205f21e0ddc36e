//===- TablesTest.cpp - What a launch keeps of a mask in its workspace --------===//

#include "attune/attune.h"
#include "tools/reference/Reference.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace attune;
using reference::HostTensor;

TEST_CASE("kept tables are read and not written") {
  // By a table of one axis, and by one of all tiles.
  for (const char *mask : {"ids[q] < ids[k] + 3", "ids[(q * k) % 200] > 3"}) {
    INFO(mask);
    Expected<Variant> variant = Variant::parse("v", {.mask = mask, .tensors = {{"ids", i32, 1}}});
    REQUIRE(variant);
    Expected<Kernel> kernel = compile(*variant, {.dtype = f32, .headDim = 16, .useCache = false}, Target::cpu());
    REQUIRE(kernel);
    reference::Problem problem;
    problem.variant = &*variant;
    problem.q = HostTensor::random(f32, {1, 2, 100, 16}, 1);
    problem.k = problem.v = HostTensor::random(f32, {1, 2, 200, 16}, 2);
    HostTensor ids = HostTensor::zeros(i32, {200}), o = HostTensor::zeros(f32, {1, 2, 100, 16});
    for (int64_t i = 0; i < ids.size(); ++i)
      ids.set(i, double(i % 9));
    problem.tensors["ids"] = ids;
    Expected<reference::Output> exact = reference::attention(problem);
    REQUIRE(exact);
    auto view = [](HostTensor &tensor) { return Tensor::contiguous(tensor.data.data(), tensor.dtype, tensor.shape); };
    LaunchArgs args;
    args.q = view(problem.q);
    args.k = view(problem.k);
    args.v = view(problem.v);
    args.o = view(o);
    args.tensors = {{"ids", view(ids)}};
    args.workspaceBytes = kernel->workspaceBytes(args);
    REQUIRE(args.workspaceBytes > 0);
    std::vector<std::max_align_t> workspace(args.workspaceBytes / sizeof(std::max_align_t) + 1);
    args.workspace = workspace.data();
    auto launchedWith = [&](bool keepTables) {
      std::ranges::fill(o.data, std::byte{0x7f});
      args.keepTables = keepTables;
      REQUIRE(kernel->launch(nullptr, args));
      double worst = 0;
      for (int64_t i = 0; i < o.size(); ++i)
        worst = std::max(worst, std::abs(o.at(i) - exact->o[size_t(i)]));
      return worst;
    };
    CHECK(launchedWith(false) < 1e-5);
    CHECK(launchedWith(true) < 1e-5);
    // Of other numbers in it a kernel that reads it visits other tiles.
    auto *words = reinterpret_cast<int32_t *>(workspace.data());
    std::fill(words, words + args.workspaceBytes / 4, -1000);
    CHECK(launchedWith(true) > 1e-2);
    CHECK(launchedWith(false) < 1e-5);
  }
}
