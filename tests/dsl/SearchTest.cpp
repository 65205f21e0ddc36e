//===- SearchTest.cpp - searchsorted of a captured vector -------------------===//
#include "attune/attune.h"
#include "dsl/Program.h"
#include "dsl/Ranges.h"
#include "tests/dsl/Expressions.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace attune;
using namespace attune::tests;

namespace {

const Captured offsets = captured("offsets", i32, rank(1)), longOffsets = captured("wide", i64, rank(1)),
               levels = captured("levels", f16, rank(1));

/// The mask printed back, or the error.
std::string maskText(std::string source) {
  auto variant = Variant::parse("v", {.mask = std::move(source),
                                      .tensors = {{"offsets", i32, 1},
                                                  {"wide", i64, 1},
                                                  {"levels", f16, inferRank},
                                                  {"table", f32, 2},
                                                  {"flags", boolean, 1}},
                                      .scalars = {{"n", i32}}});
  return variant ? text(*variant->maskExpr()) : variant.error().text();
}

/// What the interpreter of the host finds for each of `xs` in `vector`.
template <typename T>
std::vector<int64_t> found(DType dtype, std::vector<T> vector, std::vector<T> xs, SearchSide side) {
  const Captured searched = captured("t", dtype, rank(1)), given = captured("xs", dtype, rank(1));
  Variant variant("v");
  variant.mask([&](Index, Index, Index, Index k) { return searchsorted(searched, given[k], side) == 0; });
  dsl::Bindings bindings;
  bindings.tensors["t"] = Tensor::contiguous(vector.data(), dtype, {int64_t(vector.size())});
  bindings.tensors["xs"] = Tensor::contiguous(xs.data(), dtype, {int64_t(xs.size())});
  bindings.extents = {1, 1, 1, int64_t(xs.size())};
  const dsl::Program program(variant, bindings);
  int search = 0;
  while (program[search].node->op != Op::Search)
    ++search;
  dsl::Ranges ranges(program, {dsl::Range{0, 0}, {0, 0}, {0, 0}, {0, int64_t(xs.size()) - 1}});
  dsl::Evaluator row(program, program.needsOf(std::array{search}));
  row.startRow(0, 0, 0);
  row.run(0, int64_t(xs.size()), nullptr);
  std::vector<int64_t> result(row.integers(search), row.integers(search) + xs.size());
  CHECK(ranges.of(search).low == 0);
  CHECK(ranges.of(search).high == int64_t(vector.size()));
  return result;
}

} // namespace

TEST_CASE("searchsorted is an integer of one vector, one number and a side") {
  const Expr left = searchsorted(offsets, q), right = searchsorted(offsets, q, SearchSide::Right);
  CHECK(left.type() == i32);
  CHECK(left.op() == Op::Search);
  CHECK(left.node().side == SearchSide::Left);
  CHECK(right.node().side == SearchSide::Right);
  CHECK(left.node().rank == 1);
  CHECK(left.where().line != 0);
  CHECK(text(left + right) == "searchsorted(offsets, q) + searchsorted(offsets, q, right)");
  CHECK(canonical(left + right) == "%0 = coordinate i32 q\n%1 = searchsorted i32 offsets i32 left %0\n"
                                   "%2 = searchsorted i32 offsets i32 right %0\n%3 = add i32 %1 %2\n");
  CHECK(canonical(searchsorted(levels, 2)) == canonical(searchsorted(levels, 2.0f)));
  CHECK(searchsorted(longOffsets, 7).node().operands[0]->type == i64);
}

TEST_CASE("searchsorted refuses what it cannot compare") {
  CHECK(message(searchsorted(captured("table", f32, rank(2)), 1.0f)) ==
        "searchsorted takes a tensor of rank 1, but \"table\" has rank 2; bind the vector as a tensor of its own");
  CHECK(message(searchsorted(captured("flags", boolean, rank(1)), q)) ==
        "searchsorted takes a tensor of numbers, but \"flags\" is bool; bind it as i32");
  CHECK(message(searchsorted(longOffsets, q)) ==
        "searchsorted of \"wide\", whose elements are i64, takes an i64, but got i32; convert with cast(x, i64)");
  CHECK(message(searchsorted(levels, q)) ==
        "searchsorted of \"levels\", whose elements are f16, takes an f32, but got i32; convert with cast(x, f32)");
  CHECK(message(searchsorted(offsets, 0.5f)) ==
        "searchsorted of \"offsets\", whose elements are i32, takes an i32, but got f32; convert with cast(x, i32)");
  CHECK(message(searchsorted(offsets, q < k)) ==
        "searchsorted of \"offsets\", whose elements are i32, takes an i32, but got bool; convert with cast(x, i32)");
  CHECK(message(searchsorted(captured("1", i32, rank(1)), q)).starts_with("tensor name \"1\" is not an identifier"));
  CHECK(message(searchsorted(offsets, q + (q < k))).starts_with("types that do not mix"));
}

