//===- ExpressionFuzz.cpp - The text form of variants under mutation ----------===//
//
// The input is a score, and after a line with a single "%" the mask. Every variant that parses has one
// canonical form, however often it is printed and read again.
//
//===----------------------------------------------------------------------===//
#include "attune/Variant.h"
#include "tests/fuzz/Fuzz.h"
#include "tests/fuzz/Variants.h"

using namespace attune;
using namespace attune::tests;

namespace {

/// Names of each type, so that inputs need no declarations.
TextVariant declarations() {
  TextVariant text;
  text.tensors = {{"ids", i32, 1},          {"wide", i64, 2}, {"seen", boolean, 2},
                  {"half", f16, inferRank}, {"t", bf16, 3},   {"one", f32, 0}};
  text.scalars = {{"cap", f32}, {"n", i32}, {"far", i64}, {"flag", boolean}};
  return text;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  std::string_view input(reinterpret_cast<const char *>(bytes), count);
  size_t cut = input.find("\n%\n");
  TextVariant text = declarations();
  text.score = input.substr(0, cut);
  if (cut != std::string_view::npos)
    text.mask = input.substr(cut + 3);
  Expected<Variant> variant = Variant::parse("fuzzed", text);
  if (!variant) {
    requireDescribed(variant.error());
    return 0;
  }
  requireRoundTrip(*variant);
  // The expressions alone, too: their text parses to the same graphs where tensors have the same types.
  text.tensors = variant->tensors();
  text.score = variant->scoreExpr() ? attune::text(*variant->scoreExpr()) : "";
  text.mask = variant->maskExpr() ? attune::text(*variant->maskExpr()) : "";
  Expected<Variant> again = Variant::parse("fuzzed", text);
  require(bool(again), "the printed text parses", text.score + "\n%\n" + text.mask, again ? "" : again.error().text());
  requireEqual(variant->canonical(), again->canonical(), "printed text keeps the canonical form");
  return 0;
}
