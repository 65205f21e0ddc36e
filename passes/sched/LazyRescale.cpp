//===- LazyRescale.cpp - A row keeps its maximum until exponentials grow out of range ---===//
//
// The softmax subtracts a row's maximum so that exp2 does not overflow; the maximum of some of the keys so far serves
// as well, as it leaves with the division by the sum. So m stays, and the tile's sum of exponentials, which is needed
// anyway, says whether it could:
//
//     before                                        after
//     --------------------------------------        -------------------------------------------------------------
//     m' = max(m, max(x))                           P = convert(exp2((x - m) c)); sum = sum of them, in each lane
//     p = exp2((x - m') c); P = convert(p)          l' = l + sum
//     l' = l alpha + sum(p)                         if a lane of the warp has a sum of 2^15 or more, or a NaN:
//     O' = O alpha                                    what stands on the left
//
// Most tiles so need no maximum, no exchange between lanes and no rescaling. 2^15 is in range for P in f16 and far from
// the end of O and l in float32. Some key is at m, or was, so that l stays at 1 or above.
//
// What is on the right is exp2((x - m) c) for f16 and for `precise`. For bf16 it is one multiply-add, exp2(c x +
// addend), whose addend is carried beside m (createAddend): rows for which its rounding would matter have an infinite
// addend, and go to the left in every tile. Where a row has seen no key m is the least finite float, and the addend the
// greatest: what is hidden has exp2(-inf) = 0, and the first visible key exp2(inf).
//
// S has to outlive the exponentials, which go to P's registers at once, 16 columns at a time. These the product with V
// before still reads. So the wait for it moves in front: it runs beside another warpgroup's softmax, not beside its
// own, and this is for warpgroups that take turns. Not for dropout, whose plans have none: its arithmetic takes so long
// that a wait in front of it is lost. Where the kernel has `sched.overlap` too, the wait stands behind the exponentials of the
// first half of the columns: they need no register of P's, and P is made of them with the others'.
//
// Not in the first tile, whose maximum moves in any case. Nor where the score counts positions and tiles are visited
// from the first on, as a search does: ALiBi rises along the keys by more than the range a tile.
//
//===----------------------------------------------------------------------===//

#include "ir/NestedOps.h"
#include "ir/sched/Sched.h"
#include "passes/Passes.h"
#include "passes/analysis/Constants.h"
#include "passes/analysis/MapPatterns.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace attune {
#define GEN_PASS_DEF_LAZYRESCALE
#include "passes/Passes.h.inc"
} // namespace attune

using namespace mlir;
using namespace attune;
using tile::TileType;

namespace {

constexpr float outOfRange = 32768;
constexpr float greatest = std::numeric_limits<float>::max();

/// A loop's softmax, and how its results leave the tile.
struct Softmax {
  tile::ReduceOp maximum;
  tile::MapOp base; ///< the maximum, or 0 where there is none
  tile::MapOp exponentials;
  tile::MapOp alpha;             ///< by what the maximum's move changes the exponentials before
  tile::MapOp sumBefore, output; ///< the carried sum and accumulator, times alpha
  tile::ReduceOp sum;
  tile::ConvertOp probability;
  sched::MmaWaitOp wait; ///< for the accumulator

  Value carriedSum() { return sumBefore.getInputs()[0]; }
  Value accumulator() { return output.getInputs()[0]; }

  /// All that follows from the maximum, in order, but for the base.
  SmallVector<Operation *> ops() {
    SmallVector<Operation *> ops{maximum, exponentials, alpha, sumBefore, output, sum, probability};
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return ops;
  }

