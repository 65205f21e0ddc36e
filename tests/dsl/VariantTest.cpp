//===- VariantTest.cpp - Variants built in C++ ------------------------------===//
#include "attune/attune.h"
#include "tests/dsl/Expressions.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace attune;
using namespace attune::tests;

namespace {

auto score(const Expr &expr) {
  return [=](Score, Index, Index, Index, Index) { return expr; };
}
auto mask(const Expr &expr) {
  return [=](Index, Index, Index, Index) { return expr; };
}

} // namespace

TEST_CASE("a plain variant has nothing set") {
  Variant variant("plain");
  CHECK(variant.name() == "plain");
  CHECK(!variant.scale());
  CHECK(!variant.scoreExpr());
  CHECK(!variant.maskExpr());
  CHECK(!variant.hasDropout());
  CHECK(variant.dropoutProbability() == 0.0f);
  CHECK(!variant.blockPattern());
  CHECK(!variant.isPrecise());
  CHECK(!variant.hasQOffset());
  CHECK(!variant.error());
  CHECK(variant.canonical() == "attune variant 1\nname plain\n");
}

TEST_CASE("scores compose and masks combine") {
  auto variant = Variant("v")
                     .score([](Score s, Index, Index, Index, Index) { return s * 2; })
                     .score([](Score s, Index, Index, Index, Index) { return s + 1; })
                     .mask([](Index, Index, Index q, Index k) { return q >= k; })
                     .mask([](Index, Index, Index q, Index k) { return q - k < 8; });
  CHECK(text(*variant.scoreExpr()) == "s * 2.0 + 1.0");
  CHECK(text(*variant.maskExpr()) == "q >= k && q - k < 8");
}

TEST_CASE("literals and elements are scores and masks") {
  auto t = captured("t", f32, rank(1));
  CHECK(text(*Variant("v").score([&](Score, Index, Index h, Index, Index) { return t[h]; }).scoreExpr()) == "t[h]");
  CHECK(text(*Variant("v").score([](Score, Index, Index, Index, Index) { return 1; }).scoreExpr()) == "1.0");
  CHECK(text(*Variant("v").score([](Score, Index, Index, Index q, Index) { return q; }).scoreExpr()) == "f32(q)");
  CHECK(text(*Variant("v").mask([](Index, Index, Index, Index) { return true; }).maskExpr()) == "true");
}

TEST_CASE("tensors and scalars are listed in order of first use") {
  auto second = captured("second", bf16, rank(2));
  auto first = captured("first", f32, rank(1));
  auto third = captured("third", i32, rank(1));
  auto pattern = captured("pattern", boolean, rank(3));
  auto variant = Variant("v")
                     .blocks(pattern, 64, 128)
                     .mask(mask(third[q] == third[k] && k < scalar("last", i32)))
                     .score(score(inputScore() * scalar("gain", f32) + first[h] + second[h][third[q]]));
  REQUIRE(!variant.error());
  CHECK(variant.tensors() ==
        std::vector<TensorDecl>{{"first", f32, 1}, {"second", bf16, 2}, {"third", i32, 1}, {"pattern", boolean, 3}});
  CHECK(variant.scalars() == std::vector<ScalarDecl>{{"gain", f32}, {"last", i32}});
  CHECK(variant.blockPattern() == BlockPattern{{"pattern", boolean, 3}, 64, 128});
}

TEST_CASE("the key") {
  auto build = [](float p) { return Variant("v").dropout(p).scale(0.5f).precise().qOffset(); };
  CHECK(build(0.1f).canonical() == "attune variant 1\nname v\nscale 0x3f000000\ndropout\nprecise\nqoffset\n");
  CHECK(build(0.1f).canonical() == build(0.2f).canonical());
  CHECK(Variant("v").canonical() != Variant("w").canonical());
  CHECK(Variant("v").canonical() != Variant("v").precise().canonical());
  CHECK(Variant("v").canonical() != Variant("v").qOffset().canonical());
  CHECK(Variant("v").canonical() != Variant("v").dropout(0).canonical());
  auto rankOne = captured("t", f32, rank(1));
  auto narrow = captured("t", bf16, rank(1));
  CHECK(Variant("v").score(score(rankOne[h])).canonical() != Variant("v").score(score(narrow[h])).canonical());
  // Where a variant was written does not matter.
  auto one = Variant("v").mask(mask(q >= k));
  auto other = Variant("v").mask(mask(q >= k));
  CHECK(one.canonical() == other.canonical());
  auto p = captured("p", boolean, rank(2));
  CHECK(Variant("v").blocks(p, 64, 64).canonical() == "attune variant 1\nname v\nblocks p 64 64\ntensor p bool 2\n");
}

