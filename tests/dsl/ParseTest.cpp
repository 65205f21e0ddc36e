//===- ParseTest.cpp - The text form: grammar, meaning, errors --------------===//
#include "attune/attune.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>

using namespace attune;

namespace {

/// Declared for every text here: table f32 of rank 2, one f32 of rank 0, n i32, flag bool.
TextVariant withNames(TextVariant source) {
  source.tensors = {{"table", f32, 2}, {"one", f32, 0}, {"open", i32, inferRank}};
  source.scalars = {{"n", i32}, {"flag", boolean}};
  return source;
}

/// The score printed back, or the error.
std::string score(std::string source) {
  auto variant = Variant::parse("v", withNames({.score = std::move(source)}));
  return variant ? text(*variant->scoreExpr()) : variant.error().text();
}
std::string mask(std::string source) {
  auto variant = Variant::parse("v", withNames({.mask = std::move(source)}));
  return variant ? text(*variant->maskExpr()) : variant.error().text();
}
std::string parse(TextVariant source, std::string name = "v") {
  auto variant = Variant::parse(std::move(name), source);
  return variant ? "no error" : variant.error().text();
}

} // namespace

TEST_CASE("text and C++ give one key") {
  auto slopes = captured("slopes", f32, rank(1));
  auto traced =
      Variant("gemma_local")
          .scale(0.25f)
          .score([&](Score s, Index, Index h, Index q, Index k) { return softcap(s, 50.0f) + slopes[h] * (k - q); })
          .mask([](Index, Index, Index q, Index k) { return q >= k && q - k < 4096; })
          .dropout(0.1f)
          .precise()
          .qOffset();
  auto parsed = Variant::parse("gemma_local", {.score = "softcap(s, 50) + slopes[h] * (k - q)",
                                               .mask = "q >= k && q - k < 4096",
                                               .scale = 0.25f,
                                               .dropout = 0.5f,
                                               .precise = true,
                                               .qOffset = true});
  REQUIRE(parsed);
  CHECK(parsed->canonical() == traced.canonical());
  CHECK(parsed->dropoutProbability() == 0.5f);
  CHECK(text(*traced.scoreExpr()) == "50.0 * tanh(s / 50.0) + slopes[h] * (k - q)");
}

TEST_CASE("every operator and function of the text is the one of C++") {
  auto table = captured("table", f32, rank(2));
  auto n = scalar("n", i32);
  auto flag = scalar("flag", boolean);
  auto same = [&](std::string source, auto &&build) {
    INFO(source);
    auto parsed = Variant::parse("v", withNames({.score = source}));
    REQUIRE(parsed);
    CHECK(parsed->canonical() ==
          Variant("v").score([&](Score s, Index, Index h, Index q, Index k) { return build(s, h, q, k); }).canonical());
  };
#define SAME(source, expression)                                                                                       \
  same(source, [&]([[maybe_unused]] Score s, [[maybe_unused]] Index h, [[maybe_unused]] Index q,                       \
                   [[maybe_unused]] Index k) { return expression; })
  SAME("s + q * k - h / 2 % 3", s + q * k - h / 2 % 3);
  SAME("min(s, 1) + max(q, k)", min(s, 1) + max(q, k));
  SAME("abs(-s) + exp(s) + exp2(s) + log(s) + log2(s)", abs(-s) + exp(s) + exp2(s) + log(s) + log2(s));
  SAME("tanh(s) + sin(s) + cos(s) + tan(s)", tanh(s) + sin(s) + cos(s) + tan(s));
  SAME("sqrt(s) + rsqrt(s) + pow(s, 2) + sigmoid(q)", sqrt(s) + rsqrt(s) + pow(s, 2) + sigmoid(q));
  SAME("clamped(table[h, q - k]) + broadcast(table[h, k])", clamped(table[h][q - k]) + broadcast(table[h][k]));
  SAME("let t = table[h, k]; clamped(t) + clamped(one)", clamped(table[h][k]) + clamped(captured("one", f32, rank(0))));
  SAME("select(q < k, s, 0)", select(q < k, s, 0));
  SAME("q < k ? s : q <= k ? 1 : 2.5", select(q < k, s, select(q <= k, 1, 2.5)));
  SAME("f32((q & 3 | k ^ h) << 2 >> 1) + ~n", cast(((q & 3) | (k ^ h)) << 2 >> 1, f32) + ~n);
  SAME("f32(flag && !(q == k) || k != 3 && q > 1)", cast((flag && !(q == k)) || (k != 3 && q > 1), f32));
  SAME("f32(flag & (q >= k) | flag ^ (q < k))", cast((flag & (q >= k)) | (flag ^ (q < k)), f32));
  SAME("i32(s) + i64(q) + f32(bool(k)) + cast(s, i32)",
       cast(s, i32) + cast(q, i64) + cast(cast(k, boolean), f32) + cast(s, i32));
  SAME("table[h, q - k + Sk - 1] + table[h][q] + table(h, q)",
       table[h][q - k + keyLength() - 1] + table[h][q] + table(h, q));
  SAME("s * B + H - Sq", s * batchSize() + headCount() - queryLength());
  SAME("s + 5L + 0xff + 3000000000 - -2147483648", s + 5L + 0xff + 3000000000 - std::numeric_limits<int32_t>::min());
  SAME("1.5 + 1e-3 * s + .5 - 2. + 2.5f", Expr(1.5) + 1e-3f * s + .5 - 2. + 2.5f);
  SAME("select(true, inf, -inf) + s", select(true, INFINITY, -INFINITY) + s);
  SAME("-q + -(5) + - 5", -q + -Expr(5) + -5);
  SAME("+s", s);
  SAME("let d = q - k; let e = d * d; s + e", s + (q - k) * (q - k));
  SAME("one + one[] + one()",
       captured("one", f32, rank(0))() + captured("one", f32, rank(0)) + captured("one", f32, rank(0))());
#undef SAME
}

