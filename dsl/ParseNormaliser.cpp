//===- ParseNormaliser.cpp - Parser and checks of a normaliser's expressions ===//
#include "attune/Normaliser.h"

#include "dsl/ExpressionText.h"
#include "dsl/FloatRange.h"
#include "dsl/Trace.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <unordered_map>
#include <unordered_set>

namespace attune {

namespace {

using dsl::Scope;

bool readsPositions(const Node &node, std::unordered_set<const Node *> &visited) {
  if (!visited.insert(&node).second)
    return false;
  const bool isPosition = node.op == Op::Coordinate && node.coordinate >= Coordinate::Q;
  return isPosition || node.op == Op::Input ||
         std::ranges::any_of(node.operands, [&](const NodeRef &each) { return readsPositions(*each, visited); });
}

//===----------------------------------------------------------------------===//
// The weight p of a masked key
//===----------------------------------------------------------------------===//

/// What is known about a value when x is -inf and all other inputs are finite: its number, that it is finite, or
/// nothing.
struct Known {
  bool isFinite = false;
  std::optional<double> value = {};

  static Known number(double value) { return {std::isfinite(value), value}; }
  static Known finite() { return {true, {}}; }
};

/// Evaluates the expression of p for a masked key (x = -inf), each operation once.
class AtMaskedKey {
public:
  Known of(const Node &node) {
    if (auto known = values.find(&node); known != values.end())
      return known->second;
    Known result = compute(node);
    return values[&node] = result;
  }

private:
  Known compute(const Node &node) {
    if (node.op == Op::Constant)
      return Known::number(node.type == DType::F32 ? double(node.floatValue) : double(node.intValue));
    if (node.op == Op::Scalar)
      return node.name == "x" ? Known::number(-INFINITY) : Known::finite();
    if (node.operands.empty() || node.op == Op::Load || node.op == Op::Search)
      return Known::finite();
    const Known a = of(*node.operands[0]);
    if (node.op == Op::Select)
      return a.value ? of(*node.operands[*a.value != 0 ? 1 : 2]) : Known();
    return node.operands.size() == 1 ? unary(node.op, a) : binary(node.op, a, of(*node.operands[1]));
  }

  static Known unary(Op op, Known a) {
    if (!a.value) {
      const bool isFinite = op == Op::Cast || dsl::rangeOf(op, dsl::FloatRange::finite()).isFinite();
      return {a.isFinite && isFinite, {}};
    }
    const double x = *a.value;
    switch (op) {
    case Op::Neg:
      return Known::number(-x);
    case Op::Abs:
      return Known::number(std::fabs(x));
#define ATTUNE_FUNCTION1(op, name, value, ...)                                                                         \
  case Op::op:                                                                                                         \
    return Known::number(value);
#define ATTUNE_EXPANDED1(op, name, value, ...)                                                                         \
  case Op::op:                                                                                                         \
    return Known::number(value);
#include "attune/Functions.def"
    case Op::Cast:
      return Known::number(x);
    case Op::Not:
      return Known::number(x == 0);
    default:
      return {};
    }
  }

  static Known binary(Op op, Known a, Known b) {
    if (a.value && b.value)
      return exact(op, *a.value, *b.value);
    if (!a.value && !b.value) {
      const dsl::FloatRange any = dsl::FloatRange::finite();
      return {a.isFinite && b.isFinite && dsl::rangeOf(op, any, any).isFinite(), {}};
    }
    // One operand is a known number and the other is finite: an infinite number determines the result.
    const Known &number = a.value ? a : b, &other = a.value ? b : a;
    if (!number.value || !other.isFinite)
      return {};
    const double x = *number.value;
    const bool isInfinite = std::isinf(x);
    switch (op) {
    case Op::Add:
      return isInfinite ? Known::number(x) : Known();
    case Op::Sub:
      return isInfinite ? Known::number(a.value ? x : -x) : Known();
    case Op::Mul:
      return x == 0 ? Known::number(0) : Known();
    case Op::Div:
      return b.value && isInfinite ? Known::number(0) : Known();
    case Op::Max:
      return isInfinite ? (x > 0 ? Known::number(x) : Known::finite()) : Known();
    case Op::Min:
      return isInfinite ? (x < 0 ? Known::number(x) : Known::finite()) : Known();
    case Op::Lt:
    case Op::Le:
      return isInfinite ? Known::number((x < 0) == a.value.has_value()) : Known();
    case Op::Gt:
    case Op::Ge:
      return isInfinite ? Known::number((x > 0) == a.value.has_value()) : Known();
    case Op::Eq:
    case Op::Ne:
      return isInfinite ? Known::number(op == Op::Ne) : Known();
    default:
      return {};
    }
  }

  static Known exact(Op op, double a, double b) {
    switch (op) {
    case Op::Add:
      return Known::number(a + b);
    case Op::Sub:
      return Known::number(a - b);
    case Op::Mul:
      return Known::number(a * b);
    case Op::Div:
      return Known::number(a / b);
    case Op::Max:
      return Known::number(std::fmax(a, b));
    case Op::Min:
      return Known::number(std::fmin(a, b));
    case Op::Lt:
      return Known::number(a < b);
    case Op::Le:
      return Known::number(a <= b);
    case Op::Gt:
      return Known::number(a > b);
    case Op::Ge:
      return Known::number(a >= b);
    case Op::Eq:
      return Known::number(a == b);
    case Op::Ne:
      return Known::number(a != b);
    case Op::And:
      return Known::number(a != 0 && b != 0);
    case Op::Or:
      return Known::number(a != 0 || b != 0);
    default:
      return {};
    }
  }