TEST_CASE("errors of variants, to the letter") {
  auto t1 = captured("t", f32, rank(1));
  auto pattern = [](DType dtype, int r) { return captured("p", dtype, rank(r)); };
  CHECK(message(Variant("my kernel")) == "variant name \"my kernel\" is not an identifier; use letters, digits and "
                                         "underscores, and no digit first");
  CHECK(message(Variant("v").scale(INFINITY)) == "scale inf is not finite; leave it out for 1 / sqrt(head dim)");
  CHECK(message(Variant("v").dropout(1.0f)) ==
        "dropout probability 1 is outside [0, 1); use the fraction to drop, for example 0.1");
  CHECK(message(Variant("v").dropout(-0.5f)) ==
        "dropout probability -0.5 is outside [0, 1); use the fraction to drop, for example 0.1");
  CHECK(message(Variant("v").dropout(NAN)) ==
        "dropout probability nan is outside [0, 1); use the fraction to drop, for example 0.1");
  CHECK(message(Variant("v").dropout(0.0f)) == "no error");
  CHECK(message(Variant("v").score(score(q < k))) ==
        "score of variant \"v\" is bool, but must be a number; use mask, or select(c, a, b)");
  CHECK(message(Variant("v").mask(mask(q - k))) ==
        "mask of variant \"v\" is i32, but must be bool; compare it, for example x != 0");
  CHECK(message(Variant("v").mask(mask(inputScore() > 0))) ==
        "mask of variant \"v\" reads the score s, but a mask sees b, h, q and k only; give such keys the "
        "score -inf by "
        "select(c, s, -inf)");
  CHECK(message(Variant("v").score(score(t1[h])).mask(mask(captured("t", i32, rank(2))[h][q] == 0))) ==
        "\"t\" is a tensor of i32 and rank 2 here, but a tensor of f32 and rank 1 elsewhere; use one name "
        "per tensor or "
        "scalar");
  CHECK(message(Variant("v").score(score(t1[h] + scalar("t", f32)))) ==
        "\"t\" is a scalar of f32 here, but a tensor of f32 and rank 1 elsewhere; use one name per tensor or "
        "scalar");
  CHECK(message(Variant("v").score(score(scalar("t", i32) + scalar("t", f32)))) ==
        "\"t\" is a scalar of f32 here, but a scalar of i32 elsewhere; use one name per tensor or scalar");
  CHECK(message(Variant("v").blocks(pattern(i32, 3), 64, 64)) ==
        "block pattern \"p\" is i32, but must be bool; declare captured(\"p\", boolean, rank(3))");
  CHECK(message(Variant("v").blocks(pattern(boolean, 1), 64, 64)) ==
        "block pattern \"p\" has rank 1, but must have rank 3 [H or 1, ceil(Sq/rows), ceil(Sk/columns)] or "
        "2; declare "
        "captured(\"p\", boolean, rank(3))");
  CHECK(message(Variant("v").blocks(pattern(boolean, 3), 24, 64)) ==
        "block rows 24 is not a positive multiple of 16; use 64 or 128");
  CHECK(message(Variant("v").blocks(pattern(boolean, 3), 64, 0)) ==
        "block columns 0 is not a positive multiple of 16; use 64 or 128");
  CHECK(message(Variant("v").blocks(captured("q", boolean, rank(3)), 64, 64)) ==
        "tensor name \"q\" is reserved; use a name other than s b h q k B H Sq Sk");
  CHECK(message(Variant("v").blocks(pattern(boolean, 3), 64, 64).blocks(captured("r", boolean, rank(2)), 64, 64)) ==
        "variant \"v\" has a second block pattern \"r\", but takes one; combine them into one tensor");
}

