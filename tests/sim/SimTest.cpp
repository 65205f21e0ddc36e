//===- SimTest.cpp - Schedules of every kind against float64 ----------------===//
//
// A sched kernel run in the simulator gives O and LSE within the tolerance of low precision, without a finding,
// whatever the order of warps and copies: that the race detection stays silent is half of what these tests hold.
//
//===----------------------------------------------------------------------===//

#include "tests/sim/Schedules.h"

#include "tests/numerics/Cases.h"
#include "tools/reference/RandomVariant.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <map>
#include <regex>
#include <set>
#include <sstream>

using namespace attune;
using namespace attune::tests;

namespace {

Variant busy() {
  return Variant("busy").mask(causal()).score(softcap(20) | alibi(captured("slopes", f32, rank(1)))).dropout(0.1f);
}

int64_t elementsOf(const Case &test) {
  const auto &q = test.problem.q.shape, &k = test.problem.k.shape;
  return q[0] * q[1] * q[2] * k[2];
}

/// The case with the first of the schedules, from `first` on, that fits it; nothing where none does.
std::optional<Case> scheduled(Case test, const std::string &arch, size_t first, std::string &text) {
  const std::vector<Schedule> all = schedulesFor(arch);
  test.problem.threads = 1;
  for (size_t i = 0; i < all.size(); ++i) {
    const Schedule &schedule = all[(first + i) % all.size()];
    schedule.applyTo(test.options);
    Expected<std::string> made = schedText(test, schedule);
    if (made) {
      text = *made;
      return test;
    }
    INFO(test.describe() << "\n" << made.error().text());
    // Some programs have warp-level products on every target, for which there are no three or four warpgroups.
    const std::string &why = made.error().message;
    bool isNone = why.find("does not fit") != std::string::npos || why.find("above the budget") != std::string::npos ||
                  why.find("above the limit per block") != std::string::npos ||
                  why.find("is not supported; use 4 or 8") != std::string::npos;
    CHECK(isNone);
  }
  return std::nullopt;
}

/// Runs the case with its schedule under `seeds` orders of events.
void runText(const Case &test, const std::string &arch, const std::string &text,
             std::initializer_list<uint64_t> seeds) {
  Expected<Simulation> simulation = Simulation::load({text, "kernel.mlir"});
  INFO(arch << ", " << test.describe());
  if (!simulation)
    FAIL(simulation.error().text());
  Expected<Expectation> expected = expect(test);
  REQUIRE(expected);
  for (uint64_t seed : seeds) {
    Verdict verdict = simulate(*simulation, test, *expected, seed);
    INFO("seed " << seed << ": " << verdict.text);
    CHECK(verdict.pass);
  }
}

/// False where no schedule fits.
bool run(const Case &test, const std::string &arch, size_t first, std::initializer_list<uint64_t> seeds) {
  std::string text;
  std::optional<Case> fitted = scheduled(test, arch, first, text);
  if (fitted)
    runText(*fitted, arch, text, seeds);
  return fitted.has_value();
}

} // namespace

TEST_CASE("every schedule, under several orders of events", "[numerics]") {
  for (const std::string arch : {"sm_80", "sm_90a"}) {
    const std::vector<Schedule> all = schedulesFor(arch);
    CHECK(all.size() >= 8);
    for (const Schedule &schedule : all)
      for (DType dtype : {bf16, f16}) {
        Case test = makeCase("schedule", busy(), dtype,
                             {.batch = 1, .heads = 2, .headsKv = 1, .queries = 150, .keys = 170, .headDim = 64}, 6);
        test.problem.threads = 1;
        schedule.applyTo(test.options);
        Expected<std::string> text = schedText(test, schedule);
        if (!text)
          FAIL(schedule.describe() << ": " << text.error().text());
        if (dtype == bf16)
          runText(test, arch, *text, {0, 1, 2, 3, 4, 5});
        else
          runText(test, arch, *text, {0, 3});
      }
  }
}

TEST_CASE("every built-in variant", "[numerics]") {
  size_t next = 0;
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (const Variant &variant : builtinsForTests())
      for (DType dtype : {bf16, f16, f32}) {
        if (dtype == f32 && arch == "sm_90a") // products of float32 are those of mma.sync
          continue;
        Case test = makeCase(std::string(variant.name()), variant, dtype,
                             {.batch = 2, .heads = 2, .headsKv = 1, .queries = 113, .keys = 203, .headDim = 64}, 3);
        CHECK(run(test, arch, next, {next}));
        ++next;
      }
}

