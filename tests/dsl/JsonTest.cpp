//===- JsonTest.cpp - Variants as JSON --------------------------------------===//
#include "attune/attune.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace attune;

namespace {

std::string read(std::string_view json) {
  auto variant = Variant::fromJson(json);
  return variant ? "no error" : variant.error().text();
}

} // namespace

TEST_CASE("a variant with everything as JSON, and back") {
  auto slopes = captured("slopes", bf16, rank(1));
  auto ids = captured("ids", i32, rank(2));
  auto variant = Variant("everything")
                     .scale(0.1f)
                     .score([&](Score s, Index, Index h, Index q, Index k) {
                       return softcap(s, scalar("cap", f32)) + slopes[h] * (k - q);
                     })
                     .mask(causal() && documents(ids))
                     .dropout(0.1f)
                     .blocks(captured("pattern", boolean, rank(3)), 64, 128)
                     .keyLengths(captured("lengths", i32, rank(1)))
                     .queryLengths(captured("rows", i32, rank(1)))
                     .keyPages(captured("pages", i32, rank(2)), 32)
                     .precise()
                     .qOffset();
  REQUIRE(!variant.error());
  CHECK(variant.toJson() == R"json({
  "name": "everything",
  "scale": 0.1,
  "score": "cap * tanh(s / cap) + slopes[h] * (k - q)",
  "mask": "q >= k && ids[b, q] == ids[b, k]",
  "dropout": 0.1,
  "precise": true,
  "qOffset": true,
  "blocks": {
    "tensor": "pattern",
    "rows": 64,
    "columns": 128
  },
  "keyLengths": "lengths",
  "queryLengths": "rows",
  "keyPages": {
    "tensor": "pages",
    "size": 32
  },
  "tensors": {
    "slopes": {
      "dtype": "bf16",
      "rank": 1
    },
    "ids": {
      "dtype": "i32",
      "rank": 2
    },
    "pattern": {
      "dtype": "bool",
      "rank": 3
    },
    "lengths": {
      "dtype": "i32",
      "rank": 1
    },
    "rows": {
      "dtype": "i32",
      "rank": 1
    },
    "pages": {
      "dtype": "i32",
      "rank": 2
    }
  },
  "scalars": {
    "cap": {
      "dtype": "f32"
    }
  }
}
)json");
  auto again = Variant::fromJson(variant.toJson());
  REQUIRE(again);
  CHECK(again->canonical() == variant.canonical());
  CHECK(again->toJson() == variant.toJson());
  CHECK(again->scale() == variant.scale());
  CHECK(again->dropoutProbability() == variant.dropoutProbability());
}

TEST_CASE("only the name is required") {
  auto variant = Variant::fromJson(R"({"name": "plain"})");
  REQUIRE(variant);
  CHECK(variant->canonical() == Variant("plain").canonical());
}

TEST_CASE("scales come back to the bit") {
  for (float scale : {1.0f / std::sqrt(128.0f), 0.1f, 1e-30f, 3.4e38f, -0.0f, 1.17549435e-38f, 1e-45f}) {
    auto variant = Variant::fromJson(Variant("v").scale(scale).toJson());
    REQUIRE(variant);
    CHECK(variant->canonical() == Variant("v").scale(scale).canonical());
  }
}

TEST_CASE("a generated let does not meet a tensor's name") {
  Expr x = inputScore();
  for (int i = 0; i < 20; ++i)
    x = x + x;
  auto v0 = captured("v0", f32, rank(1));
  auto v1 = captured("v1", f32, rank(1));
  auto variant = Variant("v")
                     .score([&](Score, Index, Index h, Index, Index) { return x + v0[h]; })
                     .mask([&](Index, Index, Index, Index k) { return v1[k] > 0; });
  auto again = Variant::fromJson(variant.toJson());
  REQUIRE(again);
  CHECK(again->canonical() == variant.canonical());
}