TEST_CASE("names that are not declared") {
  auto variant = Variant::parse("v", {.score = "s + w[h, q] + w[h][k]", .mask = "documents(ids) && w[b, b] > 0"});
  REQUIRE(variant);
  CHECK(variant->tensors() == std::vector<TensorDecl>{{"w", f32, 2}, {"ids", i32, 1}});
  auto open = Variant::parse("v", {.score = "s + w[h, q]", .tensors = {{"w", bf16, inferRank}, {"unused", f32, 1}}});
  REQUIRE(open);
  CHECK(open->tensors() == std::vector<TensorDecl>{{"w", bf16, 2}});
}

TEST_CASE("a block pattern by name") {
  auto variant = Variant::parse("v", {.blocks = TextVariant::Blocks{"p", 64, 32}});
  REQUIRE(variant);
  CHECK(variant->blockPattern() == BlockPattern{{"p", boolean, 3}, 64, 32});
  auto shared = Variant::parse("v", {.tensors = {{"p", boolean, 2}}, .blocks = TextVariant::Blocks{"p", 64, 32}});
  REQUIRE(shared);
  CHECK(shared->blockPattern()->tensor.rank == 2);
}

TEST_CASE("lengths and pages of keys by name") {
  auto variant = Variant::parse("v", {.keyLengths = "n", .pages = TextVariant::Pages{"p", 48}});
  REQUIRE(variant);
  CHECK(variant->keyLengths() == TensorDecl{"n", i32, 1});
  CHECK(variant->keyPages() == KeyPages{{"p", i32, 2}, 48});
  CHECK(variant->tensors() == std::vector<TensorDecl>{{"n", i32, 1}, {"p", i32, 2}});
  auto wide = Variant::parse("v", {.tensors = {{"n", i64, 1}}, .keyLengths = "n"});
  REQUIRE(!wide);
  CHECK(wide.error().message == "key lengths \"n\" are i64 of rank 1, but must be i32 of rank 1 [B]; declare "
                                "captured(\"n\", i32, rank(1))");
}

TEST_CASE("blank text is no text") {
  auto variant = Variant::parse("v", {.score = "", .mask = " \n"});
  REQUIRE(variant);
  CHECK(variant->canonical() == Variant("v").canonical());
}

TEST_CASE("text nodes are placed in the text") {
  auto variant = Variant::parse("v", {.score = "s\n  + exp(q)"});
  REQUIRE(variant);
  CHECK(variant->scoreExpr()->where().text() == "score:2:3");
  CHECK(variant->scoreExpr()->node().operands[1]->where.text() == "score:2:5");
}

