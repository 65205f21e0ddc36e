//===- StageVectors.cpp - Copy vectors that a loop loads to shared memory ---===//
//
// A load in a computing warp delays the warp's products and takes registers that tiles need. In kernels with producer
// warps, the producer warps load such vectors ahead, and also compute what depends on these vectors alone:
//
//     before                                              after
//     -----------------------------------------------     ------------------------------------------------
//     l = load LSE[b, h, q0]                              r = map() at(q = q0) { row < Sq ? -LSE[b, h, row] : 0 }
//     n = map(l) { -l }                                   t = convert r : register -> shared
//     p = map(s, n) { ... }                               p = map(s, t) { ... }
//
// In kernels without producer warps, the vectors are copied together with the loop's tiles, and the maps that read a
// vector recompute what depends on it:
//
//     l = load LSE[b, h, q0] : register                   t = load LSE[b, h, q0] : shared
//     n = map(l) { -l }
//     p = map(s, n) { ... n ... }                         p = map(s, t) { ... -t ... }
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/copies/CopiedTiles.h"

namespace attune {
#define GEN_PASS_DEF_STAGEVECTORS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

/// A vector in a loop's body that is computed from loaded vectors alone. All these loads begin at the same row and load
/// different rows in each iteration.
class LoadedVector {
public:
  LoadedVector(tile::ForBlocksOp loop, Value vector) : loop(loop), vector(vector), origin(originOf(loop, vector)) {}

  /// Whether `vector` is computed from loaded vectors alone, so that the class applies.
  explicit operator bool() const { return origin != nullptr; }

  /// Computes the vector by one map that producer warps run, and writes the vector to shared memory, where the two-axis
  /// maps read it.
  void stage() {
    OpBuilder builder(vector.getContext());
    builder.setInsertionPointAfterValue(vector);
    auto type = cast<TileType>(vector.getType());
    auto rows = tile::MapOp::create(builder, vector.getLoc(), type, ValueRange(), {{type.axis(0), origin}});
    tile::named(rows.getResult(), (tile::nameOf(vector) + "_rows").str());
    builder.setInsertionPointToEnd(&rows.getBody().front());
    Value row = rows.getCoordinate(type.axis(0));
    Value element = elementOf(builder, vector, [&](tile::LoadOp load) { return loadedAt(builder, load, row); });
    tile::YieldOp::create(builder, vector.getLoc(), element);
    builder.setInsertionPointAfter(rows);
    Value staged =
        tile::ConvertOp::create(builder, vector.getLoc(), type.withSpace(tile::MemorySpace::Shared), rows.getResult());
    tile::named(staged, tile::nameOf(vector));
    vector.replaceUsesWithIf(staged, [](OpOperand &use) { return isTile(use.getOwner()); });
  }

  /// Whether asynchronous copies, issued ahead with the loop's tiles, can load all vectors that `value` is computed
  /// from.
  static bool canBeCopied(tile::ForBlocksOp loop, Value value) {
    if (auto load = value.getDefiningOp<tile::LoadOp>())
      return runsAhead(loop, load) &&
             load.getView().getType().getElementType() == load.getResult().getType().getElementType();
    return llvm::all_of(value.getDefiningOp<tile::MapOp>().getInputs(),
                        [&](Value input) { return canBeCopied(loop, input); });
  }

  /// Copies the loaded vectors to shared memory; each two-axis map that reads `vector` recomputes `vector` from the
  /// loaded ones.
  void copy() {
    for (Operation *user : llvm::make_early_inc_range(vector.getUsers())) {
      auto map = dyn_cast<tile::MapOp>(user);
      if (!map || !isTile(map))
        continue;
      OpBuilder builder = OpBuilder::atBlockBegin(&map.getBody().front());
      const unsigned i = unsigned(llvm::find(map.getInputs(), vector) - map.getInputs().begin());
      map.getElement(i).replaceAllUsesWith(elementOf(builder, vector, [&](tile::LoadOp load) -> Value {
        return map.addInput(copied(load), load.getResult().getType().getElementType());
      }));
      map.getBody().eraseArgument(i);
      map.getInputsMutable().erase(i);
    }
  }