TEST_CASE("lengths around the edges of tiles", "[numerics]") {
  size_t next = 0;
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (auto [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{1, 1},
                                                                         {1, 200},
                                                                         {200, 1},
                                                                         {16, 16},
                                                                         {17, 33},
                                                                         {63, 65},
                                                                         {64, 128},
                                                                         {128, 64},
                                                                         {129, 127},
                                                                         {193, 257},
                                                                         {70, 0}})
      for (bool masked : {false, true}) {
        Variant variant = masked ? Variant("bottom_right").mask(causalBottomRight()) : Variant("plain");
        CHECK(run(makeCase("lengths", variant, bf16,
                           {.batch = 2, .heads = 2, .headsKv = 2, .queries = queries, .keys = keys, .headDim = 64}, 5),
                  arch, next, {next}));
        ++next;
      }
}

TEST_CASE("head dims", "[numerics]") {
  size_t next = 0;
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (auto [dim, dimV] : std::vector<std::pair<int, int>>{
             {8, 8}, {16, 64}, {40, 72}, {80, 80}, {96, 16}, {128, 128}, {64, 256}, {256, 256}}) {
      INFO(arch << ", D " << dim << " x " << dimV);
      CHECK(run(
          makeCase(
              "dims", busy(), next % 2 ? bf16 : f16,
              {.batch = 1, .heads = 2, .headsKv = 1, .queries = 130, .keys = 150, .headDim = dim, .headDimV = dimV}, 4),
          arch, next, {next}));
      ++next;
    }
}

TEST_CASE("warps that share rows and split the columns of V", "[numerics]") {
  for (auto [dim, warps] : std::vector<std::pair<int, int>>{{96, 2}, {192, 2}, {320, 4}}) {
    INFO("D " << dim << ", " << warps << " warps");
    Case test = makeCase("columns", Variant("plain"), bf16,
                         {.batch = 1, .heads = 1, .headsKv = 1, .queries = 70, .keys = 90, .headDim = dim}, 6);
    const Schedule schedule{
        .arch = "sm_80", .tileQ = 64, .tileK = 32, .warps = 8, .stages = 2, .qRegisters = false, .dvWarps = warps};
    schedule.applyTo(test.options);
    Expected<std::string> text = schedText(test, schedule);
    if (!text)
      FAIL(text.error().text());
    runText(test, "sm_80", *text, {0});
  }
}

TEST_CASE("captured tensors, scalars, expressions, patterns, hard inputs, layouts", "[cases]") {
  // One in five of the cases that the CPU target and the GPU run, those that are small; of a sample one in ten. Masks of captured integers have
  // a test below.
  const size_t step = 5 * sampleStep(2);
  std::map<std::string, int> ran;
  for (const std::string arch : {"sm_80", "sm_90a"}) {
    size_t next = arch == "sm_80" ? 0 : 2;
    for (const Group &group : groups(false)) {
      if (group.name == "lengths" || group.name == "head-dims" || group.name == "builtins" ||
          group.name == "wide-heads" || (group.name == "bounds" && arch == "sm_90a"))
        continue;
      for (const std::function<Case()> &make : group.cases) {
        if (next++ % step)
          continue;
        Case test = make();
        if (elementsOf(test) > 700000 || (arch == "sm_90a" && test.problem.q.dtype == f32))
          continue;
        ran[group.name] += run(test, arch, next / step, {next / step});
      }
    }
  }
  for (const char *name : {"grouped-heads", "layouts", "hidden", "hard-inputs", "patterns", "bounds", "captured",
                           "scalars", "expressions", "dropout", "normalisers"}) {
    INFO(name);
    CHECK(ran[name] >= 1);
  }
}

