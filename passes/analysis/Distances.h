//===- Distances.h - Which values of a region producer warps stage ----------------===//
//
// A bias table[h, q - k + Sk] has tile_q + tile_k - 1 different values in a tile of tile_q x tile_k elements. Which
// values of a score or mask are like that follows from their arithmetic: integers wrap, so that the coefficients of q
// and k are exact modulo 2^32.
//
//     | value                        | coefficients of q, k | by distance                             |
//     |------------------------------|----------------------|-----------------------------------------|
//     | Sk, h, a load by h           | 0, 0                 | yes                                     |
//     | q - k, k - q + Sk, 3 (q - k) | opposite             | yes                                     |
//     | q, q + k, 2 q - k            | others               | no                                      |
//     | any op on values by distance | none                 | yes                                     |
//     | q < k, k == q                | none                 | yes: q - k of two positions is exact    |
//     | s, any other op              | none                 | no                                      |
//
//     DistanceValues values(body, q, k, uniform);    // of a map, or of an attn region
//     for (Value root : values.roots()) ...          // what is worth computing once for each distance
//
// And which loads are of a dense bias, that a tile has as many values of as elements.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

class DistanceValues {
public:
  /// `q` and `k` are arguments of `body` or null; `uniform` says of the others whether they are the same for all
  /// elements of a tile.
  DistanceValues(mlir::Block &body, mlir::Value q, mlir::Value k, llvm::function_ref<bool(mlir::BlockArgument)> uniform)
      : body(body), q(q), k(k) {
    for (mlir::BlockArgument argument : body.getArguments())
      forms[argument] = argument == q       ? Form{1, 0, true, false, false}
                        : argument == k     ? Form{0, 1, true, false, false}
                        : uniform(argument) ? Form()
                                            : Form{0, 0, false, false, false};
    for (mlir::Operation &op : body.without_terminator())
      if (op.getNumResults() == 1)
        forms[op.getResult(0)] = formOf(op);
  }

  /// Whether `value` is the same for all elements of equal q - k.
  bool contains(mlir::Value value) const { return of(value).isRelative; }

  /// Whether `value` counts with the distance, so that equal values are rare.
  bool counts(mlir::Value value) const { return contains(value) && of(value).affine && of(value).q; }

  /// Values by distance that load a captured tensor there, and that something else than a value by distance uses. Their
  /// types are those that have four bytes or one bit.
  mlir::SmallVector<mlir::Value> roots() const {
    mlir::SmallVector<mlir::Value> found;
    for (mlir::Operation &op : body.without_terminator()) {
      if (op.getNumResults() != 1)
        continue;
      mlir::Value value = op.getResult(0);
      mlir::Type type = value.getType();
      if (contains(value) && of(value).loads && (type.isF32() || type.isInteger(32) || type.isInteger(1)) &&
          llvm::any_of(value.getUses(), [&](mlir::OpOperand &use) { return leaves(use); }))
        found.push_back(value);
    }
    return found;
  }

  /// Whether a value by distance goes into one that is not.
  bool leaves(mlir::OpOperand &use) const {
    return use.getOwner()->getNumResults() != 1 || !contains(use.getOwner()->getResult(0));
  }

  /// The ops of the region that make `root`, in order.
  mlir::SmallVector<mlir::Operation *> slice(mlir::Value root) const {
    llvm::DenseSet<mlir::Operation *> needed{root.getDefiningOp()};
    mlir::SmallVector<mlir::Operation *> ordered;
    for (mlir::Operation &op : llvm::reverse(body.without_terminator())) {
      if (!needed.contains(&op))
        continue;
      ordered.push_back(&op);
      for (mlir::Value operand : op.getOperands())
        if (mlir::Operation *producer = operand.getDefiningOp(); producer && producer->getBlock() == &body)
          needed.insert(producer);
    }
    std::reverse(ordered.begin(), ordered.end());
    return ordered;
  }

private:
  struct Form {
    uint32_t q = 0, k = 0;  ///< coefficients, where the value is affine
    bool affine = true;     ///< i32, and q * Q + k * K + what is the same for all elements
    bool isRelative = true; ///< follows from q - k
    bool loads = false;     ///< by distance, with a load that is not the same for all elements
    bool isUniform() const { return affine && q == 0 && k == 0; }
  };

  Form of(mlir::Value value) const {
    auto known = forms.find(value);
    return known == forms.end() ? Form() : known->second; // from outside
  }

  static Form affine(uint32_t q, uint32_t k, bool loads) { return {q, k, true, q + k == 0, loads}; }

