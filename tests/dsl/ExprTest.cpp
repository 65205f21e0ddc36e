//===- ExprTest.cpp - Typing, constants, captured tensors, source lines -----===//
#include "attune/attune.h"
#include "tests/dsl/Expressions.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::tests;

namespace {

const Expr wide = scalar("wide", i64);
const Expr flag = scalar("flag", boolean);

} // namespace

TEST_CASE("types of operations") {
  CHECK((q + k).type() == i32);
  CHECK((q + wide).type() == i64);
  CHECK((q * s).type() == f32);
  CHECK((wide * s).type() == f32);
  CHECK((q + 1).type() == i32);
  CHECK((q + 1L).type() == i64);
  CHECK((q + 1u).type() == i32);
  CHECK((q + 0xffffffffu).type() == i64);
  CHECK((q + 0.5).type() == f32);
  CHECK((q < k).type() == boolean);
  CHECK((flag == (q < k)).type() == boolean);
  CHECK(exp(q).type() == f32);
  CHECK(pow(q, 2).type() == f32);
  CHECK(abs(q).type() == i32);
  CHECK((-wide).type() == i64);
  CHECK(min(q, s).type() == f32);
  CHECK(select(flag, q, 1.5f).type() == f32);
  CHECK(select(flag, flag, true).type() == boolean);
  CHECK((q & 3).op() == Op::BitAnd);
  CHECK((flag & (q < k)).op() == Op::And);
  CHECK((flag | (q < k)).op() == Op::Or);
  CHECK((flag ^ (q < k)).op() == Op::Ne);
  CHECK((q << 2).op() == Op::Shl);
  CHECK(cast(q < k, f32).type() == f32);
  CHECK(&cast(q, i32).node() == &q.node());
  CHECK(captured("t", bf16, rank(1))[h].operator Expr().type() == f32);
  CHECK(captured("t", boolean, rank(1))(h).type() == boolean);
  CHECK(keyLength().type() == i32);
}

TEST_CASE("promotion casts values and converts literals") {
  Expr sum = s + q;
  CHECK(sum.node().operands[1]->op == Op::Cast);
  Expr literal = s + 2;
  CHECK(literal.node().operands[1]->op == Op::Constant);
  CHECK(literal.node().operands[1]->type == f32);
  CHECK(literal.node().operands[1]->floatValue == 2.0f);
  Expr widened = wide + 2;
  CHECK(widened.node().operands[1]->op == Op::Constant);
  CHECK(widened.node().operands[1]->type == i64);
  CHECK(widened.node().operands[1]->intValue == 2);
  CHECK(Expr(-0.0f).node().floatValue == 0.0f);
  CHECK(std::signbit(Expr(-0.0f).node().floatValue));
}

TEST_CASE("captured tensors are read by chained and by listed indices") {
  auto t = captured("t", f32, rank(3));
  CHECK(canonical(t[h][q][k]) == canonical(t(h, q, k)));
  CHECK(canonical(t[h][q][k]) == canonical(t.at({h, q, k})));
  auto four = captured("t", f32, rank(4));
  CHECK(canonical(four[b][h][q][k]) == canonical(four(b, h, q, k)));
  auto single = captured("single", f16, rank(0));
  CHECK(single().node().rank == 0);
  CHECK(single().node().elementType == f16);
  CHECK(canonical(s + single) == canonical(s + single()));
}

TEST_CASE("compound assignment") {
  Expr x = s;
  x += 1;
  x *= 2;
  x -= k;
  x /= 4;
  CHECK(text(x) == "((s + 1.0) * 2.0 - k) / 4.0");
}