TEST_CASE("errors of text, to the letter") {
  CHECK(score("s +") == "score:1:4: error: expected an expression, but found the end of the text\ns +\n   ^");
  CHECK(score("s + )") == "score:1:5: error: expected an expression, but found \")\"\ns + )\n    ^");
  CHECK(score("(s + 1") == "score:1:7: error: expected \")\", but found the end of the text\n(s + 1\n      ^");
  CHECK(score("s s") == "score:1:3: error: expected the end of the text, but found \"s\"\ns s\n  ^");
  CHECK(score("s\n + @") == "score:2:4: error: unexpected character '@'\n + @\n   ^");
  CHECK(score("s\t\xc3") == "score:1:3: error: unexpected byte 0xc3\ns\t\xc3\n \t^");
  CHECK(mask("q = k") == "mask:1:3: error: \"=\" is not an operator of expressions; write == to compare\nq = k\n  ^");
  CHECK(score("s + foo") ==
        "score:1:5: error: unknown name \"foo\"; declare it as a scalar, index it as a tensor as in "
        "foo[h], or use s b h q k B H Sq Sk\ns + foo\n    ^");
  CHECK(mask("foo") == "mask:1:1: error: unknown name \"foo\"; declare it as a scalar, index it as a tensor as in "
                       "foo[h], or use b h q k B H Sq Sk\nfoo\n^");
  CHECK(mask("s > 0") == "mask:1:1: error: s is not visible in a mask, which sees b, h, q and k; give such keys the "
                         "score -inf by select(c, s, -inf)\ns > 0\n^");
  std::string known = "min max abs";
  for (const FunctionInfo &function : functions())
    known += " " + std::string(function.name);
  CHECK(score("foo(s)") ==
        "score:1:1: error: unknown function \"foo\"; the functions are " + known +
            " select clamped broadcast f32 i32 i64 bool causal causalBottomRight slidingWindow prefixLm chunked "
            "localGlobal strided fixed butterfly bigbird natten sta documents keyPadding alibi relativeBias bias cast "
            "searchsorted\nfoo(s)\n^");
  CHECK(score("exp") == "score:1:1: error: \"exp\" is a function; write exp(...)\nexp\n^");
  CHECK(score("s + clamped(q)") ==
        "score:1:5: error: clamped takes an element of a captured tensor, but got another expression; write "
        "clamped(t[k])\ns + clamped(q)\n    ^");
  CHECK(score("exp(s, s)") == "score:1:1: error: exp takes 1 argument, but got 2\nexp(s, s)\n^");
  CHECK(mask("localGlobal(1)") == "mask:1:1: error: localGlobal takes 2 or 3 arguments, but got 1\nlocalGlobal(1)\n^");
  CHECK(mask("bigbird(64, 1, 1, 1, 1, 1)") ==
        "mask:1:1: error: bigbird takes 4 or 5 arguments, but got 6\nbigbird(64, 1, 1, 1, 1, 1)\n^");
  CHECK(score("min(s)") == "score:1:1: error: min takes 2 arguments, but got 1\nmin(s)\n^");
  CHECK(score("s + (q < k)") ==
        "score:1:3: error: types that do not mix: f32 + bool; convert the bool with cast(x, i32) or choose by "
        "select(c, a, b)\ns + (q < k)\n  ^");
  CHECK(score("s + table[h]") == "score:1:5: error: tensor \"table\" has rank 2, but is used with 1 index; "
                                 "write table[i][j]\ns + table[h]\n    "
                                 "^");
  CHECK(score("s + table") == "score:1:5: error: tensor \"table\" has rank 2, but is used with 0 indices; "
                              "write table[i][j]\ns + table\n    ^");
  CHECK(score("w[h] + w[h, q]") == "score:1:8: error: tensor \"w\" has rank 1, but is used with 2 indices; "
                                   "write w[i]\nw[h] + w[h, q]\n       ^");
  CHECK(score("w[b,h,q,k,0]") ==
        "score:1:1: error: tensor \"w\" has rank 5, but must have rank 0 to 4; merge some of its "
        "dimensions\nw[b,h,q,k,0]\n^");
  CHECK(score("q[h]") == "score:1:1: error: tensor name \"q\" is reserved; use a name other than s b h q k B H "
                         "Sq Sk\nq[h]\n^");
  CHECK(score("n[h]") == "score:1:1: error: \"n\" is a scalar, but is indexed; leave the indices out\nn[h]\n^");
  CHECK(score("(s)[h]") ==
        "score:1:4: error: an expression cannot be indexed; only captured tensors can\n(s)[h]\n   ^");
  CHECK(score("(s)(h)") ==
        "score:1:4: error: an expression cannot be called; write an operator before \"(\"\n(s)(h)\n   ^");
  CHECK(score("1x") == "score:1:1: error: malformed number \"1x\"; write for example 1, 0xff, 5L, 1.5 or 1e-3\n1x\n^");
  CHECK(score("1.5.2") ==
        "score:1:1: error: malformed number \"1.5.2\"; write for example 1, 0xff, 5L, 1.5 or 1e-3\n1.5.2\n^");
  CHECK(score("0x") == "score:1:1: error: malformed number \"0x\"; write for example 1, 0xff, 5L, 1.5 or 1e-3\n0x\n^");
  CHECK(score("s + 010") == "score:1:5: error: integer literal 010 starts with 0, which is octal in C++; "
                            "leave the 0 out\ns + 010\n    ^");
  CHECK(score("s + 9223372036854775808") == "score:1:5: error: integer literal 9223372036854775808 does not "
                                            "fit in i64; use a float literal, for example "
                                            "1e20\ns + 9223372036854775808\n    ^");
  CHECK(score("s + 99999999999999999999") == "score:1:5: error: integer literal 99999999999999999999 does "
                                             "not fit in i64; use a float literal, for example "
                                             "1e20\ns + 99999999999999999999\n    ^");
  CHECK(score("s + -9223372036854775808") == "s + -9.223372e+18");
  CHECK(score("s + 1e40") ==
        "score:1:5: error: float literal 1e40 does not fit in f32; use inf or 0.0\ns + 1e40\n    ^");
  CHECK(score("q < k") == "score:1:1: error: score of variant \"v\" is bool, but must be a number; use mask, or "
                          "select(c, a, b)\nq < k\n^");
  CHECK(mask(" q - k") == "mask:1:2: error: mask of variant \"v\" is i32, but must be bool; compare it, for "
                          "example x != 0\n q - k\n ^");
  CHECK(mask("alibi(table)") ==
        "mask:1:1: error: alibi is a score, but this is a mask; use it in the score\nalibi(table)\n^");
  CHECK(score("alibi(table)") ==
        "score:1:1: error: tensor \"table\" of alibi has rank 2, but must have rank 1; declare "
        "it with that rank\nalibi(table)\n^");
  CHECK(score("alibi(2)") == "score:1:7: error: expected the name of a captured tensor as the argument of alibi, but "
                             "found \"2\"\nalibi(2)\n      ^");
  CHECK(score("cast(s, half)") == "score:1:9: error: expected a type: f32, i32, i64 or bool, but found "
                                  "\"half\"\ncast(s, half)\n        ^");
  CHECK(score("cast(s, bf16)") == "score:1:1: error: cast to bf16, but values are f32, i32, i64 or bool; use "
                                  "f32\ncast(s, bf16)\n^");
  CHECK(score("let = 3; s") == "score:1:5: error: expected a name after let, but found \"=\"\nlet = 3; s\n    ^");
  CHECK(score("let q = 3; s") == "score:1:5: error: let name \"q\" is reserved; use a name other than s b h q k "
                                 "B H Sq Sk\nlet q = 3; s\n    ^");
  CHECK(score("let a = 3; let a = 4; s") == "score:1:16: error: let name \"a\" is already defined; use "
                                            "another name\nlet a = 3; let a = 4; s\n              "
                                            " ^");
  CHECK(score("s ? s : s") == "score:1:3: error: the condition of select is f32, but must be bool; compare it, for "
                              "example x != 0\ns ? s : s\n  ^");
  CHECK(score("q < k ? s") ==
        "score:1:10: error: expected \":\", but found the end of the text\nq < k ? s\n         ^");
}

