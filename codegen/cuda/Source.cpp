//===- Source.cpp - Lines of the generated source -------------------------===//

#include "codegen/cuda/Source.h"

#include "llvm/ADT/StringExtras.h"

#include <climits>

using llvm::StringRef, llvm::Twine;

namespace attune::codegen::cuda {

/// Columns of a line of the source.
constexpr size_t lineWidth = 120;

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
      bool isTerm = isSpaced && StringRef("+-?:&|^").contains(before),
           isFactor = isSpaced && StringRef("*/").contains(before);
      const bool isAssignment = before == '=' && i >= 2 && text[i - 2] == ' ';
      if (before != ',' && !isTerm && !isFactor && !isAssignment)
        continue;
      int cost = 3 * depth + isTerm + 2 * isFactor + 20 * isAssignment;
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
    body += std::string(2 * depth, ' ') + wrap(std::move(content), 2 * depth);
  body += '\n';
}

void Source::commentLines(StringRef text) {
  const std::string start = std::string(2 * depth, ' ') + "//";
  std::string row = start;
  for (StringRef word : llvm::split(text, ' ')) {
    if (row.size() + 1 + word.size() > lineWidth && row != start) {
      body += row + '\n';
      row = start;
    }
    row += " " + word.str();
  }
  body += row + '\n';
}

void Source::comment(const Twine &text) {
  if (!StringRef(body).ends_with("{\n") && !body.empty())
    line("");
  commentLines(text.str());
}

void Source::statement(const Twine &text, StringRef origin) {
  const std::string lines = std::string(2 * depth, ' ') + wrap(text.str(), 2 * depth);
  const std::string comment = origin.empty() || origin == lastOrigin ? "" : "  // " + origin.str();
  const size_t lastLine = lines.size() - (lines.rfind('\n') + 1);
  const bool hasRoom = comment.empty() || lastLine + comment.size() <= lineWidth;
  if (!hasRoom)
    commentLines(origin);
  body += lines + (hasRoom ? comment : "") + "\n";
  lastOrigin = origin.str();
}

} // namespace attune::codegen::cuda