TEST_CASE("errors of expressions, to the letter") {
  auto table = captured("table", f32, rank(2));
  CHECK(message(flag + q) == "types that do not mix: bool + i32; convert the bool with cast(x, i32) or choose by "
                             "select(c, a, b)");
  CHECK(message(max(s, flag)) == "types that do not mix: max(f32, bool); convert the bool with cast(x, i32) or choose "
                                 "by select(c, a, b)");
  CHECK(message(select(flag, s, flag)) ==
        "types that do not mix: select(bool, f32, bool); convert the bool with cast(x, i32)");
  CHECK(message(flag < flag) == "operator < takes numbers, but got bool < bool; convert with cast(x, i32)");
  CHECK(message(min(flag, flag)) == "min takes numbers, but got min(bool, bool); convert with cast(x, i32)");
  CHECK(message(s % 2) == "operator % takes integers, but got f32 % i32; convert with cast(x, i32)");
  CHECK(message(q & s) == "operator & takes integers, but got i32 & f32; convert with cast(x, i32)");
  CHECK(message(q && flag) == "operator && takes bools, but got i32 && bool; compare the number, for example x != 0");
  CHECK(message(!q) == "operator ! takes a bool, but got i32; compare the number, for example x == 0");
  CHECK(message(~flag) == "operator ~ takes an integer, but got bool; use operator !");
  CHECK(message(~s) == "operator ~ takes an integer, but got f32; convert with cast(x, i32)");
  CHECK(message(-flag) == "operator - takes a number, but got bool; convert with cast(x, i32)");
  CHECK(message(exp(flag)) == "exp takes a number, but got bool; convert with cast(x, f32)");
  CHECK(message(select(q, s, s)) == "the condition of select is i32, but must be bool; compare it, for example x != 0");
  CHECK(message(cast(s, bf16)) == "cast to bf16, but values are f32, i32, i64 or bool; use f32");
  CHECK(message(table[h]) == "tensor \"table\" has rank 2, but is used with 1 index; write table[i][j]");
  CHECK(message(table[h][q][k]) == "tensor \"table\" has rank 2, but is used with 3 indices; write table[i][j]");
  CHECK(message(table(h, q, k, b, h)) == "tensor \"table\" has rank 2, but is used with 5 indices; write table[i][j]");
  CHECK(message(captured("one", f32, rank(0))[h]) ==
        "tensor \"one\" has rank 0, but is used with 1 index; write one()");
  CHECK(message(table[h][s]) ==
        "index 2 of tensor \"table\" is f32, but must be i32 or i64; convert with cast(x, i32)");
  CHECK(message(clamped(q + 1)) ==
        "clamped takes an element of a captured tensor, but got another expression; write clamped(t[k])");
  CHECK(message(broadcast(table[h][q] + 1)) ==
        "broadcast takes an element of a captured tensor, but got another expression; write broadcast(t[k])");
  CHECK(message(clamped(table[h])) == "tensor \"table\" has rank 2, but is used with 1 index; write table[i][j]");
  CHECK(message(captured("t", f32, rank(5))[h]) ==
        "tensor \"t\" has rank 5, but must have rank 0 to 4; merge some of its dimensions");
  CHECK(message(captured("2x", f32, rank(1))[h]) ==
        "tensor name \"2x\" is not an identifier; use letters, digits and underscores, and no digit first");
  CHECK(message(captured("Sq", f32, rank(1))[h]) ==
        "tensor name \"Sq\" is reserved; use a name other than s b h q k B H Sq Sk");
  CHECK(message(scalar("Sk", i32)) == "scalar name \"Sk\" is reserved; use a name other than s b h q k B H Sq Sk");
  CHECK(message(scalar("inf", f32)) ==
        "scalar name \"inf\" is a word of the text form; use a name other than true false inf nan let");
  CHECK(message(scalar("cap", bf16)) == "scalar \"cap\" is bf16, but must be f32, i32, i64 or bool; use f32");
  CHECK(message(s + 1e40) == "constant 1e+40 does not fit in f32; use at most 3.4e38 or infinity");
  CHECK(message(q + std::numeric_limits<uint64_t>::max()) ==
        "constant 18446744073709551615 does not fit in i64; use at most 9223372036854775807");
  Expr deep = s;
  for (int i = 0; i < 100000; ++i)
    deep = deep + 1;
  CHECK(message(deep) == "expression is more than 500 operations deep; use fewer terms or a captured tensor");
  // Where it is the conversion of an operand that is one too deep.
  for (int operations = 496; operations <= 501; ++operations) {
    Expr bits = q;
    for (int i = 0; i < operations; ++i)
      bits = ~bits;
    INFO(operations);
    for (const Expr &each : {s + bits, select(q < k, bits, s), sin(bits)})
      CHECK((each.error() ? message(each) : "") ==
            (operations <= 497 ? ""
                               : "expression is more than 500 operations deep; use fewer terms or a captured tensor"));
  }
}