TEST_CASE("a name that is nearly right is answered with the one that was meant") {
  CHECK(score("softcp(s, 30)") ==
        "score:1:1: error: unknown function \"softcp\"; did you mean softcap?\nsoftcp(s, 30)\n^");
  CHECK(score("s + tabel(h, q)") ==
        "score:1:5: error: unknown function \"tabel\"; did you mean table?\ns + tabel(h, q)\n    ^");
  CHECK(score("s * flaq") == "score:1:5: error: unknown name \"flaq\"; did you mean flag?\ns * flaq\n    ^");
  CHECK(
      score("let decay = 2; s * decya") ==
      "score:1:20: error: unknown name \"decya\"; did you mean decay?\nlet decay = 2; s * decya\n                   ^");
  CHECK(score("S") == "score:1:1: error: unknown name \"S\"; did you mean s?\nS\n^");
  CHECK(mask("k < sq") == "mask:1:5: error: unknown name \"sq\"; did you mean Sq?\nk < sq\n    ^");
  CHECK(mask("casual") == "mask:1:1: error: unknown name \"casual\"; did you mean causal(...)?\ncasual\n^");
  CHECK(mask("kk < q").find("did you mean") == std::string::npos);
}

TEST_CASE("what other languages write is answered with what stands for it") {
  CHECK(mask("q => k") == "mask:1:3: error: \"=>\" is not part of expressions; write >=\nq => k\n  ^");
  CHECK(mask("q =< k") == "mask:1:3: error: \"=<\" is not part of expressions; write <=\nq =< k\n  ^");
  CHECK(mask("q <> k") == "mask:1:3: error: \"<>\" is not part of expressions; write !=\nq <> k\n  ^");
  CHECK(score("s ** 2") == "score:1:3: error: \"**\" is not part of expressions; write pow(x, y)\ns ** 2\n  ^");
  CHECK(score("s * (q // 2)") == "score:1:8: error: \"//\" is not part of expressions; write /, which truncates "
                                 "integers towards zero\ns * (q // 2)\n       ^");
  CHECK(mask("q >= k and k > 0") ==
        "mask:1:8: error: \"and\" is not part of expressions; write &&\nq >= k and k > 0\n       ^");
  CHECK(mask("q >= k or h > 0") ==
        "mask:1:8: error: \"or\" is not part of expressions; write ||\nq >= k or h > 0\n       ^");
  CHECK(mask("q >= k && not (h == 0)") ==
        "mask:1:11: error: \"not\" is not part of expressions; write !\nq >= k && not (h == 0)\n          ^");
  CHECK(mask("not flag") == "mask:1:1: error: \"not\" is not part of expressions; write !\nnot flag\n^");
  CHECK(mask("q is k") == "mask:1:3: error: \"is\" is not part of expressions; write ==\nq is k\n  ^");
  CHECK(mask("q xor k") == "mask:1:3: error: \"xor\" is not part of expressions; write ^\nq xor k\n  ^");
  CHECK(mask("q mod 2 == 0") == "mask:1:3: error: \"mod\" is not part of expressions; write %\nq mod 2 == 0\n  ^");
  const std::string choice = "is not part of expressions; write select(c, a, b) for a if c else b\n";
  CHECK(score("s if q >= k else 0") == "score:1:3: error: \"if\" " + choice + "s if q >= k else 0\n  ^");
  CHECK(score("if (q >= k) s") == "score:1:1: error: \"if\" " + choice + "if (q >= k) s\n^");
  CHECK(score("(q >= k) else s") == "score:1:10: error: \"else\" " + choice + "(q >= k) else s\n         ^");
  CHECK(score("q < 1 ? s : elif") == "score:1:13: error: \"elif\" is not part of expressions; write select(c, a, b), "
                                     "where b may be another select\nq < 1 ? s : elif\n            ^");
  CHECK(score("where(q >= k, s, 0)") ==
        "score:1:1: error: \"where\" is not part of expressions; write select(c, a, b)\nwhere(q >= k, s, 0)\n^");
  CHECK(score("lambda s: s") == "score:1:1: error: \"lambda\" is not part of expressions; write its body alone, in "
                                "which the names have their meaning\nlambda s: s\n^");
  CHECK(score("return s") ==
        "score:1:1: error: \"return\" is not part of expressions; write the value alone\nreturn s\n^");
  CHECK(mask("True") == "mask:1:1: error: \"True\" is not part of expressions; write true\nTrue\n^");
  CHECK(mask("False") == "mask:1:1: error: \"False\" is not part of expressions; write false\nFalse\n^");
  CHECK(score("None") == "score:1:1: error: \"None\" is not part of expressions; write -inf for the score of a hidden "
                         "key, or leave the text out\nNone\n^");
  CHECK(score("s * float(q)") ==
        "score:1:5: error: \"float\" is not part of expressions; write f32(x)\ns * float(q)\n    ^");
  CHECK(score("s * int(s)") == "score:1:5: error: \"int\" is not part of expressions; write i32(x)\ns * int(s)\n    ^");
  // Only what is not declared is foreign.
  CHECK(score("let where = 2; s * where") == "s * 2.0");
  CHECK(score("is[h] + s") == "is[h] + s");
}