TEST_CASE("errors of JSON, to the letter") {
  CHECK(read("{\"name\": \"v\",\n  \"scale\": }") == "json:2:12: error: variant is not valid JSON from here on");
  CHECK(read("") == "json:1:1: error: variant is not valid JSON from here on");
  CHECK(read("[1]") == "error: variant is [1], but must be an object");
  // Deeper than a stack.
  for (auto [open, close] : {std::pair{"[", "]"}, {"{\"a\": ", "}"}}) {
    auto nested = [&, open = open, close = close](int levels) {
      std::string text = R"({"name": )", end;
      for (int i = 1; i < levels; ++i) {
        text += open;
        end += close;
      }
      return read(text + "1" + end + "}");
    };
    CHECK(nested(100).starts_with("error: /name is "));
    CHECK(nested(101) == "error: variant nests more than 100 levels deep, but its fields take 4; leave out the rest");
    CHECK(nested(200000) == nested(101));
  }
  CHECK(read("{}") == "error: /name is missing");
  CHECK(read(R"({"name": 1})") == "error: /name is 1, but must be a string");
  CHECK(read(R"({"name": "v", "colour": 1})") ==
        "error: /colour is not a field; the fields are name scale "
        "score mask dropout precise qOffset blocks keyLengths queryLengths keyPages "
        "normaliser sink tensors scalars");
  CHECK(read(R"({"name": "v", "scale": "x"})") == "error: /scale is \"x\", but must be a number that fits in f32");
  CHECK(read(R"({"name": "v", "scale": 1e40})") == "error: /scale is 1e+40, but must be a number that fits in f32");
  CHECK(read(R"({"name": "v", "score": []})") == "error: /score is [], but must be a string");
  CHECK(read(R"({"name": "v", "mask": null})") == "error: /mask is null, but must be a string");
  CHECK(read(R"({"name": "v", "precise": 1})") == "error: /precise is 1, but must be true or false");
  CHECK(read(R"({"name": "v", "qOffset": "yes"})") == "error: /qOffset is \"yes\", but must be true or false");
  CHECK(read(R"({"name": "v", "dropout": true})") == "error: /dropout is true, but must be a number that fits in f32");
  CHECK(read(R"({"name": "v", "dropout": 1})") ==
        "error: dropout probability 1 is outside [0, 1); use the fraction to drop, for example 0.1");
  CHECK(read(R"({"name": "v", "tensors": []})") == "error: /tensors is [], but must be an object");
  CHECK(read(R"({"name": "v", "tensors": {"t": 1}})") == "error: /tensors/t is 1, but must be an object");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": "f64", "rank": 1}}})") ==
        "error: /tensors/t/dtype is \"f64\", but must be one of f32 f16 bf16 i32 i64 bool; write f32 and convert the "
        "data: kernels compute in float32");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": "float16", "rank": 1}}})") ==
        "error: /tensors/t/dtype is \"float16\", but must be one of f32 f16 bf16 i32 i64 bool; write f16");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": "u8", "rank": 1}}})") ==
        "error: /tensors/t/dtype is \"u8\", but must be one of f32 f16 bf16 i32 i64 bool");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": 5, "rank": 1}}})") ==
        "error: /tensors/t/dtype is 5, but must be one of f32 f16 bf16 i32 i64 bool");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rank": "x"}}})") ==
        "error: /tensors/t/rank is \"x\", but must be an integer from 0 to 4");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rank": -1}}})") ==
        "error: /tensors/t/rank is -1, but must be an integer from 0 to 4");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rank": 5}}})") ==
        "error: /tensors/t/rank is 5, but must be an integer from 0 to 4");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": "f32"}}})") == "error: /tensors/t/rank is missing");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"type": "f32"}}})") ==
        "error: /tensors/t/type is not a field; the fields are dtype rank");
  CHECK(read(R"({"name": "v", "scalars": 1})") == "error: /scalars is 1, but must be an object");
  CHECK(read(R"({"name": "v", "scalars": {"c": {"dtype": "f16"}}})") ==
        "error: scalar \"c\" is f16, but must be f32, i32, i64 or bool; use f32");
  CHECK(read(R"({"name": "v", "keyLengths": 3})") == "error: /keyLengths is 3, but must be a string");
  CHECK(read(R"({"name": "v", "keyPages": {"tensor": "p"}})") == "error: /keyPages/size is missing");
  CHECK(read(R"({"name": "v", "keyPages": {"tensor": "p", "size": "x"}})") ==
        "error: /keyPages/size is \"x\", but must be a positive multiple of 16");
  CHECK(read(R"({"name": "v", "blocks": {"tensor": "p", "rows": 64}})") == "error: /blocks/columns is missing");
  CHECK(read(R"({"name": "v", "blocks": {"tensor": "p", "rows": 1.5, "columns": 64}})") ==
        "error: /blocks/rows is 1.5, but must be a positive multiple of 16");
  CHECK(read(R"({"name": "v", "score": "s +"})") ==
        "score:1:4: error: expected an expression, but found the end of the text\ns +\n   ^");
  CHECK(read(std::string(100, '[')) == "json:1:100: error: variant is not valid JSON from here on");
  CHECK(read(std::string(100000, '[')) ==
        "error: variant nests more than 100 levels deep, but its fields take 4; leave out the rest");
  CHECK(read("{\"name\": \"\xff\"}").starts_with("json:1:"));
}
