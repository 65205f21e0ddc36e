//===- PlainIndicesTest.cpp - What a launch can know about indices ----------===//
#include "dsl/PlainIndices.h"

#include "attune/Builtins.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace attune;

namespace {

/// "1q -1k 1Sk -1": the factors that are not 0, then the constant.
std::string shown(const LinearIndex &x) {
  std::string result;
  for (size_t i = 0; i < 4; ++i)
    if (x.coordinates[i])
      result += fmt::format("{}{} ", x.coordinates[i], name(Coordinate(i)));
  for (size_t i = 0; i < 4; ++i)
    if (x.extents[i])
      result += fmt::format("{}{} ", x.extents[i], name(Extent(i)));
  return result + fmt::format("{}", x.constant);
}

/// "t[1]: 1k 0 if 1q -1k 0; ...", in the order of tensors.
std::string shown(const Variant &variant, const std::vector<std::string> &gradients = {}) {
  std::vector<std::vector<IndexParam>> all = dsl::plainIndices(variant, gradients);
  REQUIRE(all.size() == variant.tensors().size());
  std::string result;
  for (size_t i = 0; i < all.size(); ++i)
    for (const IndexParam &param : all[i]) {
      result += fmt::format("{}{}[{}]: {}", result.empty() ? "" : "; ", variant.tensors()[i].name, param.dim,
                            shown(param.index));
      for (const LinearIndex &guard : param.guards)
        result += " if " + shown(guard);
      result += param.broadcast ? " broadcast" : "";
    }
  return result;
}

Variant parsed(TextVariant text) {
  Expected<Variant> variant = Variant::parse("v", text);
  if (!variant)
    FAIL(variant.error().text());
  return *variant;
}
std::string ofScore(std::string score) { return shown(parsed({.score = std::move(score), .scalars = {{"n", i32}}})); }
std::string ofMask(std::string mask) {
  return shown(parsed(
      {.mask = std::move(mask), .tensors = {{"t", boolean, inferRank}, {"ids", i32, 1}}, .scalars = {{"n", i32}}}));
}

} // namespace

TEST_CASE("indices that are linear in coordinates and extents") {
  CHECK(ofScore("s + t[h]") == "t[0]: 1h 0");
  CHECK(ofScore("s + t[b, 7]") == "t[0]: 1b 0; t[1]: 7");
  CHECK(ofScore("s + t[q - k + Sk - 1]") == "t[0]: 1q -1k 1Sk -1");
  CHECK(ofScore("s + t[2 * q - -k * 3]") == "t[0]: 2q 3k 0");
  CHECK(ofScore("s + t[-(k - Sk)]") == "t[0]: -1k 1Sk 0");
  CHECK(ofScore("s + t[q + k - q]") == "t[0]: 1k 0");
  CHECK(ofScore("s + t[k + 5L]") == "t[0]: 1k 5");
  CHECK(ofScore("s + t[(q - k) + 5L]") == "t[0]: 1q -1k 5");
  CHECK(ofScore("s + t[h, q, k] + t[h, q, k + 1]") == "t[0]: 1h 0; t[1]: 1q 0; t[2]: 1k 0; t[2]: 1k 1");
  CHECK(ofScore("s + u[h] + t[k]") == "u[0]: 1h 0; t[0]: 1k 0");
  CHECK(shown(Variant("v").score([](Score s, Index, Index, Index, Index) {
          return s + captured("one", f32, rank(0));
        })).empty());
}

TEST_CASE("indices that are computed have no place, their neighbours have") {
  CHECK(ofScore("s + t[h / 2]").empty());
  CHECK(ofScore("s + t[q * k]").empty());
  CHECK(ofScore("s + t[q + n]").empty());
  CHECK(ofScore("s + t[min(k, 5)]").empty());
  CHECK(ofScore("s + t[i32(s)]").empty());
  CHECK(ofScore("s + t[h / 2, k]") == "t[1]: 1k 0");
  CHECK(ofMask("t[ids[k]]") == "ids[0]: 1k 0");
  // 3 * q may wrap as an i32 before it is widened.
  CHECK(ofScore("s + t[i64(3 * q)]").empty());
  CHECK(ofScore("s + t[3L * q]") == "t[0]: 3q 0");
  // Beyond the limits of LinearIndex.
  CHECK(ofScore("s + t[65536 * k]") == "t[0]: 65536k 0");
  CHECK(ofScore("s + t[65537 * k]").empty());
  CHECK(ofScore("s + t[65536 * k + k]").empty());
  CHECK(ofScore("s + t[k + 1099511627777]").empty());
  CHECK(ofScore("s + t[k * -9223372036854775808]").empty());
}