TEST_CASE("every reserved name is refused, and no other") {
  for (const char *name : {"s", "b", "h", "q", "k", "B", "H", "Sq", "Sk", "true", "false", "inf", "nan", "let"}) {
    CHECK(captured(name, f32, rank(0))().error());
    CHECK(scalar(name, f32).error());
  }
  for (const char *name :
       {"v", "o", "lse", "keep", "do", "dq", "dk", "dv", "hkv", "group", "seed", "workspace", "tensors", "int"}) {
    CHECK(!captured(name, f32, rank(0))().error());
    CHECK(!scalar(name, f32).error());
  }
}

TEST_CASE("the first error is kept") {
  Expr first = flag + q;
  Expr later = exp(first * s) + (!q);
  CHECK(message(later) == message(first));
  CHECK(message(-select(flag, later, s)) == message(first));
  CHECK(message(captured("t", f32, rank(1))[first]) == message(first));
}

TEST_CASE("nodes and errors carry the user's line") {
  auto t = captured("t", f32, rank(2));
  unsigned line = __LINE__;
  Expr sum = s + q;              // line + 1
  Expr product = 2.0f * sum;     // line + 2
  Expr loaded = t[h][k];         // line + 3
  Expr called = t(h, k);         // line + 4
  Expr capped = softcap(s, 30);  // line + 5
  Expr wrong = flag + q;         // line + 6
  Expr indices = t[h] + 1;       // line + 7
  Expr constant = 5;             // line + 8
  Expr cap = scalar("cap", f32); // line + 9
  Expr length = keyLength();     // line + 10
  Expr both = flag && q;         // line + 11
  Expr either = (q < k) || 5;    // line + 12
  Expr negated = !(q - k);       // line + 13
  CHECK(sum.where().line == line + 1);
  CHECK(sum.where().file == __FILE__);
  CHECK(sum.where().column > 0);
  CHECK(product.where().line == line + 2);
  CHECK(loaded.where().line == line + 3);
  CHECK(called.where().line == line + 4);
  CHECK(capped.where().line == line + 5);
  CHECK(capped.node().operands[1]->where.line == line + 5);
  CHECK(capped.node().operands[1]->where.file == __FILE__);
  CHECK(wrong.error()->where.line == line + 6);
  CHECK(wrong.error()->where.file == __FILE__);
  CHECK(indices.error()->where.line == line + 7);
  CHECK(constant.where().line == line + 8);
  CHECK(cap.where().line == line + 9);
  CHECK(length.where().line == line + 10);
  CHECK(both.error()->where.line == line + 11);
  CHECK(either.error()->where.line == line + 12);
  CHECK(negated.error()->where.line == line + 13);
  CHECK(both.error()->message ==
        "operator && takes bools, but got bool && i32; compare the number, for example x != 0");
  CHECK(either.error()->message ==
        "operator || takes bools, but got bool || i32; compare the number, for example x != 0");
  // Neither the operator nor a coordinate has a place: the call's is reported.
  Variant nowhere = Variant("v").mask([](Index, Index, Index q, Index) { return !q; });
  CHECK(nowhere.error()->message == "operator ! takes a bool, but got i32; compare the number, for example x == 0");
  CHECK(nowhere.error()->where.line == __LINE__ - 2);
}

TEST_CASE("a location scope places expressions, their errors and a variant's mistakes") {
  Expr s = inputScore();
  Expr q = coordinate(Coordinate::Q);
  Variant variant("placed");
  {
    LocationScope outer({"model.py", 12, 9});
    Expr sum = s + q;
    CHECK(sum.where().text() == "model.py:12:9");
    CHECK((s && q).error()->where.text() == "model.py:12:9");
    {
      LocationScope inner({"model.py", 13, 0});
      CHECK((s * 2).where().text() == "model.py:13");
      CHECK(causal()(q, q, q, q).where().text() == "model.py:13");
      variant.mask([](Index, Index, Index q, Index) { return q; });
    }
    CHECK((s - q).where().text() == "model.py:12:9");
  }
  CHECK((s + q).where().file == __FILE__);
  CHECK(variant.error()->text() ==
        "model.py:13: error: mask of variant \"placed\" is i32, but must be bool; compare it, for example x != 0");
}

TEST_CASE("the text of errors and places") {
  CHECK(SourceLocation{"a.cpp", 3, 7}.text() == "a.cpp:3:7");
  CHECK(SourceLocation{"a.cpp", 3, 0}.text() == "a.cpp:3");
  CHECK(SourceLocation{}.text() == "");
  CHECK(Error{"it is wrong"}.text() == "error: it is wrong");
  CHECK(Error{"it is wrong", {"a.cpp", 3, 7}, "x y\n  ^"}.text() == "a.cpp:3:7: error: it is wrong\nx y\n  ^");
}