TEST_CASE("scores of any magnitude, by warps, by warpgroups in turn and not", "[large]") {
  std::vector<Schedule> schedules = {{"sm_80", 64, 32, 4, 2, false, 1, 0},
                                     {"sm_90a", 128, 32, 8, 2, false, 1, 0},
                                     {"sm_90a", 128, 32, 8, 2, false, 1, 0, true},
                                     {"sm_90a", 128, 32, 8, 2, false, 1, 2, true, true}};
  int ran[4] = {};
  for (const Group &group : groups(false))
    if (group.name == "large-scores")
      for (size_t n = 0; n < group.cases.size(); n += sampleStep(4))
        for (size_t i = 0; i < schedules.size(); ++i) {
          Case test = group.cases[n]();
          if (test.problem.q.dtype == f32)
            continue;
          test.problem.threads = 1;
          schedules[i].applyTo(test.options);
          if (Expected<std::string> text = schedText(test, schedules[i])) {
            runText(test, schedules[i].arch, *text, {uint64_t(ran[i])});
            ++ran[i];
          }
        }
  for (int count : ran)
    CHECK(count >= 40 / int(sampleStep(4)));
}

TEST_CASE("maxima that stay until exponentials grow out of range", "[cases]") {
  // With hard inputs maxima move in many tiles, and rows see their first key late.
  const Schedule schedules[] = {{"sm_90a", 128, 32, 8, 2, false, 1, 0, true},
                                {"sm_90a", 128, 32, 8, 3, false, 1, 2, true},
                                {"sm_90a", 128, 32, 8, 2, false, 1, 2, true, true}};
  size_t ran = 0;
  for (const Group &group : groups(false))
    if (group.name == "hard-inputs" || group.name == "hidden")
      for (size_t i = 0; i < group.cases.size(); i += sampleStep(2)) {
        Case test = group.cases[i]();
        if (test.problem.q.dtype == f32 || elementsOf(test) > 700000)
          continue;
        const Schedule &schedule = schedules[ran % std::size(schedules)];
        test.problem.threads = 1;
        schedule.applyTo(test.options);
        Expected<std::string> text = schedText(test, schedule);
        if (!text || text->find("\"moves\"") == std::string::npos)
          continue;
        runText(test, "sm_90a", *text, {ran++});
      }
  CHECK(ran >= 12 / sampleStep(2));
}

TEST_CASE("both roles visit the same tiles, one tile of work after another", "[bounds]") {
  // Where a mask hides all tiles of a query tile, or all but one, the rings must go on where they stopped.
  const Schedule schedules[] = {{"sm_90a", 64, 32, 4, 2, false, 1, 2},
                                {"sm_90a", 128, 32, 8, 2, false, 1, 2},
                                {"sm_90a", 128, 48, 8, 3, false, 1, 1},
                                {"sm_90a", 64, 16, 4, 3, false, 1, 0}};
  auto rows = captured("rows", i32, rank(1)), columns = captured("columns", i32, rank(1));
  std::vector<Case> cases;
  for (const Group &group : groups(false))
    if (group.name == "bounds")
      for (const std::function<Case()> &make : group.cases)
        if (Case test = make(); test.problem.q.dtype != f32)
          cases.push_back(std::move(test));
  CHECK(cases.size() >= 30);
  // Documents in rising, falling and no order; queries of none among the keys; more tiles of keys than a warp asks for
  // at a time.
  for (bool hidden : {false, true})
    for (int order = 0; order < 4; ++order) {
      auto mask = [=](Index, Index, Index q, Index k) {
        Expr same = rows[q] == columns[k];
        return hidden ? q >= k && same : same;
      };
      Case test = makeCase(
          "documents of queries and keys", Variant("v").mask(mask), bf16,
          {.batch = 1, .heads = 3, .headsKv = 1, .queries = 300, .keys = order < 2 ? 200 : 1300, .headDim = 32}, 7);
      auto ids = [&](int64_t count, auto id) {
        reference::HostTensor tensor = reference::HostTensor::zeros(i32, {count});
        for (int64_t i = 0; i < count; ++i)
          tensor.setInt(i, id(i));
        return tensor;
      };
      const int64_t keys = test.problem.k.shape[2];
      test.problem.tensors["rows"] = ids(300, [&](int64_t i) {
        return order == 1 ? 9 - i / 64 : i / 70 % 2 ? 1000 : i / 64 * 2;
      });
      test.problem.tensors["columns"] = ids(keys, [&](int64_t i) {
        return order == 1 ? i / 60 * 3 : order == 3 ? 9 - i / 150 : i * 9 / keys;
      });
      cases.push_back(std::move(test));
    }
  size_t next = 0;
  for (Case &test : cases)
    for (int turn = 0; turn < 2; ++turn, ++next) {
      const Schedule &schedule = schedules[next % std::size(schedules)];
      test.problem.threads = 1;
      schedule.applyTo(test.options);
      Expected<std::string> text = schedText(test, schedule);
      if (!text)
        FAIL(test.describe() << ": " << text.error().text());
      INFO(schedule.describe());
      runText(test, schedule.arch, *text, {next});
    }
}

