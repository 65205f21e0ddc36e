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

/// The first line of the error, without the text and its caret.
std::string fault(std::string_view json) {
  const std::string text = read(json);
  return text.substr(0, text.find('\n'));
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
  CHECK(read("{\"name\": \"v\",\n  \"scale\": }") ==
        "json:2:12: error: variant is not valid JSON from here on\n  \"scale\": }\n           ^");
  CHECK(read("") == "json:1:1: error: variant is not valid JSON from here on\n\n^");
  CHECK(read("[1]") == "json:1:1: error: variant is [1], but must be an object\n[1]\n^");
  // Deeper than a stack.
  for (auto [open, close] : {std::pair{"[", "]"}, {"{\"a\": ", "}"}}) {
    auto nested = [&, open = open, close = close](int levels) {
      std::string text = R"({"name": )", end;
      for (int i = 1; i < levels; ++i) {
        text += open;
        end += close;
      }
      return fault(text + "1" + end + "}");
    };
    const std::string tooDeep =
        "error: variant nests more than 100 levels deep, but its fields take 4; leave out the rest";
    CHECK(nested(100).starts_with("json:1:10: error: /name is "));
    CHECK(nested(101).ends_with(tooDeep));
    CHECK(nested(200000) == nested(101));
  }
  CHECK(read("{}") == "json:1:1: error: /name is missing\n{}\n^");
  CHECK(fault(R"({"name": 1})") == "json:1:10: error: /name is 1, but must be a string");
  CHECK(fault(R"({"name": "v", "colour": 1})") ==
        "json:1:15: error: /colour is not a field; the fields are name scale "
        "score mask dropout precise qOffset blocks keyLengths queryLengths sequences keyPages "
        "normaliser sink tensors scalars");
  CHECK(fault(R"({"name": "v", "scale": "x"})") ==
        "json:1:24: error: /scale is \"x\", but must be a number that fits in f32");
  CHECK(fault(R"({"name": "v", "scale": 1e40})") ==
        "json:1:24: error: /scale is 1e+40, but must be a number that fits in f32");
  CHECK(fault(R"({"name": "v", "score": []})") == "json:1:24: error: /score is [], but must be a string");
  CHECK(fault(R"({"name": "v", "mask": null})") == "json:1:23: error: /mask is null, but must be a string");
  CHECK(fault(R"({"name": "v", "precise": 1})") == "json:1:26: error: /precise is 1, but must be true or false");
  CHECK(fault(R"({"name": "v", "qOffset": "yes"})") ==
        "json:1:26: error: /qOffset is \"yes\", but must be true or false");
  CHECK(fault(R"({"name": "v", "dropout": true})") ==
        "json:1:26: error: /dropout is true, but must be a number that fits in f32");
  CHECK(read(R"({"name": "v", "dropout": 1})") ==
        "error: dropout probability 1 is outside [0, 1); use the fraction to drop, for example 0.1");
  CHECK(fault(R"({"name": "v", "tensors": []})") == "json:1:26: error: /tensors is [], but must be an object");
  CHECK(fault(R"({"name": "v", "tensors": {"t": 1}})") == "json:1:32: error: /tensors/t is 1, but must be an object");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "f64", "rank": 1}}})") ==
        "json:1:42: error: /tensors/t/dtype is \"f64\", but must be one of f32 f16 bf16 i32 i64 bool; write f32 and "
        "convert the "
        "data: kernels compute in float32");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "float16", "rank": 1}}})") ==
        "json:1:42: error: /tensors/t/dtype is \"float16\", but must be one of f32 f16 bf16 i32 i64 bool; write f16");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "u8", "rank": 1}}})") ==
        "json:1:42: error: /tensors/t/dtype is \"u8\", but must be one of f32 f16 bf16 i32 i64 bool");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": 5, "rank": 1}}})") ==
        "json:1:42: error: /tensors/t/dtype is 5, but must be one of f32 f16 bf16 i32 i64 bool");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rank": "x"}}})") ==
        "json:1:57: error: /tensors/t/rank is \"x\", but must be an integer from 0 to 4");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rank": -1}}})") ==
        "json:1:57: error: /tensors/t/rank is -1, but must be an integer from 0 to 4");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rank": 5}}})") ==
        "json:1:57: error: /tensors/t/rank is 5, but must be an integer from 0 to 4");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "f32"}}})") ==
        "json:1:32: error: /tensors/t/rank is missing");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"type": "f32"}}})") ==
        "json:1:33: error: /tensors/t/type is not a field; did you mean dtype?");
  CHECK(fault(R"({"name": "v", "scalars": 1})") == "json:1:26: error: /scalars is 1, but must be an object");
  CHECK(read(R"({"name": "v", "scalars": {"c": {"dtype": "f16"}}})") ==
        "error: scalar \"c\" is f16, but must be f32, i32, i64 or bool; use f32");
  const Variant packed = Variant("v").sequences(captured("first_q", i32, rank(1)), captured("first_k", i32, rank(1)));
  Expected<Variant> again = Variant::fromJson(packed.toJson());
  REQUIRE(again);
  CHECK(again->canonical() == packed.canonical());
  const Variant queries = Variant("v").sequences(captured("first_q", i32, rank(1)));
  again = Variant::fromJson(queries.toJson());
  REQUIRE(again);
  CHECK(again->canonical() == queries.canonical());
  CHECK(queries.canonical() != Variant("v").canonical());
  CHECK(fault(R"({"name": "v", "sequences": {"queries": "n", "keys": ""}})")
            .ends_with("/sequences/keys is \"\", but must be the name of a tensor"));
  CHECK(fault(R"({"name": "v", "sequences": {"keys": "n"}})") == "json:1:28: error: /sequences/queries is missing");
  CHECK(fault(R"({"name": "v", "keyLengths": 3})") == "json:1:29: error: /keyLengths is 3, but must be a string");
  CHECK(fault(R"({"name": "v", "keyPages": {"tensor": "p"}})") == "json:1:27: error: /keyPages/size is missing");
  CHECK(fault(R"({"name": "v", "keyPages": {"tensor": "p", "size": "x"}})") ==
        "json:1:51: error: /keyPages/size is \"x\", but must be a positive multiple of 16");
  CHECK(fault(R"({"name": "v", "blocks": {"tensor": "p", "rows": 64}})") ==
        "json:1:25: error: /blocks/columns is missing");
  CHECK(fault(R"({"name": "v", "blocks": {"tensor": "p", "rows": 1.5, "columns": 64}})") ==
        "json:1:49: error: /blocks/rows is 1.5, but must be a positive multiple of 16");
  CHECK(read(R"({"name": "v", "score": "s +"})") ==
        "score:1:4: error: expected an expression, but found the end of the text\ns +\n   ^");
  CHECK(fault(std::string(100, '[')) == "json:1:100: error: variant is not valid JSON from here on");
  CHECK(fault(std::string(100000, '[')) ==
        "json:1:101: error: variant nests more than 100 levels deep, but its fields take 4; leave out the rest");
  CHECK(read("{\"name\": \"\xff\"}").starts_with("json:1:"));
}