  /// The wait, with that for the next V in front of it, and what is released behind.
  SmallVector<Operation *> waits() {
    SmallVector<Operation *> waits;
    if (auto values = dyn_cast_or_null<sched::WaitOp>(wait->getPrevNode()))
      waits.push_back(values);
    for (Operation *op = wait; op != output; op = op->getNextNode())
      if (isa<sched::MmaWaitOp, sched::ReleaseOp>(op))
        waits.push_back(op);
    return waits;
  }
};

/// The users of `value`, if there are `count` of them, all in its block.
std::optional<SmallVector<Operation *>> usersOf(Value value, size_t count) {
  SmallVector<Operation *> users(value.getUsers());
  const bool match = users.size() == count &&
                     llvm::all_of(users, [&](Operation *user) { return user->getBlock() == value.getParentBlock(); });
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
    if (auto reduce = next.getDefiningOp<tile::ReduceOp>();
        reduce && reduce.getKind() == tile::Reduction::Max && reduce.getInit() == argument)
      softmax.maximum = reduce;
  auto users = softmax.maximum ? usersOf(softmax.maximum.getResult(), 2) : std::nullopt;
  if (!users)
    return std::nullopt;
  for (Operation *user : *users)
    if (auto map = dyn_cast<tile::MapOp>(user))
      softmax.base = map;
  if (!softmax.base || !splitUsers(softmax.base.getResult(), softmax.alpha, softmax.exponentials) ||
      softmax.exponentials.getInputs() != ValueRange{softmax.maximum.getTile(), softmax.base.getResult()} ||
      softmax.alpha.getInputs() != ValueRange{softmax.maximum.getInit(), softmax.base.getResult()} ||
      !exponentFactor(softmax.exponentials) ||
      !splitUsers(softmax.alpha.getResult(), softmax.sumBefore, softmax.output) ||
      rescaleFactor(softmax.sumBefore) != softmax.alpha.getResult() ||
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
    if (auto wait = dyn_cast<sched::MmaWaitOp>(user);
        wait && wait->getBlock() == softmax.output->getBlock() && wait->isBeforeInBlock(softmax.output))
      softmax.wait = wait;
  return softmax.probability && softmax.wait ? std::optional(softmax) : std::nullopt;
}

/// Whether the ops that follow from the maximum can move behind all that is between them, and the waits to where these
/// begin, or end: nothing between reads what they give, and what is waited for has begun, or is not read before.
bool isInOneBlock(Softmax softmax, bool overlap) {
  const SmallVector<Operation *> moving = softmax.ops(), waits = softmax.waits();
  Operation *first = softmax.maximum, *last = moving.back();
  auto readBetween = [&](Value value, Operation *from) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *reader = first->getBlock()->findAncestorOpInBlock(*user);
      return reader && from->isBeforeInBlock(reader) && reader->isBeforeInBlock(last) && reader != softmax.base &&
             !llvm::is_contained(moving, reader) && !llvm::is_contained(waits, reader);
    });
  };
  auto hasBegun = [&](Value value) {
    Operation *producer = value.getDefiningOp();
    return !producer || producer->getBlock() != first->getBlock() || producer->isBeforeInBlock(first);
  };
  return llvm::none_of(moving, [&](Operation *op) { return readBetween(op->getResult(0), op); }) &&
         llvm::all_of(waits, [&](Operation *op) {
           return llvm::all_of(op->getOperands(), [&](Value operand) {
             return overlap ? isa<sched::WaitOp, sched::ReleaseOp>(op) || !readBetween(operand, op) : hasBegun(operand);
           });
         });
}

/// A copy of `map` in front of it that computes its first half of the columns, whole blocks of 16; what stays for `map`
/// are the others: all, where there is one block.
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

/// The loop with one more carried tile, the last. Its next value is not there yet: the caller appends it to what
/// `sched.next` takes.
sched::ForTilesOp carryTile(sched::ForTilesOp loop, Value init) {
  OpBuilder builder(loop);
  SmallVector<Value> tiles(loop.getTiles());
  tiles.push_back(init);
  auto wider =
      sched::ForTilesOp::create(builder, loop.getLoc(), loop.getInits(), loop.getBound(), tiles, loop.getKeeps());
  wider->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  Block &body = wider.getBody().front();
  for (auto [old, argument] : llvm::zip(loop.getBody().getArguments(), body.getArguments()))
    old.replaceAllUsesWith(argument);
  body.getOperations().splice(body.end(), loop.getBody().front().getOperations());
  const size_t results = loop.getTiles().size();
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    result.replaceAllUsesWith(wider.getResult(i < results ? i : i + 1));
  loop.erase();
  return wider;
}