TEST_CASE("captured vectors are searched by rows and columns", "[bounds]") {
  size_t ran = 0;
  for (const Group &group : groups(false))
    if (group.name == "bounds")
      for (const std::function<Case()> &make : group.cases)
        if (Case test = make(); test.problem.tensors.contains("offsets") || test.problem.tensors.contains("levels"))
          for (const char *arch : {"sm_80", "sm_90a"})
            if (test.problem.q.dtype != f32) {
              ++ran;
              CHECK(run(test, arch, ran, {ran}));
            }
  CHECK(ran >= 4);
}

TEST_CASE("values by distance, computed by a warp of the producer's warpgroup", "[distances]") {
  using reference::HostTensor;
  auto table = captured("table", f32, rank(2)), other = captured("other", bf16, rank(1));
  auto counts = captured("counts", i32, rank(1)), open = captured("open", boolean, rank(2));
  // T5: 16 exact buckets, then logarithmic ones up to a distance of 128.
  auto bucket = [](Index q, Index k) {
    Expr distance = max(q - k, 0);
    Expr log = 16 + cast(log2(cast(max(distance, 1), f32) * (1.0f / 16)) * (16.0f / 3), i32);
    return select(distance < 16, distance, min(log, 31));
  };
  auto score = [](auto f) { return Variant("staged").score(f); };
  struct Staged {
    std::string label;
    Variant variant;
    int64_t columns; ///< of the table
  };
  const Staged staged[] = {
      {"relative",
       score([=](Score s, Index, Index h, Index q, Index k) { return s + table[h][q - k + keyLength() - 1]; }), 600},
      {"clamped", score([=](Score s, Index, Index h, Index q, Index k) {
                    return s + clamped(table[h][q - k + 10]);
                  }).mask(causal()),
       33},
      {"backward, at an offset", score([=](Score s, Index, Index h, Index q, Index k) {
                                   return s * (1.5f + 0.1f * clamped(table[h][2 * k - 2 * q + 300]));
                                 }).qOffset(),
       600},
      // A function in step reads by distance and by key behind itself.
      {"capped", score([=](Score s, Index, Index h, Index q, Index k) {
         return 20.0f * tanh(s * 0.05f) + table[h][q - k + keyLength() - 1] + 0.01f * cast(k % 5, f32);
       }),
       600},
      {"buckets", score([=](Score s, Index, Index h, Index q, Index k) {
                    return s + table[h][bucket(q, k)];
                  }).mask(slidingWindow(90, 20)),
       32},
      {"two tables", score([=](Score s, Index, Index h, Index q, Index k) {
                       return (s + clamped(table[h][q - k + 200])) * 0.5f + clamped(other[k - q + 150]) * s;
                     }).dropout(0.2f),
       400},
      {"integers and flags",
       score([=](Score s, Index, Index, Index q, Index k) {
         return select(clamped(counts[q - k + 300]) < q % 7, s + 0.25f, s);
       }).mask([=](Index, Index h, Index q, Index k) { return q >= k || clamped(open[h][k - q]); }),
       1},
  };
  const std::tuple<int64_t, int64_t, int, int> shapes[] = {
      {150, 170, 64, 64}, {70, 300, 96, 40}, {300, 70, 64, 64}, {130, 129, 128, 128}, {1, 90, 48, 96}};
  const std::vector<Schedule> all = schedulesFor("sm_90a");
  std::set<size_t> ran;
  size_t next = 0;
  for (const Staged &each : staged)
    for (auto [queries, keys, dim, dimV] : shapes)
      for (bool reversed : {false, true}) {
        Case test = makeCase(
            each.label, each.variant, next % 2 ? bf16 : f16,
            {.batch = 1, .heads = 3, .headsKv = 1, .queries = queries, .keys = keys, .headDim = dim, .headDimV = dimV},
            5);
        test.layout.reversedTensors = reversed;
        if (each.label == "backward, at an offset")
          test.problem.qOffset = 33;
        for (const TensorDecl &decl : each.variant.tensors())
          test.problem.tensors[decl.name] = decl.name == "table"    ? HostTensor::random(f32, {3, each.columns}, 7)
                                            : decl.name == "other"  ? HostTensor::random(bf16, {310}, 8)
                                            : decl.name == "counts" ? HostTensor::zeros(i32, {420})
                                                                    : HostTensor::zeros(boolean, {3, 200});
        if (auto found = test.problem.tensors.find("counts"); found != test.problem.tensors.end())
          for (int64_t i = 0; i < 420; ++i)
            found->second.setInt(i, i * 5 % 9 - 1);
        if (auto found = test.problem.tensors.find("open"); found != test.problem.tensors.end())
          for (int64_t i = 0; i < 600; ++i)
            found->second.setInt(i, i % 7 < 3);
        std::string text;
        std::optional<Case> fitted = scheduled(test, "sm_90a", next, text);
        REQUIRE(fitted);
        size_t rings = 0;
        for (size_t at = text.find("sched.init_ring"); at != std::string::npos;
             at = text.find("sched.init_ring", at + 1))
          ++rings;
        CHECK(rings == 4); // Q, K, V, and what is by distance: the warps that compute it arrive once for all tables
        runText(*fitted, "sm_90a", text, {next, next + 1});
        ran.insert(next++ % all.size());
      }
  CHECK(ran.size() == all.size());
}