TEST_CASE("what clamped and broadcast say") {
  CHECK(ofScore("s + clamped(t[k])").empty());
  CHECK(ofScore("s + clamped(t[k]) + t[k]") == "t[0]: 1k 0");
  CHECK(ofMask("clamped(t[ids[k]])") == "ids[0]: 1k 0");
  CHECK(ofScore("s + broadcast(t[h, k])") == "t[0]: 1h 0 broadcast; t[1]: 1k 0 broadcast");
  auto variant = parsed({.score = "s + broadcast(t[h, q - k + Sk])"});
  CHECK(dsl::plainIndices(variant)[0][1].text == "q - k + Sk");
  CHECK(dsl::plainIndices(variant)[0][1].element == "t[h, q - k + Sk]");
}

TEST_CASE("a tensor whose gradient is taken at q and k has an element for each of them") {
  auto t = captured("t", f32, rank(3)), u = captured("t", f32, rank(2));
  auto reads = [](auto score) { return Variant("v").score(score); };
  const Variant broadcasts =
      reads([=](Score s, Index, Index h, Index q, Index k) { return s + broadcast(t[h][q][k]); });
  CHECK(shown(broadcasts) == "t[0]: 1h 0 broadcast; t[1]: 1q 0 broadcast; t[2]: 1k 0 broadcast");
  CHECK(shown(broadcasts, {"t"}) == "t[0]: 1h 0 broadcast; t[1]: 1q 0; t[2]: 1k 0");
  CHECK(shown(reads([=](Score s, Index, Index, Index q, Index k) { return s + clamped(u[q][k]); }), {"t"}) ==
        "t[0]: 1q 0; t[1]: 1k 0");
  // By sums of rows, and by additions.
  CHECK(shown(reads([=](Score s, Index, Index h, Index q, Index) { return s + broadcast(u[h][q]); }), {"t"}) ==
        "t[0]: 1h 0 broadcast; t[1]: 1q 0 broadcast");
  CHECK(
      shown(reads([=](Score s, Index, Index, Index q, Index k) { return s + broadcast(u[q][k]) + broadcast(u[k][q]); }),
            {"t"}) == "t[0]: 1q 0 broadcast; t[1]: 1k 0 broadcast; t[0]: 1k 0 broadcast; t[1]: 1q 0 broadcast");
}

TEST_CASE("guards are what an element is evaluated under") {
  CHECK(ofScore("s + select(k < 5, t[k], 0)") == "t[0]: 1k 0 if -1k 4");
  CHECK(ofScore("s + select(k < 5, 0, t[k])") == "t[0]: 1k 0 if 1k -5");
  CHECK(ofScore("s + select(5 <= k, t[k], u[q])") == "t[0]: 1k 0 if 1k -5; u[0]: 1q 0 if -1k 4");
  CHECK(ofScore("s + select(k > q, t[k], 0)") == "t[0]: 1k 0 if -1q 1k -1");
  CHECK(ofScore("s + select(k == 3, t[k], u[k])") == "t[0]: 1k 0 if 1k -3 if -1k 3");
  CHECK(ofScore("s + select(k != 3, t[k], u[k])") == "u[0]: 1k 0 if 1k -3 if -1k 3");
  CHECK(ofScore("s + select(!(k >= q || k < 3), t[k], 0)") == "t[0]: 1k 0 if 1q -1k -1 if 1k -3");
  CHECK(ofMask("q >= k && ids[q] == ids[k]") == "ids[0]: 1q 0 if 1q -1k 0; ids[0]: 1k 0 if 1q -1k 0");
  CHECK(ofMask("q >= k || t[k]") == "t[0]: 1k 0 if -1q 1k -1");
  CHECK(ofMask("k < 9 && (q >= k && t[k])") == "t[0]: 1k 0 if -1k 8 if 1q -1k 0");
  // Always evaluated as well.
  CHECK(ofScore("s + t[k] * select(k < 5, t[k], 0)") == "t[0]: 1k 0");
  CHECK(ofScore("s + select(t[k] > 0.0, 1, 0)") == "t[0]: 1k 0");
  CHECK(ofMask("t[k] && q >= k") == "t[0]: 1k 0");
}

