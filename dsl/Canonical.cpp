//===- Canonical.cpp - Numbered lines for the distinct operations of a graph ===//
#include "dsl/Canonical.h"

#include <array>
#include <bit>
#include <charconv>
#include <functional>

namespace attune {

namespace {

template <typename Integer> void append(std::string &text, Integer value, int base = 10) {
  std::array<char, 24> digits;
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, base).ptr;
  text.append(digits.data(), end);
}

} // namespace

dsl::Numbering::Numbering() : table(64, -1) {
  visited.reserve(64);
  numbered.reserve(32);
  text.reserve(1024);
}

int dsl::Numbering::number(const Node &node) {
  if (!node.operands.empty()) // writing a leaf takes no longer than looking it up
    if (auto known = visited.find(&node); known != visited.end())
      return known->second;

  std::array<int, Node::maxRank> operands{};
  for (size_t i = 0; i < node.operands.size(); ++i)
    operands[i] = number(*node.operands[i]);

  size_t start = text.size();
  text += '%';
  append(text, numbered.size());
  text += " = ";
  Line line{text.size(), 0, 0};
  describe(node);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    text += " %";
    append(text, operands[i]);
  }
  line.length = text.size() - line.begin;
  line.hash = std::hash<std::string_view>()(content(line));

  int result = intern(line);
  if (size_t(result) + 1 == numbered.size() && numbered.back().begin == line.begin)
    text += '\n';
  else
    text.resize(start);
  if (!node.operands.empty())
    visited.emplace(&node, result);
  return result;
}

void dsl::Numbering::describe(const Node &node) {
  text += name(node.op);
  text += ' ';
  text += name(node.type);
  switch (node.op) {
  case Op::Constant:
    if (node.type == DType::F32) {
      text += " 0x";
      append(text, std::bit_cast<uint32_t>(node.floatValue), 16);
    } else {
      text += ' ';
      append(text, node.intValue);
    }
    break;
  case Op::Coordinate:
    text += ' ';
    text += name(node.coordinate);
    break;
  case Op::Extent:
    text += ' ';
    text += name(node.extent);
    break;
  case Op::Scalar:
    text += ' ';
    text += node.name;
    break;
  case Op::Load:
    text += ' ';
    text += node.name;
    text += ' ';
    text += name(node.elementType);
    if (node.indexRange != IndexRange::Checked)
      text += node.indexRange == IndexRange::Clamped ? " clamped" : " broadcast";
    break;
  case Op::Search:
    text += ' ';
    text += node.name;
    text += ' ';
    text += name(node.elementType);
    text += ' ';
    text += name(node.side);
    break;
  default:
    break;
  }
}

/// The number of an earlier line that equals `line`; if there is none, adds `line` and returns its number.
int dsl::Numbering::intern(Line line) {
  size_t mask = table.size() - 1;
  size_t slot = line.hash & mask;
  for (; table[slot] >= 0; slot = (slot + 1) & mask) {
    const Line &other = numbered[size_t(table[slot])];
    if (other.hash == line.hash && content(other) == content(line))
      return table[slot];
  }
  int fresh = int(numbered.size());
  table[slot] = fresh;
  numbered.push_back(line);
  if (numbered.size() * 2 > table.size())
    grow();
  return fresh;
}

void dsl::Numbering::grow() {
  table.assign(table.size() * 2, -1);
  size_t mask = table.size() - 1;
  for (size_t i = 0; i < numbered.size(); ++i) {
    size_t slot = numbered[i].hash & mask;
    while (table[slot] >= 0)
      slot = (slot + 1) & mask;
    table[slot] = int(i);
  }
}

std::string canonical(const Expr &expr) {
  dsl::Numbering numbering;
  numbering.number(expr.node());
  return numbering.lines();
}

} // namespace attune
