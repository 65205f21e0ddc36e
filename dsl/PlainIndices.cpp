//===- PlainIndices.cpp - Indices of captured tensors that a launch can check ===//
#include "dsl/PlainIndices.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

namespace attune {

namespace {

//===----------------------------------------------------------------------===//
// Linear expressions
//===----------------------------------------------------------------------===//

/// Limits of a launch, which Kernel::launch checks: B and H are int32, lengths and the q offset are at most 2^30.
constexpr int64_t maxInt32 = std::numeric_limits<int32_t>::max(), maxLength = int64_t(1) << 30;
constexpr int64_t coordinateLow[] = {0, 0, -maxLength, 0};
constexpr int64_t coordinateHigh[] = {maxInt32 - 1, maxInt32 - 1, 2 * maxLength - 1, maxLength - 1};
constexpr int64_t extentHigh[] = {maxInt32, maxInt32, maxLength, maxLength};

/// Whether `x` is within int32 in every launch, so that int32 arithmetic on `x` does not wrap.
bool neverWraps(const LinearIndex &x) {
  int64_t low = x.constant, high = x.constant;
  for (size_t i = 0; i < 4; ++i) {
    const int64_t a = x.coordinates[i], b = x.extents[i];
    low += std::min(a * coordinateLow[i], a * coordinateHigh[i]) + std::min<int64_t>(b * extentHigh[i], 0);
    high += std::max(a * coordinateLow[i], a * coordinateHigh[i]) + std::max<int64_t>(b * extentHigh[i], 0);
  }
  return low >= std::numeric_limits<int32_t>::min() && high <= maxInt32;
}

/// The linear forms of the nodes of one variant, computed once for each node.
class LinearForms {
public:
  const std::optional<LinearIndex> &of(const Node &node) {
    if (auto known = forms.find(&node); known != forms.end())
      return known->second;
    std::optional<LinearIndex> form = make(node);
    return forms[&node] = form;
  }

private:
  std::optional<LinearIndex> make(const Node &node) {
    LinearIndex leaf;
    if (node.type != DType::I32 && node.type != DType::I64)
      return std::nullopt;
    switch (node.op) {
    case Op::Constant:
      leaf.constant = node.intValue;
      return leaf.withinLimits() ? std::optional(leaf) : std::nullopt;
    case Op::Coordinate:
      leaf.coordinates[size_t(node.coordinate)] = 1;
      return leaf;
    case Op::Extent:
      leaf.extents[size_t(node.extent)] = 1;
      return leaf;
    case Op::Neg:
      return sum(leaf, node.operands[0], -1);
    case Op::Add:
    case Op::Sub:
      if (auto x = of(*node.operands[0]))
        return sum(*x, node.operands[1], node.op == Op::Add ? 1 : -1);
      return std::nullopt;
    case Op::Mul:
      for (size_t i : {0, 1})
        if (const Node &factor = *node.operands[i]; factor.op == Op::Constant)
          return sum(leaf, node.operands[1 - i], factor.intValue);
      return std::nullopt;
    case Op::Cast: {
      auto x = of(*node.operands[0]);
      return x && node.type == DType::I64 && neverWraps(*x) ? x : std::nullopt;
    }
    default:
      return std::nullopt;
    }
  }

  /// x + factor * y, where y is the linear form of `node`; nullopt where a coefficient exceeds LinearIndex's limits.
  std::optional<LinearIndex> sum(LinearIndex x, const NodeRef &node, int64_t factor) {
    const std::optional<LinearIndex> &y = of(*node);
    if (!y || factor < -LinearIndex::maxFactor || factor > LinearIndex::maxFactor)
      return std::nullopt;
    x.constant += factor * y->constant;
    for (size_t i = 0; i < 4; ++i) {
      x.coordinates[i] += factor * y->coordinates[i];
      x.extents[i] += factor * y->extents[i];
    }
    return x.withinLimits() ? std::optional(x) : std::nullopt;
  }

  std::unordered_map<const Node *, std::optional<LinearIndex>> forms;
};

//===----------------------------------------------------------------------===//
// Collection of indices
//===----------------------------------------------------------------------===//

using Guards = std::vector<LinearIndex>;

class Collector {
public:
  explicit Collector(const Variant &variant) : variant(variant), found(variant.tensors().size()) {}

  /// Collects the indices within `node`, which is evaluated at the elements where all `guards` are at least 0.
  void visit(const Node &node, const Guards &guards) {
    if (!holdsLoad(node) || !enter(node, guards))
      return;
    if (node.op == Op::Load)
      loadsOf[node.name].push_back({&node, guards});
    if (node.op == Op::Load && node.indexRange != IndexRange::Clamped)
      add(node, guards);
    for (size_t i = 0; i < node.operands.size(); ++i)
      visitOperand(node, i, guards);
  }

