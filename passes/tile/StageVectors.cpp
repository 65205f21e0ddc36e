//===- StageVectors.cpp - Vectors that a loop loads come by shared memory -------===//
//
//     before                                              after
//     -----------------------------------------------     ------------------------------------------------
//     l = load LSE[b, h, q0]                              r = map() at(q = q0) { row < Sq ? -LSE[b, h, row] : 0 }
//     n = map(l) { -l }                                   t = convert r : register -> shared
//     p = map(s, n) { ... }                               p = map(s, t) { ... }
//
// Beside warpgroup-level products tiles take all but a few of a lane's registers, and a load of the warps that compute
// delays their products. Warps of the role that copies load such vectors ahead, and compute what follows from them alone.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

namespace attune {
#define GEN_PASS_DEF_STAGEVECTORS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

/// A vector of a loop's body that follows from loads of vectors along the loop's axis alone.
class LoadedVector {
public:
  LoadedVector(tile::ForBlocksOp loop, Value vector) : loop(loop), vector(vector) {}

  static bool is(tile::ForBlocksOp loop, Value value) {
    auto type = dyn_cast<TileType>(value.getType());
    Operation *op = value.getDefiningOp();
    if (!type || type.rank() != 1 || type.getSpace() != tile::MemorySpace::Register ||
        type.getElementType().getIntOrFloatBitWidth() != 32 || !op || op->getBlock() != &loop.getBody().front())
      return false;
    if (auto load = dyn_cast<tile::LoadOp>(op))
      return load.getIndices().back() == loop.getOrigin();
    auto map = dyn_cast<tile::MapOp>(op);
    return map && map.isWhole() && !map.getInputs().empty() && map.getOrigins().empty() &&
           llvm::all_of(map.getInputs(), [&](Value input) { return is(loop, input); });
  }

  /// Computes it by one map, through shared memory for the tiles that read it.
  void stage() {
    OpBuilder builder(vector.getContext());
    builder.setInsertionPointAfterValue(vector);
    auto type = cast<TileType>(vector.getType());
    auto rows = tile::MapOp::create(builder, vector.getLoc(), type, ValueRange(), {{type.axis(0), loop.getOrigin()}});
    tile::named(rows.getResult(), (tile::nameOf(vector) + "_rows").str());
    builder.setInsertionPointToEnd(&rows.getBody().front());
    Value row = rows.getCoordinate(type.axis(0));
    tile::YieldOp::create(builder, vector.getLoc(), elementOf(builder, vector, row));
    builder.setInsertionPointAfter(rows);
    Value staged =
        tile::ConvertOp::create(builder, vector.getLoc(), type.withSpace(tile::MemorySpace::Shared), rows.getResult());
    tile::named(staged, tile::nameOf(vector));
    vector.replaceUsesWithIf(staged, [](OpOperand &use) { return isTile(use.getOwner()); });
  }

  /// Whether a tile reads it.
  bool isRead() const { return llvm::any_of(vector.getUsers(), isTile); }

private:
  static bool isTile(Operation *op) {
    auto map = dyn_cast<tile::MapOp>(op);
    return map && map.getResult().getType().rank() == 2;
  }

  /// Rows past the limit are zeros, as those of the load are.
  Value elementOf(OpBuilder &builder, Value of, Value row) {
    Location loc = of.getLoc();
    if (auto load = of.getDefiningOp<tile::LoadOp>()) {
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
    auto map = of.getDefiningOp<tile::MapOp>();
    IRMapping mapping;
    for (auto [i, input] : llvm::enumerate(map.getInputs()))
      mapping.map(map.getElement(i), elementOf(builder, input, row));
    for (Operation &op : map.getBody().front().without_terminator())
      builder.clone(op, mapping);
    return mapping.lookupOrDefault(map.getYield().getValues().front());
  }

  tile::ForBlocksOp loop;
  Value vector;
};

struct StageVectors : attune::impl::StageVectorsBase<StageVectors> {
  using StageVectorsBase::StageVectorsBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!sched::fillingWarps(kernel))
        continue;
      SmallVector<LoadedVector> vectors;
      kernel.walk([&](tile::ForBlocksOp loop) {
        for (Operation &op : loop.getBody().front())
          for (Value result : op.getResults())
            if (LoadedVector vector(loop, result); LoadedVector::is(loop, result) && vector.isRead())
              vectors.push_back(vector);
      });
      for (LoadedVector &vector : vectors)
        vector.stage();
    }
  }
};

} // namespace