  std::unordered_map<const Node *, Known> values;
};

//===----------------------------------------------------------------------===//
// The definition
//===----------------------------------------------------------------------===//

/// Parses the expressions of one definition and keeps the first error.
class DefinitionReader {
public:
  explicit DefinitionReader(const Normaliser &definition) : definition(definition) {}

  Expected<NormaliserExpressions> read() {
    checkNames();
    NormaliserExpressions result;
    result.base = expression("base", definition.base, {}, Reduction::Max);
    result.rescale = expression("rescale", definition.rescale, {"base"}, Reduction::Sum);
    result.p = expression("p", definition.p, {"x", "base"}, {});
    result.divisor = expression("divisor", definition.divisor, {}, Reduction::Sum);
    result.lse = expression("lse", definition.lse, {}, Reduction::Sum);
    if (!failure && !result.p)
      fail("has no p; write what a score x weighs, for example .p = \"sigmoid(x)\"");
    if (!failure && AtMaskedKey().of(result.p->node()).value != 0.0)
      fail("gives a hidden key, x = -inf, a p that is not 0 or not known to be; write x == -inf ? 0 : ...");
    if (failure)
      return *failure;
    return result;
  }

private:
  void fail(std::string message) {
    if (!failure)
      failure = Error{fmt::format("normaliser \"{}\" {}", definition.name, message)};
  }

  void checkNames() {
    if (!dsl::isIdentifier(definition.name))
      return fail("is not named by an identifier; use letters, digits and underscores, and no digit first");
    for (const RowStatistic &statistic : definition.statistics) {
      if (auto fault = dsl::nameFault("statistic name", statistic.name))
        return fail(fmt::format("has a {}", *fault));
      if (statistic.name == "x" || statistic.name == "base")
        return fail(fmt::format("has a statistic \"{0}\", but {0} is what expressions call {1}; use another name",
                                statistic.name, statistic.name == "x" ? "the score" : "the base"));
      if (std::isnan(statistic.initial))
        return fail(fmt::format("starts statistic \"{}\" from NaN; use a number", statistic.name));
      for (const RowStatistic &other : definition.statistics)
        if (&other != &statistic && other.name == statistic.name)
          return fail(fmt::format("has two statistics \"{}\"; use one name for each", statistic.name));
    }
    // The scope has all names that any expression may see, so that a name with two meanings is an error.
    Scope all = scopeOf({"x", "base"}, Reduction::Sum);
    if (auto error = dsl::declare(all, definition.tensors, definition.scalars))
      fail(": " + error->message);
    for (const auto &[tensor, unused] : all.tensors)
      if (all.scalars.contains(tensor))
        fail(fmt::format("reads a tensor \"{}\", but has a value of that name; use another name", tensor));
  }

  /// The scope of an expression. `values` are "x" and "base" if the expression may read them. `upTo` selects the
  /// statistics in scope: none for nullopt, the maxima for Max, all for Sum.
  Scope scopeOf(std::initializer_list<std::string_view> values, std::optional<Reduction> upTo) const {
    Scope scope;
    scope.ofNormaliser = true;
    for (std::string_view value : values)
      if (value != "base" || !definition.base.empty())
        scope.scalars.emplace(value, DType::F32);
    for (const RowStatistic &statistic : definition.statistics)
      if (upTo && (*upTo == Reduction::Sum || statistic.reduction == Reduction::Max))
        scope.scalars.emplace(statistic.name, DType::F32);
    return scope;
  }

  std::optional<Expr> expression(std::string_view role, const std::string &text,
                                 std::initializer_list<std::string_view> values, std::optional<Reduction> upTo) {
    if (failure || dsl::isBlank(text))
      return std::nullopt;
    Scope scope = scopeOf(values, upTo);
    (void)dsl::declare(scope, definition.tensors, definition.scalars); // checked with the names
    const size_t declared = scope.tensors.size();
    Expected<Expr> root = dsl::parseExpression(text, role, scope);
    std::unordered_set<const Node *> visited;
    std::string fault;
    if (!root)
      fault = root.error().message;
    else if (scope.tensors.size() != declared)
      fault = "reads a tensor that is not among .tensors; declare it there";
    else if (readsPositions(root->node(), visited))
      fault = "reads s, q or k, which a normaliser does not see; what depends on positions belongs in the score";
    else if (root->type() == DType::Bool)
      fault = "is bool, but must be a number; use select(c, a, b)";
    if (fault.empty())
      return root->type() == DType::F32 ? *root : cast(*root, DType::F32);
    failure = root ? dsl::errorInText(text, role, "") : root.error();
    failure->message = fmt::format("{} of normaliser \"{}\"{} {}", role, definition.name, root ? "" : ":", fault);
    failure->where = {};
    return std::nullopt;
  }

  const Normaliser &definition;
  std::optional<Error> failure;
};

} // namespace

Expected<NormaliserExpressions> parseExpressions(const Normaliser &definition) {
  LocationScope nowhere({});
  return DefinitionReader(definition).read();
}

} // namespace attune
