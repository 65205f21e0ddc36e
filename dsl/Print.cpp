//===- Print.cpp - Printing of expressions in the grammar of Variant.h ------===//
#include "attune/Expr.h"

#include <cmath>
#include <fmt/format.h>
#include <unordered_map>
#include <unordered_set>

namespace attune {

namespace {

/// Binding strength in the grammar of Variant.h; higher binds tighter.
enum Strength { Lowest = 0, UnaryStrength = 12, Primary = 13 };

struct Infix {
  std::string_view symbol;
  int strength;
};

std::optional<Infix> infix(Op op) {
  switch (op) {
  case Op::Or:
    return Infix{"||", 2};
  case Op::And:
    return Infix{"&&", 3};
  case Op::BitOr:
    return Infix{"|", 4};
  case Op::BitXor:
    return Infix{"^", 5};
  case Op::BitAnd:
    return Infix{"&", 6};
  case Op::Eq:
    return Infix{"==", 7};
  case Op::Ne:
    return Infix{"!=", 7};
  case Op::Lt:
    return Infix{"<", 8};
  case Op::Le:
    return Infix{"<=", 8};
  case Op::Gt:
    return Infix{">", 8};
  case Op::Ge:
    return Infix{">=", 8};
  case Op::Shl:
    return Infix{"<<", 9};
  case Op::Shr:
    return Infix{">>", 9};
  case Op::Add:
    return Infix{"+", 10};
  case Op::Sub:
    return Infix{"-", 10};
  case Op::Mul:
    return Infix{"*", 11};
  case Op::Div:
    return Infix{"/", 11};
  case Op::Rem:
    return Infix{"%", 11};
  default:
    return std::nullopt;
  }
}

std::string literal(const Node &node) {
  if (node.type == DType::Bool)
    return node.intValue ? "true" : "false";
  if (node.type == DType::I32)
    return fmt::format("{}", node.intValue);
  if (node.type == DType::I64) {
    bool small = node.intValue == int32_t(node.intValue);
    return fmt::format("{}{}", node.intValue, small ? "L" : "");
  }
  if (std::isnan(node.floatValue))
    return "nan";
  std::string digits = fmt::format("{}", node.floatValue); // the shortest text that parses to the same bits
  if (std::isfinite(node.floatValue) && digits.find_first_of(".e") == std::string::npos)
    digits += ".0";
  return digits;
}

/// Whether `node` is an implicit cast, which the typing rules insert next to an operand of the cast's type.
bool isPromotion(const Node &node) {
  if (node.op != Op::Cast || node.operands[0]->op == Op::Constant)
    return false;
  DType from = node.operands[0]->type;
  return (node.type == DType::F32 && (from == DType::I32 || from == DType::I64)) ||
         (node.type == DType::I64 && from == DType::I32);
}

class Printer {
public:
  /// If the text of a graph would have more operations, shared nodes are printed as `let` definitions.
  static constexpr size_t largestTree = 200;

  std::string print(const Node &root) {
    survey(root);
    if (treeSize[&root] > largestTree)
      for (const Node *node : order)
        if (uses[node] > 1 && !node->operands.empty() && node != &root)
          bind(*node);
    std::string body = expression(root, Lowest);
    return definitions + body;
  }

private:
  void survey(const Node &node) {
    if (uses[&node]++ > 0)
      return;
    size_t size = 1;
    for (const NodeRef &operand : node.operands) {
      survey(*operand);
      size = std::min<size_t>(size + treeSize[operand.get()], 1u << 30);
    }
    treeSize[&node] = size;
    order.push_back(&node);
    if (!node.name.empty())
      taken.insert(node.name);
  }

  void bind(const Node &node) {
    std::string value = expression(node, Lowest);
    std::string fresh;
    do
      fresh = fmt::format("v{}", next++);
    while (taken.contains(fresh));
    definitions += fmt::format("let {} = {}; ", fresh, value);
    bound[&node] = fresh;
  }

  /// The text of an operand, in parentheses if `node` binds less tightly than `strength`.
  std::string expression(const Node &node, int strength) {
    if (auto name = bound.find(&node); name != bound.end())
      return name->second;
    auto [text, own] = operation(node);
    return own < strength ? "(" + text + ")" : text;
  }

