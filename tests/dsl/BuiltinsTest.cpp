//===- BuiltinsTest.cpp - Built-in masks, scores and the registry -----------===//
#include "attune/attune.h"
#include "tests/dsl/Expressions.h"

#include <catch2/catch.hpp>
#include <set>

using namespace attune;
using namespace attune::tests;

namespace {

/// The key of the variant whose mask is this text.
std::string maskKey(std::string text, std::vector<TensorDecl> tensors = {}, std::vector<ScalarDecl> scalars = {}) {
  auto variant = Variant::parse("v", {.mask = std::move(text), .tensors = tensors, .scalars = scalars});
  return variant ? variant->canonical() : variant.error().text();
}

std::string scoreKey(std::string text, std::vector<TensorDecl> tensors = {}, std::vector<ScalarDecl> scalars = {}) {
  auto variant = Variant::parse("v", {.score = std::move(text), .tensors = tensors, .scalars = scalars});
  return variant ? variant->canonical() : variant.error().text();
}

} // namespace

TEST_CASE("masks are what their documentation says, in C++ and in text") {
  auto key = [](const Mask &mask) { return Variant("v").mask(mask).canonical(); };
  auto check = [&](const Mask &mask, const std::string &definition, const std::string &name,
                   std::vector<TensorDecl> tensors = {}, std::vector<ScalarDecl> scalars = {}) {
    INFO(name);
    CHECK(key(mask) == maskKey(definition, tensors, scalars));
    CHECK(key(mask) == maskKey(name, tensors, scalars));
  };
  auto ids = captured("ids", i32, rank(1));
  auto ids2 = captured("ids", i32, rank(2));
  auto lengths = captured("lengths", i32, rank(1));
  auto n = scalar("n", i32);
  check(causal(), "q >= k", "causal()");
  check(causalBottomRight(), "k - Sk <= q - Sq", "causalBottomRight()");
  check(slidingWindow(4, 3), "-4 <= k - q && k - q <= 3", "slidingWindow(4, 3)");
  check(slidingWindow(0, 0), "0 <= k - q && k - q <= 0", "slidingWindow(0, 0)");
  check(slidingWindow(-2, 8), "2 <= k - q && k - q <= 8", "slidingWindow(-2, 8)");
  check(slidingWindow(n, n), "-n <= k - q && k - q <= n", "slidingWindow(n, n)", {}, {{"n", i32}});
  check(prefixLm(7), "q >= k || k < 7", "prefixLm(7)");
  check(prefixLm(n), "q >= k || k < n", "prefixLm(n)", {}, {{"n", i32}});
  check(prefixLm(lengths), "q >= k || k < lengths[b]", "prefixLm(lengths)", {{"lengths", i32, 1}});
  check(prefixLm(captured("one", i32, rank(0))), "q >= k || k < one[]", "prefixLm(one)", {{"one", i32, 0}});
  check(chunked(128), "q / 128 == k / 128", "chunked(128)");
  check(localGlobal(6, 3), "abs(q - k) <= 6 || q < 3 || k < 3", "localGlobal(6, 3)");
  check(localGlobal(6, 3), "abs(q - k) <= 6 || q < 3 || k < 3", "localGlobal(6, 3, 1)");
  check(localGlobal(6, n, 2), "abs(q - k) <= 6 * 2 && (q - k) % 2 == 0 || q < n || k < n", "localGlobal(6, n, 2)", {},
        {{"n", i32}});
  check(strided(64), "q >= k && (q - k < 64 || (q - k) % 64 == 0)", "strided(64)");
  check(fixed(64, 8), "q >= k && (q / 64 == k / 64 || k % 64 >= 64 - 8)", "fixed(64, 8)");
  check(butterfly(64), "let d = q / 64 ^ k / 64; (d & d - 1) == 0", "butterfly(64)");
  check(bigbird(64, 1, 2, 0), "abs(q / 64 - k / 64) <= 1 || q / 64 < 2 || k / 64 < 2", "bigbird(64, 1, 2, 0, 9)");
  check(bigbird(64, 1, 2, 3, n), "bigbird(64, 1, 2, 3, n)", "bigbird(64, 1, 2, 3, n)", {}, {{"n", i32}});
  check(natten(9, 8, 3),
        "abs(min(max(q / 8, 3 / 2), 9 - 1 - 3 / 2) - k / 8) <= 3 / 2 && "
        "abs(min(max(q % 8, 3 / 2), 8 - 1 - 3 / 2) - k % 8) <= 3 / 2",
        "natten(9, 8, 3)");
  check(sta(4, {2, 3, 5}, {1, 3, 5}),
        "abs(min(max(q / 4 / (3 * 5), 1 / 2), 2 - 1 - 1 / 2) - k / 4 / (3 * 5)) <= 1 / 2 && "
        "abs(min(max(q / 4 / 5 % 3, 3 / 2), 3 - 1 - 3 / 2) - k / 4 / 5 % 3) <= 3 / 2 && "
        "abs(min(max(q / 4 % 5, 5 / 2), 5 - 1 - 5 / 2) - k / 4 % 5) <= 5 / 2",
        "sta(4, 2, 3, 5, 1, 3, 5)");
  check(documents(ids), "ids[q] == ids[k]", "documents(ids)", {{"ids", i32, 1}});
  check(documents(ids2), "ids[b, q] == ids[b, k]", "documents(ids)", {{"ids", i32, 2}});
  check(keyPadding(lengths), "k < lengths[b]", "keyPadding(lengths)", {{"lengths", i32, 1}});
  check(causal() && documents(ids), "q >= k && ids[q] == ids[k]", "causal() && documents(ids)", {{"ids", i32, 1}});
  check(!causal() || chunked(4), "!(q >= k) || q / 4 == k / 4", "!causal() || chunked(4)");
  // Undeclared arguments have the type that the built-in expects.
  CHECK(key(documents(ids)) == maskKey("documents(ids)"));
  CHECK(key(keyPadding(lengths)) == maskKey("keyPadding(lengths)"));
}

