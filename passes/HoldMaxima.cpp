//===- HoldMaxima.cpp - A row keeps its maximum until exponentials grow out of range ---===//
//
// The softmax subtracts a row's maximum so that exp2 does not overflow; the maximum of some of the keys so far serves as well, as it leaves with the division by
// the sum. So m stays, and the tile's sum of exponentials, which is needed anyway, says whether it could:
//
//     before                                        after
//     --------------------------------------        ----------------------------------------------------------------------
//     m' = max(m, max(x))                           P = convert(exp2(c x - c m)); sum = sum of them, in each lane
//     p = exp2(c x - c m'); P = convert(p)          l' = l + sum
//     l' = l alpha + sum(p)                         if a lane of the warp has a sum of 2^15 or more, or a NaN:
//     O' = O alpha                                    what stands on the left
//
// Most tiles so need no maximum, no exchange between lanes and no rescaling. Where a row has seen no key m is the least finite number: what is hidden has exp2(-inf) = 0, and
// the first visible key exp2(inf).
// 2^15 is in range for P in f16 and far from the end of O and l in float32. Some key is at m, or was, so that l stays at 1 or above.
//
// S has to outlive the exponentials, which go to P's registers at once, 16 columns at a time. These the product with V before still reads. So the wait for it moves in front: it
// runs beside another warpgroup's softmax, not beside its own, and this is for warpgroups that take turns. Not for dropout, whose plans have none: its arithmetic takes so long
// that a wait in front of it is lost. Where the plan says `overlap` too, the wait stands behind the exponentials of the first half of the columns: they need no register of P's, and
// P is made of them with the others'.
//
// Not in the first tile, whose maximum moves in any case. Nor where the score counts positions and tiles are visited from the first on, as a search does: ALiBi rises along the
// keys by more than the range a tile.
//
//===----------------------------------------------------------------------===//

#include "ir/Holds.h"
#include "ir/sched/Sched.h"
#include "passes/Constants.h"
#include "passes/Maps.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace attune {
#define GEN_PASS_DEF_HOLDMAXIMA
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr float outOfRange = 32768;

/// A loop's softmax, and how its results leave the tile.
struct Softmax {
  tile::ReduceOp maximum;
  tile::MapOp base;         ///< the maximum, or 0 where there is none
  tile::MapOp exponentials;
  tile::MapOp alpha;        ///< by what the maximum's move changes the exponentials before
  tile::MapOp sumBefore, output; ///< the carried sum and accumulator, times alpha
  tile::ReduceOp sum;
  tile::ConvertOp probability;
  sched::MmaWaitOp wait;    ///< for the accumulator

  Value carriedSum() { return sumBefore.getInputs()[0]; }
  Value accumulator() { return output.getInputs()[0]; }

  /// All that follows from the maximum, in order, but for the base.
  SmallVector<Operation *> ops() {
    SmallVector<Operation *> ops{maximum, exponentials, alpha, sumBefore, output, sum, probability};
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return ops;
  }
};

/// The constant c > 0 of a map of elements x and rows m to exp2(c * x - c * m), as tile-fold-softmax-scale writes it: for f16 with the difference first.
std::optional<float> exponentFactor(tile::MapOp map) {
  auto exp = map.getInputs().size() == 2 ? map.getYield().getValues().front().getDefiningOp<math::Exp2Op>() : nullptr;
  if (!exp)
    return std::nullopt;
  std::optional<float> factor;
  if (auto fma = exp.getOperand().getDefiningOp<math::FmaOp>(); fma && fma.getA() == map.getElement(0)) {
    auto [row, negated] = splitFactor(fma.getC());
    factor = constantFloat(fma.getB());
    if (!factor || row != map.getElement(1) || negated != -*factor)
      return std::nullopt;
  } else if (auto [difference, by] = splitFactor(exp.getOperand()); difference) {
    auto subtract = difference.getDefiningOp<arith::SubFOp>();
    if (!subtract || subtract.getLhs() != map.getElement(0) || subtract.getRhs() != map.getElement(1))
      return std::nullopt;
    factor = by;
  }
  return factor && *factor > 0 ? factor : std::nullopt;
}