TEST_CASE("dense biases, by TMA and by elements", "[biases]") {
  using reference::HostTensor;
  struct Dense {
    std::string label;
    DType type;
    std::vector<int64_t> leading; ///< extents before queries and keys
    int64_t fewer = 0;            ///< than the queries and keys
  };
  const Dense biases[] = {{"bias[h, q, k]", bf16, {3}},     {"bias[h, q, k]", f16, {3}},
                          {"bias[h, q, k]", f32, {3}},      {"bias[b, h, q, k]", bf16, {2, 3}},
                          {"bias[q, k]", bf16, {}},         {"bias[h, q, k], clamped", f16, {2}, 24},
                          {"bias[h / 2, q, k]", bf16, {2}}, {"bias[h, q, k], clamped", f32, {3}, 7}};
  // Rows of the tensor that start at multiples of 16 bytes, which TMA needs, and such that do not.
  const std::tuple<int64_t, int64_t, int> shapes[] = {{150, 176, 64}, {70, 301, 64}, {130, 128, 96}, {200, 104, 32}};
  const std::vector<Schedule> all = schedulesFor("sm_90a");
  std::set<size_t> ran;
  size_t next = 0, staged = 0, boxes = 0, claimed = 0;
  for (const Dense &each : biases)
    for (auto [queries, keys, dim] : shapes)
      for (bool reversed : {false, true}) {
        const int rank = int(each.leading.size()) + 2;
        auto bias = captured("bias", each.type, attune::rank(rank));
        // Where a search decides about tiles of work, blocks claim these, and the warps that copy biases receive them.
        const bool searches = next % 3 == 1;
        const Mask visible =
            searches ? causalBottomRight() && documents(captured("ids", i32, attune::rank(1))) : causalBottomRight();
        Variant variant = Variant("dense").mask(visible).score([&](Score s, Index b, Index h, Index q, Index k) {
          return rank == 2                           ? s + bias[q][k]
                 : rank == 4                         ? s + bias[b][h][q][k]
                 : each.label == "bias[h / 2, q, k]" ? s - bias[h / 2][q][k]
                                                     : s + clamped(bias[h][q][k]);
        });
        Case test =
            makeCase(each.label, variant, next % 2 ? bf16 : f16,
                     {.batch = 2, .heads = 3, .headsKv = 1, .queries = queries, .keys = keys, .headDim = dim}, 5);
        test.layout.reversedTensors = reversed;
        std::vector<int64_t> extents = each.leading;
        extents.insert(extents.end(), {queries - each.fewer, keys - each.fewer});
        boxes += !reversed && !each.fewer && keys * (each.type == f32 ? 4 : 2) % 16 == 0;
        test.problem.tensors["bias"] = HostTensor::random(each.type, extents, 7);
        if (searches) {
          HostTensor ids = HostTensor::zeros(i32, {std::max(queries, keys)});
          for (int64_t i = 0; i < ids.shape[0]; ++i)
            ids.setInt(i, i / 40);
          test.problem.tensors["ids"] = ids;
        }
        std::string text;
        std::optional<Case> fitted = scheduled(test, "sm_90a", next, text);
        REQUIRE(fitted);
        claimed +=
            text.find("sched.claim_work") != std::string::npos && text.find("\"bias_ring\"") != std::string::npos;
        staged += text.find("\"bias_ring\"") != std::string::npos;
        runText(*fitted, "sm_90a", text, {next, next + 1});
        ran.insert(next++ % all.size());
      }
  CHECK(ran.size() == all.size());
  CHECK(staged * 4 >= next * 3); // where shared memory has no room, lanes load their elements
  CHECK(boxes >= 10);
  CHECK(claimed >= 5);
}