TEST_CASE("scores are what their documentation says, in C++ and in text") {
  auto key = [](const ScoreModifier &score) { return Variant("v").score(score).canonical(); };
  auto check = [&](const ScoreModifier &score, const std::string &definition, const std::string &name,
                   std::vector<TensorDecl> tensors = {}, std::vector<ScalarDecl> scalars = {}) {
    INFO(name);
    CHECK(key(score) == scoreKey(definition, tensors, scalars));
    CHECK(key(score) == scoreKey(name, tensors, scalars));
  };
  auto slopes = captured("slopes", f32, rank(1));
  check(softcap(30), "30 * tanh(s / 30)", "softcap(s, 30)");
  check(softcap(scalar("cap", f32)), "cap * tanh(s / cap)", "softcap(s, cap)", {}, {{"cap", f32}});
  check(alibi(slopes), "s + slopes[h] * (k - q)", "alibi(slopes)");
  check(relativeBias(captured("table", bf16, rank(2))), "s + table[h, q - k + Sk - 1]", "relativeBias(table)",
        {{"table", bf16, 2}});
  check(bias(captured("t", f32, rank(2))), "s + broadcast(t[q, k])", "bias(t)", {{"t", f32, 2}});
  check(bias(captured("t", f32, rank(3))), "s + broadcast(t[h, q, k])", "bias(t)");
  check(bias(captured("t", f16, rank(4))), "s + broadcast(t[b, h, q, k])", "bias(t)", {{"t", f16, 4}});
  CHECK(key(softcap(30) | alibi(slopes)) == scoreKey("softcap(s, 30) + slopes[h] * (k - q)"));
  CHECK(key(softcap(30) | alibi(slopes)) == Variant("v").score(softcap(30)).score(alibi(slopes)).canonical());
}

TEST_CASE("a lambda may call a built-in") {
  auto variant = Variant("v").mask([](Index b, Index h, Index q, Index k) { return causal()(b, h, q, k) && q < 9; });
  CHECK(text(*variant.maskExpr()) == "q >= k && q < 9");
}

TEST_CASE("built-ins place their nodes on the user's line") {
  unsigned line = __LINE__;
  auto variant = Variant("v")
                     .mask(causal() &&          // line + 2
                           slidingWindow(4, 4)) // line + 3
                     .score(softcap(30));       // line + 4
  const Node &both = variant.maskExpr()->node();
  CHECK(both.where.file == __FILE__);
  CHECK(both.operands[0]->where.line == line + 2);
  CHECK(both.operands[1]->where.line == line + 3);
  CHECK(both.operands[1]->operands[0]->where.line == line + 3);
  CHECK(variant.scoreExpr()->where().line == line + 4);
}

TEST_CASE("errors of built-ins, to the letter") {
  auto t = captured("t", i32, rank(3));
  auto one = captured("one", f32, rank(1));
  auto text = [](const char *builtin, const char *name, int r, const char *required) {
    return "tensor \"" + std::string(name) + "\" of " + builtin + " has rank " + std::to_string(r) +
           ", but must have rank " + required + "; declare it with that rank";
  };
  CHECK(message(Variant("v").mask(documents(t))) == text("documents", "t", 3, "1 or 2"));
  CHECK(message(Variant("v").mask(keyPadding(t))) == text("keyPadding", "t", 3, "1"));
  CHECK(message(Variant("v").mask(prefixLm(t))) == text("prefixLm", "t", 3, "0 or 1"));
  CHECK(message(Variant("v").score(alibi(t))) == text("alibi", "t", 3, "1"));
  CHECK(message(Variant("v").score(relativeBias(one))) == text("relativeBias", "one", 1, "2"));
  CHECK(message(Variant("v").score(bias(one))) == text("bias", "one", 1, "2, 3 or 4"));
  CHECK(message(Variant("v").mask(natten(8, 8, 4))) == "window of natten is 4, but must be odd and positive; use 5");
  CHECK(message(Variant("v").mask(natten(8, 8, -3))) == "window of natten is -3, but must be odd and positive; use 1");
  CHECK(message(Variant("v").mask(natten(4, 4, 4))) == "window of natten is 4, but must be odd and positive; use 3");
  CHECK(message(Variant("v").mask(natten(0, 4, 1))) == "an extent of natten is 0, but must be positive");
  CHECK(message(Variant("v").mask(natten(9, 6, 7))) == "window of natten is 7, but the extent is 6; use at most 5");
  CHECK(message(Variant("v").mask(sta(64, {4, 4, 3}, {3, 3, 5}))) ==
        "window of sta is 5, but the extent is 3; use at most 3");
  const std::string drawn = "the random blocks of bigbird must be a number from 0 to 16, written out";
  CHECK(message(Variant("v").mask(bigbird(64, 1, 1, 17))) == drawn);
  CHECK(message(Variant("v").mask(bigbird(64, 1, 1, -1))) == drawn);
  CHECK(message(Variant("v").mask(bigbird(64, 1, 1, scalar("n", i32)))) == drawn);
  unsigned line = __LINE__;
  auto variant = Variant("v").mask(documents(t)); // line + 1
  CHECK(variant.error()->where.line == line + 1);
  CHECK(variant.error()->where.file == __FILE__);
}