TEST_CASE("mistakes of precedence name what was meant") {
  CHECK(
      mask("0 <= q - k < 5") ==
      "mask:1:12: error: types that do not mix: bool < i32; a < b < c is a < b && b < c\n0 <= q - k < 5\n           ^");
  CHECK(mask("b == h == q") ==
        "mask:1:8: error: types that do not mix: bool == i32; a == b == c is a == b && b == c\nb == h == q\n       ^");
  CHECK(mask("q & 1 == 0") ==
        "mask:1:3: error: types that do not mix: i32 & bool; comparisons come before &: write (x & y) == z, or "
        "join bools\nq & 1 == 0\n  ^");
  CHECK(mask("q >= k | h") ==
        "mask:1:8: error: types that do not mix: bool | i32; comparisons come before |: write (x | y) == z, or "
        "join bools\nq >= k | h\n       ^");
  CHECK(score("s ^ 2") ==
        "score:1:3: error: operator ^ takes integers, but got f32 ^ i32; a power is pow(x, y)\ns ^ 2\n  ^");
}

TEST_CASE("errors of declarations, to the letter") {
  CHECK(parse({.tensors = {{"s", f32, 1}}}) == "error: tensor name \"s\" is reserved; use a name other than "
                                               "s b h q k B H Sq Sk");
  CHECK(parse({.tensors = {{"t", f32, 7}}}) ==
        "error: tensor \"t\" has rank 7, but must have rank 0 to 4; merge some of its dimensions");
  CHECK(parse({.tensors = {{"t", f32, 1}, {"t", f32, 1}}}) ==
        "error: tensor \"t\" is declared twice; leave one declaration out");
  CHECK(parse({.scalars = {{"c", f32}, {"c", f32}}}) ==
        "error: scalar \"c\" is declared twice; leave one declaration out");
  CHECK(parse({.tensors = {{"t", f32, 1}}, .scalars = {{"t", f32}}}) ==
        "error: \"t\" is declared as a tensor and as a scalar; use one name for each");
  CHECK(parse({.scalars = {{"c", f16}}}) == "error: scalar \"c\" is f16, but must be f32, i32, i64 or bool; use f32");
  CHECK(parse({.scale = NAN}) == "error: scale nan is not finite; leave it out for 1 / sqrt(head dim)");
  CHECK(parse({.dropout = 1.0f}) ==
        "error: dropout probability 1 is outside [0, 1); use the fraction to drop, for example 0.1");
  CHECK(parse({}, "a b") ==
        "error: variant name \"a b\" is not an identifier; use letters, digits and underscores, and "
        "no digit first");
  CHECK(parse({.blocks = TextVariant::Blocks{"p", 8, 16}}) ==
        "error: block rows 8 is not a positive multiple of 16; use 64 or 128");
}