/// The users of `value`, if there are `count` of them, all in its block.
std::optional<SmallVector<Operation *>> usersOf(Value value, size_t count) {
  SmallVector<Operation *> users(value.getUsers());
  const bool match = users.size() == count && llvm::all_of(users, [&](Operation *user) { return user->getBlock() == value.getParentBlock(); });
  return match ? std::optional(users) : std::nullopt;
}

template <typename Op> Op onlyUser(Value value) {
  auto users = usersOf(value, 1);
  return users ? dyn_cast<Op>(users->front()) : Op();
}

/// The two users of `value`, a map to a vector and one to a tile, if these are all.
bool splitUsers(Value value, tile::MapOp &vector, tile::MapOp &tile) {
  auto users = usersOf(value, 2);
  if (!users)
    return false;
  for (Operation *user : *users)
    if (auto map = dyn_cast<tile::MapOp>(user))
      (cast<TileType>(map.getResult().getType()).rank() == 1 ? vector : tile) = map;
  return vector && tile;
}

std::optional<Softmax> match(sched::ForTilesOp loop) {
  Softmax softmax;
  for (auto [next, argument] : llvm::zip(loop.getNext().getValues(), loop.getBody().getArguments()))
    if (auto reduce = next.getDefiningOp<tile::ReduceOp>(); reduce && reduce.getKind() == tile::Reduction::Max && reduce.getInit() == argument)
      softmax.maximum = reduce;
  auto users = softmax.maximum ? usersOf(softmax.maximum.getResult(), 2) : std::nullopt;
  if (!users)
    return std::nullopt;
  for (Operation *user : *users)
    if (auto map = dyn_cast<tile::MapOp>(user))
      softmax.base = map;
  if (!softmax.base || !splitUsers(softmax.base.getResult(), softmax.alpha, softmax.exponentials) ||
      softmax.exponentials.getInputs() != ValueRange{softmax.maximum.getTile(), softmax.base.getResult()} ||
      softmax.alpha.getInputs() != ValueRange{softmax.maximum.getInit(), softmax.base.getResult()} || !exponentFactor(softmax.exponentials) ||
      !splitUsers(softmax.alpha.getResult(), softmax.sumBefore, softmax.output) || rescaleFactor(softmax.sumBefore) != softmax.alpha.getResult() ||
      rescaleFactor(softmax.output) != softmax.alpha.getResult())
    return std::nullopt;
  softmax.sum = onlyUser<tile::ReduceOp>(softmax.sumBefore.getResult());
  users = usersOf(softmax.exponentials.getResult(), 2);
  if (!users || !softmax.sum || !softmax.sum.getPerLane() || softmax.sum.getTile() != softmax.exponentials.getResult())
    return std::nullopt;
  for (Operation *user : *users)
    if (auto convert = dyn_cast<tile::ConvertOp>(user))
      softmax.probability = convert;
  for (Operation *user : softmax.accumulator().getUsers())
    if (auto wait = dyn_cast<sched::MmaWaitOp>(user); wait && wait->getBlock() == softmax.output->getBlock() && wait->isBeforeInBlock(softmax.output))
      softmax.wait = wait;
  return softmax.probability && softmax.wait ? std::optional(softmax) : std::nullopt;
}

/// A copy of `map` in front of it that computes its first half of the columns, whole blocks of 16; what stays for `map` are the others: all, where there is one block.
void splitFirstHalf(tile::MapOp map) {
  constexpr int64_t block = 16;
  const int64_t columns = map.getResult().getType().getShape().back(), half = columns / block / 2 * block;
  if (!half)
    return;
  OpBuilder builder(map);
  auto first = cast<tile::MapOp>(builder.clone(*map));
  first.setColumns(ArrayRef<int64_t>{0, half});
  map.setColumns(ArrayRef<int64_t>{half, columns});
  map.getInputsMutable().slice(0, 1).assign(first.getResult());
}

