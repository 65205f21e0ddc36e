//===- VariantName.cpp - What a variant of the command line is called ---------===//

#include "tools/attune/VariantName.h"

#include "runtime/Cache.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <vector>

using namespace attune;

/// The longer one first where one begins with another.
static constexpr std::pair<std::string_view, std::string_view> operators[] = {
    {"<<", "shl"},  {">>", "shr"}, {"<=", "le"},  {">=", "ge"},  {"==", "eq"},  {"!=", "ne"},
    {"&&", "and"},  {"||", "or"},  {"<", "lt"},   {">", "gt"},   {"+", "plus"}, {"-", "minus"},
    {"*", "times"}, {"/", "over"}, {"%", "mod"},  {"&", "and"},  {"|", "or"},   {"^", "xor"},
    {"~", "not"},   {"!", "not"},  {"?", "then"}, {":", "else"}, {"=", "is"}};

/// "s_plus_bias_h_q_k" of "s + bias[h, q, k]".
static std::string identifierOf(std::string_view text) {
  auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::vector<std::string_view> words;
  while (!text.empty()) {
    if (isWord(text[0])) {
      const size_t length = size_t(std::ranges::find_if_not(text, isWord) - text.begin());
      words.push_back(text.substr(0, length));
      text.remove_prefix(length);
      if (text.starts_with(".0") && (text.size() == 2 || !isWord(text[2]))) // 30.0
        text.remove_prefix(2);
      continue;
    }
    const auto found = std::ranges::find_if(operators, [&](const auto &each) { return text.starts_with(each.first); });
    if (found != std::end(operators))
      words.push_back(found->second);
    text.remove_prefix(found != std::end(operators) ? found->first.size() : 1);
  }
  return fmt::format("{}", fmt::join(words, "_"));
}

/// What the variant has and its base has not, but for score and mask.
static std::vector<std::string> additions(const Variant &variant, const Variant &base) {
  std::vector<std::string> parts;
  auto add = [&](bool differs, std::string part) {
    if (differs)
      parts.push_back(std::move(part));
  };
  if (const Normaliser &normaliser = variant.normaliser(); normaliser != base.normaliser())
    parts.push_back(normaliser.tensors.empty() ? normaliser.name : "sink_" + normaliser.tensors[0].name);
  if (variant.scale() != base.scale())
    parts.push_back(identifierOf(fmt::format("scale {}", *variant.scale())));
  add(variant.hasDropout() && !base.hasDropout(), "dropout");
  add(variant.isPrecise() && !base.isPrecise(), "precise");
  add(variant.hasQOffset() && !base.hasQOffset(), "q_offset");
  add(variant.keyLengths() != base.keyLengths(), "lengths");
  add(variant.queryLengths() != base.queryLengths(), "query_lengths");
  add(variant.sequences() != base.sequences(), "packed");
  if (const std::optional<KeyPages> &pages = variant.keyPages(); pages != base.keyPages())
    parts.push_back(fmt::format("pages_{}", pages->size));
  return parts;
}

std::string attune::cli::nameOf(const Variant &variant, const Variant &base, const std::optional<Expr> &score,
                                const std::optional<Expr> &mask) {
  std::vector<std::string> parts;
  if (base.name() != "plain" || (!score && !mask))
    parts.push_back(base.name());
  if (score)
    parts.push_back(identifierOf("score " + text(*score)));
  if (mask)
    parts.push_back(identifierOf("mask " + text(*mask)));
  std::ranges::move(additions(variant, base), std::back_inserter(parts));
  const std::string whole = fmt::format("{}", fmt::join(parts, "_"));
  constexpr size_t most = 48, digits = 6;
  if (whole.size() <= most)
    return whole;
  std::string begin = whole.substr(0, most - digits - 1);
  begin.erase(begin.find_last_not_of('_') + 1);
  return fmt::format("{}_{}", begin, sha256Hex(whole).substr(0, digits));
}