  /// The conjuncts of `mask` that are linear conditions.
  Guards guardsOf(const Node &mask) {
    Guards guards;
    addConjuncts(mask, guards);
    return guards;
  }

  /// Adds indices that require an element for each q and k, for a tensor in the score whose gradient is computed by
  /// tiles.
  void addGradientOf(const std::string &tensor) {
    const std::vector<Read> reads = loadsOf[tensor];
    if (reads.empty() || !std::all_of(reads.begin(), reads.end(), [&](const Read &read) {
          const std::vector<Coordinate> coordinates = coordinatesOf(*read.load);
          return !coordinates.empty() && coordinates == coordinatesOf(*reads.front().load);
        }))
      return;
    std::vector<IndexParam> &params = paramsOf(tensor);
    const std::vector<Coordinate> coordinates = coordinatesOf(*reads.front().load);
    for (size_t dim = 0; dim < coordinates.size(); ++dim) {
      if (coordinates[dim] != Coordinate::Q && coordinates[dim] != Coordinate::K)
        continue;
      std::erase_if(params, [&](const IndexParam &param) { return param.dim == int(dim); });
      const NodeRef &index = reads.front().load->operands[dim];
      for (const Read &read : reads)
        params.push_back({int(dim), *forms.of(*index), read.guards, false, shown(index), ""});
    }
  }

  std::vector<std::vector<IndexParam>> take() { return std::move(found); }

private:
  /// A graph with shared nodes can have exponentially many paths. A node is thus visited at most `maxVisits` times,
  /// with different guards, and only once if its first visit has no guards.
  static constexpr size_t maxVisits = 4;
  static constexpr size_t maxGuards = 8;

  /// Whether `first` is a prefix of `guards`, so that `guards` is the stronger condition.
  static bool begins(const Guards &guards, const Guards &first) {
    return first.size() <= guards.size() && std::equal(first.begin(), first.end(), guards.begin());
  }

  bool enter(const Node &node, const Guards &guards) {
    std::vector<Guards> &before = visits[&node];
    if (before.size() == maxVisits ||
        std::any_of(before.begin(), before.end(), [&](const Guards &b) { return begins(guards, b); }))
      return false;
    before.push_back(guards);
    return true;
  }

  void visitOperand(const Node &node, size_t i, const Guards &guards) {
    const bool guarded = i > 0 && (node.op == Op::Select || node.op == Op::And || node.op == Op::Or);
    if (!guarded)
      return visit(*node.operands[i], guards);
    if (!holdsLoad(*node.operands[i]))
      return;
    Guards inner = guards;
    const bool wanted = node.op == Op::Select ? i == 1 : node.op == Op::And;
    if (addCondition(*node.operands[0], wanted, inner))
      visit(*node.operands[i], inner);
  }

  /// The coordinates of a load whose indices are distinct coordinates that include q and k; empty for any other load.
  static std::vector<Coordinate> coordinatesOf(const Node &load) {
    std::vector<Coordinate> coordinates;
    bool found[4] = {};
    for (const NodeRef &operand : load.operands) {
      const Node *index = operand.get();
      while (index->op == Op::Cast)
        index = index->operands[0].get();
      if (index->op != Op::Coordinate || std::exchange(found[size_t(index->coordinate)], true))
        return {};
      coordinates.push_back(index->coordinate);
    }
    return found[size_t(Coordinate::Q)] && found[size_t(Coordinate::K)] ? coordinates : std::vector<Coordinate>();
  }

  std::vector<IndexParam> &paramsOf(const std::string &tensor) {
    const auto &tensors = variant.tensors();
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const TensorDecl &t) { return t.name == tensor; });
    return this->found[size_t(found - tensors.begin())];
  }

  void add(const Node &load, const Guards &guards) {
    std::vector<IndexParam> &params = paramsOf(load.name);
    for (size_t dim = 0; dim < load.operands.size(); ++dim) {
      const std::optional<LinearIndex> &index = forms.of(*load.operands[dim]);
      if (!index)
        continue;
      IndexParam param{int(dim),   *index, guards, load.indexRange == IndexRange::Broadcast, shown(load.operands[dim]),
                       shown(load)};
      auto same = [&](const IndexParam &other) {
        return other.dim == param.dim && other.index == param.index && other.broadcast == param.broadcast &&
               begins(param.guards, other.guards);
      };
      if (std::none_of(params.begin(), params.end(), same))
        params.push_back(std::move(param));
    }
  }