TEST_CASE("which dense biases are read two columns at a time", "[biases]") {
  using reference::HostTensor;
  struct Dense {
    std::string label;
    DType type;
    std::vector<int64_t> extents;
    bool inPairs;
    Layout layout = {};
    int64_t qOffset = 0;
  };
  const Dense biases[] = {{"as long as the sequence", bf16, {2, 70, 136}, true},
                          {"float32, longer than the sequence", f32, {2, 71, 140}, true},
                          {"of fewer heads", f16, {1, 70, 136}, true},
                          {"shorter than a tile, of an even length", bf16, {2, 50, 34}, false},
                          {"shorter, of an odd length", bf16, {2, 50, 35}, false},
                          {"shorter, but not than a tile", f16, {2, 70, 130}, true},
                          {"one key", bf16, {2, 70, 1}, false},
                          {"an odd element on", bf16, {2, 70, 136}, false, {.tensorShift = 1}},
                          {"two elements on", bf16, {2, 70, 136}, true, {.tensorShift = 2}},
                          {"float32, an odd element on", f32, {2, 70, 136}, false, {.tensorShift = 3}},
                          {"columns apart", bf16, {2, 70, 136}, false, {.reversedTensors = true}},
                          {"queries from 33 on", bf16, {2, 103, 136}, true, {}, 33},
                          {"queries before the first", bf16, {2, 70, 136}, true, {}, -3}};
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (const Dense &each : biases) {
      auto bias = captured("bias", each.type, rank(3));
      Variant variant =
          Variant("dense")
              .score([&](Score s, Index, Index h, Index q, Index k) { return s + clamped(bias[h][q][k]); })
              .qOffset();
      Case test = makeCase(each.label, variant, bf16,
                           {.batch = 1, .heads = 2, .headsKv = 1, .queries = 70, .keys = 131, .headDim = 64}, 5);
      test.layout = each.layout;
      test.problem.qOffset = each.qOffset;
      test.problem.tensors["bias"] = HostTensor::random(each.type, each.extents, 7);
      test.options.stageBiases = false;
      test.options.tileQ = 128;
      Expected<std::string> text = emit(variant, optionsOf(test), Target::cuda(arch), Stage::Sched);
      if (!text)
        FAIL(text.error().text());
      runText(test, arch, *text, {0});
      // With the two elements of a pair exchanged, what is read in pairs is wrong.
      std::string exchanged;
      std::istringstream lines(*text);
      int pairs = 0;
      for (std::string line; std::getline(lines, line);) {
        const size_t at = line.find("sched.load_elements"), comma = line.find(','), first = line.find('%');
        if (at != std::string::npos) {
          const size_t equals = line.find(" =");
          line = line.substr(0, first) + line.substr(comma + 2, equals - comma - 2) + ", " +
                 line.substr(first, comma - first) + line.substr(equals);
          ++pairs;
        }
        exchanged += line + "\n";
      }
      CHECK(pairs > 0);
      Expected<Simulation> simulation = Simulation::load({exchanged, "kernel.mlir"});
      if (!simulation)
        FAIL(simulation.error().text());
      Expected<Expectation> expected = expect(test);
      REQUIRE(expected);
      INFO(arch << ", " << each.label);
      CHECK(simulate(*simulation, test, *expected, 0).pass == !each.inPairs);
    }
}