TEST_CASE("every entry of the registry makes a variant with the tensors it lists") {
  std::set<std::string> names;
  for (const BuiltinVariant &entry : builtinVariants()) {
    INFO(entry.name);
    CHECK(names.insert(entry.name).second);
    CHECK(!entry.summary.empty());
    auto variant = entry.make();
    REQUIRE(variant);
    CHECK(variant->tensors() == entry.tensors);
    CHECK(findBuiltin(entry.name) == &entry);
    auto again = Variant::fromJson(variant->toJson());
    REQUIRE(again);
    CHECK(again->canonical() == variant->canonical());
  }
  CHECK(names == std::set<std::string>{"plain",
                                       "causal",
                                       "causal-bottom-right",
                                       "sliding-window",
                                       "prefix-lm",
                                       "chunked",
                                       "local-global",
                                       "strided",
                                       "fixed",
                                       "butterfly",
                                       "bigbird",
                                       "natten",
                                       "sta",
                                       "documents",
                                       "key-padding",
                                       "softcap",
                                       "alibi",
                                       "relative-bias",
                                       "bias",
                                       "block-sparse",
                                       "decode"});
  CHECK(builtinVariants().front().name == "plain");
  CHECK(findBuiltin("nothing") == nullptr);
}

TEST_CASE("entries of the registry take parameters and declarations") {
  auto softcapped = findBuiltin("softcap")->make({{"cap", 30}});
  REQUIRE(softcapped);
  CHECK(softcapped->name() == "softcap");
  CHECK(text(*softcapped->scoreExpr()) == "30.0 * tanh(s / 30.0)");
  auto window = findBuiltin("sliding-window")->make({{"left", 16}, {"right", 2}});
  REQUIRE(window);
  CHECK(window->name() == "sliding_window");
  CHECK(text(*window->maskExpr()) == "-16 <= k - q && k - q <= 2");
  auto perBatch = findBuiltin("documents")->make({}, {{"ids", i64, 2}, {"other", f32, 1}});
  REQUIRE(perBatch);
  CHECK(perBatch->tensors() == std::vector<TensorDecl>{{"ids", i64, 2}});
  auto blocks = findBuiltin("block-sparse")->make({{"rows", 32}, {"columns", 48}}, {{"pattern", boolean, 2}});
  REQUIRE(blocks);
  CHECK(blocks->blockPattern() == BlockPattern{{"pattern", boolean, 2}, 32, 48});
  auto step = findBuiltin("decode")->make({{"page", 32}});
  REQUIRE(step);
  CHECK(step->keyPages() == KeyPages{{"pages", i32, 2}, 32});
  CHECK(step->keyLengths() == TensorDecl{"lengths", i32, 1});
}

TEST_CASE("errors of the registry, to the letter") {
  auto text = [](const char *entry, std::map<std::string, double> values) {
    auto variant = findBuiltin(entry)->make(values);
    return variant ? "no error" : variant.error().text();
  };
  CHECK(text("softcap", {{"cpa", 1}}) == "error: \"cpa\" is not a parameter of softcap; it has cap");
  CHECK(text("sliding-window", {{"w", 1}}) == "error: \"w\" is not a parameter of sliding-window; it has left right");
  CHECK(text("causal", {{"w", 1}}) == "error: \"w\" is not a parameter of causal; it has none");
  CHECK(text("chunked", {{"chunk", 1.5}}) ==
        "error: parameter chunk of chunked is 1.5, but must be an integer; write a whole number");
  CHECK(text("block-sparse", {{"rows", 24}}) == "error: block rows 24 is not a positive multiple of 16; use 64 or 128");
  CHECK(text("softcap", {{"cap", 1e40}}) ==
        "error: constant 1e+40 does not fit in f32; use at most 3.4e38 or infinity");
}
