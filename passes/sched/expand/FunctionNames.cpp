//===- FunctionNames.cpp - The loops that become device functions ------------===//
//
// The loops that a tile op becomes get the name of what they compute (`sched.function`), and the CUDA printer prints
// the loops as a device function of that name:
//
//     %m1 = tile.reduce max %s over "k" init %m        row_max(m_next, s, m);
//     %acc1 = tile.map(%acc, %alpha) { acc * alpha }   scale_rows(acc, alpha);
//     %p1 = tile.convert %p : f32 -> bf16              pack(p, s);
//
// The op and, for a map, the form of its region determine the name, not the names of the tiles. A map of no known form
// is called compute_NAME after its result.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

/// Whether the map yields its first input where a condition holds, and a constant elsewhere.
static bool masks(tile::MapOp op) {
  if (op.getInputs().empty() || op.getResult().getType().rank() != 2)
    return false;
  auto choice = op.getYield().getValues().front().getDefiningOp<arith::SelectOp>();
  Value own = op.getElement(0);
  auto isConstant = [](Value value) { return matchPattern(value, m_Constant()); };
  return choice && ((choice.getTrueValue() == own && isConstant(choice.getFalseValue())) ||
                    (choice.getFalseValue() == own && isConstant(choice.getTrueValue())));
}

/// Whether the map yields its first input times a vector along its rows.
static bool scalesRows(tile::MapOp op) {
  if (op.getInputs().size() != 2 || cast<TileType>(op.getInputs()[0].getType()).rank() != 2 ||
      cast<TileType>(op.getInputs()[1].getType()).rank() != 1)
    return false;
  auto product = op.getYield().getValues().front().getDefiningOp<arith::MulFOp>();
  return product && product.getLhs() == op.getElement(0) && product.getRhs() == op.getElement(1);
}

/// The function name compute_NAME for a tile, or `otherwise` if the tile has no name.
static std::string computes(Value tile, StringRef otherwise) {
  StringRef name = tile::nameOf(tile);
  return name.empty() ? otherwise.str() : ("compute_" + name).str();
}

static std::string nameOfReduction(tile::ReduceOp op) {
  const bool alongColumns = op.getTile().getType().axis(1) == op.getAxis();
  const StringRef kind = op.getKind() == tile::Reduction::Max   ? "max"
                         : op.getKind() == tile::Reduction::Min ? "min"
                                                                : "sum";
  return ((alongColumns ? "row_" : "column_") + kind).str();
}

static std::string functionNameOf(Operation *op) {
  return TypeSwitch<Operation *, std::string>(op)
      .Case([](tile::SplatOp) { return "fill"; })
      .Case([](tile::MapOp map) {
        return masks(map)        ? "apply_mask"
               : scalesRows(map) ? "scale_rows"
                                 : computes(map.getResult(), "compute_elements");
      })
      .Case([](tile::ReduceOp reduce) { return nameOfReduction(reduce); })
      .Case([](tile::CombineLanesOp) { return "combine_lanes"; })
      .Case([](tile::ConvertOp convert) {
        auto type = cast<TileType>(convert.getResult().getType());
        return type.getSpace() == MemorySpace::Register ? "pack" : "store_tile";
      })
      .Case([](tile::MmaOp) { return "multiply"; })
      .Case([](tile::DropoutOp) { return "drop_elements"; })
      .Case([](tile::LoadBlocksOp) { return "load_blocks"; })
      .Case([](tile::StoreBlocksOp) { return "store_blocks"; })
      .Case([](tile::LoadOp) { return "load_tile"; })
      .Case([](tile::StoreOp) { return "store_tile"; })
      .Case([](tile::AccumulateOp) { return "accumulate_tile"; })
      .Case([](tile::ScatterOp) { return "scatter_tile"; })
      .Case([](sched::CopyTileOp) { return "copy_tile"; })
      .Default([](Operation *) { return ""; });
}

/// Whether the loop writes one value from outside of the loop to elements of registers, and does nothing else.
static bool fillsOnly(scf::ForOp loop) {
  Value filled;
  bool fills = true;
  loop->walk([&](Operation *op) {
    auto set = dyn_cast<sched::SetOp>(op);
    if (!set) {
      fills &= isa<scf::ForOp, scf::YieldOp, arith::ConstantOp, arith::AddIOp, arith::MulIOp>(op);
      return;
    }
    fills &= !loop->isProperAncestor(set.getValue().getParentRegion()->getParentOp()) &&
             (!filled || filled == set.getValue());
    filled = set.getValue();
  });
  return fills && filled;
}

void KernelExpander::nameFunctions(Operation *op, Block *block, Operation *before) {
  const std::string name = functionNameOf(op);
  if (name.empty() || block != builder.getInsertionBlock())
    return;
  auto mark = [&](Operation *op) {
    auto outermost = dyn_cast<scf::ForOp>(op);
    if (!outermost)
      return WalkResult::advance();
    Attribute attribute = builder.getStringAttr(fillsOnly(outermost) ? "fill" : name);
    if (!outermost->hasAttr(sched::functionAttr))
      outermost->walk([&](scf::ForOp loop) { loop->setAttr(sched::functionAttr, attribute); });
    return WalkResult::skip();
  };
  for (auto at = before ? std::next(Block::iterator(before)) : block->begin(); at != builder.getInsertionPoint(); ++at)
    at->walk<WalkOrder::PreOrder>(mark);
}

} // namespace attune::expansion