/// Where |c m| is below, a multiply-add's addend c m is rounded by at most 2^-11, less than bf16 rounds the
/// exponential. Beyond, exponents take the difference x - m.
constexpr float farExponent = 16384;

/// What the multiply-add of an exponent adds for a row of maximum m, for bf16: exp2(fma(c, x, addend)).
///
///     m                              addend
///     |c m| < 2^14                   -c m, rounded by 2^-11 at most, less than P is
///     no key so far (least)          such that the first visible key, however small, makes exp2 infinite, and hidden
///                                    ones 0; for c >= 1 no such number exists: as below
///     else                           infinity: every tile moves the maximum, and takes the exact difference
Value createAddend(OpBuilder &builder, Location loc, Value maximum, float factor) {
  return createMap(builder, loc, "addend", maximum.getType(), maximum, [&](ValueRange v) -> Value {
    auto constant = [&](float value) -> Value {
      return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
    };
    Value product = arith::MulFOp::create(builder, loc, v[0], constant(-factor));
    Value small = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                        math::AbsFOp::create(builder, loc, product), constant(farExponent));
    Value otherwise = constant(std::numeric_limits<float>::infinity());
    if (factor < 1) {
      Value none = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, v[0], constant(-greatest));
      otherwise = arith::SelectOp::create(builder, loc, none, constant(greatest), otherwise);
    }
    return arith::SelectOp::create(builder, loc, small, product, otherwise);
  });
}

/// exp2(fma(x, c, addend)) in the place of exp2((x - m) * c).
tile::MapOp fuseExponents(OpBuilder &builder, tile::MapOp exponentials, Value addend, float factor) {
  Location loc = exponentials.getLoc();
  Value p = createMap(builder, loc, tile::nameOf(exponentials.getResult()), exponentials.getResult().getType(),
                      {exponentials.getInputs()[0], addend}, [&](ValueRange v) -> Value {
                        Value c = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(factor));
                        return math::Exp2Op::create(builder, loc, math::FmaOp::create(builder, loc, v[0], c, v[1]));
                      });
  return p.getDefiningOp<tile::MapOp>();
}

