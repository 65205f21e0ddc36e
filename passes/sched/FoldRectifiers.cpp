//===- FoldRectifiers.cpp - A maximum with 0 in the rounding that follows -----===//
//
//     before                                        after
//     ------------------------------------------    ------------------------------------------
//     %p = tile.map(%s) { maximumf(f(%s), 0) }      %p = tile.map(%s) { f(%s) }
//     %a = tile.convert %p : ... bf16               %a = tile.convert %p relu : ... bf16
//
// cvt.relu rounds a pair of floats and makes 0 of what is negative, NaN NaN, as maximumf does: the maximum takes no
// instruction of its own. So where all that reads the map's tile packs it for a product; what dropout keeps is as it was,
// and what it drops is 0 in any case, unless it notes its choice in the sign. maxnumf, the max of expressions, gives 0 for
// NaN, and stays.
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

/// Whether a tile is a left operand's fragment of 16-bit floats, two in a register.
bool isPacked(tile::TileType type) {
  auto layout = dyn_cast_or_null<sched::FragmentAttr>(type.getLayout());
  return layout && layout.getRole() == sched::FragmentRole::A && !type.getElementType().isF32();
}

/// The conversions that round `tile` for products, dropout before them or not; false where anything else reads it.
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

/// Whether a map yields the elements of its first input as they are.
bool givesInput(tile::MapOp map) {
  return !map.getInputs().empty() && map.getInputs()[0].getType() == map.getResult().getType() &&
         map.getYield().getValues()[0] == map.getElement(0);
}

struct FoldRectifiers : attune::impl::FoldRectifiersBase<FoldRectifiers> {
  using FoldRectifiersBase::FoldRectifiersBase;

  void runOnOperation() override {
    getOperation().walk([](tile::MapOp map) {
      // Where the map does not run, its input passes as it is.
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
