//===- NormaliserTest.cpp - Definitions, their errors and their forms -------===//
#include "attune/attune.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace attune;

namespace {

std::string normaliserMessage(const Normaliser &definition) {
  Expected<NormaliserExpressions> read = parseExpressions(definition);
  return read ? "no error" : read.error().text();
}

Normaliser with(std::string Normaliser::*field, std::string text) {
  Normaliser definition = normalisers::softmax();
  definition.name = "mine";
  definition.*field = std::move(text);
  return definition;
}

Normaliser ofTwo() {
  return {.name = "of_two",
          .statistics = {{"top", Reduction::Max, -INFINITY}, {"total", Reduction::Sum, 0.5f}},
          .base = "top == -inf ? 0 : top",
          .rescale = "exp2(top - base)",
          .p = "exp2(x - base) * bounds[h] * heat",
          .divisor = "total",
          .tensors = {{"bounds", bf16, 1}},
          .scalars = {{"heat", f32}}};
}

} // namespace

TEST_CASE("softmax is the normaliser of a variant that names none, and leaves its forms as they are") {
  const Variant plain("v"), named = Variant("v").normaliser(normalisers::softmax());
  CHECK(plain.normaliser() == normalisers::softmax());
  CHECK(plain.hasLse());
  CHECK(!named.normaliserExpressions());
  CHECK(named.canonical() == "attune variant 1\nname v\n");
  CHECK(named.toJson() == plain.toJson());
}

TEST_CASE("the normalisers that come with attune") {
  for (const Normaliser &each :
       {normalisers::softmax(), normalisers::softmaxWithSink("sinks"), normalisers::sigmoid(), normalisers::none()})
    CHECK(normaliserMessage(each) == "no error");
  const Variant sink = Variant("v").normaliser(normalisers::softmaxWithSink("sinks"));
  CHECK(sink.hasLse());
  CHECK(sink.tensors() == std::vector<TensorDecl>{{"sinks", f32, 1}});
  CHECK(!Variant("v").normaliser(normalisers::sigmoid()).hasLse());
  CHECK(!Variant("v").normaliser(normalisers::none()).hasLse());
  CHECK(normalisers::named("softmax", "logits")->tensors[0].name == "logits");
  CHECK(normalisers::named("softmin").error().message ==
        "normaliser \"softmin\" is not one of softmax, sigmoid and none");
  CHECK(normalisers::named("sigmoid", "sinks").error().message ==
        "normaliser sigmoid has no sink; leave out \"sinks\", or use softmax");
}

TEST_CASE("the canonical form holds the definition") {
  CHECK(Variant("v").normaliser(normalisers::none()).canonical() == "attune variant 1\n"
                                                                    "name v\n"
                                                                    "%0 = scalar f32 x\n"
                                                                    "%1 = constant f32 0xff800000\n"
                                                                    "%2 = eq bool %0 %1\n"
                                                                    "%3 = constant f32 0x0\n"
                                                                    "%4 = select f32 %2 %3 %0\n"
                                                                    "normaliser none\n"
                                                                    "p %4\n");
  const std::string canonical = Variant("v").normaliser(ofTwo()).canonical();
  for (const char *part :
       {"tensor bounds bf16 1\n", "scalar heat f32\n", "statistic top max 0xff800000\n",
        "statistic total sum 0x3f000000\n", "normaliser of_two\n", "base %", "rescale %", "divisor %"})
    CHECK(canonical.find(part) != std::string::npos);
  CHECK(canonical.find("lse %") == std::string::npos);
  Normaliser other = ofTwo();
  other.statistics[1].initial = 0;
  CHECK(Variant("v").normaliser(other).canonical() != canonical);
}

TEST_CASE("a definition goes through JSON") {
  for (const Normaliser &each :
       {normalisers::softmaxWithSink("logits"), normalisers::sigmoid(), normalisers::none(), ofTwo()}) {
    const Variant variant = Variant("v").mask(causal()).normaliser(each);
    REQUIRE(!variant.error());
    Expected<Variant> read = Variant::fromJson(variant.toJson());
    INFO(variant.toJson());
    REQUIRE(read);
    CHECK(read->normaliser() == each);
    CHECK(read->canonical() == variant.canonical());
  }
  auto field = [](const Normaliser &normaliser) { return Variant("v").normaliser(normaliser).toJson(); };
  CHECK(field(normalisers::sigmoid()) == "{\n  \"name\": \"v\",\n  \"normaliser\": \"sigmoid\"\n}\n");
  CHECK(field(normalisers::softmaxWithSink("sinks")).find("\"normaliser\": \"softmax\",\n  \"sink\": \"sinks\"") !=
        std::string::npos);
}

TEST_CASE("errors of a normaliser in JSON, to the letter") {
  auto read = [](const std::string &fields) {
    Expected<Variant> variant = Variant::fromJson("{\"name\": \"v\", " + fields + "}");
    if (variant)
      return std::string("no error");
    return variant.error().where.file == "json" ? "error: " + variant.error().message : variant.error().text();
  };
  CHECK(read(R"("normaliser": "softmin")") ==
        "error: /normaliser: normaliser \"softmin\" is not one of softmax, sigmoid and none");
  CHECK(read(R"("normaliser": 3)") == "error: /normaliser is 3, but must be a string");
  CHECK(read(R"("sink": "sinks")") == "error: /normaliser is missing");
  CHECK(read(R"("normaliser": {"p": "0"})") == "error: /normaliser/name is missing");
  CHECK(
      read(R"("normaliser": {"name": "n", "q": ""})") ==
      "error: /normaliser/q is not a field; the fields are name statistics base rescale p divisor lse tensors scalars");
  CHECK(read(R"("normaliser": {"name": "n", "p": "0", "statistics": {"m": {"reduce": "min"}}})") ==
        "error: /normaliser/statistics/m/reduce is \"min\", but must be \"max\" or \"sum\"");
  CHECK(read(R"("normaliser": {"name": "n", "p": "0", "statistics": {"m": {"reduce": "max", "initial": "low"}}})") ==
        "error: /normaliser/statistics/m/initial is \"low\", but must be a number that fits in f32");
  CHECK(read(R"("normaliser": {"name": "n", "p": "y"})") ==
        "error: p of normaliser \"n\": unknown name \"y\"; declare it as a scalar, index it as a tensor as in y[h], or "
        "use b h B H Sq Sk true false inf nan x\ny\n^");
}