  /// Whether a two-axis map reads the vector.
  bool isRead() const { return llvm::any_of(vector.getUsers(), isTile); }

private:
  /// The first row of the loads that `value` is computed from; null where `value` is not a vector computed from loads
  /// alone.
  static Value originOf(tile::ForBlocksOp loop, Value value) {
    Block *body = &loop.getBody().front();
    auto type = dyn_cast<TileType>(value.getType());
    Operation *op = value.getDefiningOp();
    if (!type || type.rank() != 1 || type.getSpace() != tile::MemorySpace::Register ||
        type.getElementType().getIntOrFloatBitWidth() != 32 || !op || op->getBlock() != body)
      return {};
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      const bool differs = llvm::any_of(load.getIndices(), [&](Value index) { return index.getParentBlock() == body; });
      return differs ? load.getIndices().back() : Value();
    }
    auto map = dyn_cast<tile::MapOp>(op);
    if (!map || !map.isWhole() || map.getInputs().empty() || !map.getOrigins().empty())
      return {};
    Value origin = originOf(loop, map.getInputs().front());
    const bool isOne = llvm::all_of(map.getInputs(), [&](Value input) { return originOf(loop, input) == origin; });
    return isOne ? origin : Value();
  }

  static bool isTile(Operation *op) {
    auto map = dyn_cast<tile::MapOp>(op);
    return map && map.getResult().getType().rank() == 2;
  }

  /// Returns a load of the same vector as `load` to shared memory; an equal load of the loop is reused.
  static Value copied(tile::LoadOp load) {
    auto isCopy = [&](tile::LoadOp other) { return isCopied(other) && other->getOperands() == load->getOperands(); };
    for (auto other : load->getBlock()->getOps<tile::LoadOp>())
      if (isCopy(other))
        return other.getResult();
    OpBuilder builder(load);
    const TileType type = load.getResult().getType().withSpace(tile::MemorySpace::Shared);
    Value copy = tile::LoadOp::create(builder, load.getLoc(), type, load.getView(), load.getIndices(), load.getLimit());
    return tile::named(copy, tile::nameOf(load.getResult()));
  }

  /// Emits, at `builder`, the computation of one element of the vector `of`. `ofLoad` returns the element of each
  /// loaded vector that the computation reads.
  static Value elementOf(OpBuilder &builder, Value of, function_ref<Value(tile::LoadOp)> ofLoad) {
    if (auto load = of.getDefiningOp<tile::LoadOp>())
      return ofLoad(load);
    auto map = of.getDefiningOp<tile::MapOp>();
    IRMapping mapping;
    for (auto [i, input] : llvm::enumerate(map.getInputs()))
      mapping.map(map.getElement(i), elementOf(builder, input, ofLoad));
    for (Operation &op : map.getBody().front().without_terminator())
      builder.clone(op, mapping);
    return mapping.lookupOrDefault(map.getYield().getValues().front());
  }

  /// The element at `row`; zero for rows past the load's limit, as tile.load defines.
  static Value loadedAt(OpBuilder &builder, tile::LoadOp load, Value row) {
    Location loc = load.getLoc();
    SmallVector<Value> indices(load.getIndices().drop_back());
    indices.push_back(row);
    SmallVector<bool> inRange(indices.size(), true);
    inRange.back() = false;
    Type type = load.getResult().getType().getElementType();
    Value element =
        tile::ElementOp::create(builder, loc, type, load.getView(), indices, builder.getDenseBoolArrayAttr(inRange));
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, row, load.getLimit());
    Value zero = arith::ConstantOp::create(builder, loc, type, builder.getZeroAttr(type));
    return arith::SelectOp::create(builder, loc, exists, element, zero);
  }

  tile::ForBlocksOp loop;
  Value vector;
  Value origin; ///< first row of the vector's loads
};

struct StageVectors : attune::impl::StageVectorsBase<StageVectors> {
  using StageVectorsBase::StageVectorsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      const bool byOtherWarps = sched::producerWarps(kernel) > 0;
      SmallVector<LoadedVector> vectors;
      kernel.walk([&](tile::ForBlocksOp loop) {
        for (Operation &op : loop.getBody().front())
          for (Value result : op.getResults())
            if (LoadedVector vector(loop, result);
                vector && vector.isRead() && (byOtherWarps || LoadedVector::canBeCopied(loop, result)))
              vectors.push_back(vector);
      });
      for (LoadedVector &vector : vectors)
        byOtherWarps ? vector.stage() : vector.copy();
    }
  }
};

} // namespace