  /// `node` without the implicit cast that the typing rules insert again when the text is parsed.
  const Node &withoutPromotion(const Node &node) {
    return isPromotion(node) && !bound.contains(&node) ? *node.operands[0] : node;
  }

  std::string arguments(const Node &node) {
    std::string list;
    for (const NodeRef &operand : node.operands)
      list += (list.empty() ? "" : ", ") + expression(*operand, Lowest);
    return list;
  }

  std::pair<std::string, int> operation(const Node &node) {
    if (std::optional<Infix> symbol = infix(node.op))
      return {infixText(node, *symbol), symbol->strength};

    switch (node.op) {
    case Op::Constant:
      // "-5" is a literal, but as an operand it needs parentheses like a negation.
      return {literal(node), literal(node)[0] == '-' ? int(UnaryStrength) : int(Primary)};
    case Op::Coordinate:
      return {std::string(name(node.coordinate)), Primary};
    case Op::Extent:
      return {std::string(name(node.extent)), Primary};
    case Op::Scalar:
      return {node.name, Primary};
    case Op::Input:
      return {"s", Primary};
    case Op::Load: {
      std::string element = fmt::format("{}[{}]", node.name, arguments(node));
      if (node.indexRange != IndexRange::Checked)
        element = fmt::format("{}({})", node.indexRange == IndexRange::Clamped ? "clamped" : "broadcast", element);
      return {element, Primary};
    }
    case Op::Search:
      return {fmt::format("{}({}, {}{})", name(node.op), node.name, arguments(node),
                          node.side == SearchSide::Right ? ", right" : ""),
              Primary};
    case Op::Neg:
    case Op::Not:
    case Op::BitNot: {
      const Node &operand = *node.operands[0];
      // The parser reads "-5" as a literal, so the negation of a literal is printed with parentheses.
      bool ofLiteral = node.op == Op::Neg && operand.op == Op::Constant;
      char symbol = node.op == Op::Neg ? '-' : node.op == Op::Not ? '!' : '~';
      return {symbol + expression(operand, ofLiteral ? int(Primary) + 1 : int(UnaryStrength)), UnaryStrength};
    }
    case Op::Cast:
      return {fmt::format("{}({})", name(node.type), arguments(node)), Primary};
#define ATTUNE_FUNCTION1(op, ...) case Op::op:
#define ATTUNE_EXPANDED1(op, ...) case Op::op:
#include "attune/Functions.def"
      return {fmt::format("{}({})", name(node.op), mathArgument(*node.operands[0])), Primary};
#define ATTUNE_FUNCTION2(op, ...) case Op::op:
#include "attune/Functions.def"
      return {
          fmt::format("{}({}, {})", name(node.op), mathArgument(*node.operands[0]), mathArgument(*node.operands[1])),
          Primary};
    case Op::Invalid:
      return {"<error>", Primary};
    default: // min, max, abs, select
      return {fmt::format("{}({})", name(node.op), arguments(node)), Primary};
    }
  }

  /// An argument of a function of f32, such as exp, which also accepts integers and casts them to f32 implicitly.
  std::string mathArgument(const Node &node) { return expression(withoutPromotion(node), Lowest); }

  std::string infixText(const Node &node, const Infix &symbol) {
    const Node *left = node.operands[0].get(), *right = node.operands[1].get();
    // A cast of one operand is implied by the type of the other; at most one cast can be omitted.
    if (&withoutPromotion(*right) != right)
      right = &withoutPromotion(*right);
    else
      left = &withoutPromotion(*left);
    return fmt::format("{} {} {}", expression(*left, symbol.strength), symbol.symbol,
                       expression(*right, symbol.strength + 1));
  }

  std::unordered_map<const Node *, size_t> treeSize;
  std::unordered_map<const Node *, int> uses;
  std::vector<const Node *> order; // operands first
  std::unordered_set<std::string> taken;
  std::unordered_map<const Node *, std::string> bound;
  std::string definitions;
  int next = 0;
};

} // namespace

std::string text(const Expr &expr) { return Printer().print(expr.node()); }

} // namespace attune