/// `overlap`: the first half of its exponentials beside the loop's own product with V.
void holdMaximum(sched::ForTilesOp loop, Softmax softmax, bool overlap) {
  tile::ReduceOp maximum = softmax.maximum;
  OpBuilder builder(maximum);
  Location loc = maximum.getLoc();
  const SmallVector<Operation *> moving = softmax.ops();
  Operation *last = moving.back();

  // A finite maximum where a row has seen no key, and c m finite too.
  {
    OpBuilder before(loop);
    const float least = -std::numeric_limits<float>::max() / std::max(1.0f, *exponentFactor(softmax.exponentials));
    Value constant = arith::ConstantOp::create(before, loc, before.getF32FloatAttr(least));
    OpOperand &init = loop.getTilesMutable()[cast<BlockArgument>(maximum.getInit()).getArgNumber() - loop.getInits().size()];
    init.set(createMap(before, loc, tile::nameOf(init.get()), init.get().getType(), init.get(),
                       [&](ValueRange v) -> Value { return arith::MaxNumFOp::create(before, loc, v[0], constant); }));
  }

  // The wait, with that for the next V in front of it, and what is released behind.
  SmallVector<Operation *> waiting;
  if (auto values = dyn_cast_or_null<sched::WaitOp>(softmax.wait->getPrevNode()))
    waiting.push_back(values);
  for (Operation *op = softmax.wait; op != softmax.output; op = op->getNextNode())
    if (isa<sched::MmaWaitOp, sched::ReleaseOp>(op))
      waiting.push_back(op);

  // By the maximum as it is.
  builder.setInsertionPointAfter(last);
  IRMapping held;
  held.map(softmax.base.getResult(), maximum.getInit());
  auto exponentials = cast<tile::MapOp>(builder.clone(*softmax.exponentials, held));
  Value p = held.lookup(softmax.exponentials.getResult());
  Value sum = tile::named(tile::ReduceOp::create(builder, loc, maximum.getResult().getType(), tile::Reduction::Sum, p, "k", Value(), /*per_lane=*/true), "sum");
  builder.clone(*softmax.probability, held);
  Value l = createMap(builder, loc, tile::nameOf(softmax.sum.getResult()), sum.getType(), {softmax.carriedSum(), sum},
                      [&](ValueRange v) -> Value { return arith::AddFOp::create(builder, loc, v[0], v[1]); });
  // Unordered: a NaN moves it.
  Value moves = createAny(builder, loc, "moves", sum, arith::CmpFPredicate::UGE, outOfRange);

  // Or as before, but that the maximum is finite in any case.
  softmax.base.getResult().replaceAllUsesWith(maximum.getResult());
  softmax.base.erase();
  const SmallVector<Value> moved{maximum.getResult(), softmax.sum.getResult(), softmax.output.getResult(), softmax.probability.getResult()};
  const SmallVector<Value> stayed{maximum.getInit(), l, softmax.accumulator(), held.lookup(softmax.probability.getResult())};
  auto branch = scf::IfOp::create(builder, loc, TypeRange(ValueRange(moved)), moves, /*withElseRegion=*/true);
  // In front of the branch in any case: its warps may go separate ways there, and the wait is the warpgroup's.
  if (overlap)
    splitFirstHalf(exponentials);
  for (Operation *op : waiting)
    op->moveBefore(overlap ? exponentials.getOperation() : maximum.getOperation());
  for (auto [value, result] : llvm::zip(moved, branch.getResults()))
    Value(value).replaceUsesWithIf(result, [&](OpOperand &use) { return !llvm::is_contained(moving, use.getOwner()); });
  for (Operation *op : moving)
    op->moveBefore(branch.thenBlock(), branch.thenBlock()->end());
  builder.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(builder, loc, moved);
  builder.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(builder, loc, stayed);
}

struct HoldMaxima : attune::impl::HoldMaximaBase<HoldMaxima> {
  using HoldMaximaBase::HoldMaximaBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel.getPlan().getTurns() || (holds<arith::SIToFPOp>(kernel) && holds<sched::NextVisibleOp>(kernel)))
        continue;
      kernel.walk([&](sched::ForTilesOp loop) {
        // The loop around it has the first tile.
        if (!loop->getParentOfType<sched::ForTilesOp>())
          return;
        if (std::optional<Softmax> softmax = match(loop))
          holdMaximum(loop, *softmax, kernel.getPlan().getOverlap());
      });
    }
  }
};

} // namespace
