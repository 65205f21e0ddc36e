//===- FoldRectifiers.cpp - Fold a maximum with 0 into the rounding that follows -----===//
//
//     before                                        after
//     ------------------------------------------    ------------------------------------------
//     %p = tile.map(%s) { maximumf(f(%s), 0) }      %p = tile.map(%s) { f(%s) }
//     %a = tile.convert %p : ... bf16               %a = tile.convert %p relu : ... bf16
//
// cvt.relu rounds a pair of floats, replaces negative numbers by 0 and keeps NaN, as maximumf does. The maximum then
// takes no instruction of its own. The pass applies where every reader of the map's tile packs the tile for a product.
// Dropout, which keeps an element or makes it 0, may be between the map and the conversion. Dropout that records its
// choice in the sign bit is excluded. maxnumf, the max of users' expressions, returns 0 for NaN and is left alone.
//
//===----------------------------------------------------------------------===//

#include "ir/sched/Sched.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace attune {
#define GEN_PASS_DEF_FOLDRECTIFIERS
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;

namespace {

/// Whether a tile is a product's left operand in registers, as 16-bit floats packed two to a register.
bool isPacked(tile::TileType type) {
  auto layout = dyn_cast_or_null<sched::FragmentAttr>(type.getLayout());
  return layout && layout.getRole() == sched::FragmentRole::A && !type.getElementType().isF32();
}

/// Collects the conversions that round `tile` for products, directly or after dropout. Returns false if any other op
/// reads the tile.
bool collectPacking(Value tile, SmallVectorImpl<tile::ConvertOp> &packing) {
  return llvm::all_of(tile.getUsers(), [&](Operation *user) {
    if (auto dropout = dyn_cast<tile::DropoutOp>(user))
      return !dropout.getNegates() && collectPacking(dropout.getResult(), packing);
    auto convert = dyn_cast<tile::ConvertOp>(user);
    if (!convert || !isPacked(convert.getResult().getType()))
      return false;
    packing.push_back(convert);
    return true;
  });
}

/// Whether a map yields the elements of its first input unchanged.
bool givesInput(tile::MapOp map) {
  return !map.getInputs().empty() && map.getInputs()[0].getType() == map.getResult().getType() &&
         map.getYield().getValues()[0] == map.getElement(0);
}

struct FoldRectifiers : attune::impl::FoldRectifiersBase<FoldRectifiers> {
  using FoldRectifiersBase::FoldRectifiersBase;

  void runOnOperation() override {
    getOperation().walk([](tile::MapOp map) {
      // Maps with a condition or a range of columns are skipped: elements that such a map does not compute pass through
      // without the maximum.
      if (map.getOnlyIf() || map.getColumns())
        return;
      OpOperand &yielded = map.getYield()->getOpOperand(0);
      auto maximum = yielded.get().getDefiningOp<arith::MaximumFOp>();
      SmallVector<tile::ConvertOp> packing;
      if (!maximum || !maximum->hasOneUse() || !matchPattern(maximum.getRhs(), m_PosZeroFloat()) ||
          !collectPacking(map.getResult(), packing))
        return;
      yielded.set(maximum.getLhs());
      maximum.erase();
      for (tile::ConvertOp convert : packing)
        convert.setRelu(true);
      if (givesInput(map)) {
        map.replaceAllUsesWith(map.getInputs()[0]);
        map.erase();
      }
    });
  }
};

} // namespace
