//===- Expr.cpp - Typing and construction of expressions --------------------===//
#include "attune/Expr.h"

#include "dsl/Trace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <fmt/format.h>

namespace attune {

using dsl::invalid;
using dsl::place;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string_view name(Op op) {
  static constexpr std::array<std::string_view, size_t(Op::Invalid) + 1> names = {
      "constant", "coordinate", "extent", "scalar", "input",  "load", "searchsorted", "add",  "sub",
      "mul",      "div",        "rem",    "min",    "max",    "neg",  "abs",
#define ATTUNE_FUNCTION1(op, name, ...) #name,
#define ATTUNE_FUNCTION2(op, name, ...) #name,
#define ATTUNE_EXPANDED1(op, name, ...) #name,
#include "attune/Functions.def"
      "select",   "lt",         "le",     "gt",     "ge",     "eq",   "ne",           "and",  "or",
      "not",      "bitand",     "bitor",  "bitxor", "bitnot", "shl",  "shr",          "cast", "invalid"};
  return names[size_t(op)];
}

std::string_view name(Coordinate coordinate) {
  static constexpr std::string_view names[] = {"b", "h", "q", "k"};
  return names[size_t(coordinate)];
}

std::string_view name(Extent extent) {
  static constexpr std::string_view names[] = {"B", "H", "Sq", "Sk"};
  return names[size_t(extent)];
}

std::string_view name(SearchSide side) { return side == SearchSide::Left ? "left" : "right"; }

//===----------------------------------------------------------------------===//
// Source locations and checks of names
//===----------------------------------------------------------------------===//

namespace {
thread_local const SourceLocation *innermost = nullptr;
} // namespace

LocationScope::LocationScope(SourceLocation where) : here(std::move(where)), outer(innermost) { innermost = &here; }

LocationScope::~LocationScope() { innermost = outer; }

namespace dsl {

SourceLocation place(const std::source_location &where) {
  if (innermost)
    return *innermost;
  return {where.file_name(), where.line(), where.column()};
}

Expr invalid(std::string message, SourceLocation where) {
  auto node = std::make_shared<Node>();
  node->where = where;
  node->error = Error{std::move(message), std::move(where)};
  return Expr(NodeRef(std::move(node)));
}

bool isIdentifier(std::string_view name) {
  auto isLetter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto isLetterOrDigit = [&](char c) { return isLetter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && isLetter(name[0]) && std::all_of(name.begin(), name.end(), isLetterOrDigit);
}

std::optional<std::string> nameFault(std::string_view subject, std::string_view name) {
  // Names of the score, the coordinates and the extents in expressions.
  static constexpr std::string_view reserved[] = {"s", "b", "h", "q", "k", "B", "H", "Sq", "Sk"};
  static constexpr std::string_view words[] = {"true", "false", "inf", "nan", "let"};
  if (!isIdentifier(name))
    return fmt::format("{} \"{}\" is not an identifier; use letters, digits and underscores, and no digit first",
                       subject, name);
  if (std::ranges::find(reserved, name) != std::end(reserved))
    return fmt::format("{} \"{}\" is reserved; use a name other than {}", subject, name, fmt::join(reserved, " "));
  if (std::ranges::find(words, name) != std::end(words))
    return fmt::format("{} \"{}\" is a word of the text form; use a name other than {}", subject, name,
                       fmt::join(words, " "));
  return std::nullopt;
}

std::string count(size_t number, std::string_view singular, std::string_view plural) {
  return fmt::format("{} {}", number, number == 1 ? singular : plural);
}

Expr constant(float value) { return Expr(detail::floatConstant(value, std::source_location::current())); }

Expr constant(DType type, int64_t value) {
  return Expr(detail::intConstant(type, value, std::source_location::current()));
}

} // namespace dsl

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

namespace {

Expr finish(Node node) {
  for (const NodeRef &operand : node.operands) {
    if (operand->op == Op::Invalid) // an implicit conversion can exceed the depth limit
      return Expr(operand);
    node.depth = std::max(node.depth, operand->depth + 1);
  }
  if (node.depth > Node::maxDepth)
    return invalid(
        fmt::format("expression is more than {} operations deep; use fewer terms or a captured tensor", Node::maxDepth),
        std::move(node.where));
  return Expr(std::make_shared<const Node>(std::move(node)));
}

Expr make(Op op, DType type, std::vector<NodeRef> operands, SourceLocation where) {
  Node node;
  node.op = op;
  node.type = type;
  node.operands = std::move(operands);
  node.where = std::move(where);
  return finish(std::move(node));
}

const NodeRef *firstInvalid(std::initializer_list<const NodeRef *> nodes) {
  for (const NodeRef *node : nodes)
    if ((*node)->op == Op::Invalid)
      return node;
  return nullptr;
}

bool isInteger(DType type) { return type == DType::I32 || type == DType::I64; }
bool isBool(DType type) { return type == DType::Bool; }

/// `node` converted to `type` by a cast node, or by converting the literal. Supports widening conversions only.
NodeRef convert(const NodeRef &node, DType type, const SourceLocation &where) {
  if (node->type == type)
    return node;
  if (node->op != Op::Constant)
    return make(Op::Cast, type, {node}, where).ref();
  Node literal = *node;
  literal.type = type;
  if (type == DType::F32) {
    literal.floatValue = float(node->intValue);
    literal.intValue = 0;
  }
  return std::make_shared<const Node>(std::move(literal));
}

/// The type to which both operands are converted; nullopt for a bool and a number.
std::optional<DType> commonType(DType a, DType b) {
  if (isBool(a) || isBool(b))
    return a == b ? std::optional(a) : std::nullopt;
  if (isFloat(a) || isFloat(b))
    return DType::F32;
  return a == DType::I64 || b == DType::I64 ? DType::I64 : DType::I32;
}

/// The remedy in the error for an operation `op`, written as `symbol`, on a bool and a number.
std::string mixRemedy(Op op, std::string_view symbol, bool leftIsBool) {
  if (op >= Op::Lt && op <= Op::Ne && leftIsBool)
    return fmt::format("a {0} b {0} c is a {0} b && b {0} c", symbol);
  if (op >= Op::BitAnd && op <= Op::BitXor)
    return fmt::format("comparisons come before {0}: write (x {0} y) == z, or join bools", symbol);
  return "convert the bool with cast(x, i32) or choose by select(c, a, b)";
}

/// An operation on two types as text: `f32 + i32` for an infix symbol, `min(f32, i32)` for a function.
std::string shown(std::string_view symbol, DType a, DType b) {
  bool infix = !std::isalpha(static_cast<unsigned char>(symbol[0]));
  return infix ? fmt::format("{} {} {}", name(a), symbol, name(b))
               : fmt::format("{}({}, {})", symbol, name(a), name(b));
}

std::string subject(std::string_view symbol) {
  bool infix = !std::isalpha(static_cast<unsigned char>(symbol[0]));
  return infix ? fmt::format("operator {}", symbol) : std::string(symbol);
}

/// Whether `op` is a function of two arguments that computes in f32.
bool isFunctionOfTwo(Op op) {
  switch (op) {
#define ATTUNE_FUNCTION2(op, ...) case Op::op:
#include "attune/Functions.def"
    return true;
  default:
    return false;
  }
}

Expr binary(Op op, std::string_view symbol, const Operand &a, const Operand &b) {
  if (const NodeRef *bad = firstInvalid({&a.node, &b.node}))
    return Expr(*bad);
  SourceLocation where = place(a.where);
  DType left = a.node->type, right = b.node->type;
  bool comparison = op >= Op::Lt && op <= Op::Ne;
  bool equality = op == Op::Eq || op == Op::Ne;
  bool integersOnly = op == Op::Rem || (op >= Op::BitAnd && op <= Op::Shr);

  std::optional<DType> type = commonType(left, right);
  if (!type)
    return invalid(
        fmt::format("types that do not mix: {}; {}", shown(symbol, left, right), mixRemedy(op, symbol, isBool(left))),
        where);
  if (isBool(*type) && !equality)
    return invalid(fmt::format("{} takes numbers, but got {}; convert with cast(x, i32)", subject(symbol),
                               shown(symbol, left, right)),
                   where);
  if (integersOnly && !isInteger(*type))
    return invalid(fmt::format("{} takes integers, but got {}; {}", subject(symbol), shown(symbol, left, right),
                               op == Op::BitXor ? "a power is pow(x, y)" : "convert with cast(x, i32)"),
                   where);
  if (isFunctionOfTwo(op))
    type = DType::F32;
  return make(op, comparison ? DType::Bool : *type, {convert(a.node, *type, where), convert(b.node, *type, where)},
              where);
}

/// The location of an operation, or the location of an operand if the operation has none. Operators on Expr, as opposed
/// to Operand, have no location.
SourceLocation placeOf(const std::source_location &where, std::initializer_list<const NodeRef *> operands) {
  SourceLocation result = place(where);
  for (const NodeRef *operand : operands)
    if (!result.known())
      result = (*operand)->where;
  return result;
}

Expr logical(Op op, std::string_view symbol, const Operand &a, const Operand &b) {
  if (const NodeRef *bad = firstInvalid({&a.node, &b.node}))
    return Expr(*bad);
  SourceLocation where = placeOf(a.where, {&a.node, &b.node});
  DType left = a.node->type, right = b.node->type;
  if (!isBool(left) || !isBool(right))
    return invalid(fmt::format("operator {} takes bools, but got {}; compare the number, for example x != 0", symbol,
                               shown(symbol, left, right)),
                   where);
  return make(op, DType::Bool, {a.node, b.node}, where);
}

/// The operators & | ^: logical for two bools, else bitwise.
Expr bitwise(Op onIntegers, Op onBools, std::string_view symbol, const Operand &a, const Operand &b) {
  bool bools = isBool(a.node->type) && isBool(b.node->type);
  if (bools && onBools == Op::Ne)
    return binary(Op::Ne, symbol, a, b);
  return bools ? logical(onBools, symbol, a, b) : binary(onIntegers, symbol, a, b);
}

/// A function of one number, which is converted to f32 if `floating`.
Expr unary(Op op, std::string_view symbol, const Operand &x, bool floating) {
  if (x.node->op == Op::Invalid)
    return Expr(x.node);
  SourceLocation where = place(x.where);
  if (isBool(x.node->type))
    return invalid(fmt::format("{} takes a number, but got bool; convert with cast(x, {})", subject(symbol),
                               floating ? "f32" : "i32"),
                   where);
  DType type = floating ? DType::F32 : x.node->type;
  return make(op, type, {convert(x.node, type, where)}, where);
}

} // namespace

NodeRef detail::floatConstant(double value, std::source_location where) {
  Node node;
  node.op = Op::Constant;
  node.type = DType::F32;
  node.where = place(where);
  node.floatValue = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : float(value);
  if (std::isinf(node.floatValue) && !std::isinf(value))
    return invalid(fmt::format("constant {} does not fit in f32; use at most 3.4e38 or infinity", value), node.where)
        .ref();
  return std::make_shared<const Node>(std::move(node));
}

NodeRef detail::intConstant(DType type, int64_t value, std::source_location where) {
  Node node;
  node.op = Op::Constant;
  node.type = type;
  node.where = place(where);
  node.intValue = value;
  return std::make_shared<const Node>(std::move(node));
}

NodeRef detail::unfitConstant(uint64_t value, std::source_location where) {
  return invalid(
             fmt::format("constant {} does not fit in i64; use at most {}", value, std::numeric_limits<int64_t>::max()),
             place(where))
      .ref();
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

Index coordinate(Coordinate which) {
  Node node;
  node.op = Op::Coordinate;
  node.type = DType::I32;
  node.coordinate = which;
  return finish(std::move(node));
}

Score inputScore() {
  Node node;
  node.op = Op::Input;
  node.type = DType::F32;
  return finish(std::move(node));
}

Expr extent(Extent which, std::source_location where) {
  Node node;
  node.op = Op::Extent;
  node.type = DType::I32;
  node.extent = which;
  node.where = place(where);
  return finish(std::move(node));
}

Expr batchSize(std::source_location where) { return extent(Extent::B, where); }
Expr headCount(std::source_location where) { return extent(Extent::H, where); }
Expr queryLength(std::source_location where) { return extent(Extent::Sq, where); }
Expr keyLength(std::source_location where) { return extent(Extent::Sk, where); }

Expr scalar(std::string name, DType dtype, std::source_location where) {
  if (auto fault = dsl::nameFault("scalar name", name))
    return invalid(*fault, place(where));
  if (dtype == DType::F16 || dtype == DType::BF16)
    return invalid(
        fmt::format("scalar \"{}\" is {}, but must be f32, i32, i64 or bool; use f32", name, attune::name(dtype)),
        place(where));
  Node node;
  node.op = Op::Scalar;
  node.type = dtype;
  node.name = std::move(name);
  node.where = place(where);
  return finish(std::move(node));
}

//===----------------------------------------------------------------------===//
// Captured tensors
//===----------------------------------------------------------------------===//

Captured captured(std::string name, DType dtype, Rank rank, std::source_location where) {
  return Captured({std::move(name), dtype, rank.value}, where);
}

Access Captured::operator[](const Operand &index) const {
  Access access;
  access.tensor = tensor;
  access.declared = where;
  access.used = index.where;
  access.indices = {index.node};
  return access;
}

Access Access::operator[](const Operand &index) const {
  Access longer = *this;
  longer.indices.push_back(index.node);
  longer.used = index.where;
  return longer;
}

namespace {

std::string indexExample(const TensorDecl &tensor) {
  static constexpr std::string_view letters[] = {"i", "j", "l", "m"};
  if (tensor.rank == 0)
    return tensor.name + "()";
  std::string chained = tensor.name;
  for (int i = 0; i < tensor.rank; ++i)
    chained += fmt::format("[{}]", letters[i]);
  return chained;
}

/// The error of a captured tensor whose name or rank no tensor can have.
std::optional<Expr> faultOf(const TensorDecl &tensor, const std::source_location &declared) {
  if (auto fault = dsl::nameFault("tensor name", tensor.name))
    return invalid(*fault, place(declared));
  if (tensor.rank < 0 || tensor.rank > Node::maxRank)
    return invalid(fmt::format("tensor \"{}\" has rank {}, but must have rank 0 to {}; merge some of its dimensions",
                               tensor.name, tensor.rank, Node::maxRank),
                   place(declared));
  return std::nullopt;
}

/// A node that reads the captured `tensor`.
Node reading(Op op, const TensorDecl &tensor, std::vector<NodeRef> operands, SourceLocation where) {
  Node node;
  node.op = op;
  node.elementType = tensor.dtype;
  node.name = tensor.name;
  node.rank = tensor.rank;
  node.operands = std::move(operands);
  node.where = std::move(where);
  return node;
}

DType valueType(DType element) { return isFloat(element) ? DType::F32 : element; }

Expr loadElement(const TensorDecl &tensor, std::vector<NodeRef> indices, const std::source_location &declared,
                 const std::source_location &used) {
  SourceLocation where = place(used);
  if (auto fault = faultOf(tensor, declared))
    return *fault;
  for (const NodeRef &index : indices)
    if (index->op == Op::Invalid)
      return Expr(index);
  if (indices.size() != size_t(tensor.rank))
    return invalid(fmt::format("tensor \"{}\" has rank {}, but is used with {}; write {}", tensor.name, tensor.rank,
                               dsl::count(indices.size(), "index", "indices"), indexExample(tensor)),
                   where);
  for (size_t i = 0; i < indices.size(); ++i)
    if (!isInteger(indices[i]->type))
      return invalid(fmt::format("index {} of tensor \"{}\" is {}, but must be i32 or i64; convert with cast(x, i32)",
                                 i + 1, tensor.name, name(indices[i]->type)),
                     where);
  Node node = reading(Op::Load, tensor, std::move(indices), std::move(where));
  node.type = valueType(tensor.dtype);
  return finish(std::move(node));
}

} // namespace

Access::operator Expr() const { return loadElement(tensor, indices, declared, used); }

Expr Captured::at(std::vector<Expr> indices, std::source_location used) const {
  std::vector<NodeRef> nodes;
  for (const Expr &index : indices)
    nodes.push_back(index.ref());
  return loadElement(tensor, std::move(nodes), where, used);
}

Expr Captured::operator()(std::source_location used) const { return loadElement(tensor, {}, where, used); }
Expr Captured::operator()(Operand i) const { return loadElement(tensor, {i.node}, where, i.where); }
Expr Captured::operator()(Operand i, Operand j) const { return loadElement(tensor, {i.node, j.node}, where, i.where); }
Expr Captured::operator()(Operand i, Operand j, Operand l) const {
  return loadElement(tensor, {i.node, j.node, l.node}, where, i.where);
}
Expr Captured::operator()(Operand i, Operand j, Operand l, Operand m) const {
  return loadElement(tensor, {i.node, j.node, l.node, m.node}, where, i.where);
}
Expr Captured::operator()(Operand i, Operand j, Operand l, Operand m, Operand n) const {
  return loadElement(tensor, {i.node, j.node, l.node, m.node, n.node}, where, i.where);
}

Expr searchsorted(const Captured &vector, Operand x, SearchSide side) {
  const TensorDecl &tensor = vector.tensor;
  SourceLocation where = place(x.where);
  if (auto fault = faultOf(tensor, vector.where))
    return *fault;
  if (x.node->op == Op::Invalid)
    return Expr(x.node);
  if (tensor.rank != 1)
    return invalid(fmt::format("searchsorted takes a tensor of rank 1, but \"{}\" has rank {}; bind the vector as a "
                               "tensor of its own",
                               tensor.name, tensor.rank),
                   where);
  if (isBool(tensor.dtype))
    return invalid(
        fmt::format("searchsorted takes a tensor of numbers, but \"{}\" is bool; bind it as i32", tensor.name), where);
  const DType type = valueType(tensor.dtype), given = x.node->type;
  const bool isWider = type == DType::F32 || (type == DType::I64 && given == DType::I32);
  if (given != type && !(x.node->op == Op::Constant && !isBool(given) && isWider))
    return invalid(fmt::format("searchsorted of \"{}\", whose elements are {}, takes an {}, but got {}; convert with "
                               "cast(x, {})",
                               tensor.name, name(tensor.dtype), name(type), name(given), name(type)),
                   where);
  Node node = reading(Op::Search, tensor, {convert(x.node, type, where)}, where);
  node.type = DType::I32;
  node.side = side;
  return finish(std::move(node));
}

//===----------------------------------------------------------------------===//
// Operators and functions
//===----------------------------------------------------------------------===//

Expr operator+(Operand a, Operand b) { return binary(Op::Add, "+", a, b); }
Expr operator-(Operand a, Operand b) { return binary(Op::Sub, "-", a, b); }
Expr operator*(Operand a, Operand b) { return binary(Op::Mul, "*", a, b); }
Expr operator/(Operand a, Operand b) { return binary(Op::Div, "/", a, b); }
Expr operator%(Operand a, Operand b) { return binary(Op::Rem, "%", a, b); }
Expr operator-(Operand a) { return unary(Op::Neg, "-", a, false); }

Expr operator<(Operand a, Operand b) { return binary(Op::Lt, "<", a, b); }
Expr operator<=(Operand a, Operand b) { return binary(Op::Le, "<=", a, b); }
Expr operator>(Operand a, Operand b) { return binary(Op::Gt, ">", a, b); }
Expr operator>=(Operand a, Operand b) { return binary(Op::Ge, ">=", a, b); }
Expr operator==(Operand a, Operand b) { return binary(Op::Eq, "==", a, b); }
Expr operator!=(Operand a, Operand b) { return binary(Op::Ne, "!=", a, b); }

Expr operator&&(Operand a, Operand b) { return logical(Op::And, "&&", a, b); }
Expr operator||(Operand a, Operand b) { return logical(Op::Or, "||", a, b); }

Expr operator!(Operand a) {
  if (a.node->op == Op::Invalid)
    return Expr(a.node);
  if (!isBool(a.node->type))
    return invalid(
        fmt::format("operator ! takes a bool, but got {}; compare the number, for example x == 0", name(a.node->type)),
        placeOf(a.where, {&a.node}));
  return make(Op::Not, DType::Bool, {a.node}, placeOf(a.where, {&a.node}));
}

Expr operator&(Operand a, Operand b) { return bitwise(Op::BitAnd, Op::And, "&", a, b); }
Expr operator|(Operand a, Operand b) { return bitwise(Op::BitOr, Op::Or, "|", a, b); }
Expr operator^(Operand a, Operand b) { return bitwise(Op::BitXor, Op::Ne, "^", a, b); }
Expr operator<<(Operand a, Operand b) { return binary(Op::Shl, "<<", a, b); }
Expr operator>>(Operand a, Operand b) { return binary(Op::Shr, ">>", a, b); }

Expr operator~(Operand a) {
  if (a.node->op == Op::Invalid)
    return Expr(a.node);
  if (isBool(a.node->type))
    return invalid("operator ~ takes an integer, but got bool; use operator !", place(a.where));
  if (!isInteger(a.node->type))
    return invalid(
        fmt::format("operator ~ takes an integer, but got {}; convert with cast(x, i32)", name(a.node->type)),
        place(a.where));
  return make(Op::BitNot, a.node->type, {a.node}, place(a.where));
}

Expr min(Operand a, Operand b) { return binary(Op::Min, "min", a, b); }
Expr max(Operand a, Operand b) { return binary(Op::Max, "max", a, b); }
Expr abs(Operand x) { return unary(Op::Abs, "abs", x, false); }

Expr select(Operand condition, Operand a, Operand b) {
  if (const NodeRef *bad = firstInvalid({&condition.node, &a.node, &b.node}))
    return Expr(*bad);
  SourceLocation where = place(condition.where);
  if (!isBool(condition.node->type))
    return invalid(fmt::format("the condition of select is {}, but must be bool; compare it, for example x != 0",
                               name(condition.node->type)),
                   where);
  std::optional<DType> type = commonType(a.node->type, b.node->type);
  if (!type)
    return invalid(fmt::format("types that do not mix: select(bool, {}, {}); convert the bool with cast(x, i32)",
                               name(a.node->type), name(b.node->type)),
                   where);
  return make(Op::Select, *type, {condition.node, convert(a.node, *type, where), convert(b.node, *type, where)}, where);
}

Expr cast(Operand x, DType type) {
  if (x.node->op == Op::Invalid || x.node->type == type)
    return Expr(x.node);
  if (type == DType::F16 || type == DType::BF16)
    return invalid(fmt::format("cast to {}, but values are f32, i32, i64 or bool; use f32", name(type)),
                   place(x.where));
  return make(Op::Cast, type, {x.node}, place(x.where));
}

namespace {

/// `element`, a load, whose indices may be at least as far out of range as `range` allows.
Expr withRange(std::string_view function, const Operand &element, IndexRange range) {
  if (element.node->op == Op::Invalid)
    return Expr(element.node);
  if (element.node->op != Op::Load)
    return invalid(
        fmt::format("{0} takes an element of a captured tensor, but got another expression; write {0}(t[k])", function),
        place(element.where));
  Node node = *element.node;
  node.indexRange = std::max(node.indexRange, range);
  return Expr(std::make_shared<const Node>(std::move(node)));
}

} // namespace

Expr clamped(Operand element) { return withRange("clamped", element, IndexRange::Clamped); }
Expr broadcast(Operand element) { return withRange("broadcast", element, IndexRange::Broadcast); }

#define ATTUNE_FUNCTION1(op, name, ...)                                                                                \
  Expr name(Operand x) { return unary(Op::op, #name, x, true); }
#define ATTUNE_FUNCTION2(op, name, ...)                                                                                \
  Expr name(Operand x, Operand y) { return binary(Op::op, #name, x, y); }
#define ATTUNE_EXPANDED1(op, name, ...)                                                                                \
  Expr name(Operand x) { return unary(Op::op, #name, x, true); }
#include "attune/Functions.def"

namespace {

/// An argument of the composite function `name`, converted to f32.
Expr argument(std::string_view name, const Operand &x) {
  if (x.node->op == Op::Invalid)
    return Expr(x.node);
  SourceLocation where = place(x.where);
  if (isBool(x.node->type))
    return invalid(fmt::format("{} takes a number, but got bool; convert with cast(x, f32)", name), where);
  return Expr(convert(x.node, DType::F32, where));
}

} // namespace

#define ATTUNE_COMPOSITE1(name, definition, ...)                                                                       \
  Expr name(Operand first) {                                                                                           \
    LocationScope scope(place(first.where));                                                                           \
    const Expr x = argument(#name, first);                                                                             \
    return definition;                                                                                                 \
  }
#define ATTUNE_COMPOSITE2(name, definition, ...)                                                                       \
  Expr name(Operand first, Operand second) {                                                                           \
    LocationScope scope(place(first.where));                                                                           \
    const Expr x = argument(#name, first), y = argument(#name, second);                                                \
    return definition;                                                                                                 \
  }
#define ATTUNE_COMPOSITE3(name, definition, ...)                                                                       \
  Expr name(Operand first, Operand second, Operand third) {                                                            \
    LocationScope scope(place(first.where));                                                                           \
    const Expr x = argument(#name, first), y = argument(#name, second), z = argument(#name, third);                    \
    return definition;                                                                                                 \
  }
#include "attune/Functions.def"

const std::vector<FunctionInfo> &functions() {
  static const std::vector<FunctionInfo> all = {
#define ATTUNE_FUNCTION1(op, name, value, mlir, cuda, quick, costs, gradient, bounds, summary) {#name, 1, "", summary},
#define ATTUNE_FUNCTION2(op, name, value, mlir, cuda, costs, gradientOfX, gradientOfY, bounds, summary)                \
  {#name, 2, "", summary},
#define ATTUNE_EXPANDED1(op, name, value, bounds, summary) {#name, 1, "", summary},
#define ATTUNE_COMPOSITE1(name, definition, summary) {#name, 1, #definition, summary},
#define ATTUNE_COMPOSITE2(name, definition, summary) {#name, 2, #definition, summary},
#define ATTUNE_COMPOSITE3(name, definition, summary) {#name, 3, #definition, summary},
#include "attune/Functions.def"
  };
  return all;
}

} // namespace attune