TEST_CASE("lengths and pages of keys") {
  auto table = [](const char *name, DType dtype, int r) { return captured(name, dtype, rank(r)); };
  CHECK(Variant("v").keyLengths(table("n", i32, 1)).keyPages(table("p", i32, 2), 64).canonical() ==
        "attune variant 1\nname v\nkey lengths n\nkey pages p 64\ntensor n i32 1\ntensor p i32 2\n");
  CHECK(Variant("v").keyPages(table("p", i32, 2), 64).canonical() !=
        Variant("v").keyPages(table("p", i32, 2), 32).canonical());
  CHECK(message(Variant("v").keyLengths(table("n", i32, 2))) ==
        "key lengths \"n\" are i32 of rank 2, but must be i32 of rank 1 [B]; declare captured(\"n\", i32, rank(1))");
  CHECK(message(Variant("v").keyLengths(table("n", i32, 1)).keyLengths(table("m", i32, 1))) ==
        "variant \"v\" has second key lengths \"m\", but takes one tensor; pass the lesser ones");
  CHECK(Variant("v").queryLengths(table("n", i32, 1)).canonical() ==
        "attune variant 1\nname v\nquery lengths n\ntensor n i32 1\n");
  CHECK(message(Variant("v").queryLengths(table("n", f32, 1))) ==
        "query lengths \"n\" are f32 of rank 1, but must be i32 of rank 1 [B]; declare captured(\"n\", i32, rank(1))");
  CHECK(message(Variant("v").keyPages(table("p", i64, 2), 64)) ==
        "key pages \"p\" are i64 of rank 2, but must be i32 of rank 2 [B, N]; declare captured(\"p\", i32, rank(2))");
  CHECK(message(Variant("v").keyPages(table("p", i32, 2), 24)) ==
        "page size 24 is not a positive multiple of 16; use 16, 64 or 128");
  CHECK(message(Variant("v").keyPages(table("p", i32, 2), 64).keyPages(table("r", i32, 2), 64)) ==
        "variant \"v\" has second key pages \"r\", but takes one table");
  CHECK(message(Variant("v").keyLengths(table("q", i32, 1))) ==
        "tensor name \"q\" is reserved; use a name other than s b h q k B H Sq Sk");
  CHECK(
      message(Variant("v").keyLengths(table("t", i32, 1)).keyPages(table("t", i32, 2), 16)) ==
      "\"t\" is a tensor of i32 and rank 2 here, but a tensor of i32 and rank 1 elsewhere; use one name per tensor or "
      "scalar");
}

TEST_CASE("packed sequences") {
  auto bounds = [](const char *name, DType dtype = i32, int r = 1) { return captured(name, dtype, rank(r)); };
  CHECK(Variant("v").sequences(bounds("a"), bounds("c")).canonical() ==
        "attune variant 1\nname v\nsequences a c\ntensor a i32 1\ntensor c i32 1\n");
  CHECK(Variant("v").sequences(bounds("a"), bounds("a")).canonical() ==
        "attune variant 1\nname v\nsequences a a\ntensor a i32 1\n");
  CHECK(Variant("v").sequences(bounds("a")).canonical() == "attune variant 1\nname v\nsequences a -\ntensor a i32 1\n");
  CHECK(message(Variant("v").sequences(bounds("a", i64))) ==
        "sequences \"a\" are i64 of rank 1, but must be i32 of rank 1 [B + 1]; declare captured(\"a\", i32, rank(1))");
  CHECK(message(Variant("v").sequences(bounds("a"), bounds("c", i64))) ==
        "sequences \"c\" are i64 of rank 1, but must be i32 of rank 1 [B + 1]; declare captured(\"c\", i32, rank(1))");
  CHECK(message(Variant("v").sequences(bounds("a", i32, 2), bounds("c"))) ==
        "sequences \"a\" are i32 of rank 2, but must be i32 of rank 1 [B + 1]; declare captured(\"a\", i32, rank(1))");
  CHECK(message(Variant("v").sequences(bounds("a"), bounds("c")).sequences(bounds("d"), bounds("e"))) ==
        "variant \"v\" has second sequences \"d\", but takes sequences once");
  CHECK(message(Variant("v").sequences(bounds("q"), bounds("c"))) ==
        "tensor name \"q\" is reserved; use a name other than s b h q k B H Sq Sk");
}

TEST_CASE("errors of variants carry the user's line, and the first one is kept") {
  unsigned line = __LINE__;
  auto variant = Variant("v")
                     .dropout(2.0f)                                                               // line + 2
                     .score([](Score s, Index, Index, Index q, Index k) { return s + (q < k); }); // line + 3
  REQUIRE(variant.error());
  CHECK(variant.error()->where.line == line + 2);
  CHECK(variant.error()->where.file == __FILE__);

  line = __LINE__;
  auto traced = Variant("v").score([](Score s, Index, Index, Index q, Index k) {
    Expr visible = q < k;
    return s + visible; // line + 3
  });
  REQUIRE(traced.error());
  CHECK(traced.error()->where.line == line + 3);
  CHECK(traced.error()->where.file == __FILE__);

  line = __LINE__;
  auto notBool = Variant("v").mask([](Index, Index, Index q, Index k) { return q - k; }); // line + 1
  CHECK(notBool.error()->where.line == line + 1);
}