/// `overlap`: the first half of its exponentials beside the loop's own product with V. `byAddend`: they are
/// multiply-adds.
void keepMaximum(sched::ForTilesOp loop, Softmax softmax, bool overlap, bool byAddend) {
  tile::ReduceOp maximum = softmax.maximum;
  const float factor = *exponentFactor(softmax.exponentials);
  Location loc = maximum.getLoc();
  const SmallVector<Operation *> moving = softmax.ops();
  Operation *last = moving.back();

  // A finite maximum where a row has seen no key.
  const unsigned scalars = loop.getInits().size();
  {
    OpBuilder before(loop);
    Value least = arith::ConstantOp::create(before, loc, before.getF32FloatAttr(-greatest));
    OpOperand &init = loop.getTilesMutable()[cast<BlockArgument>(maximum.getInit()).getArgNumber() - scalars];
    init.set(createMap(before, loc, tile::nameOf(init.get()), init.get().getType(), init.get(),
                       [&](ValueRange v) -> Value { return arith::MaxNumFOp::create(before, loc, v[0], least); }));
    if (byAddend)
      loop = carryTile(loop, createAddend(before, loc, init.get(), factor));
  }

  const SmallVector<Operation *> waits = softmax.waits();

  // By the maximum as it is.
  OpBuilder builder(loop.getContext());
  builder.setInsertionPointAfter(last);
  IRMapping held;
  held.map(softmax.base.getResult(), maximum.getInit());
  auto exponentials = byAddend
                          ? fuseExponents(builder, softmax.exponentials, loop.getBody().getArguments().back(), factor)
                          : cast<tile::MapOp>(builder.clone(*softmax.exponentials, held));
  Value p = exponentials.getResult();
  held.map(softmax.exponentials.getResult(), p);
  Value sum = tile::named(tile::ReduceOp::create(builder, loc, maximum.getResult().getType(), tile::Reduction::Sum, p,
                                                 maximum.getAxis(), Value(), /*per_lane=*/true),
                          "sum");
  builder.clone(*softmax.probability, held);
  Value l = createMap(builder, loc, tile::nameOf(softmax.sum.getResult()), sum.getType(), {softmax.carriedSum(), sum},
                      [&](ValueRange v) -> Value { return arith::AddFOp::create(builder, loc, v[0], v[1]); });
  // Unordered: a NaN moves it.
  Value moves = createAny(builder, loc, "moves", sum, arith::CmpFPredicate::UGE, outOfRange);

  // Or as before, but that the maximum is finite in any case.
  softmax.base.getResult().replaceAllUsesWith(maximum.getResult());
  softmax.base.erase();
  SmallVector<Value> moved{maximum.getResult(), softmax.sum.getResult(), softmax.output.getResult(),
                           softmax.probability.getResult()};
  SmallVector<Value> stayed{maximum.getInit(), l, softmax.accumulator(), held.lookup(softmax.probability.getResult())};
  if (byAddend) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(maximum);
    moved.push_back(createAddend(builder, loc, maximum.getResult(), factor));
    stayed.push_back(loop.getBody().getArguments().back());
  }
  auto branch = scf::IfOp::create(builder, loc, TypeRange(ValueRange(moved)), moves, /*withElseRegion=*/true);
  // In front of the branch in any case: its warps may go separate ways there, and the wait is the warpgroup's.
  if (overlap)
    splitFirstHalf(exponentials);
  for (Operation *op : waits)
    if (overlap || maximum->isBeforeInBlock(op))
      op->moveBefore(overlap ? exponentials.getOperation() : maximum.getOperation());
  // All that follows from the maximum.
  SmallVector<Operation *> inside(moving);
  if (byAddend)
    inside.insert(llvm::find(inside, maximum.getOperation()) + 1, moved.back().getDefiningOp());
  for (auto [value, result] : llvm::zip(moved, branch.getResults()))
    Value(value).replaceUsesWithIf(result, [&](OpOperand &use) { return !llvm::is_contained(inside, use.getOwner()); });
  for (Operation *op : inside)
    op->moveBefore(branch.thenBlock(), branch.thenBlock()->end());
  builder.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(builder, loc, moved);
  builder.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(builder, loc, stayed);
  if (byAddend) {
    sched::NextOp next = loop.getNext();
    next.getValuesMutable().append(branch.getResults().back());
  }
}

struct LazyRescale : attune::impl::LazyRescaleBase<LazyRescale> {
  using LazyRescaleBase::LazyRescaleBase;

  static bool isMaximum(tile::ReduceOp reduce) { return reduce.getKind() == tile::Reduction::Max; }

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<tile::KernelOp>()) {
      if (!kernel->hasAttr(sched::pingPongAttr) || !holds<tile::ReduceOp>(kernel, isMaximum))
        continue;
      if (holds<arith::SIToFPOp>(kernel) && holds<sched::NextVisibleOp>(kernel)) {
        tile::remark(kernel, "rows take the maximum of every tile: the score counts positions, and tiles that follow "
                             "from a search are visited forwards");
        continue;
      }
      kernel.walk([&](sched::ForTilesOp loop) {
        // The loop around it has the first tile.
        if (!loop->getParentOfType<sched::ForTilesOp>())
          return;
        std::optional<Softmax> softmax = match(loop);
        if (softmax && isInOneBlock(*softmax, kernel->hasAttr(sched::overlapAttr)))
          keepMaximum(loop, *softmax, kernel->hasAttr(sched::overlapAttr),
                      kernel.getDtype().isBF16() && !kernel.getPrecise());
        else if (softmax)
          tile::remark(kernel,
                       "rows take the maximum of every tile: the schedule has other ops among those that follow "
                       "from it, which read them, or are waited for");
        else if (holds<tile::ReduceOp>(loop, isMaximum))
          tile::remark(kernel, "rows take the maximum of every tile: what follows from it is not exp2 of what exceeds "
                               "it, times a constant, with a sum and an accumulator that are rescaled");
      });
    }
  }
};

} // namespace