TEST_CASE("errors of JSON show where they are") {
  const char *text = R"({
  "name": "v",
  "scor": "s + 1",
  "mask": "q >= k"
})";
  CHECK(read(text) == "json:3:3: error: /scor is not a field; did you mean score?\n"
                      "  \"scor\": \"s + 1\",\n"
                      "  ^");
  CHECK(read(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rnk": 1}}})") ==
        "json:1:49: error: /tensors/t/rnk is not a field; did you mean rank?\n"
        "{\"name\": \"v\", \"tensors\": {\"t\": {\"dtype\": \"f32\", \"rnk\": 1}}}\n"
        "                                                ^");
  // Behind numbers and nested values, and where a byte order mark begins the text.
  CHECK(fault("{\"name\":\"v\" , \"scale\":1.5e0 ,\"blocks\":{\"tensor\":\"p\",\"rows\":64,\"columns\":64},\"precise\" "
              ": 7}") == "json:1:89: error: /precise is 7, but must be true or false");
  CHECK(fault("\xef\xbb\xbf{\"name\": 1}") == "json:1:13: error: /name is 1, but must be a string");
}

TEST_CASE("a key of JSON is given once") {
  CHECK(read("{\"name\": \"a\",\n \"name\": \"b\"}") ==
        "json:2:2: error: /name is given twice; leave one out\n \"name\": \"b\"}\n ^");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rank": 1, "rank": 2}}})") ==
        "json:1:60: error: /tensors/t/rank is given twice; leave one out");
  CHECK(fault(R"({"name": "v", "tensors": {"t": {"dtype": "f32", "rank": 1}, "t": {"dtype": "f32", "rank": 1}}})") ==
        "json:1:61: error: /tensors/t is given twice; leave one out");
  // One path, two places: no key is given twice.
  CHECK(fault(R"({"name": "v", "tensors/t": 1, "tensors": {"t": 1}})")
            .starts_with("json:1:15: error: /tensors/t is not a field"));
}