  Form formOf(mlir::Operation &op) const {
    using namespace mlir;
    bool uniform = true, isRelative = op.getNumRegions() == 0 && isPure(&op), loads = false, allAffine = true;
    for (Value operand : op.getOperands()) {
      Form form = of(operand);
      uniform &= form.isUniform();
      isRelative &= form.isRelative;
      loads |= form.loads;
      allAffine &= form.affine;
    }
    if (uniform && isRelative)
      return {};
    if (allAffine && op.getResult(0).getType().isInteger(32)) {
      auto form = [&](unsigned i) { return of(op.getOperand(i)); };
      auto constant = [&](unsigned i) -> std::optional<uint32_t> {
        APInt number;
        return matchPattern(op.getOperand(i), m_ConstantInt(&number)) ? std::optional(uint32_t(number.getZExtValue()))
                                                                      : std::nullopt;
      };
      if (isa<arith::AddIOp>(op))
        return affine(form(0).q + form(1).q, form(0).k + form(1).k, loads);
      if (isa<arith::SubIOp>(op))
        return affine(form(0).q - form(1).q, form(0).k - form(1).k, loads);
      if (isa<arith::MulIOp>(op))
        for (unsigned i : {0u, 1u})
          if (std::optional<uint32_t> factor = constant(i))
            return affine(form(1 - i).q * *factor, form(1 - i).k * *factor, loads);
    }
    if (auto compare = dyn_cast<arith::CmpIOp>(op); compare && comparesPositions(compare))
      return {0, 0, false, true, false};
    return {0, 0, false, isRelative, isRelative && (loads || isa<attn::LoadOp, tile::ElementOp>(op))};
  }

  /// Whether q and k themselves are compared, as signed numbers.
  bool comparesPositions(mlir::arith::CmpIOp compare) const {
    const mlir::arith::CmpIPredicate predicate = compare.getPredicate();
    mlir::Value a = compare.getLhs(), b = compare.getRhs();
    return q && k && ((a == q && b == k) || (a == k && b == q)) && predicate < mlir::arith::CmpIPredicate::ult;
  }

  mlir::Block &body;
  mlir::Value q, k;
  llvm::DenseMap<mlir::Value, Form> forms;
};

/// Whether a load at `indices` is of a dense bias: floats at [.., q, k], the other indices being i32 and the same for
/// all elements of a tile.
inline bool isDenseBias(mlir::OperandRange indices, mlir::Type element, mlir::Value q, mlir::Value k,
                        llvm::function_ref<bool(mlir::Value)> uniform) {
  return indices.size() >= 2 && mlir::isa<mlir::FloatType>(element) && indices.back() == k &&
         indices.drop_back().back() == q && llvm::all_of(indices.drop_back(2), [&](mlir::Value index) {
           return uniform(index) && index.getType().isInteger(32);
         });
}

/// The same of a load in the region of `map`.
inline bool isDenseBias(tile::MapOp map, tile::ElementOp load, llvm::function_ref<bool(mlir::Value)> uniform) {
  return isDenseBias(load.getIndices(), load.getView().getType().getElementType(), map.getCoordinate("q"),
                     map.getCoordinate("k"), uniform);
}

/// Whether `value` is the same for every element of the map whose body is `block`.
inline bool isBlockValue(mlir::Value value, mlir::Block *block) {
  mlir::Operation *op = value.getDefiningOp();
  if (value.getParentBlock() != block)
    return true;
  return op && llvm::all_of(op->getOperands(), [&](mlir::Value operand) { return isBlockValue(operand, block); });
}

/// Whether producer warps bring what `load` of the map's region reads to shared memory, as a window.
inline bool isWindow(tile::ElementOp load, tile::MapOp map) {
  return map->getParentOfType<tile::KernelOp>()->hasAttr(sched::stageBiasesAttr) &&
         isDenseBias(map, load, [&](mlir::Value index) { return isBlockValue(index, &map.getBody().front()); });
}

/// Whether producer warps bring `term` of the map's region to shared memory: by distance, or as a window.
inline bool isStaged(mlir::Value term, tile::MapOp map) {
  if (!map || !map.getCoordinate("q") || !map.getCoordinate("k"))
    return false;
  auto kernel = map->getParentOfType<tile::KernelOp>();
  if (!sched::fillingWarps(kernel))
    return false;
  if (auto load = term.getDefiningOp<tile::ElementOp>(); load && isWindow(load, map))
    return true;
  DistanceValues values(map.getBody().front(), map.getCoordinate("q"), map.getCoordinate("k"),
                        [](mlir::BlockArgument) { return false; });
  return llvm::is_contained(values.roots(), term);
}

} // namespace attune
