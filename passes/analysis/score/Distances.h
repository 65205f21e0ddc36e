//===- Distances.h - Relative-position values and dense biases of a region --------===//
//
// A bias table[h, q - k + Sk] has tile_q + tile_k - 1 different values in a tile of tile_q x tile_k elements. Such a
// value is relative: it depends on q and k only through q - k. Relative values of a score or mask are found from their
// arithmetic. Integers wrap, so the coefficients of q and k are exact modulo 2^32.
//
//     | value                        | coefficients of q, k | relative                                |
//     |------------------------------|----------------------|-----------------------------------------|
//     | Sk, h, a load by h           | 0, 0                 | yes                                     |
//     | q - k, k - q + Sk, 3 (q - k) | opposite             | yes                                     |
//     | q, q + k, 2 q - k            | others               | no                                      |
//     | any op on relative values    | none                 | yes                                     |
//     | q < k, k == q                | none                 | yes: q - k of two positions is exact    |
//     | s, any other op              | none                 | no                                      |
//
//     DistanceValues values(body, q, k, uniform);    // `body` is the region of a map, or a region of attn
//     for (Value root : values.roots()) ...          // values that are worth computing once for each distance q - k
//
// The functions at the end recognise loads of a dense bias, which has one value for each element of the tile, and
// values that producer warps copy to shared memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/sched/Sched.h"

namespace attune {

class DistanceValues {
public:
  /// `q` and `k` are arguments of `body` or null. `uniform` returns whether another argument is the same for all
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

  /// Whether `value` is relative: the same for all elements with the same q - k.
  bool contains(mlir::Value value) const { return of(value).isRelative; }

  /// Whether `value` is c * (q - k) plus a uniform value, with c not 0. Elements of different q - k then rarely have
  /// equal values.
  bool counts(mlir::Value value) const { return contains(value) && of(value).affine && of(value).q; }

  /// The relative values that are worth computing once for each distance q - k: they depend on a load of a captured
  /// tensor at a relative index, and an op that is not relative uses them. Their types are f32, i32 and i1.
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

  /// Whether `use`, a use of a relative value, is by an op whose result is not relative.
  bool leaves(mlir::OpOperand &use) const {
    return use.getOwner()->getNumResults() != 1 || !contains(use.getOwner()->getResult(0));
  }

  /// The ops of the region that compute `root`, in program order.
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
    uint32_t q = 0, k = 0;  ///< coefficients of the positions q and k, if the value is affine
    bool affine = true;     ///< the value is an i32 of the form q * (position q) + k * (position k) + a uniform value
    bool isRelative = true; ///< the value depends on positions only through q - k
    bool loads = false;     ///< the value is relative and depends on a load that is not uniform over the tile
    bool isUniform() const { return affine && q == 0 && k == 0; }
  };

  Form of(mlir::Value value) const {
    auto known = forms.find(value);
    return known == forms.end() ? Form() : known->second; // values from outside of the region are uniform
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

  /// Whether `compare` compares the positions q and k with each other, as signed integers or for equality.
  bool comparesPositions(mlir::arith::CmpIOp compare) const {
    const mlir::arith::CmpIPredicate predicate = compare.getPredicate();
    mlir::Value a = compare.getLhs(), b = compare.getRhs();
    return q && k && ((a == q && b == k) || (a == k && b == q)) && predicate < mlir::arith::CmpIPredicate::ult;
  }

  mlir::Block &body;
  mlir::Value q, k;
  llvm::DenseMap<mlir::Value, Form> forms;
};

/// Whether a load at `indices` reads a dense bias: floats at [.., q, k] whose leading indices are i32 and uniform over
/// the tile.
inline bool isDenseBias(mlir::OperandRange indices, mlir::Type element, mlir::Value q, mlir::Value k,
                        llvm::function_ref<bool(mlir::Value)> uniform) {
  return indices.size() >= 2 && mlir::isa<mlir::FloatType>(element) && indices.back() == k &&
         indices.drop_back().back() == q && llvm::all_of(indices.drop_back(2), [&](mlir::Value index) {
           return uniform(index) && index.getType().isInteger(32);
         });
}

/// Whether `load`, in the region of `map`, reads a dense bias.
inline bool isDenseBias(tile::MapOp map, tile::ElementOp load, llvm::function_ref<bool(mlir::Value)> uniform) {
  return isDenseBias(load.getIndices(), load.getView().getType().getElementType(), map.getCoordinate("q"),
                     map.getCoordinate("k"), uniform);
}

/// Whether `value` is uniform over the tile of the map whose body is `block`: it depends on no argument of `block`.
inline bool isBlockValue(mlir::Value value, mlir::Block *block) {
  mlir::Operation *op = value.getDefiningOp();
  if (value.getParentBlock() != block)
    return true;
  return op && llvm::all_of(op->getOperands(), [&](mlir::Value operand) { return isBlockValue(operand, block); });
}

/// Whether producer warps copy the dense bias that `load` reads to shared memory, as a rectangle of the tensor
/// (`tile.window`).
inline bool isWindow(tile::ElementOp load, tile::MapOp map) {
  return map->getParentOfType<tile::KernelOp>()->hasAttr(sched::stageBiasesAttr) &&
         isDenseBias(map, load, [&](mlir::Value index) { return isBlockValue(index, &map.getBody().front()); });
}

/// Whether producer warps write `term`, a value in the region of `map`, to shared memory: as relative-position values,
/// or as a rectangle of a dense bias (`tile.window`).
inline bool isStaged(mlir::Value term, tile::MapOp map) {
  if (!map || !map.getCoordinate("q") || !map.getCoordinate("k"))
    return false;
  auto kernel = map->getParentOfType<tile::KernelOp>();
  if (!sched::producerWarps(kernel))
    return false;
  if (auto load = term.getDefiningOp<tile::ElementOp>(); load && isWindow(load, map))
    return true;
  DistanceValues values(map.getBody().front(), map.getCoordinate("q"), map.getCoordinate("k"),
                        [](mlir::BlockArgument) { return false; });
  return llvm::is_contained(values.roots(), term);
}

} // namespace attune