TEST_CASE("text of any size and nesting is refused, not crashed on") {
  auto first = [](const std::string &text) { return text.substr(0, text.find('\n')); };
  constexpr int many = 100000;
  std::string opened(many, '(');
  CHECK(first(score(opened + "s" + std::string(many, ')'))) ==
        "score:1:801: error: expression is nested too deeply; name its parts with let");
  CHECK(first(score(std::string(many, '-') + "s")) ==
        "score:1:99501: error: expression is more than 500 operations deep; use fewer terms or a captured "
        "tensor");
  std::string sum = "s", choice, call, index, power;
  for (int i = 0; i < many; ++i) {
    sum += "+s";
    choice += "q<k?s:";
    call += "exp(";
    index += "t[";
    power += "s-(";
  }
  CHECK(score(sum).find("more than 500 operations deep") != std::string::npos);
  CHECK(score(choice + "s").find("nested too deeply") != std::string::npos);
  CHECK(score(call).find("nested too deeply") != std::string::npos);
  CHECK(score(index).find("nested too deeply") != std::string::npos);
  CHECK(score(power).find("nested too deeply") != std::string::npos);
  // The excerpt of a long line is a window with the caret inside.
  CHECK(score(sum).size() < 400);
}

TEST_CASE("the time to read a text grows with its length alone") {
  std::string text;
  for (int i = 0; i < 40000; ++i)
    text += "let a" + std::to_string(i) + " = s * 1.5;" + (i % 2 ? "\n" : " ");
  auto begin = std::chrono::steady_clock::now();
  CHECK(score(text + "a7") == "s * 1.5");
  CHECK(score(text + "a").starts_with("score:20001:1: error: unknown name \"a\""));
  // With a walk over the text for each operation it takes a minute.
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

TEST_CASE("the deepest graph's text is read back") {
  Expr left = inputScore(), right = inputScore(), nested = inputScore();
  for (unsigned i = 2; i <= Node::maxDepth; ++i) {
    left = left + 1;
    right = 1 - right;
    nested = exp(nested);
  }
  for (const Expr &deep : {left, right, nested}) {
    REQUIRE(!deep.error());
    CHECK(score(text(deep)) == text(deep));
  }
}