TEST_CASE("under conditions that are no linear comparisons nothing is said") {
  CHECK(ofScore("s + select(s > 0.0, t[k], 0)").empty());
  CHECK(ofScore("s + select(k < n, t[k], 0)").empty());
  CHECK(ofScore("s + select(k % 2 == 0, t[k], 0)").empty());
  CHECK(ofScore("s + select(k < 5 || q < 5, t[k], 0)").empty());
  CHECK(ofMask("t[q] && t[k]") == "t[0]: 1q 0");
  CHECK(ofScore("s + select(1.0 < 2.0, t[k], 0)").empty());
  // A side that may wrap.
  CHECK(ofScore("s + select(q - k + Sk > 0, t[k], 0)").empty());
}

TEST_CASE("linear conditions of a mask guard the score") {
  CHECK(shown(Variant("v").mask(causal()).score(alibi(captured("slopes", f32, rank(1))))) ==
        "slopes[0]: 1h 0 if 1q -1k 0");
  auto both = parsed({.score = "s + t[q - k] + select(k < 9, t[k], 0)",
                      .mask = "q >= k && k % 2 == 0 && (q - k < 128 && u[k] > 0.0) && q != k"});
  CHECK(shown(both) == "t[0]: 1q -1k 0 if 1q -1k 0 if -1q 1k 127; t[0]: 1k 0 if 1q -1k 0 if -1q 1k 127 if -1k 8");
  CHECK(shown(parsed({.score = "s + t[k]", .mask = "q >= k || k < 5"})) == "t[0]: 1k 0");
}

TEST_CASE("built-ins") {
  auto of = [](auto &&builtin) { return shown(builtin); };
  CHECK(of(Variant("v").mask(documents(captured("ids", i32, rank(2))))) == "ids[0]: 1b 0; ids[1]: 1q 0; ids[1]: 1k 0");
  CHECK(of(Variant("v").mask(keyPadding(captured("n", i32, rank(1))))) == "n[0]: 1b 0");
  CHECK(of(Variant("v").mask(prefixLm(captured("n", i32, rank(1))))) == "n[0]: 1b 0 if -1q 1k -1");
  CHECK(of(Variant("v").score(relativeBias(captured("t", f32, rank(2))))) == "t[0]: 1h 0; t[1]: 1q -1k 1Sk -1");
  CHECK(of(Variant("v").score(bias(captured("t", f32, rank(3))))) ==
        "t[0]: 1h 0 broadcast; t[1]: 1q 0 broadcast; t[2]: 1k 0 broadcast");
}

TEST_CASE("a normaliser's elements") {
  CHECK(shown(Variant("v").mask(causal()).normaliser(normalisers::softmaxWithSink("sinks"))) == "sinks[0]: 1h 0");
  const Normaliser scaled = {.name = "scaled", .p = "sigmoid(x) * t[b, h]", .tensors = {{"t", f32, 2}}};
  CHECK(shown(Variant("v").normaliser(scaled)) == "t[0]: 1b 0; t[1]: 1h 0");
}

TEST_CASE("shared parts and long conditions take no time") {
  auto t = captured("t", f32, rank(1));
  // 2^100 paths.
  Expr zero = coordinate(Coordinate::Q), value = Expr(t[coordinate(Coordinate::K)]);
  for (int i = 0; i < 100; ++i) {
    zero = zero - zero;
    value = select(coordinate(Coordinate::Q) < i, value + 1, value * 2);
  }
  std::string all = shown(Variant("v").score([&](Score s, Index, Index, Index, Index) { return s + t[zero] + value; }));
  CHECK(all.starts_with("t[0]: 0"));
  std::string clauses;
  for (int i = 0; i < 200; ++i)
    clauses += fmt::format("(q - k) % {} == {} || t[k + {}] && ", i + 2, i, i);
  CHECK(ofMask(clauses + "true").empty());
}