TEST_CASE("mistakes in a definition, to the letter") {
  Normaliser definition = normalisers::softmax();
  definition.name = "two words";
  CHECK(normaliserMessage(definition) ==
        "error: normaliser \"two words\" is not named by an identifier; use letters, digits and "
        "underscores, and no digit first");
  CHECK(normaliserMessage({.name = "n"}) ==
        "error: normaliser \"n\" has no p; write what a score x weighs, for example .p = \"sigmoid(x)\"");
  CHECK(normaliserMessage({.name = "n", .statistics = {{"q"}}, .p = "0"}) ==
        "error: normaliser \"n\" has a statistic name \"q\" is reserved; use a name other than s b h q k B H Sq Sk");
  CHECK(normaliserMessage({.name = "n", .statistics = {{"x"}}, .p = "0"}) ==
        "error: normaliser \"n\" has a statistic \"x\", but x is what expressions call the score; use another name");
  CHECK(normaliserMessage({.name = "n", .statistics = {{"m"}, {"m"}}, .p = "0"}) ==
        "error: normaliser \"n\" has two statistics \"m\"; use one name for each");
  CHECK(normaliserMessage({.name = "n", .statistics = {{"m", Reduction::Sum, NAN}}, .p = "0"}) ==
        "error: normaliser \"n\" starts statistic \"m\" from NaN; use a number");
  CHECK(normaliserMessage(normalisers::softmaxWithSink("m")) ==
        "error: normaliser \"softmax_sink\" reads a tensor \"m\", but has a value of that name; use another name");
  CHECK(normaliserMessage(with(&Normaliser::base, "l")) ==
        "error: base of normaliser \"mine\": unknown name \"l\"; declare it as a scalar, index it as a tensor as in "
        "l[h], or use b h B H Sq Sk true false inf nan m\nl\n^");
  CHECK(normaliserMessage(with(&Normaliser::divisor, "l + k")) ==
        "error: divisor of normaliser \"mine\": k is not visible in a normaliser, which sees b h B H Sq Sk true false "
        "inf nan l m; what depends on positions belongs in the score\nl + k\n    ^");
  CHECK(normaliserMessage(with(&Normaliser::divisor, "l + sinks[h]")) ==
        "error: divisor of normaliser \"mine\" reads a tensor that is not among .tensors; declare it there\nl + "
        "sinks[h]\n^");
  CHECK(normaliserMessage(with(&Normaliser::lse, "l > 0")) ==
        "error: lse of normaliser \"mine\" is bool, but must be a number; use select(c, a, b)\nl > 0\n^");
  CHECK(normaliserMessage(with(&Normaliser::p, "causal() ? exp(x - base) : 0")).find("reads s, q or k") !=
        std::string::npos);
}

TEST_CASE("p of a hidden key is known to be 0") {
  for (const char *p :
       {"exp(x - base)", "exp2(x * 2 - base)", "sigmoid(x)", "x == -inf ? 0 : x", "max(x, 0)", "1 / (1 + exp(-x))",
        "x > 0 ? x * x : 0", "x <= -1e30 ? 0 : 1", "0 / x", "0.5 * (1 + tanh(x))", "x != -inf && x > base ? x : 0",
        "exp(min(x, base))", "exp(x) * sigmoid(base)", "tanh(sin(base)) * exp(x)"})
    CHECK(normaliserMessage(with(&Normaliser::p, p)) == "no error");
  for (const char *p : {"x", "1", "exp(-x)", "x * x", "max(x, base)", "exp(x) + base", "base", "tanh(x)", "sin(x)"})
    CHECK(normaliserMessage(with(&Normaliser::p, p)) ==
          "error: normaliser \"mine\" gives a hidden key, x = -inf, a p that is "
          "not 0 or not known to be; write x == -inf "
          "? 0 : ...");
}

TEST_CASE("a mistake is placed on the user's line") {
  const unsigned line = __LINE__ + 1;
  const Variant variant = Variant("v").normaliser({.name = "n", .p = "x +"});
  REQUIRE(variant.error());
  CHECK(variant.error()->where.line == line);
  CHECK(variant.error()->message == "p of normaliser \"n\": expected an expression, but found the end of the text");
  CHECK(variant.error()->excerpt == "x +\n   ^");
  const Variant second = Variant("v").normaliser(normalisers::sigmoid()).normaliser(normalisers::none());
  REQUIRE(second.error());
  CHECK(second.error()->message ==
        "variant \"v\" has a second normaliser \"none\", but takes one; leave out \"sigmoid\"");
  const Variant clash =
      Variant("v")
          .score([](Score s, Index, Index h, Index q, Index) { return s + captured("sinks", f32, rank(2))(h, q); })
          .normaliser(normalisers::softmaxWithSink("sinks"));
  REQUIRE(clash.error());
  CHECK(clash.error()->message == "\"sinks\" is a tensor of f32 and rank 1 here, but a tensor of f32 and rank 2 "
                                  "elsewhere; use one name per tensor or scalar");
}
