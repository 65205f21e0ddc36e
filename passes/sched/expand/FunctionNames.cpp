//===- FunctionNames.cpp - The loops that become device functions ------------===//
//
// The loops that a tile op becomes get the name of what they compute (`sched.function`), and the CUDA printer prints them
// as a device function of that name:
//
//     %m1 = tile.reduce max %s over "k" init %m        row_max(m_next, s, m);
//     %acc1 = tile.map(%acc, %alpha) { acc * alpha }   scale_rows(acc, alpha);
//     %p1 = tile.convert %p : f32 -> bf16              pack(p, s);
//
// The name follows from the op and from the form of a map's region, not from what the tiles are called; a map of no such
// form is compute_NAME of its result.
//
//===----------------------------------------------------------------------===//

#include "passes/sched/expand/KernelExpander.h"

namespace attune::expansion {

/// The map's first input in elements for which a condition holds, a constant in the others.
static bool masks(tile::MapOp op) {
  if (op.getInputs().empty())
    return false;
  auto choice = op.getYield().getValues().front().getDefiningOp<arith::SelectOp>();
  Value own = op.getElement(0);
  auto isConstant = [](Value value) { return matchPattern(value, m_Constant()); };
  return choice && ((choice.getTrueValue() == own && isConstant(choice.getFalseValue())) ||
                    (choice.getFalseValue() == own && isConstant(choice.getTrueValue())));
}

/// The map's first input times a vector along its rows.
static bool scalesRows(tile::MapOp op) {
  if (op.getInputs().size() != 2 || cast<TileType>(op.getInputs()[0].getType()).rank() != 2 ||
      cast<TileType>(op.getInputs()[1].getType()).rank() != 1)
    return false;
  auto product = op.getYield().getValues().front().getDefiningOp<arith::MulFOp>();
  return product && product.getLhs() == op.getElement(0) && product.getRhs() == op.getElement(1);
}

/// compute_NAME of a tile, or `otherwise` where it has no name.
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

void KernelExpander::nameFunctions(Operation *op, Block *block, Operation *before) {
  const std::string name = functionNameOf(op);
  if (name.empty() || block != builder.getInsertionBlock())
    return;
  auto mark = [&](scf::ForOp loop) { loop->setAttr(sched::functionAttr, builder.getStringAttr(name)); };
  for (auto at = before ? std::next(Block::iterator(before)) : block->begin(); at != builder.getInsertionPoint(); ++at)
    at->walk(mark);
}

} // namespace attune::expansion