TEST_CASE("text has few parentheses and casts") {
  auto t = captured("t", f32, rank(2));
  CHECK(text(q - (k - h)) == "q - (k - h)");
  CHECK(text(q - k - h) == "q - k - h");
  CHECK(text((q + k) * h) == "(q + k) * h");
  CHECK(text(q + k * h) == "q + k * h");
  CHECK(text((q & 3) == 0) == "(q & 3) == 0");
  CHECK(text(-(q + k)) == "-(q + k)");
  CHECK(text(-Expr(5)) == "-(5)");
  CHECK(text(Expr(-5) * q) == "-5 * q");
  CHECK(text(q - Expr(-5)) == "q - -5");
  CHECK(text(!(q < k) || flag) == "!(q < k) || flag");
  CHECK(text(s + q) == "s + q");
  CHECK(text(q + s) == "q + s");
  CHECK(text(cast(q, f32) + cast(k, f32)) == "f32(q) + k");
  CHECK(text(cast(q, f32)) == "f32(q)");
  CHECK(text(exp(q)) == "exp(q)");
  CHECK(text(abs(cast(q, f32))) == "abs(f32(q))");
  CHECK(text(select(flag, s, 0)) == "select(flag, s, 0.0)");
  CHECK(text(t[h][q + 1]) == "t[h, q + 1]");
  CHECK(text(captured("one", f32, rank(0))()) == "one[]");
  CHECK(text(wide + 5L) == "wide + 5L");
  CHECK(text(wide + 5000000000L) == "wide + 5000000000");
  CHECK(text(s * 0.1f) == "s * 0.1");
  CHECK(text(s * 1e30f) == "s * 1e+30");
  CHECK(text(Expr(-INFINITY)) == "-inf");
}

TEST_CASE("a graph with shared parts stays small in canonical form and in text") {
  Expr x = s;
  for (int i = 0; i < 60; ++i)
    x = x + x;
  CHECK(canonical(x).size() < 60 * 40);
  CHECK(text(x).size() < 60 * 40);
  CHECK(text(s + s) == "s + s");
}

TEST_CASE("the canonical form does not depend on sharing") {
  Expr part = exp(s * 2);
  CHECK(canonical(part + part) == canonical(exp(s * 2) + exp(s * 2)));
  CHECK(canonical(part + part) == "%0 = input f32\n"
                                  "%1 = constant f32 0x40000000\n"
                                  "%2 = mul f32 %0 %1\n"
                                  "%3 = exp f32 %2\n"
                                  "%4 = add f32 %3 %3\n");
  CHECK(canonical(Expr(0.0f)) != canonical(Expr(-0.0f)));
  CHECK(canonical(q + k) != canonical(k + q));
}

TEST_CASE("every operation has its own name") {
  std::vector<std::string_view> names;
  for (int op = 0; op <= int(Op::Invalid); ++op)
    names.push_back(name(Op(op)));
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(name(Op::Invalid) == "invalid");
  CHECK(name(Op::Shr) == "shr");
}

TEST_CASE("what an index outside a tensor means") {
  auto t = captured("t", f16, rank(2));
  Expr plain = t[h][k], either = broadcast(t[h][k]), nearest = clamped(t[h][k]);
  CHECK(plain.node().indexRange == IndexRange::Checked);
  CHECK(either.node().indexRange == IndexRange::Broadcast);
  CHECK(nearest.node().indexRange == IndexRange::Clamped);
  CHECK(nearest.type() == f32);
  CHECK(nearest.where().line == plain.where().line);
  // The freer of two words holds, in either order.
  CHECK(clamped(either).node().indexRange == IndexRange::Clamped);
  CHECK(broadcast(nearest).node().indexRange == IndexRange::Clamped);
  CHECK(clamped(captured("one", f32, rank(0))).op() == Op::Load);
  CHECK(text(plain + either + nearest) == "t[h, k] + broadcast(t[h, k]) + clamped(t[h, k])");
  CHECK(canonical(plain + either) == "%0 = coordinate i32 h\n%1 = coordinate i32 k\n%2 = load f32 t f16 %0 %1\n"
                                     "%3 = load f32 t f16 broadcast %0 %1\n%4 = add f32 %2 %3\n");
  CHECK(canonical(nearest).find("load f32 t f16 clamped %0 %1\n") != std::string::npos);
}
