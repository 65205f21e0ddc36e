//===- Phases.cpp - Comments in the generated source -------------===//
//
// Writes comments for the reader of the generated CUDA source, from the names of the tiles:
//
//     %s = tile.mma %q_tile, %k_tile              S = Q K^T
//     %acc1 = tile.mma %p, %v_tile add %acc       ACC += P V
//     tile.reduce max %x over "k" init %m         m_next: the greatest of X along k, and of m
//
// A pass that moved a term of the user's formula explains the new formula in a `tile.comment`, which is printed first.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "passes/sched/expand/KernelExpander.h"

#include "llvm/ADT/StringExtras.h"

namespace attune::expansion {

/// The tile after which `tile` is named: for a tile that a loop carries, the loop's initial value; else `tile`.
static Value sourceOf(Value tile) {
  while (auto argument = dyn_cast<BlockArgument>(tile)) {
    auto loop = dyn_cast<sched::ForTilesOp>(argument.getOwner()->getParentOp());
    const int64_t number = loop ? int64_t(argument.getArgNumber()) - int64_t(loop.getInits().size()) : -1;
    if (number < 0 || number >= int64_t(loop.getTiles().size()))
      break;
    tile = loop.getTiles()[number];
  }
  return tile;
}

/// The name of a tile's content without its location: "K" for k_tile.
static std::string wordFor(Value tile) {
  tile = sourceOf(tile);
  StringRef name = tile::nameOf(tile);
  if (auto slot = tile.getDefiningOp<sched::SlotOp>())
    if (auto shared = slot->getOperand(0).getDefiningOp<sched::SharedOp>())
      name = shared.getName();
  for (StringRef place : {"_fragment", "_tile", "_ring", "_bf16", "_f16"})
    name.consume_back(place);
  if (name.empty())
    return "";
  return cast<TileType>(tile.getType()).rank() == 2 ? name.upper() : name.str();
}

/// The name of a product's operand: "K", or "K^T" if the axis `contracted` is not axis number `usual` of the operand.
static std::string factorFor(Value tile, StringRef contracted, unsigned usual) {
  const std::string word = wordFor(tile);
  return word.empty() ? "" : word + (cast<TileType>(tile.getType()).axis(usual) == contracted ? "" : "^T");
}

static std::string phaseOf(tile::MmaOp op) {
  auto lhs = cast<TileType>(op.getLhs().getType()), rhs = cast<TileType>(op.getRhs().getType());
  StringRef contracted = rhs.hasAxis(lhs.axis(0)) ? lhs.axis(0) : lhs.axis(1);
  std::string left = factorFor(op.getLhs(), contracted, 1), right = factorFor(op.getRhs(), contracted, 0),
              result = wordFor(op.getResult());
  if (left.empty() || right.empty() || result.empty())
    return "";
  // A product's rows are those of its left operand. A result tile with other rows is the product's transpose.
  if (!lhs.hasAxis(op.getResult().getType().axis(0)))
    result += "^T";
  return result + (op.getAcc() ? " += " : " = ") + left + " " + right;
}

static std::string phaseOf(tile::ReduceOp op) {
  const std::string result = wordFor(op.getResult()), source = wordFor(op.getTile());
  if (result.empty() || source.empty())
    return "";
  const char *what = op.getKind() == tile::Reduction::Max   ? "the greatest"
                     : op.getKind() == tile::Reduction::Min ? "the least"
                                                            : "the sum";
  const std::string init = op.getInit() ? wordFor(op.getInit()) : "";
  return result + ": " + what + " of " + source + " along " + op.getAxis().str() +
         (init.empty() ? "" : ", and of " + init) + (op.getPerLane() ? ", each lane's part" : "");
}

/// The comment on an op: the `tile.comment` that a pass has set, then the formula of a product or reduction. Empty for
/// most ops.
static std::string phaseOf(Operation *op) {
  std::string phase;
  if (auto mma = dyn_cast<tile::MmaOp>(op))
    phase = phaseOf(mma);
  else if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    phase = phaseOf(reduce);
  auto comment = op->getAttrOfType<StringAttr>(tile::commentAttr);
  if (!comment)
    return phase;
  return comment.getValue().str() + (phase.empty() ? "" : "; " + phase);
}

/// Whether an op is a separate statement in the source.
static bool isStatement(Operation &op) {
  return op.getNumRegions() || isa<sched::RegistersOp>(op) || !isMemoryEffectFree(&op);
}

void KernelExpander::commentPhase(Operation *op, Block *block, Operation *before) {
  const std::string phase = phaseOf(op);
  if (phase.empty() || block != builder.getInsertionBlock())
    return;
  for (auto at = before ? std::next(Block::iterator(before)) : block->begin(); at != builder.getInsertionPoint(); ++at)
    if (isStatement(*at)) {
      if (!at->hasAttr(tile::commentAttr))
        at->setAttr(tile::commentAttr, builder.getStringAttr(phase));
      return;
    }
}

/// Puts the text `phase` before the comment that `op` already has.
static void addPhase(Operation &op, StringRef phase) {
  auto comment = op.getAttrOfType<StringAttr>(tile::commentAttr);
  op.setAttr(tile::commentAttr, StringAttr::get(op.getContext(), comment ? phase + ". " + comment.getValue() : phase));
}

void KernelExpander::namePhases(sched::KernelOp written) {
  auto multiplies = [](Operation *op) { return isa<sched::MmaOp, sched::MmaAsyncOp>(op); };
  written.walk([&](sched::ForTilesOp loop) {
    auto isInner = [&](sched::ForTilesOp inner) { return inner != loop && holds<Operation *>(inner, multiplies); };
    if (!holds<Operation *>(loop, multiplies) || holds<sched::ForTilesOp>(loop, isInner))
      return;
    // If the first tile is peeled off, an outer loop, which runs at most once, contains the ops of that tile and the
    // steady-state loop. The outer loop continues the prologue.
    Operation *outermost = loop;
    while (auto around = outermost->getParentOfType<sched::ForTilesOp>())
      outermost = around;
    if (auto first = llvm::find_if(*outermost->getBlock(), isStatement); &*first != outermost)
      addPhase(*first, "Prologue");
    if (outermost != loop)
      addPhase(*outermost, "Prologue, continued: the first tile");
    addPhase(*loop, "Steady state: one tile per iteration");
    auto after = std::find_if(std::next(Block::iterator(loop)), loop->getBlock()->end(), isStatement);
    if (after != loop->getBlock()->end())
      addPhase(*after, "Epilogue");
  });
}

} // namespace attune::expansion
