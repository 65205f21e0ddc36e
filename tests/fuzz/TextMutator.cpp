//===- TextMutator.cpp - Mutations that keep text readable ---------------------===//
//
// Of long texts in which names must match, changed bytes give little that still parses. Half of the mutations
// therefore work on tokens and lines: a token becomes another one of its kind from the same text, a number an
// edge of its type, a line goes, comes twice, or changes places, a value gets another name between two braces, so
// that regions refer to each other. The other half are libFuzzer's own.
//
//===----------------------------------------------------------------------===//
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

using Random = std::minstd_rand;

struct Span {
  size_t begin, end;
};

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; }

/// Names with their sigil, numbers, and every other character by itself; no spaces.
std::vector<Span> tokensOf(std::string_view text) {
  std::vector<Span> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (isWord(text[at]) ||
        (std::string_view("%#!@^").find(text[at]) != std::string_view::npos && end < text.size() && isWord(text[end])))
      while (end < text.size() && isWord(text[end]))
        ++end;
    if (!std::isspace(static_cast<unsigned char>(text[at])))
      tokens.push_back({at, end});
    at = end;
  }
  return tokens;
}

std::vector<Span> linesOf(std::string_view text) {
  std::vector<Span> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back({at, end});
    at = end;
  }
  return lines;
}

/// Numbers, names by their sigil, other words, and each sign are kinds of their own.
char kindOf(char first) {
  if (std::isdigit(static_cast<unsigned char>(first)))
    return '0';
  return isWord(first) ? 'a' : first;
}

constexpr std::string_view numbers[] = {"0",
                                        "1",
                                        "2",
                                        "7",
                                        "8",
                                        "15",
                                        "16",
                                        "17",
                                        "64",
                                        "128",
                                        "512",
                                        "65536",
                                        "1073741824",
                                        "2147483647",
                                        "2147483648",
                                        "4294967295",
                                        "4294967296",
                                        "9223372036854775807",
                                        "18446744073709551615",
                                        "1.0",
                                        "1e38",
                                        "0.0"};

std::string_view at(std::string_view text, Span span) { return text.substr(span.begin, span.end - span.begin); }

std::string changeToken(const std::string &text, Random &random) {
  std::vector<Span> tokens = tokensOf(text);
  if (tokens.empty())
    return text;
  Span old = tokens[random() % tokens.size()];
  char kind = kindOf(text[old.begin]);
  std::string fresh;
  if (kind == '0' && random() % 2) {
    fresh = numbers[random() % std::size(numbers)];
  } else if (random() % 8) {
    // One of its kind; not found at once, it goes.
    for (int attempt = 0; attempt < 50 && fresh.empty(); ++attempt)
      if (Span other = tokens[random() % tokens.size()];
          kindOf(text[other.begin]) == kind && at(text, other) != at(text, old))
        fresh = at(text, other);
  }
  return text.substr(0, old.begin) + fresh + text.substr(old.end);
}

/// What the innermost braces around `place` hold, or all of the text.
Span scopeAround(std::string_view text, size_t place) {
  Span scope{0, text.size()};
  int depth = 0;
  for (size_t i = place; i-- > 0 && depth <= 0;) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth > 0)
      scope.begin = i + 1;
  }
  depth = 0;
  for (size_t i = place; i < text.size() && depth <= 0; ++i) {
    depth += text[i] == '}' ? 1 : text[i] == '{' ? -1 : 0;
    if (depth > 0)
      scope.end = i;
  }
  return scope;
}

/// A value has the name of another one, or a fresh one, everywhere between the braces around it.
std::string renameValue(const std::string &text, Random &random) {
  std::vector<Span> values;
  for (Span token : tokensOf(text))
    if (text[token.begin] == '%')
      values.push_back(token);
  if (values.empty())
    return changeToken(text, random);
  const Span old = values[random() % values.size()], other = values[random() % values.size()];
  const Span scope = scopeAround(text, old.begin);
  const std::string_view name = at(text, old), fresh = random() % 4 ? at(text, other) : "%fresh";
  std::string renamed;
  size_t done = 0;
  for (Span value : values)
    if (value.begin >= scope.begin && value.end <= scope.end && at(text, value) == name) {
      renamed.append(text, done, value.begin - done).append(fresh);
      done = value.end;
    }
  return renamed.append(text, done);
}

std::string changeLine(const std::string &text, Random &random) {
  std::vector<Span> lines = linesOf(text);
  if (lines.size() < 2)
    return changeToken(text, random);
  Span line = lines[random() % lines.size()], other = lines[random() % lines.size()];
  std::string moved(at(text, line));
  std::string without = text.substr(0, line.begin) + text.substr(line.end);
  switch (random() % 3) {
  case 0:
    return without;
  case 1:
    return text.substr(0, other.begin) + moved + text.substr(other.begin);
  default:
    return without.insert(std::min(other.begin, without.size()), moved);
  }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  Random random(seed + 1);
  if (random() % 2)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text(reinterpret_cast<const char *>(data), size);
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
    switch (random() % 6) {
    case 0:
    case 1:
      text = changeLine(text, random);
      break;
    case 2:
      text = renameValue(text, random);
      break;
    default:
      text = changeToken(text, random);
    }
  text.resize(std::min(text.size(), maxSize));
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