TEST_CASE("which dense biases TMA copies", "[biases]") {
  using reference::HostTensor;
  struct Dense {
    std::string label;
    std::vector<int64_t> extents;
    bool boxes;
    bool reversed = false;
    int64_t qOffset = 0;
  };
  const Dense biases[] = {{"as long as the sequence", {2, 70, 136}, true},
                          {"longer than the sequence", {2, 80, 144}, true},
                          {"of fewer heads", {1, 70, 136}, true},
                          {"rows of no multiple of 16 bytes", {2, 70, 140}, false},
                          {"a query short", {2, 69, 136}, false},
                          {"eight keys short", {2, 70, 128}, false},
                          {"columns apart", {2, 72, 136}, false, true},
                          {"queries from 33 on", {2, 103, 136}, true, false, 33},
                          {"queries from 33 on, one short", {2, 102, 136}, false, false, 33},
                          {"queries before the first", {2, 70, 136}, false, false, -3}};
  for (const Dense &each : biases) {
    auto bias = captured("bias", bf16, rank(3));
    Variant variant = Variant("dense")
                          .score([&](Score s, Index, Index h, Index q, Index k) { return s + clamped(bias[h][q][k]); })
                          .qOffset();
    Case test = makeCase(each.label, variant, bf16,
                         {.batch = 1, .heads = 2, .headsKv = 1, .queries = 70, .keys = 136, .headDim = 64}, 5);
    test.layout.reversedTensors = each.reversed;
    test.problem.qOffset = each.qOffset;
    test.problem.tensors["bias"] = HostTensor::random(bf16, each.extents, 7);
    std::string text;
    std::optional<Case> fitted = scheduled(test, "sm_90a", 0, text);
    REQUIRE(fitted);
    runText(*fitted, "sm_90a", text, {0});
    // Without the boxes of the bias, whose column is not their place in the stage, a stage that they fill is never
    // full.
    std::string without;
    int dropped = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      const std::string line = text.substr(at, end - at);
      const bool box = line.find("sched.load_box") != std::string::npos && line.find("] from ") != std::string::npos;
      dropped += box;
      without += box ? "" : line;
      at = end;
    }
    CHECK(dropped > 0);
    Expected<Simulation> simulation = Simulation::load({without, "kernel.mlir"});
    REQUIRE(simulation);
    Expected<Expectation> expected = expect(*fitted);
    REQUIRE(expected);
    INFO(each.label);
    CHECK(simulate(*simulation, *fitted, *expected, 0).pass == !each.boxes);
  }
}

TEST_CASE("random variants", "[cases]") {
  for (uint64_t seed = 1; seed <= 40; seed += sampleStep(3))
    for (const std::string arch : {"sm_80", "sm_90a"}) {
      Case test = randomCase(seed);
      if (arch == "sm_90a" && test.problem.q.dtype == f32)
        continue;
      run(test, arch, seed, {seed});
    }
}

TEST_CASE("the dropout pattern is the formula's", "[numerics]") {
  for (const std::string arch : {"sm_80", "sm_90a"})
    for (size_t schedule : {0, 3}) {
      Case test = makeCase("pattern", Variant("dropped").dropout(0.3f), bf16,
                           {.batch = 2, .heads = 2, .headsKv = 1, .queries = 83, .keys = 150, .headDim = 64}, 9);
      test.problem.seed = 0xfedcba9876543210ULL;
      test.problem.offset = 0x8000000000000001ULL;
      test.layout.seedPointers = schedule == 0;
      std::string text;
      std::optional<Case> fitted = scheduled(test, arch, schedule, text);
      REQUIRE(fitted);
      Expected<Simulation> simulation = Simulation::load({text, "kernel.mlir"});
      REQUIRE(simulation);
      Expected<std::vector<uint8_t>> keep =
          recoverKeep([&](const Case &each) { return tests::run(launcher(*simulation, each, 0), each); }, *fitted);
      REQUIRE(keep);
      CHECK(*keep == formulaKeep(*fitted));
    }
}

