//===- Source.cpp - Lines of the generated source -------------------------===//

#include "codegen/cuda/Source.h"

#include "llvm/ADT/StringExtras.h"

#include <climits>

using llvm::StringRef, llvm::Twine;

namespace attune::codegen::cuda {

std::string wrap(std::string text, unsigned indent) {
  constexpr size_t width = 116;
  size_t start = 0, slack = indent;
  while (text.size() - start + slack > width) {
    int depth = 0, templates = 0, best = INT_MAX;
    size_t at = std::string::npos;
    for (size_t i = 0; i < text.size() && i - std::min(i, start) + slack < width; ++i) {
      bool isTemplate = (text[i] == '<' && i && llvm::isAlnum(text[i - 1])) || (text[i] == '>' && text[i + 1] == '(');
      depth += text[i] == '(' || (isTemplate && text[i] == '<');
      depth -= text[i] == ')' || (isTemplate && text[i] == '>');
      templates += isTemplate ? text[i] == '<' ? 1 : -1 : 0;
      if (text[i] != ' ' || i < start + 20 || templates > 0)
        continue;
      char before = text[i - 1];
      bool isSpaced = i >= 2 && StringRef(" &|").contains(text[i - 2]);
      bool isTerm = isSpaced && StringRef("+-?:&|").contains(before),
           isFactor = isSpaced && StringRef("*/").contains(before);
      if (before != ',' && !isTerm && !isFactor)
        continue;
      int cost = 3 * depth + isTerm + 2 * isFactor;
      if (cost <= best)
        best = cost, at = i;
    }
    if (at == std::string::npos)
      break;
    text.replace(at, 1, "\n" + std::string(indent + 4, ' '));
    start = at + 1;
    slack = 0;
  }
  return text;
}

void Source::line(const Twine &text) {
  std::string content = text.str();
  if (!content.empty())
    body += std::string(2 * depth, ' ') + content;
  body += '\n';
}

void Source::comment(const Twine &text) {
  if (!StringRef(body).ends_with("{\n") && !body.empty())
    line("");
  line("// " + text);
}

void Source::statement(const Twine &text, StringRef origin) {
  line(wrap(text.str(), 2 * depth) + (origin.empty() || origin == lastOrigin ? "" : "  // " + origin.str()));
  lastOrigin = origin.str();
}

} // namespace attune::codegen::cuda