TEST_CASE("searchsorted in text") {
  for (const char *source :
       {"searchsorted(offsets, q, right) == searchsorted(offsets, k, right)", "searchsorted(offsets, q) > 0",
        "searchsorted(wide, i64(q)) < n", "searchsorted(levels, f32(q)) < searchsorted(levels, 3.0, right)"})
    CHECK(maskText(source) == source);
  CHECK(maskText("searchsorted(offsets, q, left) == 1") == "searchsorted(offsets, q) == 1");
  CHECK(maskText("searchsorted(offset, q) == 0") == "mask:1:14: error: unknown tensor \"offset\"; did you mean "
                                                    "offsets?\nsearchsorted(offset, q) == 0\n             ^");
  CHECK(
      maskText("searchsorted(q, offsets) == 0") ==
      "mask:1:14: error: unknown tensor \"q\"; declare the vector that searchsorted reads, for example as i32 of rank "
      "1\nsearchsorted(q, offsets) == 0\n             ^");
  CHECK(maskText("searchsorted(2, q) == 0") ==
        "mask:1:14: error: expected the name of a captured tensor as the first argument of searchsorted, but found "
        "\"2\"\nsearchsorted(2, q) == 0\n             ^");
  CHECK(
      maskText("searchsorted(offsets[q], k) == 0") ==
      "mask:1:21: error: searchsorted takes the whole tensor \"offsets\", not an element; write searchsorted(offsets, "
      "x)\nsearchsorted(offsets[q], k) == 0\n                    ^");
  CHECK(maskText("searchsorted(offsets) == 0") ==
        "mask:1:21: error: expected \",\", but found \")\"\nsearchsorted(offsets) == 0\n                    ^");
  CHECK(maskText("searchsorted(offsets, q, up) == 0") ==
        "mask:1:26: error: expected left or right, but found \"up\"\nsearchsorted(offsets, q, up) == 0\n"
        "                         ^");
  CHECK(maskText("searchsorted(offsets, q, right=true) == 0") ==
        "mask:1:31: error: arguments have no names; write searchsorted(offsets, x, right)\n"
        "searchsorted(offsets, q, right=true) == 0\n                              ^");
  CHECK(maskText("q < searchsorted(wide, q)") ==
        "mask:1:5: error: searchsorted of \"wide\", whose elements are i64, takes an i64, but got i32; convert with "
        "cast(x, i64)\nq < searchsorted(wide, q)\n    ^");
  CHECK(maskText("searchsorted(table, 1.0) == 0") ==
        "mask:1:1: error: searchsorted takes a tensor of rank 1, but \"table\" has rank 2; bind the vector as a tensor "
        "of its own\nsearchsorted(table, 1.0) == 0\n^");
  CHECK(maskText("searchsorted == 0") ==
        "mask:1:1: error: \"searchsorted\" is a function; write searchsorted(...)\nsearchsorted == 0\n^");
  CHECK(maskText("searchsort(offsets, q) == 0") == "mask:1:1: error: unknown function \"searchsort\"; did you mean "
                                                   "searchsorted?\nsearchsort(offsets, q) == 0\n^");
}

TEST_CASE("a variant that searches declares the vector, in JSON too") {
  auto variant = Variant::parse("packed", {.mask = "searchsorted(offsets, q, right) == searchsorted(offsets, k, right)",
                                           .tensors = {{"offsets", i32, 1}}});
  REQUIRE(variant);
  CHECK(variant->tensors() == std::vector<TensorDecl>{{"offsets", i32, 1}});
  auto again = Variant::fromJson(variant->toJson());
  REQUIRE(again);
  CHECK(again->canonical() == variant->canonical());
  Variant other =
      Variant("v").mask([](Index, Index, Index q, Index) { return searchsorted(offsets, q) == offsets[0]; });
  CHECK(!other.error());
  Variant mixed = Variant("v").mask(
      [](Index, Index, Index q, Index) { return searchsorted(offsets, q) == captured("offsets", i32, rank(2))[0][q]; });
  REQUIRE(mixed.error());
  CHECK(mixed.error()->message == "\"offsets\" is a tensor of i32 and rank 2 here, but a tensor of i32 and rank 1 "
                                  "elsewhere; use one name per tensor or scalar");
}

TEST_CASE("searchsorted gives what NumPy's gives") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  using Found = std::vector<int64_t>;
  const std::vector<int32_t> vector = {-3, 0, 2, 2, 2, 9}, xs = {-9, -3, 1, 2, 3, 9, 10};
  CHECK(found<int32_t>(i32, vector, xs, SearchSide::Left) == Found{0, 0, 2, 2, 5, 5, 6});
  CHECK(found<int32_t>(i32, vector, xs, SearchSide::Right) == Found{0, 1, 2, 5, 5, 6, 6});
  CHECK(found<int32_t>(i32, {}, xs, SearchSide::Right) == Found(7, 0));
  const int64_t far = int64_t(1) << 40;
  CHECK(found<int64_t>(i64, {-far, far}, {-far, 0, far}, SearchSide::Left) == Found{0, 1, 1});
  const std::vector<float> numbers = {-inf, 0.0f, 1.5f, inf, nan}, given = {-inf, -0.0f, 1.5f, inf, nan};
  CHECK(found<float>(f32, numbers, given, SearchSide::Left) == Found{0, 1, 2, 3, 4});
  CHECK(found<float>(f32, numbers, given, SearchSide::Right) == Found{1, 2, 3, 4, 5});
}