TEST_CASE("grids of other axes", "[numerics]") {
  // Shares of an axis that no operand has all compute the same. Persistent blocks take turns, and longest first, pairs.
  Case test =
      makeCase("grids", busy(), bf16,
               {.batch = 2, .heads = 2, .headsKv = 1, .queries = 150, .keys = 90, .headDim = 64, .headDimV = 64}, 6);
  Expected<Expectation> expected = expect(test);
  REQUIRE(expected);
  for (const Schedule &schedule : {schedulesFor("sm_80")[0], Schedule{"sm_90a", 128, 32, 8, 2, false},
                                   Schedule{"sm_90a", 128, 32, 8, 2, false, 1, 2}}) {
    schedule.applyTo(test.options);
    const std::string rows = fmt::format("q by {}", schedule.tileQ);
    for (const std::string &grid : {"h, b, " + rows, rows + ", b, h", "b, h, split 2, " + rows, "b, " + rows + ", h"}) {
      INFO(schedule.describe() << ", grid " << grid);
      Expected<std::string> text = schedText(test, schedule, grid);
      REQUIRE(text);
      CHECK(text->find(" grid [" + grid + "]") != std::string::npos);
      Expected<Simulation> simulation = Simulation::load({*text, "kernel.mlir"});
      if (!simulation)
        FAIL(simulation.error().text());
      Verdict verdict = simulate(*simulation, test, *expected, 3);
      INFO(verdict.text);
      CHECK(verdict.pass);
    }
  }
}

TEST_CASE("a persistent grid by hand", "[numerics]") {
  // By hand: the tile of work ends with a barrier, so that the next one's copies do not overwrite O before it is read.
  Case test =
      makeCase("persistent", busy(), bf16,
               {.batch = 2, .heads = 2, .headsKv = 1, .queries = 150, .keys = 90, .headDim = 64, .headDimV = 128}, 6);
  const Schedule schedule = schedulesFor("sm_80")[0];
  schedule.applyTo(test.options);
  Expected<std::string> text = schedText(test, schedule);
  REQUIRE(text);
  const std::string tiles = std::to_string(2 * 2 * ((150 + schedule.tileQ - 1) / schedule.tileQ));
  // By find, not by a regular expression: std::regex takes a stack frame for each character.
  std::string loop = *text;
  const std::string head = "sched.for_work grid (%number) ";
  const size_t begin = loop.find(head);
  REQUIRE(begin != std::string::npos);
  const std::string indent(begin - loop.rfind('\n', begin) - 1, ' ');
  const size_t close = loop.find("\n" + indent + "}", begin);
  REQUIRE(close != std::string::npos);
  loop.insert(close, "\n%following = arith.addi %number, %all_blocks : i32\nsched.next %following : i32");
  loop.replace(begin, head.size(),
               "%own_block = sched.block_id : i32\n%all_blocks = sched.grid_size : i32\n%all_tiles = arith.constant " +
                   tiles + " : i32\nsched.for_work persistent from %own_block below %all_tiles (%number, %count) ");
  for (const std::string read = "sched.read_block_id"; loop.find(read) != std::string::npos;)
    loop.replace(loop.find(read), read.size(), "sched.opaque %number");
  Expected<Expectation> expected = expect(test);
  REQUIRE(expected);
  auto verdictOf = [&](const std::string &kernel, int64_t blocks) {
    Expected<Simulation> simulation = Simulation::load({kernel, "kernel.mlir"});
    if (!simulation)
      FAIL(simulation.error().text());
    Launcher given = launcher(*simulation, test, 3);
    given.launch = [&](const LaunchArgs &args) {
      return simulation->run(args, {.seed = 3, .multiprocessors = blocks});
    };
    return judge(test, *expected, tests::run(given, test));
  };
  Verdict torn = verdictOf(loop, 3);
  INFO(torn.text);
  CHECK(!torn.pass);
  CHECK(torn.text.find("no barrier or ring orders the two") != std::string::npos);
  size_t end = loop.rfind("sched.copy_to_global");
  for (int closed = 0; closed < 2; ++closed) // of the branch and the loop around
    end = loop.find("\n", loop.find("}", end));
  std::string sound = loop.substr(0, end) + "\nsched.barrier\n" + loop.substr(end);
  for (int64_t blocks : {1, 3, 5, 100}) {
    Verdict verdict = verdictOf(sound, blocks);
    INFO(blocks << " blocks: " << verdict.text);
    CHECK(verdict.pass);
  }
}