  /// Adds "x >= y + least" to `guards`; false where this is not a linear condition.
  bool addAtLeast(const Node &x, const Node &y, int64_t least, Guards &guards) {
    const auto left = forms.of(x), right = forms.of(y);
    if (!left || !right || !neverWraps(*left) || !neverWraps(*right) || guards.size() == maxGuards)
      return false;
    LinearIndex &guard = guards.emplace_back(*left);
    guard.constant -= right->constant + least;
    for (size_t i = 0; i < 4; ++i) {
      guard.coordinates[i] -= right->coordinates[i];
      guard.extents[i] -= right->extents[i];
    }
    return guard.withinLimits();
  }

  /// Adds to `guards` expressions that are all at least 0 exactly where `condition` equals `value`; false where there
  /// are no such linear expressions.
  bool addCondition(const Node &condition, bool value, Guards &guards) {
    const Op op = condition.op;
    if (op == Op::Not)
      return addCondition(*condition.operands[0], !value, guards);
    if (op == (value ? Op::And : Op::Or))
      return addCondition(*condition.operands[0], value, guards) && addCondition(*condition.operands[1], value, guards);
    if (op < Op::Lt || op > Op::Ne)
      return false;
    const Node &x = *condition.operands[0], &y = *condition.operands[1];
    if (op == Op::Eq || op == Op::Ne)
      return value == (op == Op::Eq) && addAtLeast(x, y, 0, guards) && addAtLeast(y, x, 0, guards);
    const bool less = op == Op::Lt || op == Op::Le, strict = op == Op::Lt || op == Op::Gt;
    // !(x < y) is x >= y, and !(x <= y) is x > y.
    return less == value ? addAtLeast(y, x, strict == value, guards) : addAtLeast(x, y, strict == value, guards);
  }

  void addConjuncts(const Node &mask, Guards &guards) {
    if (mask.op == Op::And) {
      for (const NodeRef &side : mask.operands)
        addConjuncts(*side, guards);
    } else if (Guards more = guards; addCondition(mask, true, more)) {
      guards = std::move(more);
    }
  }

  /// The text of `node` for an error, shortened to its first 80 characters.
  static std::string shown(const NodeRef &node) {
    std::string result = text(Expr(node));
    constexpr size_t most = 80;
    return result.size() <= most ? result : result.substr(0, most - 3) + "...";
  }
  static std::string shown(Node load) {
    load.indexRange = IndexRange::Checked;
    return shown(std::make_shared<const Node>(std::move(load)));
  }

  bool holdsLoad(const Node &node) {
    if (auto known = loads.find(&node); known != loads.end())
      return known->second;
    bool holds = node.op == Op::Load;
    for (const NodeRef &operand : node.operands)
      holds |= holdsLoad(*operand);
    return loads[&node] = holds;
  }

  /// A load, and the conditions under which it is evaluated.
  struct Read {
    const Node *load;
    Guards guards;
  };

  const Variant &variant;
  LinearForms forms;
  std::vector<std::vector<IndexParam>> found;
  std::unordered_map<std::string, std::vector<Read>> loadsOf;
  std::unordered_map<const Node *, std::vector<Guards>> visits;
  std::unordered_map<const Node *, bool> loads;
};

} // namespace

std::vector<std::vector<IndexParam>> dsl::plainIndices(const Variant &variant,
                                                       const std::vector<std::string> &gradients) {
  Collector collector(variant);
  const std::optional<Expr> &score = variant.scoreExpr(), &mask = variant.maskExpr();
  if (score)
    collector.visit(score->node(), mask ? collector.guardsOf(mask->node()) : Guards());
  for (const std::string &tensor : gradients)
    collector.addGradientOf(tensor);
  if (mask)
    collector.visit(mask->node(), {});
  if (const std::optional<NormaliserExpressions> &of = variant.normaliserExpressions())
    for (const std::optional<Expr> *each : {&of->base, &of->rescale, &of->p, &of->divisor, &of->lse})
      if (*each)
        collector.visit((*each)->node(), {});
  std::vector<std::vector<IndexParam>> found = collector.take();
  // Lengths and page tables need one row for each sequence b.
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string &name = variant.tensors()[i].name;
    if ((variant.keyLengths() && variant.keyLengths()->name == name) ||
        (variant.queryLengths() && variant.queryLengths()->name == name) ||
        (variant.keyPages() && variant.keyPages()->tensor.name == name))
      found[i].push_back({.dim = 0, .index = {.coordinates = {1}}, .text = "b"});
    if (const std::optional<Sequences> &packed = variant.sequences();
        packed && (packed->queries.name == name || (packed->keys && packed->keys->name == name)))
      found[i].push_back({.dim = 0, .index = {.constant = 1, .coordinates = {1}}, .text = "b + 1"});
  }
  return found;
}

} // namespace attune
