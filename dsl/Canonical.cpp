//===- Canonical.cpp - Numbered lines for the distinct operations of a graph ===//
#include "dsl/Canonical.h"

#include <bit>
#include <fmt/format.h>

namespace attune {

int dsl::Numbering::number(const Node &node) {
  if (auto known = visited.find(&node); known != visited.end())
    return known->second;

  std::string line = fmt::format("{} {}", name(node.op), name(node.type));
  switch (node.op) {
  case Op::Constant:
    if (node.type == DType::F32)
      line += fmt::format(" 0x{:08x}", std::bit_cast<uint32_t>(node.floatValue));
    else
      line += fmt::format(" {}", node.intValue);
    break;
  case Op::Coordinate:
    line += fmt::format(" {}", name(node.coordinate));
    break;
  case Op::Extent:
    line += fmt::format(" {}", name(node.extent));
    break;
  case Op::Scalar:
    line += fmt::format(" {}", node.name);
    break;
  case Op::Load:
    line += fmt::format(" {} {}", node.name, name(node.elementType));
    break;
  default:
    break;
  }
  for (const NodeRef &operand : node.operands)
    line += fmt::format(" %{}", number(*operand));

  auto [entry, added] = numbers.try_emplace(std::move(line), int(numbers.size()));
  if (added)
    text += fmt::format("%{} = {}\n", entry->second, entry->first);
  visited.emplace(&node, entry->second);
  return entry->second;
}

std::string canonical(const Expr &expr) {
  dsl::Numbering numbering;
  numbering.number(expr.node());
  return numbering.lines();
}

} // namespace attune
